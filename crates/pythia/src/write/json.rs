//! SPARQL Query Results JSON. The literal of a path has an additional member `path` with its parts: the
//! nodes, and for each edge its predicate and whether it is followed from object to subject.

use std::io::{self, Write};

use oxrdf::{BaseDirection, Literal, NamedNode, Term, Variable};
use pythia_query::{Path, SolutionBatch};

/// Bytes of text that are handed on together.
const BUFFER_BYTES: usize = 8 << 10;

/// A writer of one table. Rows are put together in a buffer.
pub(super) struct JsonWriter<W> {
    out: W,
    buffer: Vec<u8>,
    /// The name of each column as the key of a member.
    keys: Vec<Vec<u8>>,
    is_empty: bool,
}

impl<W: Write> JsonWriter<W> {
    pub(super) fn start(out: W, variables: &[Variable]) -> io::Result<Self> {
        let mut buffer = br#"{"head":{"vars":["#.to_vec();
        separated(&mut buffer, variables, |buffer, variable| {
            string(buffer, variable.as_str())
        })?;
        buffer.extend_from_slice(br#"]},"results":{"bindings":["#);
        Ok(Self {
            out,
            keys: keys(variables)?,
            buffer,
            is_empty: true,
        })
    }

    /// Begins with rows that follow others.
    pub(super) fn rest(out: W, variables: &[Variable]) -> io::Result<Self> {
        Ok(Self {
            out,
            keys: keys(variables)?,
            buffer: Vec::new(),
            is_empty: false,
        })
    }

    /// Writes the rows of a batch.
    pub(super) fn batch(&mut self, batch: &SolutionBatch) -> io::Result<()> {
        for row in 0..batch.len() {
            self.row(batch, row)?;
            if self.buffer.len() >= BUFFER_BYTES {
                self.hand_on()?;
            }
        }
        self.hand_on()
    }

    fn row(&mut self, batch: &SolutionBatch, row: usize) -> io::Result<()> {
        let buffer = &mut self.buffer;
        if !std::mem::take(&mut self.is_empty) {
            buffer.push(b',');
        }
        buffer.push(b'{');
        let keys = self.keys.iter().enumerate();
        let bound = keys.filter_map(|(column, key)| Some((key, batch.term(row, column)?)));
        separated(buffer, bound, |buffer, (key, value)| {
            buffer.extend_from_slice(key);
            term(buffer, value)
        })?;
        buffer.push(b'}');
        Ok(())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.buffer.extend_from_slice(b"]}}");
        self.hand_on()
    }
}

/// Returns the names of variables as keys of members.
fn keys(variables: &[Variable]) -> io::Result<Vec<Vec<u8>>> {
    let keys = variables.iter().map(|variable| {
        let mut key = Vec::new();
        string(&mut key, variable.as_str())?;
        key.push(b':');
        Ok(key)
    });
    keys.collect()
}

fn separated<W: Write, T>(
    out: &mut W,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut W, T) -> io::Result<()>,
) -> io::Result<()> {
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        write(out, item)?;
    }
    Ok(())
}

fn string(out: &mut impl Write, text: &str) -> io::Result<()> {
    // Few texts have anything to escape, and all bytes of a text are tested faster than one after the other is.
    let is_plain = text.bytes().fold(true, |is_plain, byte| {
        is_plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\')
    });
    if !is_plain {
        return Ok(serde_json::to_writer(out, text)?);
    }
    out.write_all(b"\"")?;
    out.write_all(text.as_bytes())?;
    out.write_all(b"\"")
}

/// Writes a member of an object, after the first.
fn member(out: &mut impl Write, name: &str, value: &str) -> io::Result<()> {
    out.write_all(b",\"")?;
    out.write_all(name.as_bytes())?;
    out.write_all(b"\":")?;
    string(out, value)
}

/// Writes a term as SPARQL Query Results JSON.
pub fn term<W: Write>(out: &mut W, value: &Term) -> io::Result<()> {
    match value {
        Term::NamedNode(node) => iri(out, node),
        Term::BlankNode(node) => {
            out.write_all(br#"{"type":"bnode""#)?;
            member(out, "value", node.as_str())?;
            out.write_all(b"}")
        }
        Term::Literal(literal) => {
            out.write_all(br#"{"type":"literal""#)?;
            member(out, "value", literal.value())?;
            literal_kind(out, literal)?;
            if let Some(path) = Path::of_term(value) {
                out.write_all(b",\"path\":")?;
                parts(out, &path)?;
            }
            out.write_all(b"}")
        }
        Term::Triple(triple) => {
            out.write_all(br#"{"type":"triple","value":{"subject":"#)?;
            term(out, &triple.subject.clone().into())?;
            out.write_all(br#","predicate":"#)?;
            iri(out, &triple.predicate)?;
            out.write_all(br#","object":"#)?;
            term(out, &triple.object)?;
            out.write_all(b"}}")
        }
    }
}

fn iri(out: &mut impl Write, node: &NamedNode) -> io::Result<()> {
    out.write_all(br#"{"type":"uri""#)?;
    member(out, "value", node.as_str())?;
    out.write_all(b"}")
}

/// Writes the language, direction or datatype of a literal.
fn literal_kind(out: &mut impl Write, literal: &Literal) -> io::Result<()> {
    match (literal.language(), literal.direction()) {
        (Some(language), direction) => {
            member(out, "xml:lang", language)?;
            match direction {
                Some(BaseDirection::Ltr) => member(out, "its:dir", "ltr"),
                Some(BaseDirection::Rtl) => member(out, "its:dir", "rtl"),
                None => Ok(()),
            }
        }
        (None, _) if literal.datatype() == oxrdf::vocab::xsd::STRING => Ok(()),
        (None, _) => member(out, "datatype", literal.datatype().as_str()),
    }
}

fn parts<W: Write>(out: &mut W, path: &Path) -> io::Result<()> {
    out.write_all(br#"{"nodes":["#)?;
    separated(out, &path.nodes, |out, node| term(out, node))?;
    out.write_all(br#"],"edges":["#)?;
    separated(out, &path.edges, |out, edge| {
        write!(out, r#"{{"inverse":{}"#, edge.inverse)?;
        if let Some(predicate) = &edge.predicate {
            out.write_all(br#","predicate":"#)?;
            iri(out, predicate)?;
        }
        out.write_all(b"}")
    })?;
    out.write_all(b"]}")
}
