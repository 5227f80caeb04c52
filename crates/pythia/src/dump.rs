//! Writes the whole contents of a store, or one graph.

use std::collections::HashMap;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use oxrdf::{GraphName, GraphNameRef, NamedNode, NamedOrBlankNode, Quad, Term, TermRef};
use pythia_query::{Cores, GraphRules, QueryError, QueryOptions, fork};
use pythia_rdf::language::recommend_form;
use pythia_rdf::write::RdfWriter;
use pythia_rdf::{RdfFormat, TermId};
use pythia_store::{
    Component, GraphFilter, IdBatch, Order, QuadPattern, QuadScan, Snapshot, StoreError,
};

use crate::write::{Shared, WriteError, WriteReport, check_terms, has_texts};

/// Maximum number of batches that are decoded together, for each core.
const BATCHES_PER_CORE: usize = 8;
/// Approximate bytes of the text of such batches, for each core. Once there are as many, no other batch is begun.
const BYTES_PER_CORE: usize = 4 << 20;

/// Writes all quads, sorted by subject, predicate, object and graph. The same data gives the same bytes,
/// regardless of the order in which it was loaded and of the number of cores. Memory use is constant: some 4 MiB for each core, or
/// for each the text of some thousand quads if that is more. Formats without graphs hold only the default graph; they are rejected
/// before the first byte if there are other graphs.
pub fn dump(
    snapshot: &Snapshot,
    cores: &Arc<Cores>,
    format: RdfFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    dump_within(snapshot, cores, &QueryOptions::default(), format, out)
}

/// Writes the visible graphs like [`dump`], within the limits of a query: uses `visible`, `timeout`, `cancel`
/// and `row_limit` of its options. Memory use grows only with the number of graphs.
pub fn dump_within(
    snapshot: &Snapshot,
    cores: &Arc<Cores>,
    options: &QueryOptions,
    format: RdfFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let mut visible = Visible::new(snapshot, options);
    visible.check_format(format)?;
    let quads = Quads {
        limits: visible.limits,
        visible: Some(visible),
        ..Quads::new(Some(snapshot.quads().map_err(failed)?), options)
    };
    write_quads(snapshot, cores, quads, format, out)
}

/// Writes the triples of one graph, sorted by the ids of subject, predicate and object, within the limits of a
/// query as [`dump_within`], and with as much memory. While [`Snapshot::layout`] is the same, the same graph gives the same bytes. A graph
/// that is not visible has no triples.
pub fn dump_graph(
    snapshot: &Snapshot,
    cores: &Arc<Cores>,
    options: &QueryOptions,
    graph: GraphNameRef<'_>,
    format: RdfFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let scan = match options.visible.allows(graph) {
        true => scan_graph(snapshot, graph).map_err(failed)?,
        false => None,
    };
    write_quads(snapshot, cores, Quads::new(scan, options), format, out)
}

/// Reads the triples of a graph; `None` if the store does not have its name.
fn scan_graph(
    snapshot: &Snapshot,
    graph: GraphNameRef<'_>,
) -> Result<Option<QuadScan>, StoreError> {
    let id = match graph {
        GraphNameRef::DefaultGraph => Some(TermId::DEFAULT_GRAPH),
        GraphNameRef::NamedNode(node) => snapshot.resolve(node.into())?,
        GraphNameRef::BlankNode(node) => snapshot.resolve(TermRef::from(node))?,
    };
    let scan = |id| {
        let pattern = QuadPattern {
            graph: GraphFilter::One(id),
            ..QuadPattern::default()
        };
        let wanted = [Component::Subject, Component::Predicate, Component::Object];
        snapshot.scan(&pattern, Order::Spo, &wanted)
    };
    id.map(scan).transpose()
}

/// Writes quads to the end. Any thread decodes batches of them and makes their text.
fn write_quads(
    snapshot: &Snapshot,
    cores: &Arc<Cores>,
    mut quads: Quads<'_>,
    format: RdfFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let mut document = Document::new(out, format);
    let mut report = WriteReport::default();
    // The first batches are not kept back until there are many.
    let mut most = 1;
    loop {
        // A thread that writes does not compute.
        let busy = cores.compute();
        let (mut batches, end) = quads.next_batches(most);
        drop(busy);
        let mut bytes = 0;
        while !batches.is_empty() {
            let busy = cores.compute();
            let parts = parts_of(snapshot, cores, &batches, quads.limits, format);
            drop(busy);
            let parts = parts.map_err(|error| WriteError::Query(error).after(report))?;
            let rest = batches.split_off(parts.len());
            for (part, (_, ids)) in parts.into_iter().zip(&batches) {
                let part = part.map_err(|error| error.after(report))?;
                bytes += part.bytes();
                document.write(part)?;
                report.rows += ids.len() as u64 / 4;
            }
            batches = rest;
        }
        if end.map_err(|error| error.after(report))? {
            document.finish()?;
            return Ok(report);
        }
        document.flush()?;
        most = more_or_fewer(most, bytes, cores.limit());
    }
}

