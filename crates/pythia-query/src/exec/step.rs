//! The steps of a pattern pipeline, as the planner writes them.
//!
//! A pipeline is a list of steps over numbered slots, one per variable. Each step takes and returns batches
//! of solutions; [`super::pipeline`] runs them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use oxrdf::Variable;
use pythia_rdf::TermId;
use pythia_store::{End, GraphFilter, Order};

use super::profile::PartId;
use super::reachable::ReachableStep;
use super::slots::Slots;
use crate::explain::{Explainer, PlanNode};
use crate::expression::CompiledExpression;
use crate::plan::automaton::Automaton;
use crate::plan::labelled::Labelled;

/// The content of one position of a quad pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// A term.
    Constant(TermId),
    /// A variable bound by an earlier step.
    Bound(usize),
    /// A variable that this step binds.
    New(usize),
}

impl Position {
    /// Returns the slot, if the position is a variable.
    pub(crate) fn slot(self) -> Option<usize> {
        match self {
            Self::Constant(_) => None,
            Self::Bound(slot) | Self::New(slot) => Some(slot),
        }
    }
}

/// The graph that a quad pattern is matched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphPosition {
    /// Quads that pass the filter, in any graph.
    Filter(GraphFilter),
    /// A variable over named graphs bound by an earlier step.
    Bound(usize),
    /// A variable over named graphs that this step binds.
    New(usize),
}

impl GraphPosition {
    /// Returns the filter for the store; a bound variable is compared afterwards.
    pub(crate) fn filter(self) -> GraphFilter {
        match self {
            Self::Filter(filter) => filter,
            Self::Bound(_) | Self::New(_) => GraphFilter::Named,
        }
    }

    /// Returns the slot, if the graph is a variable.
    pub(crate) fn slot(self) -> Option<usize> {
        match self {
            Self::Filter(_) => None,
            Self::Bound(slot) | Self::New(slot) => Some(slot),
        }
    }
}

/// A quad pattern over slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotPattern {
    /// Subject.
    pub(crate) subject: Position,
    /// Predicate.
    pub(crate) predicate: Position,
    /// Object.
    pub(crate) object: Position,
    /// Graph.
    pub(crate) graph: GraphPosition,
}

/// The access method by which a pattern is joined with the solutions so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads the matches in this order, once per solution.
    Scan(Order),
    /// Visits the tuple of each solution's subject or object: one page per node, in batches.
    Expand(End),
    /// Expands where a cached attribute of the neighbours is stored with the links: its value takes the
    /// place of the pattern's graph.
    Cached(End, TermId),
    /// Tests whether the quad exists. Subject, predicate and object are known.
    Probe,
    /// Merges solutions that are sorted by a slot with the matches in this order, galloping.
    Merge(Order),
    /// Holds the matches in memory by the key, and looks up each solution.
    Hash(Order),
}

/// An expression over slots.
#[derive(Clone)]
pub(crate) struct SlotExpression {
    /// The compiled expression.
    pub(crate) compiled: Arc<CompiledExpression>,
    /// The slots that it reads.
    pub(crate) slots: Vec<usize>,
    /// The expression as written, for EXPLAIN.
    pub(crate) text: String,
}

impl fmt::Debug for SlotExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The number under which the step's cost is measured.
    pub(crate) part: PartId,
    /// The step's operation.
    pub(crate) kind: StepKind,
    /// Slots that later steps or the result still need, sorted.
    pub(crate) live: Arc<Slots>,
    /// Estimated number of solutions after the step.
    pub(crate) rows: f64,
    /// True if a solution's first match is enough: the step binds nothing that is needed, and its solutions
    /// are not counted.
    pub(crate) once: bool,
}

/// The operation of a step.
#[derive(Clone, Debug)]
pub(crate) enum StepKind {
    /// Joins with a quad pattern.
    Pattern(SlotPattern, Access),
    /// Joins with the matches of a pattern, reading only where the order's first variable is in these
    /// sorted ranges of ids.
    Ranges(SlotPattern, Order, Arc<[Range<u64>]>),
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
    /// Keeps solutions for which the steps have none.
    Without(Vec<Step>),
    /// May drop solutions that are equal in the live slots.
    EarlyDistinct,
    /// Returns the solutions of each branch in turn.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathGraph {
    /// The graphs merged into the dataset's default graph.
    Merged,
    /// One graph.
    One(TermId),
    /// The graph named by a slot.
    Slot(usize),
}

/// A property path between two ends.
#[derive(Clone, Debug)]
pub(crate) struct PathStep {
    /// Start of the path.
    pub(crate) subject: Position,
    /// End of the path.
    pub(crate) object: Position,
    /// The graph that is searched.
    pub(crate) graph: PathGraph,
    /// The automaton from subject to object.
    pub(crate) forward: Automaton,
    /// The automaton from object to subject.
    pub(crate) backward: Automaton,
    /// The slot of an end that is only counted. It holds the number of such ends, in one solution for all
    /// of them.
    pub(crate) counted: Option<usize>,
    /// The estimated size of the result.
    pub(crate) estimate: PathEstimate,
    /// The labels that answer the path if both ends are known.
    pub(crate) labelled: Option<Labelled>,
    /// The path as written, for EXPLAIN.
    pub(crate) text: String,
}

