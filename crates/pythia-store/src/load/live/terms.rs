//! The terms that a load adds, while concurrent commits also give ids to new terms.
//!
//! Terms are looked up in a snapshot, and those that it lacks are written as a run without quads, with provisional
//! ids that follow the snapshot's. Before that run becomes part of the store, commits may have given the same ids to
//! other terms, and other ids to the same terms. The former only moves the run's ids, which are in no file; the
//! latter terms are left out of a run that is written again.

use std::sync::Arc;

use pythia_io::BufferPool;
use pythia_rdf::{TermId, TermKind};

use crate::StoreError;
use crate::delta::device::{DeviceRun, DeviceRunWriter};
use crate::delta::{KindCounts, kind_index};
use crate::manifest::{RunEntry, RunId};
use crate::snapshot::Snapshot;

/// Terms looked up at a time.
const KEYS: u64 = 1 << 12;

/// Terms that are to become part of a store.
pub(crate) struct NewTerms {
    /// By kind, the first provisional payload: the end of the snapshot that lacks the terms.
    first: KindCounts,
    /// Not named by a manifest yet; `None` if no term is new.
    run: Option<Arc<DeviceRun>>,
    /// Changes of the ids since the terms were looked up.
    steps: Vec<Renumbering>,
}

/// A renumbering of the ids of each kind from some payload on.
#[derive(Debug)]
struct Renumbering {
    from: KindCounts,
    to: KindCounts,
    /// Old and new ids of terms that commits have added, sorted.
    found: Vec<(u64, u64)>,
}

impl Renumbering {
    fn id(&self, id: u64) -> u64 {
        let old = TermId(id);
        let Some(kind) = kind_index(old.kind()) else {
            return id;
        };
        let Some(serial) = old.payload().checked_sub(self.from[kind]) else {
            return id;
        };
        match self.found.binary_search_by_key(&id, |&(old, _)| old) {
            Ok(place) => self.found[place].1,
            Err(place) => {
                let of_kind = TermId::new(old.kind(), 0).0;
                let before = self.found.partition_point(|&(old, _)| old < of_kind);
                let left_out = (place - before) as u64;
                TermId::new(old.kind(), self.to[kind] + serial - left_out).0
            }
        }
    }
}

impl NewTerms {
    pub(super) fn new(first: KindCounts, run: Option<DeviceRun>) -> Self {
        Self {
            first,
            run: run.map(Arc::new),
            steps: Vec::new(),
        }
    }

    /// Returns the run of the terms, if there are any.
    pub(crate) fn run(&self) -> Option<&Arc<DeviceRun>> {
        self.run.as_ref()
    }

