//! Serde forms of the types of other crates that plans contain: terms and SPARQL's algebra.
//!
//! `#[serde(with = "form")]` writes a field whose type is a [`Form`]. The forms name the variants and fields of
//! the algebra, so a change of the algebra is found by the compiler, and changes the version of the format.

use std::fmt;
use std::marker::PhantomData;

use oxrdf::{
    BaseDirection, BlankNode, Literal, NamedNode, NamedOrBlankNode, Term, Triple, Variable,
};
use pythia_rdf::TermId;
use pythia_sparql::path_search::{Mode, Restrictor};
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use spargebra::algebra::{
    AggregateExpression, AggregateFunction, Expression, Function, GraphPattern, OrderExpression,
    PropertyPathExpression,
};
use spargebra::term::{GroundTerm, GroundTriple, NamedNodePattern, TermPattern, TriplePattern};

/// Writes a value.
pub fn serialize<T: Form, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.write(to)
}

/// Reads a value.
pub fn deserialize<'de, T: Form, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::read(from)
}

/// A type that can be written and read by way of serde.
pub trait Form: Sized {
    /// Writes a value.
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;

    /// Reads a value.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
}

/// A value to be written by its form.
struct Written<'a, T>(&'a T);

impl<T: Form> Serialize for Written<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.write(to)
    }
}

/// A value that was read by its form.
struct Read<T>(T);

impl<'de, T: Form> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::read(from).map(Self)
    }
}

impl<T: Form> Form for Box<T> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        T::write(self, to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::read(from).map(Self::new)
    }
}

impl<T: Form> Form for Option<T> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Written).serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = Option::<Read<T>>::deserialize(from)?;
        Ok(read.map(|Read(value)| value))
    }
}

impl<T: Form> Form for Vec<T> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.len()))?;
        for value in self {
            list.serialize_element(&Written(value))?;
        }
        list.end()
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(List(PhantomData))
    }
}

/// Reads a list.
struct List<T>(PhantomData<T>);

impl<'de, T: Form> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        // The length that is written is not trusted.
        let mut list = Vec::new();
        while let Some(Read(value)) = from.next_element()? {
            list.push(value);
        }
        Ok(list)
    }
}

impl<A: Form, B: Form> Form for (A, B) {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (Written(&self.0), Written(&self.1)).serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (Read(a), Read(b)) = <(Read<A>, Read<B>)>::deserialize(from)?;
        Ok((a, b))
    }
}

impl Form for TermId {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }
}

/// The fields of a literal.
#[derive(Serialize, Deserialize)]
struct LiteralForm {
    value: String,
    datatype: Option<String>,
    language: Option<String>,
    /// True for text that runs from right to left.
    direction: Option<bool>,
}

impl Form for Literal {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let language = self.language().map(str::to_owned);
        LiteralForm {
            value: self.value().to_owned(),
            datatype: match language {
                Some(_) => None,
                None => Some(self.datatype().as_str().to_owned()),
            },
            language,
            direction: self.direction().map(|d| d == BaseDirection::Rtl),
        }
        .serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = LiteralForm::deserialize(from)?;
        let read = match (form.language, form.direction, form.datatype) {
            (Some(language), None, _) => Self::new_language_tagged_literal(form.value, language),
            (Some(language), Some(is_rtl), _) => {
                let direction = if is_rtl {
                    BaseDirection::Rtl
                } else {
                    BaseDirection::Ltr
                };
                Self::new_directional_language_tagged_literal(form.value, language, direction)
            }
            (None, _, Some(datatype)) => {
                let datatype = NamedNode::new(datatype).map_err(D::Error::custom)?;
                Ok(Self::new_typed_literal(form.value, datatype))
            }
            (None, _, None) => Ok(Self::new_simple_literal(form.value)),
        };
        read.map_err(D::Error::custom)
    }
}

/// Writes types as their texts, which are checked when they are read.
macro_rules! text_form {
    ($($type:ty),*) => {$(
        impl Form for $type {
            fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                self.as_str().serialize(to)
            }

            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(from)?).map_err(D::Error::custom)
            }
        }
    )*};
}

text_form!(NamedNode, BlankNode);

impl Form for Variable {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_str().serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Not checked: planning makes variables that no query can name.
        String::deserialize(from).map(Self::new_unchecked)
    }
}

