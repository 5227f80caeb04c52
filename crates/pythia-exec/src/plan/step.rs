//! The steps of a pattern pipeline, as the planner writes them.
//!
//! A pipeline is a list of steps over numbered slots, one per variable. Each step takes and returns batches
//! of solutions.

use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::{End, GraphFilter, Order};
use serde::{Deserialize, Serialize};

use super::automaton::{Automaton, EdgeClosure};
use super::expression::SlotExpression;
use super::slots::Slots;
use crate::explain::CostId;

/// The content of one position of a quad pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Position {
    /// A term.
    Constant(TermId),
    /// A variable bound by an earlier step.
    Bound(usize),
    /// A variable that this step binds.
    New(usize),
}

impl Position {
    /// Returns the slot, if the position is a variable.
    pub fn slot(self) -> Option<usize> {
        match self {
            Self::Constant(_) => None,
            Self::Bound(slot) | Self::New(slot) => Some(slot),
        }
    }
}

/// The graph that a quad pattern is matched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum GraphPosition {
    /// Quads that pass the filter, in any graph.
    Filter(GraphFilter),
    /// A variable over named graphs bound by an earlier step.
    Bound(usize),
    /// A variable over the graphs that pass the filter, which this step binds.
    New(usize, GraphFilter),
}

impl GraphPosition {
    /// Returns the filter for the store; a bound variable is compared afterwards.
    pub fn filter(self) -> GraphFilter {
        match self {
            Self::Filter(filter) | Self::New(_, filter) => filter,
            Self::Bound(_) => GraphFilter::Named,
        }
    }

    /// Returns the slot, if the graph is a variable.
    pub fn slot(self) -> Option<usize> {
        match self {
            Self::Filter(_) => None,
            Self::Bound(slot) | Self::New(slot, _) => Some(slot),
        }
    }
}

/// A quad pattern over slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SlotPattern {
    /// Subject.
    pub subject: Position,
    /// Predicate.
    pub predicate: Position,
    /// Object.
    pub object: Position,
    /// Graph.
    pub graph: GraphPosition,
}

/// Number of nodes that [`Access::Expand`] looks up together. It bounds the memory of their links.
pub const EXPAND_NODES: usize = 16384;
/// Maximum number of nodes that it looks up together if solutions wait for that. The more there are, the fewer times are pages
/// read for them.
pub const EXPAND_NODES_MAX: usize = 1 << 18;

/// The access method by which a pattern is joined with the solutions so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Access {
    /// Reads the matches in this order, once per solution.
    Scan(Order),
    /// Visits the tuple of each solution's subject or object: one page per node, in batches. Many of a predicate's nodes are
    /// read from its column.
    Expand(End),
    /// Expands where a cached attribute of the neighbours is stored with the links: its value takes the
    /// place of the pattern's graph.
    Cached(End, TermId),
    /// Tests whether the quad exists. Subject, predicate and object are known.
    Probe,
    /// Merges solutions that are sorted by a slot with the matches in this order, galloping.
    Merge(Order),
    /// Holds the matches in memory by the key, and looks up each solution. The first nodes are looked up one by one.
    Hash(Order),
}

/// The point at which a join with a triple pattern reads all its matches into a table, instead of looking up node by node.
///
/// The number of solutions that come is known only while the query runs. As long as the lookups have cost less than the
/// table, they go on; so the two together cost at most twice what the better one alone costs. See
/// `docs/decisions/0068-lookups-or-table.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct TableAfter {
    /// The order that the matches are read in, which is sorted by the joining slot.
    pub order: Order,
    /// Number of nodes that are looked up one by one before the table is read.
    pub nodes: u64,
    /// Number of nodes whose lookups cost as much as reading the links of all nodes from their column, which is done for many
    /// nodes together.
    pub column: u64,
    /// Whether solutions may wait until their nodes are many, since reading their column then costs little for each.
    pub waits: bool,
}

