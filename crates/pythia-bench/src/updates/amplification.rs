//! Write amplification: the bytes that log, runs, orders and dictionary take while a share of a store changes.
//!
//! The benchmark works on copies of a store. A change gives a quad of some node another object: a new string. Nodes
//! are chosen evenly, or most of them from a small range of ids (80 % of the changes in 20 % of the nodes, 99 % in
//! 1 %). Compactions run as they are due, or always write the whole base, as before they kept the dictionary.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use pythia::DirectStorage;
use pythia_io::Storage;
use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};
use pythia_store::write::{MaintenanceOptions, WriteOptions};
use pythia_store::{End, Expansion, GraphFilter, OpenOptions, Store};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use super::store::copy_store;
use super::written::{Counters, WrittenBytes};
use crate::machine::Machine;
use crate::table::{Table, count, plain_text};

/// Nodes changed by a commit, in a store with many.
const COMMIT_NODES: usize = 5_000;
/// Nodes whose reads are counted before a compaction.
const READ_NODES: usize = 1_000;
const SEED: u64 = 0x1dea;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store; it is not changed.
    pub store: PathBuf,
    /// Changed quads, as a percentage of the store's.
    pub percent: u64,
    /// Places of the changes to measure.
    pub places: Vec<Places>,
    /// Policies to measure.
    pub policies: Vec<Policy>,
    /// Bytes of pages in memory.
    pub cache_bytes: usize,
    /// Memory for changes; beyond it they are written as runs.
    pub memory_bytes: usize,
    /// Minimum number of changed quads for a compaction.
    pub compaction_quads_min: u64,
}

/// The places of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Places {
    /// All nodes alike.
    Even,
    /// 80 % of the changes in a fifth of the nodes.
    Eighty,
    /// 99 % of the changes in a hundredth of the nodes.
    NinetyNine,
}

impl Places {
    /// Returns the share of changes that the hot nodes get, and their share of all nodes.
    pub(super) fn hot(self) -> (f64, f64) {
        match self {
            Self::Even => (0.0, 1.0),
            Self::Eighty => (0.8, 0.2),
            Self::NinetyNine => (0.99, 0.01),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Eighty => "80/20",
            Self::NinetyNine => "99/1",
        }
    }
}

/// The work of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Write what is due.
    Due,
    /// Write the whole base, each time.
    Whole,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Quads of the store before.
    pub quads: u64,
    /// Bytes of its base before.
    pub base_bytes: u64,
    /// Changed quads, in percent.
    pub percent: u64,
    /// Each policy and place.
    pub results: Vec<Amplification>,
}

/// Results of one policy and place.
#[derive(Clone, Debug, Serialize)]
pub struct Amplification {
    /// The places of the changes.
    pub places: Places,
    /// The policy.
    pub policy: Policy,
    /// Removed and added quads.
    pub changes: u64,
    /// Bytes written, the log included.
    pub written: WrittenBytes,
    /// Compactions.
    pub compactions: usize,
    /// Largest size of the store's files but the log, while no compaction runs.
    pub bytes_max: u64,
    /// Pages read for the edges of a node with an empty cache: on the store as it was, and before each compaction that
    /// was due already when the last changes were made.
    pub pages_per_node: Vec<f64>,
    /// Duration.
    pub seconds: f64,
}

/// Runs the benchmark in `folder`, which must be on the device to measure.
pub fn run(folder: &Path, options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    let mut report = Report {
        machine: Machine::now(),
        quads: 0,
        base_bytes: 0,
        percent: options.percent,
        results: Vec::new(),
    };
    for &places in &options.places {
        for &policy in &options.policies {
            let copy = folder.join("changed");
            copy_store(&options.store, &copy)?;
            let storage = Arc::new(DirectStorage::open(&copy, false)?);
            let mut changing = Changing::open(storage, options, policy)?;
            report.quads = changing.store.manifest().quads;
            report.base_bytes = changing.store.manifest().base_bytes();
            let result = changing.run(places)?;
            progress(&result.line());
            report.results.push(result);
            drop(changing);
            std::fs::remove_dir_all(&copy)?;
        }
    }
    Ok(report)
}

/// A store that changes.
struct Changing<'o> {
    storage: Arc<dyn Storage>,
    counters: Arc<Counters>,
    store: Store,
    options: &'o Options,
    policy: Policy,
    /// All subjects that are IRIs, by id.
    nodes: Vec<TermId>,
    random: SmallRng,
    serial: u64,
}

