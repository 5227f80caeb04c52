//! Planning of a path search: the body of `SERVICE path:search` becomes an operator.
//!
//! The body has one triple or path pattern, whose ends are the start and end of the paths and whose predicate
//! is the path expression; or `GRAPH path:step { … }`, each solution of which is an edge. Triples with
//! predicates of the namespace are options; their subject is the path. Filters and BIND use the variables
//! that options name for an edge.

use oxrdf::{NamedNode, Variable};
use pythia_rdf::TermId;
use pythia_sparql::path_expansion;
use pythia_sparql::path_search::{Edges, PathSearch as Request, WeightOption};
use pythia_sparql::scope::{Variables, has_exists, term_variable, variables_of};
use pythia_store::GraphFilter;
use spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::builder::{Builder, Planned};
use super::triple_term::ground_term;
use super::{PlanError, Planner, Planning};
use pythia_exec::error::QueryError;
use pythia_exec::plan::automaton::Automaton;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::path_search::{
    Destination, EdgeSource, Origin, Output, PathSearch, Rules, StoreEdges, Weight, WeightKind,
};
use pythia_exec::plan::{Operator, Plan};

/// Size of a page of nodes, which determines the number of parallel reads, in bytes.
const NODE_BYTES: usize = 4096;

/// Estimated number of paths per solution; nothing is known about it.
const PATHS_UNKNOWN: f64 = 10.0;

/// The ends of a search.
struct Ends {
    start: Origin,
    end: Destination,
    /// Variable that the search binds to the end nodes.
    found: Option<Variable>,
}