/// One step.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Step {
    /// The number under which the step's cost is measured.
    pub cost: CostId,
    /// The step's operation.
    pub kind: StepKind,
    /// Slots that later steps or the result still need, sorted.
    #[serde(with = "super::shared")]
    pub live: Arc<Slots>,
    /// Estimated number of solutions after the step.
    pub rows: f64,
    /// True if a solution's first match is enough: the step binds nothing that is needed, and its solutions
    /// are not counted.
    pub once: bool,
    /// A slot for the number of matches of a solution, which is returned once: the step binds nothing that is needed, and
    /// only the number of its solutions is used. A number that the slot holds already is multiplied.
    pub counts: Option<usize>,
    /// Filters of [`Access::Expand`] over what the pattern binds and its node: they are applied to each link before the links
    /// are joined with the solutions, of which many may have the same node.
    pub filters: Vec<SlotExpression>,
    /// The point at which [`Access::Expand`], [`Access::Probe`] and [`Access::Hash`] change to a table, if they can.
    pub table: Option<TableAfter>,
    /// True if a scan begins with small batches, and a join with a table looks up the first rows without it, because a
    /// LIMIT may need no more. The position in the plan tells.
    #[serde(skip)]
    pub begins_small: bool,
}

impl Step {
    /// Calls `each` with the slots that the step may bind.
    pub fn each_new(&self, each: &mut impl FnMut(usize)) {
        let mut all = |positions: &[Position]| {
            for position in positions {
                if let Position::New(slot) = position {
                    each(*slot);
                }
            }
        };
        match &self.kind {
            StepKind::Pattern(pattern, _) | StepKind::Ranges(pattern, ..) => {
                all(&[pattern.subject, pattern.predicate, pattern.object]);
                if let GraphPosition::New(slot, _) = pattern.graph {
                    each(slot);
                }
            }
            StepKind::Path(path) => path.positions().for_each(|position| all(&[position])),
            StepKind::TakeApart(_, parts) => all(parts),
            StepKind::Graphs(position) => all(&[*position]),
            StepKind::Intersect(slot, _) | StepKind::Bind(slot, _) | StepKind::EarlyCount(slot) => {
                each(*slot)
            }
            StepKind::Values { slots, .. } => slots.iter().for_each(|slot| each(*slot)),
            StepKind::Optional(inner) => inner.iter().for_each(|step| step.each_new(each)),
            StepKind::Union(branches) => {
                let steps = branches.iter().flatten();
                steps.for_each(|step| step.each_new(each));
            }
            StepKind::Equal(..)
            | StepKind::Filter(_)
            | StepKind::EarlyDistinct
            | StepKind::Reachable(_)
            | StepKind::Merged(_) => {}
        }
    }
}

/// The operation of a step.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum StepKind {
    /// Joins with a quad pattern.
    Pattern(SlotPattern, Access),
    /// Joins with the matches of a pattern, reading only where the order's first variable is in these
    /// sorted ranges of ids.
    Ranges(
        SlotPattern,
        Order,
        #[serde(with = "super::shared")] Arc<[Range<u64>]>,
    ),
    /// Binds a slot to the terms that all of the patterns allow. Each pattern has the slot at one end and a
    /// known term at the other.
    Intersect(usize, Vec<SlotPattern>),
    /// Keeps solutions in which both slots hold the same term.
    Equal(usize, usize),
    /// Keeps solutions for which the expression is true.
    Filter(SlotExpression),
    /// Binds a slot to an expression's value.
    Bind(usize, SlotExpression),
    /// Joins with inline data: rows over slots, some of them bound already.
    Values {
        /// The slots of a row; those in `keys` are bound by earlier steps.
        slots: Vec<usize>,
        /// The members of `slots` that are compared instead of bound.
        keys: Vec<usize>,
        /// The data; 0 is UNDEF.
        rows: Vec<Vec<u64>>,
    },
    /// Left join with the steps' solutions.
    Optional(Vec<Step>),
    /// May drop solutions that are equal in the live slots.
    EarlyDistinct,
    /// Replaces solutions that are equal in the live slots by fewer ones, with the number of solutions in this slot.
    EarlyCount(usize),
    /// Returns, for each solution, the solutions of each branch in turn.
    Union(Vec<Vec<Step>>),
    /// Joins with the pairs that a path connects.
    Path(PathStep),
    /// Keeps solutions whose two ends are connected by a path, using labels.
    Reachable(ReachableStep),
    /// Binds a slot to each named graph, or checks that its term is one.
    Graphs(Position),
    /// Keeps solutions whose quad is in one of the graphs merged into the default graph, and in no earlier
    /// one.
    Merged(SlotPattern),
    /// Joins the triple term in a slot with its subject, predicate and object.
    TakeApart(usize, [Position; 3]),
}

