//! Results of a path search that are not returned yet.

use pythia_rdf::inline;

use crate::error::QueryError;
use crate::exec::batch::Batch;
use crate::exec::context::QueryContext;
use crate::limits::governor::Held;
use crate::plan::slots::Slots;

/// Solutions found: rows of the current batch, and the values that the path binds in them.
pub(super) struct Found {
    rows: Vec<u32>,
    bound: Vec<(usize, Vec<u64>)>,
    given: usize,
    _held: Held,
}

impl Found {
    pub(super) fn new(
        rows: Vec<u32>,
        bound: Vec<(usize, Vec<u64>)>,
        context: &QueryContext,
    ) -> Result<Self, QueryError> {
        let mut held = Held::new(context.governor());
        let ids = bound.iter().map(|(_, ids)| ids.capacity() * 8);
        held.set(rows.capacity() * 4 + ids.sum::<usize>())?;
        Ok(Self {
            rows,
            bound,
            given: 0,
            _held: held,
        })
    }

    /// Returns the next solutions, at most `most`; `None` if all were returned.
    pub(super) fn next(&mut self, current: &Batch, live: &Slots, most: usize) -> Option<Batch> {
        let part = self.given..(self.given + most).min(self.rows.len());
        if part.is_empty() {
            return None;
        }
        self.given = part.end;
        let mut out = current.gather(&self.rows[part.clone()], live);
        for (slot, ids) in &self.bound {
            out.columns[*slot] = ids[part.clone()].to_vec();
        }
        Some(out)
    }
}

/// Rows or start nodes, each with an end that a path leads to, or with the number of ends.
pub(super) struct Joined<T> {
    pub(super) starts: Vec<T>,
    pub(super) ends: Vec<u64>,
    /// Values of the ends, if an attribute of them is joined.
    pub(super) values: Vec<u64>,
    pub(super) held: Held,
}

impl<T: Copy> Joined<T> {
    pub(super) fn new(context: &QueryContext) -> Self {
        Self {
            starts: Vec::new(),
            ends: Vec::new(),
            values: Vec::new(),
            held: Held::new(context.governor()),
        }
    }

    /// Adds a start with each of some ends.
    pub(super) fn extend(&mut self, start: T, ends: &[u64]) -> Result<(), QueryError> {
        self.starts.resize(self.starts.len() + ends.len(), start);
        self.ends.extend_from_slice(ends);
        self.hold()
    }

    /// Adds a start with each of some ends and values.
    pub(super) fn extend_with_values(
        &mut self,
        start: T,
        ends: &[(u64, u64)],
    ) -> Result<(), QueryError> {
        self.starts.resize(self.starts.len() + ends.len(), start);
        self.ends.extend(ends.iter().map(|(end, _)| end));
        self.values.extend(ends.iter().map(|(_, value)| value));
        self.hold()
    }

    fn hold(&mut self) -> Result<(), QueryError> {
        let ids = self.ends.capacity() + self.values.capacity();
        self.held
            .set(self.starts.capacity() * size_of::<T>() + ids * 8)
    }
}

/// Returns the number of ends as a term; `None` if it is 0.
pub(super) fn number(ends: u64) -> Option<u64> {
    let integer = inline::inline_integer(ends as i64).expect("fewer ends than ids");
    (ends > 0).then_some(integer.0)
}
