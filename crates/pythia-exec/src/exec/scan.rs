//! Reads a pattern's matches in order, and enumerates graphs.

use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::{Component, GraphFilter, IdBatch, Order, QuadPattern, QuadScan};
use rustc_hash::FxHashMap;

use super::batch::{Batch, Cursor};
use super::context::QueryContext;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::limits::governor::Held;
use crate::plan::slots::Slots;
use crate::plan::step::{GraphPosition, Position, SlotPattern};

/// Ids that are known to be graphs, or not to be.
const KNOWN_GRAPHS_MAX: usize = 4096;

/// The input of a scan: the pattern, the wanted components, and the slot that each one fills.
pub(crate) struct ScanColumns {
    pattern: SlotPattern,
    pub(crate) components: Vec<Component>,
    pub(crate) slots: Vec<usize>,
}

impl ScanColumns {
    /// Makes the columns for a pattern whose variables are new, except those in `keys`, which are read as
    /// well. Slots that are not needed are left out.
    pub(crate) fn new(pattern: &SlotPattern, keys: &[usize], live: &Slots) -> Self {
        let mut columns = Self {
            pattern: *pattern,
            components: Vec::new(),
            slots: Vec::new(),
        };
        let mut want = |component: Component, slot: usize, new: bool| {
            if keys.contains(&slot) || (new && live.contains(slot)) {
                columns.components.push(component);
                columns.slots.push(slot);
            }
        };
        for (component, position) in [
            (Component::Subject, pattern.subject),
            (Component::Predicate, pattern.predicate),
            (Component::Object, pattern.object),
        ] {
            if let Some(slot) = position.slot() {
                want(component, slot, matches!(position, Position::New(_)));
            }
        }
        if let Some(slot) = pattern.graph.slot() {
            let new = matches!(pattern.graph, GraphPosition::New(..));
            want(Component::Graph, slot, new);
        }
        columns
    }

    /// Starts the scan, within a range of ids of the first variable in the order if there is one
    /// ([`Snapshot::scan_range`](pythia_store::Snapshot::scan_range)). Variables in `keys` are left free.
    pub(crate) fn open(
        &self,
        order: Order,
        range: Option<Range<u64>>,
        context: &QueryContext,
    ) -> Result<QuadScan, QueryError> {
        self.open_with(order, range, context, |slot| {
            debug_assert!(self.slots.contains(&slot));
            None
        })
    }

    /// Starts the scan with the values of slots bound earlier, within a range of ids of the first variable
    /// in the order.
    fn open_with(
        &self,
        order: Order,
        range: Option<Range<u64>>,
        context: &QueryContext,
        value: impl Fn(usize) -> Option<TermId>,
    ) -> Result<QuadScan, QueryError> {
        let known = |position: Position| match position {
            Position::Constant(id) => Some(id),
            Position::Bound(slot) => value(slot),
            Position::New(_) => None,
        };
        let graph = match self.pattern.graph {
            GraphPosition::Bound(slot) => match value(slot) {
                Some(graph) => GraphFilter::One(graph),
                None => GraphFilter::Named,
            },
            other => other.filter(),
        };
        let pattern = QuadPattern {
            subject: known(self.pattern.subject),
            predicate: known(self.pattern.predicate),
            object: known(self.pattern.object),
            graph,
        };
        let (snapshot, wanted) = (&context.snapshot, &self.components);
        Ok(match range {
            Some(range) => snapshot.scan_range(&pattern, order, range, wanted)?,
            None => snapshot.scan(&pattern, order, wanted)?,
        })
    }

    /// Drops rows of invisible graphs if all named graphs are read. They must not appear in the step's
    /// measurements either.
    fn hide(&self, found: &mut IdBatch, context: &QueryContext) {
        let (GraphPosition::New(slot, _), Some(visible)) =
            (self.pattern.graph, context.dataset.visible.as_deref())
        else {
            return;
        };
        if visible.named.is_none() {
            return;
        }
        let graphs = std::mem::take(&mut found.columns[self.column_of(slot)]);
        let is_seen: Vec<bool> = graphs
            .iter()
            .map(|id| visible.accepts(TermId(*id)))
            .collect();
        found.columns[self.column_of(slot)] = graphs;
        for column in &mut found.columns {
            let mut row = 0;
            column.retain(|_| {
                row += 1;
                is_seen[row - 1]
            });
        }
        found.rows = is_seen.into_iter().filter(|seen| *seen).count();
    }