impl Planner<'_> {
    /// Extends the pipeline's solutions by paths.
    #[inline(never)]
    pub(super) fn search(
        &self,
        builder: &mut Builder,
        body: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        if builder.nested {
            return Err(PlanError::Alone);
        }
        let request = Request::read(body)?;
        let graphs = self.searched_graphs(graph)?;
        let bound = |builder: &Builder, end: &TermPattern| match term_variable(end) {
            Some(variable) => builder.is_certain(&variable),
            None => true,
        };
        if !bound(builder, &request.start) && !bound(builder, &request.end) {
            self.extend(builder, &all_starts(&request), graph)?;
        }
        let flipped = !bound(builder, &request.start);
        let inserted = builder.inserted.clone();
        let needed = builder.variables();
        let left = std::mem::take(builder).finish(Some(&needed));
        let ends = self.search_ends(&request, left.variables(), flipped)?;
        let outputs = outputs(&request, &ends, left.variables())?;

        let mut variables = left.variables().to_vec();
        let mut inputs = vec![left.plan];
        let edges = match &request.edges {
            Edges::Expression(expression) => {
                let automaton = self.search_automaton(expression, flipped)?;
                let edges = self.store_edges(&request, &automaton, graphs, graph)?;
                (automaton, EdgeSource::Store(edges))
            }
            Edges::Step(step) => {
                let (planned, source) = self.step_edges(&request, step, graph)?;
                inputs.push(planned.plan);
                let any = PropertyPathExpression::OneOrMore(Box::new(
                    PropertyPathExpression::NegatedPropertySet(Vec::new()),
                ));
                (self.search_automaton(&any, flipped)?, source)
            }
        };
        variables.extend(outputs.iter().map(|(_, variable)| variable.clone()));
        let mut certain = left.certain;
        let always = outputs.iter().filter(|(output, _)| !output.is_of_edge());
        certain.extend(always.map(|(_, variable)| variable.clone()));
        let search = PathSearch {
            rules: rules(&request, self.snapshot.device().depth(NODE_BYTES)),
            automaton: edges.0,
            start: ends.start,
            end: ends.end,
            flipped,
            edges: edges.1,
            outputs: outputs.iter().map(|(output, _)| *output).collect(),
            text: request.to_string(),
        };
        *builder = Builder::from_planned(Planned {
            plan: Plan::new(Operator::PathSearch(search), inputs, variables),
            certain,
            rows: left.rows * PATHS_UNKNOWN,
        });
        builder.inserted = inserted;
        Ok(())
    }

    fn searched_graphs(&self, graph: &GraphScope) -> Result<Vec<GraphFilter>, QueryError> {
        match graph {
            GraphScope::Fixed(filter) => Ok(vec![*filter]),
            GraphScope::Merged => Ok(self.dataset.default_filters()),
            GraphScope::Absent => Ok(Vec::new()),
            GraphScope::Variable(variable) => Err(QueryError::unsupported_hint(
                format!("a path search in GRAPH {variable}"),
                "name the graph, as in GRAPH <…> { … }, or with FROM <…>",
            )),
        }
    }

    /// Compiles the path expression in the direction of the search.
    fn search_automaton(
        &self,
        expression: &PropertyPathExpression,
        flipped: bool,
    ) -> Result<Automaton, QueryError> {
        let mut resolve = |node: &NamedNode| self.id_of(&node.clone().into());
        match flipped {
            false => Automaton::compile(expression, &mut resolve),
            true => Automaton::compile(&Automaton::reversed(expression), &mut resolve),
        }
    }

    /// Returns the start and end of the search, given the columns of its input.
    fn search_ends(
        &self,
        request: &Request,
        columns: &[Variable],
        flipped: bool,
    ) -> Result<Ends, QueryError> {
        let (start, end) = match flipped {
            false => (&request.start, &request.end),
            true => (&request.end, &request.start),
        };
        let column = |term: &TermPattern| -> Option<usize> {
            let variable = term_variable(term)?;
            columns.iter().position(|known| *known == variable)
        };
        let constant = |term: &TermPattern| -> Result<TermId, QueryError> {
            self.evaluation.intern(ground_term(term)?)
        };
        let mut found = None;
        Ok(Ends {
            start: match column(start) {
                Some(column) => Origin::Column(column),
                None => Origin::Constant(constant(start)?),
            },
            end: match (term_variable(end), column(end)) {
                (Some(variable), _) if term_variable(start).as_ref() == Some(&variable) => {
                    Destination::Start
                }
                (_, Some(column)) => Destination::Column(column),
                (Some(variable), None) => {
                    found = Some(variable);
                    Destination::Any
                }
                (None, None) => Destination::Constant(constant(end)?),
            },
            found,
        })
    }

    /// Returns the stored edges that a path expression follows.
    fn store_edges(
        &self,
        request: &Request,
        automaton: &Automaton,
        graphs: Vec<GraphFilter>,
        graph: &GraphScope,
    ) -> Result<StoreEdges, QueryError> {
        let hidden = |name: &str| Variable::new_unchecked(format!("_:{name}"));
        let named = |name: &Option<Variable>, other: &str| match name {
            Some(variable) => variable.clone(),
            None => hidden(other),
        };
        let columns = [
            named(&request.from, "from"),
            named(&request.predicate, "predicate"),
            named(&request.to, "to"),
        ];
        let over_edges = |expression: &Expression| -> Result<SlotExpression, QueryError> {
            let unknown = variables_of(expression);
            let mut unknown = unknown.iter().filter(|v| !columns.contains(v));
            match unknown.next() {
                // EXISTS has variables of its own.
                Some(variable) if !has_exists(expression) => Err(QueryError::unsupported_hint(
                    format!("{variable} in a filter or weight of a path's edges"),
                    "it sees the variables that path:from, path:predicate and path:to name; in PATHS, ?from, ?predicate and ?to",
                )),
                _ => Ok(SlotExpression::new(expression, &columns, graph)),
            }
        };
        let filter = request
            .filter()
            .map(|filter| over_edges(&filter))
            .transpose()?;
        let weight = match &request.weight {
            None => None,
            Some(WeightOption::Value(predicate)) => {
                let id = self.snapshot.resolve(predicate.as_ref().into())?;
                Some(WeightKind::Value(id))
            }
            Some(WeightOption::Variable(variable)) => {
                let bound = request.computed.iter().find(|(name, _)| name == variable);
                let expression = match bound {
                    Some((_, expression)) => expression.clone(),
                    None => Expression::Variable(variable.clone()),
                };
                Some(WeightKind::Expression(over_edges(&expression)?))
            }
        };
        let priority = request.priority.as_ref();
        let priority = priority.map(|predicate| self.snapshot.resolve(predicate.as_ref().into()));
        Ok(StoreEdges {
            wanted: [automaton.wanted(false), automaton.wanted(true)],
            graphs,
            filter,
            weight: weight.map(|kind| Weight {
                kind,
                optional: request.weight_optional,
            }),
            priority: priority.transpose()?.flatten(),
        })
    }

    /// Plans the pattern whose solutions are edges, and finds the columns of an edge.
    fn step_edges(
        &self,
        request: &Request,
        step: &GraphPattern,
        graph: &GraphScope,
    ) -> Result<(Planned, EdgeSource), QueryError> {
        let mut pattern = step.clone();
        path_expansion::expand(&mut pattern);
        for (variable, expression) in &request.computed {
            pattern = GraphPattern::Extend {
                inner: Box::new(pattern),
                variable: variable.clone(),
                expression: expression.clone(),
            };
        }
        if let Some(filter) = request.filter() {
            pattern = GraphPattern::Filter {
                expr: filter,
                inner: Box::new(pattern),
            };
        }
        let (from, to) = request.step_ends()?;
        let weight = match &request.weight {
            Some(WeightOption::Variable(variable)) => Some(variable.clone()),
            Some(WeightOption::Value(predicate)) => {
                return Err(QueryError::unsupported_hint(
                    format!("the weight {predicate} where edges are solutions of a pattern"),
                    "match it in the pattern, and give its variable",
                ));
            }
            None => None,
        };
        let mut columns = vec![from.clone(), to.clone()];
        columns.extend(request.predicate.clone());
        columns.extend(weight.clone());
        let pattern = GraphPattern::Distinct {
            inner: Box::new(GraphPattern::Project {
                inner: Box::new(pattern),
                variables: columns.clone(),
            }),
        };
        let needed: Variables = columns.into_iter().collect();
        let planned = self.plan(&pattern, graph, Some(&needed))?;
        let place = |variable: &Variable| -> Result<usize, QueryError> {
            let place = planned.variables().iter().position(|v| v == variable);
            place.ok_or_else(|| {
                QueryError::unsupported_hint(
                    format!("a pattern of edges that does not bind {variable}"),
                    "match the variable in path:step (VIA) of the search",
                )
            })
        };
        let source = EdgeSource::Pattern {
            from: place(from)?,
            to: place(to)?,
            predicate: request.predicate.as_ref().map(place).transpose()?,
            weight: weight.as_ref().map(place).transpose()?,
            optional: request.weight_optional,
        };
        Ok((planned, source))
    }
}

