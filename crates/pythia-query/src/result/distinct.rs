//! Rows of ids without repetition, in bounded memory.
//!
//! A row is handed out at once if it is new and the set of those seen has room. Once the set is
//! full it stays as it is: what it does not hold is put aside in sorted runs on disk, and merged,
//! each row once, at the end. So the first rows leave early, and memory does not grow with the
//! result.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::error::QueryError;

/// Ids of a triple's terms: subject, predicate, object; of a triple whose object is a triple term:
/// subject, predicate, and the three of the object. Unused places hold 0.
pub(super) type Row = [u64; 5];

const ROW_BYTES: usize = size_of::<Row>();
/// Room for rows seen: about 700,000.
const SEEN_BYTES_MAX: usize = 32 << 20;
/// Rows of a sorted run.
const RUN_ROWS_MAX: usize = 1 << 19;
/// Rows read at once from a run.
const READ_ROWS: usize = 256;

/// What is to be done with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is new.
    New,
    /// It is a repetition.
    Seen,
    /// [`DistinctRows::rest`] will hand it out, if it is new.
    PutAside,
}

/// The rows of a result so far.
pub(super) struct DistinctRows {
    seen: HashSet<Row, FxBuildHasher>,
    seen_bytes_max: usize,
    run_rows_max: usize,
    aside: Vec<Row>,
    runs: Runs,
}

#[derive(Default)]
struct Runs {
    file: Option<File>,
    /// Rows of each run; they follow each other in the file.
    rows: Vec<u64>,
}

impl DistinctRows {
    pub(super) fn new() -> Self {
        Self::with_limits(SEEN_BYTES_MAX, RUN_ROWS_MAX)
    }

    fn with_limits(seen_bytes_max: usize, run_rows_max: usize) -> Self {
        Self {
            seen: HashSet::default(),
            seen_bytes_max,
            run_rows_max,
            aside: Vec::new(),
            runs: Runs::default(),
        }
    }

    /// Takes a row. `reserve` gives memory of the query's budget, or refuses.
    pub(super) fn admit(
        &mut self,
        row: Row,
        reserve: &dyn Fn(usize) -> Result<(), QueryError>,
    ) -> Result<Admission, QueryError> {
        if self.seen.contains(&row) {
            return Ok(Admission::Seen);
        }
        if self.runs.rows.is_empty() && self.aside.is_empty() && self.has_room(reserve) {
            self.seen.insert(row);
            return Ok(Admission::New);
        }
        if self.aside.capacity() == 0 {
            reserve(self.run_rows_max * ROW_BYTES)?;
            self.aside.reserve_exact(self.run_rows_max);
        }
        self.aside.push(row);
        if self.aside.len() == self.run_rows_max {
            self.runs.write(&mut self.aside)?;
        }
        Ok(Admission::PutAside)
    }

    /// Whether the set can take a row more; grows it while the limit and the budget allow.
    fn has_room(&mut self, reserve: &dyn Fn(usize) -> Result<(), QueryError>) -> bool {
        if self.seen.len() < self.seen.capacity() {
            return true;
        }
        let (before, rows) = (self.seen.allocation_size(), (self.seen.len() * 2).max(896));
        // A table of power-of-two size filled to 7/8, a control byte for each row.
        let after = (rows * 8 / 7).next_power_of_two() * (ROW_BYTES + 1);
        if after > self.seen_bytes_max || reserve(after.saturating_sub(before)).is_err() {
            return false;
        }
        self.seen.reserve(rows - self.seen.len());
        true
    }

    /// The rows put aside that are new, each once.
    pub(super) fn rest(mut self) -> Result<RestRows, QueryError> {
        self.aside.sort_unstable();
        self.aside.dedup();
        let mut runs = Vec::with_capacity(self.runs.rows.len() + 1);
        let mut at = 0;
        for rows in self.runs.rows {
            runs.push(Run {
                at,
                left: rows,
                ready: Vec::new().into_iter(),
            });
            at += rows * ROW_BYTES as u64;
        }
        runs.push(Run {
            at,
            left: 0,
            ready: self.aside.into_iter(),
        });
        let mut rest = RestRows {
            file: self.runs.file,
            runs,
            heads: BinaryHeap::new(),
            last: None,
        };
        for run in 0..rest.runs.len() {
            rest.refill(run)?;
        }
        Ok(rest)
    }
}

