//! Optional indexes of a store, by the names of predicates.

use std::cell::RefCell;
use std::path::Path;

use oxrdf::NamedNodeRef;
use pythia_io::DirectStorage;
use pythia_rdf::TermId;
use pythia_store::check_folder;
use pythia_store::manifest::AuxiliaryKind;
use pythia_store::manifest::Manifest;
use pythia_store::store::{Change, optimize_in};
use pythia_store::write::Compacted;
use pythia_store::write::WriteOptions;
use pythia_store::{ChangesReport, OpenOptions, Pace, Snapshot, Store, StoreError};

use crate::Database;

pub use pythia_store::optimize::OptimizeOptions;
pub use pythia_store::store::Added;

/// Auxiliary files, by the IRIs of their predicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auxiliary {
    /// Predicates with reachability labels.
    pub reachability: Vec<String>,
    /// Predicates whose values are cached in the lists of neighbours.
    pub attributes: Vec<CachedAttribute>,
    /// True for the degrees of all nodes.
    pub degrees: bool,
}

/// A predicate whose values are cached in the lists of neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachedAttribute {
    /// The predicate.
    pub predicate: String,
    /// The predicates of the edges to those neighbours; all if empty.
    pub along: Vec<String>,
}

impl Auxiliary {
    /// Adds the auxiliary files of `other`.
    pub fn add(&mut self, other: Self) {
        self.reachability.extend(other.reachability);
        self.attributes.extend(other.attributes);
        self.degrees |= other.degrees;
    }

    /// Returns whether it names no auxiliary file.
    pub fn is_empty(&self) -> bool {
        self.reachability.is_empty() && self.attributes.is_empty() && !self.degrees
    }

    /// Fails if the store lacks one of the predicates.
    ///
    /// # Errors
    /// As [`predicate_named`].
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.kinds(snapshot).map(drop)
    }

    fn kinds(&self, snapshot: &Snapshot) -> Result<Vec<AuxiliaryKind>, StoreError> {
        let id = |iri: &String| predicate_named(snapshot, iri).map(|predicate| predicate.0);
        let mut kinds = Vec::new();
        for iri in &self.reachability {
            let predicate = id(iri)?;
            kinds.push(AuxiliaryKind::Reachability { predicate });
        }
        for attribute in &self.attributes {
            let predicate = id(&attribute.predicate)?;
            let along = attribute.along.iter().map(id);
            let mut along = along.collect::<Result<Vec<_>, _>>()?;
            along.sort_unstable();
            kinds.push(AuxiliaryKind::Attribute { predicate, along });
        }
        if self.degrees {
            kinds.push(AuxiliaryKind::Degrees);
        }
        Ok(kinds)
    }
}

/// Compacts the store in a folder: writes a new base with all changes, with ids in the order of their terms.
/// Others may read the store meanwhile, but not write to it. Returns `None` if there are no changes.
///
/// # Errors
/// [`StoreError::Writing`] if the store is open for writing.
pub fn compact(
    path: &Path,
    options: OptimizeOptions,
    threads: usize,
) -> Result<Option<Compacted>, StoreError> {
    // Opening a store for writing for the first time changes its format, so check first.
    if manifest_of(path)?.is_none_or(|manifest| manifest.log.is_none()) {
        return Ok(None);
    }
    let write = write_options(path, options, threads);
    let store = Store::open_for_writing(path, opening(options), &write)?;
    if ChangesReport::new(&store, &write.maintenance)?.is_compact() {
        return Ok(None);
    }
    store.compact().map(Some)
}

/// Brings the store in a folder to the newest format, which programs before refuse to open: writes the base again, as
/// [`compact`] does. The store is the old one until the new base is complete; after a crash the next attempt continues
/// with what is finished. Others may read the store meanwhile, but not write to it. Returns the format that it had, or
/// `None` if it has the newest already.
///
/// # Errors
/// [`StoreError::Writing`] if the store is open for writing.
pub fn upgrade(
    path: &Path,
    options: OptimizeOptions,
    threads: usize,
) -> Result<Option<(u32, Compacted)>, StoreError> {
    let store = Store::open(path, opening(options))?;
    let before = store.manifest().format;
    if store.has_newest_base() {
        return Ok(None);
    }
    drop(store);
    let write = write_options(path, options, threads);
    let store = Store::open_for_writing(path, opening(options), &write)?;
    Ok(Some((before, store.compact()?)))
}

