//! Optional indexes of an open store: built from the base while others read and commit, and put in place like any new
//! state.
//!
//! The base must stay during a build, so compactions wait for it ([`Writer::base`]); commits and loads, which add to the
//! changes on top, do not. An index describes the base it was built from, and snapshots use it together with the
//! changes ([`crate::snapshot`]), as long as those are few.

use std::sync::Arc;

use pythia_rdf::TermId;

use super::Writer;
use crate::StoreError;
use crate::auxiliary::Auxiliaries;
use crate::manifest::{AuxiliaryKind, Manifest};
use crate::optimize::{self, Added, Change, OptimizeOptions};
use crate::pace::Pace;
use crate::snapshot::{CHANGED_EDGES_MAX, CHANGED_VALUES_MAX, Snapshot};

/// How often a store is compacted for a build. More changes may come meanwhile; then the next compaction rebuilds
/// the index.
const COMPACTIONS_MAX: usize = 2;

impl Writer {
    /// Implements [`crate::Store::optimize`].
    pub(crate) fn optimize(
        &self,
        change: &dyn Fn() -> Result<Change, StoreError>,
        options: OptimizeOptions,
        pace: &Pace,
    ) -> Result<Vec<Added>, StoreError> {
        for _ in 0..COMPACTIONS_MAX {
            pace.check()?;
            if !self.is_compaction_useful(&change()?) {
                break;
            }
            self.compact_due()?;
        }
        let _base = self.base.lock();
        // A new base may have to be put in place first; from then on it stays.
        self.check_files()?;
        let change = change()?;
        change.check(&self.manifest())?;
        let storage = pace.limit(Arc::clone(self.pool.storage()));
        let base = Arc::clone(self.state.read().snapshot.base());
        let snapshot = Snapshot::new(base, Arc::default());
        let numbers = &self.indexes_made;
        let mut writer = optimize::Writer::new(&*storage, snapshot, options, numbers, pace);
        let mut changed = self.manifest();
        let added = pace.run(|| change.write(&mut writer, &mut changed))?;
        pace.check()?;
        self.put_indexes(changed, writer)?;
        Ok(added)
    }

    /// Makes the optional indexes of a manifest the store's. The caller holds `base`.
    fn put_indexes(
        &self,
        changed: Manifest,
        written: optimize::Writer<'_>,
    ) -> Result<(), StoreError> {
        let auxiliaries = Arc::new(Auxiliaries::open(&self.pool, &changed)?);
        let _moving = self.maintenance.lock();
        let mut head = self.head.lock();
        self.check(&mut head)?;
        let mut manifest = self.manifest();
        assert_eq!(manifest.segment, changed.segment, "the base has stayed");
        manifest.auxiliary = changed.auxiliary;
        let snapshot = head.snapshot.with_auxiliaries(auxiliaries);
        self.install(&mut head, manifest, snapshot, written.finish())
    }

    /// Returns whether the indexes to be built would be of little use with the present changes on top of the base.
    fn is_compaction_useful(&self, change: &Change) -> bool {
        let snapshot = self.state.read().snapshot.clone();
        let is_in_base = |id: u64| {
            let statistics = snapshot.base().statistics();
            statistics.predicate(TermId(id)).is_some()
        };
        let exceeds = |id: u64, most: u64| {
            let changes = snapshot.changes_of(TermId(id));
            changes > most || (changes > 0 && !is_in_base(id))
        };
        change.add.iter().any(|kind| match kind {
            AuxiliaryKind::Reachability { predicate } => exceeds(*predicate, CHANGED_EDGES_MAX),
            AuxiliaryKind::Attribute { predicate, along } => {
                exceeds(*predicate, CHANGED_VALUES_MAX)
                    || along.iter().any(|&along| exceeds(along, u64::MAX))
            }
            AuxiliaryKind::Degrees => false,
        })
    }
}
