//! A scan of the base with recent changes merged in.
//!
//! The base is scanned for the components that rows are sorted by, up to the last requested one; ranges of its rows
//! without changes are copied unchanged.

use std::cmp::Ordering;

use pythia_rdf::TermId;

use crate::StoreError;
use crate::delta::{ChangeStream, contradiction};
use crate::gallop::gallop_rows;
use crate::pattern::{Component, GraphFilter, IdBatch, Order, QuadPattern};
use crate::scan::{BATCH_ROWS_MIN, SegmentScan};

/// The first step of the search for the place of a change.
const FIRST_STEP: usize = 16;

/// The source of a column of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Constant(u64),
    Key(usize),
}

/// The components that rows are merged by, and the ones that the result takes.
pub(crate) struct MergeKey {
    /// The components that the pattern leaves free, in the order of the scan, up to the last one wanted.
    pub(crate) components: Vec<Component>,
    columns: Vec<Column>,
}

impl MergeKey {
    pub(crate) fn new(pattern: &QuadPattern, order: Order, wanted: &[Component]) -> Self {
        let bound = |which: Component| match which {
            Component::Subject => pattern.subject,
            Component::Predicate => pattern.predicate,
            Component::Object => pattern.object,
            Component::Graph => match pattern.graph {
                GraphFilter::One(graph) => Some(graph),
                _ => None,
            },
        };
        let mut components = order.components().to_vec();
        components.retain(|&which| bound(which).is_none());
        let last = components.iter().rposition(|which| wanted.contains(which));
        // The first is needed for seeking.
        components.truncate(last.unwrap_or(0) + 1);
        let place = |which: &Component| components.iter().position(|c| c == which);
        let column = |which: &Component| match bound(*which) {
            Some(id) => Column::Constant(id.0),
            None => Column::Key(place(which).expect("the components reach to the last wanted")),
        };
        Self {
            columns: wanted.iter().map(column).collect(),
            components,
        }
    }
}

/// Rows of a base scan with signed changes.
pub(crate) struct MergedScan {
    /// Returns the key's components, in key order.
    base: SegmentScan,
    /// Its current rows, and the next of them.
    rows: IdBatch,
    next: usize,
    changes: ChangeStream,
    columns: Vec<Column>,
    /// Whether there is a component to seek by.
    can_seek: bool,
    /// Whether the result has the columns of the base's rows.
    is_whole: bool,
}

impl MergedScan {
    pub(crate) fn new(base: SegmentScan, changes: ChangeStream, key: MergeKey) -> Self {
        Self {
            base,
            rows: IdBatch::default(),
            next: 0,
            changes,
            is_whole: key.columns.len() == key.components.len() && {
                let mut columns = key.columns.iter().enumerate();
                columns.all(|(number, column)| *column == Column::Key(number))
            },
            can_seek: key
                .components
                .first()
                .is_some_and(|&first| first != Component::Graph),
            columns: key.columns,
        }
    }

    /// Appends the next rows to `batch`; it stays empty at the end.
    pub(crate) fn fill(&mut self, batch: &mut IdBatch) -> Result<(), StoreError> {
        while batch.rows < BATCH_ROWS_MIN {
            if self.next == self.rows.rows {
                self.next = 0;
                self.base.next_into(&mut self.rows)?;
            }
            let at_end = self.rows.rows == 0;
            let last = (!at_end).then(|| self.key(self.rows.rows - 1));
            match self.changes.next_until(last.as_ref())? {
                Some((key, sum)) => self.apply(&key, sum, batch)?,
                None if at_end => return Ok(()),
                None => self.copy(self.rows.rows, batch),
            }
        }
        Ok(())
    }

    /// Copies the rows before the key, then adds rows of the key or skips them.
    fn apply(&mut self, key: &[u64; 4], sum: i64, batch: &mut IdBatch) -> Result<(), StoreError> {
        let before = self.rows_before(key);
        self.copy(before, batch);
        for _ in 0..sum.max(0) {
            for (column, out) in self.columns.iter().zip(&mut batch.columns) {
                out.push(match *column {
                    Column::Constant(id) => id,
                    Column::Key(place) => key[place],
                });
            }
            batch.rows += 1;
        }
        for _ in 0..(-sum).max(0) {
            // Rows of one key may continue in the next batch.
            if self.next == self.rows.rows {
                self.next = 0;
                self.base.next_into(&mut self.rows)?;
            }
            if self.rows.rows == 0 || self.compare(self.next, key) != Ordering::Equal {
                return Err(contradiction());
            }
            self.next += 1;
        }
        Ok(())
    }

    /// Copies the current rows up to `end`; moves all of them if the batch has no others.
    fn copy(&mut self, end: usize, batch: &mut IdBatch) {
        if self.is_whole && batch.rows == 0 && (self.next, end) == (0, self.rows.rows) {
            std::mem::swap(&mut self.rows, batch);
            self.rows.clear();
            return;
        }
        let rows = self.next..end;
        for (column, out) in self.columns.iter().zip(&mut batch.columns) {
            match *column {
                Column::Constant(id) => out.resize(out.len() + rows.len(), id),
                Column::Key(place) => {
                    out.extend_from_slice(&self.rows.columns[place][rows.clone()]);
                }
            }
        }
        batch.rows += rows.len();
        self.next = end;
    }

    /// Returns the first current row that is not before the key. Most keys differ in their first component, and most are near.
    fn rows_before(&self, key: &[u64; 4]) -> usize {
        let Some(first) = self.rows.columns.first() else {
            return self.next;
        };
        let start = gallop_rows(self.next..self.rows.rows, FIRST_STEP, |row| {
            first[row] < key[0]
        });
        match first.get(start) {
            Some(&id) if id == key[0] => gallop_rows(start..self.rows.rows, FIRST_STEP, |row| {
                self.compare(row, key) == Ordering::Less
            }),
            _ => start,
        }
    }

    fn compare(&self, row: usize, key: &[u64; 4]) -> Ordering {
        let columns = self.rows.columns.iter().zip(key);
        let mut unequal = columns.map(|(column, id)| column[row].cmp(id));
        let found = unequal.find(|ordering| *ordering != Ordering::Equal);
        found.unwrap_or(Ordering::Equal)
    }

    fn key(&self, row: usize) -> [u64; 4] {
        let mut key = [0; 4];
        for (place, column) in key.iter_mut().zip(&self.rows.columns) {
            *place = column[row];
        }
        key
    }

    /// Skips rows whose first component is smaller.
    pub(crate) fn seek(&mut self, id: TermId) -> Result<(), StoreError> {
        if !self.can_seek {
            return Ok(());
        }
        let Some(first) = self.rows.columns.first() else {
            return self.seek_both(id);
        };
        let rest = &first[self.next..];
        self.next += rest.partition_point(|&other| other < id.0);
        if self.next < self.rows.rows {
            return self.changes.seek(id);
        }
        self.seek_both(id)
    }

    /// As [`super::QuadScan::expect`].
    pub(crate) fn expect(&mut self, ids: &[u64]) {
        self.base.expect(ids);
    }

    fn seek_both(&mut self, id: TermId) -> Result<(), StoreError> {
        self.base.seek(id)?;
        self.changes.seek(id)
    }
}
