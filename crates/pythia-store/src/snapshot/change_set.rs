//! Changed quads in the form of the log: with their terms.

use pythia_log::{Change, ChangeSet, LogTerm, NO_GRAPH};
use pythia_rdf::TermId;
use rustc_hash::FxHashMap;

use crate::StoreError;
use crate::snapshot::Snapshot;

/// Converts signed rows (subject, predicate, object, graph) to the form of the log; calls `each` with the id of every
/// dictionary term among them. `None` if the keys of these terms exceed `key_bytes_max` bytes.
pub(crate) fn change_set(
    snapshot: &Snapshot,
    rows: &[([u64; 4], bool)],
    key_bytes_max: usize,
    mut each: impl FnMut(TermId),
) -> Result<Option<ChangeSet>, StoreError> {
    let mut ids: Vec<TermId> = Vec::new();
    let mut known: FxHashMap<u64, u32> = FxHashMap::default();
    let mut place = |id: u64| match id {
        0 => NO_GRAPH,
        id => *known.entry(id).or_insert_with(|| {
            ids.push(TermId(id));
            ids.len() as u32 - 1
        }),
    };
    let quads: Vec<[u32; 4]> = rows.iter().map(|(row, _)| row.map(&mut place)).collect();
    let mut set = ChangeSet::new();
    let mut indexes = vec![NO_GRAPH; ids.len()];
    let (mut stored, mut stored_places) = (Vec::new(), Vec::new());
    for (place, &id) in ids.iter().enumerate() {
        if id.kind().is_dictionary() {
            stored.push(id);
            stored_places.push(place);
        } else {
            indexes[place] = set.add_term(LogTerm::Inline(id));
        }
    }
    let mut key_bytes = 0;
    snapshot.decode_keys(&stored, |index, key| {
        key_bytes += key.bytes.len();
        if key_bytes <= key_bytes_max {
            each(stored[index]);
            indexes[stored_places[index]] = set.add_term(LogTerm::Key(key));
        }
    })?;
    if key_bytes > key_bytes_max {
        return Ok(None);
    }
    let index = |place: u32| match place {
        NO_GRAPH => NO_GRAPH,
        place => indexes[place as usize],
    };
    for (quad, &(_, added)) in quads.into_iter().zip(rows) {
        let quad = quad.map(index);
        set.push(Change { added, quad });
    }
    Ok(Some(set))
}
