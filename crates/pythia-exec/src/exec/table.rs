//! Tables of a pattern's matches, keyed by one slot, that pipelines share.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use pythia_rdf::TermId;
use pythia_store::{End, Order};
use rustc_hash::FxHashMap;

use super::context::QueryContext;
use super::hash::HashScan;
use super::runs::{Runs, RunsBuilder, first_of_word};
use super::scan::{ScanColumns, sorted_slot};
use crate::error::QueryError;
use crate::explain::CostId;
use crate::limits::fork::fork;
use crate::limits::governor::Share;
use crate::limits::spill::rows::RowStore;
use crate::plan::slots::Slots;
use crate::plan::step::{Position, SlotPattern};

/// A table that was not expected gets one of this many parts of the memory left.
const UNEXPECTED_SHARE: usize = 8;
/// Number of matches that are worth reading apart: some hundred microseconds of work.
const PART_ROWS: usize = 1 << 14;
/// Maximum number of such parts.
const PARTS_MAX: usize = 64;

/// The matches of a pattern in key order, without the keys, and the index of the keys.
pub(super) struct Table {
    pub(super) rows: RowStore,
    pub(super) runs: Runs,
}

impl Table {
    /// Returns those rows of a key, which are sorted by the other end, that have this id at a place.
    pub(super) fn rows_with(&self, place: usize, id: u64, rows: Range<usize>) -> Range<usize> {
        let first = |is_before: &dyn Fn(u64) -> bool| {
            let Range { mut start, mut end } = rows;
            while start < end {
                let middle = start.midpoint(end);
                match is_before(self.rows.row(middle)[place]) {
                    true => start = middle + 1,
                    false => end = middle,
                }
            }
            start
        };
        first(&|found| found < id)..first(&|found| found <= id)
    }
}

/// The tables of the steps of pipelines that run side by side.
#[derive(Default)]
pub(crate) struct Tables(Mutex<FxHashMap<CostId, Arc<SharedTable>>>);

impl Tables {
    /// Returns the table of a step, which copies of the step that need the same rows have in common. `share` makes the share
    /// for its memory, if the table is likely to be read.
    pub(crate) fn of_step(
        &self,
        step: CostId,
        pattern: SlotPattern,
        order: Order,
        live: &Arc<Slots>,
        share: impl FnOnce() -> Option<Share>,
    ) -> Arc<SharedTable> {
        let mut tables = self.0.lock();
        if let Some(table) = tables.get(&step)
            && (table.pattern, table.order, &table.live) == (pattern, order, live)
        {
            return Arc::clone(table);
        }
        let table = Arc::new(SharedTable::new(pattern, order, live, share()));
        tables.insert(step, Arc::clone(&table));
        table
    }
}

/// A table that pipelines have in common, and the number of nodes that were looked up without it.
pub(crate) struct SharedTable {
    pattern: SlotPattern,
    order: Order,
    /// The slot that keys the table.
    key: usize,
    live: Arc<Slots>,
    state: Mutex<TableState>,
}

/// A table and the share for its memory.
enum TableState {
    /// Number of visits that lookups have cost, and the share if there is one already.
    Unread(u64, Option<Share>),
    Read(
        Arc<Table>,
        #[expect(dead_code, reason = "held with the table")] Share,
    ),
    TooLarge,
}

/// A part of a table that is being read.
struct TablePart {
    rows: RowStore,
    runs: RunsBuilder,
    /// Bytes of the table's memory that it has taken.
    held: usize,
}

/// The memory of a table that is being read.
struct TableMemory<'s> {
    share: &'s mut Share,
    /// Maximum number of bytes.
    most: usize,
    bytes: usize,
    /// Some rows did not fit.
    is_full: bool,
}

impl TableMemory<'_> {
    /// Takes memory for a part that has some; returns false if there is none left, for this part or another one before.
    fn fits(&mut self, before: usize, after: usize) -> bool {
        self.bytes = self.bytes - before + after;
        self.is_full |= self.bytes > self.most || !self.share.fits(self.bytes);
        !self.is_full
    }
}

/// The way to look up nodes.
pub(super) enum Way {
    /// One by one: they are few.
    ByNode,
    Table(Box<HashScan>),
    /// Many together: there is no room for the table.
    Together,
}

