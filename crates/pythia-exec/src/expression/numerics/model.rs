//! XPath's rules for SPARQL's numbers, as rational arithmetic: values, casts, promotion, arithmetic. Also
//! random numbers and expressions with their expected values.

use std::cmp::Ordering;

use oxrdf::{Literal, Term};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::super::number::Arithmetic;
use super::super::rational::Rational;

/// The four types of numbers, from the narrowest to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Kind {
    Integer,
    Decimal,
    Float,
    Double,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Decimal => "decimal",
            Self::Float => "float",
            Self::Double => "double",
        }
    }

    pub(super) fn datatype(self) -> String {
        format!("http://www.w3.org/2001/XMLSchema#{}", self.name())
    }

    pub(super) fn is_exact(self) -> bool {
        matches!(self, Self::Integer | Self::Decimal)
    }

    /// Returns whether a number is written in the form of this type.
    pub(super) fn has_form(self, text: &str) -> bool {
        match self {
            Self::Integer => !text.contains(['.', 'e', 'E']),
            Self::Decimal => !text.contains(['e', 'E']),
            Self::Float | Self::Double => true,
        }
    }
}

/// A finite number.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Model {
    pub(in super::super) kind: Kind,
    pub(in super::super) number: Rational,
}

/// The expected result of an expression.
#[derive(Clone, Debug)]
pub(in super::super) enum Outcome {
    Number(Model),
    Error,
    /// An infinity or NaN, or a result of one.
    Unknown,
}

impl Outcome {
    pub(super) fn then(self, next: impl FnOnce(Model) -> Self) -> Self {
        match self {
            Self::Number(model) => next(model),
            other => other,
        }
    }

    /// Panics unless the term is this result.
    pub(super) fn check(&self, term: Option<&Term>, what: &dyn Fn() -> String) {
        match self {
            Self::Number(expected) => {
                let Some(term) = term else {
                    panic!("{}: an error instead of {expected:?}", what());
                };
                let outcome = Model::of_term(term);
                assert_eq!(outcome.as_ref(), Some(expected), "{}: {term}", what());
            }
            Self::Error => assert_eq!(term, None, "{}", what()),
            Self::Unknown => {}
        }
    }
}

impl Model {
    /// Returns the value of a lexical form; `None` if it is not finite.
    pub(in super::super) fn parse(text: &str, kind: Kind) -> Option<Self> {
        Self::rounded(Rational::parse(text)?, kind)
    }

    /// Returns the value of a numeric literal.
    pub(in super::super) fn of_term(term: &Term) -> Option<Self> {
        let Term::Literal(literal) = term else {
            return None;
        };
        Self::of_literal(literal)
    }

    fn of_literal(literal: &Literal) -> Option<Self> {
        let kinds = [Kind::Integer, Kind::Decimal, Kind::Float, Kind::Double];
        let datatype = literal.datatype();
        let kind = kinds
            .into_iter()
            .find(|kind| kind.datatype() == datatype.as_str())?;
        Self::parse(literal.value(), kind)
    }

    fn rounded(number: Rational, kind: Kind) -> Option<Self> {
        let number = match kind {
            Kind::Integer | Kind::Decimal => number,
            Kind::Float => number.nearest_float()?,
            Kind::Double => number.nearest_double()?,
        };
        Some(Self { kind, number })
    }

    fn outcome(number: Rational, kind: Kind) -> Outcome {
        Self::rounded(number, kind).map_or(Outcome::Unknown, Outcome::Number)
    }

    /// Casts a number (XPath F&O §19.1.2). A wider type holds every value or its nearest; an integer loses
    /// its fraction.
    pub(in super::super) fn cast(&self, kind: Kind) -> Outcome {
        let number = match kind {
            Kind::Integer => self.number.truncated(0),
            _ => self.number.clone(),
        };
        Self::outcome(number, kind)
    }

    fn promoted(&self, other: &Self) -> Option<(Rational, Rational, Kind)> {
        let kind = self.kind.max(other.kind);
        let promote = |model: &Self| Some(Self::rounded(model.number.clone(), kind)?.number);
        Some((promote(self)?, promote(other)?, kind))
    }

