//! ORDER BY: all solutions, or only as many as a LIMIT needs.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream;
use pythia_rdf::TermId;

use super::batch::{BATCH_ROWS, id_columns, record_batch};
use super::context::QueryContext;
use super::solutions::{Execute, Solutions, pull, solutions};
use crate::error::QueryError;
use crate::expression::order::{ColumnKinds, SortColumn, SortKeys, compare_ids};
use crate::limits::governor::Share;
use crate::limits::spill::file::SpillFile;
use crate::limits::spill::merge::{Merge, SortedRun, SortedWriter};
use crate::limits::spill::rows::{RowRun, RowStore, RowWriter};
use crate::plan::operators::Sort;

/// With a LIMIT, the held rows are reduced to the best ones when their number exceeds the limit by this
/// factor.
const SLACK: usize = 4;
/// Maximum number of rows whose keys are made together.
const PART_ROWS: usize = 4 * BATCH_ROWS;
/// Estimated bytes of one key of one row, before keys are made.
const KEY_BYTES: usize = 9;

impl Execute for Sort {
    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let sorter = Sorter::new(self.clone(), Arc::clone(&schema), context);
        let state = (inputs.remove(0), sorter);
        solutions(
            schema,
            stream::try_unfold(state, |(mut input, mut sorter)| async move {
                if matches!(sorter.output, Output::Reading) {
                    while let Some(batch) = pull(&mut input).await? {
                        sorter.add(&batch)?;
                    }
                    sorter.finish()?;
                }
                Ok(sorter.next()?.map(|batch| (batch, (input, sorter))))
            }),
        )
    }
}

/// Sorts its input in memory, or with files once its share of memory is used up.
///
/// The form of the keys depends on all rows (see [`ColumnKinds`]), so rows that do not fit into memory are
/// first written in input order, and sorted after the last row.
struct Sorter {
    sort: Sort,
    /// The place of each key's ids in a row: a column of the solutions, or one after them.
    key_places: Vec<usize>,
    kinds: Vec<ColumnKinds>,
    /// Solutions, each with the ids of its computed keys.
    rows: RowStore,
    /// First key of the last row within the limit so far. Rows after it by this key alone are not needed.
    worst: Option<TermId>,
    overflow: Option<RowWriter>,
    given: usize,
    output: Output,
    schema: SchemaRef,
    context: Arc<QueryContext>,
    share: Option<Share>,
}

/// The sorted rows, once they are known.
enum Output {
    Reading,
    Memory(Vec<u32>),
    Files(Merge),
}

impl Sorter {
    fn new(sort: Sort, schema: SchemaRef, context: Arc<QueryContext>) -> Self {
        let mut width = schema.fields().len();
        let mut key_places = Vec::with_capacity(sort.keys.len());
        for key in &sort.keys {
            key_places.push(key.expression.compiled().as_column().unwrap_or_else(|| {
                width += 1;
                width - 1
            }));
        }
        Self {
            kinds: vec![ColumnKinds::default(); sort.keys.len()],
            key_places,
            sort,
            rows: RowStore::new(width),
            worst: None,
            overflow: None,
            given: 0,
            output: Output::Reading,
            schema,
            share: Some(Share::new(context.governor())),
            context,
        }
    }

    fn share(&mut self) -> &mut Share {
        self.share.as_mut().expect("held until the rows are merged")
    }

    /// Returns the number of rows whose keys are made together: the more, the fewer pages of the dictionary are read. Little
    /// memory makes them fewer.
    fn part_rows(&self) -> usize {
        let rows = self.context.governor().batch_rows(self.rows.width());
        rows.clamp(BATCH_ROWS, PART_ROWS)
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        let given = id_columns(batch);
        let mut computed = Vec::new();
        for (key, kinds) in self.sort.keys.iter().zip(&mut self.kinds) {
            let compiled = key.expression.compiled();
            match compiled.as_column() {
                Some(column) => kinds.observe(given[column]),
                None => {
                    let rows = batch.num_rows();
                    let ids = compiled.evaluate_ids(&given, rows, &self.context.evaluation)?;
                    kinds.observe(&ids);
                    computed.push(ids);
                }
            }
        }
        let columns: Vec<&[u64]> = given
            .into_iter()
            .chain(computed.iter().map(Vec::as_slice))
            .collect();
        let mut row = vec![0; columns.len()];
        let part = self.part_rows();
        for start in (0..batch.num_rows()).step_by(part) {
            self.context.check()?;
            let end = (start + part).min(batch.num_rows());
            self.make_room(end - start)?;
            for number in start..end {
                if self.is_beyond(&columns, number) {
                    continue;
                }
                for (cell, column) in row.iter_mut().zip(&columns) {
                    *cell = column[number];
                }
                match &mut self.overflow {
                    Some(overflow) => overflow.push(&row)?,
                    None => self.rows.push(&row),
                }
            }
        }
        Ok(())
    }

