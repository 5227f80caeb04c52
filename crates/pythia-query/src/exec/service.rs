//! `SERVICE`: solutions joined with what other endpoints answer.
//!
//! The terms that solutions already have are sent along as VALUES, some solutions at a time (a
//! bound join), so that an endpoint answers only what can be joined.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream;
use hashbrown::HashSet;
use oxrdf::{BlankNode, NamedNode, Term, Triple, Variable};
use pythia_rdf::TermId;
use spargebra::algebra::GraphPattern;
use spargebra::term::{GroundTerm, GroundTriple};

use super::batch::{id_columns, record_batch};
use super::context::QueryContext;
use super::operator::{Operator, Solutions, pull, solutions};
use crate::error::QueryError;

/// How many solutions are sent along with one request.
const SOLUTIONS_SENT: usize = 200;
/// How many pairs of solutions are looked at between two looks at the clock.
const PAIRS_CHECKED: usize = 1 << 16;

/// Joins solutions with a pattern that an endpoint answers.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) endpoint: Endpoint,
    pub(crate) pattern: GraphPattern,
    /// Whether a failing endpoint counts as one solution that binds nothing.
    pub(crate) silent: bool,
    /// The variables asked for, and the column of the output each one fills.
    pub(crate) asked: Vec<Variable>,
    pub(crate) columns: Vec<usize>,
    /// How many columns the input has: the first ones of the output.
    pub(crate) left: usize,
}

/// Which endpoint is asked.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    Fixed(NamedNode),
    /// The one an input column names.
    Column(usize),
}

impl Operator for Service {
    fn name(&self) -> &'static str {
        "Service"
    }

    fn describe(&self, _: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let silent = if self.silent { "silent " } else { "" };
        match &self.endpoint {
            Endpoint::Fixed(endpoint) => write!(f, "{silent}{endpoint}")?,
            Endpoint::Column(column) => write!(f, "{silent}column {column}")?,
        }
        write!(f, " {{ {} }}", self.pattern)
    }

    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let joiner = Joiner {
            service: self.clone(),
            input: inputs.remove(0),
            current: None,
            requests: 0,
            schema: Arc::clone(&schema),
            context,
        };
        solutions(
            schema,
            stream::try_unfold(joiner, |mut joiner| async move {
                Ok(joiner.next().await?.map(|batch| (batch, joiner)))
            }),
        )
    }
}