    /// Returns the column of `slot`, which must be one that is read.
    pub(crate) fn column_of(&self, slot: usize) -> usize {
        self.slots
            .iter()
            .position(|&s| s == slot)
            .expect("keys are among the columns read")
    }
}

/// Number of rows of the first batch of a scan that begins small.
pub(super) const FIRST_ROWS: usize = 128;
/// Number of rows of each later batch of such a scan, as a multiple of the batch before.
const ROWS_GROWTH: usize = 8;

/// Joins every solution with the matches of a pattern, which are read for each solution. Usually this is
/// the first step, which starts from the empty solution.
pub(crate) struct Scan {
    input: Fed,
    columns: ScanColumns,
    order: Order,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    current: Batch,
    row: usize,
    scan: Option<QuadScan>,
    /// The rows read for the current solution, and how many of them were returned.
    found: IdBatch,
    given: usize,
    /// Maximum number of rows of the next batch.
    next_rows: usize,
    /// The ranges to read, if the scan is limited to ranges, and how many of them were opened for the
    /// current row.
    ranges: Option<Arc<[Range<u64>]>>,
    next_range: usize,
}

impl Scan {
    pub(crate) fn new(
        input: Fed,
        pattern: SlotPattern,
        order: Order,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            columns: ScanColumns::new(&pattern, &[], &live),
            order,
            live,
            context,
            current: Batch::default(),
            row: 0,
            scan: None,
            found: IdBatch::default(),
            given: 0,
            next_rows: usize::MAX,
            ranges: None,
            next_range: 0,
        }
    }

    /// Begins with small batches, if `small`.
    pub(crate) fn begin_small(mut self, small: bool) -> Self {
        if small {
            self.next_rows = FIRST_ROWS;
        }
        self
    }

    /// Limits the scan to rows in which the order's first variable is in one of the ranges.
    pub(crate) fn within(mut self, ranges: Arc<[Range<u64>]>) -> Self {
        self.ranges = Some(ranges);
        self
    }

    /// Starts to read for the current row, or its next range; `None` if there is none left.
    fn open(&mut self) -> Result<Option<QuadScan>, QueryError> {
        let value = |slot: usize| Some(TermId(self.current.value(slot, self.row)));
        let range = match &self.ranges {
            None if self.next_range > 0 => return Ok(None),
            None => None,
            Some(ranges) => match ranges.get(self.next_range) {
                Some(range) => Some(range.clone()),
                None => return Ok(None),
            },
        };
        self.next_range += 1;
        let scan = self
            .columns
            .open_with(self.order, range, &self.context, value)?;
        Ok(Some(scan))
    }

    /// Reads on for the current row. Of several ranges, those with few rows are read together.
    fn read(&mut self) -> Result<(), QueryError> {
        let most = self.context.governor().batch_rows(self.live.len());
        let enough = match &self.ranges {
            Some(_) => most.min(self.next_rows),
            None => 1,
        };
        self.given = 0;
        self.found = IdBatch::default();
        while let Some(scan) = &mut self.scan {
            match scan.next()? {
                Some(mut found) => {
                    self.columns.hide(&mut found, &self.context);
                    append(&mut self.found, found);
                }
                None => self.scan = self.open()?,
            }
            if self.found.rows >= enough {
                break;
            }
            self.context.check()?;
        }
        Ok(())
    }

    /// Returns the next rows read, up to one batch.
    fn output(&mut self) -> Batch {
        let most = self.context.governor().batch_rows(self.live.len());
        let most = most.min(self.next_rows);
        self.next_rows = self.next_rows.saturating_mul(ROWS_GROWTH);
        let part = self.given..(self.given + most).min(self.found.rows);
        self.given = part.end;
        let mut batch = Batch::empty(self.current.columns.len());
        batch.rows = part.len();
        for slot in self.live.iter() {
            let value = self.current.value(slot, self.row);
            if value != 0 {
                batch.columns[slot] = vec![value; part.len()];
            }
        }
        let is_all = part.len() == self.found.rows;
        for (column, &slot) in self.found.columns.iter_mut().zip(&self.columns.slots) {
            batch.columns[slot] = match is_all {
                true => std::mem::take(column),
                false => column[part.clone()].to_vec(),
            };
        }
        batch
    }
}

impl RowSource for Scan {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.context.check()?;
            if self.given < self.found.rows {
                return Ok(Some(self.output()));
            }
            if self.scan.is_some() {
                self.read()?;
                continue;
            }
            if self.row < self.current.rows {
                self.scan = self.open()?;
                if self.scan.is_some() {
                    continue;
                }
                self.row += 1;
                self.next_range = 0;
            }
            if self.row >= self.current.rows {
                self.current = Batch::default();
                let Some(batch) = self.input.take() else {
                    return Ok(None);
                };
                self.current = batch;
                self.row = 0;
            }
        }
    }
}

