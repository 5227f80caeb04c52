//! Byte-for-byte tests of docs/format/log.md: what this program writes, and a log of format 1, which nothing
//! writes any more.

use std::sync::Arc;

use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::{TermKey, TermKind};

use crate::format::{BLOCK_BYTES, FileHeader, GroupHeader, LogPoint, file_name};
use crate::group::seal;
use crate::record::{Begun, RECORD_NAME, Record};
use crate::tests::{Devices, options};
use crate::{
    Change, ChangeSet, Changes, Entry, Log, LogError, LogReader, LogTerm, NO_GRAPH, Position,
    StoreId,
};

const STORE: StoreId = StoreId(*b"0123456789abcdef");

const HEADER: &str = "5079746869614c670200000003000000303132333435363738396162636465660400000000000000\
    050000000000000006000000000000000700000000000000080000000000000009000000000000000a00000000000000\
    0b00000000000000be54637c";
const GROUP: &str = "50794c472027eb070000000020000000200000000100000004000000000000000700000000000000\
    06000000000000000800000000000000000000000000000001\
    00401e18240a0600036b65791201100a687474703a2f2f652f610101000000";
const RECORD: &str = "5079746869614c520100000001000000303132333435363738396162636465660c00000000000000\
    04000000000000000700000000000000080000000000000003000000000000000200000000000000\
    04000000000000000b000000000000000000200000000000430e6906";

/// Asserts that a block begins with these bytes and is zero after them.
fn assert_block(block: &[u8], expected: &str) {
    let (begin, rest) = block.split_at(expected.len() / 2);
    assert_eq!(hex::encode(begin), expected);
    assert!(rest.iter().all(|byte| *byte == 0));
}

fn place(group: u64, position: u64) -> LogPoint {
    LogPoint { group, position }
}

/// Returns a change set that adds the quad (a, a, a) of the IRI http://e/a to the default graph.
fn changes() -> ChangeSet {
    let mut set = ChangeSet::new();
    let (kind, bytes) = (TermKind::Iri, &b"http://e/a"[..]);
    let term = set.add_term(LogTerm::Key(TermKey { kind, bytes }));
    let quad = [term, term, term, NO_GRAPH];
    set.push(Change { added: true, quad });
    set
}

#[test]
fn the_bytes_of_format_2_stay_what_they_are() {
    let header = FileHeader {
        store: STORE,
        device: 3,
        epoch: 4,
        begin: place(5, 6),
        lower: place(7, 8),
        upper: place(9, 10),
        nonce: 11,
    };
    let mut block = vec![0; BLOCK_BYTES];
    header.encode(&mut block);
    assert_block(&block, HEADER);

    let set = changes();
    let entry = Entry {
        time: 1_700_000_000_000_000,
        key: Some("key"),
        changes: Changes::Inline(&set),
    };
    let mut payload = Vec::new();
    entry.encode(&mut payload).unwrap();
    let group = GroupHeader {
        epoch: 4,
        group: 7,
        durable_before: 6,
        position: 8,
        count: 1,
        flags: 0,
        stored_bytes: 0,
        payload_bytes: 0,
    };
    assert_block(&seal(group, &payload, STORE), GROUP);

    let begun = Begun {
        sequence: 2,
        epoch: 4,
        nonce: 11,
        bytes: 2 << 20,
    };
    let record = Record {
        store: STORE,
        epoch: 4,
        durable: place(7, 8),
        newest: [(3, begun)].into(),
    };
    let mut block = vec![0; BLOCK_BYTES];
    record.encode(12, &mut block);
    assert_block(&block, RECORD);
}

