//! Loading into a store that has quads: a run is built aside, to be published in one step.
//!
//! Parsing and sorting by batches is as in any load, and needs nothing of the store ([`parse`]). Then the
//! distinct terms, which come sorted, are looked up in the snapshot that the run goes on top of;
//! those that are new get ids one after the other. Quads of old terms alone are looked up as well,
//! and dropped if they are there ([`ParsedLoad::write_run`]).

use std::sync::{Arc, Mutex};

use crossbeam_channel::{Sender, bounded};
use pythia_io::Storage;
use pythia_log::ChangeSet;
use pythia_rdf::{OwnedKey, Source, TermId, TermKey, TermKind};

use super::error::joined;
use super::numbering::TermSink;
use super::orders::{PerOrder, RowSink};
use super::pipeline::Parsed;
use super::{LoadError, LoadOptions, LoadProgress, LoadReport};
use crate::StoreError;
use crate::delta::device::{
    DeviceRun, DeviceRunWriter, RunOrderWriter, RunRows, RunTermsWriter, WrittenOrder,
};
use crate::delta::{KindCounts, RunEntry, RunId, kind_index};
use crate::dictionary::{Dictionary, Keys};
use crate::pattern::Order;
use crate::snapshot::Snapshot;
use crate::write::change_set;

/// Terms looked up at a time.
const KEYS: usize = 1 << 14;
/// Bytes of them, at most, unless one has more.
const KEYS_BYTES: usize = 4 << 20;
/// Looking a term up costs as much as reading so many terms of a dictionary in order.
const FIND_COST: u64 = 16;
/// Rows of a change set for the log, at least and at most.
const CHANGES: std::ops::RangeInclusive<usize> = 1 << 10..=64 << 10;
/// Bytes that a change set should have.
const CHANGES_BYTES: usize = 8 << 20;

/// Sources that were parsed, to be written as a run.
#[derive(Debug)]
pub(crate) struct ParsedLoad {
    parsed: Parsed,
    progress: Arc<LoadProgress>,
}

/// Where a run is written to, and what it goes on top of.
pub(crate) struct RunTarget<'t> {
    pub(crate) storage: &'t Arc<dyn Storage>,
    pub(crate) id: RunId,
    pub(crate) snapshot: &'t Snapshot,
    /// The payload of the first new term of each kind.
    pub(crate) first_terms: KindCounts,
}

/// Parses the sources.
pub(crate) fn parse(
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &Arc<LoadProgress>,
) -> Result<ParsedLoad, LoadError> {
    Ok(ParsedLoad {
        parsed: Parsed::new(sources, options, progress)?,
        progress: Arc::clone(progress),
    })
}

impl ParsedLoad {
    /// Writes the run: what of the sources the snapshot does not have. On return it is durable, and
    /// named by nothing yet.
    pub(crate) fn write_run(
        self,
        target: &RunTarget<'_>,
    ) -> Result<(RunEntry, LoadReport), LoadError> {
        let Self { parsed, progress } = self;
        let storage = Arc::clone(target.storage);
        let options = target.snapshot.base().options();
        let writer = DeviceRunWriter::new(storage, target.id, options);
        let terms_max = parsed.terms_max();
        // Nodes with predicates are mostly no more; if they are, the filters admit some more.
        let rows_max = parsed.quads().min(terms_max.saturating_mul(4));
        let order = |order| writer.order(order, rows_max);
        let orders = PerOrder {
            spo: order(Order::Spo)?,
            ops: order(Order::Ops)?,
            pso: order(Order::Pso)?,
            pos: order(Order::Pos)?,
        };
        let new_terms = writer.terms(&target.first_terms, terms_max)?;
        let mut resolver = Resolver::new(target, new_terms, terms_max);
        let known = |quads: &[[u64; 4]]| known_quads(target, quads);
        let (built, orders) = parsed.write(&mut resolver, orders, Some(&known))?;
        progress.begin("seal", 0);
        let PerOrder { spo, ops, pso, pos } = orders;
        let entry = writer.seal(resolver.new_terms, vec![spo, ops, pso, pos])?;
        let bytes = entry.bytes();
        Ok((entry, LoadReport::new(built, bytes, &progress)))
    }
}

/// Which of the quads the snapshot has. Those with a new term are not looked for.
fn known_quads(target: &RunTarget<'_>, quads: &[[u64; 4]]) -> Result<Vec<bool>, LoadError> {
    let is_old = |id: &u64| {
        let id = TermId(*id);
        kind_index(id.kind()).is_none_or(|index| id.payload() < target.first_terms[index])
    };
    let places: Vec<usize> = (0..quads.len())
        .filter(|&place| quads[place].iter().all(is_old))
        .collect();
    let mut known = vec![false; quads.len()];
    if !places.is_empty() {
        let asked: Vec<[u64; 4]> = places.iter().map(|&place| quads[place]).collect();
        for (place, there) in places.into_iter().zip(target.snapshot.contains(&asked)?) {
            known[place] = there;
        }
    }
    Ok(known)
}

impl RowSink for RunOrderWriter {
    type Sealed = WrittenOrder;

    #[inline]
    fn row(&mut self, ids: [u64; 4]) -> Result<(), LoadError> {
        Ok(self.push(ids, true)?)
    }

    fn seal(self) -> Result<WrittenOrder, LoadError> {
        Ok(self.finish()?)
    }
}

/// Gives each term its id: the one it has, or the next.
struct Resolver<'t> {
    snapshot: &'t Snapshot,
    /// Where the base's terms are read in order, as so many are looked for.
    base: Option<BaseTerms<'t>>,
    next: KindCounts,
    new_terms: RunTermsWriter,
    ids: Vec<u64>,
    /// Terms to be looked up: kinds, and where each key ends in `bytes`.
    waiting: Vec<(TermKind, usize)>,
    bytes: Vec<u8>,
}

