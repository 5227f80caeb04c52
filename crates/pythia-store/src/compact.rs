//! Compaction: writes the base and all runs as a new base ([`Extent`]).
//!
//! A compaction of the *orders* keeps the dictionary and all ids, so the rows of base and runs are merged as they are.
//! The terms of the runs stay in runs. A *whole* compaction writes the dictionary, too:
//!
//! ```text
//! base, runs ─ find used terms ─ merge dictionaries ─ new ids ───┐
//! base orders ─ drop removed rows ─ new ids (in order) ──────────┼─ merge ─ the orders
//! other rows ─ new ids ─ sort ───────────────────────────────────┘
//! ```
//!
//! New ids of the dictionary's terms are in the same order as the old ones ([`mapping`]), so the base's rows of these
//! terms stay sorted and stream from one file to the other. Only added rows, and rows with a term of a run, are sorted,
//! externally if necessary. All reads and writes are sequential.
//!
//! Invariants:
//! - After a whole compaction the files are byte for byte what a load of the same quads would have written.
//! - Nothing names it before the caller switches the manifest: until then, and after any failure, the store is
//!   unchanged.
//! - Parts that an interrupted compaction has finished are not written again ([`unfinished`]).

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pythia_io::Storage;
use pythia_rdf::{TermId, TermKey, TermKind};

use crate::StoreError;
use crate::delta::device::DeviceRun;
use crate::delta::device::merge::MergedTerms;
use crate::delta::kind_index;
use crate::dictionary::{DictionaryDirectory, DictionaryWriter};
use crate::load::joined;
use crate::load::runs::RunSpace;
use crate::manifest::{Manifest, SegmentId};
use crate::pace::Pace;
use crate::pattern::Order;
use crate::segment::{OrderDirectory, SealedSegment, Segment, SegmentWriter, TermsPlace};

pub mod mapping;
mod rows;
#[cfg(test)]
mod tests;
pub(crate) mod unfinished;
mod used;

pub use mapping::IdMapping;
use mapping::MappingBuilder;
pub(crate) use rows::CurrentRows;
use rows::OrderCompactor;
use unfinished::{Unfinished, is_worth_keeping};
use used::UsedTerms;

/// Terms or rows between two checks for cancellation.
const UNCHECKED: u64 = 4096;

/// Resources of a compaction.
#[derive(Clone, Debug)]
pub struct CompactionOptions {
    /// Memory for sorting added rows, in bytes.
    pub memory_bytes: usize,
    /// The folder of temporary files, which have no names.
    pub tmp: PathBuf,
    /// Number of orders written at a time.
    pub threads: usize,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            tmp: std::env::temp_dir(),
            threads: 1,
        }
    }
}

/// The part of a base that a compaction rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The orders: ids stay the same, and the terms of runs stay where they are.
    Orders,
    /// The dictionary, too: ids are again in the order of their terms.
    Whole,
}

/// A new base that is durable but not yet named by a manifest.
#[derive(Debug)]
pub struct NewBase {
    /// Its folder's number.
    pub id: SegmentId,
    /// Its quads and files; with a dictionary after a whole compaction.
    pub sealed: SealedSegment,
    /// Maps the ids of the old base and its runs to ids of the new one; `None` if they stay the same.
    pub mapping: Option<IdMapping>,
}

/// Compacts the base and the runs of a manifest into a new base, in the folder after the old base's. Continues with
/// the parts that an interrupted compaction of the same state has finished there.
///
/// A whole compaction takes memory for the mapping in addition to that of the options: half a byte for each term of
/// the base, and 8 to 32 bytes for each new one. The time does not depend on where new terms sort.
///
/// # Errors
/// [`StoreError::Cancelled`] if `pace` was cancelled. After that, and after a device failure, finished parts stay for
/// the next attempt; after other errors, and on a full disk, the folder is removed.
pub fn compact(
    (from, extent): (&Manifest, Extent),
    base: &Arc<Segment>,
    runs: &[Arc<DeviceRun>],
    storage: Arc<dyn Storage>,
    options: &CompactionOptions,
    pace: &Pace,
) -> Result<NewBase, StoreError> {
    let unfinished = Unfinished::begin(Arc::clone(&storage), from, extent)?;
    let id = from.next_segment();
    let terms = match extent {
        Extent::Orders => TermsPlace::Existing,
        Extent::Whole => TermsPlace::Beside(from.next_dictionary()),
    };
    let writer = SegmentWriter::kept(pace.limit(storage), id.folder(), terms, base.options());
    let compaction = Compaction {
        uses_all_terms: from.base_uses_all_terms(),
        base,
        runs,
        writer,
        unfinished: &unfinished,
        options,
        pace,
    };
    let written = compaction.write(id, extent);
    if written
        .as_ref()
        .is_err_and(|error| !is_worth_keeping(error))
    {
        // Best effort: the next writer examines what remains.
        let _ = unfinished.discard();
    }
    written
}

/// A compaction in progress.
struct Compaction<'r> {
    base: &'r Arc<Segment>,
    /// True if the base's quads use exactly the terms of its dictionary.
    uses_all_terms: bool,
    runs: &'r [Arc<DeviceRun>],
    writer: SegmentWriter,
    unfinished: &'r Unfinished,
    options: &'r CompactionOptions,
    pace: &'r Pace,
}