/// Returns the rules of the search. `depth` is the number of parallel reads that suits the device best.
fn rules(request: &Request, depth: usize) -> Rules {
    Rules {
        mode: request.mode,
        restrictor: request.restrictor,
        length_min: request.length_min,
        length_max: request.length_max,
        weighted: request.weight.is_some(),
        prioritized: request.priority.is_some(),
        batch_nodes: request.batch_nodes.unwrap_or(depth).max(1),
    }
}

/// Returns the columns that the search adds, with their variables.
fn outputs(
    request: &Request,
    ends: &Ends,
    before: &[Variable],
) -> Result<Vec<(Output, Variable)>, QueryError> {
    let mut outputs: Vec<(Output, Variable)> = Vec::new();
    let mut add = |output, variable: &Option<Variable>| {
        outputs.extend(variable.clone().map(|variable| (output, variable)));
    };
    add(Output::End, &ends.found);
    add(Output::Path, &request.path);
    add(Output::Length, &request.length);
    add(Output::Cost, &request.cost);
    add(Output::Number, &request.number);
    if request.index.is_some() {
        add(Output::Index, &request.index);
        add(Output::From, &request.from);
        add(Output::Predicate, &request.predicate);
        add(Output::To, &request.to);
        add(Output::Inverse, &request.inverse);
    }
    for (place, (_, variable)) in outputs.iter().enumerate() {
        let twice = outputs[..place].iter().any(|(_, other)| other == variable);
        if twice || before.contains(variable) {
            return Err(QueryError::unsupported_hint(
                format!("{variable}, which already has a value, as a result of a path search"),
                "use another name",
            ));
        }
    }
    Ok(outputs)
}

