//! Builds and writes descriptions as RDF.

use oxrdf::{
    BlankNode, Literal, NamedNode, NamedNodeRef, NamedOrBlankNode, Term, Triple, vocab::rdf,
};
use pythia::{RdfFormat, RdfWriter};

pub(super) const VOID: &str = "http://rdfs.org/ns/void#";
pub(super) const SD: &str = "http://www.w3.org/ns/sparql-service-description#";
pub(super) const FORMATS: &str = "http://www.w3.org/ns/formats/";

/// Prefixes used in the documents.
const PREFIXES: [(&str, &str); 5] = [
    ("void", VOID),
    ("sd", SD),
    ("formats", FORMATS),
    ("dcterms", "http://purl.org/dc/terms/"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
];

/// A graph under construction.
#[derive(Debug, Default)]
pub(super) struct Description {
    pub(super) triples: Vec<Triple>,
}

/// The subject of a triple.
pub(super) type Subject = NamedOrBlankNode;

impl Description {
    /// Adds a triple; `predicate` is a full IRI.
    pub(super) fn say(&mut self, subject: &Subject, predicate: &str, object: impl Into<Term>) {
        let predicate = NamedNode::new_unchecked(predicate);
        self.triples
            .push(Triple::new(subject.clone(), predicate, object));
    }

    /// Adds a triple with a number.
    pub(super) fn count(&mut self, subject: &Subject, predicate: &str, count: u64) {
        let count = Literal::new_typed_literal(count.to_string(), oxrdf::vocab::xsd::INTEGER);
        self.say(subject, predicate, count);
    }

    /// Adds a triple with an IRI of a vocabulary.
    pub(super) fn name(&mut self, subject: &Subject, predicate: &str, iri: impl Into<String>) {
        self.say(subject, predicate, NamedNode::new_unchecked(iri));
    }

    /// Adds the class of a subject.
    pub(super) fn is_a(&mut self, subject: &Subject, class: String) {
        let is_a: NamedNodeRef<'_> = rdf::TYPE;
        self.name(subject, is_a.as_str(), class);
    }

    /// Adds a triple that links to a new blank node, and returns the blank node.
    pub(super) fn part(&mut self, subject: &Subject, predicate: &str) -> Subject {
        let part = BlankNode::default();
        self.say(subject, predicate, part.clone());
        part.into()
    }

    /// Writes the document in a triples format.
    pub(super) fn write(&self, format: RdfFormat) -> std::io::Result<Vec<u8>> {
        let writer = RdfWriter::new(Vec::new(), format, &PREFIXES);
        let mut writer = writer.expect("the prefixes are IRIs");
        for triple in &self.triples {
            writer.triple(triple.as_ref())?;
        }
        writer.finish()
    }
}
