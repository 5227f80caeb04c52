//! Tables as text (JSON, XML, CSV and TSV), and graphs.
//!
//! The output is flushed after each batch, so that the first rows are sent before the last are computed.

use std::io::{self, Write};

use oxrdf::{Term, TermRef, Triple, Variable, VariableRef};
use oxrdfio::{RdfFormat, RdfSerializer};
use pythia_query::{Mapped, QueryError, SolutionBatch, SolutionStream, TripleStream};
use sparesults::{QueryResultsFormat, QueryResultsSerializer, WriterSolutionsSerializer};

use super::json::JsonWriter;
use super::shared::Shared;
use super::{ResultFormat, WriteError, WriteReport};

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
    let mut writer = TableWriter::start(out.handle(), format, solutions.variables())?;
    while let Some(batch) = next {
        writer.write(&batch)?;
        report.rows += batch.len() as u64;
        drop(batch);
        out.flush()?;
        if report.rows >= ALONE_ROWS && solutions.may_be_helped() {
            write_rest(solutions, format, &mut out, &mut report)?;
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

/// The text of some solutions, as it follows that of others.
struct Text {
    bytes: Vec<u8>,
    rows: u64,
}

impl Mapped for Text {
    fn bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Writes solutions that follow others. Several threads read their terms and make the text.
fn write_rest(
    solutions: SolutionStream,
    format: QueryResultsFormat,
    out: &mut impl Write,
    report: &mut WriteReport,
) -> Result<(), WriteError> {
    let mut texts = solutions.mapped(move |batch| text_of(&batch, format));
    write_all(|| texts.next_part(), out, report)
}

/// Writes texts to the end, after others.
fn write_all(
    mut next: impl FnMut() -> Result<Option<Result<Text, WriteError>>, QueryError>,
    out: &mut impl Write,
    report: &mut WriteReport,
) -> Result<(), WriteError> {
    while let Some(text) = next().map_err(|error| WriteError::cut(report.rows, error))? {
        write_text(text?, out, report)?;
    }
    Ok(())
}

fn write_text(text: Text, out: &mut impl Write, report: &mut WriteReport) -> io::Result<()> {
    out.write_all(&text.bytes)?;
    report.rows += text.rows;
    out.flush()
}

/// Writes solutions to memory as they follow others.
fn text_of(batch: &SolutionBatch, format: QueryResultsFormat) -> Result<Text, WriteError> {
    let out = Shared::new(Vec::new());
    let mut writer = match format {
        QueryResultsFormat::Json => {
            TableWriter::Json(JsonWriter::rest(out.handle(), batch.variables())?)
        }
        _ => TableWriter::start(out.handle(), format, batch.variables())?,
    };
    let _head = out.take();
    writer.write(batch)?;
    Ok(Text {
        bytes: out.take(),
        rows: batch.len() as u64,
    })
}

impl<W: Write> TableWriter<W> {
    fn start(mut out: W, format: QueryResultsFormat, variables: &[Variable]) -> io::Result<Self> {
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
    triples: TripleStream,
    format: RdfFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    match has_texts(format) {
        true => write_texts(triples, format, out),
        false => write_document(triples, format, out),
    }
}

/// Returns whether the text of quads depends only on them and on the quad before them in a format.
pub(crate) fn has_texts(format: RdfFormat) -> bool {
    use RdfFormat::{NQuads, NTriples, TriG, Turtle};
    matches!(format, NTriples | NQuads | Turtle | TriG)
}

/// Writes triples as texts, of which each is a document. Several threads make them.
fn write_texts(
    mut triples: TripleStream,
    format: RdfFormat,
    mut out: impl Write,
) -> Result<WriteReport, WriteError> {
    let mut report = WriteReport::default();
    let mut next = triples.next_batch()?;
    while let Some(batch) = next {
        write_text(text_of_triples(&batch, format)?, &mut out, &mut report)?;
        drop(batch);
        if report.rows >= ALONE_ROWS && triples.may_be_helped() {
            let mut texts = triples.mapped(move |batch| text_of_triples(&batch, format));
            write_all(|| texts.next_part(), &mut out, &mut report)?;
            return Ok(report);
        }
        next = triples
            .next_batch()
            .map_err(|error| WriteError::cut(report.rows, error))?;
    }
    out.flush()?;
    Ok(report)
}

fn text_of_triples(batch: &[Triple], format: RdfFormat) -> Result<Text, WriteError> {
    let mut serializer = RdfSerializer::from_format(format).for_writer(Vec::new());
    for triple in batch {
        serializer.serialize_triple(triple)?;
    }
    Ok(Text {
        bytes: serializer.finish()?,
        rows: batch.len() as u64,
    })
}

/// Writes triples as one document.
fn write_document(
    mut triples: TripleStream,
    format: RdfFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let mut report = WriteReport::default();
    let mut next = triples.next_batch()?;
    let mut out = Shared::new(out);
    let mut serializer = RdfSerializer::from_format(format).for_writer(out.handle());
    while let Some(batch) = next {
        check_terms(batch.iter().map(|triple| &triple.object), format)?;
        for triple in &batch {
            serializer.serialize_triple(triple)?;
        }
        report.rows += batch.len() as u64;
        out.flush()?;
        next = triples
            .next_batch()
            .map_err(|error| WriteError::cut(report.rows, error))?;
    }
    serializer.finish()?;
    out.flush()?;
    Ok(report)
}

/// Fails if a format cannot hold a term: JSON-LD has no triple terms, and XML not all characters.
pub(crate) fn check_terms<'t>(
    mut terms: impl Iterator<Item = &'t Term>,
    format: RdfFormat,
) -> Result<(), WriteError> {
    match format {
        RdfFormat::RdfXml => check_xml(terms),
        RdfFormat::JsonLd { .. } if terms.any(|term| matches!(term, Term::Triple(_))) => {
            Err(WriteError::Format {
                format: ResultFormat::JsonLd,
                result: "a triple term",
                instead: "nt, nq, ttl, trig or rdfxml",
            })
        }
        _ => Ok(()),
    }
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
