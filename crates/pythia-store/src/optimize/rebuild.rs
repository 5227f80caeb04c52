//! Auxiliary files for a new base: the same as before, with its ids and quads.

use std::sync::Arc;

use pythia_io::BufferPool;
use pythia_rdf::TermId;

use super::{Numbers, OptimizeOptions, Writer};
use crate::StoreError;
use crate::auxiliary::Auxiliaries;
use crate::manifest::{AuxiliaryEntry, AuxiliaryKind};
use crate::pace::Pace;
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// Auxiliary files of a new base that are durable but not yet named by a manifest.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    /// Their manifest entries.
    pub(crate) entries: Vec<AuxiliaryEntry>,
    /// Auxiliary files that could not be rebuilt, with the old ids, each with the reason.
    pub(crate) dropped: Vec<(AuxiliaryKind, String)>,
}

/// The relation of a new base to the one that it replaces.
pub(crate) struct Succession<'a> {
    /// Returns whether an auxiliary file of the old base holds for the new one.
    pub(crate) is_kept: &'a dyn Fn(&AuxiliaryKind) -> bool,
    /// Returns the new id of an old one; `None` if no quad has the term any more.
    pub(crate) new_id: &'a dyn Fn(TermId) -> Option<TermId>,
    /// The numbers of new folders.
    pub(crate) numbers: &'a Numbers,
}

/// Rebuilds the auxiliary files of a base for the one that replaces it, except for those that still hold. Drops those that no longer make sense, or need more memory than there is: everything works without them.
///
/// # Errors
/// If the device fails; then nothing remains.
pub(crate) fn rebuild(
    pool: &Arc<BufferPool>,
    base: &Arc<Segment>,
    old: &[AuxiliaryEntry],
    succession: &Succession<'_>,
    options: OptimizeOptions,
    pace: &Pace,
) -> Result<Rebuilt, StoreError> {
    let storage = pace.limit(Arc::clone(pool.storage()));
    let snapshot = Snapshot::new(Arc::clone(base), Arc::new(Auxiliaries::default()));
    let mut writer = Writer::new(&*storage, snapshot, options, succession.numbers, pace);
    let mut rebuilt = Rebuilt::default();
    for entry in old {
        pace.check()?;
        let kind = &entry.kind;
        if (succession.is_kept)(kind) {
            rebuilt.entries.push(entry.clone());
            continue;
        }
        let Some(new_kind) = with_new_ids(kind, succession.new_id, &writer)? else {
            let why = "no quad has its predicates any more".to_owned();
            rebuilt.dropped.push((kind.clone(), why));
            continue;
        };
        match writer.write(&new_kind) {
            Ok(entry) => rebuilt.entries.push(entry),
            Err(
                error @ (StoreError::NotOptimizable { .. }
                | StoreError::MemoryTooSmall { .. }
                | StoreError::TooLarge { .. }),
            ) => {
                writer.discard_last();
                rebuilt.dropped.push((kind.clone(), error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    writer.finish().keep();
    Ok(rebuilt)
}

/// Returns the kind with the ids of a new base; `None` if its predicates are gone.
fn with_new_ids(
    kind: &AuxiliaryKind,
    new_id: &dyn Fn(TermId) -> Option<TermId>,
    writer: &Writer<'_>,
) -> Result<Option<AuxiliaryKind>, StoreError> {
    let new_id = |id: &u64| new_id(TermId(*id));
    Ok(match kind {
        AuxiliaryKind::Degrees => Some(AuxiliaryKind::Degrees),
        AuxiliaryKind::Reachability { predicate } => {
            new_id(predicate).map(|TermId(predicate)| AuxiliaryKind::Reachability { predicate })
        }
        AuxiliaryKind::Attribute { predicate, along } => {
            let mut left = Vec::new();
            for id in along.iter().filter_map(new_id) {
                // It may still be a node, but have no edges any more.
                if writer.has_edges(id)? {
                    left.push(id.0);
                }
            }
            left.sort_unstable();
            let is_gone = left.is_empty() && !along.is_empty();
            let predicate = new_id(predicate).filter(|_| !is_gone);
            predicate.map(|TermId(predicate)| AuxiliaryKind::Attribute {
                predicate,
                along: left,
            })
        }
    })
}
