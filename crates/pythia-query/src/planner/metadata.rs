//! Aggregates and lists of predicates answered from the store's counts, without reading quads.
//!
//! Counts per predicate and per end cover all graphs. They are used only if one graph holds every quad, or for the
//! union of all graphs, and if no graph is hidden. Counts of a pattern's constants are exact for any graph, and for the
//! union if it is known that no triple is in several graphs.

use oxrdf::{Literal, Variable};
use pythia_rdf::TermId;
use pythia_sparql::scope::{Variables, term_variable, triple_variables};
use pythia_store::{GraphFilter, PredicateStatistics, QuadPattern, Statistics};
use spargebra::algebra::{AggregateExpression, AggregateFunction, Expression, GraphPattern};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::Planner;
use super::builder::{Builder, Planned};
use super::triple_term::ground_term;
use pythia_exec::error::QueryError;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::step::StepKind;

/// A triple pattern without repeated variables, matched in graphs that have no triple in common.
struct Counted<'p> {
    pattern: &'p TriplePattern,
    variables: Vec<Variable>,
    graphs: GraphFilter,
    /// True if the graphs hold every quad of the store.
    whole: bool,
}

/// The meaning of an aggregate.
enum Count<'p> {
    /// Solutions in which the variable is bound, or all.
    Solutions(Option<&'p Variable>),
    /// Distinct terms of a variable.
    Distinct(&'p Variable),
}

impl Planner<'_> {
    /// Plans grouping by nothing or by the predicate over a single triple pattern, from counts only.
    pub(super) fn group_from_counts(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Result<Option<Planned>, QueryError> {
        let Some(counted) = self.counted(inner, graph) else {
            return Ok(None);
        };
        let counts: Option<Vec<Count<'_>>> =
            aggregates.iter().map(|(_, a)| counted.what(a)).collect();
        let Some(counts) = counts else {
            return Ok(None);
        };
        let rows = match keys {
            [] => {
                let row: Option<Vec<u64>> = counts
                    .iter()
                    .map(|count| self.count(&counted, count))
                    .collect::<Result<_, _>>()?;
                row.map(|row| vec![row])
            }
            [key] if counted.whole && counted.is_all(key) => {
                let statistics = self.snapshot.estimates().statistics();
                let per_predicate = |p: &PredicateStatistics| {
                    let counts = counts.iter().map(|c| counted.of_predicate(c, p));
                    std::iter::once(Some(p.predicate.0))
                        .chain(counts.map(|n| Some(self.integer(n?))))
                        .collect::<Option<Vec<u64>>>()
                };
                statistics.predicates.iter().map(per_predicate).collect()
            }
            _ => None,
        };
        let Some(rows) = rows else {
            return Ok(None);
        };
        if let Some(pattern) = self.quad_pattern(&counted)? {
            self.snapshot.depend_on(&pattern);
        }
        let variables = keys.iter().chain(aggregates.iter().map(|(v, _)| v));
        let variables: Vec<Variable> = variables.cloned().collect();
        Ok(Some(known_rows(&variables, rows)))
    }

    /// Plans `SELECT DISTINCT ?p { ?s ?p ?o }`.
    pub(super) fn predicates_from_counts(
        &self,
        inner: &GraphPattern,
        graph: &GraphScope,
    ) -> Option<Planned> {
        let GraphPattern::Project { inner, variables } = inner else {
            return None;
        };
        let counted = self.counted(inner, graph)?;
        let [variable] = &variables[..] else {
            return None;
        };
        if !counted.whole || !counted.is_all(variable) {
            return None;
        }
        self.snapshot.depend_on(&QuadPattern::default());
        let statistics = self.snapshot.estimates().statistics();
        let predicates = statistics.predicates.iter();
        let rows = predicates.map(|p| vec![p.predicate.0]).collect();
        Some(known_rows(variables, rows))
    }

    fn counted<'p>(&self, pattern: &'p GraphPattern, graph: &GraphScope) -> Option<Counted<'p>> {
        let GraphPattern::Bgp { patterns } = pattern else {
            return None;
        };
        let [pattern] = &patterns[..] else {
            return None;
        };
        let (graphs, whole) = self.counted_graphs(pattern, graph)?;
        let is_triple = |term: &TermPattern| matches!(term, TermPattern::Triple(_));
        if is_triple(&pattern.subject) || is_triple(&pattern.object) {
            return None;
        }
        let variables = triple_variables(pattern);
        let repeated = (1..variables.len()).any(|i| variables[..i].contains(&variables[i]));
        let is_inserted = self.inserted.iter().any(|(v, _)| variables.contains(v));
        (!repeated && !is_inserted).then_some(Counted {
            pattern,
            variables,
            graphs,
            whole,
        })
    }

    /// Returns the graphs in which a pattern is counted, and whether they hold every quad of the store; `None` if a
    /// triple may be in several of them.
    fn counted_graphs(
        &self,
        pattern: &TriplePattern,
        graph: &GraphScope,
    ) -> Option<(GraphFilter, bool)> {
        match graph {
            GraphScope::Fixed(GraphFilter::One(graph)) => {
                let is_whole = |statistics: &Statistics| {
                    statistics.graphs.quads(*graph) == Some(statistics.quads)
                };
                let whole = self.counts().of_store().is_some_and(is_whole);
                Some((GraphFilter::One(*graph), whole))
            }
            GraphScope::Merged if self.dataset.merged.are_all() => {
                let predicate = match &pattern.predicate {
                    NamedNodePattern::NamedNode(node) => {
                        self.snapshot.resolve(node.as_ref().into()).ok()?
                    }
                    NamedNodePattern::Variable(_) => None,
                };
                let is_distinct = self.counts().has_distinct_triples(predicate);
                is_distinct.then_some((GraphFilter::Any, true))
            }
            _ => None,
        }
    }

    /// Returns the id of a count, or `None` if it requires reading quads.
    fn count(&self, counted: &Counted<'_>, count: &Count<'_>) -> Result<Option<u64>, QueryError> {
        let all = |this: &Self| -> Result<Option<u64>, QueryError> {
            let Some(pattern) = this.quad_pattern(counted)? else {
                return Ok(Some(0));
            };
            Ok(Some(this.counts().exact(&pattern)?))
        };
        let number = match count {
            Count::Solutions(Some(v)) if !counted.variables.contains(v) => Some(0),
            Count::Solutions(_) => all(self)?,
            Count::Distinct(v) if !counted.variables.contains(v) => Some(0),
            // The other two positions are constants, so all matches differ.
            Count::Distinct(_) if counted.variables.len() == 1 => all(self)?,
            Count::Distinct(v) if counted.whole => {
                let statistics = self.snapshot.estimates().statistics();
                let place = counted.place_of(v);
                match (&counted.pattern.predicate, counted.variables.len()) {
                    (NamedNodePattern::NamedNode(node), 2) => {
                        let predicate = self.snapshot.resolve(node.as_ref().into())?;
                        let counts = predicate.and_then(|p| statistics.predicate(p));
                        match counts {
                            None => Some(0),
                            Some(counts) => counted.distinct_at(place, counts),
                        }
                    }
                    (NamedNodePattern::Variable(_), 3) => match place {
                        TriplePosition::Predicate => Some(statistics.predicates.len() as u64),
                        _ if !statistics.distinct_exact => None,
                        TriplePosition::Subject => Some(statistics.subjects),
                        TriplePosition::Object => Some(statistics.objects),
                    },
                    _ => None,
                }
            }
            Count::Distinct(_) => None,
        };
        Ok(number.map(|n| self.integer(n)))
    }

    /// Returns the pattern as ids, or `None` if the store lacks one of its terms.
    fn quad_pattern(&self, counted: &Counted<'_>) -> Result<Option<QuadPattern>, QueryError> {
        let TriplePattern {
            subject,
            predicate,
            object,
        } = counted.pattern;
        let mut missing = false;
        let mut id = |term: &TermPattern| -> Result<Option<TermId>, QueryError> {
            if term_variable(term).is_some() {
                return Ok(None);
            }
            let found = self.snapshot.resolve(ground_term(term)?.as_ref())?;
            missing |= found.is_none();
            Ok(found)
        };
        let (subject, object) = (id(subject)?, id(object)?);
        let predicate = match predicate {
            NamedNodePattern::NamedNode(node) => id(&node.clone().into())?,
            NamedNodePattern::Variable(_) => None,
        };
        let pattern = QuadPattern {
            subject,
            predicate,
            object,
            graph: match counted.whole {
                true => GraphFilter::Any,
                false => counted.graphs,
            },
        };
        Ok((!missing).then_some(pattern))
    }

    fn integer(&self, number: u64) -> u64 {
        let literal = Literal::from(number as i64);
        let id = self.evaluation.intern(literal.into());
        id.expect("an integer is made without reading").0
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TriplePosition {
    Subject,
    Predicate,
    Object,
}

impl Counted<'_> {
    /// Returns the meaning of an aggregate, or `None` if it is not a count.
    fn what<'a>(&self, aggregate: &'a AggregateExpression) -> Option<Count<'a>> {
        let unnamed = |v: &Variable| v.as_str().starts_with("_:");
        match aggregate {
            // Matches in one graph are distinct, but not without the variable of a blank node.
            AggregateExpression::CountSolutions { distinct: true }
                if self.variables.iter().any(unnamed) =>
            {
                None
            }
            AggregateExpression::CountSolutions { .. } => Some(Count::Solutions(None)),
            AggregateExpression::FunctionCall {
                name: AggregateFunction::Count,
                expr: Expression::Variable(variable),
                distinct,
            } => Some(match distinct {
                true => Count::Distinct(variable),
                false => Count::Solutions(Some(variable)),
            }),
            AggregateExpression::FunctionCall { .. } => None,
        }
    }

    /// Returns the position of a variable in the pattern.
    fn place_of(&self, variable: &Variable) -> TriplePosition {
        if term_variable(&self.pattern.subject).as_ref() == Some(variable) {
            TriplePosition::Subject
        } else if term_variable(&self.pattern.object).as_ref() == Some(variable) {
            TriplePosition::Object
        } else {
            TriplePosition::Predicate
        }
    }

    /// Returns whether the pattern matches all quads and the variable is its predicate.
    fn is_all(&self, variable: &Variable) -> bool {
        self.variables.len() == 3
            && self.variables.contains(variable)
            && self.place_of(variable) == TriplePosition::Predicate
    }

    /// Returns a count for one predicate, if the pattern matches all quads.
    fn of_predicate(&self, count: &Count<'_>, predicate: &PredicateStatistics) -> Option<u64> {
        Some(match count {
            Count::Solutions(Some(v)) if !self.variables.contains(v) => 0,
            Count::Solutions(_) => predicate.quads,
            Count::Distinct(v) if !self.variables.contains(v) => 0,
            Count::Distinct(v) => return self.distinct_at(self.place_of(v), predicate),
        })
    }

    /// Returns the number of distinct terms at a position of a predicate's quads, if known.
    fn distinct_at(&self, place: TriplePosition, predicate: &PredicateStatistics) -> Option<u64> {
        match place {
            TriplePosition::Predicate => Some(1),
            _ if !predicate.distinct_exact => None,
            TriplePosition::Subject => Some(predicate.subjects),
            TriplePosition::Object => Some(predicate.objects),
        }
    }
}

/// Returns a plan of constant rows.
fn known_rows(variables: &[Variable], rows: Vec<Vec<u64>>) -> Planned {
    let mut builder = Builder::new();
    let slots: Vec<usize> = variables.iter().map(|v| builder.slot(v)).collect();
    let count = rows.len() as f64;
    for &slot in &slots {
        builder.bind(slot, count);
    }
    let values = StepKind::Values {
        slots,
        keys: Vec::new(),
        rows,
    };
    builder.push(values, count);
    let all: Variables = variables.iter().cloned().collect();
    builder.finish(Some(&all))
}