impl<'t> Resolver<'t> {
    fn new(target: &RunTarget<'t>, new_terms: RunTermsWriter, terms_max: u64) -> Self {
        let dictionary = &target.snapshot.base().dictionary;
        let counts = TermKind::DICTIONARY.map(|kind| dictionary.count(kind));
        let base_terms: u64 = counts.iter().sum();
        let in_order = terms_max.saturating_mul(FIND_COST) > base_terms;
        Self {
            snapshot: target.snapshot,
            base: in_order.then(|| BaseTerms::new(dictionary)),
            next: target.first_terms,
            new_terms,
            ids: Vec::new(),
            waiting: Vec::new(),
            bytes: Vec::new(),
        }
    }

    fn resolve(&mut self) -> Result<(), StoreError> {
        let mut start = 0;
        let key = |&(kind, end): &(TermKind, usize)| {
            let bytes = &self.bytes[start..end];
            start = end;
            TermKey { kind, bytes }
        };
        let keys: Vec<TermKey<'_>> = self.waiting.iter().map(key).collect();
        let found = match &mut self.base {
            None => self.snapshot.resolve_keys(&keys)?,
            Some(base) => {
                let found = keys.iter().map(|&key| base.find(key));
                let mut found = found.collect::<Result<Vec<_>, _>>()?;
                if let Some(delta) = self.snapshot.delta() {
                    delta.find_missing(&keys, &mut found)?;
                }
                found
            }
        };
        for (found, &key) in found.into_iter().zip(&keys) {
            let id = match found {
                Some(id) => id,
                None => {
                    let index = kind_index(key.kind).expect("keys are of dictionary kinds");
                    let id = TermId::new(key.kind, self.next[index]);
                    self.next[index] += 1;
                    self.new_terms.push(key, id)?;
                    id
                }
            };
            self.ids.push(id.0);
        }
        self.waiting.clear();
        self.bytes.clear();
        Ok(())
    }
}

impl TermSink for &mut Resolver<'_> {
    #[inline]
    fn term(&mut self, kind: TermKind, key: &[u8]) -> Result<(), LoadError> {
        self.bytes.extend_from_slice(key);
        self.waiting.push((kind, self.bytes.len()));
        if self.waiting.len() >= KEYS || self.bytes.len() >= KEYS_BYTES {
            self.resolve()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Vec<u64>>, LoadError> {
        self.resolve()?;
        Ok(Some(std::mem::take(&mut self.ids)))
    }
}

/// The terms of a base in order, to be compared with others that are.
struct BaseTerms<'d> {
    dictionary: &'d Dictionary,
    keys: Option<Keys<'d>>,
    /// The term at hand.
    id: Option<TermId>,
    key: OwnedKey,
}

impl<'d> BaseTerms<'d> {
    fn new(dictionary: &'d Dictionary) -> Self {
        Self {
            dictionary,
            keys: None,
            id: None,
            key: OwnedKey {
                kind: TermKind::Nothing,
                bytes: Vec::new(),
            },
        }
    }

    /// The id of a key that is not less than those asked for before.
    fn find(&mut self, key: TermKey<'_>) -> Result<Option<TermId>, StoreError> {
        if self.key.kind != key.kind {
            self.key.kind = key.kind;
            self.keys = Some(self.dictionary.iter(key.kind));
            self.advance()?;
        }
        while self.id.is_some() && *self.key.bytes < *key.bytes {
            self.advance()?;
        }
        Ok(self.id.filter(|_| *self.key.bytes == *key.bytes))
    }

    fn advance(&mut self) -> Result<(), StoreError> {
        self.id = None;
        if let Some(keys) = &mut self.keys
            && let Some((id, key)) = keys.next()?
        {
            self.id = Some(id);
            self.key.bytes.clear();
            self.key.bytes.extend_from_slice(key.bytes);
        }
        Ok(())
    }
}

/// Hands out what a run adds and removes as the log has it, some at a time and in no certain order:
/// what `make` makes of it on one of `threads` threads. `snapshot` has the run among its changes.
pub(crate) fn change_sets<T: Send>(
    snapshot: &Snapshot,
    run: &Arc<DeviceRun>,
    threads: usize,
    make: impl Fn(ChangeSet) -> Result<T, StoreError> + Sync,
    mut take: impl FnMut(T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let rows = Mutex::new(RunRows::new(std::slice::from_ref(run), Order::Spo)?);
    let (made, received) = bounded::<T>(threads);
    let work = |made: Sender<T>| -> Result<(), StoreError> {
        let mut chunk = Vec::new();
        let mut wanted = *CHANGES.start();
        loop {
            chunk.clear();
            let mut rows = rows.lock().expect("nothing panics holding it");
            while chunk.len() < wanted
                && let Some(row) = rows.next_row()?
            {
                chunk.push(row);
            }
            drop(rows);
            if chunk.is_empty() {
                return Ok(());
            }
            let set = change_set(snapshot, &chunk, |_, _| ())?;
            // Terms may be long, and are short again.
            wanted = match set.bytes() {
                0..CHANGES_BYTES => (2 * wanted).min(*CHANGES.end()),
                _ => (wanted / 2).max(*CHANGES.start()),
            };
            // Nobody receives once taking has failed, which says why.
            if made.send(make(set)?).is_err() {
                return Ok(());
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| {
                let made = made.clone();
                scope.spawn(|| work(made))
            })
            .collect();
        drop(made);
        let taken = received.into_iter().try_for_each(&mut take);
        for worker in workers {
            joined(worker.join().map(Ok), "making the log's changes")??;
        }
        taken
    })
}
