//! The set of terms that some quad still uses.

use std::sync::Arc;

use pythia_rdf::{TermId, TermKind};

use super::{CurrentRows, UNCHECKED, kind_place};
use crate::StoreError;
use crate::delta::device::{DeviceRun, RunRows};
use crate::pace::Pace;
use crate::pattern::Order;
use crate::segment::Segment;

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(super) fn new(count: u64) -> Self {
        Self {
            words: vec![0; count.div_ceil(64) as usize],
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, number: u64) {
        self.words[(number / 64) as usize] |= 1 << (number % 64);
    }

    #[inline]
    pub(super) fn contains(&self, number: u64) -> bool {
        let word = self.words.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns the numbers in groups of 64, a bit each.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}

/// The terms of a kind.
#[derive(Clone, Debug)]
pub(super) struct KindTerms {
    /// Number of terms in the base.
    pub(super) base: u64,
    /// Number of terms added after it.
    pub(super) new: u64,
    /// The used terms of the base; `None`: all.
    pub(super) used_base: Option<Bits>,
    /// The used new terms.
    pub(super) used_new: Bits,
}

/// The used terms of base and runs.
#[derive(Debug)]
pub(super) struct UsedTerms {
    /// As in [`TermKind::DICTIONARY`].
    pub(super) kinds: Vec<KindTerms>,
}

impl UsedTerms {
    /// Finds the used terms. Reads nothing of a base that uses all of its terms if no quad was removed.
    pub(super) fn find(
        base: &Arc<Segment>,
        uses_all_terms: bool,
        runs: &[Arc<DeviceRun>],
        pace: &Pace,
    ) -> Result<Self, StoreError> {
        let removed: u64 = runs.iter().map(|run| run.entry().removed.quads).sum();
        let all_of_base = uses_all_terms && removed == 0;
        let kind = |kind: TermKind| {
            let base = base.dictionary.count(kind);
            let spans = runs.iter().flat_map(|run| run.entry().span(kind));
            let end = spans.map(|span| span.end()).max().unwrap_or(base).max(base);
            KindTerms {
                base,
                new: end - base,
                used_base: (!all_of_base).then(|| Bits::new(base)),
                used_new: Bits::new(end - base),
            }
        };
        let mut used = Self {
            kinds: TermKind::DICTIONARY.map(kind).to_vec(),
        };
        for order in [Order::Spo, Order::Ops] {
            let mut last = [0; 4];
            let mut seen = 0_u64;
            let mut take = |row: [u64; 4]| -> Result<(), StoreError> {
                // The other end is first in the other order.
                for place in [0, 1, 3] {
                    if row[place] != last[place] {
                        used.insert(TermId(row[place]))?;
                    }
                }
                last = row;
                seen += 1;
                if seen.is_multiple_of(UNCHECKED) {
                    pace.check()?;
                }
                Ok(())
            };
            if all_of_base {
                let mut rows = RunRows::new(runs, order)?;
                while let Some((row, _)) = rows.next_row()? {
                    take(row)?;
                }
            } else {
                let mut rows = CurrentRows::new(base, runs, order)?;
                while let Some((row, _)) = rows.next_row()? {
                    take(row)?;
                }
            }
        }
        Ok(used)
    }

    fn insert(&mut self, id: TermId) -> Result<(), StoreError> {
        let Some(place) = kind_place(id) else {
            return Ok(());
        };
        let kind = &mut self.kinds[place];
        match id.payload().checked_sub(kind.base) {
            None => {
                if let Some(used) = &mut kind.used_base {
                    used.insert(id.payload());
                }
            }
            Some(serial) if serial < kind.new => kind.used_new.insert(serial),
            Some(_) => {
                let message = format!("{id:?} is no term of the base or of a run");
                return Err(StoreError::corrupt("runs", None, message));
            }
        }
        Ok(())
    }

    /// Returns whether some quad has the term.
    pub(super) fn contains(&self, id: TermId) -> bool {
        let Some(place) = kind_place(id) else {
            return true;
        };
        let kind = &self.kinds[place];
        match (id.payload().checked_sub(kind.base), &kind.used_base) {
            (Some(serial), _) => kind.used_new.contains(serial),
            (None, Some(used)) => used.contains(id.payload()),
            (None, None) => true,
        }
    }
}