impl<'o> Changing<'o> {
    fn open(storage: Arc<dyn Storage>, options: &'o Options, policy: Policy) -> Result<Self> {
        let (storage, counters) = Counters::of(storage);
        let opening = OpenOptions {
            cache_bytes: options.cache_bytes,
        };
        let maintenance = MaintenanceOptions {
            in_background: false,
            memory_bytes: options.memory_bytes,
            compaction_quads_min: options.compaction_quads_min,
            compaction_percent: match policy {
                Policy::Due => MaintenanceOptions::default().compaction_percent,
                // Never by itself.
                Policy::Whole => u64::MAX / u64::from(u32::MAX),
            },
            ..MaintenanceOptions::default()
        };
        let write = WriteOptions {
            maintenance,
            ..WriteOptions::default()
        };
        let store = Store::open_storage_for_writing(Arc::clone(&storage), opening, &write)?;
        let nodes = subjects(&store)?;
        Ok(Self {
            storage,
            counters,
            store,
            options,
            policy,
            nodes,
            random: SmallRng::seed_from_u64(SEED),
            serial: 0,
        })
    }

    fn run(&mut self, places: Places) -> Result<Amplification> {
        let started = Instant::now();
        let before = self.counters.written();
        let mut result = Amplification {
            places,
            policy: self.policy,
            changes: 0,
            written: WrittenBytes::default(),
            compactions: 0,
            bytes_max: 0,
            pages_per_node: vec![self.pages_per_node()?],
            seconds: 0.0,
        };
        let wanted = self.store.manifest().quads * self.options.percent / 100;
        while result.changes < wanted {
            let base = self.store.manifest().segment;
            result.changes += self.change(places)?;
            if self.is_due() {
                result.bytes_max = result.bytes_max.max(self.bytes());
                result.pages_per_node.push(self.pages_per_node()?);
                if self.policy == Policy::Whole {
                    let terms = self.terms_by_name()?;
                    self.store.compact()?;
                    self.nodes = self.found(&terms)?;
                }
            }
            self.store.maintain()?;
            result.compactions += usize::from(self.store.manifest().segment != base);
            result.bytes_max = result.bytes_max.max(self.bytes());
        }
        result.written = self.counters.written().since(&before);
        result.seconds = started.elapsed().as_secs_f64();
        Ok(result)
    }

    /// Returns whether so much has changed since the last compaction that another is due.
    fn is_due(&self) -> bool {
        let manifest = self.store.manifest();
        let changes: u64 = manifest.runs.iter().map(|run| run.changes()).sum();
        let percent = MaintenanceOptions::default().compaction_percent;
        changes >= self.options.compaction_quads_min && changes * 100 >= manifest.quads * percent
    }

    fn bytes(&self) -> u64 {
        let manifest = self.store.manifest();
        let runs: u64 = manifest.runs.iter().map(|run| run.bytes()).sum();
        manifest.base_bytes() + runs
    }

    /// Returns some nodes, sorted, each once.
    fn chosen(&mut self, count: usize, places: Places) -> Vec<TermId> {
        let (share, part) = places.hot();
        let hot = ((self.nodes.len() as f64 * part) as usize).max(1);
        let mut chosen: Vec<TermId> = (0..count)
            .map(|_| {
                let among = match self.random.random_bool(share) {
                    true => hot,
                    false => self.nodes.len(),
                };
                self.nodes[self.random.random_range(0..among)]
            })
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// Gives a quad of each of some nodes another object. Returns the number of removed and added quads.
    fn change(&mut self, places: Places) -> Result<u64> {
        let count = COMMIT_NODES.min(self.nodes.len() / 20).max(1);
        let nodes = self.chosen(count, places);
        let mut edges = Expansion::new(true, true);
        let mut transaction = self.store.begin()?;
        let snapshot = transaction.snapshot();
        snapshot.expand(End::Subject, &nodes, None, GraphFilter::Any, &mut edges)?;
        let chosen = self.edge_of_each(&edges);
        let keys: Vec<OwnedKey> = chosen
            .iter()
            .map(|_| {
                self.serial += 1;
                OwnedKey {
                    kind: TermKind::String,
                    bytes: format!("changed {:012}", self.serial).into_bytes(),
                }
            })
            .collect();
        let keys: Vec<TermKey<'_>> = keys.iter().map(OwnedKey::as_key).collect();
        let ids = transaction.ids(&keys)?;
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for (&row, id) in chosen.iter().zip(ids) {
            let node = nodes[edges.source[row] as usize].0;
            let (predicate, graph) = (edges.predicate[row], edges.graph[row]);
            removed.push([node, predicate, edges.other[row], graph]);
            added.push([node, predicate, id.0, graph]);
        }
        let changes = transaction.remove(&removed)? + transaction.insert(&added)?;
        transaction.commit()?;
        Ok(changes)
    }

    /// Returns a random row of each node.
    fn edge_of_each(&mut self, edges: &Expansion) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        let mut seen = 0;
        for row in 0..edges.len() {
            match chosen.last_mut() {
                Some(before) if edges.source[*before] == edges.source[row] => {
                    seen += 1;
                    if self.random.random_range(0..seen) == 0 {
                        *before = row;
                    }
                }
                _ => {
                    chosen.push(row);
                    seen = 1;
                }
            }
        }
        chosen
    }

