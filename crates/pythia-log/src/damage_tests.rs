//! Aimed damage: every log file is flipped, zeroed, cut off or removed. Either all acknowledged commits are found,
//! or opening names the file, and salvage makes the log usable again.

use std::sync::Arc;

use pythia_io::{MemoryStorage, Storage};

use crate::format::{BLOCK_BYTES, FOLDER, Position};
use crate::record::RECORD_NAME;
use crate::testing::numbered;
use crate::tests::{Devices, STORE, check, commit, options, read};
use crate::{Changes, Entry, Log, LogError, LogReader, salvage};

/// The number of commits in every log that is damaged here.
const COMMITS: u64 = 60;

fn files(storage: &dyn Storage) -> Vec<String> {
    let mut files = vec![];
    if storage.exists(RECORD_NAME).unwrap() {
        files.push(RECORD_NAME.to_owned());
    }
    let names = storage.list(FOLDER).unwrap_or_default();
    let logs = names.iter().filter(|name| name.ends_with(".log"));
    files.extend(logs.map(|name| format!("{FOLDER}/{name}")));
    files
}

fn put(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn copy(devices: &Devices) -> Devices {
    let copy_one = |from: &Arc<dyn Storage>| {
        let to = Arc::new(MemoryStorage::new());
        for name in files(&**from) {
            put(&*to, &name, &from.read_all(&name).unwrap());
        }
        to as _
    };
    devices.iter().map(copy_one).collect()
}

/// Makes a log with several epochs and files, as it is after it was closed, or after a crash.
fn log(count: usize, closed: bool) -> Devices {
    let devices: Devices = (0..count)
        .map(|_| Arc::new(MemoryStorage::new()) as _)
        .collect();
    drop(Log::create(devices.clone(), STORE, options()).unwrap());
    let mut next = 1;
    let mut left = copy(&devices);
    for until in [15, 40, COMMITS + 1] {
        let (log, commits) = Log::open(devices.clone(), STORE, Position(1), options()).unwrap();
        drop(commits);
        while next < until {
            commit(&log, next..next + 1).unwrap();
            next += 1;
        }
        left = copy(&devices);
    }
    if closed { copy(&devices) } else { left }
}

/// A way to damage a file's bytes; `None` removes the file.
type Apply = Box<dyn Fn(&[u8]) -> Option<Vec<u8>>>;
type Damage = (String, Apply);

fn damages() -> Vec<Damage> {
    let mut damages: Vec<Damage> = Vec::new();
    let mut add = |name: String, damage: Apply| {
        damages.push((name, damage));
    };
    for offset in [0, 8, 9, 12, 20, 40, 60, 80, 92, 98] {
        let flip = move |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[offset] ^= 0x55;
            Some(bytes)
        };
        add(format!("flip byte {offset}"), Box::new(flip));
    }
    for block in [0, 1] {
        let zero = move |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES].fill(0);
            Some(bytes)
        };
        add(format!("zero block {block}"), Box::new(zero));
    }
    for hundredths in [0, 1, 25, 50, 75, 99] {
        let cut = move |bytes: &[u8]| Some(bytes[..bytes.len() * hundredths / 100].to_vec());
        add(format!("cut off at {hundredths} %"), Box::new(cut));
    }
    let last = |bytes: &[u8]| {
        // A preallocated file is all zeros.
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        last / BLOCK_BYTES * BLOCK_BYTES
    };
    add(
        "flip in the last block".into(),
        Box::new(move |bytes| {
            let mut bytes = bytes.to_vec();
            let at = last(&bytes) + 30;
            bytes[at] ^= 1;
            Some(bytes)
        }),
    );
    add(
        "zero the last block".into(),
        Box::new(move |bytes| {
            let mut bytes = bytes.to_vec();
            let at = last(&bytes);
            bytes[at..at + BLOCK_BYTES].fill(0);
            Some(bytes)
        }),
    );
    add(
        "zero all".into(),
        Box::new(|bytes| Some(vec![0; bytes.len()])),
    );
    add("remove".into(), Box::new(|_| None));
    damages
}

