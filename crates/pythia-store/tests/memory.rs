//! A transaction asks before it takes memory: what is allocated while it changes and commits is never more than
//! it had asked for. Counted by the allocator, so in a process of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxrdf::{NamedNode, TermRef};
use pythia_io::DirectStorage;
use pythia_rdf::TermKey;
use pythia_rdf::key::{self, Encoded};
use pythia_store::load::{LoadOptions, LoadProgress, load};
use pythia_store::write::WriteOptions;
use pythia_store::write::{Allowance, Transaction, TransactionOptions};
use pythia_store::{OpenOptions, Store, StoreError};

/// The system's allocator, which counts.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(
    unsafe_code,
    reason = "an allocator that counts what the system's gives"
)]
// SAFETY: all is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: as the caller ensures.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller ensures.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Memory up to a limit, and the most that was taken.
struct Limited {
    limit: usize,
    taken: usize,
    most: Arc<AtomicUsize>,
}

impl Allowance for Limited {
    fn set(&mut self, bytes: usize) -> Result<(), String> {
        if bytes > self.limit {
            return Err(format!("{bytes} bytes"));
        }
        self.most.fetch_max(bytes, Ordering::Relaxed);
        self.taken = bytes;
        Ok(())
    }

    fn left(&self) -> usize {
        self.limit - self.taken
    }
}

/// What is not asked for: batches of keys and rows, buffers of files, and what grows by more than was known.
const BESIDE_BYTES: usize = 12 << 20;
const BATCH: usize = 4096;

fn iris(names: impl Iterator<Item = String>) -> Vec<NamedNode> {
    names.map(NamedNode::new_unchecked).collect()
}

fn ids(transaction: &mut Transaction, iris: &[NamedNode]) -> Result<Vec<u64>, StoreError> {
    let mut keys = Vec::new();
    for iri in iris {
        let mut bytes = Vec::new();
        let Encoded::Key(kind) = key::encode(TermRef::from(iri.as_ref()), &mut bytes) else {
            unreachable!("an IRI has a key");
        };
        keys.push((kind, bytes));
    }
    let keys: Vec<TermKey<'_>> = keys
        .iter()
        .map(|(kind, bytes)| TermKey { kind: *kind, bytes })
        .collect();
    Ok(transaction.ids(&keys)?.iter().map(|id| id.0).collect())
}

/// Inserts batches of quads with two new terms each, and commits them.
fn insert(mut transaction: Transaction, prefix: &str, batches: usize) -> Result<u64, StoreError> {
    let predicate = ids(
        &mut transaction,
        &iris(["http://example.org/p".to_owned()].into_iter()),
    )?[0];
    for batch in 0..batches {
        let named = |kind: &str| {
            let names =
                (0..BATCH).map(|n| format!("http://example.org/{prefix}/{kind}{batch}-{n}"));
            iris(names)
        };
        let subjects = ids(&mut transaction, &named("subject"))?;
        let objects = ids(&mut transaction, &named("object"))?;
        let quads = subjects.iter().zip(&objects);
        let quads: Vec<[u64; 4]> = quads.map(|(&s, &o)| [s, predicate, o, 0]).collect();
        transaction.insert(&quads)?;
    }
    Ok(transaction.commit()?.added)
}

/// The most that was allocated at once besides what there was, and the most that was asked for.
fn measured(
    store: &Store,
    limit: usize,
    run: impl FnOnce(Transaction) -> Result<u64, StoreError>,
) -> (Result<u64, StoreError>, usize, usize) {
    let most = Arc::new(AtomicUsize::new(0));
    let allowance = Limited {
        limit,
        taken: 0,
        most: Arc::clone(&most),
    };
    let options = TransactionOptions {
        changes: Some(Box::new(allowance)),
        ..TransactionOptions::default()
    };
    let transaction = store.begin_with(options).unwrap();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let outcome = run(transaction);
    let taken = PEAK.load(Ordering::Relaxed) - before;
    (outcome, taken, most.load(Ordering::Relaxed))
}

#[test]
fn a_transaction_asks_before_it_takes_memory() {
    let folder = tempfile::tempdir().unwrap();
    let storage = DirectStorage::open(folder.path(), true).unwrap();
    let none = &Arc::<LoadProgress>::default();
    load(Arc::new(storage), Vec::new(), &LoadOptions::default(), none).unwrap();
    let mut options = WriteOptions::default();
    // What is committed stays where it is.
    options.maintenance.in_background = false;
    let open = OpenOptions {
        cache_bytes: 1 << 20,
    };
    let store = Store::open_for_writing(folder.path(), open, &options).unwrap();
    // The largest is written to the device before it is committed.
    for (round, batches) in [10, 50, 100].into_iter().enumerate() {
        let run = |transaction| insert(transaction, &format!("round{round}"), batches);
        let (outcome, taken, asked) = measured(&store, usize::MAX, run);
        assert_eq!(outcome.unwrap(), (batches * BATCH) as u64);
        assert!(
            taken <= asked + BESIDE_BYTES,
            "{batches} batches took {taken} bytes and asked for {asked}"
        );
    }

    // Another commit brings terms first, so that this one gets other ids.
    let run = |transaction| {
        insert(store.begin().unwrap(), "first", 1)?;
        insert(transaction, "later", 40)
    };
    let (outcome, taken, asked) = measured(&store, usize::MAX, run);
    assert_eq!(outcome.unwrap(), 40 * BATCH as u64);
    // What the first has brought stays.
    let first = 2 << 20;
    assert!(
        taken <= asked + first + BESIDE_BYTES,
        "a later commit took {taken} bytes and asked for {asked}"
    );

    // Whatever the limit, it is kept to.
    for limit in [4 << 20, 16 << 20, 40 << 20] {
        let (outcome, taken, asked) = measured(&store, limit, |t| insert(t, "limited", 80));
        assert!(
            matches!(outcome, Err(StoreError::Allowance { .. })),
            "{outcome:?}"
        );
        assert!(asked <= limit);
        assert!(
            taken <= limit + BESIDE_BYTES,
            "of {limit} bytes {taken} were taken"
        );
    }
}