/// Makes the parts of the first batches, at least one, on all free cores: of fewer if they have long texts.
fn parts_of(
    snapshot: &Snapshot,
    cores: &Arc<Cores>,
    batches: &[Batch],
    limits: Limits<'_>,
    format: RdfFormat,
) -> Result<Vec<Result<Part, WriteError>>, QueryError> {
    let made = AtomicUsize::new(0);
    let parts = fork(cores, batches.len(), |batch| {
        limits.check()?;
        if batch > 0 && made.load(Ordering::Relaxed) > BYTES_PER_CORE * cores.limit() {
            return Ok(None);
        }
        let (before, ids) = &batches[batch];
        let part = Part::of(snapshot, before, ids, format);
        made.fetch_add(part.as_ref().map_or(0, Part::bytes), Ordering::Relaxed);
        Ok(Some(part))
    })?;
    Ok(parts.into_iter().map_while(|part| part).collect())
}

/// Returns the number of batches to decode together, after this many with texts of this length.
fn more_or_fewer(batches: usize, bytes: usize, cores: usize) -> usize {
    let fitting = BYTES_PER_CORE * cores * batches / bytes.max(1);
    fitting.min(2 * batches).clamp(1, BATCHES_PER_CORE * cores)
}

/// The quads of a dump that are left.
struct Quads<'a> {
    /// `None` if there are none.
    scan: Option<QuadScan>,
    /// The graphs to be shown; `None` if the quads are the triples of one graph.
    visible: Option<Visible<'a>>,
    limits: Limits<'a>,
    /// Number of quads read.
    rows: u64,
    row_limit: u64,
    /// The ids of the last one; empty before the first.
    last: Vec<TermId>,
}

/// The ids of some quads, four for each, after those of the quad before them.
type Batch = (Vec<TermId>, Vec<TermId>);

impl<'a> Quads<'a> {
    /// Returns the quads of a scan, whose graph is not wanted.
    fn new(scan: Option<QuadScan>, options: &'a QueryOptions) -> Self {
        Self {
            scan,
            visible: None,
            limits: Limits::of(options),
            rows: 0,
            row_limit: options.row_limit.unwrap_or(u64::MAX),
            last: Vec::new(),
        }
    }

    /// Returns the next quads in batches, and whether they are the last. An error comes after the quads before it.
    fn next_batches(&mut self, most: usize) -> (Vec<Batch>, Result<bool, WriteError>) {
        let mut batches = Vec::with_capacity(most);
        while batches.len() < most {
            let (ids, is_last) = self.next_batch();
            let last = match ids.len().checked_sub(4) {
                Some(start) => ids[start..].to_vec(),
                None => self.last.clone(),
            };
            batches.push((mem::replace(&mut self.last, last), ids));
            if !matches!(is_last, Ok(false)) {
                return (batches, is_last);
            }
        }
        (batches, Ok(false))
    }

    /// Returns the ids of the quads of the next batch, and whether it was the last.
    fn next_batch(&mut self) -> (Vec<TermId>, Result<bool, WriteError>) {
        let mut ids = match self.next_ids() {
            Ok(Some(ids)) => ids,
            Ok(None) => return (Vec::new(), Ok(true)),
            Err(error) => return (Vec::new(), Err(error)),
        };
        let left = self.row_limit - self.rows;
        if ids.len() as u64 / 4 > left {
            ids.truncate(4 * left as usize);
            return (ids, Err(QueryError::RowLimit(self.row_limit).into()));
        }
        self.rows += ids.len() as u64 / 4;
        (ids, Ok(false))
    }

    fn next_ids(&mut self) -> Result<Option<Vec<TermId>>, WriteError> {
        self.limits.check()?;
        let Some(scan) = &mut self.scan else {
            return Ok(None);
        };
        let Some(batch) = scan.next().map_err(failed)? else {
            return Ok(None);
        };
        match &mut self.visible {
            Some(visible) => visible.quads_of(&batch).map(Some),
            None => {
                let triple = |row: usize| {
                    let columns = batch.columns.iter();
                    let ids = columns.map(move |column| TermId(column[row]));
                    ids.chain([TermId::DEFAULT_GRAPH])
                };
                Ok(Some((0..batch.rows).flat_map(triple).collect()))
            }
        }
    }
}

