//! Tables as text (JSON, XML, CSV and TSV), and graphs.
//!
//! The output is flushed after each batch, so that the first rows are sent before the last are computed.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use oxrdf::{Term, TermRef, Triple, VariableRef};
use oxrdfio::{RdfFormat, RdfSerializer};
use pythia_query::{Mapped, QueryError, SolutionBatch, SolutionStream, TripleStream};
use sparesults::{QueryResultsFormat, QueryResultsSerializer, WriterSolutionsSerializer};

use super::json::JsonWriter;
use super::{ResultFormat, WriteError, WriteReport};

/// A writer that is held by a serializer and can be flushed meanwhile.
struct Shared<W>(Rc<RefCell<W>>);

impl<W> Shared<W> {
    fn new(out: W) -> Self {
        Self(Rc::new(RefCell::new(out)))
    }

    fn handle(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<W: Write> Write for Shared<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

/// A writer of one table.
enum TableWriter<W: Write> {
    Csv(W),
    Json(JsonWriter<W>),
    Xml(WriterSolutionsSerializer<W>),
    Tsv(WriterSolutionsSerializer<W>),
}

pub(super) fn write_solutions(
    mut solutions: SolutionStream,
    format: QueryResultsFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let mut report = WriteReport::default();
    // The first batch is computed before a byte is written, so that early errors leave no output.
    let mut next = solutions.next_batch()?;
    let mut out = Shared::new(out);
    let mut writer = TableWriter::start(out.handle(), format, &solutions)?;
    while let Some(batch) = next {
        writer.write(&batch)?;
        report.rows += batch.len() as u64;
        out.flush()?;
        if report.rows >= ALONE_ROWS && solutions.may_be_helped() {
            write_rest(solutions, format, &mut writer, &mut out, &mut report)?;
            break;
        }
        next = solutions
            .next_batch()
            .map_err(|error| WriteError::cut(report.rows, error))?;
    }
    writer.finish()?;
    out.flush()?;
    Ok(report)
}

/// Number of rows that one thread writes before others help.
const ALONE_ROWS: u64 = 4096;

/// Some solutions, read and perhaps written by another thread.
enum Part {
    /// The text, as it follows other rows.
    Text(Vec<u8>, usize),
    Solutions(SolutionBatch),
}

impl Mapped for Part {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text, _) => text.capacity(),
            Self::Solutions(solutions) => solutions.bytes(),
        }
    }
}

/// Writes solutions that follow others. Several threads read their terms and write them.
fn write_rest<W: Write>(
    solutions: SolutionStream,
    format: QueryResultsFormat,
    writer: &mut TableWriter<Shared<W>>,
    out: &mut Shared<W>,
    report: &mut WriteReport,
) -> Result<(), WriteError> {
    let mut parts = solutions.mapped(move |batch| match text_of(&batch, format) {
        Some(text) => Part::Text(text, batch.len()),
        None => Part::Solutions(batch),
    });
    loop {
        let part = parts.next_part();
        let rows = match part.map_err(|error| WriteError::cut(report.rows, error))? {
            Some(Part::Text(text, rows)) => {
                writer.write_text(&text)?;
                rows
            }
            Some(Part::Solutions(batch)) => {
                writer.write(&batch)?;
                batch.len()
            }
            None => return Ok(()),
        };
        report.rows += rows as u64;
        out.flush()?;
    }
}

/// Returns the text of rows that follow others; `None` if the format's writer needs the solutions one after the other.
fn text_of(batch: &SolutionBatch, format: QueryResultsFormat) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let written = match format {
        QueryResultsFormat::Csv => {
            let mut rows = 0..batch.len();
            rows.try_for_each(|row| write_csv_row(&mut text, batch, row))
        }
        QueryResultsFormat::Json => JsonWriter::rest(&mut text, batch.variables())
            .and_then(|mut writer| writer.batch(batch)),
        _ => return None,
    };
    written.expect("memory takes everything");
    Some(text)
}

impl<W: Write> TableWriter<W> {
    fn start(
        mut out: W,
        format: QueryResultsFormat,
        solutions: &SolutionStream,
    ) -> io::Result<Self> {
        let variables = solutions.variables();
        let serializer = |out| {
            let serializer = QueryResultsSerializer::from_format(format);
            serializer.serialize_solutions_to_writer(out, variables.to_vec())
        };
        match format {
            QueryResultsFormat::Json => Ok(Self::Json(JsonWriter::start(out, variables)?)),
            QueryResultsFormat::Csv => {
                let names: Vec<&str> = variables.iter().map(|v| v.as_str()).collect();
                write!(out, "{}\r\n", names.join(","))?;
                Ok(Self::Csv(out))
            }
            QueryResultsFormat::Xml => serializer(out).map(Self::Xml),
            _ => serializer(out).map(Self::Tsv),
        }
    }

