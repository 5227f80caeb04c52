//! Reads the graph with a user's access: rows of visible graphs only, within a time limit.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use oxrdf::{GraphNameRef, Term};
use pythia::ids::{Component, End, GraphFilter, IdBatch, Order, QuadPattern, QuadScan, TermId};
use pythia::{
    Database, GraphRules, PreparedQuery, QueryError, QueryOptions, Results, Snapshot, Solution,
};

/// Memory limit of a query for the page, in bytes.
const MEMORY_BYTES: usize = 64 << 20;

/// The snapshot, access rules and limits of one request.
pub(super) struct Reader {
    database: Arc<Database>,
    pub(super) snapshot: Snapshot,
    rules: GraphRules,
    /// Cached answers of [`Self::sees`].
    known: RefCell<HashMap<TermId, bool>>,
    deadline: Instant,
    cancel: Arc<AtomicBool>,
}

/// Two free components of the rows of a scan. Rows of hidden graphs are left out, and a triple in several visible
/// graphs is returned once.
pub(super) struct Rows<'r> {
    reader: &'r Reader,
    scan: QuadScan,
    batch: IdBatch,
    next: usize,
    last: Option<[TermId; 2]>,
}

impl Reader {
    pub(super) fn new(
        database: Arc<Database>,
        rules: GraphRules,
        timeout: Duration,
        cancel: Arc<AtomicBool>,
    ) -> Self {
        Self {
            snapshot: database.snapshot(),
            database,
            rules,
            known: RefCell::default(),
            deadline: Instant::now() + timeout,
            cancel,
        }
    }

    /// Returns a reader for a part of the work, with at most this much time.
    pub(super) fn within(&self, time: Duration) -> Self {
        Self {
            database: Arc::clone(&self.database),
            snapshot: self.snapshot.clone(),
            rules: self.rules.clone(),
            known: self.known.clone(),
            deadline: self.deadline.min(Instant::now() + time),
            cancel: Arc::clone(&self.cancel),
        }
    }