/// A document that is being written.
struct Document<W: Write> {
    out: Shared<W>,
    form: Form<W>,
}

/// The form in which a document is made.
enum Form<W: Write> {
    /// Texts, with the end of the document after the last of them.
    Texts(Vec<u8>),
    Statements(Box<RdfWriter<Shared<W>>>),
}

/// Quads to be written.
enum Part {
    Text {
        text: Vec<u8>,
        /// The end of a document after this text.
        end: Vec<u8>,
    },
    Quads(Vec<Quad>),
}

impl Part {
    /// Decodes quads, each given by four ids, and makes their text if it depends only on them and on the quad before them.
    fn of(
        snapshot: &Snapshot,
        before: &[TermId],
        ids: &[TermId],
        format: RdfFormat,
    ) -> Result<Self, WriteError> {
        if !has_texts(format) {
            let quads = decode(snapshot, ids, format)?;
            return Ok(Self::Quads(quads.collect::<Result<_, _>>()?));
        }
        let out = Shared::new(Vec::new());
        let mut writer = writer_of(out.handle(), format);
        let with_before = [before, ids].concat();
        let mut quads = decode(snapshot, &with_before, format)?;
        // The quad before says whether the first one continues a statement.
        for quad in quads.by_ref().take(before.len() / 4) {
            writer.quad(quad?.as_ref())?;
        }
        let _before = out.take();
        for quad in quads {
            writer.quad(quad?.as_ref())?;
        }
        let text = out.take();
        writer.finish()?;
        Ok(Self::Text {
            text,
            end: out.take(),
        })
    }
}

/// Decodes quads, each given by four ids.
fn decode(
    snapshot: &Snapshot,
    ids: &[TermId],
    format: RdfFormat,
) -> Result<impl Iterator<Item = Result<Quad, WriteError>>, WriteError> {
    let bound: Vec<TermId> = ids.iter().copied().filter(|id| id.is_bound()).collect();
    let mut terms = snapshot.decode(&bound).map_err(failed)?;
    terms.iter_mut().for_each(recommend_form);
    check_terms(terms.iter(), format)?;
    let mut terms = terms.into_iter();
    Ok(ids.chunks_exact(4).map(move |ids| {
        let mut next = |place: usize| ids[place].is_bound().then(|| terms.next()).flatten();
        let wrong = || failed(StoreError::corrupt("spo", None, "a quad that is not RDF"));
        quad([next(0), next(1), next(2), next(3)]).ok_or_else(wrong)
    }))
}

/// Bytes of a quad's terms besides the text of a literal, approximately.
const QUAD_BYTES: usize = 256;

impl Part {
    /// Returns the approximate bytes of the quads' text.
    fn bytes(&self) -> usize {
        match self {
            Self::Text { text, .. } => text.len(),
            Self::Quads(quads) => {
                let text = |quad: &Quad| match &quad.object {
                    Term::Literal(literal) => QUAD_BYTES + literal.value().len(),
                    _ => QUAD_BYTES,
                };
                quads.iter().map(text).sum()
            }
        }
    }
}

fn writer_of<W: Write>(out: W, format: RdfFormat) -> RdfWriter<W> {
    RdfWriter::new(out, format, &[]).expect("no prefixes, so none is wrong")
}

impl<W: Write> Document<W> {
    fn new(out: W, format: RdfFormat) -> Self {
        let out = Shared::new(out);
        let form = match has_texts(format) {
            true => Form::Texts(Vec::new()),
            false => Form::Statements(Box::new(writer_of(out.handle(), format))),
        };
        Self { out, form }
    }

