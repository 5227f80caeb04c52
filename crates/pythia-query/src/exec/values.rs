//! Joining with inline data (VALUES).

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::batch::{Batch, Cursor, OUTPUT_ROWS};
use super::pipeline::RowSource;
use crate::error::QueryError;

/// Joins solutions with rows of terms; the slots in `keys` are bound already and compared.
pub(crate) struct Values {
    input: Box<dyn RowSource>,
    slots: Vec<usize>,
    keys: Vec<usize>,
    rows: Vec<Vec<u64>>,
    by_key: HashMap<Vec<u64>, Vec<u32>, FxBuildHasher>,
    live: Vec<usize>,
    current: Cursor,
}

impl Values {
    pub(crate) fn new(
        input: Box<dyn RowSource>,
        slots: Vec<usize>,
        keys: &[usize],
        rows: Vec<Vec<u64>>,
        live: Vec<usize>,
    ) -> Self {
        let mut by_key: HashMap<Vec<u64>, Vec<u32>, FxBuildHasher> = HashMap::default();
        let places: Vec<usize> = (0..slots.len())
            .filter(|i| keys.contains(&slots[*i]))
            .collect();
        for (number, row) in rows.iter().enumerate() {
            let key = places.iter().map(|&place| row[place]).collect();
            by_key.entry(key).or_default().push(number as u32);
        }
        Self {
            input,
            keys: places.iter().map(|&place| slots[place]).collect(),
            slots,
            rows,
            by_key,
            live,
            current: Cursor::default(),
        }
    }
}

impl RowSource for Values {
    fn feed(&mut self, batch: Batch) {
        self.input.feed(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            if !self.current.has_rows() {
                let Some(batch) = self.input.next()? else {
                    return Ok(None);
                };
                self.current = Cursor::over(batch);
            }
            let Cursor { batch, row } = &mut self.current;
            let mut rows = Vec::new();
            let mut found: Vec<u32> = Vec::new();
            while *row < batch.rows && rows.len() < OUTPUT_ROWS {
                let key: Vec<u64> = self
                    .keys
                    .iter()
                    .map(|&slot| batch.value(slot, *row))
                    .collect();
                if let Some(matches) = self.by_key.get(&key) {
                    rows.extend(std::iter::repeat_n(*row as u32, matches.len()));
                    found.extend_from_slice(matches);
                }
                *row += 1;
            }
            if rows.is_empty() {
                continue;
            }
            let mut out = batch.gather(&rows, &self.live);
            for (place, &slot) in self.slots.iter().enumerate() {
                if !self.keys.contains(&slot) {
                    out.columns[slot] = found
                        .iter()
                        .map(|&n| self.rows[n as usize][place])
                        .collect();
                }
            }
            return Ok(Some(out));
        }
    }
}
