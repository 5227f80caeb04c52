//! Sound stores pass; every flipped bit is found.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::{OwnedKey, TermId, TermKind};

use super::{Problem, VerifyOptions, VerifyReport, verify};
use crate::delta::device::tests::{Model, base_quads, runs, sum};
use crate::manifest::{Manifest, Unnamed};
use crate::testing::{Quad, SMALL_PAGES, TERMS, id, quads, write_store};

fn check(storage: Arc<MemoryStorage>) -> VerifyReport {
    verify(storage, VerifyOptions::default(), &mut |_| {})
}

fn copy(from: &MemoryStorage, names: &[String]) -> Vec<(String, Vec<u8>)> {
    let read = |name: &String| (name.clone(), from.read_all(name).expect("listed"));
    names.iter().map(read).collect()
}

fn names(storage: &MemoryStorage) -> Vec<String> {
    let names = ["segment-000001", "dictionary-000001"]
        .into_iter()
        .flat_map(|folder| {
            let files = storage.list(folder).expect("a folder of the base");
            files
                .into_iter()
                .map(move |file| format!("{folder}/{file}"))
        });
    names.chain(["MANIFEST".to_owned()]).collect()
}

fn put(storage: &MemoryStorage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name).expect("memory");
    file.append(bytes).expect("memory");
    file.sync().expect("memory");
}

/// Quads with lists of every kind: inline, external, in several graphs.
fn some_quads() -> BTreeSet<Quad> {
    let iri = |rank: u64| id(TermKind::Iri, rank);
    let mut quads = BTreeSet::new();
    for node in 0..TERMS {
        quads.insert([iri(node), iri(50), iri(7), 0]);
        quads.insert([
            iri(7),
            iri(51),
            id(TermKind::String, node),
            iri(100 + node % 3),
        ]);
        quads.insert([iri(node), iri(52), id(TermKind::Integer, node * 5), 0]);
        quads.insert([id(TermKind::BlankNode, node), iri(53), iri(node / 3), 0]);
    }
    quads
}

#[test]
fn a_sound_store_is_sound() {
    let quads = some_quads();
    let report = check(write_store(&quads, SMALL_PAGES));
    assert_eq!(report.problems, []);
    assert_eq!(report.quads, quads.len() as u64);
    assert_eq!(report.terms, TERMS * TermKind::DICTIONARY.len() as u64);
    assert!(report.pages > 20);
    assert!(check(write_store(&BTreeSet::new(), SMALL_PAGES)).is_sound());
}

#[test]
fn no_store_is_a_problem() {
    let report = check(Arc::new(MemoryStorage::new()));
    assert_eq!(report.problems.len(), 1);
}

#[test]
fn every_flipped_bit_is_found() {
    let storage = write_store(&some_quads(), SMALL_PAGES);
    let files = copy(&storage, &names(&storage));
    let total: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let flip = |name: &str, bytes: &[u8], bit: usize| {
        let damaged = Arc::new(MemoryStorage::new());
        for (other, bytes) in &files {
            put(&damaged, other, bytes);
        }
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        put(&damaged, name, &bytes);
        let report = check(damaged);
        assert!(!report.is_sound(), "{name}, bit {bit}");
        let named = report.problems.iter().any(|problem| problem.file == name);
        assert!(named, "{name}, bit {bit}: {:?}", report.problems);
    };
    // The first and the last bit of each file, then places all over.
    for (name, bytes) in &files {
        flip(name, bytes, 0);
        flip(name, bytes, bytes.len() * 8 - 1);
    }
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..300 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut place = (state >> 20) as usize % total;
        for (name, bytes) in &files {
            if place < bytes.len() {
                flip(name, bytes, place * 8 + (state >> 61) as usize);
                break;
            }
            place -= bytes.len();
        }
    }
}

#[test]
fn a_file_cut_short_or_missing_is_found() {
    let storage = write_store(&some_quads(), SMALL_PAGES);
    for (name, bytes) in copy(&storage, &names(&storage)) {
        put(&storage, &name, &bytes[..bytes.len() / 2]);
        assert!(!check(storage.clone()).is_sound(), "{name} cut short");
        storage.remove(&name).expect("memory");
        assert!(!check(storage.clone()).is_sound(), "{name} missing");
        put(&storage, &name, &bytes);
    }
    assert!(check(storage).is_sound());
}

