//! Describes plans for EXPLAIN.

use std::fmt;

use oxrdf::Variable;
use pythia_rdf::TermId;
use pythia_store::{End, GraphFilter};

use super::operators::{
    Aggregation, EachGraph, Endpoint, HashJoin, JoinKind, Lateral, Operator, Pattern, Service,
    Slice, Sort,
};
use super::path_search::PathSearch;
use super::step::{
    Access, GraphPosition, PathGraph, PathStep, Position, SlotPattern, Step, StepKind,
};
use crate::explain::{Explainer, PlanNode};

impl Operator {
    /// Returns the operator's name in plans.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pattern(_) => "Pattern",
            Self::HashJoin(join) => match join.kind {
                JoinKind::Inner => "HashJoin",
                JoinKind::Left(_) => "HashLeftJoin",
                JoinKind::Minus => "HashMinus",
            },
            Self::Project(_) => "Project",
            Self::Slice(_) => "Slice",
            Self::RowLimit(_) => "RowLimit",
            Self::Concatenate => "Union",
            Self::Distinct => "Distinct",
            Self::Sort(_) => "Sort",
            Self::Aggregation(_) => "Group",
            Self::EachGraph(_) => "EachGraph",
            Self::Lateral(_) => "Lateral",
            Self::Service(_) => "Service",
            Self::PathSearch(_) => "PathSearch",
        }
    }

    /// Writes the rest of the operator's line in EXPLAIN.
    pub fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => pattern.describe(f),
            Self::HashJoin(join) => join.describe(f),
            Self::Project(project) => write!(f, "{:?}", project.columns),
            Self::Slice(slice) => slice.describe(f),
            Self::RowLimit(limit) => write!(f, "{}", limit.rows),
            Self::Concatenate | Self::Distinct => Ok(()),
            Self::Sort(sort) => sort.describe(f),
            Self::Aggregation(aggregation) => write!(f, "{aggregation:?}"),
            Self::EachGraph(EachGraph { graph, pattern, .. }) => {
                write!(f, "{graph} {{ {pattern} }}")
            }
            Self::Lateral(lateral) => lateral.describe(f),
            Self::Service(service) => service.describe(f),
            Self::PathSearch(search) => search.describe(f),
        }
    }

    /// Describes the operator and its steps, without the operator's inputs.
    pub fn explain(&self, explainer: &Explainer<'_>) -> PlanNode {
        let mut detail = String::new();
        self.describe(&mut detail).expect("a text takes all writes");
        PlanNode {
            steps: match self {
                Self::Pattern(pattern) => describe_steps(&pattern.steps, &pattern.slots, explainer),
                _ => Vec::new(),
            },
            ..PlanNode::new(self.name(), detail.trim_end())
        }
    }
}

impl Pattern {
    fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let names: Vec<_> = self
            .output
            .iter()
            .map(|s| self.slots[*s].to_string())
            .collect();
        write!(f, "[{}]", names.join(" "))
    }
}

impl HashJoin {
    fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        write!(f, "on {:?}", self.keys)?;
        if !self.maybe.is_empty() {
            write!(f, " compatible {:?}", self.maybe)?;
        }
        Ok(())
    }
}

impl Lateral {
    fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let names: Vec<_> = self.shared.iter().map(Variable::to_string).collect();
        write!(f, "with [{}] {{ {} }}", names.join(" "), self.pattern)
    }
}

impl Slice {
    fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        write!(f, "offset {}", self.start)?;
        match self.length {
            Some(length) => write!(f, " limit {length}"),
            None => Ok(()),
        }
    }
}

impl Sort {
    fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for key in &self.keys {
            let order = if key.descending { "desc" } else { "asc" };
            write!(f, "{order}({:?}) ", key.expression)?;
        }
        match self.limit {
            Some(limit) => write!(f, "first {limit}"),
            None => Ok(()),
        }
    }
}

impl Aggregation {
    /// Describes the operation with these names of its keys, and of the results that have one.
    pub fn describe_by<'v>(
        &self,
        keys: &str,
        results: impl Iterator<Item = Option<&'v Variable>>,
    ) -> String {
        let named = results.chain(std::iter::repeat(None));
        let aggregates = self.aggregates.expressions.iter().zip(named);
        let aggregates: Vec<_> = aggregates
            .map(|(aggregate, name)| match name {
                Some(name) => format!("{name} := {aggregate}"),
                None => aggregate.to_string(),
            })
            .collect();
        let by = if keys.is_empty() { "all" } else { "by " };
        let common = self
            .common
            .map(|number| format!(" (once for all of number {number})"));
        format!(
            "{by}{keys}: {}{}",
            aggregates.join(", "),
            common.unwrap_or_default()
        )
    }
}

