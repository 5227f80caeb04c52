//! Join with inline data (VALUES).

use std::sync::Arc;

use super::batch::{Batch, Cursor};
use super::context::QueryContext;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::limits::governor::Held;
use crate::limits::spill::table::{ChainTable, hash_ids};
use crate::plan::slots::Slots;

/// Joins solutions with rows of terms. Slots in `keys` are already bound, and are compared unless a row
/// leaves them unbound.
pub(crate) struct Values {
    input: Fed,
    slots: Vec<usize>,
    keys: Vec<usize>,
    /// The places of the keys in a row.
    key_places: Vec<usize>,
    /// Marks of the keys that are bound in every row; these are hashed.
    hashed: Vec<bool>,
    rows: Vec<Vec<u64>>,
    by_key: Option<(ChainTable, Held)>,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    current: Cursor,
    /// The current row's next candidate; `None` before the first.
    place: Option<u32>,
}

impl Values {
    pub(crate) fn new(
        input: Fed,
        slots: Vec<usize>,
        keys: &[usize],
        rows: Vec<Vec<u64>>,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        let key_places: Vec<usize> = (0..slots.len())
            .filter(|i| keys.contains(&slots[*i]))
            .collect();
        let is_closed = |place: &usize| rows.iter().all(|row| row[*place] != 0);
        Self {
            input,
            hashed: key_places.iter().map(is_closed).collect(),
            keys: key_places.iter().map(|&place| slots[place]).collect(),
            key_places,
            slots,
            rows,
            by_key: None,
            live,
            context,
            current: Cursor::default(),
            place: None,
        }
    }

    /// Chains the rows by their keys, and charges for their memory.
    fn index(&self) -> Result<(ChainTable, Held), QueryError> {
        let row_bytes = size_of::<Vec<u64>>() + self.slots.len() * 8;
        let mut held = Held::new(self.context.governor());
        held.set(self.rows.len() * row_bytes + ChainTable::bytes(self.rows.len()))?;
        let table = ChainTable::build(self.rows.len(), |row| {
            self.hash(self.key_places.iter().map(|&place| self.rows[row][place]))
        });
        Ok((table, held))
    }

    fn hash(&self, keys: impl Iterator<Item = u64>) -> u64 {
        let keys = keys.zip(&self.hashed).filter(|(_, hashed)| **hashed);
        hash_ids(keys.map(|(key, _)| key), 0)
    }

    /// Joins the current solutions, up to one batch of results.
    fn join(&mut self) -> Option<Batch> {
        let (table, _) = self.by_key.as_ref()?;
        let Cursor { batch, mut row } = std::mem::take(&mut self.current);
        let mut rows = Vec::new();
        let mut found: Vec<u32> = Vec::new();
        let most = self.context.governor().batch_rows(self.live.len());
        while row < batch.rows && rows.len() < most {
            let key = |slot: &usize| batch.value(*slot, row);
            let mut place = self
                .place
                .unwrap_or_else(|| table.first(self.hash(self.keys.iter().map(key))));
            while place != 0 && rows.len() < most {
                let candidate = &self.rows[place as usize - 1];
                let mut pairs = self.key_places.iter().zip(&self.keys);
                if pairs.all(|(&place, slot)| [0, key(slot)].contains(&candidate[place])) {
                    rows.push(row as u32);
                    found.push(place - 1);
                }
                place = table.after(place);
            }
            if place == 0 {
                row += 1;
                self.place = None;
            } else {
                self.place = Some(place);
            }
        }
        self.current = Cursor { batch, row };
        let mut out = self.current.pick(&rows, &self.live);
        for (place, &slot) in self.slots.iter().enumerate() {
            if !self.keys.contains(&slot) {
                let cell = |&number: &u32| self.rows[number as usize][place];
                out.columns[slot] = found.iter().map(cell).collect();
            }
        }
        (out.rows > 0).then_some(out)
    }
}

impl RowSource for Values {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.context.check()?;
            if !self.current.has_rows() {
                let Some(batch) = self.input.take() else {
                    return Ok(None);
                };
                self.current = Cursor::over(batch);
            }
            if self.by_key.is_none() {
                self.by_key = Some(self.index()?);
            }
            if let Some(batch) = self.join() {
                return Ok(Some(batch));
            }
        }
    }
}