/// The destination of a new dictionary's terms.
enum NewTerms {
    /// The device.
    Written(Box<DictionaryWriter>),
    /// None, as they are already written; the next rank of each kind.
    Finished(Box<DictionaryDirectory>, [u64; TermKind::DICTIONARY.len()]),
}

impl NewTerms {
    fn push(&mut self, key: TermKey<'_>) -> Result<TermId, StoreError> {
        match self {
            Self::Written(out) => out.push(key),
            Self::Finished(_, next) => {
                let place = kind_index(key.kind).expect("keys are of dictionary kinds");
                next[place] += 1;
                Ok(TermId::new(key.kind, next[place] - 1))
            }
        }
    }

    fn finish(self, unfinished: &Unfinished) -> Result<DictionaryDirectory, StoreError> {
        match self {
            Self::Written(out) => {
                let directory = out.finish()?;
                unfinished.put_dictionary(&directory)?;
                Ok(directory)
            }
            Self::Finished(directory, counts) => {
                if TermKind::DICTIONARY.map(|kind| directory.count(kind)) != counts {
                    let message = "what is finished has other terms than base and runs";
                    return Err(StoreError::corrupt("the new base", None, message));
                }
                Ok(*directory)
            }
        }
    }
}

impl Compaction<'_> {
    fn write(self, id: SegmentId, extent: Extent) -> Result<NewBase, StoreError> {
        let (dictionary, mapping) = match extent {
            Extent::Orders => (None, None),
            Extent::Whole => {
                let used = UsedTerms::find(self.base, self.uses_all_terms, self.runs, self.pace)?;
                let (dictionary, mapping) = self.dictionary(&used)?;
                (Some(dictionary), Some(mapping))
            }
        };
        let orders = self.orders(mapping.as_ref())?;
        Ok(NewBase {
            id,
            sealed: self.writer.seal(dictionary, orders)?,
            mapping,
        })
    }

    /// Merges the base's dictionary with the new terms; drops terms that no quad uses.
    fn dictionary(&self, used: &UsedTerms) -> Result<(DictionaryDirectory, IdMapping), StoreError> {
        let mut out = match self.unfinished.dictionary()? {
            Some(directory) => NewTerms::Finished(Box::new(directory), Default::default()),
            None => NewTerms::Written(Box::new(self.writer.dictionary(self.options.threads)?)),
        };
        let mut mapping = MappingBuilder::new(used);
        let mut new = MergedTerms::new(self.runs)?;
        let mut seen = 0_u64;
        let base = &self.base.dictionary;
        for kind in TermKind::DICTIONARY {
            let mut old = base.iter(kind);
            loop {
                let next = old.next()?;
                // New terms before it, or all remaining ones at the end.
                while let Some((key, id)) = new.head()
                    && key.kind == kind
                    && next.is_none_or(|(_, old)| key.bytes <= old.bytes)
                {
                    if next.is_some_and(|(_, old)| key.bytes == old.bytes) {
                        let message = format!("{id:?} is a term that the base has, too");
                        return Err(StoreError::corrupt("runs", None, message));
                    }
                    if used.contains(id) {
                        let before = next.map_or_else(|| base.count(kind), |(id, _)| id.payload());
                        mapping.new_term(id, before, out.push(key)?);
                    }
                    new.advance()?;
                }
                let Some((id, key)) = next else { break };
                if used.contains(id) {
                    out.push(key)?;
                }
                seen += 1;
                if seen.is_multiple_of(UNCHECKED) {
                    self.pace.check()?;
                }
            }
        }
        Ok((out.finish(self.unfinished)?, mapping.finish()))
    }

    /// Writes the orders, some at a time.
    fn orders(&self, mapping: Option<&IdMapping>) -> Result<Vec<OrderDirectory>, StoreError> {
        let threads = self.options.threads.clamp(1, Order::ALL.len());
        let compactor = OrderCompactor {
            base: self.base,
            uses_all_terms: self.uses_all_terms,
            runs: self.runs,
            mapping,
            memory_bytes: self.options.memory_bytes / threads,
            space: RunSpace::new(&self.options.tmp, 0, None),
            pace: self.pace,
        };
        let write = |order: Order| -> Result<OrderDirectory, StoreError> {
            if let Some(finished) = self.unfinished.order(order)? {
                return Ok(finished);
            }
            let written = compactor.write(order, self.writer.order(order)?)?;
            self.unfinished.put_order(&written)?;
            Ok(written)
        };
        // Tuples, which take longest, come first.
        let queue = Mutex::new(VecDeque::from(Order::ALL));
        let work = || -> Result<Vec<OrderDirectory>, StoreError> {
            let mut written = Vec::new();
            loop {
                let next = queue.lock().expect("nothing panics holding it").pop_front();
                let Some(order) = next else {
                    return Ok(written);
                };
                written.push(write(order)?);
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut written = work();
            for other in others {
                let other = joined(other.join().map(Ok), "compacting")?;
                if let Ok(written) = &mut written {
                    written.extend(other?);
                }
            }
            written
        })
    }
}

/// Returns the index of an id's kind in [`TermKind::DICTIONARY`].
fn kind_place(id: TermId) -> Option<usize> {
    let number = id.kind_number();
    TermKind::DICTIONARY
        .iter()
        .position(|&kind| kind as u8 == number)
}
