//! A sink that keeps every quad as terms, going through keys and ids as a store does.

use std::collections::{HashMap, HashSet};

use oxrdf::{GraphName, Quad, Term};
use pythia_rdf::inline::inline_to_literal;
use pythia_rdf::key::decode;
use pythia_rdf::{
    Compression, OwnedKey, ParseError, ParseOptions, ParseReport, Progress, QuadSink, RdfFormat,
    SinkError, Source, TermError, TermId, TermKey, parse_sources,
};

/// Handles are numbers of terms; quads are kept as handles until asked for.
#[derive(Default)]
pub(crate) struct CollectingSink {
    known: HashMap<OwnedKey, u32>,
    terms: Vec<Option<Term>>,
    quads: Vec<[u32; 4]>,
}

impl CollectingSink {
    fn add(&mut self, term: Option<Term>) -> u32 {
        self.terms.push(term);
        u32::try_from(self.terms.len() - 1).expect("few terms")
    }

    pub(crate) fn quads(&self) -> Vec<Quad> {
        let term = |handle: u32| self.terms[handle as usize].clone();
        let node = |handle| match term(handle).expect("a term") {
            Term::NamedNode(node) => oxrdf::NamedOrBlankNode::NamedNode(node),
            Term::BlankNode(node) => oxrdf::NamedOrBlankNode::BlankNode(node),
            other => panic!("{other} is no node"),
        };
        self.quads
            .iter()
            .map(|&[subject, predicate, object, graph]| {
                let Some(Term::NamedNode(predicate)) = term(predicate) else {
                    panic!("a predicate is an IRI");
                };
                let graph = match term(graph) {
                    None => GraphName::DefaultGraph,
                    Some(_) => GraphName::from(node(graph)),
                };
                Quad::new(
                    node(subject),
                    predicate,
                    term(object).expect("a term"),
                    graph,
                )
            })
            .collect()
    }
}

impl CollectingSink {
    /// Checks that each term is in a quad.
    fn check_terms(&self) {
        let used: HashSet<&Term> = self
            .quads
            .iter()
            .flatten()
            .filter_map(|handle| self.terms[*handle as usize].as_ref())
            .collect();
        for term in self.terms.iter().flatten() {
            assert!(used.contains(term), "{term} is in no quad");
        }
    }
}

impl QuadSink for CollectingSink {
    type Term = u32;

    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<u32, TermError> {
        let key = key.to_owned_key();
        if let Some(handle) = self.known.get(&key) {
            return Ok(*handle);
        }
        validate()?;
        let handle = self.add(Some(decode(key.as_key()).expect("the parser makes keys")));
        self.known.insert(key, handle);
        Ok(handle)
    }

    fn inline(&mut self, id: TermId) -> u32 {
        self.add(Some(inline_to_literal(id).expect("inline").into()))
    }

    fn default_graph(&mut self) -> u32 {
        self.add(None)
    }

    fn quad(&mut self, s: u32, p: u32, o: u32, g: u32) -> Result<(), SinkError> {
        self.quads.push([s, p, o, g]);
        Ok(())
    }
}

/// A source of bytes in memory.
pub(crate) fn source(text: impl Into<Vec<u8>>, format: RdfFormat) -> Source {
    let bytes = std::io::Cursor::new(text.into());
    Source::from_reader("test".to_owned(), bytes, format, Compression::None)
        .expect("no decompressor")
}

/// Small chunks, so that cuts happen.
pub(crate) fn options(chunk_bytes: usize) -> ParseOptions {
    let mut options = ParseOptions::default();
    options.chunk_bytes = chunk_bytes;
    options
}

/// Parses with some workers and gives the quads of all, in no order, with the report. If nothing was skipped, no term is without
/// a quad.
pub(crate) fn parse_all(
    sources: Vec<Source>,
    options: &ParseOptions,
    workers: usize,
) -> Result<(Vec<Quad>, ParseReport), ParseError> {
    let mut sinks: Vec<CollectingSink> = (0..workers).map(|_| CollectingSink::default()).collect();
    let report = parse_sources(sources, options, &mut sinks, &Progress::default())?;
    let quads: Vec<Quad> = sinks.iter().flat_map(CollectingSink::quads).collect();
    assert_eq!(report.quads, quads.len() as u64);
    if report.skipped == 0 {
        sinks.iter().for_each(CollectingSink::check_terms);
    }
    Ok((quads, report))
}

pub(crate) fn json_ld() -> RdfFormat {
    RdfFormat::from_extension("jsonld").expect("known")
}

/// Gives a few bytes at a time.
pub(crate) struct Trickle(pub(crate) std::io::Cursor<Vec<u8>>, pub(crate) usize);

impl std::io::Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        std::io::Read::read(&mut self.0, &mut buffer[..length])
    }
}