struct Joiner {
    service: Service,
    input: Solutions,
    /// An input batch by column, its rows, and how many of them have been joined.
    current: Option<(Vec<Vec<u64>>, usize, usize)>,
    /// Requests sent so far: tells the blank nodes of different answers apart.
    requests: usize,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

/// An endpoint, `None` if it is no IRI, and the rows that name it.
type RowsOfEndpoint = (Option<NamedNode>, Vec<usize>);

/// What an endpoint answered, as ids: per row one for each variable asked for, 0 if unbound.
type Answer = Vec<Vec<u64>>;

impl Joiner {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            self.context.check()?;
            let Some((columns, rows, done)) = self.current.take() else {
                let Some(batch) = pull(&mut self.input).await? else {
                    return Ok(None);
                };
                let columns = id_columns(&batch)
                    .into_iter()
                    .map(<[u64]>::to_vec)
                    .collect();
                self.current = Some((columns, batch.num_rows(), 0));
                continue;
            };
            if done >= rows {
                continue;
            }
            let to = (done + SOLUTIONS_SENT).min(rows);
            let mut joined = self.join(&columns, done, to)?;
            self.current = Some((columns, rows, to));
            let rows = joined[0].len();
            if rows > 0 {
                joined.truncate(self.schema.fields().len());
                return Ok(Some(record_batch(&self.schema, joined, rows)?));
            }
        }
    }

    /// Joins input rows `from..to`. The output has one more column than the schema wants if that
    /// has none, so that its rows can be counted.
    fn join(
        &mut self,
        columns: &[Vec<u64>],
        from: usize,
        to: usize,
    ) -> Result<Vec<Vec<u64>>, QueryError> {
        let mut output: Vec<Vec<u64>> = vec![Vec::new(); self.schema.fields().len().max(1)];
        for (endpoint, rows) in self.by_endpoint(columns, from, to)? {
            let answer = match endpoint {
                Some(endpoint) => self.ask(&endpoint, columns, &rows),
                None => Err(QueryError::Service {
                    endpoint: "an endpoint that is no IRI".to_owned(),
                    message: "it cannot be asked".to_owned(),
                }),
            };
            let answer = match answer {
                Err(QueryError::Service { .. }) if self.service.silent => {
                    vec![vec![0; self.service.asked.len()]]
                }
                other => other?,
            };
            self.pair(columns, &rows, &answer, &mut output)?;
        }
        Ok(output)
    }

    /// The rows by endpoint.
    fn by_endpoint(
        &self,
        columns: &[Vec<u64>],
        from: usize,
        to: usize,
    ) -> Result<Vec<RowsOfEndpoint>, QueryError> {
        let column = match &self.service.endpoint {
            Endpoint::Fixed(endpoint) => {
                return Ok(vec![(Some(endpoint.clone()), (from..to).collect())]);
            }
            Endpoint::Column(column) => &columns[*column],
        };
        let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
        for (row, &id) in (from..to).zip(&column[from..to]) {
            match groups.iter_mut().find(|(endpoint, _)| *endpoint == id) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((id, vec![row])),
            }
        }
        let named = groups.into_iter().map(|(id, rows)| {
            let term = match id {
                0 => None,
                id => Some(self.context.evaluation.decode(&[TermId(id)])?.remove(0)),
            };
            Ok(match term {
                Some(Term::NamedNode(endpoint)) => (Some(endpoint), rows),
                _ => (None, rows),
            })
        });
        named.collect()
    }

    /// Asks an endpoint for what can be joined with the rows.
    fn ask(
        &mut self,
        endpoint: &NamedNode,
        columns: &[Vec<u64>],
        rows: &[usize],
    ) -> Result<Answer, QueryError> {
        let context = Arc::clone(&self.context);
        let failed = |message: String| QueryError::Service {
            endpoint: endpoint.to_string(),
            message,
        };
        let Some(handler) = &context.service else {
            return Err(QueryError::unsupported_hint(
                "SERVICE, as no client for other endpoints is set,",
                "set QueryOptions::service, such as to HttpService",
            ));
        };
        let query = self.query(columns, rows)?;
        let solutions = handler
            .select(endpoint, &query, context.governor().deadline())
            .map_err(|error| failed(error.to_string()))?;
        self.requests += 1;
        let places: Vec<Option<usize>> = self
            .service
            .asked
            .iter()
            .map(|asked| solutions.variables.iter().position(|v| v == asked))
            .collect();
        let query = context.evaluation.blank_node_seed();
        let scope = format!("s{query:016x}r{}_", self.requests);
        let mut answer = Vec::new();
        for row in solutions.rows {
            let row = row.map_err(|error| failed(error.to_string()))?;
            context.check()?;
            context.reserve(places.len() * 8 + 24)?;
            let ids = places.iter().map(|place| {
                let term = place.and_then(|place| row.get(place).cloned().flatten());
                let term = term.map(|term| foreign(term, &scope));
                term.map_or(Ok(0), |term| Ok(context.evaluation.intern(term)?.0))
            });
            answer.push(ids.collect::<Result<Vec<u64>, QueryError>>()?);
        }
        Ok(answer)
    }

    /// The query that asks for what can be joined with the rows.
    fn query(&self, columns: &[Vec<u64>], rows: &[usize]) -> Result<String, QueryError> {
        let shared: Vec<usize> = (0..self.service.asked.len())
            .filter(|asked| self.service.columns[*asked] < self.service.left)
            .collect();
        let mut pattern = self.service.pattern.clone();
        let mut seen: HashSet<Vec<u64>> = HashSet::new();
        let mut bindings = Vec::new();
        for &row in rows {
            let ids: Vec<u64> = shared
                .iter()
                .map(|asked| columns[self.service.columns[*asked]][row])
                .collect();
            if seen.insert(ids.clone()) {
                let terms = ids.into_iter().map(|id| self.sendable(id));
                bindings.push(terms.collect::<Result<Vec<_>, _>>()?);
            }
        }
        // A row that binds nothing asks for everything.
        if bindings.iter().all(|row| row.iter().any(Option::is_some)) {
            let variables = shared
                .iter()
                .map(|asked| self.service.asked[*asked].clone());
            pattern = GraphPattern::Join {
                left: Box::new(GraphPattern::Values {
                    variables: variables.collect(),
                    bindings,
                }),
                right: Box::new(pattern),
            };
        }
        let query = spargebra::Query::Select {
            dataset: None,
            pattern: GraphPattern::Project {
                inner: Box::new(pattern),
                variables: self.service.asked.clone(),
            },
            base_iri: None,
        };
        Ok(query.to_string())
    }

    /// A term as it can be sent; `None` for what another endpoint cannot know.
    fn sendable(&self, id: u64) -> Result<Option<GroundTerm>, QueryError> {
        if id == 0 {
            return Ok(None);
        }
        let term = self.context.evaluation.decode(&[TermId(id)])?.remove(0);
        Ok(ground(term))
    }

    /// Appends the compatible pairs of input rows and answered rows.
    fn pair(
        &self,
        columns: &[Vec<u64>],
        rows: &[usize],
        answer: &Answer,
        output: &mut [Vec<u64>],
    ) -> Result<(), QueryError> {
        let left = self.service.left;
        let mut looked_at = 0;
        for &row in rows {
            for found in answer {
                looked_at += 1;
                if looked_at % PAIRS_CHECKED == 0 {
                    self.context.check()?;
                }
                let filled = || self.service.columns.iter().zip(found);
                let compatible = filled().all(|(column, id)| {
                    *column >= left || *id == 0 || [0, *id].contains(&columns[*column][row])
                });
                if !compatible {
                    continue;
                }
                for (column, values) in output.iter_mut().enumerate() {
                    values.push(columns.get(column).map_or(0, |column| column[row]));
                }
                for (column, id) in filled() {
                    let value = output[*column].last_mut().expect("pushed above");
                    if *value == 0 {
                        *value = *id;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A term without blank nodes, as VALUES takes it.
fn ground(term: Term) -> Option<GroundTerm> {
    Some(match term {
        Term::NamedNode(node) => node.into(),
        Term::Literal(literal) => literal.into(),
        Term::BlankNode(_) => return None,
        Term::Triple(triple) => {
            let Triple {
                subject,
                predicate,
                object,
            } = *triple;
            let oxrdf::NamedOrBlankNode::NamedNode(subject) = subject else {
                return None;
            };
            GroundTerm::Triple(Box::new(GroundTriple {
                subject,
                predicate,
                object: ground(object)?,
            }))
        }
    })
}

/// A term of an answer, its blank nodes renamed: they are none of ours, and of no other answer.
fn foreign(term: Term, scope: &str) -> Term {
    match term {
        Term::BlankNode(node) => {
            BlankNode::new_unchecked(format!("{scope}{}", node.as_str())).into()
        }
        Term::Triple(triple) => {
            let subject = foreign(triple.subject.into(), scope);
            let object = foreign(triple.object, scope);
            match subject {
                Term::NamedNode(node) => Triple::new(node, triple.predicate, object).into(),
                Term::BlankNode(node) => Triple::new(node, triple.predicate, object).into(),
                other => other,
            }
        }
        other => other,
    }
}