impl Runs {
    fn write(&mut self, rows: &mut Vec<Row>) -> Result<(), QueryError> {
        rows.sort_unstable();
        rows.dedup();
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile().map_err(QueryError::TemporaryFile)?),
        };
        let mut out = BufWriter::with_capacity(1 << 16, file);
        let written = rows
            .iter()
            .flatten()
            .try_for_each(|id| out.write_all(&id.to_le_bytes()))
            .and_then(|()| out.flush());
        written.map_err(QueryError::TemporaryFile)?;
        self.rows.push(rows.len() as u64);
        rows.clear();
        Ok(())
    }
}

/// Rows that were put aside, in order of their ids, each once.
pub(super) struct RestRows {
    file: Option<File>,
    runs: Vec<Run>,
    heads: BinaryHeap<Reverse<(Row, usize)>>,
    last: Option<Row>,
}

struct Run {
    /// Where in the file the rows are that are not read yet, and how many.
    at: u64,
    left: u64,
    ready: std::vec::IntoIter<Row>,
}

impl RestRows {
    /// Up to `count` rows; none at the end.
    pub(super) fn next_rows(&mut self, count: usize) -> Result<Vec<Row>, QueryError> {
        let mut rows = Vec::new();
        while rows.len() < count
            && let Some(Reverse((row, run))) = self.heads.pop()
        {
            self.refill(run)?;
            if self.last != Some(row) {
                self.last = Some(row);
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// Puts the next row of a run among the heads, if it has one.
    fn refill(&mut self, run: usize) -> Result<(), QueryError> {
        let state = &mut self.runs[run];
        if state.ready.as_slice().is_empty() && state.left > 0 {
            let file = self
                .file
                .as_mut()
                .expect("a run that is not in memory is in the file");
            state.read(file).map_err(QueryError::TemporaryFile)?;
        }
        if let Some(row) = state.ready.next() {
            self.heads.push(Reverse((row, run)));
        }
        Ok(())
    }
}

impl Run {
    fn read(&mut self, file: &mut File) -> io::Result<()> {
        let rows = self.left.min(READ_ROWS as u64);
        let mut bytes = vec![0; rows as usize * ROW_BYTES];
        file.seek(SeekFrom::Start(self.at))?;
        file.read_exact(&mut bytes)?;
        let row = |bytes: &[u8]| {
            let mut ids = bytes.chunks_exact(8);
            std::array::from_fn(|_| {
                let id = ids.next().expect("a row is five ids");
                u64::from_le_bytes(id.try_into().expect("eight bytes"))
            })
        };
        self.ready = bytes
            .chunks_exact(ROW_BYTES)
            .map(row)
            .collect::<Vec<Row>>()
            .into_iter();
        self.at += bytes.len() as u64;
        self.left -= rows;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use std::cell::Cell;

    use super::*;

    fn budget(bytes: usize) -> impl Fn(usize) -> Result<(), QueryError> {
        let left = Cell::new(bytes);
        move |wanted| {
            let rest = left.get().checked_sub(wanted);
            left.set(rest.ok_or_else(|| QueryError::Memory("test".to_owned()))?);
            Ok(())
        }
    }

    /// Rows with many repetitions, near and far.
    fn rows() -> Vec<Row> {
        let mut state = 1_u64;
        (0..20_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                [state >> 54, 7, state >> 61, 0, 0]
            })
            .collect()
    }

    fn distinct(seen_bytes_max: usize, bytes: usize) -> (usize, Vec<Row>) {
        let reserve = budget(bytes);
        let mut distinct = DistinctRows::with_limits(seen_bytes_max, 100);
        let mut found = Vec::new();
        for row in rows() {
            if distinct.admit(row, &reserve).unwrap() == Admission::New {
                found.push(row);
            }
        }
        let at_once = found.len();
        let mut rest = distinct.rest().unwrap();
        loop {
            let more = rest.next_rows(33).unwrap();
            if more.is_empty() {
                return (at_once, found);
            }
            found.extend(more);
        }
    }

    #[test]
    fn each_row_comes_once_however_little_fits_in_memory() {
        let expected: BTreeSet<Row> = rows().into_iter().collect();
        for (limit, budget) in [
            (1 << 30, 1 << 30),
            (50_000, 1 << 30),
            (1 << 30, 60_000),
            (0, 4000),
        ] {
            let (at_once, found) = distinct(limit, budget);
            assert_eq!(
                found.len(),
                expected.len(),
                "limit {limit}, budget {budget}"
            );
            assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), expected);
            assert_eq!(at_once == expected.len(), limit.min(budget) == 1 << 30);
        }
    }

    #[test]
    fn a_budget_too_small_for_a_run_is_an_error() {
        let mut distinct = DistinctRows::with_limits(0, 100);
        let error = distinct.admit([1, 2, 3, 0, 0], &budget(1000)).unwrap_err();
        assert!(matches!(error, QueryError::Memory(_)), "{error}");
    }
}
