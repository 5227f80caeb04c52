//! The writes of the campaigns, and the contents expected afterwards.
//!
//! Some clients commit one transaction after the other. The `n`th commit of a client adds some quads of subject `n` and
//! removes one of the commit before. A loader loads one file after the other, each with quads of one subject. The
//! contents of the store thus follow from a few numbers: the last commit of each client, the last load, and the last step
//! of the client that changes whole graphs ([`graphs`]). [`Ledger`] has them. A commit, a load or a step is in the store
//! as a whole or not at all. A history may begin in a store of an earlier format ([`super::origins`]), whose quads stay.
//!
//! In addition, single quads are inserted and deleted again. Their terms remain, and later loads use them.

use std::fmt::Write as _;
use std::io::Cursor;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use pythia_rdf::{Compression, RdfFormat, Source, TermId, TermKey, TermKind};
use pythia_store::load::{LoadError, LoadOptions, LoadProgress};
use pythia_store::{GraphFilter, QuadPattern, Snapshot, Store, StoreError};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::graphs;
use super::origins::Origin;

/// Maximum number of quads of a commit.
const QUADS_MAX: u64 = 40;
/// Maximum number of quads of a load.
const LOADED_MAX: u64 = 1500;
/// Cancelled terms that a load uses.
const REVIVED: u64 = 8;

/// The predicate of the quads that are inserted and deleted again.
const CANCELLED: &str = "http://example.org/cancelled";

/// The beginnings of the subjects.
const CLIENTS: &str = "http://example.org/client/";
const LOADS: &str = "http://example.org/load/";
const CANCELLED_SUBJECTS: &str = "http://example.org/cancelled/";

/// The error that acknowledged data is missing, or that a commit or load is there in part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Lost(pub(super) String);

/// The progress of a history: the last commit of each client, the last load, and the last change of whole graphs; 0
/// before the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ledger {
    pub(super) commits: Vec<u64>,
    pub(super) loads: u64,
    pub(super) graphs: u64,
    /// The format of the store in which the history began; `None`: it began in an empty store.
    pub(super) origin: Option<u32>,
}

impl Ledger {
    /// Returns the beginning of a history of some clients.
    pub(super) fn new(clients: usize) -> Self {
        Self {
            commits: vec![0; clients],
            loads: 0,
            graphs: 0,
            origin: None,
        }
    }

    /// Returns the same progress of a history that began in a store of this format.
    pub(super) fn begun_in(self, origin: Option<u32>) -> Self {
        Self { origin, ..self }
    }

    /// Returns the number of commits, loads and changes of whole graphs.
    pub(super) fn total(&self) -> u64 {
        self.commits.iter().sum::<u64>() + self.loads + self.graphs
    }

    /// Raises each number to that of another ledger.
    pub(super) fn raise(&mut self, other: &Self) {
        for (commit, other) in self.commits.iter_mut().zip(&other.commits) {
            *commit = (*commit).max(*other);
        }
        self.loads = self.loads.max(other.loads);
        self.graphs = self.graphs.max(other.graphs);
    }

    /// Returns true if no number is less than that of another ledger.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut raised = other.clone();
        raised.raise(self);
        raised == *self
    }
}

/// Returns the number of quads that the `n`th commit of a client adds.
fn quads_of(client: usize, number: u64) -> u64 {
    let mut random = SmallRng::seed_from_u64(number.wrapping_mul(31) ^ (client as u64) << 40);
    // The next commit removes one of them.
    random.random_range(2..=QUADS_MAX)
}

/// Returns the number of quads of the `n`th load: mostly few.
fn loaded_by(number: u64) -> u64 {
    let mut random = SmallRng::seed_from_u64(number.wrapping_mul(97));
    let most = if number.is_multiple_of(5) {
        LOADED_MAX
    } else {
        LOADED_MAX / 20
    };
    random.random_range(REVIVED + 1..=most)
}

fn subject(client: usize, number: u64) -> String {
    format!("{CLIENTS}{client}/{number}")
}

fn load_subject(number: u64) -> String {
    format!("{LOADS}{number}")
}

pub(super) fn predicate(number: u64) -> String {
    format!("http://example.org/p{}", number % QUADS_MAX)
}

fn cancelled(number: u64) -> String {
    format!("{CANCELLED_SUBJECTS}{number}")
}