/// The functions that have a name in SPARQL.
const FUNCTIONS: [Function; 55] = [
    Function::Str,
    Function::Lang,
    Function::LangMatches,
    Function::Datatype,
    Function::Iri,
    Function::BNode,
    Function::Rand,
    Function::Abs,
    Function::Ceil,
    Function::Floor,
    Function::Round,
    Function::Concat,
    Function::SubStr,
    Function::StrLen,
    Function::Replace,
    Function::UCase,
    Function::LCase,
    Function::EncodeForUri,
    Function::Contains,
    Function::StrStarts,
    Function::StrEnds,
    Function::StrBefore,
    Function::StrAfter,
    Function::Year,
    Function::Month,
    Function::Day,
    Function::Hours,
    Function::Minutes,
    Function::Seconds,
    Function::Timezone,
    Function::Tz,
    Function::Now,
    Function::Uuid,
    Function::StrUuid,
    Function::Md5,
    Function::Sha1,
    Function::Sha256,
    Function::Sha384,
    Function::Sha512,
    Function::StrLang,
    Function::StrDt,
    Function::IsIri,
    Function::IsBlank,
    Function::IsLiteral,
    Function::IsNumeric,
    Function::Regex,
    Function::Triple,
    Function::Subject,
    Function::Predicate,
    Function::Object,
    Function::IsTriple,
    Function::LangDir,
    Function::HasLang,
    Function::HasLangDir,
    Function::StrLangDir,
];

/// Written as in SPARQL: a name, or an IRI in angle brackets.
impl Form for Function {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.to_string().serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        if let Some(iri) = name.strip_prefix('<').and_then(|n| n.strip_suffix('>')) {
            return NamedNode::new(iri)
                .map(Self::Custom)
                .map_err(D::Error::custom);
        }
        let mut functions = FUNCTIONS.into_iter();
        let named = functions.find(|function| function.to_string() == name);
        named.ok_or_else(|| D::Error::custom(format!("the unknown function {name}")))
    }
}

/// Writes types by the forms below.
macro_rules! remote_form {
    ($($type:ty => $form:ident),* $(,)?) => {$(
        impl Form for $type {
            fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $form::serialize(self, to)
            }

            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $form::deserialize(from)
            }
        }
    )*};
}

