//! A compiled expression: variables are column numbers, constants have ids and values, and comparisons with
//! constants know which ids they accept.

use std::sync::Arc;

use oxrdf::NamedNodeRef;
use pythia_rdf::{TermId, TermKind};
use pythia_store::End;
use rustc_hash::FxHashSet;
use spargebra::algebra::Function;

use super::column::Constant;
use super::compare::Comparison;
use super::context::CustomFunction;
use super::exists::ExistsTest;
use super::id_range::IdRanges;
use super::math::Math;
use super::number::Arithmetic;
use super::pattern::Pattern;

/// A node of a compiled expression.
pub(crate) enum Node {
    /// Always an error, such as a variable that no row binds.
    Error,
    Constant(Box<Constant>),
    /// The term in a column.
    Variable(usize),
    Bound(usize),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Compare(Comparison, Box<(Node, Node)>),
    /// Compares a column with a constant, by id.
    CompareConstant(Box<ConstantComparison>),
    SameTerm(Box<(Node, Node)>),
    In(Box<InList>),
    /// Tests a column against a list of IRIs, by id.
    InIris(usize, FxHashSet<u64>),
    Arithmetic(Arithmetic, Box<(Node, Node)>),
    Plus(Box<Node>),
    Minus(Box<Node>),
    If(Box<(Node, Node, Node)>),
    Coalesce(Vec<Node>),
    Call(Box<Call>),
    /// A cast to an XSD type.
    Cast(NamedNodeRef<'static>, Box<Node>),
    Math(Math, Vec<Node>),
    Custom(Box<CustomCall>),
    /// The number of quads with the term in a column as subject or as object.
    Degree(End, usize),
    Exists(Arc<dyn ExistsTest>),
}

/// `needle IN (items)`.
pub(crate) struct InList {
    pub(crate) needle: Node,
    pub(crate) items: Vec<Node>,
    pub(crate) by_id: InIds,
}

/// The part of an `IN` that ids decide: terms of some kinds equal an item only if they are that item.
#[derive(Default)]
pub(crate) struct InIds {
    pub(crate) ids: FxHashSet<u64>,
    pub(crate) kinds: Vec<TermKind>,
}

impl InIds {
    /// Makes the ids of items that are all constants: IRIs, together with only strings or only integers.
    pub(crate) fn of(items: &[Node]) -> Self {
        if items.is_empty() {
            return Self::default();
        }
        let mut kinds = vec![TermKind::Iri, TermKind::BlankNode];
        let mut ids = FxHashSet::default();
        for item in items {
            let Node::Constant(constant) = item else {
                return Self::default();
            };
            let kind = constant.kind();
            if !matches!(kind, TermKind::Iri | TermKind::String | TermKind::Integer) {
                return Self::default();
            }
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
            ids.insert(constant.id.0);
        }
        // Comparing a string with an integer is an error, not false.
        if kinds.contains(&TermKind::String) && kinds.contains(&TermKind::Integer) {
            return Self::default();
        }
        Self { ids, kinds }
    }

    /// Returns whether the term is one of the items; `None` if that depends on the values.
    pub(crate) fn contain(&self, id: u64) -> Option<bool> {
        let known = self.kinds.contains(&TermId(id).kind());
        known.then(|| self.ids.contains(&id))
    }
}

/// A call of a built-in function.
pub(crate) struct Call {
    pub(crate) function: Function,
    pub(crate) arguments: Vec<Node>,
    /// The compiled pattern of `REGEX` and `REPLACE`, if it is constant. The inner `None` is an invalid
    /// pattern.
    pub(crate) pattern: Option<Option<Pattern>>,
}

/// A call of a custom function of the embedding program.
pub(crate) struct CustomCall {
    pub(crate) function: CustomFunction,
    pub(crate) arguments: Vec<Node>,
}

/// `column operator constant`.
pub(crate) struct ConstantComparison {
    pub(crate) column: usize,
    pub(crate) operator: Comparison,
    pub(crate) constant: Constant,
    /// The constant's kind, which its id does not tell if the store does not contain the term.
    pub(crate) kind: TermKind,
    /// The comparison of ids.
    pub(crate) strategy: IdStrategy,
}

/// The comparison of a column of ids with a constant.
pub(crate) enum IdStrategy {
    /// The constant is an IRI or a language-tagged string: equal terms are the same term.
    SameId,
    /// Ids of the constant's own kinds sort like their values; others are decided one by one.
    Ranges(IdRanges),
    /// Ids are decided one by one.
    Each,
}

impl Node {
    /// Returns whether the node runs on ids alone, in a tight loop, so that evaluating rows that are
    /// already decided costs less than skipping them.
    pub(crate) fn is_cheap(&self) -> bool {
        match self {
            Self::Error | Self::Constant(_) | Self::Bound(_) | Self::InIris(..) => true,
            Self::CompareConstant(comparison) => !matches!(comparison.strategy, IdStrategy::Each),
            Self::Not(inner) => inner.is_cheap(),
            Self::And(children) | Self::Or(children) => children.iter().all(Self::is_cheap),
            _ => false,
        }
    }