/// Returns a pattern that binds the start to every node at which paths may start.
fn all_starts(request: &Request) -> GraphPattern {
    let Some(start) = term_variable(&request.start) else {
        return GraphPattern::default();
    };
    let inner = match &request.edges {
        Edges::Step(step) => {
            let from = request.from.clone().unwrap_or_else(|| start.clone());
            GraphPattern::Extend {
                inner: Box::new(step.clone()),
                variable: start.clone(),
                expression: Expression::Variable(from),
            }
        }
        Edges::Expression(expression) => {
            let mut first = Vec::new();
            let other = |name: &str| Variable::new_unchecked(format!("_:search-{name}"));
            if first_edges(expression, false, &mut first) != Some(false) {
                let any = NamedNodePattern::Variable(other("predicate"));
                first = vec![(any.clone(), false), (any, true)];
            }
            let pattern = |(predicate, inverse): (NamedNodePattern, bool)| {
                let (mut subject, mut object) = (start.clone(), other("node"));
                if inverse {
                    std::mem::swap(&mut subject, &mut object);
                }
                GraphPattern::Bgp {
                    patterns: vec![TriplePattern {
                        subject: subject.into(),
                        predicate,
                        object: object.into(),
                    }],
                }
            };
            let union = |left, right| GraphPattern::Union {
                left: Box::new(left),
                right: Box::new(right),
            };
            let patterns = first.into_iter().map(pattern);
            patterns.reduce(union).unwrap_or_default()
        }
    };
    GraphPattern::Distinct {
        inner: Box::new(GraphPattern::Project {
            inner: Box::new(inner),
            variables: vec![start],
        }),
    }
}

/// Collects the first edges of paths, each with whether it is followed backward. Returns whether the path may
/// be empty, or `None` if the first edge is from a negated set.
fn first_edges(
    expression: &PropertyPathExpression,
    inverse: bool,
    first: &mut Vec<(NamedNodePattern, bool)>,
) -> Option<bool> {
    use PropertyPathExpression as Path;
    match expression {
        Path::NamedNode(predicate) => {
            let edge = (predicate.clone().into(), inverse);
            if !first.contains(&edge) {
                first.push(edge);
            }
            Some(false)
        }
        Path::NegatedPropertySet(_) => None,
        Path::Reverse(inner) => first_edges(inner, !inverse, first),
        Path::Sequence(a, b) => {
            let (a, b) = if inverse { (b, a) } else { (a, b) };
            match first_edges(a, inverse, first)? {
                true => first_edges(b, inverse, first),
                false => Some(false),
            }
        }
        Path::Alternative(a, b) => {
            let a = first_edges(a, inverse, first)?;
            Some(first_edges(b, inverse, first)? | a)
        }
        Path::ZeroOrOne(inner) | Path::ZeroOrMore(inner) => {
            first_edges(inner, inverse, first)?;
            Some(true)
        }
        Path::OneOrMore(inner) => first_edges(inner, inverse, first),
    }
}