enum Outcome {
    Whole,
    Refused,
    /// The position of the last commit that is left.
    Silent(u64),
}

fn outcome(devices: &Devices, file: &str, what: &str) -> Outcome {
    let before = copy(devices);
    let end = match Log::open(devices.clone(), STORE, Position(1), options()) {
        Ok((_, commits)) => check(commits, 1).unwrap(),
        Err(error) => {
            assert!(error.to_string().contains(file), "{what}: {error}");
            let is_damage = matches!(error, LogError::Damaged { .. } | LogError::Lost { .. });
            assert!(is_damage, "{what}: {error}");
            let reading = read(devices, None, 1);
            assert!(reading.is_err(), "{what}: readers refuse what writers do");
            for (before, after) in before.iter().zip(devices) {
                assert_eq!(files(&**before), files(&**after), "{what}");
                for name in files(&**before) {
                    let (before, after) = (before.read_all(&name), after.read_all(&name));
                    assert_eq!(
                        before.unwrap(),
                        after.unwrap(),
                        "{what}: nothing is changed"
                    );
                }
            }
            return Outcome::Refused;
        }
    };
    match end {
        end if end == COMMITS + 1 => Outcome::Whole,
        end => Outcome::Silent(end - 1),
    }
}

/// Salvages the log. The first commits must be left, and new ones must follow.
fn go_on(devices: &Devices, what: &str) {
    let plan = salvage(devices, STORE, Position(1), false).unwrap();
    assert!(!plan.is_sound(), "{what}");
    assert!(Log::open(devices.clone(), STORE, Position(1), options()).is_err());
    let done = salvage(devices, STORE, Position(1), true).unwrap();
    assert_eq!((plan.next, plan.last_known), (done.next, done.last_known));
    for (_, aside) in &done.set_aside {
        assert!(
            devices.iter().any(|device| device.exists(aside).unwrap()),
            "{what}: {aside}"
        );
    }
    let reader = LogReader::open(devices.clone(), None, STORE);
    assert_eq!(reader.damages().unwrap(), [], "{what}");
    let (log, commits) = Log::open(devices.clone(), STORE, Position(1), options())
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let next = check(commits, 1).unwrap();
    assert_eq!(next, done.next.0, "{what}");
    assert!(done.last_known.0 <= COMMITS, "{what}");
    for number in next..next + 30 {
        commit(&log, number..number + 1).unwrap();
    }
    drop(log);
    assert_eq!(read(devices, None, 1).unwrap(), next + 30, "{what}");
}

#[test]
fn damage_loses_no_acknowledged_commit_silently() {
    let (mut tried, mut refused, mut silent) = (0, 0, Vec::new());
    for (count, closed) in [(1, true), (1, false), (2, true), (2, false)] {
        let sound = log(count, closed);
        for device in 0..count {
            for file in files(&*sound[device]) {
                for (name, damage) in damages() {
                    let what =
                        format!("{count} devices, closed: {closed}, {device}/{file}: {name}");
                    let devices = copy(&sound);
                    let bytes = devices[device].read_all(&file).unwrap();
                    match damage(&bytes) {
                        Some(damaged) if damaged == bytes => continue,
                        Some(damaged) => put(&*devices[device], &file, &damaged),
                        None => devices[device].remove(&file).unwrap(),
                    }
                    tried += 1;
                    match outcome(&devices, &file, &what) {
                        Outcome::Whole => {}
                        Outcome::Refused => {
                            refused += 1;
                            go_on(&devices, &what);
                        }
                        Outcome::Silent(last) => silent.push((closed, last, what)),
                    }
                }
            }
        }
    }
    println!(
        "{tried} damages, {refused} refused, {} not to be told",
        silent.len()
    );
    // See docs/format/log.md: the last acknowledged commits before a crash, if nothing later mentions them, cannot
    // be told from a group that the crash interrupted.
    for (closed, last, what) in &silent {
        println!("{what}: {last}");
        assert!(!closed && what.contains("last block"), "{what}: {last}");
    }
    assert!(tried >= 120 && refused > tried / 2, "{refused} of {tried}");
}

