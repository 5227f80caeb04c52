//! Planning of patterns of any kind, and of filters, BIND and VALUES.

use oxrdf::{Term, Triple as RdfTriple, Variable};
use spargebra::algebra::{Expression, GraphPattern};
use spargebra::term::GroundTerm;

use super::bind::Layer;
use super::builder::{Builder, Planned};
use super::group::{GroupFilter, Operands, take_apart};
use super::join::hash_join;
use super::{PlanError, Planner, Planning, bind, push_down};
use pythia_exec::error::QueryError;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::operators::JoinKind;
use pythia_exec::plan::step::StepKind;
use pythia_sparql::path_search::is_search;
use pythia_sparql::scope::Variables;

impl Planner<'_> {
    /// Plans a pattern by itself. `needed` are the variables that the caller uses, `None` for all.
    pub(crate) fn plan(
        &self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        needed: Option<&Variables>,
    ) -> Result<Planned, QueryError> {
        self.evaluation.check()?;
        if let Some(planned) = self.plan_sequence(pattern, graph, needed)? {
            return Ok(planned.with_estimate());
        }
        let mut builder = Builder::new();
        self.insert_terms(&mut builder, pattern, graph);
        if let GraphScope::Variable(variable) = graph
            && !matches!(pattern, GraphPattern::Bgp { patterns } if !patterns.is_empty())
        {
            // The pattern is evaluated in each graph, even in those without matches for its parts.
            let slot = builder.slot(variable);
            self.push_graphs(&mut builder, slot);
        }
        match self.extend(&mut builder, pattern, graph) {
            Ok(()) => Ok(builder.finish(needed).with_estimate()),
            Err(PlanError::Query(error)) => Err(error),
            Err(PlanError::Alone) => unreachable!("only a nested pipeline cannot take a hash join"),
        }
    }

    /// Extends the pipeline's solutions by a pattern; the caller ensures that the pattern can be seeded (see
    /// [`scope`]).
    pub(super) fn extend(
        &self,
        builder: &mut Builder,
        pattern: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        self.evaluation.check()?;
        match pattern {
            GraphPattern::Bgp { .. } | GraphPattern::Path { .. } | GraphPattern::Join { .. } => {
                if let Some(moved) = bind::moved(builder, pattern) {
                    return self.extend(builder, &moved, graph);
                }
                if let Some((base, layers)) = bind::deep(pattern) {
                    return self.extend_inside_out(builder, base, layers, graph);
                }
                let mut group = Operands::default();
                take_apart(pattern, &mut group);
                self.extend_group(builder, group, graph)
            }
            GraphPattern::Filter { expr, inner } => self.extend_filter(builder, expr, inner, graph),
            GraphPattern::LeftJoin {
                left,
                right,
                expression,
            } => {
                self.extend(builder, left, graph)?;
                self.left_join(builder, right, expression.as_ref(), graph)
            }
            GraphPattern::Lateral { left, right } => self.lateral(builder, left, right, graph),
            GraphPattern::Union { left, right } => self.union(builder, left, right, &[], graph),
            GraphPattern::Extend {
                inner,
                variable,
                expression,
            } => {
                self.extend(builder, inner, graph)?;
                self.push_bind(builder, variable, expression, graph)
            }
            GraphPattern::Values {
                variables,
                bindings,
            } => self.push_values(builder, variables, bindings),
            GraphPattern::Minus { left, right } => {
                if builder.nested {
                    return Err(PlanError::Alone);
                }
                self.extend(builder, left, graph)?;
                self.minus(builder, right, graph)
            }
            GraphPattern::Graph { name, inner } => self.extend_graph(builder, name, inner),
            GraphPattern::Service { name, inner, .. } if is_search(name) => {
                self.search(builder, inner, graph)
            }
            GraphPattern::Service {
                name,
                inner,
                silent,
            } => self.service(builder, name, inner, *silent, false),
            _ if builder.nested => Err(PlanError::Alone),
            sequence if builder.is_unit() => {
                let planned = self.plan(sequence, graph, None)?;
                *builder = Builder::from_planned(planned);
                Ok(())
            }
            sequence => {
                let planned = self.plan(sequence, graph, None)?;
                hash_join(builder, planned, |_| JoinKind::Inner)
            }
        }
    }

    /// Extends the solutions by a pattern, then by each layer around it, in order.
    fn extend_inside_out(
        &self,
        builder: &mut Builder,
        base: &GraphPattern,
        layers: Vec<Layer<'_>>,
        graph: &GraphScope,
    ) -> Planning {
        self.extend(builder, base, graph)?;
        for layer in layers {
            self.evaluation.check()?;
            match layer {
                Layer::Join(right) => self.join(builder, &right, graph)?,
                Layer::Filter(filter) => self.push_filter(builder, &filter, graph)?,
                Layer::Bind(variable, value) => self.push_bind(builder, variable, value, graph)?,
            }
        }
        Ok(())
    }

    /// Extends the solutions by those solutions of a pattern that pass the filters. The pipeline, or each branch of a
    /// UNION, or the left side of an OPTIONAL or BIND binds the variables of the filters.
    pub(super) fn extend_filtered(
        &self,
        builder: &mut Builder,
        pattern: &GraphPattern,
        filters: &[GroupFilter<'_>],
        graph: &GraphScope,
    ) -> Planning {
        if filters.is_empty() {
            return self.extend(builder, pattern, graph);
        }
        match pattern {
            GraphPattern::Union { left, right } => self.union(builder, left, right, filters, graph),
            GraphPattern::LeftJoin {
                left,
                right,
                expression,
            } => {
                self.extend_filtered(builder, left, filters, graph)?;
                self.left_join(builder, right, expression.as_ref(), graph)
            }
            GraphPattern::Extend {
                inner,
                variable,
                expression,
            } => {
                self.extend_filtered(builder, inner, filters, graph)?;
                self.push_bind(builder, variable, expression, graph)
            }
            other => {
                let mut group = Operands {
                    filters: filters.to_vec(),
                    ..Operands::default()
                };
                take_apart(other, &mut group);
                self.extend_group(builder, group, graph)
            }
        }
    }

    pub(super) fn push_filter(
        &self,
        builder: &mut Builder,
        expression: &Expression,
        graph: &GraphScope,
    ) -> Planning {
        let filter = SlotExpression::new(expression, &builder.slots, graph);
        let share = match push_down::is_read_in_ranges(&filter, &builder.steps) {
            true => 1.0,
            false => push_down::share(expression),
        };
        let rows = builder.known.rows * share;
        builder.push(StepKind::Filter(filter), rows);
        Ok(())
    }

    pub(super) fn push_bind(
        &self,
        builder: &mut Builder,
        variable: &Variable,
        expression: &Expression,
        graph: &GraphScope,
    ) -> Planning {
        let value = SlotExpression::new(expression, &builder.slots, graph);
        let slot = builder.slot(variable);
        let rows = builder.known.rows;
        builder.push(StepKind::Bind(slot, value), rows);
        builder.known.maybe.insert(slot);
        builder.known.distinct.insert(slot, rows);
        Ok(())
    }

    fn push_values(
        &self,
        builder: &mut Builder,
        variables: &[Variable],
        bindings: &[Vec<Option<GroundTerm>>],
    ) -> Planning {
        let slots: Vec<usize> = variables.iter().map(|v| builder.slot(v)).collect();
        let keys: Vec<usize> = slots
            .iter()
            .copied()
            .filter(|slot| builder.known.certain.contains(slot))
            .collect();
        let mut rows = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let row = binding
                .iter()
                .map(|term| match term {
                    Some(term) => Ok(self.evaluation.intern(ground(term))?.0),
                    None => Ok(0),
                })
                .collect::<Result<Vec<u64>, QueryError>>()?;
            rows.push(row);
        }
        let estimate = if keys.is_empty() {
            builder.known.rows * rows.len() as f64
        } else {
            builder.known.rows
        };
        for (place, slot) in slots.iter().enumerate() {
            if rows.iter().all(|row| row[place] != 0) {
                builder.bind(*slot, rows.len() as f64);
            } else if !keys.contains(slot) {
                builder.known.maybe.insert(*slot);
            }
        }
        builder.known.sorted = None;
        builder.push(StepKind::Values { slots, keys, rows }, estimate);
        Ok(())
    }
}

/// Converts a term of VALUES.
pub(super) fn ground(term: &GroundTerm) -> Term {
    match term {
        GroundTerm::NamedNode(node) => node.clone().into(),
        GroundTerm::Literal(literal) => literal.clone().into(),
        GroundTerm::Triple(triple) => RdfTriple::new(
            triple.subject.clone(),
            triple.predicate.clone(),
            ground(&triple.object),
        )
        .into(),
    }
}
