//! The comparison operators on values, and on ids where no text is needed.
//!
//! Truth is three-valued: an error is a value between false and true, so SPARQL's logical operators (§17.2)
//! are minimum, maximum and distance from [`TRUE`].

use std::cmp::Ordering;

use oxrdf::{NamedOrBlankNode, Triple};
use pythia_rdf::{TermId, TermKind};

use super::exact;
use super::number::Number;
use super::value::Value;

/// A truth value: [`FALSE`], [`ERROR`] or [`TRUE`].
pub(crate) type Truth = u8;
pub(crate) const FALSE: Truth = 0;
pub(crate) const ERROR: Truth = 1;
pub(crate) const TRUE: Truth = 2;

/// Converts an outcome to a truth value.
pub(crate) const fn truth(outcome: Option<bool>) -> Truth {
    match outcome {
        Some(true) => TRUE,
        Some(false) => FALSE,
        None => ERROR,
    }
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Returns the equivalent operator for exchanged operands.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }

    /// Applies the operator to two values.
    pub(crate) fn apply(self, left: &Value<'_>, right: &Value<'_>) -> Option<bool> {
        if let (Value::Number(left), Value::Number(right)) = (left, right) {
            return Some(self.apply_numbers(*left, *right));
        }
        if let Some(ordering) = compare_exact(left, right) {
            return Some(match ordering {
                Some(ordering) => self.accepts(ordering),
                None => self == Self::NotEqual,
            });
        }
        match self {
            Self::Equal => equals(left, right),
            Self::NotEqual => equals(left, right).map(|equal| !equal),
            _ => match compare(left, right) {
                Some(ordering) => Some(self.accepts(ordering)),
                // Values without an order that are equal are neither less nor greater.
                None if equals(left, right)? => Some(self.accepts(Ordering::Equal)),
                None => None,
            },
        }
    }

    /// Returns whether operands in this order satisfy the operator.
    pub(crate) fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// Applies the operator to two ids if that needs no text. Returns `None` if the values are needed.
    pub(crate) fn decide(self, left: TermId, right: TermId) -> Option<Truth> {
        self.decide_kinds((left, left.kind()), (right, right.kind()))
    }

    /// Does the same as [`Self::decide`], with kinds that may be known for computed terms.
    ///
    /// Equal terms have equal ids within a query, including computed ones.
    pub(crate) fn decide_kinds(
        self,
        (left, left_kind): (TermId, TermKind),
        (right, right_kind): (TermId, TermKind),
    ) -> Option<Truth> {
        if !left.is_bound() || !right.is_bound() {
            return Some(ERROR);
        }
        if left_kind.is_inline() && right_kind.is_inline() {
            if let (Some(left), Some(right)) =
                (Number::from_inline(left), Number::from_inline(right))
            {
                return Some(truth(Some(self.apply_numbers(left, right))));
            }
            let (left, right) = (Value::from_inline(left)?, Value::from_inline(right)?);
            return Some(truth(self.apply(&left, &right)));
        }
        if left == right {
            return self.decide_same(left_kind);
        }
        match self {
            Self::Equal => Some(truth(Some(decide_unequal(left_kind, right_kind)?))),
            Self::NotEqual => Some(truth(Some(!decide_unequal(left_kind, right_kind)?))),
            _ => decide_unordered(left_kind, right_kind),
        }
    }

    /// Applies the operator to two numbers. Every comparison with NaN is false (F&O §4.3), except `!=`.
    pub(crate) fn apply_numbers(self, left: Number, right: Number) -> bool {
        match left.partial_cmp(&right) {
            Some(ordering) => self.accepts(ordering),
            None => self == Self::NotEqual,
        }
    }

    /// Returns the outcome for the same term on both sides. A typed literal may be NaN, which equals
    /// nothing.
    fn decide_same(self, kind: TermKind) -> Option<Truth> {
        match kind {
            TermKind::BlankNode | TermKind::Iri | TermKind::String | TermKind::LangString => {
                Some(truth(Some(self.accepts(Ordering::Equal))))
            }
            _ => None,
        }
    }
}

/// Returns `Some(false)` if two different terms of these kinds cannot be equal, `None` if the kinds do not
/// tell.
fn decide_unequal(left: TermKind, right: TermKind) -> Option<bool> {
    use TermKind as K;
    match (left, right) {
        // A resource equals only itself; a stored term never has a second, computed id.
        (K::Iri | K::BlankNode, _) | (_, K::Iri | K::BlankNode) => Some(false),
        (K::Computed, _) | (_, K::Computed) => None,
        (K::LangString, _) | (_, K::LangString) => Some(false),
        (K::Triple, K::Triple) => None,
        (K::Triple, _) | (_, K::Triple) => Some(false),
        (K::TypedLiteral, _) | (_, K::TypedLiteral) => None,
        // Two strings, or a string and an inline value of another type.
        _ => Some(false),
    }
}