fn opening(options: OptimizeOptions) -> OpenOptions {
    OpenOptions {
        cache_bytes: options.cache_bytes,
    }
}

/// Returns the options of a command that compacts, and does nothing else.
fn write_options(path: &Path, options: OptimizeOptions, threads: usize) -> WriteOptions {
    let mut write = WriteOptions::default();
    write.maintenance.in_background = false;
    write.maintenance.compaction.memory_bytes = options.memory_bytes;
    write.maintenance.compaction.threads = threads;
    write.maintenance.compaction.tmp = path.to_owned();
    write
}

fn manifest_of(path: &Path) -> Result<Option<Manifest>, StoreError> {
    check_folder(path)?;
    Manifest::read(&DirectStorage::open(path, false)?)
}

/// An optional index of a store, and whether queries use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexState {
    /// Its kind.
    pub kind: AuxiliaryKind,
    /// Bytes of its files.
    pub bytes: u64,
    /// Changes since it was built that count towards the limit beyond which it is not used.
    pub changes: u64,
    /// True if queries use it.
    pub is_used: bool,
}

/// Returns the optional indexes of an open database.
pub fn index_states(database: &Database) -> Vec<IndexState> {
    let snapshot = database.snapshot();
    let estimates = snapshot.estimates();
    let manifest = database.store().manifest();
    let entries = manifest.auxiliary.iter();
    let state = entries.map(|entry| {
        let (changes, is_used) = match &entry.kind {
            AuxiliaryKind::Reachability { predicate } => {
                let is_used = estimates.reachability(TermId(*predicate)).is_some();
                (snapshot.changes_of(TermId(*predicate)), is_used)
            }
            AuxiliaryKind::Attribute { predicate, .. } => {
                let is_used = estimates.attribute(TermId(*predicate)).is_some();
                (snapshot.changes_of(TermId(*predicate)), is_used)
            }
            AuxiliaryKind::Degrees => (0, true),
        };
        IndexState {
            kind: entry.kind.clone(),
            bytes: entry.bytes(),
            changes,
            is_used,
        }
    });
    state.collect()
}

impl Database {
    /// Builds auxiliary files while the database is used, and puts them in place in one step: after an error or a crash,
    /// the store is unchanged. Compacts the store first if too much has changed for them to be of use. `pace` sets the
    /// rests of the build, and cancels it.
    ///
    /// # Errors
    /// As [`optimize`], and [`StoreError::ReadOnly`] unless the database is open for writing.
    pub fn optimize(
        &self,
        add: &Auxiliary,
        options: OptimizeOptions,
        pace: &Pace,
    ) -> Result<Vec<Added>, StoreError> {
        let change = |store: &Store| {
            Ok(Change {
                add: add.kinds(&store.snapshot())?,
                drop: Vec::new(),
            })
        };
        self.store().optimize(&change, options, pace)
    }

    /// Drops auxiliary files while the database is used: the named ones, or all if none is named.
    pub fn drop_auxiliary(&self, named: &Auxiliary) -> Result<Vec<AuxiliaryKind>, StoreError> {
        let dropped = RefCell::new(Vec::new());
        let change = |store: &Store| {
            let change = dropping(store, named)?;
            dropped.replace(change.drop.clone());
            Ok(change)
        };
        let store = self.store();
        store.optimize(&change, OptimizeOptions::default(), &Pace::default())?;
        Ok(dropped.into_inner())
    }
}

/// Returns the change that drops the named auxiliary files, or all if none is named.
fn dropping(store: &Store, named: &Auxiliary) -> Result<Change, StoreError> {
    let manifest = store.manifest();
    let all = manifest.auxiliary.iter().map(|entry| entry.kind.clone());
    let drop = match named.is_empty() {
        true => all.collect(),
        false => named.kinds(&store.snapshot())?,
    };
    let add = Vec::new();
    Ok(Change { add, drop })
}

/// Builds auxiliary files for the store in a folder, which nobody else may have open, in one step: after an
/// error or a crash, the store is unchanged. They cover only the base: see [`compact`].
/// [`Database::optimize`] builds them while others use the store.
///
/// # Errors
/// Predicates that the store does not have, with the ones probably meant; insufficient memory, with the
/// required amount.
pub fn optimize(
    path: &Path,
    add: &Auxiliary,
    options: OptimizeOptions,
) -> Result<Vec<Added>, StoreError> {
    optimize_in(path, options, |store| {
        Ok(Change {
            add: add.kinds(&store.snapshot())?,
            drop: Vec::new(),
        })
    })
}