impl SharedTable {
    fn new(pattern: SlotPattern, order: Order, live: &Arc<Slots>, share: Option<Share>) -> Self {
        Self {
            pattern,
            order,
            key: sorted_slot(&pattern, order).expect("the planner joins by a variable"),
            live: Arc::clone(live),
            state: Mutex::new(TableState::Unread(0, share)),
        }
    }

    /// Returns the way to look up more nodes, which one by one cost this many visits, if up to `after` visits are made before
    /// the table. The first pipeline that needs the table reads it.
    pub(super) fn way(
        &self,
        visits: u64,
        after: u64,
        context: &Arc<QueryContext>,
    ) -> Result<Way, QueryError> {
        let cores = context.governor().cores();
        let mut state = match self.state.try_lock() {
            Some(state) => state,
            // Another pipeline may be reading the table.
            None => cores.wait(|| self.state.lock()),
        };
        if let TableState::Unread(made, share) = &mut *state {
            *made += visits;
            if *made <= after {
                return Ok(Way::ByNode);
            }
            let (most, mut share) = match share.take() {
                Some(share) => (usize::MAX, share),
                // The other operators have divided the memory without this one.
                None => {
                    let governor = context.governor();
                    let most = governor.memory_left() / UNEXPECTED_SHARE;
                    (most, Share::new(governor))
                }
            };
            *state = TableState::TooLarge;
            if let Some(table) = self.read(&mut share, most, context)? {
                *state = TableState::Read(Arc::new(table), share);
            }
        }
        Ok(match &*state {
            TableState::Read(table, _) => {
                let scan = HashScan::new(Arc::clone(table), self, Arc::clone(context));
                Way::Table(Box::new(scan))
            }
            _ => Way::Together,
        })
    }

    /// Returns the slot that keys the table.
    pub(super) fn key(&self) -> usize {
        self.key
    }

    /// Returns the slots that later steps need.
    pub(super) fn live(&self) -> &Arc<Slots> {
        &self.live
    }

    /// Returns the other end's slot, if it is bound too.
    pub(super) fn other(&self) -> Option<usize> {
        let ends = [self.pattern.subject, self.pattern.object].into_iter();
        let mut bound = ends.filter_map(|end| match end {
            Position::Bound(slot) if slot != self.key => Some(slot),
            _ => None,
        });
        bound.next()
    }

    /// Returns the columns of the table.
    fn columns(&self) -> ScanColumns {
        let other = self.other();
        // With any other pattern, a key's rows would not be sorted by the other end.
        debug_assert!(other.is_none() || matches!(self.pattern.predicate, Position::Constant(_)));
        let read: Vec<usize> = other.into_iter().chain([self.key]).collect();
        ScanColumns::new(&self.pattern, &read, &self.live)
    }

    /// Reads all matches, on all free cores if they are many; `None` if they do not fit into memory, or take more than `most`
    /// bytes of it.
    fn read(
        &self,
        share: &mut Share,
        most: usize,
        context: &QueryContext,
    ) -> Result<Option<Table>, QueryError> {
        let ranges = self.ranges(context)?;
        let memory = Mutex::new(TableMemory {
            share,
            most,
            bytes: 0,
            is_full: false,
        });
        let parts = fork(context.governor().cores(), ranges.len(), |part| {
            self.read_range(ranges[part].clone(), &memory, context)
        })?;
        let mut parts = parts.into_iter();
        let Some(Some(TablePart {
            mut rows,
            mut runs,
            mut held,
        })) = parts.next()
        else {
            return Ok(None);
        };
        for part in parts {
            let Some(part) = part else {
                return Ok(None);
            };
            // Together they may have keys too far apart for the index that each of them has.
            let after = rows.bytes_with(part.rows.len()) + runs.bytes_with(&part.runs);
            if !memory.lock().fits(held + part.held, after) {
                return Ok(None);
            }
            rows.append(part.rows);
            runs.append(part.runs);
            held = rows.bytes_with(0) + runs.bytes();
            if !memory.lock().fits(after, held) {
                return Ok(None);
            }
        }
        let runs = runs.finish();
        Ok(Some(Table { rows, runs }))
    }

