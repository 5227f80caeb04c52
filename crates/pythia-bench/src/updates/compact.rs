//! The cost of a compaction, by the place of added terms in the order of terms.
//!
//! The benchmark works on copies of a store. It adds quads with new subjects, one for each, and compacts. New subjects
//! sort after all terms; or spread, each beside a term of the store; or all right before one term, the most frequent
//! predicate: then every row needs the new id of a term that many new ones are next to.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use pythia::{Database, Options as DatabaseOptions, Term};
use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};
use pythia_store::write::MaintenanceOptions;
use pythia_store::write::WriteOptions;
use pythia_store::{Snapshot, Store};
use serde::Serialize;

use super::store::copy_store;
use crate::machine::Machine;
use crate::table::{Table, count, plain_text};

/// Quads of each commit.
const COMMIT_QUADS: u64 = 50_000;
/// Ticks of processor time that the system counts per second.
const TICKS: f64 = 100.0;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store; it is not changed.
    pub store: PathBuf,
    /// Added quads.
    pub quads: u64,
    /// Places of new terms to measure.
    pub places: Vec<NewTerms>,
    /// Bytes of pages in memory.
    pub cache_bytes: usize,
}

/// The place of new terms in the order of terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NewTerms {
    /// After all others.
    Behind,
    /// Beside others, all over the store.
    Spread,
    /// Right before the most frequent predicate.
    Crowded,
}

impl NewTerms {
    /// All places.
    pub const ALL: [Self; 3] = [Self::Behind, Self::Spread, Self::Crowded];

    fn name(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Spread => "spread",
            Self::Crowded => "crowded",
        }
    }
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Quads of the store before.
    pub store_quads: u64,
    /// Added quads.
    pub quads: u64,
    /// Each compaction.
    pub bases: Vec<CompactionResult>,
}

/// Results of one compaction.
#[derive(Clone, Debug, Serialize)]
pub struct CompactionResult {
    /// The place of new terms.
    pub place: NewTerms,
    /// Duration.
    pub seconds: f64,
    /// Processor time, if the system provides it.
    pub cpu_seconds: Option<f64>,
    /// Quads of the new base.
    pub quads: u64,
    /// Bytes of the new base.
    pub bytes: u64,
}

/// Runs the benchmark in `folder`, which must be on the device to measure.
pub fn run(folder: &Path, options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    let mut report = Report {
        machine: Machine::now(),
        store_quads: 0,
        quads: options.quads,
        bases: Vec::new(),
    };
    for &place in &options.places {
        let copy = folder.join("compacted");
        copy_store(&options.store, &copy)?;
        let mut maintenance = MaintenanceOptions {
            in_background: false,
            ..MaintenanceOptions::default()
        };
        maintenance.compaction.tmp = folder.to_owned();
        let open = DatabaseOptions {
            cache_bytes: options.cache_bytes,
            write: Some(WriteOptions {
                maintenance,
                ..WriteOptions::default()
            }),
            ..DatabaseOptions::default()
        };
        let database = Database::open_with(&copy, open).context("open the copy")?;
        report.store_quads = database.snapshot().statistics().quads;
        add(&database, place, options.quads)?;
        let base = measure(database.store(), place)?;
        progress(&base.line());
        report.bases.push(base);
        drop(database);
        std::fs::remove_dir_all(&copy)?;
    }
    Ok(report)
}

fn measure(store: &Store, place: NewTerms) -> Result<CompactionResult> {
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let written = store.compact()?;
    Ok(CompactionResult {
        place,
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds().zip(cpu).map(|(after, before)| after - before),
        quads: written.quads,
        bytes: written.bytes,
    })
}

/// Returns the user and system time of this process.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, in parentheses, may contain spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

