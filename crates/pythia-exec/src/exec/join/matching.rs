//! Compatibility of left and right solutions.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pythia_sparql::scope::draws;

use crate::error::QueryError;
use crate::exec::batch::{gather, record_batch};
use crate::exec::context::QueryContext;
use crate::exec::pieces::Piece;
use crate::limits::spill::rows::RowStore;
use crate::limits::spill::table::{ChainTable, hash_ids};
use crate::plan::operators::{HashJoin, JoinKind};

/// Number of candidate pairs that are checked together.
const PAIRS: usize = 8192;

/// An input of the join.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Left,
    Right,
}

/// Right solutions in memory, chained by the hash of their keys.
pub(super) struct Table {
    rows: RowStore,
    chains: ChainTable,
    level: u32,
}

impl Table {
    /// Makes an empty table. `level` selects its hash function, which must differ from that of the
    /// partitions its rows come from.
    pub(super) fn new(width: usize, level: u32) -> Self {
        Self {
            rows: RowStore::new(width),
            chains: ChainTable::default(),
            level,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn row(&self, row: usize) -> &[u64] {
        self.rows.row(row)
    }

    pub(super) fn push(&mut self, columns: &[&[u64]], rows: Range<usize>) {
        let mut cells = vec![0; columns.len()];
        for row in rows {
            for (cell, column) in cells.iter_mut().zip(columns) {
                *cell = column[row];
            }
            self.rows.push(&cells);
        }
    }

    pub(super) fn push_row(&mut self, row: &[u64]) {
        self.rows.push(row);
    }

    /// Indexes the rows, once all are added.
    pub(super) fn index(&mut self, matching: &Matching) {
        let (rows, level) = (&self.rows, self.level);
        self.chains = ChainTable::build(rows.len(), |row| {
            matching.hash(rows.row(row), Side::Right, level)
        });
    }

    /// Returns the bytes of the index of its rows.
    pub(super) fn index_bytes(&self) -> usize {
        ChainTable::bytes(self.rows.len())
    }

    /// Returns the bytes of the table after adding `more` rows and indexing them.
    pub(super) fn bytes_with(&self, more: usize) -> usize {
        self.rows.bytes_with(more) + ChainTable::bytes(self.rows.len() + more)
    }
}

/// Left solutions, and the position up to which they are joined.
pub(super) struct Current {
    left: Piece,
    row: usize,
    /// The row's next candidate in the table; `None` before the first.
    place: Option<u32>,
    pub(super) matched: Vec<bool>,
    /// True if a row without a match in this table has no match at all.
    pub(super) decides: bool,
}

impl Current {
    pub(super) fn new(left: Piece) -> Self {
        Self {
            row: 0,
            place: None,
            matched: vec![false; left.rows()],
            left,
            decides: true,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.row >= self.left.rows()
    }
}

/// The join's conditions.
pub(super) struct Matching {
    join: HashJoin,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl Matching {
    pub(super) fn new(join: HashJoin, schema: SchemaRef, context: Arc<QueryContext>) -> Self {
        Self {
            join,
            schema,
            context,
        }
    }

    pub(super) fn context(&self) -> &QueryContext {
        &self.context
    }

    /// Returns whether left solutions without a match can be dropped.
    pub(super) fn wants_matches(&self) -> bool {
        matches!(self.join.kind, JoinKind::Inner)
    }

    /// Returns whether several threads may match solutions, each some of the left ones.
    pub(super) fn is_divisible(&self) -> bool {
        let JoinKind::Left(Some(condition)) = &self.join.kind else {
            return true;
        };
        !draws(&condition.source.expression)
    }

    /// Returns the bytes that a thread holds beside left and right solutions: joined ones, with and without those that have no match.
    pub(super) fn held_bytes(&self) -> usize {
        let width = self.schema.fields().len();
        2 * self.context.governor().batch_rows(width).min(PAIRS) * (width + 1) * size_of::<u64>()
    }

    /// Returns whether there are keys to partition solutions by.
    pub(super) fn has_keys(&self) -> bool {
        !self.join.keys.is_empty()
    }

    /// Returns the hash of a solution's keys.
    pub(super) fn hash(&self, row: &[u64], side: Side, level: u32) -> u64 {
        let keys = self.join.keys.iter();
        match side {
            Side::Left => hash_ids(keys.map(|(left, _)| row[*left]), level),
            Side::Right => hash_ids(keys.map(|(_, right)| row[*right]), level),
        }
    }

    /// Continues joining left solutions, for some thousand candidate pairs. The results are in the order of the left ones.
    pub(super) fn join_on(
        &self,
        table: &Table,
        current: &mut Current,
    ) -> Result<Option<RecordBatch>, QueryError> {
        let first = current.row;
        let pairs = self.candidates(table, current);
        let matches = self.matches(table, current, &pairs)?;
        let joined = self.with_unmatched(current, first..current.row, matches);
        match joined.rows.len() {
            0 => Ok(None),
            rows => Ok(Some(record_batch(&self.schema, joined.columns, rows)?)),
        }
    }

    /// Returns the next compatible pairs of left and right rows. For MINUS it only marks rows as matched.
    fn candidates(&self, table: &Table, current: &mut Current) -> Vec<(u32, u32)> {
        let is_minus = matches!(self.join.kind, JoinKind::Minus);
        let width = self.schema.fields().len();
        let most = self.context.governor().batch_rows(width).min(PAIRS);
        let left = current.left.columns();
        let mut pairs = Vec::new();
        let mut looked = 0;
        while current.row < current.left.rows() && looked < PAIRS && pairs.len() < most {
            let row = current.row;
            let mut place = current.place.unwrap_or_else(|| {
                let keys = self.join.keys.iter();
                let ids = keys.map(|(column, _)| left[*column][row]);
                table.chains.first(hash_ids(ids, table.level))
            });
            if is_minus && current.matched[row] {
                place = 0;
            }
            while place != 0 && looked < PAIRS && pairs.len() < most {
                let right = place - 1;
                looked += 1;
                place = table.chains.after(place);
                if self.compatible(&left, row, table.row(right as usize)) {
                    if is_minus {
                        current.matched[row] = true;
                        place = 0;
                    } else {
                        pairs.push((row as u32, right));
                    }
                }
            }
            looked += 1;
            if place == 0 {
                current.row += 1;
                current.place = None;
            } else {
                current.place = Some(place);
            }
        }
        pairs
    }

    /// Returns whether the pair has the same keys and agrees on the variables that may be unbound. MINUS
    /// also requires at least one shared variable bound on both sides.
    fn compatible(&self, left: &[&[u64]], row: usize, right: &[u64]) -> bool {
        let mut keys = self.join.keys.iter();
        if !keys.all(|&(l, r)| left[l][row] == right[r]) {
            return false;
        }
        let mut shares = !self.join.keys.is_empty();
        for &(l, r) in &self.join.maybe {
            let (a, b) = (left[l][row], right[r]);
            if a != 0 && b != 0 {
                if a != b {
                    return false;
                }
                shares = true;
            }
        }
        shares || !matches!(self.join.kind, JoinKind::Minus)
    }

    /// Joins the solutions of pairs, except those that fail a left join's condition.
    fn matches(
        &self,
        table: &Table,
        current: &mut Current,
        pairs: &[(u32, u32)],
    ) -> Result<Joined, QueryError> {
        let mut rows: Vec<u32> = pairs.iter().map(|(left, _)| *left).collect();
        let left = current.left.columns().into_iter();
        let mut columns: Vec<Vec<u64>> = left.map(|column| gather(column, &rows)).collect();
        for &(l, r) in &self.join.maybe {
            for (value, (_, right)) in columns[l].iter_mut().zip(pairs) {
                if *value == 0 {
                    *value = table.row(*right as usize)[r];
                }
            }
        }
        for &r in &self.join.added {
            let ids = pairs.iter().map(|(_, right)| table.row(*right as usize)[r]);
            columns.push(ids.collect());
        }
        if let JoinKind::Left(Some(condition)) = &self.join.kind {
            let views: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
            let evaluation = &self.context.evaluation;
            let keep = condition
                .compiled()
                .filter(&views, pairs.len(), evaluation)?;
            columns.iter_mut().for_each(|column| retain(column, &keep));
            retain(&mut rows, &keep);
        }
        for &row in &rows {
            current.matched[row as usize] = true;
        }
        Ok(Joined { rows, columns })
    }

    /// Adds those of some left rows that have no match, if the join keeps them and it is decided.
    fn with_unmatched(
        &self,
        current: &Current,
        completed: Range<usize>,
        matches: Joined,
    ) -> Joined {
        if self.wants_matches() || !current.decides {
            return matches;
        }
        let unmatched = completed.filter(|&row| !current.matched[row]);
        let unmatched: Vec<u32> = unmatched.map(|row| row as u32).collect();
        let left = current.left.columns();
        let width = self.schema.fields().len();
        if unmatched.is_empty() {
            return matches;
        }
        if matches.rows.is_empty() {
            let left = left.into_iter();
            let mut columns: Vec<_> = left.map(|column| gather(column, &unmatched)).collect();
            columns.resize(width, Vec::new());
            let rows = unmatched;
            return Joined { rows, columns };
        }
        let merged = merged(&matches.rows, &unmatched);
        let value = |column: usize, (row, place): (u32, Option<u32>)| match place {
            Some(place) => matches.columns[column][place as usize],
            None => left.get(column).map_or(0, |column| column[row as usize]),
        };
        let columns = (0..width)
            .map(|column| merged.iter().map(|&row| value(column, row)).collect())
            .collect();
        Joined {
            rows: merged.into_iter().map(|(row, _)| row).collect(),
            columns,
        }
    }
}

/// Joined solutions.
struct Joined {
    /// The left row of each, ascending.
    rows: Vec<u32>,
    columns: Vec<Vec<u64>>,
}

/// Returns matched and unmatched rows in order, the former with their places.
fn merged(matched: &[u32], unmatched: &[u32]) -> Vec<(u32, Option<u32>)> {
    let mut merged = Vec::with_capacity(matched.len() + unmatched.len());
    let mut unmatched = unmatched.iter().copied().peekable();
    for (place, &row) in (0..).zip(matched) {
        while let Some(before) = unmatched.next_if(|before| *before < row) {
            merged.push((before, None));
        }
        merged.push((row, Some(place)));
    }
    merged.extend(unmatched.map(|row| (row, None)));
    merged
}

/// Keeps some of the items.
fn retain<T>(items: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    items.retain(|_| *keep.next().expect("one for each"));
}