impl fmt::Debug for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe_by(&format!("{:?}", self.keys), std::iter::empty()))
    }
}

impl Service {
    fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let optional = if self.optional { "optional " } else { "" };
        let silent = if self.silent { "silent " } else { "" };
        write!(f, "{optional}{silent}")?;
        match &self.endpoint {
            Endpoint::Fixed(endpoint) => write!(f, "{endpoint}")?,
            Endpoint::Column(_, variable) => write!(f, "{variable}")?,
        }
        write!(f, " {{ {} }}", self.pattern)
    }
}

impl PathSearch {
    fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let direction = if self.flipped { " from the end" } else { "" };
        write!(
            f,
            "{:?} {:?}{direction}, {} nodes a batch: {}",
            self.rules.mode, self.rules.restrictor, self.rules.batch_nodes, self.text
        )
    }
}

/// Describes where a quad pattern is matched; the store's default graph has no description.
fn describe_graph(graph: GraphPosition, slots: &[Variable], explainer: &Explainer<'_>) -> String {
    match graph {
        GraphPosition::Filter(GraphFilter::One(TermId(0))) => String::new(),
        GraphPosition::Filter(GraphFilter::One(id)) => format!(" graph {}", explainer.term(id)),
        GraphPosition::Filter(GraphFilter::Any) => " in the union of all graphs".to_owned(),
        GraphPosition::Filter(GraphFilter::Named) => " in the union of all named graphs".to_owned(),
        GraphPosition::Bound(slot) => format!(" graph ={}", slots[slot]),
        GraphPosition::New(slot, GraphFilter::Any) => {
            format!(" graph {} or the default graph", slots[slot])
        }
        GraphPosition::New(slot, _) => format!(" graph {}", slots[slot]),
    }
}

/// Describes a pipeline.
pub(crate) fn describe_steps(
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
        let graph = describe_graph(p.graph, slots, explainer);
        let [s, p, o] = [p.subject, p.predicate, p.object].map(position);
        format!("{s} {p} {o}{graph}")
    };
    let inside = |steps: &[Step]| describe_steps(steps, slots, explainer);
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
                    GraphPosition::New(slot, _) => name(slot),
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
            StepKind::Filter(e) => PlanNode::new("Filter", format!("{e:?}")),
            StepKind::Bind(slot, e) => PlanNode::new("Bind", format!("{} := {:?}", name(*slot), e)),
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
            StepKind::EarlyDistinct => {
                let names: Vec<_> = step.live.iter().map(name).collect();
                PlanNode::new("EarlyDistinct", names.join(" "))
            }
            StepKind::EarlyCount(slot) => {
                let counted = step.live.iter().filter(|live| live != slot);
                let names: Vec<_> = counted.map(name).collect();
                PlanNode::new("EarlyCount", names.join(" "))
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
            StepKind::Path(path) => describe_path(path, &position, &name, explainer),
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
        node.detail.push_str(&of_matches(step));
        node.estimated_rows = Some(step.rows);
        node.measured = explainer.measured(step.cost);
        node
    };
    steps.iter().map(explain_one).collect()
}

/// Describes a path, and the attribute of its end that is joined with it.
fn describe_path(
    path: &PathStep,
    position: &impl Fn(Position) -> String,
    name: &impl Fn(usize) -> String,
    explainer: &Explainer<'_>,
) -> PlanNode {
    let [s, o] = [path.subject, path.object].map(position);
    let counted = path
        .counted
        .map(|slot| format!(" (counting {})", name(slot)));
    let graph = match path.graph {
        PathGraph::Merged => " in the merged graphs",
        PathGraph::One(_) | PathGraph::Slot(_) => "",
    };
    let counted = counted.unwrap_or_default();
    let detail = format!("{s} {} {o}{graph}{counted}", path.text);
    let Some(attribute) = path.attribute else {
        return PlanNode::new("Path", detail);
    };
    let end = match path.subject {
        Position::New(_) => s,
        Position::Bound(_) | Position::Constant(_) => o,
    };
    let predicate = explainer.term(attribute.predicate);
    let value = position(attribute.value);
    PlanNode::new(
        "Cached path",
        format!("{detail} . {end} {predicate} {value}"),
    )
}

/// Describes which matches a step takes.
fn of_matches(step: &Step) -> String {
    let filters = step
        .filters
        .iter()
        .map(|filter| format!(" where {filter:?}"));
    let first = step.once.then_some(" (first match)");
    let counted = step.counts.map(|_| " (number of matches)");
    let taken = first.into_iter().chain(counted).map(str::to_owned);
    filters.chain(taken).collect()
}