    /// Compares for `<`; `None` if one number becomes infinite.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        let (a, b, _) = self.promoted(other)?;
        Some(a.cmp(&b))
    }

    pub(super) fn apply(&self, operator: Arithmetic, other: &Self) -> Outcome {
        let Some((a, b, kind)) = self.promoted(other) else {
            return Outcome::Unknown;
        };
        match operator {
            Arithmetic::Add => Self::outcome(&a + &b, kind),
            Arithmetic::Subtract => Self::outcome(&a - &b, kind),
            Arithmetic::Multiply => Self::outcome(&a * &b, kind),
            Arithmetic::Divide if b.is_zero() && kind.is_exact() => Outcome::Error,
            Arithmetic::Divide if b.is_zero() => Outcome::Unknown,
            Arithmetic::Divide if kind.is_exact() => {
                let digits = |number: &Rational| number.fraction_digits().expect("a decimal");
                let digits = digits(&a).max(digits(&b)).max(18);
                Self::outcome(a.divide(&b).truncated(digits), Kind::Decimal)
            }
            Arithmetic::Divide => Self::outcome(a.divide(&b), kind),
        }
    }

    /// Evaluates `ABS`, `CEIL`, `FLOOR`, `ROUND` or unary minus.
    fn call(&self, function: &str) -> Outcome {
        let half = Rational::new(1, 2);
        let number = match function {
            "ABS" => self.number.abs(),
            "FLOOR" => self.number.floor(),
            "CEIL" => -(-self.number.clone()).floor(),
            "ROUND" => (&self.number + &half).floor(),
            _ => -self.number.clone(),
        };
        Self::outcome(number, self.kind)
    }
}

/// A number in written form.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) kind: Kind,
}

impl Written {
    /// Returns whether the number has at most 15 digits, so that each double has at most one such number,
    /// and is not a float, which has fewer.
    pub(super) fn is_short(&self) -> bool {
        let digits = self.text.split(['e', 'E']).next().unwrap_or_default();
        let digits = digits.trim_start_matches(['0', '.', '-', '+']);
        let count = digits.bytes().filter(u8::is_ascii_digit).count();
        count <= 15 && self.kind != Kind::Float
    }

    fn literal(&self) -> String {
        format!("\"{}\"^^xsd:{}", self.text, self.kind.name())
    }
}

fn digits(random: &mut StdRng, count: usize) -> String {
    (0..count)
        .map(|_| char::from(b'0' + random.random_range(0..10)))
        .collect()
}

/// Returns a random number: short and long ones, numbers at the limits of their types, and floating-point
/// numbers of random bits.
pub(super) fn written(random: &mut StdRng) -> Written {
    const EDGES: &[&str] = &[
        "0",
        "1",
        "10",
        "65535",
        "100000",
        "1000000",
        "16777217",
        "2147483648",
        "9007199254740991",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "170141183460469231731",
        "170141183460469231732",
        "340282366920938463463374607431768211456",
    ];
    let sign = *["", "", "-"].choose(random).expect("a choice");
    let whole = match random.random_range(0..4) {
        0 => EDGES.choose(random).expect("a choice").to_string(),
        1 => random.random_range(0..1000).to_string(),
        _ => {
            let count = random.random_range(1..25);
            format!(
                "{}{}",
                random.random_range(1..10),
                digits(random, count - 1)
            )
        }
    };
    let fraction = |random: &mut StdRng| match random.random_range(0..3) {
        0 => "0".to_owned(),
        1 => ["5", "25", "1", "001", "999"]
            .choose(random)
            .expect("a choice")
            .to_string(),
        _ => {
            let count = random.random_range(1..24);
            digits(random, count)
        }
    };
    let bits: u64 = random.random();
    let (text, kind) = match random.random_range(0..7) {
        0 => (format!("{sign}{whole}"), Kind::Integer),
        1 | 2 => (format!("{sign}{whole}.{}", fraction(random)), Kind::Decimal),
        3 => (
            format!("{sign}{whole}.{}e0", fraction(random)),
            Kind::Double,
        ),
        4 => (
            format!("{sign}{whole}e{}", random.random_range(-30..30)),
            Kind::Double,
        ),
        5 if f64::from_bits(bits).is_finite() => {
            (format!("{:e}", f64::from_bits(bits)), Kind::Double)
        }
        6 if f32::from_bits(bits as u32).is_finite() => {
            (format!("{:e}", f32::from_bits(bits as u32)), Kind::Float)
        }
        _ => (format!("{sign}{whole}.5"), Kind::Float),
    };
    Written { text, kind }
}