/// Drops auxiliary files of the store in a folder: the named ones, or all if none is named.
pub fn drop_auxiliary(path: &Path, named: &Auxiliary) -> Result<Vec<AuxiliaryKind>, StoreError> {
    let mut dropped = Vec::new();
    optimize_in(path, OptimizeOptions::default(), |store| {
        let change = dropping(store, named)?;
        dropped.clone_from(&change.drop);
        Ok(change)
    })?;
    Ok(dropped)
}

/// Describes auxiliary files in words.
pub fn describe_auxiliary(kind: &AuxiliaryKind, snapshot: &Snapshot) -> Result<String, StoreError> {
    let name = |id: u64| -> Result<String, StoreError> {
        let terms = snapshot.decode(&[TermId(id)])?;
        Ok(terms[0].to_string())
    };
    Ok(match kind {
        AuxiliaryKind::Degrees => "degrees of all nodes".to_owned(),
        AuxiliaryKind::Reachability { predicate } => {
            format!("reachability of {}", name(*predicate)?)
        }
        AuxiliaryKind::Attribute { predicate, along } if along.is_empty() => {
            format!("values of {} beside all neighbours", name(*predicate)?)
        }
        AuxiliaryKind::Attribute { predicate, along } => {
            let along = along.iter().map(|&id| name(id));
            let along = along.collect::<Result<Vec<_>, _>>()?.join(", ");
            format!(
                "values of {} beside neighbours by {along}",
                name(*predicate)?
            )
        }
    })
}

/// Returns the id of a predicate of the store. Its IRI may be in angle brackets.
///
/// # Errors
/// [`StoreError::NotOptimizable`] if the store has no such predicate, with the one probably meant.
pub fn predicate_named(snapshot: &Snapshot, name: &str) -> Result<TermId, StoreError> {
    let bracketed = name.strip_prefix('<').and_then(|n| n.strip_suffix('>'));
    let iri = bracketed.unwrap_or(name);
    if let Ok(node) = NamedNodeRef::new(iri)
        && let Some(id) = snapshot.resolve(node.into())?
        && snapshot.statistics().predicate(id).is_some()
    {
        return Ok(id);
    }
    let predicates = &snapshot.statistics().predicates;
    let ids: Vec<_> = predicates.iter().map(|known| known.predicate).collect();
    let names = snapshot.decode(&ids)?;
    let names = names.iter().filter_map(|term| match term {
        oxrdf::Term::NamedNode(node) => Some(node.as_str()),
        _ => None,
    });
    let meant = match nearest_iri(iri, &names.collect::<Vec<_>>()) {
        Some(meant) => format!("; did you mean {meant}?"),
        None => "; `pythia stats` lists those it has".to_owned(),
    };
    let message = format!("the store has no predicate {iri}{meant}");
    Err(StoreError::NotOptimizable { message })
}

/// Returns the IRI with the same last part, or else one that differs by one or two typos.
fn nearest_iri<'i>(iri: &str, known: &[&'i str]) -> Option<&'i str> {
    let last = |iri: &str| {
        iri.rsplit(['/', '#', ':'])
            .next()
            .unwrap_or("")
            .to_lowercase()
    };
    let same = known.iter().find(|known| last(known) == last(iri)).copied();
    same.or_else(|| {
        let upper: Vec<String> = known.iter().map(|known| known.to_uppercase()).collect();
        let meant = pythia_sparql::nearest(iri, upper.iter().map(String::as_str))?;
        let index = upper.iter().position(|known| known == meant)?;
        Some(known[index])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predicate_is_suggested_by_its_last_part_or_a_slip() {
        let known = ["http://e/isLocatedIn", "http://e/knows"];
        assert_eq!(nearest_iri("islocatedin", &known), Some(known[0]));
        assert_eq!(nearest_iri("http://f/knows", &known), Some(known[1]));
        assert_eq!(nearest_iri("http://e/knwos", &known), Some(known[1]));
        assert_eq!(nearest_iri("http://e/loves", &known), None);
    }
}
