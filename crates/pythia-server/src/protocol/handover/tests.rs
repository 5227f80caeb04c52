//! Tests with a fast thread and a slow reader.

use std::thread;

use http_body_util::BodyExt;

use super::*;
use crate::admission::Admission;
use crate::config::{DatasetConfig, Limits};
use crate::context::Dataset;

/// Size of a piece, in bytes.
const PIECE: usize = 64 << 10;

struct Served {
    admission: Arc<Admission>,
    delivery: Delivery,
    _folder: tempfile::TempDir,
}

/// Takes the only place, and returns the turn with the settings of the delivery.
async fn served(change: impl FnOnce(&mut DatasetConfig)) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = DatasetConfig::new("ds", folder.path().join("ds"));
    config.create = true;
    change(&mut config);
    let dataset = Dataset::open(&config).expect("a store");
    let admission = Admission::new();
    let limits = Limits {
        running: 1,
        ..Limits::default()
    };
    let client = Client::User("ada".into());
    let slot = admission.admit(&client, &limits).await.expect("a turn");
    let delivery = Delivery {
        database: Arc::clone(&dataset.database),
        slot: Arc::new(slot),
        unread_bytes: 64 << 20,
        bytes_per_second: 0,
        window: Duration::from_millis(200),
        deadline: None,
        cancel: Arc::default(),
        hangup: None,
        metrics: Arc::default(),
        id: "test".into(),
        client,
    };
    Served {
        admission,
        delivery,
        _folder: folder,
    }
}

/// Starts a thread that pushes numbered pieces as fast as it can.
fn pushing(sender: Sender, pieces: usize) -> thread::JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        let push = |n: usize| sender.push(Bytes::from(vec![n as u8; PIECE]));
        let outcome = (0..pieces).try_for_each(push);
        sender.handover.delivery.slot.release();
        match outcome {
            Ok(()) => sender.finish(Ok(())),
            Err(error) => return Err(error),
        }
        Ok(())
    })
}

async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads a body to its end and checks the order of its pieces. Returns their number and how the body ended.
async fn read(receiver: &mut Receiver) -> (usize, io::Result<()>) {
    let mut pieces = 0;
    while let Some(frame) = receiver.frame().await {
        match frame {
            Ok(frame) => {
                let bytes = frame.into_data().expect("data");
                assert_eq!(bytes.len(), PIECE);
                assert!(bytes.iter().all(|byte| *byte == pieces as u8), "{pieces}");
                pieces += 1;
            }
            Err(error) => return (pieces, Err(error)),
        }
    }
    (pieces, Ok(()))
}

#[tokio::test]
async fn an_answer_that_nobody_reads_yet_is_computed_to_its_end_and_leaves_its_turn() {
    let served = served(|_| ()).await;
    let usage = || served.delivery.database.usage().spill_bytes;
    let (sender, mut receiver) = handover(served.delivery.clone(), &Handle::current());
    let thread = pushing(sender, 12);
    until(|| thread.is_finished()).await;
    thread.join().expect("no panic").expect("taken");
    assert_eq!(
        (served.admission.load(), served.admission.parked()),
        ((0, 0), 0)
    );
    assert_eq!(usage(), (8 * PIECE) as u64);
    let (pieces, outcome) = read(&mut receiver).await;
    outcome.expect("whole");
    assert_eq!(pieces, 12);
    drop(receiver);
    assert_eq!(usage(), 0);
}

#[tokio::test]
async fn an_answer_too_long_for_the_file_waits_without_a_turn_and_goes_on() {
    let served = served(|_| ()).await;
    let (sender, mut receiver) = handover(served.delivery.clone(), &Handle::current());
    // 16 MiB, while a reader that has read nothing gets a file of 512 KiB.
    let thread = pushing(sender, 256);
    until(|| served.admission.parked() == 1 && served.admission.load() == (0, 0)).await;
    assert_eq!(served.delivery.database.usage().spill_bytes, FILE_BYTES);
    let (pieces, outcome) = read(&mut receiver).await;
    outcome.expect("whole");
    assert_eq!(pieces, 256);
    thread.join().expect("no panic").expect("taken");
    assert_eq!(
        (served.admission.load(), served.admission.parked()),
        ((0, 0), 0)
    );
}