remote_form!(
    AggregateExpression => AggregateExpressionForm,
    AggregateFunction => AggregateFunctionForm,
    Expression => ExpressionForm,
    GraphPattern => GraphPatternForm,
    GroundTerm => GroundTermForm,
    GroundTriple => GroundTripleForm,
    Mode => ModeForm,
    NamedNodePattern => NamedNodePatternForm,
    NamedOrBlankNode => NamedOrBlankNodeForm,
    OrderExpression => OrderExpressionForm,
    PropertyPathExpression => PropertyPathForm,
    Restrictor => RestrictorForm,
    Term => TermForm,
    TermPattern => TermPatternForm,
    Triple => TripleForm,
    TriplePattern => TriplePatternForm,
);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Expression")]
enum ExpressionForm {
    NamedNode(#[serde(with = "super::form")] NamedNode),
    Literal(#[serde(with = "super::form")] Literal),
    Variable(#[serde(with = "super::form")] Variable),
    Or(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    And(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    Equal(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    SameTerm(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    Greater(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    GreaterOrEqual(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    Less(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    LessOrEqual(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    In(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Vec<Expression>,
    ),
    Add(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    Subtract(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    Multiply(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    Divide(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    UnaryPlus(#[serde(with = "super::form")] Box<Expression>),
    UnaryMinus(#[serde(with = "super::form")] Box<Expression>),
    Not(#[serde(with = "super::form")] Box<Expression>),
    Exists(#[serde(with = "super::form")] Box<GraphPattern>),
    Bound(#[serde(with = "super::form")] Variable),
    If(
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
        #[serde(with = "super::form")] Box<Expression>,
    ),
    Coalesce(#[serde(with = "super::form")] Vec<Expression>),
    FunctionCall(
        #[serde(with = "super::form")] Function,
        #[serde(with = "super::form")] Vec<Expression>,
    ),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "GraphPattern")]
enum GraphPatternForm {
    Bgp {
        #[serde(with = "super::form")]
        patterns: Vec<TriplePattern>,
    },
    Path {
        #[serde(with = "super::form")]
        subject: TermPattern,
        #[serde(with = "super::form")]
        path: PropertyPathExpression,
        #[serde(with = "super::form")]
        object: TermPattern,
    },
    Join {
        #[serde(with = "super::form")]
        left: Box<GraphPattern>,
        #[serde(with = "super::form")]
        right: Box<GraphPattern>,
    },
    LeftJoin {
        #[serde(with = "super::form")]
        left: Box<GraphPattern>,
        #[serde(with = "super::form")]
        right: Box<GraphPattern>,
        #[serde(with = "super::form")]
        expression: Option<Expression>,
    },
    Lateral {
        #[serde(with = "super::form")]
        left: Box<GraphPattern>,
        #[serde(with = "super::form")]
        right: Box<GraphPattern>,
    },
    Filter {
        #[serde(with = "super::form")]
        expr: Expression,
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
    },
    Union {
        #[serde(with = "super::form")]
        left: Box<GraphPattern>,
        #[serde(with = "super::form")]
        right: Box<GraphPattern>,
    },
    Graph {
        #[serde(with = "super::form")]
        name: NamedNodePattern,
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
    },
    Extend {
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
        #[serde(with = "super::form")]
        variable: Variable,
        #[serde(with = "super::form")]
        expression: Expression,
    },
    Minus {
        #[serde(with = "super::form")]
        left: Box<GraphPattern>,
        #[serde(with = "super::form")]
        right: Box<GraphPattern>,
    },
    Values {
        #[serde(with = "super::form")]
        variables: Vec<Variable>,
        #[serde(with = "super::form")]
        bindings: Vec<Vec<Option<GroundTerm>>>,
    },
    OrderBy {
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
        #[serde(with = "super::form")]
        expression: Vec<OrderExpression>,
    },
    Project {
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
        #[serde(with = "super::form")]
        variables: Vec<Variable>,
    },
    Distinct {
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
    },
    Reduced {
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
    },
    Slice {
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
        start: usize,
        length: Option<usize>,
    },
    Group {
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
        #[serde(with = "super::form")]
        variables: Vec<Variable>,
        #[serde(with = "super::form")]
        aggregates: Vec<(Variable, AggregateExpression)>,
    },
    Service {
        #[serde(with = "super::form")]
        name: NamedNodePattern,
        #[serde(with = "super::form")]
        inner: Box<GraphPattern>,
        silent: bool,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AggregateExpression")]
enum AggregateExpressionForm {
    CountSolutions {
        distinct: bool,
    },
    FunctionCall {
        #[serde(with = "super::form")]
        name: AggregateFunction,
        #[serde(with = "super::form")]
        expr: Expression,
        distinct: bool,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AggregateFunction")]
enum AggregateFunctionForm {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    GroupConcat { separator: Option<String> },
    Sample,
    Custom(#[serde(with = "super::form")] NamedNode),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "OrderExpression")]
enum OrderExpressionForm {
    Asc(#[serde(with = "super::form")] Expression),
    Desc(#[serde(with = "super::form")] Expression),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PropertyPathExpression")]
enum PropertyPathForm {
    NamedNode(#[serde(with = "super::form")] NamedNode),
    Reverse(#[serde(with = "super::form")] Box<PropertyPathExpression>),
    Sequence(
        #[serde(with = "super::form")] Box<PropertyPathExpression>,
        #[serde(with = "super::form")] Box<PropertyPathExpression>,
    ),
    Alternative(
        #[serde(with = "super::form")] Box<PropertyPathExpression>,
        #[serde(with = "super::form")] Box<PropertyPathExpression>,
    ),
    ZeroOrMore(#[serde(with = "super::form")] Box<PropertyPathExpression>),
    OneOrMore(#[serde(with = "super::form")] Box<PropertyPathExpression>),
    ZeroOrOne(#[serde(with = "super::form")] Box<PropertyPathExpression>),
    NegatedPropertySet(#[serde(with = "super::form")] Vec<NamedNode>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TermPattern")]
enum TermPatternForm {
    NamedNode(#[serde(with = "super::form")] NamedNode),
    BlankNode(#[serde(with = "super::form")] BlankNode),
    Literal(#[serde(with = "super::form")] Literal),
    Triple(#[serde(with = "super::form")] Box<TriplePattern>),
    Variable(#[serde(with = "super::form")] Variable),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NamedNodePattern")]
enum NamedNodePatternForm {
    NamedNode(#[serde(with = "super::form")] NamedNode),
    Variable(#[serde(with = "super::form")] Variable),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "GroundTerm")]
enum GroundTermForm {
    NamedNode(#[serde(with = "super::form")] NamedNode),
    Literal(#[serde(with = "super::form")] Literal),
    Triple(#[serde(with = "super::form")] Box<GroundTriple>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Mode")]
enum ModeForm {
    AnyShortest,
    AllShortest,
    Shortest(u32),
    All,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Restrictor")]
enum RestrictorForm {
    Walk,
    Trail,
    Acyclic,
    Simple,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TriplePattern")]
struct TriplePatternForm {
    #[serde(with = "super::form")]
    subject: TermPattern,
    #[serde(with = "super::form")]
    predicate: NamedNodePattern,
    #[serde(with = "super::form")]
    object: TermPattern,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "GroundTriple")]
struct GroundTripleForm {
    #[serde(with = "super::form")]
    subject: NamedNode,
    #[serde(with = "super::form")]
    predicate: NamedNode,
    #[serde(with = "super::form")]
    object: GroundTerm,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Term")]
enum TermForm {
    NamedNode(#[serde(with = "super::form")] NamedNode),
    BlankNode(#[serde(with = "super::form")] BlankNode),
    Literal(#[serde(with = "super::form")] Literal),
    Triple(#[serde(with = "super::form")] Box<Triple>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NamedOrBlankNode")]
enum NamedOrBlankNodeForm {
    NamedNode(#[serde(with = "super::form")] NamedNode),
    BlankNode(#[serde(with = "super::form")] BlankNode),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Triple")]
struct TripleForm {
    #[serde(with = "super::form")]
    subject: NamedOrBlankNode,
    #[serde(with = "super::form")]
    predicate: NamedNode,
    #[serde(with = "super::form")]
    object: Term,
}