fn push(out: &mut Vec<u8>, numbers: &[u64]) {
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

/// Returns the header block of a file of format 1: without nonce, with the checksum at byte 88.
fn header_1(epoch: u64, begin: [u64; 2], lower: [u64; 2], upper: [u64; 2]) -> Vec<u8> {
    let mut block = b"PythiaLg".to_vec();
    block.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    block.extend(STORE.0);
    push(&mut block, &[epoch]);
    push(&mut block, &[begin, lower, upper].concat());
    let checksum = crc32c::crc32c(&block);
    block.extend(checksum.to_le_bytes());
    block.resize(BLOCK_BYTES, 0);
    block
}

/// Returns a group with the commit of [`changes`], or without a commit.
fn group_1(epoch: u64, group: u64, position: u64, has_commit: bool) -> Vec<u8> {
    let mut payload = Vec::new();
    if has_commit {
        payload.push(0);
        push(&mut payload, &[position]);
        payload.extend([18, 1, 0x10, 10]);
        payload.extend(b"http://e/a");
        payload.extend([1, 1, 0, 0, 0]);
    }
    let mut rest = Vec::new();
    let bytes = payload.len() as u32;
    for number in [0, bytes, bytes, u32::from(has_commit)] {
        rest.extend(number.to_le_bytes());
    }
    push(&mut rest, &[epoch, group, group - 1, position, 0]);
    rest.extend(payload);
    let checksum = crc32c::crc32c(&[&STORE.0[..], &rest].concat());
    let mut block = b"PyLG".to_vec();
    block.extend(checksum.to_le_bytes());
    block.extend(rest);
    block.resize(BLOCK_BYTES, 0);
    block
}

fn put(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

/// Returns a log of format 1 with commits 1 to 3. It was opened twice and closed in order, each time with an empty
/// group at its end.
fn log_1() -> Devices {
    let storage = MemoryStorage::new();
    let first = [
        header_1(1, [1, 1], [1, 1], [1, 1]),
        group_1(1, 1, 1, false),
        group_1(1, 2, 1, true),
        group_1(1, 3, 2, true),
        group_1(1, 4, 3, false),
    ];
    put(&storage, &file_name(0, 1), &first.concat());
    let second = [
        header_1(2, [5, 3], [5, 3], [5, 3]),
        group_1(2, 5, 3, true),
        group_1(2, 6, 4, false),
    ];
    put(&storage, &file_name(0, 2), &second.concat());
    vec![Arc::new(storage)]
}

/// Opens a log for writing and commits once, at time 4.
fn opened_with_commit(devices: &Devices) -> Log {
    let (log, _) = Log::open(devices.clone(), STORE, Position(1), options()).unwrap();
    let set = changes();
    let entry = Entry {
        time: 4,
        key: None,
        changes: Changes::Inline(&set),
    };
    log.wait(log.submit(&[entry]).unwrap()).unwrap();
    log
}

fn read(devices: &Devices) -> Result<Vec<(u64, u64)>, LogError> {
    let reader = LogReader::open(devices.clone(), None, STORE);
    let mut read = Vec::new();
    for commit in reader.commits_from(Position(1))? {
        let commit = commit?;
        let sets = commit.changes().collect::<Result<Vec<_>, _>>()?;
        assert!(sets[0].terms().eq(changes().terms()));
        assert_eq!(sets[0].changes(), changes().changes());
        read.push((commit.position.0, commit.time));
    }
    Ok(read)
}

#[test]
fn a_log_of_format_1_is_read_and_its_damage_named() {
    let devices = log_1();
    assert_eq!(read(&devices).unwrap(), [(1, 1), (2, 2), (3, 3)]);
    let reader = LogReader::open(devices.clone(), None, STORE);
    assert_eq!(reader.damages().unwrap(), []);
    for number in [1, 2] {
        let devices = log_1();
        let name = file_name(0, number);
        let mut bytes = devices[0].read_all(&name).unwrap();
        bytes[20] ^= 0x55;
        put(&*devices[0], &name, &bytes);
        let damages = LogReader::open(devices.clone(), None, STORE)
            .damages()
            .unwrap();
        assert_eq!(damages.len(), 1);
        assert_eq!(damages[0].file, name);
        let opened = Log::open(devices.clone(), STORE, Position(1), options());
        for error in [read(&devices).unwrap_err(), opened.err().unwrap()] {
            let error = error.to_string();
            assert!(
                error.contains(&name) && error.contains("header is damaged"),
                "{error}"
            );
        }
        assert_eq!(
            devices[0].read_all(&name).unwrap(),
            bytes,
            "nothing was changed"
        );
    }
}

#[test]
fn a_log_of_format_1_gets_its_record_when_it_is_opened_for_writing() {
    let devices = log_1();
    assert!(!devices[0].exists(RECORD_NAME).unwrap());
    let (log, commits) = Log::open(devices.clone(), STORE, Position(1), options()).unwrap();
    assert_eq!(commits.count(), 3);
    // Nothing was committed yet, but the files of format 1 are in the record.
    drop(log);
    let newest = file_name(0, 2);
    let sound = devices[0].read_all(&newest).unwrap();
    put(&*devices[0], &newest, &vec![0; sound.len()]);
    let error = read(&devices).unwrap_err().to_string();
    assert!(
        error.contains(&newest) && error.contains("LOG says"),
        "{error}"
    );
    put(&*devices[0], &newest, &sound);

    opened_with_commit(&devices).close().unwrap();
    let bytes = devices[0].read_all(&file_name(0, 3)).unwrap();
    assert_eq!(bytes[8], 2, "new files are of format 2");
    assert_eq!(read(&devices).unwrap(), [(1, 1), (2, 2), (3, 3), (4, 4)]);
    assert_eq!(LogReader::open(devices, None, STORE).damages().unwrap(), []);
}

/// If the first write of the record was interrupted, no file was begun with it, so nothing is lost.
#[test]
fn a_log_of_format_1_whose_first_record_was_interrupted_opens() {
    let mut torn = vec![0; 2 * BLOCK_BYTES];
    torn[..20].copy_from_slice(&[7; 20]);
    for left in [vec![], vec![0; BLOCK_BYTES], vec![0; 2 * BLOCK_BYTES], torn] {
        let devices = log_1();
        put(&*devices[0], RECORD_NAME, &left);
        assert_eq!(read(&devices).unwrap().len(), 3);
        let (log, commits) = Log::open(devices.clone(), STORE, Position(1), options()).unwrap();
        assert_eq!(commits.count(), 3);
        log.close().unwrap();
    }
}

#[test]
fn salvage_says_that_the_record_is_missing() {
    let devices = log_1();
    for _ in 0..2 {
        drop(opened_with_commit(&devices));
    }
    assert!(
        crate::salvage(&devices, STORE, Position(1), false)
            .unwrap()
            .has_record
    );
    devices[0].remove(&file_name(0, 4)).unwrap();
    devices[0].remove(RECORD_NAME).unwrap();
    let found = crate::salvage(&devices, STORE, Position(1), false).unwrap();
    assert!(!found.is_sound() && !found.has_record);
    assert_eq!((found.loss, found.next), (None, Position(5)));
}