    /// Returns ranges of keys with about equally many matches, which may be read apart; a single one without ends if that is
    /// not worth it.
    fn ranges(&self, context: &QueryContext) -> Result<Vec<Option<Range<u64>>>, QueryError> {
        let estimates = context.snapshot.estimates();
        // A measured query's pages are counted on its own thread.
        let may_divide = context.governor().cores().are_several() && context.profile.is_none();
        let Some((predicate, end)) = self.whole().filter(|_| may_divide) else {
            return Ok(vec![None]);
        };
        let counts = estimates.statistics().predicate(predicate);
        let matches = counts.map_or(0, |counts| counts.quads);
        let parts = (matches as usize / PART_ROWS).min(PARTS_MAX);
        if parts < 2 {
            return Ok(vec![None]);
        }
        let cuts = estimates.sample(predicate, end, parts - 1)?;
        let mut cuts: Vec<u64> = cuts.into_iter().map(|id| first_of_word(id.0)).collect();
        cuts.dedup();
        let starts = iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([u64::MAX]);
        let ranges = starts.zip(ends).map(|(start, end)| Some(start..end));
        Ok(ranges.collect())
    }

    /// Returns the predicate and the end that is the key, if the pattern matches all triples of a predicate. Those of one named
    /// graph have an order of their own, which is not read in ranges.
    fn whole(&self) -> Option<(TermId, End)> {
        let SlotPattern {
            subject,
            predicate,
            object,
            ..
        } = self.pattern;
        if self.pattern.graph.filter().one_named().is_some() {
            return None;
        }
        let end = match self.order {
            Order::Pso => End::Subject,
            Order::Pos => End::Object,
            _ => return None,
        };
        match (subject, predicate, object) {
            (Position::Constant(_), ..) | (.., Position::Constant(_)) => None,
            (_, Position::Constant(predicate), _) => Some((predicate, end)),
            _ => None,
        }
    }

    /// Reads the matches with keys in a range; `None` if there is no memory.
    fn read_range(
        &self,
        range: Option<Range<u64>>,
        memory: &Mutex<TableMemory<'_>>,
        context: &QueryContext,
    ) -> Result<Option<TablePart>, QueryError> {
        let columns = self.columns();
        let key = columns.column_of(self.key);
        let mut scan = columns.open(self.order, range, context)?;
        let mut rows = RowStore::new(columns.slots.len() - 1);
        let mut runs = RunsBuilder::new();
        let mut held = 0;
        let mut fits = |bytes: usize| {
            let before = std::mem::replace(&mut held, bytes);
            memory.lock().fits(before, bytes)
        };
        while let Some(found) = scan.next()? {
            context.check()?;
            if !fits(rows.bytes_with(found.rows) + runs.bytes()) {
                return Ok(None);
            }
            let mut cells: Vec<&[u64]> = found.columns.iter().map(Vec::as_slice).collect();
            runs.push(cells.remove(key));
            rows.push_columns(&cells, found.rows);
            if !fits(rows.bytes_with(0) + runs.bytes()) {
                return Ok(None);
            }
        }
        Ok(Some(TablePart { rows, runs, held }))
    }

    /// Returns the slots of the table's rows.
    pub(super) fn row_slots(&self) -> Vec<usize> {
        let slots = self.columns().slots.into_iter();
        slots.filter(|slot| *slot != self.key).collect()
    }
}

#[cfg(test)]
mod tests {
    use pythia_store::GraphFilter;

    use super::*;
    use crate::plan::step::GraphPosition;

    #[test]
    fn only_all_triples_of_a_predicate_are_read_in_ranges() {
        let predicate = TermId(7);
        let whole = |object, graph, order| {
            let pattern = SlotPattern {
                subject: Position::Bound(0),
                predicate: Position::Constant(predicate),
                object,
                graph: GraphPosition::Filter(graph),
            };
            SharedTable::new(pattern, order, &Arc::default(), None).whole()
        };
        let (any, free) = (GraphFilter::Any, Position::New(1));
        assert_eq!(
            whole(free, any, Order::Pso),
            Some((predicate, End::Subject))
        );
        let default = GraphFilter::One(TermId::DEFAULT_GRAPH);
        assert_eq!(
            whole(free, default, Order::Pos),
            Some((predicate, End::Object))
        );
        // They have an order of their own, of which a range of the predicate's would read all graphs.
        assert_eq!(whole(free, GraphFilter::One(TermId(9)), Order::Pso), None);
        assert_eq!(whole(Position::Constant(TermId(3)), any, Order::Pso), None);
    }
}