    /// Returns an error if the request is cancelled or out of time.
    pub(super) fn check(&self) -> Result<(), QueryError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(QueryError::Cancelled);
        }
        if Instant::now() >= self.deadline {
            return Err(QueryError::Timeout);
        }
        Ok(())
    }

    /// Returns whether no graph is hidden.
    pub(super) fn sees_all(&self) -> bool {
        self.rules.is_all()
    }

    /// Returns whether counts of quads equal counts of visible triples: all graphs are visible, and only one has
    /// quads.
    pub(super) fn is_plain(&self) -> bool {
        let graphs = &self.snapshot.statistics().graphs;
        let used = graphs.graphs.iter().filter(|(_, quads)| *quads > 0);
        self.sees_all() && graphs.is_complete() && used.take(2).count() < 2
    }

    /// Returns whether the user may see a graph.
    pub(super) fn sees(&self, graph: TermId) -> Result<bool, QueryError> {
        if self.sees_all() {
            return Ok(true);
        }
        if graph == TermId::DEFAULT_GRAPH {
            return Ok(self.rules.allows(GraphNameRef::DefaultGraph));
        }
        if let Some(known) = self.known.borrow().get(&graph) {
            return Ok(*known);
        }
        let seen = match &self.snapshot.decode(&[graph])?[..] {
            [Term::NamedNode(node)] => self.rules.allows(node.as_ref().into()),
            [Term::BlankNode(node)] => self.rules.allows(node.as_ref().into()),
            _ => false,
        };
        self.known.borrow_mut().insert(graph, seen);
        Ok(seen)
    }

    /// Returns the visible rows of a pattern, with two of its free components.
    pub(super) fn rows(
        &self,
        pattern: &QuadPattern,
        order: Order,
        wanted: [Component; 2],
    ) -> Result<Rows<'_>, QueryError> {
        let [first, second] = wanted;
        let wanted = [first, second, Component::Graph];
        Ok(self.rows_of(self.snapshot.scan(pattern, order, &wanted)?))
    }

    /// Returns the visible rows of a predicate whose objects are in a range of ids, as object and subject.
    pub(super) fn rows_in(
        &self,
        predicate: TermId,
        objects: std::ops::Range<u64>,
    ) -> Result<Rows<'_>, QueryError> {
        let pattern = QuadPattern {
            predicate: Some(predicate),
            ..QuadPattern::default()
        };
        let wanted = [Component::Object, Component::Subject, Component::Graph];
        let scan = self
            .snapshot
            .scan_range(&pattern, Order::Pos, objects, &wanted)?;
        Ok(self.rows_of(scan))
    }

    fn rows_of(&self, scan: QuadScan) -> Rows<'_> {
        Rows {
            reader: self,
            scan,
            batch: IdBatch::default(),
            next: 0,
            last: None,
        }
    }

    /// Counts the visible triples that match. Stops near `most` where they must be counted one by one.
    pub(super) fn count(&self, pattern: &QuadPattern, most: u64) -> Result<u64, QueryError> {
        if self.is_plain() {
            return Ok(self.snapshot.count(pattern)?);
        }
        let (order, wanted) = match (pattern.subject, pattern.predicate) {
            (Some(_), None) => (Order::Spo, [Component::Predicate, Component::Object]),
            (Some(_), Some(_)) => (Order::Pso, [Component::Subject, Component::Object]),
            (None, Some(_)) => (Order::Pos, [Component::Object, Component::Subject]),
            (None, None) => (Order::Ops, [Component::Predicate, Component::Subject]),
        };
        let mut rows = self.rows(pattern, order, wanted)?;
        let mut count = 0;
        while count < most && rows.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Returns whether a visible quad has this predicate.
    pub(super) fn uses(&self, predicate: TermId) -> Result<bool, QueryError> {
        let statistics = self.snapshot.statistics();
        if self.sees_all() {
            return Ok(statistics.predicate(predicate).is_some());
        }
        let pattern = |graph| QuadPattern {
            predicate: Some(predicate),
            graph,
            ..QuadPattern::default()
        };
        // Scans each visible graph by itself, which skips the pages of others.
        for (graph, _) in &statistics.graphs.graphs {
            self.check()?;
            if self.sees(*graph)? && self.has(&pattern(GraphFilter::One(*graph)))? {
                return Ok(true);
            }
        }
        Ok(!statistics.graphs.is_complete() && self.has(&pattern(GraphFilter::Any))?)
    }

    /// Returns whether a visible quad with this predicate matches.
    fn has(&self, pattern: &QuadPattern) -> Result<bool, QueryError> {
        let wanted = [Component::Object, Component::Subject];
        Ok(self.rows(pattern, Order::Pos, wanted)?.next()?.is_some())
    }

    /// Returns whether a node has visible triples.
    pub(super) fn knows(&self, node: TermId) -> Result<bool, QueryError> {
        Ok(self.count(&from(node, None), 1)? > 0 || self.count(&to(node, None), 1)? > 0)
    }

    /// Estimates the number of visible triples that match, quickly. Triples in several graphs may count more than
    /// once, and counting one by one stops near `most`.
    pub(super) fn estimate(&self, pattern: &QuadPattern, most: u64) -> Result<u64, QueryError> {
        match self.sees_all() {
            true => Ok(self.snapshot.count(pattern)?),
            false => self.count(pattern, most),
        }
    }

    /// Counts the visible triples of each node (sorted, distinct). If some graphs are hidden, counting a node
    /// stops near `COUNTED` in each direction.
    pub(super) fn degrees(&self, nodes: &[TermId]) -> Result<Vec<u64>, QueryError> {
        /// Limit on the triples that are counted one by one.
        const COUNTED: u64 = 1000;
        if self.sees_all() {
            let out = self.snapshot.degrees(End::Subject, nodes)?;
            let into = self.snapshot.degrees(End::Object, nodes)?;
            return Ok(out.iter().zip(into).map(|(a, b)| a + b).collect());
        }
        let degree = |node: &TermId| {
            let out = self.count(&from(*node, None), COUNTED)?;
            Ok(out + self.count(&to(*node, None), COUNTED)?)
        };
        nodes.iter().map(degree).collect()
    }

    /// Returns the id of a term if the store has it.
    pub(super) fn resolve(&self, term: &Term) -> Result<Option<TermId>, QueryError> {
        Ok(self.snapshot.resolve(term.as_ref())?)
    }

    /// Calls `f` with the solutions of a query over the visible graphs, within limits of number and time. An error
    /// comes after the solutions that were found before it.
    pub(super) fn each(
        &self,
        text: &str,
        limits: Limits,
        mut f: impl FnMut(Solution),
    ) -> Result<(), QueryError> {
        let Results::Solutions(solutions) = self.prepare(text, limits)?.execute()? else {
            return Err(QueryError::unsupported("a query that is not a SELECT"));
        };
        for solution in pythia::solutions(solutions).take(limits.rows) {
            f(solution?);
        }
        Ok(())
    }

    fn prepare(&self, text: &str, limits: Limits) -> Result<PreparedQuery, QueryError> {
        self.check()?;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let options = QueryOptions {
            timeout: Some(limits.time.min(left)),
            cancel: Some(Arc::clone(&self.cancel)),
            memory_bytes: Some(MEMORY_BYTES),
            visible: self.rules.clone(),
            ..QueryOptions::default()
        };
        self.database.prepare(text, &options)
    }
}

/// Limits of one query that is part of an answer.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) time: Duration,
    pub(super) rows: usize,
}

impl Rows<'_> {
    /// Returns the next two ids.
    pub(super) fn next(&mut self) -> Result<Option<[TermId; 2]>, QueryError> {
        loop {
            if self.next == self.batch.rows {
                self.reader.check()?;
                self.next = 0;
                if !self.scan.next_into(&mut self.batch)? {
                    self.batch.rows = 0;
                    return Ok(None);
                }
            }
            let row = self.next;
            self.next += 1;
            let id = |column: usize| TermId(self.batch.columns[column][row]);
            let ids = [id(0), id(1)];
            if self.last != Some(ids) && self.reader.sees(id(2))? {
                self.last = Some(ids);
                return Ok(Some(ids));
            }
        }
    }

    /// Skips to rows whose first component is at least `id`. The rows must be sorted by it.
    pub(super) fn seek(&mut self, id: TermId) -> Result<(), QueryError> {
        let rest = &self
            .batch
            .columns
            .first()
            .map_or(&[][..], |c| &c[self.next..self.batch.rows]);
        let skipped = rest.partition_point(|other| *other < id.0);
        let is_beyond = skipped == rest.len();
        self.next += skipped;
        if is_beyond {
            self.scan.seek(id)?;
        }
        Ok(())
    }
}

/// Returns the pattern of the triples with this subject.
pub(super) fn from(node: TermId, predicate: Option<TermId>) -> QuadPattern {
    QuadPattern {
        subject: Some(node),
        predicate,
        object: None,
        graph: GraphFilter::Any,
    }
}

/// Returns the pattern of the triples with this object.
pub(super) fn to(node: TermId, predicate: Option<TermId>) -> QuadPattern {
    QuadPattern {
        subject: None,
        predicate,
        object: Some(node),
        graph: GraphFilter::Any,
    }
}
