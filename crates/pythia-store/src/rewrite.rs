//! A new base: the base and all runs as one segment, with ids that sort like their terms again.
//!
//! ```text
//! base, runs ─ which terms are used ─ merge dictionaries ─ new ids ┐
//! base orders ─ without what was removed ─ new ids (in order) ─────┼─ merge ─ SPO, OPS, PSO, POS
//! runs' orders ─ what was added ─ new ids ─ sort ──────────────────┘
//! ```
//!
//! New ids of base terms are in the same order as the old ones ([`mapping`]), so the rows of the base
//! stay sorted and stream from one file to the other; only rows that were added are sorted, outside of
//! memory if they must be. Everything is read and written front to back.
//!
//! Invariants:
//! - The new segment is byte by byte what a load of the same quads would have written.
//! - Nothing names it before the caller switches the manifest: until then, and after any failure, the
//!   store is what it was.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pythia_io::Storage;
use pythia_rdf::{TermId, TermKind};

use crate::StoreError;
use crate::delta::device::DeviceRun;
use crate::delta::device::merge::MergedTerms;
use crate::dictionary::DictionaryDirectory;
use crate::load::joined;
use crate::load::runs::RunSpace;
use crate::manifest::SegmentId;
use crate::pace::Pace;
use crate::pattern::Order;
use crate::segment::{OrderDirectory, Segment, SegmentEntry, SegmentWriter};

pub mod mapping;
mod rows;
#[cfg(test)]
mod tests;
mod used;

pub use mapping::IdMapping;
use mapping::MappingBuilder;
pub(crate) use rows::CurrentRows;
use rows::OrderRewriter;
use used::UsedTerms;

/// Terms or rows between two looks at whether to stop.
const UNCHECKED: u64 = 4096;

/// What a rewrite may use.
#[derive(Clone, Debug)]
pub struct RewriteOptions {
    /// Memory for sorting what was added, in bytes.
    pub memory_bytes: usize,
    /// The folder of temporary files, which have no names.
    pub tmp: PathBuf,
    /// How many orders are written at a time.
    pub threads: usize,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            tmp: std::env::temp_dir(),
            threads: 1,
        }
    }
}

/// A new base, durable, and named by nothing yet.
#[derive(Debug)]
pub struct NewBase {
    /// Its folder's number.
    pub id: SegmentId,
    /// Its quads and files.
    pub segment: SegmentEntry,
    /// From the ids that base and runs have to its own.
    pub mapping: IdMapping,
}

/// Writes a base and its runs as a new base into a folder that nothing uses.
///
/// Takes memory for the mapping beside that of the options: a bit for each term of the base, and 8 bytes for
/// each new one.
///
/// # Errors
/// [`StoreError::Cancelled`] if `pace` says so; whatever fails, the folder is removed.
pub fn rewrite(
    base: &Arc<Segment>,
    runs: &[Arc<DeviceRun>],
    storage: Arc<dyn Storage>,
    id: SegmentId,
    options: &RewriteOptions,
    pace: &Pace,
) -> Result<NewBase, StoreError> {
    let writer = SegmentWriter::new(pace.limit(storage), id.folder(), base.options());
    let used = UsedTerms::find(base, runs, pace)?;
    let (dictionary, mapping) = write_dictionary(base, runs, &used, &writer, pace)?;
    drop(used);
    let orders = write_orders(base, runs, &mapping, &writer, options, pace)?;
    Ok(NewBase {
        id,
        segment: writer.seal(dictionary, orders)?,
        mapping,
    })
}

/// Merges the base's dictionary with the new terms, without those that no quad uses.
fn write_dictionary(
    base: &Arc<Segment>,
    runs: &[Arc<DeviceRun>],
    used: &UsedTerms,
    writer: &SegmentWriter,
    pace: &Pace,
) -> Result<(DictionaryDirectory, IdMapping), StoreError> {
    let mut out = writer.dictionary()?;
    let mut mapping = MappingBuilder::new(used);
    let mut new = MergedTerms::new(runs)?;
    let mut seen = 0_u64;
    for kind in TermKind::DICTIONARY {
        let mut old = base.dictionary.iter(kind);
        loop {
            let next = old.next()?;
            // New terms before it, or, at the end, those that are left.
            while let Some((key, id)) = new.head()
                && key.kind == kind
                && next.is_none_or(|(_, old)| key.bytes <= old.bytes)
            {
                if next.is_some_and(|(_, old)| key.bytes == old.bytes) {
                    let message = format!("{id:?} is a term that the base has, too");
                    return Err(StoreError::corrupt("runs", None, message));
                }
                if used.contains(id) {
                    let before =
                        next.map_or_else(|| base.dictionary.count(kind), |(id, _)| id.payload());
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
                pace.check()?;
            }
        }
    }
    Ok((out.finish()?, mapping.finish()))
}

/// Writes the orders, some at a time.
fn write_orders(
    base: &Arc<Segment>,
    runs: &[Arc<DeviceRun>],
    mapping: &IdMapping,
    writer: &SegmentWriter,
    options: &RewriteOptions,
    pace: &Pace,
) -> Result<Vec<OrderDirectory>, StoreError> {
    let threads = options.threads.clamp(1, Order::ALL.len());
    let added = runs.iter().map(|run| run.entry().added.quads).sum();
    let rewriter = OrderRewriter {
        base,
        runs,
        mapping,
        added,
        memory_bytes: options.memory_bytes / threads,
        space: RunSpace::new(&options.tmp, 0, None),
        pace,
    };
    // The tuples take longest.
    let queue = Mutex::new(VecDeque::from(Order::ALL));
    let work = || -> Result<Vec<OrderDirectory>, StoreError> {
        let mut written = Vec::new();
        loop {
            let next = queue.lock().expect("nothing panics holding it").pop_front();
            let Some(order) = next else {
                return Ok(written);
            };
            written.push(rewriter.write(order, writer.order(order)?)?);
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut written = work();
        for other in others {
            let other = joined(other.join().map(Ok), "rewriting")?;
            if let Ok(written) = &mut written {
                written.extend(other?);
            }
        }
        written
    })
}

/// The place of a dictionary kind's number in [`TermKind::DICTIONARY`].
fn kind_place(id: TermId) -> Option<usize> {
    let number = id.kind_number();
    TermKind::DICTIONARY
        .iter()
        .position(|&kind| kind as u8 == number)
}