/// The graph that a path is searched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum PathGraph {
    /// The graphs merged into the dataset's default graph.
    Merged,
    /// One graph.
    One(TermId),
    /// The graph named by a slot.
    Slot(usize),
}

/// A property path between two ends.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PathStep {
    /// Start of the path.
    pub subject: Position,
    /// End of the path.
    pub object: Position,
    /// The graph that is searched.
    pub graph: PathGraph,
    /// The automaton from subject to object.
    pub forward: Automaton,
    /// The automaton from object to subject.
    pub backward: Automaton,
    /// The slot of an end that is only counted. It holds the number of such ends, in one solution for all
    /// of them.
    pub counted: Option<usize>,
    /// The estimated size of the result.
    pub estimate: PathEstimate,
    /// The labels that answer the path if both ends are known.
    pub labelled: Option<Labelled>,
    /// The path as written, for EXPLAIN.
    pub text: String,
    /// The attribute of the new end that is joined with the path.
    #[serde(default)]
    pub attribute: Option<EndAttribute>,
}

impl PathStep {
    /// Returns the path's ends, and the value of the attribute that is joined with it.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        let value = self.attribute.map(|attribute| attribute.value);
        [self.subject, self.object].into_iter().chain(value)
    }

    /// Returns the slot of the only new end, and the closure that is searched from the other end; `None` if the path is no
    /// closure of edges, or has no or two new ends.
    pub fn closure_to_new_end(&self) -> Option<(usize, EdgeClosure<'_>)> {
        let (slot, automaton) = match (self.subject, self.object) {
            (Position::New(_), Position::New(_)) => return None,
            (Position::New(slot), _) => (slot, &self.backward),
            (_, Position::New(slot)) => (slot, &self.forward),
            _ => return None,
        };
        automaton.as_closure().map(|closure| (slot, closure))
    }
}

/// A predicate of the node at a path's new end, whose values are cached beside the edges of the path's closure.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct EndAttribute {
    /// The predicate.
    pub predicate: TermId,
    /// The value.
    pub value: Position,
}

/// The estimated size of a path's result.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct PathEstimate {
    /// Objects of one subject; of the subject, if it is a constant.
    pub objects: f64,
    /// Subjects of one object; of the object, if it is a constant.
    pub subjects: f64,
    /// Distinct subjects of all pairs.
    pub all_subjects: f64,
    /// Distinct objects of all pairs.
    pub all_objects: f64,
    /// Nodes of the graph, if the empty path connects each of them with itself; 0 otherwise. They are not among the subjects
    /// and objects above.
    #[serde(default)]
    pub nodes: f64,
}

/// A path that labels can answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Labelled {
    /// The predicate of the edges.
    pub predicate: TermId,
    /// True if the path follows its edges backward.
    pub inverse: bool,
    /// True if the empty path counts.
    pub reflexive: bool,
}

impl Labelled {
    /// Returns the step between two known ends.
    pub fn step(&self, path: &PathStep) -> ReachableStep {
        let (from, to) = match self.inverse {
            false => (path.subject, path.object),
            true => (path.object, path.subject),
        };
        ReachableStep {
            from,
            to,
            predicate: self.predicate,
            reflexive: self.reflexive,
            text: path.text.clone(),
        }
    }
}

/// A path `from p+ to` or `from p* to` in the default graph, with both ends known.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ReachableStep {
    /// The node that edges lead from.
    pub from: Position,
    /// The node that edges lead to.
    pub to: Position,
    /// The predicate of the edges.
    pub predicate: TermId,
    /// True if the empty path counts.
    pub reflexive: bool,
    /// The path as written, for EXPLAIN.
    pub text: String,
}