    /// Returns which of the terms a later snapshot has, with its ids.
    pub(crate) fn found_in(&self, snapshot: &Snapshot) -> Result<Vec<(u64, u64)>, StoreError> {
        let mut found = Vec::new();
        let Some(run) = &self.run else {
            return Ok(found);
        };
        let ends = ends(snapshot);
        for (index, kind) in TermKind::DICTIONARY.into_iter().enumerate() {
            let mut next = self.first[index];
            while next < ends[index] {
                let last = ends[index].min(next + KEYS);
                let ids: Vec<TermId> = (next..last).map(|id| TermId::new(kind, id)).collect();
                let mut keys = Vec::new();
                snapshot.decode_keys(&ids, |place, key| {
                    keys.push((key.to_owned_key(), ids[place].0));
                })?;
                let asked: Vec<_> = keys.iter().map(|(key, _)| key.as_key()).collect();
                let old = run.find_batch(&asked)?.into_iter().zip(&keys);
                found.extend(old.filter_map(|(old, (_, id))| Some((old?.0, *id))));
                next = last;
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Leaves out terms that a snapshot was found to have, which requires a new run. The caller removes the files of
    /// the old one.
    pub(crate) fn leave_out(
        &mut self,
        found: Vec<(u64, u64)>,
        snapshot: &Snapshot,
        (pool, id): (&Arc<BufferPool>, RunId),
    ) -> Result<(), StoreError> {
        let Some(run) = self.run.take() else {
            return Ok(());
        };
        let step = Renumbering {
            from: self.first,
            to: ends(snapshot),
            found,
        };
        let count = run.entry().term_count() - step.found.len() as u64;
        if count > 0 {
            let options = snapshot.base().options();
            let writer = DeviceRunWriter::new(Arc::clone(pool.storage()), id, options);
            let mut terms = writer.terms(&step.to, count)?;
            let mut cursor = run.terms()?;
            while let Some((key, old)) = cursor.head() {
                let is_found = step.found.binary_search_by_key(&old.0, |&(old, _)| old);
                if is_found.is_err() {
                    terms.push(key, TermId(step.id(old.0)))?;
                }
                cursor.advance()?;
            }
            let entry = writer.seal_terms(terms)?;
            self.run = Some(Arc::new(DeviceRun::open(pool, &entry)?));
        }
        self.step(step);
        Ok(())
    }

    /// Gives the terms the ids that follow those of a snapshot, which has none of the terms. Returns the run's
    /// manifest entry and the run, if there are any terms.
    pub(crate) fn place_behind(
        &mut self,
        snapshot: &Snapshot,
    ) -> Option<(RunEntry, Arc<DeviceRun>)> {
        let ends = ends(snapshot);
        let run = self.run.as_mut()?;
        let unshared =
            Arc::get_mut(run).expect("nothing else reads it before it is part of the store");
        unshared.number_terms(&ends);
        let placed = (run.entry().clone(), Arc::clone(run));
        self.step(Renumbering {
            from: self.first,
            to: ends,
            found: Vec::new(),
        });
        Some(placed)
    }

    fn step(&mut self, step: Renumbering) {
        self.first = step.to;
        self.steps.push(step);
    }

    /// Returns the current form of an id, provisional or not.
    pub(super) fn id(&self, id: u64) -> u64 {
        self.steps.iter().fold(id, |id, step| step.id(id))
    }
}

/// Returns, for each kind, one past the last payload of a snapshot.
pub(crate) fn ends(snapshot: &Snapshot) -> KindCounts {
    let delta = snapshot.delta().expect("a writer's snapshots have one");
    *delta.terms()[0].ends()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_move_up_and_those_of_terms_that_others_brought_are_theirs() {
        let iri = |payload| TermId::new(TermKind::Iri, payload).0;
        let text = |payload| TermId::new(TermKind::String, payload).0;
        let place = |kind| kind_index(kind).expect("of the dictionary");
        let counts = |iris, texts| {
            let mut counts = [0; TermKind::DICTIONARY.len()];
            (
                counts[place(TermKind::Iri)],
                counts[place(TermKind::String)],
            ) = (iris, texts);
            counts
        };
        let mut found = vec![(iri(12), iri(10)), (text(20), text(21)), (iri(14), iri(11))];
        found.sort_unstable();
        let terms = NewTerms {
            first: [0; TermKind::DICTIONARY.len()],
            run: None,
            steps: vec![
                Renumbering {
                    from: counts(10, 20),
                    to: counts(15, 22),
                    found,
                },
                Renumbering {
                    from: counts(15, 22),
                    to: counts(18, 22),
                    found: Vec::new(),
                },
            ],
        };
        let ids = [9, 10, 11, 12, 13, 14, 15].map(|payload| terms.id(iri(payload)));
        assert_eq!(ids, [9, 18, 19, 10, 20, 11, 21].map(iri));
        let ids = [19, 20, 21, 22].map(|payload| terms.id(text(payload)));
        assert_eq!(ids, [19, 21, 22, 23].map(text));
        let number = TermId::new(TermKind::Integer, 77).0;
        assert_eq!([terms.id(0), terms.id(number)], [0, number]);
    }
}