#[test]
fn problems_beyond_the_limit_are_counted() {
    let storage = write_store(&some_quads(), SMALL_PAGES);
    let name = "segment-000001/spo.pages";
    let mut bytes = storage.read_all(name).expect("there");
    for page in bytes.chunks_mut(4096) {
        page[100] ^= 1;
    }
    let pages = bytes.len() as u64 / 4096;
    put(&storage, name, &bytes);
    let options = VerifyOptions {
        problems_max: 3,
        ..VerifyOptions::default()
    };
    let report = verify(storage, options, &mut |_| {});
    assert_eq!(report.problems.len(), 3);
    assert_eq!(report.unlisted_problems, pages - 3);
    assert_eq!(report.problems[1].page, Some(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_store_is_sound(quads in quads()) {
        let report = check(write_store(&quads, SMALL_PAGES));
        prop_assert_eq!(report.problems, []);
    }
}

/// Makes a store whose manifest lists runs.
fn with_runs(models: &[Model]) -> Arc<MemoryStorage> {
    let storage = write_store(&base_quads(), SMALL_PAGES);
    let as_storage: Arc<dyn Storage> = storage.clone();
    let mut manifest = Manifest::read(&*storage).expect("sound").expect("there");
    for (number, model) in models.iter().enumerate() {
        let entry = model.write(&as_storage, number as u64 + 1);
        manifest.runs.push(entry.expect("memory"));
    }
    manifest
        .switch(&*storage, Unnamed::new(&*storage))
        .expect("memory");
    storage
}

/// Makes a run with a quad of two new terms, which did not come sorted.
fn one_run() -> Model {
    let mut model = Model {
        first: [TERMS; TermKind::DICTIONARY.len()],
        ..Model::default()
    };
    for (serial, name) in ["b", "a"].iter().enumerate() {
        let kind = TermKind::Iri;
        let bytes = name.as_bytes().to_vec();
        let id = TermId::new(kind, TERMS + serial as u64);
        model.terms.insert(OwnedKey { kind, bytes }, id);
    }
    let iri = |rank| id(TermKind::Iri, rank);
    let quad = [iri(TERMS), iri(3), iri(TERMS + 1), 0];
    model.quads.insert(quad, true);
    model
}

#[test]
fn a_quad_of_a_term_that_no_dictionary_has_is_found() {
    let mut later = one_run();
    let iri = |rank| id(TermKind::Iri, rank);
    let term = TermId::new(TermKind::Iri, TERMS + 9);
    later.first = [TERMS + 9; TermKind::DICTIONARY.len()];
    later.terms.retain(|key, _| key.bytes == b"a");
    later.terms.iter_mut().for_each(|(_, id)| *id = term);
    later.quads.clear();
    later
        .quads
        .insert([term.0, iri(3), iri(TERMS + 1), 0], true);
    let mut first = one_run();
    first.terms = first
        .terms
        .into_iter()
        .map(|(key, id)| match key.bytes == b"a" {
            true => (
                OwnedKey {
                    bytes: b"c".to_vec(),
                    ..key
                },
                id,
            ),
            false => (key, id),
        })
        .collect();
    // Numbers left out between the runs are harmless ...
    let report = check(with_runs(&[first.clone(), later.clone()]));
    assert_eq!(report.problems, []);
    // ... unless a quad has one of them.
    later
        .quads
        .insert([term.0, iri(3), iri(TERMS + 4), 0], true);
    let problems = check(with_runs(&[first, later])).problems;
    assert!(!problems.is_empty());
    let is_of_run = |problem: &Problem| problem.file.starts_with("run-000002/added/");
    assert!(problems.iter().all(is_of_run), "{problems:?}");
}

#[test]
fn every_flipped_bit_of_a_run_is_found() {
    let mut model = one_run();
    let removed = *base_quads().first().expect("there are some");
    model.quads.insert(removed, false);
    let storage = with_runs(&[model]);
    let report = check(storage.clone());
    assert_eq!(report.problems, []);
    assert_eq!(report.quads, base_quads().len() as u64);
    for folder in ["run-000001", "run-000001/added", "run-000001/removed"] {
        for file in storage.list(folder).expect("a run") {
            let name = format!("{folder}/{file}");
            let Ok(bytes) = storage.read_all(&name) else {
                continue;
            };
            for bit in (0..bytes.len() * 8).step_by(1009) {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                put(&storage, &name, &damaged);
                let problems = check(storage.clone()).problems;
                let named = problems.iter().any(|problem| problem.file == name);
                assert!(named, "{name}, bit {bit}: {problems:?}");
            }
            put(&storage, &name, &bytes);
        }
    }
    assert!(check(storage).is_sound());
}

#[test]
fn a_run_that_does_not_fit_the_base_is_found() {
    let message = |models: &[Model]| {
        let problems = check(with_runs(models)).problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].to_string()
    };
    let mut model = one_run();
    let known = *base_quads().first().expect("there are some");
    model.quads.insert(known, true);
    assert!(message(&[model]).contains("adds a quad that the base has"));
    let mut model = one_run();
    let quad = *model.quads.first_key_value().expect("one").0;
    model.quads.insert(quad, false);
    assert!(message(&[model]).contains("removes a quad that the base does not have"));
    assert!(message(&[one_run(), one_run()]).contains("is Iri:3001 already"));
    let mut model = one_run();
    model.terms = [
        (b"http://example.org/00005", 0),
        (b"http://example.org/a5555", 1),
    ]
    .map(|(bytes, serial)| {
        let (kind, bytes) = (TermKind::Iri, bytes.to_vec());
        (OwnedKey { kind, bytes }, TermId::new(kind, TERMS + serial))
    })
    .into();
    assert!(message(&[model]).contains("is Iri:5 already"));
    let mut model = one_run();
    let iri = |rank| id(TermKind::Iri, rank);
    model
        .quads
        .insert([iri(1), iri(1), iri(TERMS + 2), 0], true);
    let problems = check(with_runs(&[model])).problems;
    assert!(
        problems[0].message.contains("no term of the store"),
        "{problems:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_runs_are_sound(models in runs()) {
        let report = check(with_runs(&models));
        prop_assert_eq!(report.problems, []);
        let changes = sum(&models).quads;
        let added = changes.values().filter(|added| **added).count();
        let removed = changes.len() - added;
        prop_assert_eq!(report.quads as usize, base_quads().len() + added - removed);
    }
}