    fn write(&mut self, part: Part) -> io::Result<()> {
        match (&mut self.form, part) {
            (Form::Texts(last_end), Part::Text { text, end }) => {
                *last_end = end;
                self.out.write_all(&text)?;
            }
            (Form::Statements(writer), Part::Quads(quads)) => {
                let mut quads = quads.iter();
                quads.try_for_each(|quad| writer.quad(quad.as_ref()))?;
            }
            _ => unreachable!("parts have the form of the document"),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(mut self) -> io::Result<()> {
        match self.form {
            Form::Texts(end) => self.out.write_all(&end)?,
            Form::Statements(writer) => drop(writer.finish()?),
        }
        self.out.flush()
    }
}

/// Checks that a format can hold the graphs that a dump would write.
///
/// # Errors
/// [`WriteError::NamedGraphs`], or an error of the store.
pub fn check_dump(
    snapshot: &Snapshot,
    rules: &GraphRules,
    format: RdfFormat,
) -> Result<(), WriteError> {
    let options = QueryOptions {
        visible: rules.clone(),
        ..QueryOptions::default()
    };
    Visible::new(snapshot, &options).check_format(format)
}

fn failed(error: StoreError) -> WriteError {
    WriteError::Query(QueryError::Store(error))
}

/// The visible graphs of a snapshot, tested as they are encountered.
struct Visible<'a> {
    snapshot: &'a Snapshot,
    rules: &'a GraphRules,
    limits: Limits<'a>,
    known: HashMap<TermId, bool>,
}

/// The limits that end a dump early.
#[derive(Clone, Copy)]
struct Limits<'a> {
    cancel: Option<&'a AtomicBool>,
    deadline: Option<Instant>,
}

impl<'a> Limits<'a> {
    /// Returns the limits of options, whose time begins now.
    fn of(options: &'a QueryOptions) -> Self {
        let now = Instant::now();
        Self {
            cancel: options.cancel.as_deref(),
            deadline: options.timeout.and_then(|timeout| now.checked_add(timeout)),
        }
    }

    fn check(&self) -> Result<(), QueryError> {
        if self
            .cancel
            .is_some_and(|cancel| cancel.load(Ordering::Relaxed))
        {
            return Err(QueryError::Cancelled);
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return Err(QueryError::Timeout);
        }
        Ok(())
    }
}

impl<'a> Visible<'a> {
    fn new(snapshot: &'a Snapshot, options: &'a QueryOptions) -> Self {
        let rules = &options.visible;
        Self {
            snapshot,
            rules,
            limits: Limits::of(options),
            known: HashMap::from([(TermId::DEFAULT_GRAPH, rules.allows_default())]),
        }
    }

    /// Fails if the format cannot hold the visible graphs.
    fn check_format(&mut self, format: RdfFormat) -> Result<(), WriteError> {
        if !format.supports_datasets() && self.has_named()? {
            return Err(WriteError::NamedGraphs {
                format: format.name(),
            });
        }
        Ok(())
    }

    /// Returns whether a visible named graph has a quad.
    fn has_named(&mut self) -> Result<bool, WriteError> {
        let pattern = QuadPattern {
            graph: GraphFilter::Named,
            ..QuadPattern::default()
        };
        let count = self.snapshot.count(&pattern).map_err(failed)?;
        if count == 0 || self.rules.is_all() {
            return Ok(count > 0);
        }
        let wanted = [Component::Graph];
        let mut scan = (self.snapshot)
            .scan(&pattern, Order::Spo, &wanted)
            .map_err(failed)?;
        while let Some(batch) = scan.next().map_err(failed)? {
            self.limits.check()?;
            for graph in batch.columns.iter().flatten() {
                if self.shows(TermId(*graph))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the ids of the visible quads, four for each.
    fn quads_of(&mut self, batch: &IdBatch) -> Result<Vec<TermId>, WriteError> {
        let mut ids = Vec::with_capacity(4 * batch.rows);
        for row in 0..batch.rows {
            if self.shows(TermId(batch.columns[3][row]))? {
                ids.extend(batch.columns.iter().map(|column| TermId(column[row])));
            }
        }
        Ok(ids)
    }

    fn shows(&mut self, graph: TermId) -> Result<bool, WriteError> {
        if self.rules.is_all() {
            return Ok(true);
        }
        if let Some(shown) = self.known.get(&graph) {
            return Ok(*shown);
        }
        let name = self.snapshot.decode(&[graph]).map_err(failed)?.pop();
        let shown = match name {
            Some(Term::NamedNode(name)) => self.rules.allows_named(name.as_ref()),
            _ => self.rules.allows_all_named(),
        };
        self.known.insert(graph, shown);
        Ok(shown)
    }
}

/// Makes a quad of these terms, if each is valid in its position.
fn quad([subject, predicate, object, graph]: [Option<Term>; 4]) -> Option<Quad> {
    let node = |term: Term| -> Option<NamedOrBlankNode> {
        match term {
            Term::NamedNode(node) => Some(node.into()),
            Term::BlankNode(node) => Some(node.into()),
            _ => None,
        }
    };
    let predicate: NamedNode = match predicate? {
        Term::NamedNode(node) => node,
        _ => return None,
    };
    let graph = match graph {
        None => GraphName::DefaultGraph,
        Some(term) => node(term)?.into(),
    };
    Some(Quad::new(node(subject?)?, predicate, object?, graph))
}