/// Returns the error of comparing kinds that have no order, if the kinds alone tell.
fn decide_unordered(left: TermKind, right: TermKind) -> Option<Truth> {
    use TermKind as K;
    match (left, right) {
        (K::Iri | K::BlankNode, _) | (_, K::Iri | K::BlankNode) => Some(ERROR),
        (K::Computed | K::TypedLiteral, _) | (_, K::Computed | K::TypedLiteral) => None,
        (K::String, K::String) | (K::LangString, K::LangString) | (K::Triple, K::Triple) => None,
        _ => Some(ERROR),
    }
}

/// Applies `=` (SPARQL 1.1 §17.3). Literals of different known datatypes are unequal as in SPARQL 1.2, not
/// an error as with SPARQL 1.1's RDFterm-equal.
///
/// A literal of unknown datatype equals only itself, and is incomparable to other literals that are not
/// language-tagged.
pub(crate) fn equals(left: &Value<'_>, right: &Value<'_>) -> Option<bool> {
    use Value as V;
    match (left, right) {
        (V::NamedNode(a), V::NamedNode(b)) => Some(a == b),
        (V::BlankNode(a), V::BlankNode(b)) => Some(a == b),
        (V::String(a), V::String(b)) => Some(a == b),
        (
            V::LangString {
                text: a,
                language: la,
                direction: da,
            },
            V::LangString {
                text: b,
                language: lb,
                direction: db,
            },
        ) => Some(a == b && la == lb && da == db),
        (V::Boolean(a), V::Boolean(b)) => Some(a == b),
        (V::Number(a), V::Number(b)) => Some(a == b),
        (V::Exact(_), V::Exact(_) | V::Number(_)) | (V::Number(_), V::Exact(_)) => {
            Some(compare_exact(left, right)? == Some(Ordering::Equal))
        }
        (V::Temporal(a), V::Temporal(b)) => a.equals(*b),
        (V::Duration(a), V::Duration(b)) => Some(a == b),
        (V::Triple(a), V::Triple(b)) => triples_equal(a, b),
        (
            V::Other {
                lexical: a,
                datatype: da,
            },
            V::Other {
                lexical: b,
                datatype: db,
            },
        ) => (a == b && da == db).then_some(true),
        (V::Other { .. }, other) | (other, V::Other { .. }) => match other {
            V::NamedNode(_) | V::BlankNode(_) | V::LangString { .. } | V::Triple(_) => Some(false),
            _ => None,
        },
        _ => Some(false),
    }
}

/// Compares for `<`, `<=`, `>` and `>=`; `None` is a type error.
///
/// SPARQL allows an implementation to extend the operator table (§17.3.1). Pythia also orders strings of
/// one language, calendar types, durations and triple terms.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    use Value as V;
    match (left, right) {
        (V::String(a), V::String(b)) => Some(a.cmp(b)),
        (
            V::LangString {
                text: a,
                language: la,
                direction: da,
            },
            V::LangString {
                text: b,
                language: lb,
                direction: db,
            },
        ) => (la == lb && da == db).then(|| a.cmp(b)),
        (V::Boolean(a), V::Boolean(b)) => Some(a.cmp(b)),
        (V::Number(a), V::Number(b)) => a.partial_cmp(b),
        (V::Exact(_), _) | (_, V::Exact(_)) => compare_exact(left, right)?,
        (V::Temporal(a), V::Temporal(b)) => a.compare(*b),
        (V::Duration(a), V::Duration(b)) => a.partial_cmp(b),
        (V::Triple(a), V::Triple(b)) => {
            if a.subject != b.subject || a.predicate != b.predicate {
                return None;
            }
            compare(&Value::from_term(&a.object), &Value::from_term(&b.object))
        }
        _ => None,
    }
}

/// Compares two numbers of which at least one is too long for [`Number`]. The outer `None` means that
/// neither is; the inner one is for NaN.
fn compare_exact(left: &Value<'_>, right: &Value<'_>) -> Option<Option<Ordering>> {
    let is_exact = |value: &Value<'_>| matches!(value, Value::Exact(_));
    if is_exact(left) || is_exact(right) {
        exact::compare(left, right)
    } else {
        None
    }
}