/// Returns whether a term, as text, is a subject of the history's quads.
fn is_subject(term: &str) -> bool {
    let beginnings = [CLIENTS, LOADS, CANCELLED_SUBJECTS, graphs::SUBJECTS];
    let name = term.strip_prefix('<').unwrap_or(term);
    beginnings.iter().any(|start| name.starts_with(start))
}

pub(super) fn iri(name: &str) -> TermKey<'_> {
    TermKey {
        kind: TermKind::Iri,
        bytes: name.as_bytes(),
    }
}

/// Adds the quads of a commit and removes one of the commit before; retries if a compaction intervenes.
pub(super) fn commit(store: &Store, client: usize, number: u64) -> Result<(), StoreError> {
    let added = quads_of(client, number);
    let mut names = vec![subject(client, number), subject(client, number - 1)];
    names.extend((0..added).map(predicate));
    let keys: Vec<TermKey<'_>> = names.iter().map(|name| iri(name)).collect();
    again(|| {
        let mut transaction = store.begin()?;
        let ids = transaction.ids(&keys)?;
        let quad = |subject: usize, predicate: u64| {
            let predicate = ids[2 + predicate as usize].0;
            [ids[subject].0, predicate, predicate, 0]
        };
        transaction.remove(&[quad(1, 0)])?;
        let quads: Vec<[u64; 4]> = (0..added).map(|predicate| quad(0, predicate)).collect();
        transaction.insert(&quads)?;
        transaction.commit().map(|_| ())
    })
}

/// Inserts a quad and deletes it again. Its terms are among those of the load `of` or one close to it.
pub(super) fn cancel(store: &Store, of: u64, number: u64) -> Result<(), StoreError> {
    let name = cancelled(of * REVIVED + number % (2 * REVIVED));
    for inserts in [true, false] {
        again(|| {
            let mut transaction = store.begin()?;
            let ids = transaction.ids(&[iri(&name), iri(CANCELLED)])?;
            let quad = [[ids[0].0, ids[1].0, ids[0].0, 0]];
            match inserts {
                true => transaction.insert(&quad)?,
                false => transaction.remove(&quad)?,
            };
            transaction.commit().map(|_| ())
        })?;
    }
    Ok(())
}

/// Repeats a transaction while others are in its way.
pub(super) fn again(mut attempt: impl FnMut() -> Result<(), StoreError>) -> Result<(), StoreError> {
    loop {
        match attempt() {
            Err(error) if error.is_retryable() => {}
            outcome => return outcome,
        }
    }
}

/// Loads the `n`th file.
pub(super) fn load(store: &Store, number: u64, options: &LoadOptions) -> Result<(), LoadError> {
    let source = Source::from_reader(
        format!("load {number}"),
        Cursor::new(load_text(number)),
        RdfFormat::NTriples,
        Compression::None,
    )?;
    let progress = Arc::new(LoadProgress::default());
    store.load(vec![source], options, &progress).map(|_| ())
}

/// Returns the `n`th file, as N-Triples.
pub(super) fn load_text(number: u64) -> String {
    let mut text = String::new();
    let subject = load_subject(number);
    for quad in 0..loaded_by(number) {
        let predicate = predicate(quad);
        // Writing to a string does not fail.
        let _ = if quad < REVIVED {
            let object = cancelled(number * REVIVED + quad);
            writeln!(text, "<{subject}> <{predicate}> <{object}> .")
        } else {
            writeln!(text, "<{subject}> <{predicate}> \"{number} {quad}\" .")
        };
    }
    text
}

/// Returns a commit as SPARQL.
pub(super) fn commit_text(client: usize, number: u64) -> String {
    let (first, subject) = (predicate(0), subject(client, number));
    let mut text = format!(
        "DELETE DATA {{ <{}> <{first}> <{first}> }} ;\nINSERT DATA {{\n",
        self::subject(client, number - 1)
    );
    for quad in 0..quads_of(client, number) {
        let predicate = predicate(quad);
        let _ = writeln!(text, "<{subject}> <{predicate}> <{predicate}> .");
    }
    text.push('}');
    text
}

