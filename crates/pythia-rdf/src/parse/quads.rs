//! Quads of terms, in the order of the text.

use oxrdf::{GraphName, NamedNode, NamedOrBlankNode, Quad, QuadRef, Term};

use super::sink::QuadSink;
use super::{ParseOptions, ParseReport, Progress, parse_sources};
use crate::error::{ParseError, SinkError, TermError};
use crate::id::TermId;
use crate::inline::inline_to_literal;
use crate::key::{self, TermKey};
use crate::source::Source;

/// Parses sources one after the other, and calls a function with each quad, in the order of the text.
///
/// # Errors
/// As [`parse_sources`]; an error of the function ends the parse.
pub fn parse_quads(
    sources: Vec<Source>,
    options: &ParseOptions,
    progress: &Progress,
    take: impl FnMut(QuadRef<'_>) -> Result<(), SinkError> + Send,
) -> Result<ParseReport, ParseError> {
    // With one reader and one worker, everything keeps its order.
    let options = options.clone().with_threads(1);
    let mut sink = Sink {
        terms: Vec::new(),
        take,
    };
    parse_sources(sources, &options, std::slice::from_mut(&mut sink), progress)
}

/// Sink that keeps the terms of a batch, and passes its quads on.
struct Sink<F> {
    terms: Vec<Option<Term>>,
    take: F,
}

impl<F> Sink<F> {
    /// Keeps a term, or the default graph, and returns its place.
    fn keep(&mut self, term: Option<Term>) -> usize {
        self.terms.push(term);
        self.terms.len() - 1
    }
}

impl<F: FnMut(QuadRef<'_>) -> Result<(), SinkError>> QuadSink for Sink<F> {
    type Term = usize;

    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<usize, TermError> {
        validate()?;
        let term = key::decode(key).map_err(SinkError::new)?;
        Ok(self.keep(Some(term)))
    }

    fn inline(&mut self, id: TermId) -> usize {
        self.keep(inline_to_literal(id).map(Term::from))
    }

    fn default_graph(&mut self) -> usize {
        self.keep(None)
    }

    fn quad(
        &mut self,
        subject: usize,
        predicate: usize,
        object: usize,
        graph: usize,
    ) -> Result<(), SinkError> {
        let [subject, predicate, object, graph] =
            [subject, predicate, object, graph].map(|place| self.terms[place].clone());
        let quad = Quad {
            subject: subject
                .and_then(subject_of)
                .expect("the parser checks subjects"),
            predicate: predicate
                .and_then(node_of)
                .expect("the parser checks predicates"),
            object: object.expect("an object is no default graph"),
            graph_name: match graph.and_then(subject_of) {
                None => GraphName::DefaultGraph,
                Some(NamedOrBlankNode::NamedNode(node)) => node.into(),
                Some(NamedOrBlankNode::BlankNode(node)) => node.into(),
            },
        };
        (self.take)(quad.as_ref())
    }

    fn end_batch(&mut self) -> Result<(), SinkError> {
        self.terms.clear();
        Ok(())
    }
}

fn subject_of(term: Term) -> Option<NamedOrBlankNode> {
    match term {
        Term::NamedNode(node) => Some(node.into()),
        Term::BlankNode(node) => Some(node.into()),
        _ => None,
    }
}

fn node_of(term: Term) -> Option<NamedNode> {
    match term {
        Term::NamedNode(node) => Some(node),
        _ => None,
    }
}