/// Adds quads with new subjects, the most frequent predicate, and one of its objects.
fn add(database: &Database, place: NewTerms, quads: u64) -> Result<()> {
    let snapshot = database.snapshot();
    let statistics = snapshot.statistics();
    let most = statistics.predicates.iter().max_by_key(|p| p.quads);
    let predicate = most.context("the store has no quads")?.predicate;
    let crowded = right_before(&iris(&snapshot, &[predicate])?[0]);
    let terms = snapshot.sorted_payloads(TermKind::Iri);
    let beside = |number: u64| {
        let rank = u128::from(number) * u128::from(terms) / u128::from(quads);
        TermId::new(TermKind::Iri, rank as u64)
    };
    let mut start = 0;
    while start < quads {
        let numbers = start..(start + COMMIT_QUADS).min(quads);
        start = numbers.end;
        let names: Vec<String> = match place {
            NewTerms::Behind => numbers.map(|n| format!("zzz:added/{n:012}")).collect(),
            NewTerms::Crowded => numbers.map(|n| format!("{crowded}{n:012}")).collect(),
            NewTerms::Spread => {
                let neighbours: Vec<TermId> = numbers.clone().map(beside).collect();
                let neighbours = iris(&snapshot, &neighbours)?;
                let named = neighbours.iter().zip(numbers);
                named.map(|(iri, n)| format!("{iri}~{n:012}")).collect()
            }
        };
        commit(database, predicate, &names)?;
    }
    Ok(())
}

fn iris(snapshot: &Snapshot, ids: &[TermId]) -> Result<Vec<String>> {
    let terms = snapshot.decode(ids)?.into_iter();
    let iri = |term| match term {
        Term::NamedNode(node) => Ok(node.into_string()),
        other => bail!("{other} is no IRI"),
    };
    terms.map(iri).collect()
}

/// Returns a prefix of IRIs that sort right before `iri`.
fn right_before(iri: &str) -> String {
    let last = iri.chars().next_back().unwrap_or('b');
    let before = char::from_u32(last as u32 - 1).unwrap_or('a');
    format!("{}{before}~", &iri[..iri.len() - last.len_utf8()])
}

/// Commits quads with these subjects and one predicate.
fn commit(database: &Database, predicate: TermId, subjects: &[String]) -> Result<()> {
    let mut transaction = database.store().begin()?;
    let key = |name: &String| OwnedKey {
        kind: TermKind::Iri,
        bytes: name.clone().into_bytes(),
    };
    let keys: Vec<OwnedKey> = subjects.iter().map(key).collect();
    let keys: Vec<TermKey<'_>> = keys.iter().map(OwnedKey::as_key).collect();
    let ids = transaction.ids(&keys)?;
    let quads = ids.iter().map(|id| [id.0, predicate.0, predicate.0, 0]);
    transaction.insert(&quads.collect::<Vec<_>>())?;
    transaction.commit()?;
    Ok(())
}

impl CompactionResult {
    fn line(&self) -> String {
        format!(
            "new terms {}: {:.1} s, {} quads",
            self.place.name(),
            self.seconds,
            count(self.quads)
        )
    }
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let title = format!(
            "A new base of {} quads and {} more",
            count(self.store_quads),
            count(self.quads)
        );
        let header = ["new terms", "seconds", "processor s", "MiB"];
        let mut table = Table::new(title, &header);
        for base in &self.bases {
            let cpu = base.cpu_seconds;
            table.row(vec![
                base.place.name().to_owned(),
                format!("{:.1}", base.seconds),
                cpu.map_or_else(|| "?".to_owned(), |cpu| format!("{cpu:.1}")),
                (base.bytes >> 20).to_string(),
            ]);
        }
        plain_text("Compaction", &self.machine.describe(), &[table])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::updates::store::tests::small_store;

    #[test]
    fn a_small_run_makes_a_base_of_each_kind() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            store: small_store(folder.path()),
            quads: 700,
            places: NewTerms::ALL.to_vec(),
            cache_bytes: 8 << 20,
        };
        let report = run(folder.path(), &options, |_| ()).expect("it runs");
        assert_eq!(report.bases.len(), 3);
        for base in &report.bases {
            assert_eq!(base.quads, report.store_quads + 700);
        }
        assert!(report.text().contains("crowded"), "{}", report.text());
    }

    #[test]
    fn names_right_before_an_iri_sort_there() {
        let before = format!("{}000", right_before("http://e/type"));
        assert_eq!(before, "http://e/typd~000");
        assert!(before.as_str() < "http://e/type");
    }
}