#[test]
fn a_file_made_ahead_does_not_look_begun_after_a_salvage() {
    let devices = log(1, false);
    put(
        &*devices[0],
        &format!("{FOLDER}/00-0000000099.log"),
        &[0; 4 * BLOCK_BYTES],
    );
    put(&*devices[0], RECORD_NAME, &[]);
    go_on(&devices, "a file made ahead");
}

/// Bulk files of commits that are given up are kept, like the groups of the commits.
#[test]
fn changes_put_aside_by_commits_that_are_given_up_are_set_aside_with_them() {
    let device = Arc::new(MemoryStorage::new());
    let devices: Devices = vec![device.clone()];
    let log = Log::create(devices.clone(), STORE, options()).unwrap();
    let mut bulks = Vec::new();
    for number in 1..=COMMITS {
        if number % 20 != 0 {
            commit(&log, number..number + 1).unwrap();
            continue;
        }
        let mut bulk = log.begin_bulk().unwrap();
        bulk.push(&numbered(number, 10)).unwrap();
        let bulk = bulk.finish().unwrap();
        bulks.push(bulk.name().to_owned());
        let entry = Entry {
            time: number,
            key: None,
            changes: Changes::Bulk(bulk),
        };
        log.wait(log.submit(&[entry]).unwrap()).unwrap();
    }
    drop(log);
    // A commit between the first and the second bulk file.
    let first = files(&*device).into_iter().nth(4).unwrap();
    let mut bytes = device.read_all(&first).unwrap();
    bytes[BLOCK_BYTES + 40] ^= 1;
    put(&*device, &first, &bytes);
    let before: Vec<Vec<u8>> = bulks
        .iter()
        .map(|name| device.read_all(name).unwrap())
        .collect();
    let done = salvage(&devices, STORE, Position(1), true).unwrap();
    assert!((21..=40).contains(&done.next.0), "{done:?}");
    for _ in 0..3 {
        drop(Log::open(devices.clone(), STORE, Position(1), options()).unwrap());
    }
    assert!(device.exists(&bulks[0]).unwrap(), "its commit is left");
    for (name, bytes) in bulks.iter().zip(&before).skip(1) {
        let moved = done.set_aside.iter().find(|(from, _)| from == name);
        let (_, to) = moved.unwrap_or_else(|| panic!("{name}: {done:?}"));
        assert!(device.read_all(to).unwrap() == *bytes, "{name} is {to} now");
    }
}

/// Files are put into the archive whole, so damage there is not taken for the end of the log.
#[test]
fn damage_in_the_archive_is_not_its_end() {
    let devices: Devices = vec![Arc::new(MemoryStorage::new())];
    let archive: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let options = crate::LogOptions {
        archive: Some(Arc::clone(&archive)),
        ..options()
    };
    let log = Log::create(devices, STORE, options).unwrap();
    for number in 1..=COMMITS {
        commit(&log, number..number + 1).unwrap();
    }
    log.checkpoint(Position(COMMITS + 1)).unwrap();
    let newest = files(&*archive).pop().unwrap();
    let sound = archive.read_all(&newest).unwrap();
    let read = || -> Result<u64, LogError> {
        let reader = LogReader::open(Vec::new(), Some(Arc::clone(&archive)), STORE);
        check(reader.commits_from(Position(1))?, 1)
    };
    let end = read().unwrap();
    assert!(end > 10 && end < COMMITS, "{end}");
    let mut refused = 0;
    for (name, damage) in damages() {
        match damage(&sound) {
            Some(damaged) if damaged != sound => put(&*archive, &newest, &damaged),
            _ => continue,
        }
        match read() {
            Ok(found) if found == end => {}
            Ok(found) => assert!(name.starts_with("cut off"), "{name}: {found} of {end}"),
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains(&newest), "{name}: {error}");
            }
        }
    }
    assert!(refused > 10, "{refused}");
}