    /// Returns whether this node, not one inside it, may give different values for equal rows.
    pub(crate) fn draws(&self) -> bool {
        let Self::Call(call) = self else {
            return false;
        };
        matches!(
            call.function,
            Function::Rand | Function::Uuid | Function::StrUuid | Function::BNode
        )
    }

    /// Returns whether `is` is true for the node or a node inside it.
    pub(crate) fn any(&self, is: &dyn Fn(&Self) -> bool) -> bool {
        if is(self) {
            return true;
        }
        match self {
            Self::Error
            | Self::Constant(_)
            | Self::Variable(_)
            | Self::Bound(_)
            | Self::CompareConstant(_)
            | Self::InIris(..)
            | Self::Degree(..)
            | Self::Exists(_) => false,
            Self::Not(inner) | Self::Plus(inner) | Self::Minus(inner) | Self::Cast(_, inner) => {
                inner.any(is)
            }
            Self::And(children)
            | Self::Or(children)
            | Self::Coalesce(children)
            | Self::Math(_, children) => children.iter().any(|child| child.any(is)),
            Self::Compare(_, pair) | Self::SameTerm(pair) | Self::Arithmetic(_, pair) => {
                pair.0.any(is) || pair.1.any(is)
            }
            Self::In(list) => list.needle.any(is) || list.items.iter().any(|item| item.any(is)),
            Self::If(parts) => parts.0.any(is) || parts.1.any(is) || parts.2.any(is),
            Self::Call(call) => call.arguments.iter().any(|argument| argument.any(is)),
            Self::Custom(call) => call.arguments.iter().any(|argument| argument.any(is)),
        }
    }

    /// Returns whether the result is the same for all rows of a query.
    pub(crate) fn is_constant(&self) -> bool {
        match self {
            Self::Error | Self::Constant(_) => true,
            Self::Variable(_)
            | Self::Bound(_)
            | Self::CompareConstant(_)
            | Self::InIris(..)
            | Self::Degree(..)
            | Self::Custom(_)
            | Self::Exists(_) => false,
            Self::Not(inner) | Self::Plus(inner) | Self::Minus(inner) | Self::Cast(_, inner) => {
                inner.is_constant()
            }
            Self::And(children)
            | Self::Or(children)
            | Self::Coalesce(children)
            | Self::Math(_, children) => children.iter().all(Self::is_constant),
            Self::Compare(_, pair) | Self::SameTerm(pair) | Self::Arithmetic(_, pair) => {
                pair.0.is_constant() && pair.1.is_constant()
            }
            Self::In(list) => list.needle.is_constant() && list.items.iter().all(Self::is_constant),
            Self::If(parts) => {
                parts.0.is_constant() && parts.1.is_constant() && parts.2.is_constant()
            }
            Self::Call(call) => {
                !matches!(
                    call.function,
                    Function::Rand | Function::Uuid | Function::StrUuid | Function::BNode
                ) && call.arguments.iter().all(Self::is_constant)
            }
        }
    }
}

/// Returns whether a function returns a boolean.
pub(crate) fn is_predicate(function: &Function) -> bool {
    matches!(
        function,
        Function::LangMatches
            | Function::Contains
            | Function::StrStarts
            | Function::StrEnds
            | Function::IsIri
            | Function::IsBlank
            | Function::IsLiteral
            | Function::IsNumeric
            | Function::IsTriple
            | Function::HasLang
            | Function::HasLangDir
            | Function::Regex
    )
}