    /// Returns whether a row is beyond the limit, if the id of its first key tells.
    fn is_beyond(&self, columns: &[&[u64]], row: usize) -> bool {
        let Some(worst) = self.worst else {
            return false;
        };
        let key = TermId(columns[self.key_places[0]][row]);
        if !key.is_bound() {
            return false;
        }
        let beyond = match self.sort.keys[0].descending {
            true => Ordering::Less,
            false => Ordering::Greater,
        };
        compare_ids(key, worst, &self.context.evaluation) == Some(beyond)
    }

    /// Makes room for more rows, or redirects them to a file.
    fn make_room(&mut self, more: usize) -> Result<(), QueryError> {
        if self.overflow.is_some() {
            return Ok(());
        }
        let keep = self.sort.limit.unwrap_or(usize::MAX).saturating_mul(SLACK);
        if self.rows.len() > keep.max(self.part_rows()) {
            self.cut_back()?;
        }
        let rows = self.rows.len() + more;
        let sorting = rows * (KEY_BYTES * self.sort.keys.len() + 8) + SortKeys::order_bytes(rows);
        let bytes = self.rows.bytes_with(more) + sorting;
        if !self.share().fits(bytes) {
            self.overflow()?;
        }
        Ok(())
    }

    /// Keeps only as many of the held rows as the limit needs.
    fn cut_back(&mut self) -> Result<(), QueryError> {
        let Some(best) = self.sort_held()? else {
            return self.overflow();
        };
        let is_full = best.len() >= self.sort.limit.unwrap_or(usize::MAX);
        if let (Some(&place), Some(&last), true) = (self.key_places.first(), best.last(), is_full) {
            let key = TermId(self.rows.row(last as usize)[place]);
            self.worst = Some(key).filter(|key| key.is_bound());
        }
        let mut rows = RowStore::new(self.rows.width());
        for row in best {
            rows.push(self.rows.row(row as usize));
        }
        self.rows = rows;
        Ok(())
    }

    /// Moves the held rows to a file; all further rows go there too.
    fn overflow(&mut self) -> Result<(), QueryError> {
        let file = SpillFile::create(self.context.governor().spill())?;
        let block_bytes = self.share().block_bytes();
        let mut writer = RowWriter::new(&file, self.rows.width(), block_bytes);
        for row in 0..self.rows.len() {
            if row.is_multiple_of(BATCH_ROWS) {
                self.context.check()?;
            }
            writer.push(self.rows.row(row))?;
        }
        self.rows = RowStore::new(self.rows.width());
        self.share().require(2 * block_bytes)?;
        self.overflow = Some(writer);
        Ok(())
    }

    /// Sorts the held rows, no more than the limit; `None` if memory does not suffice.
    fn sort_held(&mut self) -> Result<Option<Vec<u32>>, QueryError> {
        let mut keys = SortKeys::new(&self.kinds, &self.context.evaluation);
        let rows = self.rows.len();
        let other = self.rows.bytes_with(0) + SortKeys::order_bytes(rows);
        let part = self.part_rows();
        for start in (0..rows).step_by(part) {
            self.context.check()?;
            self.extend_keys(&mut keys, start..(start + part).min(rows))?;
            if !self.share().fits(other + growing_bytes(&keys)) {
                return Ok(None);
            }
        }
        let limit = self.sort.limit.unwrap_or(usize::MAX);
        keys.order(limit, &self.context.evaluation).map(Some)
    }

