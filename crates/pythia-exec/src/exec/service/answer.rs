//! An endpoint's answer, read by its own thread so that the query can be stopped while it waits.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use oxrdf::{BlankNode, NamedNode, Term, Triple, Variable};

use super::asked::Whole;
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::service::{ServiceError, ServiceHandler};

/// Number of solutions per part, and number of parts that may wait for the reader.
const ROWS: usize = 256;
const AHEAD: usize = 2;
/// Time to wait between checks for cancellation.
const WAIT: Duration = Duration::from_millis(20);

/// An endpoint's answer as it arrives.
pub(super) enum Answer {
    Coming {
        parts: Receiver<AnswerPiece>,
        endpoint: String,
        /// Prefix of this answer's blank node labels.
        scope: String,
        /// The answer's variables, in its order.
        places: Option<Vec<Variable>>,
    },
    Kept(Whole),
    Failed(Option<QueryError>),
}

/// A part of an answer. No part follows a failure or the end.
pub(super) enum AnswerPiece {
    Variables(Vec<Variable>),
    Rows(Vec<Vec<Option<Term>>>),
    Failed(ServiceError),
    End,
}

/// The next part of an answer.
pub(super) enum Next {
    /// For each solution, the term of each variable, if bound.
    Rows(Vec<Variable>, Vec<Vec<Option<Term>>>),
    /// Solutions as ids, in the order of the requested variables.
    Kept(Whole),
    Failed(QueryError),
    End,
}

impl Answer {
    /// Sends a request.
    pub(super) fn ask(
        handler: &Arc<dyn ServiceHandler>,
        endpoint: &NamedNode,
        query: String,
        number: usize,
        context: &QueryContext,
    ) -> Result<Self, QueryError> {
        let (sender, parts) = sync_channel(AHEAD);
        let deadline = context.governor().deadline();
        let (handler, asked) = (Arc::clone(handler), endpoint.clone());
        thread::Builder::new()
            .name("service".to_owned())
            .spawn(move || {
                let answered = match handler.select(&asked, &query, deadline) {
                    Ok(answer) => give(answer.variables, answer.rows, &sender),
                    Err(error) => Err(error),
                };
                // The receiver may be gone.
                let _ =
                    sender.send(answered.map_or_else(AnswerPiece::Failed, |()| AnswerPiece::End));
            })
            .map_err(|error| QueryError::Execution(format!("start a thread: {error}")))?;
        let seed = context.evaluation.blank_node_seed();
        Ok(Self::Coming {
            parts,
            endpoint: endpoint.to_string(),
            scope: format!("s{seed:016x}r{number}_"),
            places: None,
        })
    }

    /// Returns a kept answer again.
    pub(super) fn kept(whole: &Whole) -> Self {
        Self::Kept(Arc::clone(whole))
    }

    /// Makes an answer that is a failure.
    pub(super) fn failed(error: QueryError) -> Self {
        Self::Failed(Some(error))
    }

    /// Waits for the next part.
    pub(super) fn next(&mut self, context: &QueryContext) -> Result<Next, QueryError> {
        let (parts, endpoint, scope, places) = match self {
            Self::Kept(whole) => {
                let whole = Arc::clone(whole);
                *self = Self::Failed(None);
                return Ok(Next::Kept(whole));
            }
            Self::Failed(error) => return Ok(error.take().map_or(Next::End, Next::Failed)),
            Self::Coming {
                parts,
                endpoint,
                scope,
                places,
            } => (parts, endpoint, scope, places),
        };
        loop {
            context.check()?;
            match parts.recv_timeout(WAIT) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(AnswerPiece::Variables(variables)) => *places = Some(variables),
                Ok(AnswerPiece::Rows(rows)) => {
                    let renamed = rows.into_iter().map(|row| {
                        let row = row.into_iter();
                        row.map(|term| term.map(|term| foreign(term, scope)))
                            .collect()
                    });
                    let variables = places.clone().unwrap_or_default();
                    return Ok(Next::Rows(variables, renamed.collect()));
                }
                Ok(AnswerPiece::Failed(error)) => {
                    return Ok(Next::Failed(failure(endpoint, &error)));
                }
                Ok(AnswerPiece::End) => return Ok(Next::End),
                Err(RecvTimeoutError::Disconnected) => {
                    let error = ServiceError("its client broke off".to_owned());
                    return Ok(Next::Failed(failure(endpoint, &error)));
                }
            }
        }
    }
}

/// Sends an answer's parts as long as there is a receiver.
fn give(
    variables: Vec<Variable>,
    rows: impl Iterator<Item = Result<Vec<Option<Term>>, ServiceError>>,
    sender: &SyncSender<AnswerPiece>,
) -> Result<(), ServiceError> {
    let gone = || ServiceError("nobody waits for it".to_owned());
    let send = |part: AnswerPiece| sender.send(part).map_err(|_| gone());
    send(AnswerPiece::Variables(variables))?;
    let mut some = Vec::new();
    for row in rows {
        some.push(row?);
        if some.len() == ROWS {
            send(AnswerPiece::Rows(std::mem::take(&mut some)))?;
        }
    }
    match some.is_empty() {
        true => Ok(()),
        false => send(AnswerPiece::Rows(some)),
    }
}

/// Returns the error of a request.
pub(super) fn failure(endpoint: &str, error: &ServiceError) -> QueryError {
    QueryError::Service {
        endpoint: endpoint.to_owned(),
        message: error.to_string(),
    }
}

/// Renames the blank nodes of a term: they are distinct from those of the store and of other answers.
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