/// The estimated size of a path's result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathEstimate {
    /// Objects of one subject; of the subject, if it is a constant.
    pub(crate) objects: f64,
    /// Subjects of one object; of the object, if it is a constant.
    pub(crate) subjects: f64,
    /// Distinct subjects of all pairs.
    pub(crate) all_subjects: f64,
    /// Distinct objects of all pairs.
    pub(crate) all_objects: f64,
}

/// Describes a pipeline for EXPLAIN.
pub(crate) fn explain(
    steps: &[Step],
    slots: &[Variable],
    explainer: &Explainer<'_>,
) -> Vec<PlanNode> {
    let name = |slot: usize| slots[slot].to_string();
    let position = |p: Position| match p {
        Position::Constant(id) => explainer.term(id),
        Position::Bound(slot) => format!("={}", name(slot)),
        Position::New(slot) => name(slot),
    };
    let pattern = |p: &SlotPattern| {
        let graph = match p.graph {
            GraphPosition::Filter(GraphFilter::One(TermId(0))) => String::new(),
            GraphPosition::Filter(GraphFilter::One(id)) => {
                format!(" graph {}", explainer.term(id))
            }
            GraphPosition::Filter(filter) => format!(" graph {filter:?}"),
            GraphPosition::Bound(slot) => format!(" graph ={}", name(slot)),
            GraphPosition::New(slot) => format!(" graph {}", name(slot)),
        };
        let [s, p, o] = [p.subject, p.predicate, p.object].map(position);
        format!("{s} {p} {o}{graph}")
    };
    let inside = |steps: &[Step]| explain(steps, slots, explainer);
    let explain_one = |step: &Step| {
        let mut node = match &step.kind {
            StepKind::Pattern(p, Access::Cached(end, attribute)) => {
                let [s, predicate, o] = [p.subject, p.predicate, p.object].map(position);
                let neighbour = match end {
                    End::Subject => &o,
                    End::Object => &s,
                };
                let value = match p.graph {
                    GraphPosition::Filter(GraphFilter::One(id)) => explainer.term(id),
                    GraphPosition::Filter(filter) => format!("{filter:?}"),
                    GraphPosition::Bound(slot) => format!("={}", name(slot)),
                    GraphPosition::New(slot) => name(slot),
                };
                let attribute = explainer.term(*attribute);
                let detail = format!("{s} {predicate} {o} . {neighbour} {attribute} {value}");
                PlanNode::new(format!("Cached({end:?})"), detail)
            }
            StepKind::Pattern(p, access) => PlanNode::new(format!("{access:?}"), pattern(p)),
            StepKind::Ranges(p, order, ranges) => {
                let detail = format!("{} in {} ranges", pattern(p), ranges.len());
                PlanNode::new(format!("Ranges({order:?})"), detail)
            }
            StepKind::Intersect(slot, patterns) => {
                let patterns: Vec<_> = patterns.iter().map(pattern).collect();
                let detail = format!("{} in {}", name(*slot), patterns.join(" . "));
                PlanNode::new("Intersect", detail)
            }
            StepKind::Equal(a, b) => PlanNode::new("Equal", format!("{} {}", name(*a), name(*b))),
            StepKind::Filter(e) => PlanNode::new("Filter", &*e.text),
            StepKind::Bind(slot, e) => {
                PlanNode::new("Bind", format!("{} := {}", name(*slot), e.text))
            }
            StepKind::Values { slots, rows, .. } => {
                let names: Vec<_> = slots.iter().map(|s| name(*s)).collect();
                PlanNode::new(
                    "Values",
                    format!("{} × {} rows", names.join(" "), rows.len()),
                )
            }
            StepKind::Optional(inner) => PlanNode {
                steps: inside(inner),
                ..PlanNode::new("Optional", "")
            },
            StepKind::Without(inner) => PlanNode {
                steps: inside(inner),
                ..PlanNode::new("Without", "")
            },
            StepKind::EarlyDistinct => {
                let names: Vec<_> = step.live.iter().map(name).collect();
                PlanNode::new("EarlyDistinct", names.join(" "))
            }
            StepKind::Union(branches) => PlanNode {
                steps: branches
                    .iter()
                    .map(|branch| PlanNode {
                        steps: inside(branch),
                        ..PlanNode::new("Branch", "")
                    })
                    .collect(),
                ..PlanNode::new("Union", "")
            },
            StepKind::Path(path) => {
                let [s, o] = [path.subject, path.object].map(position);
                let counted = path
                    .counted
                    .map(|slot| format!(" (counting {})", name(slot)));
                let counted = counted.unwrap_or_default();
                PlanNode::new("Path", format!("{s} {} {o}{counted}", path.text))
            }
            StepKind::Reachable(path) => {
                let [from, to] = [path.from, path.to].map(position);
                let detail = format!("{from} {} {to}", path.text);
                PlanNode::new("Reachable", detail)
            }
            StepKind::Graphs(p) => PlanNode::new("Graphs", position(*p)),
            StepKind::Merged(_) => PlanNode::new("Merged graphs", ""),
            StepKind::TakeApart(term, parts) => {
                let parts = parts.map(position);
                PlanNode::new(
                    "TakeApart",
                    format!("{} as {}", name(*term), parts.join(" ")),
                )
            }
        };
        if step.once {
            node.detail.push_str(" (first match)");
        }
        node.estimated_rows = Some(step.rows);
        node.measured = explainer.measured(step.part);
        node
    };
    steps.iter().map(explain_one).collect()
}