/// Returns two numbers, mostly of about the same value.
pub(super) fn neighbours(random: &mut StdRng) -> (Written, Written) {
    let a = written(random);
    let form = if a.text.contains(['e', 'E']) {
        Kind::Float
    } else if a.text.contains('.') {
        Kind::Decimal
    } else {
        Kind::Integer
    };
    let b = match random.random_range(0..4) {
        0 => written(random),
        // The same text as another type that has this form.
        1 | 2 => {
            let kinds = [Kind::Integer, Kind::Decimal, Kind::Float, Kind::Double];
            let kinds: Vec<Kind> = kinds.into_iter().filter(|kind| *kind >= form).collect();
            Written {
                text: a.text.clone(),
                kind: *kinds.choose(random).expect("a double at least"),
            }
        }
        // A different last digit.
        _ => {
            let (mantissa, exponent) = match a.text.find(['e', 'E']) {
                Some(at) => a.text.split_at(at),
                None => (a.text.as_str(), ""),
            };
            let mut mantissa = mantissa.to_owned();
            mantissa.pop();
            mantissa.push_str(&digits(random, 1));
            Written {
                text: format!("{mantissa}{exponent}"),
                kind: a.kind,
            }
        }
    };
    (a, b)
}

/// Returns a random expression as text, and its result.
pub(super) fn expression(random: &mut StdRng, depth: u32) -> (String, Outcome) {
    if depth == 0 || random.random_bool(0.1) {
        let written = written(random);
        let model = Model::parse(&written.text, written.kind);
        let outcome = model.map_or(Outcome::Unknown, Outcome::Number);
        return (written.literal(), outcome);
    }
    let (a, left) = expression(random, depth - 1);
    match random.random_range(0..10) {
        0..=2 => {
            let (b, right) = expression(random, depth - 1);
            let (sign, operator) = *[
                ("+", Arithmetic::Add),
                ("-", Arithmetic::Subtract),
                ("*", Arithmetic::Multiply),
                ("/", Arithmetic::Divide),
            ]
            .choose(random)
            .expect("a choice");
            let outcome = both(left, right, |a, b| a.apply(operator, &b));
            (format!("({a} {sign} {b})"), outcome)
        }
        3 => {
            let name = *["ABS", "CEIL", "FLOOR", "ROUND", "-"]
                .choose(random)
                .expect("a choice");
            (format!("{name}({a})"), left.then(|a| a.call(name)))
        }
        4..=6 => {
            let kinds = [Kind::Integer, Kind::Decimal, Kind::Float, Kind::Double];
            let kind = *kinds.choose(random).expect("a choice");
            (
                format!("xsd:{}({a})", kind.name()),
                left.then(|a| a.cast(kind)),
            )
        }
        7 => {
            let (b, right) = expression(random, depth - 1);
            let outcome = match left {
                Outcome::Error => right,
                other => other,
            };
            (format!("COALESCE({a}, {b})"), outcome)
        }
        _ => {
            let (b, right) = expression(random, depth - 1);
            let (sign, accepts): (_, fn(Ordering) -> bool) = *[
                ("=", Ordering::is_eq as fn(Ordering) -> bool),
                ("<", Ordering::is_lt),
                (">=", Ordering::is_ge),
            ]
            .choose(random)
            .expect("a choice");
            let outcome = both(left, right, |a, b| match a.compare(&b) {
                Some(ordering) if accepts(ordering) => Outcome::Number(a),
                Some(_) => Outcome::Number(b),
                None => Outcome::Unknown,
            });
            (format!("IF({a} {sign} {b}, {a}, {b})"), outcome)
        }
    }
}

/// Returns the result of an operation on two numbers: an error if one is an error.
fn both(left: Outcome, right: Outcome, next: impl FnOnce(Model, Model) -> Outcome) -> Outcome {
    match (left, right) {
        (Outcome::Number(left), Outcome::Number(right)) => next(left, right),
        (Outcome::Error, _) | (_, Outcome::Error) => Outcome::Error,
        _ => Outcome::Unknown,
    }
}