    fn write(&mut self, batch: &SolutionBatch) -> Result<(), WriteError> {
        let mut rows = 0..batch.len();
        match self {
            Self::Csv(out) => rows.try_for_each(|row| write_csv_row(out, batch, row))?,
            Self::Json(writer) => writer.batch(batch)?,
            Self::Xml(writer) => {
                check_xml(batch.terms())?;
                rows.try_for_each(|row| writer.serialize(bound(batch, row)))?;
            }
            Self::Tsv(writer) => rows.try_for_each(|row| writer.serialize(bound(batch, row)))?,
        }
        Ok(())
    }

    /// Writes the text of rows; see [`text_of`].
    fn write_text(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::Csv(out) => out.write_all(text),
            Self::Json(writer) => writer.write_text(text),
            Self::Xml(_) | Self::Tsv(_) => unreachable!("their rows come as solutions"),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Csv(_) => Ok(()),
            Self::Json(writer) => writer.finish(),
            Self::Xml(writer) | Self::Tsv(writer) => writer.finish().map(drop),
        }
    }
}

/// Returns the bound variables of a solution and their terms.
fn bound(
    batch: &SolutionBatch,
    row: usize,
) -> impl Iterator<Item = (VariableRef<'_>, TermRef<'_>)> {
    let cells = batch.row(row);
    cells.filter_map(|(variable, term)| Some((variable.as_ref(), term?.as_ref())))
}

fn write_csv_row(out: &mut impl Write, batch: &SolutionBatch, row: usize) -> io::Result<()> {
    for column in 0..batch.variables().len() {
        if column > 0 {
            out.write_all(b",")?;
        }
        if let Some(term) = batch.term(row, column) {
            write_csv_cell(out, term)?;
        }
    }
    out.write_all(b"\r\n")
}

/// Writes a term's text, quoted where RFC 4180 requires it: IRIs may contain commas too.
fn write_csv_cell(out: &mut impl Write, term: &Term) -> io::Result<()> {
    let triple;
    let text = match term {
        Term::NamedNode(node) => node.as_str(),
        Term::BlankNode(node) => return write!(out, "_:{}", node.as_str()),
        Term::Literal(literal) => literal.value(),
        Term::Triple(_) => {
            triple = term.to_string();
            &triple
        }
    };
    if !text.bytes().any(|byte| b"\",\r\n".contains(&byte)) {
        return out.write_all(text.as_bytes());
    }
    write!(out, "\"{}\"", text.replace('"', "\"\""))
}

pub(super) fn write_boolean(
    value: bool,
    format: QueryResultsFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let serializer = QueryResultsSerializer::from_format(format);
    serializer
        .serialize_boolean_to_writer(out, value)?
        .flush()?;
    Ok(WriteReport { rows: 1 })
}

pub(super) fn write_graph(
    mut triples: TripleStream,
    format: RdfFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    write_triples(|| triples.next_batch(), format, out)
}

/// Writes triples, one batch after the other.
pub(crate) fn write_triples(
    mut next_batch: impl FnMut() -> Result<Option<Vec<Triple>>, QueryError>,
    format: RdfFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let mut report = WriteReport::default();
    let mut next = next_batch()?;
    let mut out = Shared::new(out);
    let mut serializer = RdfSerializer::from_format(format).for_writer(out.handle());
    while let Some(batch) = next {
        check_triple_terms(batch.iter().map(|triple| &triple.object), format)?;
        for triple in &batch {
            if format == RdfFormat::RdfXml {
                check_xml([&triple.object])?;
            }
            serializer.serialize_triple(triple)?;
        }
        report.rows += batch.len() as u64;
        out.flush()?;
        next = next_batch().map_err(|error| WriteError::cut(report.rows, error))?;
    }
    serializer.finish()?;
    out.flush()?;
    Ok(report)
}

/// Fails if an object is a triple term and the format is JSON-LD, which does not support them.
pub(crate) fn check_triple_terms<'t>(
    mut objects: impl Iterator<Item = &'t Term>,
    format: RdfFormat,
) -> Result<(), WriteError> {
    let is_json = matches!(format, RdfFormat::JsonLd { .. });
    if !is_json || !objects.any(|object| matches!(object, Term::Triple(_))) {
        return Ok(());
    }
    Err(WriteError::Format {
        format: ResultFormat::JsonLd,
        result: "a triple term",
        instead: "nt, nq, ttl, trig or rdfxml",
    })
}

/// Fails if XML cannot hold the text of a term, not even escaped.
fn check_xml<'t>(terms: impl IntoIterator<Item = &'t Term>) -> Result<(), WriteError> {
    for term in terms {
        if let Some(character) = forbidden_in_xml(term.as_ref()) {
            return Err(WriteError::Character {
                character,
                term: term.to_string(),
            });
        }
    }
    Ok(())
}

fn forbidden_in_xml(term: TermRef<'_>) -> Option<char> {
    let is_forbidden = |c: &char| matches!(c, '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    match term {
        TermRef::Literal(literal) => literal.value().chars().find(is_forbidden),
        TermRef::Triple(triple) => forbidden_in_xml(triple.object.as_ref()),
        TermRef::NamedNode(_) | TermRef::BlankNode(_) => None,
    }
}
