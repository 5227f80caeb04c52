//! Serialisation of quads: one streaming writer for dumps and for the results of CONSTRUCT and DESCRIBE.
//!
//! Quads are written in the given order, and nothing is buffered beyond the current statement. So the bytes depend
//! only on the quads and their order. N-Triples and N-Quads are written in their canonical form.

use std::io::{self, Write};

use oxrdf::{IriParseError, QuadRef, TripleRef};
use oxrdfio::{RdfFormat, RdfSerializer, WriterQuadSerializer};

/// Streaming writer of quads in a format.
///
/// ```
/// use oxrdf::{GraphName, Literal, NamedNode, Quad};
/// use pythia_rdf::{RdfFormat, RdfWriter};
///
/// let node = NamedNode::new("http://example.com/a")?;
/// let quad = Quad::new(node.clone(), node.clone(), Literal::from("b"), GraphName::NamedNode(node));
/// let mut writer = RdfWriter::new(Vec::new(), RdfFormat::TriG, &[("ex", "http://example.com/")])?;
/// writer.quad(quad.as_ref())?;
/// let text = String::from_utf8(writer.finish()?)?;
/// assert_eq!(text, "@prefix ex: <http://example.com/> .\nex:a {\n\tex:a ex:a \"b\" .\n}\n");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct RdfWriter<W: Write> {
    serializer: WriterQuadSerializer<W>,
}

impl<W: Write> RdfWriter<W> {
    /// Starts a document. `prefixes` are pairs of a name and an IRI. Formats without prefixes ignore them.
    ///
    /// # Errors
    /// Returns an error if the IRI of a prefix is invalid.
    pub fn new(
        writer: W,
        format: RdfFormat,
        prefixes: &[(&str, &str)],
    ) -> Result<Self, IriParseError> {
        let mut serializer = RdfSerializer::from_format(format);
        for (name, iri) in prefixes {
            serializer = serializer.with_prefix(*name, *iri)?;
        }
        Ok(Self {
            serializer: serializer.for_writer(writer),
        })
    }

    /// Writes a quad. Quads of the same graph should follow each other, and within a graph those of the same
    /// subject.
    ///
    /// # Errors
    /// Returns an error if the writer fails, or if the format cannot hold the quad, for example a named graph in a
    /// format for triples.
    pub fn quad(&mut self, quad: QuadRef<'_>) -> io::Result<()> {
        self.serializer.serialize_quad(quad)
    }

    /// Writes a triple.
    ///
    /// Returns an error if the writer fails, or if the format cannot hold the triple.
    /// If the writer fails, or the format cannot hold the triple.
    pub fn triple(&mut self, triple: TripleRef<'_>) -> io::Result<()> {
        self.serializer.serialize_triple(triple)
    }

    /// Ends the document and returns the inner writer.
    ///
    /// # Errors
    /// Returns an error if the writer fails.
    pub fn finish(self) -> io::Result<W> {
        self.serializer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{GraphName, NamedNode, Quad};

    fn quad(graph: GraphName) -> Quad {
        let node = NamedNode::new_unchecked("http://e/é");
        Quad::new(node.clone(), node.clone(), node, graph)
    }

    #[test]
    fn n_quads_are_plain_lines() {
        let mut writer = RdfWriter::new(Vec::new(), RdfFormat::NQuads, &[]).expect("no prefixes");
        writer
            .quad(quad(GraphName::DefaultGraph).as_ref())
            .expect("memory");
        let graph = NamedNode::new_unchecked("http://e/g").into();
        writer.quad(quad(graph).as_ref()).expect("memory");
        let text = String::from_utf8(writer.finish().expect("memory")).expect("text");
        assert_eq!(
            text,
            "<http://e/é> <http://e/é> <http://e/é> .\n<http://e/é> <http://e/é> <http://e/é> <http://e/g> .\n"
        );
    }

    #[test]
    fn turtle_refuses_named_graphs() {
        let mut writer = RdfWriter::new(Vec::new(), RdfFormat::Turtle, &[]).expect("no prefixes");
        let graph = NamedNode::new_unchecked("http://e/g").into();
        assert!(writer.quad(quad(graph).as_ref()).is_err());
    }

    #[test]
    fn a_prefix_must_be_an_iri() {
        assert!(RdfWriter::new(Vec::new(), RdfFormat::Turtle, &[("a", "no iri")]).is_err());
    }
}