fn append(rows: &mut IdBatch, more: IdBatch) {
    if rows.rows == 0 {
        *rows = more;
        return;
    }
    rows.rows += more.rows;
    for (column, more) in rows.columns.iter_mut().zip(more.columns) {
        column.extend(more);
    }
}

/// Binds a slot to each named graph (`GRAPH ?g {}`), or keeps solutions whose slot holds one.
pub(crate) struct Graphs {
    input: Fed,
    position: Position,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    /// All graphs, if the slot is new.
    all: Option<Vec<TermId>>,
    charged: Held,
    /// Of some ids, whether they are graphs.
    known: FxHashMap<u64, bool>,
    current: Cursor,
    /// Number of graphs returned for the current row, if the slot is new.
    given: usize,
}

impl Graphs {
    pub(crate) fn new(
        input: Fed,
        position: Position,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            position,
            live,
            charged: Held::new(context.governor()),
            context,
            all: None,
            known: FxHashMap::default(),
            current: Cursor::default(),
            given: 0,
        }
    }

    /// Returns the next solutions of the current batch, up to one batch.
    fn join(&mut self) -> Result<Batch, QueryError> {
        if self.all.is_none() && matches!(self.position, Position::New(_)) {
            self.all = Some(self.context.dataset_graphs(&mut self.charged)?);
        }
        let graphs = self.all.as_deref().unwrap_or_default();
        let most = self.context.governor().batch_rows(self.live.len());
        let Cursor { batch, row } = &mut self.current;
        let mut rows = Vec::new();
        let mut values = Vec::new();
        while *row < batch.rows && rows.len() < most {
            let graph = match self.position {
                Position::New(_) => {
                    let part = self.given..(self.given + most - rows.len()).min(graphs.len());
                    rows.extend(std::iter::repeat_n(*row as u32, part.len()));
                    values.extend(graphs[part.clone()].iter().map(|graph| graph.0));
                    self.given = part.end;
                    if self.given == graphs.len() {
                        (*row, self.given) = (*row + 1, 0);
                    }
                    continue;
                }
                Position::Bound(slot) => TermId(batch.value(slot, *row)),
                Position::Constant(graph) => graph,
            };
            if is_graph(&mut self.known, graph, &self.context)? {
                rows.push(*row as u32);
            }
            *row += 1;
        }
        let mut out = batch.gather(&rows, &self.live);
        if let Position::New(slot) = self.position {
            out.columns[slot] = values;
        }
        Ok(out)
    }
}

impl RowSource for Graphs {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.context.check()?;
            if self.current.has_rows() {
                let batch = self.join()?;
                self.current.drop_used();
                if batch.rows > 0 {
                    return Ok(Some(batch));
                }
                continue;
            }
            let Some(batch) = self.input.take() else {
                return Ok(None);
            };
            self.current = Cursor::over(batch);
        }
    }
}

/// Returns the slot that a scan in `order` is sorted by: the first of the order's components that is not a
/// constant, if it is a variable.
pub(crate) fn sorted_slot(pattern: &SlotPattern, order: Order) -> Option<usize> {
    let (s, p, o) = (pattern.subject, pattern.predicate, pattern.object);
    let components = match order {
        Order::Spo => [s, p, o],
        Order::Ops => [o, p, s],
        Order::Pso | Order::Gpso => [p, s, o],
        Order::Pos => [p, o, s],
    };
    match components
        .into_iter()
        .find(|c| !matches!(c, Position::Constant(_)))
    {
        Some(position) => position.slot(),
        None => match pattern.graph {
            GraphPosition::New(slot, _) => Some(slot),
            _ => None,
        },
    }
}

/// Returns whether `GRAPH ?g` ranges over a graph, which `known` may tell.
fn is_graph(
    known: &mut FxHashMap<u64, bool>,
    graph: TermId,
    context: &QueryContext,
) -> Result<bool, QueryError> {
    if let Some(&is_graph) = known.get(&graph.0) {
        return Ok(is_graph);
    }
    if known.len() == KNOWN_GRAPHS_MAX {
        known.clear();
    }
    let is_graph = context.is_dataset_graph(graph)?;
    known.insert(graph.0, is_graph);
    Ok(is_graph)
}
