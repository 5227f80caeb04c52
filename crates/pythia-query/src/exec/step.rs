//! The steps of a pattern pipeline, as the planner writes them down.
//!
//! A pipeline is a list of steps over numbered slots, one per variable. Each step takes batches
//! of solutions and gives batches of solutions; [`super::pipeline`] runs them.

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

/// What stands in one position of a quad pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// A term.
    Constant(TermId),
    /// A variable bound by an earlier step.
    Bound(usize),
    /// A variable this step binds.
    New(usize),
}

impl Position {
    /// The slot, if it is a variable.
    pub(crate) fn slot(self) -> Option<usize> {
        match self {
            Self::Constant(_) => None,
            Self::Bound(slot) | Self::New(slot) => Some(slot),
        }
    }
}

/// The graph a quad pattern is matched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphPosition {
    /// Quads that pass the filter; which graph does not matter.
    Filter(GraphFilter),
    /// A variable over named graphs bound by an earlier step.
    Bound(usize),
    /// A variable over named graphs that this step binds.
    New(usize),
}

impl GraphPosition {
    /// What the store filters by; a bound variable is compared afterwards.
    pub(crate) fn filter(self) -> GraphFilter {
        match self {
            Self::Filter(filter) => filter,
            Self::Bound(_) | Self::New(_) => GraphFilter::Named,
        }
    }

    /// The slot, if it is a variable.
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

/// How a pattern is joined to the solutions so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read the matches in this order, once; joined with every solution.
    Scan(Order),
    /// Visit the tuple of each solution's subject or object: one page a node, in batches.
    Expand(End),
    /// As expanding, where an attribute of the nodes at the other ends is kept beside them: its
    /// value stands in the place of the pattern's graph.
    Cached(End, TermId),
    /// Subject, predicate and object are known: look whether the quad exists.
    Probe,
    /// Solutions come sorted by a slot, as the matches in this order: walk both, galloping.
    Merge(Order),
    /// Hold the matches in memory by the key, and look each solution up.
    Hash(Order),
}

/// An expression over slots.
#[derive(Clone)]
pub(crate) struct SlotExpression {
    /// What is evaluated.
    pub(crate) compiled: Arc<CompiledExpression>,
    /// The slots it reads.
    pub(crate) slots: Vec<usize>,
    /// As written, for EXPLAIN.
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
    /// Under this its cost is measured.
    pub(crate) part: PartId,
    /// What it does.
    pub(crate) kind: StepKind,
    /// Slots that later steps or the result still need, sorted.
    pub(crate) live: Arc<Slots>,
    /// Estimated solutions after it.
    pub(crate) rows: f64,
    /// Whether a solution's first match is enough: the step binds nothing that is needed, and
    /// nobody counts.
    pub(crate) once: bool,
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum StepKind {
    /// Joins with a quad pattern.
    Pattern(SlotPattern, Access),
    /// Joins with the matches of a pattern, reading only where the order's first variable is in
    /// these sorted ranges of ids.
    Ranges(SlotPattern, Order, Arc<[Range<u64>]>),
    /// Binds a slot to the terms that all of the patterns, which have it at one end and a known
    /// term at the other, allow.
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
        /// Which of `slots` are compared instead of bound.
        keys: Vec<usize>,
        /// The data; 0 = UNDEF.
        rows: Vec<Vec<u64>>,
    },
    /// Left join with the steps' solutions.
    Optional(Vec<Step>),
    /// Keeps solutions for which the steps have none.
    Without(Vec<Step>),
    /// May drop solutions that are alike in the live slots.
    EarlyDistinct,
    /// The solutions of each branch in turn.
    Union(Vec<Vec<Step>>),
    /// Joins with the pairs connected by a path.
    Path(PathStep),
    /// Keeps solutions whose two ends a path connects, by labels.
    Reachable(ReachableStep),
    /// Binds a slot to each named graph, or checks that it is one.
    Graphs(Position),
    /// Keeps solutions whose quad is in one of the graphs merged into the default graph, and in
    /// none before it.
    Merged(SlotPattern),
    /// Joins the triple term in a slot with its subject, predicate and object.
    TakeApart(usize, [Position; 3]),
}

/// The graph a path is walked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathGraph {
    /// The graphs merged into the dataset's default graph.
    Merged,
    /// One graph.
    One(TermId),
    /// The graph a slot names.
    Slot(usize),
}

/// A property path between two ends.
#[derive(Clone, Debug)]
pub(crate) struct PathStep {
    /// Start of the path.
    pub(crate) subject: Position,
    /// End of the path.
    pub(crate) object: Position,
    /// The graph walked.
    pub(crate) graph: PathGraph,
    /// From subject to object.
    pub(crate) forward: Automaton,
    /// From object to subject.
    pub(crate) backward: Automaton,
    /// The slot of an end that nobody needs: it holds how many such ends there are, in one solution
    /// for all of them.
    pub(crate) counted: Option<usize>,
    /// How much it is expected to find.
    pub(crate) estimate: PathEstimate,
    /// How it is answered by labels where both ends are known.
    pub(crate) labelled: Option<Labelled>,
    /// The path as written, for EXPLAIN.
    pub(crate) text: String,
}

/// How much a path is expected to find.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathEstimate {
    /// Objects from one subject; from the subject, if it is a constant.
    pub(crate) objects: f64,
    /// Subjects from one object; from the object, if it is a constant.
    pub(crate) subjects: f64,
    /// Distinct subjects of all.
    pub(crate) all_subjects: f64,
    /// Distinct objects of all.
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