    /// Returns the pages read for the edges of a node, when no page is in memory.
    fn pages_per_node(&mut self) -> Result<f64> {
        let nodes = self.chosen(READ_NODES, Places::Even);
        let opening = OpenOptions {
            cache_bytes: self.options.cache_bytes,
        };
        let reader = Store::open_storage(Arc::clone(&self.storage), opening)?;
        let snapshot = reader.snapshot();
        let before = snapshot.counters();
        let mut edges = Expansion::new(true, false);
        for node in &nodes {
            edges.clear();
            snapshot.expand(End::Subject, &[*node], None, GraphFilter::Any, &mut edges)?;
        }
        let pages = snapshot.counters().since(&before).total().pages();
        Ok(pages as f64 / nodes.len() as f64)
    }

    fn terms_by_name(&self) -> Result<Vec<OwnedKey>> {
        let mut keys = vec![None; self.nodes.len()];
        let snapshot = self.store.snapshot();
        snapshot.decode_keys(&self.nodes, |index, key| {
            keys[index] = Some(key.to_owned_key());
        })?;
        keys.into_iter().map(|key| key.context("a term")).collect()
    }

    fn found(&self, names: &[OwnedKey]) -> Result<Vec<TermId>> {
        let keys: Vec<TermKey<'_>> = names.iter().map(OwnedKey::as_key).collect();
        let found = self.store.snapshot().resolve_keys(&keys)?;
        let mut ids: Vec<TermId> = found.into_iter().flatten().collect();
        ids.sort_unstable();
        Ok(ids)
    }
}

/// Returns all subjects that are IRIs, by id.
fn subjects(store: &Store) -> Result<Vec<TermId>> {
    let snapshot = store.snapshot();
    let mut scan = snapshot.quads()?;
    let mut nodes: Vec<TermId> = Vec::new();
    while let Some(batch) = scan.next()? {
        for &id in &batch.columns[0] {
            let id = TermId(id);
            if id.kind() == TermKind::Iri && nodes.last() != Some(&id) {
                nodes.push(id);
            }
        }
    }
    anyhow::ensure!(!nodes.is_empty(), "the store has no subjects that are IRIs");
    Ok(nodes)
}

impl Amplification {
    fn line(&self) -> String {
        format!(
            "{} changes, {:?}: {} compactions, {} MiB of runs, orders and dictionary",
            self.places.name(),
            self.policy,
            self.compactions,
            self.written.of_maintenance() >> 20
        )
    }
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let title = format!(
            "Bytes written while {} % of {} quads change (MiB; the base has {})",
            self.percent,
            count(self.quads),
            self.base_bytes >> 20
        );
        let header = [
            "changes",
            "policy",
            "log",
            "runs",
            "orders",
            "dictionary",
            "of base",
            "space",
            "pages a node",
        ];
        let mut table = Table::new(title, &header);
        let base = self.base_bytes.max(1) as f64;
        for result in &self.results {
            let mib = |bytes: u64| (bytes >> 20).to_string();
            let written = &result.written;
            let pages: Vec<String> = result
                .pages_per_node
                .iter()
                .map(|p| format!("{p:.2}"))
                .collect();
            table.row(vec![
                result.places.name().to_owned(),
                format!("{:?}", result.policy).to_lowercase(),
                mib(written.log),
                mib(written.runs),
                mib(written.orders),
                mib(written.dictionary),
                format!("{:.2}", written.of_maintenance() as f64 / base),
                format!("{:.2}", result.bytes_max as f64 / base),
                pages.join(" "),
            ]);
        }
        table
            .note("of base: runs, orders and dictionary written, as a multiple of the base before");
        table.note(
            "space: the most that base and runs took together, as a multiple of the base before",
        );
        table.note("pages a node: read for a node's edges with an empty cache, first and before each compaction");
        plain_text("Write amplification", &self.machine.describe(), &[table])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::updates::store::tests::small_store;

    #[test]
    fn a_compaction_that_keeps_the_dictionary_writes_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            store: small_store(folder.path()),
            percent: 20,
            places: vec![Places::Even, Places::NinetyNine],
            policies: vec![Policy::Due, Policy::Whole],
            cache_bytes: 8 << 20,
            memory_bytes: 8 << 10,
            compaction_quads_min: 100,
        };
        let report = run(folder.path(), &options, |_| ()).expect("it runs");
        assert_eq!(report.results.len(), 4);
        for result in &report.results {
            assert!(result.changes >= 300 && result.written.runs > 0);
        }
        // Later changes of the same quad cancel earlier ones, so few nodes have few changes.
        for result in &report.results[..2] {
            assert!(result.compactions > 0);
        }
        assert_eq!(report.results[0].written.dictionary, 0);
        assert!(report.results[1].written.dictionary > 0);
        assert!(report.text().contains("99/1"));
    }
}
