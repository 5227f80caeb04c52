//! Planning of `GRAPH`.

use oxrdf::{NamedNode, Variable};
use pythia_sparql::scope::{Variables, can_seed, certain, in_scope, mentioned};
use pythia_store::GraphFilter;
use spargebra::algebra::GraphPattern;
use spargebra::term::NamedNodePattern;

use super::builder::{Builder, Planned};
use super::join::hash_join;
use super::sequence::needs_evaluation_per_graph;
use super::{PlanError, Planner, Planning};
use pythia_exec::error::QueryError;
use pythia_exec::explain::CostId;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::operators::EachGraph;
use pythia_exec::plan::operators::JoinKind;
use pythia_exec::plan::step::{Position, StepKind};
use pythia_exec::plan::{Operator, Plan};

/// Estimated solutions of a pattern that is planned per graph at execution time.
const ROWS_UNKNOWN: f64 = 1000.0;

impl Planner<'_> {
    pub(super) fn extend_graph(
        &self,
        builder: &mut Builder,
        name: &NamedNodePattern,
        inner: &GraphPattern,
    ) -> Planning {
        match name {
            NamedNodePattern::NamedNode(node) => {
                if let Some(scope) = self.named_graph(node)? {
                    return self.extend(builder, inner, &scope);
                }
                self.extend(builder, inner, &GraphScope::Absent)?;
                builder.push_nothing();
                Ok(())
            }
            NamedNodePattern::Variable(variable) => {
                let mut joined = builder.joined_variables();
                joined.insert(variable.clone());
                if needs_evaluation_per_graph(inner) || !can_seed(inner, &joined) {
                    return self.join_each_graph(builder, variable, inner);
                }
                let scope = GraphScope::Variable(variable.clone());
                let slot = builder.slot(variable);
                // Parts that may be empty must not decide which graphs are tried.
                if !certain(inner).iter().any(|v| !builder.is_certain(v))
                    || !matches!(inner, GraphPattern::Bgp { .. })
                {
                    self.push_graphs(builder, slot);
                }
                self.extend(builder, inner, &scope)
            }
        }
    }

    /// Returns the scope of a graph of the dataset, or `None` if the dataset has none of this name.
    pub(super) fn named_graph(&self, name: &NamedNode) -> Result<Option<GraphScope>, QueryError> {
        Ok(match self.snapshot.resolve(name.as_ref().into())? {
            Some(id) if self.dataset.names(id) && self.snapshot.has_graph(id)? => {
                Some(GraphScope::Fixed(GraphFilter::One(id)))
            }
            _ => None,
        })
    }

    pub(super) fn push_graphs(&self, builder: &mut Builder, slot: usize) {
        if builder.known.certain.contains(&slot) {
            let rows = builder.known.rows;
            builder.push(StepKind::Graphs(Position::Bound(slot)), rows);
            return;
        }
        if let Some(named) = &self.dataset.named {
            let values = StepKind::Values {
                slots: vec![slot],
                keys: Vec::new(),
                rows: named.iter().map(|graph| vec![graph.0]).collect(),
            };
            let rows = builder.known.rows * named.len() as f64;
            builder.push(values, rows);
            builder.known.sorted = None;
            builder.bind(slot, named.len() as f64);
            return;
        }
        let graphs = self.counts().named_graphs();
        let rows = builder.known.rows * graphs.max(1.0);
        builder.push(StepKind::Graphs(Position::New(slot)), rows);
        builder.known.sorted = None;
        builder.bind(slot, graphs);
    }

    /// Joins with `GRAPH ?g` around a pattern that must be evaluated in each graph separately.
    fn join_each_graph(
        &self,
        builder: &mut Builder,
        graph: &Variable,
        pattern: &GraphPattern,
    ) -> Planning {
        if builder.nested {
            return Err(PlanError::Alone);
        }
        if self.join_bound_graphs(builder, graph, pattern) {
            return Ok(());
        }
        let mut variables: Vec<Variable> = in_scope(pattern).into_iter().collect();
        variables.retain(|v| v != graph && !v.as_str().starts_with("_:"));
        variables.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let each = EachGraph {
            pattern: pattern.clone(),
            graph: graph.clone(),
            variables: variables.clone(),
            inserted: self.inserted.clone(),
            number: CostId::next(),
        };
        variables.push(graph.clone());
        let mut bound = certain(pattern);
        bound.insert(graph.clone());
        bound.retain(|v| variables.contains(v));
        let planned = Planned {
            plan: Plan::new(Operator::EachGraph(each), Vec::new(), variables),
            certain: bound,
            rows: ROWS_UNKNOWN,
        };
        if builder.is_unit() {
            *builder = Builder::from_planned(planned);
            return Ok(());
        }
        hash_join(builder, planned, |_| JoinKind::Inner)
    }

    /// Joins with `GRAPH ?g` by evaluating the pattern only in the graphs that the solutions so far bind, if they are
    /// fewer than all, and nothing else joins the pattern with the solutions. Returns whether that was so.
    pub(super) fn join_bound_graphs(
        &self,
        builder: &mut Builder,
        graph: &Variable,
        pattern: &GraphPattern,
    ) -> bool {
        let mut inside = Variables::new();
        mentioned(pattern, &mut inside);
        let graphs = match &self.dataset.named {
            Some(named) => named.len() as f64,
            None => self.counts().named_graphs(),
        };
        // In a plan for one of the graphs there are no others.
        let is_inserted = self.inserted.iter().any(|(inserted, _)| inserted == graph);
        let is_alone = !is_inserted
            && builder.is_certain(graph)
            && builder.known.rows < graphs
            && !inside.contains(graph)
            && in_scope(pattern).is_disjoint(&builder.variables());
        if is_alone {
            let whole = GraphPattern::Graph {
                name: NamedNodePattern::Variable(graph.clone()),
                inner: Box::new(pattern.clone()),
            };
            let seen = Variables::from_iter([graph.clone()]);
            self.push_lateral(builder, &whole, &GraphScope::DEFAULT, &seen);
        }
        is_alone
    }
}