#[tokio::test]
async fn without_room_for_files_the_work_waits_without_a_turn() {
    let served = served(|config| config.spill_bytes = Some(100 << 10)).await;
    let (sender, mut receiver) = handover(served.delivery.clone(), &Handle::current());
    let thread = pushing(sender, 100);
    until(|| served.admission.parked() == 1 && served.admission.load() == (0, 0)).await;
    let (pieces, outcome) = read(&mut receiver).await;
    outcome.expect("whole");
    assert_eq!(pieces, 100);
    thread.join().expect("no panic").expect("taken");
}

#[tokio::test]
async fn work_ends_when_its_reader_has_gone_or_it_is_cancelled() {
    for cancelled in [false, true] {
        let served = served(|_| ()).await;
        let (sender, receiver) = handover(served.delivery.clone(), &Handle::current());
        let thread = pushing(sender, 1000);
        until(|| served.admission.parked() == 1).await;
        match cancelled {
            true => served.delivery.cancel.store(true, Ordering::Relaxed),
            false => drop(receiver),
        }
        until(|| thread.is_finished()).await;
        thread.join().expect("no panic").expect_err("given up");
        assert_eq!(
            (served.admission.load(), served.admission.parked()),
            ((0, 0), 0)
        );
    }
}

#[tokio::test]
async fn work_that_waits_ends_at_its_deadline_and_its_last_piece_is_kept() {
    let mut served = served(|_| ()).await;
    served.delivery.deadline = Some(Instant::now());
    let (sender, mut receiver) = handover(served.delivery.clone(), &Handle::current());
    let in_time = 4 + FILE_BYTES as usize / PIECE;
    let thread = thread::spawn(move || {
        let push = |n: usize| sender.push(Bytes::from(vec![n as u8; PIECE]));
        (0..in_time).try_for_each(push).expect("room");
        let late = push(in_time).expect_err("there is no more room, and no time to wait");
        sender
            .push_last(Bytes::from(vec![in_time as u8; PIECE]))
            .expect("kept");
        sender.finish(Ok(()));
        late.to_string()
    });
    until(|| thread.is_finished()).await;
    let late = thread.join().expect("no panic");
    assert!(late.contains("time limit"), "{late}");
    assert_eq!(
        (served.admission.load(), served.admission.parked()),
        ((0, 0), 0)
    );
    let (pieces, outcome) = read(&mut receiver).await;
    outcome.expect("whole");
    assert_eq!(pieces, in_time + 1);
}

#[tokio::test]
async fn a_reader_below_the_pace_loses_the_answer_and_one_that_waits_for_it_does_not() {
    let mut served = served(|_| ()).await;
    served.delivery.bytes_per_second = 10 * PIECE as u64;
    let (sender, mut receiver) = handover(served.delivery.clone(), &Handle::current());
    let thread = pushing(sender, 1000);
    until(|| thread.is_finished()).await;
    let (pieces, outcome) = read(&mut receiver).await;
    let error = outcome.expect_err("cut").to_string();
    assert!(error.contains("limits.answer_rate"), "{error}");
    assert_eq!(pieces, 0);
    thread.join().expect("no panic").expect_err("given up");
    assert!(served.delivery.cancel.load(Ordering::Relaxed));
    assert_eq!(served.delivery.database.usage().spill_bytes, 0);

    let (sender, mut receiver) = handover(served.delivery.clone(), &Handle::current());
    let thread = thread::spawn(move || {
        // Two windows without anything to read.
        thread::sleep(Duration::from_millis(500));
        pushing(sender, 1).join().expect("no panic")
    });
    let (pieces, outcome) = read(&mut receiver).await;
    outcome.expect("whole");
    assert_eq!(pieces, 1);
    thread.join().expect("no panic").expect("taken");
}

#[tokio::test]
async fn work_that_panics_is_seen_to_be_cut() {
    let served = served(|_| ()).await;
    let (sender, mut receiver) = handover(served.delivery.clone(), &Handle::current());
    sender.push(Bytes::from(vec![0; PIECE])).expect("room");
    drop(sender);
    let (pieces, outcome) = read(&mut receiver).await;
    outcome.expect_err("cut");
    assert_eq!(pieces, 1);
    assert_eq!(served.admission.load(), (0, 0));
}