/// Compares triple terms by their parts. Only objects can be equal without being the same.
fn triples_equal(a: &Triple, b: &Triple) -> Option<bool> {
    let same_subject = match (&a.subject, &b.subject) {
        (NamedOrBlankNode::NamedNode(a), NamedOrBlankNode::NamedNode(b)) => a == b,
        (NamedOrBlankNode::BlankNode(a), NamedOrBlankNode::BlankNode(b)) => a == b,
        _ => false,
    };
    Some(
        same_subject
            && a.predicate == b.predicate
            && equals(&Value::from_term(&a.object), &Value::from_term(&b.object))?,
    )
}

#[cfg(test)]
mod tests {
    use oxrdf::vocab::xsd;
    use oxrdf::{Literal, NamedNode, Term};

    use super::*;

    fn literal(lexical: &str, datatype: &str) -> Value<'static> {
        Term::from(Literal::new_typed_literal(
            lexical,
            NamedNode::new_unchecked(datatype),
        ))
        .into()
    }

    #[test]
    fn logic_is_minimum_and_maximum() {
        let and = |a: Truth, b: Truth| a.min(b);
        let or = |a: Truth, b: Truth| a.max(b);
        for (a, b, both, either) in [
            (TRUE, TRUE, TRUE, TRUE),
            (TRUE, FALSE, FALSE, TRUE),
            (TRUE, ERROR, ERROR, TRUE),
            (FALSE, FALSE, FALSE, FALSE),
            (FALSE, ERROR, FALSE, ERROR),
            (ERROR, ERROR, ERROR, ERROR),
        ] {
            assert_eq!((and(a, b), and(b, a)), (both, both));
            assert_eq!((or(a, b), or(b, a)), (either, either));
        }
        assert_eq!([FALSE, ERROR, TRUE].map(|a| TRUE - a), [TRUE, ERROR, FALSE]);
    }

    #[test]
    fn equality_compares_values_and_keeps_unknown_datatypes_apart() {
        let one = Value::integer(1);
        assert_eq!(
            equals(&one, &literal("1.0", xsd::DECIMAL.as_str())),
            Some(true)
        );
        assert_eq!(equals(&one, &Value::from("1".to_owned())), Some(false));
        let unknown = literal("1", "http://example.org/unknown");
        assert_eq!(equals(&one, &unknown), None);
        assert_eq!(equals(&unknown, &unknown.clone()), Some(true));
        assert_eq!(
            equals(&unknown, &Value::NamedNode("urn:a".into())),
            Some(false)
        );
        let (local, utc) = (
            literal("2006-08-23", xsd::DATE.as_str()),
            literal("2006-08-23Z", xsd::DATE.as_str()),
        );
        assert_eq!(equals(&local, &utc), None);
        assert_eq!(
            equals(&local, &literal("2006-08-29Z", xsd::DATE.as_str())),
            Some(false)
        );
        assert_eq!(
            equals(&local, &literal("2006", xsd::G_YEAR.as_str())),
            Some(false)
        );
        let nan = literal("NaN", xsd::DOUBLE.as_str());
        assert_eq!(equals(&nan, &nan.clone()), Some(false));
    }

    #[test]
    fn order_needs_comparable_types() {
        let text = Value::from("a".to_owned());
        assert_eq!(compare(&text, &Value::integer(1)), None);
        assert_eq!(
            compare(&Value::Boolean(false), &Value::Boolean(true)),
            Some(Ordering::Less)
        );
        let iri = Value::NamedNode("urn:a".into());
        let other = Value::NamedNode("urn:b".into());
        assert_eq!(Comparison::Less.apply(&iri, &other), None);
        assert_eq!(Comparison::Less.apply(&iri, &iri.clone()), Some(false));
        assert_eq!(
            Comparison::LessOrEqual.apply(&iri, &iri.clone()),
            Some(true)
        );
    }

    #[test]
    fn ids_decide_where_kinds_tell() {
        let iri = TermId::new(TermKind::Iri, 1);
        let string = TermId::new(TermKind::String, 1);
        let typed = TermId::new(TermKind::TypedLiteral, 1);
        assert_eq!(Comparison::Equal.decide(iri, iri), Some(TRUE));
        assert_eq!(Comparison::NotEqual.decide(iri, string), Some(TRUE));
        assert_eq!(Comparison::Less.decide(iri, string), Some(ERROR));
        assert_eq!(Comparison::Equal.decide(typed, typed), None);
        assert_eq!(Comparison::Equal.decide(string, typed), None);
        assert_eq!(Comparison::Equal.decide(TermId::UNBOUND, iri), Some(ERROR));
    }
}