/// Returns [`cancel`] as two SPARQL requests.
pub(super) fn cancel_texts(of: u64, number: u64) -> [String; 2] {
    let name = cancelled(of * REVIVED + number % (2 * REVIVED));
    ["INSERT", "DELETE"].map(|word| format!("{word} DATA {{ <{name}> <{CANCELLED}> <{name}> }}"))
}

/// Finds the progress of the history in a store: `known` was found before, and `at_least` was acknowledged.
///
/// # Errors
/// If something acknowledged is missing, or a commit or load is there in part.
pub(super) fn find(store: &Store, known: &Ledger, at_least: &Ledger) -> Result<Ledger> {
    let snapshot = store.snapshot();
    let mut found = Ledger::new(known.commits.len()).begun_in(at_least.origin);
    for (client, last) in found.commits.iter_mut().enumerate() {
        *last = last_commit(
            &snapshot,
            client,
            known.commits[client],
            at_least.commits[client],
        )?;
    }
    found.loads = last_load(&snapshot, known.loads, at_least.loads)?;
    found.graphs = graphs::find(&snapshot, at_least.graphs)?;
    Ok(found)
}

/// Does the same as [`find`] from the beginning, and fails if the store has any other quads.
pub(super) fn find_all(store: &Store, at_least: &Ledger) -> Result<Ledger> {
    let found = find(store, &Ledger::new(at_least.commits.len()), at_least)?;
    let snapshot = store.snapshot();
    let cancelled = match snapshot.resolve_key(iri(CANCELLED))? {
        None => 0,
        Some(predicate) => count(&snapshot, None, Some(predicate))?,
    };
    let quads = count(&snapshot, None, None)? - cancelled;
    let origin = found.origin.map(Origin::of).transpose()?;
    let expected = quads_until(&found) + origin.map_or(0, Origin::quads);
    ensure!(
        quads == expected,
        Lost(format!("{quads} quads where {found:?} makes {expected}"))
    );
    if let Some(origin) = origin {
        origin.check(&snapshot, is_subject)?;
    }
    Ok(found)
}

/// Returns the number of quads of a history.
fn quads_until(ledger: &Ledger) -> u64 {
    let of_client = |(client, last): (usize, &u64)| {
        let added: u64 = (1..=*last).map(|number| quads_of(client, number)).sum();
        added - last.saturating_sub(1)
    };
    let commits: u64 = ledger.commits.iter().enumerate().map(of_client).sum();
    let loads: u64 = (1..=ledger.loads).map(loaded_by).sum();
    commits + loads + graphs::quads_until(ledger.graphs)
}

fn last_commit(snapshot: &Snapshot, client: usize, from: u64, at_least: u64) -> Result<u64> {
    let count = |number: u64| count_of(snapshot, &subject(client, number));
    let mut last = from.saturating_sub(1);
    while count(last + 1)? > 0 || last < at_least {
        last += 1;
        let (found, added) = (count(last)?, quads_of(client, last));
        let is_last = count(last + 1)? == 0;
        // All commits except the last have lost one quad.
        let expected = if is_last { added } else { added - 1 };
        ensure!(
            found == expected,
            Lost(format!(
                "client {client}, commit {last} of {at_least} acknowledged: {found} quads, not {expected}"
            ))
        );
    }
    Ok(last)
}

fn last_load(snapshot: &Snapshot, from: u64, at_least: u64) -> Result<u64> {
    let count = |number: u64| count_of(snapshot, &load_subject(number));
    let mut last = from.saturating_sub(1);
    while count(last + 1)? > 0 || last < at_least {
        last += 1;
        let (found, expected) = (count(last)?, loaded_by(last));
        ensure!(
            found == expected,
            Lost(format!(
                "load {last} of {at_least} acknowledged: {found} quads, not {expected}"
            ))
        );
    }
    Ok(last)
}

fn count_of(snapshot: &Snapshot, subject: &str) -> Result<u64> {
    match snapshot.resolve_key(iri(subject))? {
        None => Ok(0),
        Some(subject) => count(snapshot, Some(subject), None),
    }
}

fn count(snapshot: &Snapshot, subject: Option<TermId>, predicate: Option<TermId>) -> Result<u64> {
    let pattern = QuadPattern {
        subject,
        predicate,
        object: None,
        graph: GraphFilter::Any,
    };
    snapshot.count(&pattern).context("count quads")
}