    /// Adds the keys of some of the held rows.
    fn extend_keys(&self, keys: &mut SortKeys, rows: Range<usize>) -> Result<(), QueryError> {
        let ids: Vec<Vec<u64>> = self
            .key_places
            .iter()
            .map(|&place| rows.clone().map(|row| self.rows.row(row)[place]).collect())
            .collect();
        let columns: Vec<SortColumn<'_>> = ids
            .iter()
            .zip(&self.sort.keys)
            .map(|(ids, key)| SortColumn {
                ids,
                descending: key.descending,
            })
            .collect();
        keys.extend(&columns, rows.len(), &self.context.evaluation)
    }

    /// Ends the input.
    fn finish(&mut self) -> Result<(), QueryError> {
        if self.overflow.is_none() {
            match self.sort_held()? {
                Some(order) => {
                    self.output = Output::Memory(order);
                    return Ok(());
                }
                None => self.overflow()?,
            }
        }
        let unsorted = self.overflow.take().expect("overflown").finish()?;
        let runs = self.sorted_runs(&unsorted)?;
        drop(unsorted);
        let share = self.share.take().expect("held until the rows are merged");
        self.output = Output::Files(Merge::new(runs, self.rows.width(), share)?);
        Ok(())
    }

    /// Sorts as many rows at a time as memory holds.
    fn sorted_runs(&mut self, unsorted: &RowRun) -> Result<Vec<SortedRun>, QueryError> {
        let file = SpillFile::create(self.context.governor().spill())?;
        let buffers = 2 * self.share().block_bytes();
        let mut keys = SortKeys::new(&self.kinds, &self.context.evaluation);
        let (mut reader, mut block, mut runs) = (unsorted.reader(), Vec::new(), Vec::new());
        loop {
            self.context.check()?;
            let count = reader.next_rows(&mut block)?;
            let bytes = self.rows.bytes_with(count)
                + growing_bytes(&keys)
                + SortKeys::order_bytes(self.rows.len() + count)
                + buffers;
            if !self.rows.is_empty() && (count == 0 || !self.share().fits(bytes)) {
                runs.push(self.write_run(&file, &mut keys)?);
            }
            if count == 0 {
                return Ok(runs);
            }
            let start = self.rows.len();
            for row in block.chunks_exact(self.rows.width().max(1)) {
                self.rows.push(row);
            }
            self.extend_keys(&mut keys, start..self.rows.len())?;
        }
    }

    /// Writes the held rows in order, and frees them.
    fn write_run(
        &mut self,
        file: &Arc<SpillFile>,
        keys: &mut SortKeys,
    ) -> Result<SortedRun, QueryError> {
        let mut writer = SortedWriter::new(file, self.share().block_bytes());
        let limit = self.sort.limit.unwrap_or(usize::MAX);
        let order = keys.order(limit, &self.context.evaluation)?;
        for (place, &row) in order.iter().enumerate() {
            if place.is_multiple_of(BATCH_ROWS) {
                self.context.check()?;
            }
            let row = row as usize;
            writer.push(keys.key(row), self.rows.row(row))?;
        }
        *keys = SortKeys::new(&self.kinds, &self.context.evaluation);
        self.rows = RowStore::new(self.rows.width());
        writer.finish()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        self.context.check()?;
        let left = self.sort.limit.unwrap_or(usize::MAX) - self.given;
        let most = self.context.governor().batch_rows(self.rows.width());
        let most = most.min(BATCH_ROWS);
        let (mut columns, rows) = match &mut self.output {
            Output::Reading => unreachable!("finished before rows are given"),
            Output::Memory(order) => {
                let end = (self.given + most).min(order.len());
                let rows = &order[self.given..end];
                let picked = rows.iter().map(|&row| row as usize);
                (self.rows.columns(picked), rows.len())
            }
            Output::Files(merge) => merge.next_columns(most.min(left))?,
        };
        if rows == 0 {
            return Ok(None);
        }
        self.given += rows;
        columns.truncate(self.schema.fields().len());
        Ok(Some(record_batch(&self.schema, columns, rows)?))
    }
}

/// Returns the most bytes that keys can take while they grow.
fn growing_bytes(keys: &SortKeys) -> usize {
    keys.memory_bytes() / 2 * 3
}
