//! A small run of the whole benchmark, and its parameters.

use std::sync::{Arc, mpsc};
use std::thread;

use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage};

use super::shared::Shared;
use super::*;

fn small() -> Options {
    Options {
        items: 3000,
        shapes: vec![Shape::new(2, 2)],
        conflicts: vec![0.0, 0.2],
        executors: vec![1, 3],
        transactions: 600,
        behind: 20,
        time: Duration::from_millis(20),
        seed: 1,
    }
}

#[test]
fn a_small_run_measures_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut heard = Vec::new();
    let report = run(folder.path(), &small(), |line| heard.push(line.to_owned()));
    let report = report.expect("it runs");
    assert!(heard.contains(&"2+2, serializable, 20 % conflicts".to_owned()));
    assert_eq!(
        (report.alone.len(), report.live.len(), report.writer.len()),
        (4, 10, 4)
    );
    for alone in &report.alone {
        let aborted = alone.aborted as f64 / alone.transactions as f64;
        let expected = alone.run.conflicts;
        assert!((aborted - expected).abs() < 0.1, "{aborted}, {expected}");
        assert_eq!(expected == 0.0, alone.aborted == 0, "{alone:?}");
        assert!(alone.execute_us > 0.0 && alone.meld_us > 0.0);
        let most = alone.saturating_executors().ceil() as usize;
        assert_eq!(
            alone.transactions_per_second(most),
            alone.melds_per_second()
        );
        assert!(alone.transactions_per_second(1) <= alone.melds_per_second());
    }
    for live in &report.live {
        assert_eq!(live.transactions, 600);
        assert!(live.transactions_per_second > 0.0);
        assert!((0.0..=1.0).contains(&live.melder_busy), "{live:?}");
    }
    let durable = report.live.iter().filter(|live| live.durable);
    assert_eq!(durable.count(), 2);
    assert!(report.writer.iter().all(|writer| writer.commits > 0));
    let left = std::fs::read_dir(folder.path()).expect("it is there");
    assert_eq!(left.count(), 0, "log and store are removed");

    let text = report.text();
    for part in ["saturated by", "5,000", "melds/s", "device", "20.0"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("NaN"), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_decisions() {
    let options = small();
    let filled = workload::fill(options.items).expect("filled");
    let aborted = |seed| {
        let options = Options { seed, ..small() };
        let shape = options.shapes[0];
        let workload = Workload::new(&options, shape, Isolation::Serializable, 0.2);
        alone::measure(&workload, &filled)
            .expect("measured")
            .aborted
    };
    assert_eq!(aborted(1), aborted(1));
    assert_ne!(aborted(1), aborted(2));
}

#[test]
fn a_failed_append_ends_the_run_with_its_error() {
    let options = small();
    let filled = workload::fill(options.items).expect("filled");
    let workload = Workload::new(&options, options.shapes[0], Isolation::Snapshot, 0.0);
    let device = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::none());
    let state = filled.state().clone();
    let shared = Shared::new(state, workload.behind, Some(Arc::new(device.clone())));
    let shared = shared.expect("the log is created");
    // Executors are at most some intentions ahead of the log, so there are at least 25 writes.
    device.set_plan(FaultPlan::crash_at(device.operations() + 20, 1));
    let error = live::run(&workload, &mut filled.clone(), 2, &shared).expect_err("it crashes");
    let earlier = shared.from(0).len();
    assert!(device.crashed() && (1..600).contains(&earlier), "{earlier}");
    let message = format!("{error:#}");
    assert!(message.contains("the device has crashed"), "{message}");
}

#[test]
fn a_panic_of_an_executor_ends_the_run_with_an_error() {
    let (done, result) = mpsc::channel();
    thread::spawn(move || {
        let options = small();
        // Half of the items that transactions read are not there.
        let filled = workload::fill(options.items / 2).expect("filled");
        let workload = Workload::new(&options, options.shapes[0], Isolation::Snapshot, 0.0);
        let run = live::measure(&workload, &filled, 2, None);
        let _ = done.send(run.expect_err("it panics").to_string());
    });
    let error = result.recv_timeout(Duration::from_secs(20));
    assert_eq!(error.expect("it ends"), "an executor panicked");
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |options: Options| {
        let report = run(folder.path(), &options, |_| ());
        report.expect_err("refused").to_string()
    };
    let few = refused(Options {
        items: 50,
        ..small()
    });
    assert!(few.contains("at least 108 are needed"), "{few}");
    let shape = refused(Options {
        shapes: vec![Shape::new(3, 0)],
        ..small()
    });
    assert!(shape.contains("3+0 writes nothing"), "{shape}");
    let share = refused(Options {
        conflicts: vec![1.0],
        ..small()
    });
    assert!(share.contains("less than 100"), "{share}");
    let none = refused(Options {
        executors: Vec::new(),
        ..small()
    });
    assert!(none.contains("needed"), "{none}");
    assert_eq!("8+2".parse(), Ok(Shape::new(8, 2)));
    let text = "8".parse::<Shape>().expect_err("no writes").to_string();
    assert!(text.contains("such as 8+2"), "{text}");
}
