//! A small run of the whole benchmark, and the choice of scans and changes.

use pythia_store::QuadPattern;

use super::work::Kind;
use super::*;
use crate::updates::store::tests::small_store;

fn options(store: PathBuf) -> Options {
    Options {
        store,
        parts: Part::ALL.to_vec(),
        conditions: Condition::ALL.to_vec(),
        queries: vec![NamedQuery {
            id: "hop".to_owned(),
            template: "hop".to_owned(),
            query: "SELECT * { <http://e/1> <http://e/p1> ?x . ?x ?p ?y }".to_owned(),
        }],
        lengths: vec![1.0, 30.0, 100.0],
        each: 2,
        percent: vec![3.0],
        memory: vec![Memory::Root, Memory::Product],
        commits_per_second: 200,
        in_place_pages: vec![1],
        rounds: 2,
        cache_bytes: 8 << 20,
        cold_cache_bytes: Some(1 << 20),
        seed: 1,
    }
}

#[test]
fn the_benchmark_runs_in_small_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = small_store(folder.path());
    let work = folder.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    let report = run(&work, &options(store.clone()), |_| ()).expect("it runs");
    assert_eq!(std::fs::read_dir(&work).expect("listed").count(), 0);
    let manifest = Database::open(&store).expect("sound").store().manifest();
    assert!(manifest.log.is_none(), "the store itself was not changed");

    assert_eq!(report.stores.len(), 2);
    for store in &report.stores {
        // 3 % of 1,500 quads, up to a swap.
        assert!((42..=45).contains(&store.changes), "{store:?}");
        assert!(store.memory_bytes_max > 0 && store.root_pages > 0);
    }
    let cases = |chosen: fn(&Case) -> bool| {
        let comparisons = report.comparisons.iter();
        comparisons.filter(move |it| chosen(&it.case))
    };
    assert_eq!(
        cases(|case| matches!(case, Case::Changed { .. })).count(),
        4
    );
    for comparison in cases(|case| matches!(case, Case::Stream { .. } | Case::InPlace { .. })) {
        assert!(
            comparison.beside.expect("a rate").steps > 0,
            "{comparison:?}"
        );
    }
    for comparison in cases(|case| matches!(case, Case::Migration { .. })) {
        assert!(comparison.migration_seconds.len() >= 3, "{comparison:?}");
    }
    for comparison in cases(|case| !matches!(case, Case::Migration { .. })) {
        // Two ranges of subjects of two lengths, two predicates of about 30 %, everything, and a query.
        assert_eq!(comparison.works.len(), 8);
        for work in &comparison.works {
            assert_eq!(work.times_us.each_ref().map(Vec::len), [2, 2]);
            assert!(work.rows[0] > 0, "{work:?}");
            let pages = work.pages[0];
            match comparison.condition {
                Condition::Cold => assert!(pages.device > 0, "{work:?}"),
                Condition::Warm => assert_eq!(pages.device, 0, "{work:?}"),
            }
        }
    }
    let text = report.text();
    for part in [
        "1.6 to 2.2",
        "in place (simulated)",
        "during migration",
        "0 (0 %)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let html = report.html();
    assert!(html.contains("<svg") && html.contains("subjects, 30 % of the quads"));
}

#[test]
fn scans_have_the_lengths_that_were_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(small_store(folder.path())).expect("sound");
    let works = work::draw(&database.snapshot(), &[10.0, 30.0, 100.0], 3, 7).expect("drawn");
    let rows = |work: &Work| work.run(&database).expect("it runs").rows;
    for work in &works {
        let rows = rows(work);
        let (low, high) = match (work.kind.clone(), work.group.as_str()) {
            // Three quads of a subject: a range may have two more at each end.
            (Kind::Subjects(..), "subjects, 10 % of the quads") => (150, 154),
            (Kind::Subjects(..), "subjects, 30 % of the quads") => (450, 454),
            (Kind::Predicate(predicate), "predicates, about 30 % of the quads") => {
                let pattern = QuadPattern {
                    predicate: Some(predicate),
                    ..QuadPattern::default()
                };
                let quads = database.snapshot().count(&pattern).expect("counted");
                (quads, quads)
            }
            (Kind::Subjects(0, u64::MAX), "everything") => (1500, 1500),
            other => panic!("{other:?} was not asked for"),
        };
        assert!((low..=high).contains(&rows), "{}: {rows}", work.name);
    }
    // Three predicates of a third of the quads: none is of about 10 %.
    assert_eq!(works.len(), 3 + 3 + 3 + 1);
}

#[test]
fn changes_cover_the_store_in_random_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(small_store(folder.path())).expect("sound");
    let swaps = changes::swaps(&database.snapshot(), 10.0, 1).expect("chosen");
    assert!((73..=75).contains(&swaps.len()), "{}", swaps.len());
    let subjects: Vec<u64> = swaps.iter().map(|[removed, _]| removed[0]).collect();
    let ascending = subjects.windows(2).filter(|pair| pair[0] < pair[1]);
    assert!(
        (18..56).contains(&ascending.count()),
        "in order: {subjects:?}"
    );
    let mut sorted = subjects;
    sorted.sort_unstable();
    sorted.dedup();
    // Of 500 subjects, about one in seven.
    assert!(sorted.len() > 65, "{sorted:?}");
    let widest = sorted.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(widest < Some(20), "{sorted:?}");
}

#[test]
fn little_memory_makes_many_runs_and_is_kept_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("changed");
    copy_store(&small_store(folder.path()), &path).expect("copied");
    let swaps = {
        let database = Database::open(&path).expect("sound");
        changes::swaps(&database.snapshot(), 20.0, 1).expect("chosen")
    };
    // M is 2 pages of 4 KiB for 4 pages of changes.
    let rule = (Memory::Root, 4);
    let made = changes::make(&path, 8 << 20, (20.0, &swaps), rule, 4096).expect("made");
    assert_eq!((made.root_pages, made.memory_bytes_limit), (2, 8192));
    assert!((296..=300).contains(&made.changes), "{made:?}");
    assert!(
        made.device_runs >= 2 && made.run_memory_bytes > 0,
        "{made:?}"
    );
    assert!(made.memory_bytes <= made.memory_bytes_limit, "{made:?}");
    assert!(
        made.memory_bytes_max < 2 * made.memory_bytes_limit,
        "{made:?}"
    );
}

#[test]
fn senseless_options_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = small_store(folder.path());
    let refused = |change: fn(&mut Options)| {
        let mut options = options(store.clone());
        change(&mut options);
        run(folder.path(), &options, |_| ())
            .expect_err("refused")
            .to_string()
    };
    let too_long = refused(|options| options.lengths = vec![101.0]);
    assert!(too_long.contains("at most 100 %"), "{too_long}");
    let too_large = refused(|options| options.cold_cache_bytes = Some(64 << 20));
    assert!(too_large.contains("a quarter of the store"), "{too_large}");
    let no_rate = refused(|options| options.commits_per_second = 0);
    assert!(no_rate.contains("rate of commits"), "{no_rate}");
    let nothing = refused(|options| {
        options.lengths.clear();
        options.queries.clear();
    });
    assert!(nothing.contains("nothing to compare"), "{nothing}");
}

#[test]
fn a_store_with_changes_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = small_store(folder.path());
    let database = Database::open_for_writing(&store).expect("sound");
    commit(&database, 0, &mut 0, 10).expect("committed");
    drop(database);
    let error = run(folder.path(), &options(store), |_| ()).expect_err("refused");
    assert!(error.to_string().contains("pythia compact"), "{error}");
}
