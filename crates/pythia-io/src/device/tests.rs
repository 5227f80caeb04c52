//! Tests of each way of reading, on a real folder, with forced fallbacks.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{ALIGNMENT, AlignedBuffer, BufferPool, PageWriter, SequentialReader};

const MODES: [IoMode; 4] = [IoMode::Auto, IoMode::Uring, IoMode::Pread, IoMode::Buffered];

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..length)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            (state >> 56) as u8
        })
        .collect()
}

/// Returns a storage on a new folder in `parent`, for each mode that this system allows.
fn storages(parent: &Path) -> Vec<(tempfile::TempDir, DirectStorage)> {
    let open = |mode| {
        let folder = tempfile::tempdir_in(parent).unwrap();
        match DirectStorage::open_with(&folder.path().join("store"), true, mode) {
            Ok(storage) => Some((folder, storage)),
            Err(error) => {
                assert!(matches!(error, IoError::ModeUnavailable { .. }), "{error}");
                assert_eq!(mode, IoMode::Uring);
                None
            }
        }
    };
    MODES.into_iter().filter_map(open).collect()
}

fn all_storages() -> Vec<(tempfile::TempDir, DirectStorage)> {
    let mut all = storages(&std::env::temp_dir());
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        all.extend(storages(memory));
    }
    all
}

fn write(storage: &dyn Storage, name: &str, bytes: &[u8], step: usize) {
    let mut file = storage.create(name).unwrap();
    for chunk in bytes.chunks(step) {
        file.append(chunk).unwrap();
    }
    assert_eq!(file.len(), bytes.len() as u64);
    file.sync().unwrap();
}

/// Reads blocks of a file as one batch. Each entry is a block number and a number of blocks.
fn read(
    storage: &dyn Storage,
    name: &str,
    blocks: &[(u64, usize)],
) -> Result<Vec<Vec<u8>>, IoError> {
    let file = storage.open(name)?;
    let mut buffers: Vec<_> = blocks
        .iter()
        .map(|(_, count)| AlignedBuffer::zeroed(count * ALIGNMENT))
        .collect();
    for buffer in &mut buffers {
        buffer.fill(0xee);
    }
    let mut reads: Vec<_> = buffers
        .iter_mut()
        .zip(blocks)
        .map(|(buffer, (block, _))| ReadRequest {
            file: &*file,
            offset: block * ALIGNMENT as u64,
            buffer,
        })
        .collect();
    storage.read_batch(&mut reads)?;
    Ok(buffers.iter().map(|buffer| buffer.to_vec()).collect())
}

/// Returns what a read of some blocks must give: the file's bytes, then zeros.
fn expected(bytes: &[u8], block: u64, count: usize) -> Vec<u8> {
    let start = block as usize * ALIGNMENT;
    let end = (start + count * ALIGNMENT).min(bytes.len());
    let mut part = bytes[start..end].to_vec();
    part.resize(count * ALIGNMENT, 0);
    part
}

#[test]
fn every_backend_round_trips_any_length() {
    for (_folder, storage) in all_storages() {
        for (i, length) in [0, 1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, 3_000_001]
            .into_iter()
            .enumerate()
        {
            let name = format!("sub/file{i}");
            let bytes = noise(length, i as u64);
            write(
                &storage,
                &name,
                &bytes,
                [7, 4096, 65_536, 1 << 21][i % 4].max(length / 500),
            );
            assert_eq!(storage.read_all(&name).unwrap(), bytes, "{storage:?}");
            let file = storage.open(&name).unwrap();
            assert_eq!((file.len(), file.name()), (length as u64, name.as_str()));
            let blocks = length.div_ceil(ALIGNMENT);
            if blocks > 0 {
                let whole = read(&storage, &name, &[(0, blocks)]).unwrap();
                assert_eq!(whole[0], expected(&bytes, 0, blocks), "{storage:?}");
            }
        }
    }
}

#[test]
fn batches_of_neighbours_gaps_and_the_last_partial_block() {
    for (_folder, storage) in all_storages() {
        let bytes = noise(500 * ALIGNMENT + 123, 5);
        write(&storage, "a", &bytes, 1 << 20);
        let mut blocks: Vec<(u64, usize)> = (0..200).map(|i| (i, 1)).collect();
        blocks.extend((200..498).step_by(3).map(|i| (i, 2)));
        blocks.extend([(500, 1), (3, 8), (0, 400), (499, 2)]);
        let got = read(&storage, "a", &blocks).unwrap();
        for (got, (block, count)) in got.iter().zip(&blocks) {
            assert_eq!(
                *got,
                expected(&bytes, *block, *count),
                "block {block}, {storage:?}"
            );
        }
        assert!(read(&storage, "a", &[]).unwrap().is_empty());
    }
}

#[test]
fn reads_past_the_end_and_misaligned_ones_are_errors() {
    for (_folder, storage) in storages(&std::env::temp_dir()) {
        write(&storage, "a", &noise(10_000, 1), 10_000);
        let error = read(&storage, "a", &[(0, 1), (2, 2)]).unwrap_err();
        assert!(
            matches!(
                error,
                IoError::UnexpectedEnd {
                    offset: 8192,
                    length: 10_000,
                    ..
                }
            ),
            "{error}"
        );
        let file = storage.open("a").unwrap();
        let mut buffer = AlignedBuffer::zeroed(8192);
        let mut reads = [ReadRequest {
            file: &*file,
            offset: 1,
            buffer: &mut buffer,
        }];
        assert!(matches!(
            storage.read_batch(&mut reads),
            Err(IoError::Misaligned { offset: 1, .. })
        ));
        let memory = crate::MemoryStorage::new();
        write(&memory, "a", b"x", 1);
        let foreign = memory.open("a").unwrap();
        let mut reads = [ReadRequest {
            file: &*foreign,
            offset: 0,
            buffer: &mut buffer,
        }];
        assert!(matches!(
            storage.read_batch(&mut reads),
            Err(IoError::ForeignFile { .. })
        ));
    }
}

#[test]
fn files_cut_short_behind_our_back_are_errors_not_zeros() {
    for (folder, storage) in storages(&std::env::temp_dir()) {
        write(&storage, "a", &noise(100 * ALIGNMENT, 1), 1 << 20);
        let file = storage.open("a").unwrap();
        let path = folder.path().join("store/a");
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(50 * ALIGNMENT as u64)
            .unwrap();
        let mut buffers: Vec<_> = (0..10).map(|_| AlignedBuffer::zeroed(ALIGNMENT)).collect();
        let mut reads: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(i, buffer)| ReadRequest {
                file: &*file,
                offset: (i as u64 * 10 + 1) * ALIGNMENT as u64,
                buffer,
            })
            .collect();
        let error = storage.read_batch(&mut reads).unwrap_err();
        assert!(
            matches!(
                error,
                IoError::UnexpectedEnd {
                    length: 204_800,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn folders_rename_remove_and_replace() {
    for (_folder, storage) in all_storages() {
        write(&storage, "MANIFEST", b"one", 3);
        write(&storage, "tmp/new", b"two", 3);
        write(&storage, "seg/a/b", b"deep", 3);
        assert_eq!(storage.list("").unwrap(), ["MANIFEST", "seg", "tmp"]);
        assert_eq!(storage.list("seg").unwrap(), ["a"]);
        assert!(storage.exists("seg/a/b").unwrap() && !storage.exists("seg/x").unwrap());
        assert!(!storage.exists("none/x").unwrap());

        let before = storage.open("MANIFEST").unwrap();
        storage.rename("tmp/new", "MANIFEST").unwrap();
        assert_eq!(storage.read_all("MANIFEST").unwrap(), b"two");
        // A reader that had the old file open still reads it, also after a file with its name was created.
        let mut buffer = AlignedBuffer::zeroed(ALIGNMENT);
        storage
            .read_batch(&mut [ReadRequest {
                file: &*before,
                offset: 0,
                buffer: &mut buffer,
            }])
            .unwrap();
        assert_eq!(&buffer[..4], b"one\0");
        let before = storage.open("seg/a/b").unwrap();
        write(&storage, "seg/a/b", b"other", 5);
        storage
            .read_batch(&mut [ReadRequest {
                file: &*before,
                offset: 0,
                buffer: &mut buffer,
            }])
            .unwrap();
        assert_eq!(&buffer[..5], b"deep\0");

        storage.remove("seg").unwrap();
        storage.remove("seg").unwrap();
        storage.remove("MANIFEST").unwrap();
        assert_eq!(storage.list("").unwrap(), ["tmp"]);
        for error in [
            storage.open("seg/a/b").unwrap_err(),
            storage.rename("x", "y").unwrap_err(),
            storage.list("seg").unwrap_err(),
            storage.read_all("x").unwrap_err(),
        ] {
            assert!(error.is_not_found(), "{error}");
        }
        assert!(matches!(storage.open("../x"), Err(IoError::BadName { .. })));
        assert!(matches!(storage.open("tmp"), Err(IoError::Os { .. })));
    }
}

#[test]
fn missing_folders_and_files_in_their_place_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let error = DirectStorage::open(&folder.path().join("none"), false).unwrap_err();
    assert!(
        error.is_not_found() && error.to_string().contains("none"),
        "{error}"
    );
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let error = DirectStorage::open(&folder.path().join("file"), false).unwrap_err();
    assert!(matches!(error, IoError::Os { .. }), "{error}");
}

/// Otherwise a process could write to another store than the one it opened.
#[test]
fn a_folder_that_is_moved_is_served_from_where_it_is() {
    for mode in [IoMode::Auto, IoMode::Buffered] {
        let parent = tempfile::tempdir().unwrap();
        let (path, moved) = (parent.path().join("store"), parent.path().join("moved"));
        let storage = DirectStorage::open_with(&path, true, mode).unwrap();
        write(&storage, "a/old", &noise(5000, 1), 5000);
        let mut begun = storage.create("a/begun").unwrap();
        let log = storage.create_log("log/a", 4096).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        let other = DirectStorage::open_with(&path, true, mode).unwrap();
        write(&other, "a/old", &noise(3000, 2), 3000);

        begun.append(&[7; 100]).unwrap();
        begun.sync().unwrap();
        log.sync().unwrap();
        write(&storage, "b/c/new", &noise(100, 3), 100);
        storage.rename("a/old", "renamed").unwrap();
        storage.sync_names().unwrap();
        assert_eq!(storage.read_all("renamed").unwrap(), noise(5000, 1));
        assert_eq!(storage.list("").unwrap(), ["a", "b", "log", "renamed"]);
        storage.remove("b").unwrap();
        drop(storage.create_log("log/b", 4096).unwrap());
        assert!(storage.version("a/begun").unwrap().is_some());
        assert!(moved.join("a/begun").exists() && moved.join("log/b").exists());
        assert!(!moved.join("b").exists());

        assert_eq!(other.list("").unwrap(), ["a"]);
        assert_eq!(other.list("a").unwrap(), ["old"]);
        assert_eq!(other.read_all("a/old").unwrap(), noise(3000, 2));
    }
}

#[test]
fn a_folder_is_locked_whatever_becomes_of_its_name_and_its_files() {
    let parent = tempfile::tempdir().unwrap();
    let (path, moved) = (parent.path().join("store"), parent.path().join("moved"));
    let storage = DirectStorage::open(&path, true).unwrap();
    let lock = storage.try_lock_folder(LockKind::Exclusive).unwrap();
    let file = storage.try_lock("LOCK", LockKind::Shared).unwrap();
    assert!(lock.is_some() && file.is_some());
    std::fs::remove_file(path.join("LOCK")).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let again = DirectStorage::open(&moved, false).unwrap();
    assert!(
        again
            .try_lock_folder(LockKind::Exclusive)
            .unwrap()
            .is_none()
    );
    assert!(again.try_lock_folder(LockKind::Shared).unwrap().is_none());
    drop(lock);
    assert!(
        again
            .try_lock_folder(LockKind::Exclusive)
            .unwrap()
            .is_some()
    );
}

#[test]
fn modes_are_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let open = |mode| DirectStorage::open_with(folder.path(), true, mode).unwrap();
    let pread = open(IoMode::Pread);
    assert!(
        !pread.backend().uring && pread.backend().direct,
        "{}",
        pread.backend()
    );
    let buffered = open(IoMode::Buffered);
    assert_eq!(
        buffered.backend().to_string(),
        "pread threads, buffered I/O"
    );
    assert_eq!("uring".parse::<IoMode>().unwrap(), IoMode::Uring);
    assert_eq!("".parse::<IoMode>().unwrap(), IoMode::Auto);
    let error = "mmap".parse::<IoMode>().unwrap_err();
    assert!(error.to_string().contains("PYTHIA_IO=mmap"), "{error}");
}

#[test]
fn a_refused_ring_falls_back_to_threads_or_says_so() {
    let refused = || Err(io::Error::from_raw_os_error(libc::EPERM));
    let mut notes = Vec::new();
    let engine = choose_engine(IoMode::Auto, refused, &mut notes).unwrap();
    assert!(matches!(engine, Engine::Pread(_)));
    assert!(notes[0].contains("io_uring is refused"), "{notes:?}");
    let error = choose_engine(IoMode::Uring, refused, &mut notes)
        .map(|_| ())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("PYTHIA_IO=uring: this system refuses"),
        "{error}"
    );
}

#[test]
fn files_that_refuse_direct_io_are_opened_buffered() {
    let folder = Arc::new(Folder::open(Path::new("/proc"), false).unwrap());
    let file = DeviceFile::open("version", &folder, true, &OpenFiles::of_process()).unwrap();
    assert!(!file.is_direct());
}

#[test]
fn direct_reads_refused_late_go_through_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let storage = DirectStorage::open_with(folder.path(), true, IoMode::Pread).unwrap();
    let bytes = noise(40_000, 3);
    write(&storage, "a", &bytes, 40_000);
    let file = storage.open("a").unwrap();
    let SharedFile(device) = file.as_any().downcast_ref().unwrap();
    let first = device.handle().unwrap();
    assert!(device.give_up_direct(&first));
    let second = device.handle().unwrap();
    assert_ne!(second.descriptor(), first.descriptor());
    assert!(
        device.give_up_direct(&first),
        "a second batch that was under way"
    );
    assert!(
        !device.give_up_direct(&second),
        "buffered reads are the last resort"
    );
    let mut buffer = AlignedBuffer::zeroed(40_960);
    storage
        .read_batch(&mut [ReadRequest {
            file: &*file,
            offset: 0,
            buffer: &mut buffer,
        }])
        .unwrap();
    assert_eq!(buffer[..40_000], bytes);
}

#[test]
fn many_threads_read_at_once() {
    for (_folder, storage) in storages(&std::env::temp_dir()) {
        let bytes = noise(1000 * ALIGNMENT, 11);
        write(&storage, "a", &bytes, 1 << 20);
        std::thread::scope(|scope| {
            for seed in 0..6u64 {
                let (storage, bytes) = (&storage, &bytes);
                scope.spawn(move || {
                    for round in 0..10u64 {
                        let blocks: BTreeSet<u64> = (0..150)
                            .map(|i| (i * 7919 + seed * 31 + round * 17) % 1000)
                            .collect();
                        let blocks: Vec<_> = blocks.into_iter().map(|b| (b, 1)).collect();
                        let got = read(storage, "a", &blocks).unwrap();
                        for (got, (block, count)) in got.iter().zip(&blocks) {
                            assert_eq!(*got, expected(bytes, *block, *count));
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn the_pool_works_on_every_backend() {
    for (_folder, storage) in all_storages() {
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let mut writer = PageWriter::new(storage.create("spo").unwrap(), 4096);
        for number in 0..1500 {
            writer.push(&mut noise(4096, number)).unwrap();
        }
        writer.finish().unwrap();
        let pool = BufferPool::new(Arc::clone(&storage), 1 << 20);
        let file = pool.open("spo", 4096, "spo").unwrap();
        let numbers: Vec<u64> = (0..1500).step_by(2).collect();
        file.pages(&numbers, |_, page| {
            assert_eq!(page[4..], noise(4096, page.number())[4..]);
            Ok::<_, IoError>(())
        })
        .unwrap();
        file.pages_sequential(0..1500, |number, page| {
            assert_eq!(page[4..], noise(4096, number)[4..]);
            Ok::<_, IoError>(())
        })
        .unwrap();
        assert!(pool.bytes_in_use_max() < 1 << 20);
    }
}

#[test]
fn streams_read_front_to_back() {
    use std::io::Read;
    for (_folder, storage) in storages(&std::env::temp_dir()) {
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let bytes = noise(1_234_567, 8);
        let mut file = storage.create("run").unwrap();
        file.append(&bytes).unwrap();
        file.close().unwrap();
        for buffer_bytes in [1, 10_000, 1 << 20, 4 << 20] {
            let file = storage.open("run").unwrap();
            let mut reader = SequentialReader::new(Arc::clone(&storage), file, buffer_bytes);
            assert_eq!(reader.remaining(), 1_234_567);
            let mut got = Vec::new();
            reader.read_to_end(&mut got).unwrap();
            assert_eq!(got, bytes);
            assert_eq!(reader.remaining(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any batch of reads of any file, on every backend, returns the bytes that were written.
    #[test]
    fn random_batches_match_the_bytes(
        length in 1usize..900_000,
        seed in any::<u64>(),
        picks in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..9), 1..300),
    ) {
        let bytes = noise(length, seed);
        let last = length.div_ceil(ALIGNMENT);
        let blocks: Vec<(u64, usize)> = picks
            .iter()
            .map(|(index, count)| {
                let block = index.index(last);
                (block as u64, (*count).min(last - block))
            })
            .collect();
        for (_folder, storage) in storages(&std::env::temp_dir()) {
            write(&storage, "a", &bytes, 300_000);
            let got = read(&storage, "a", &blocks).unwrap();
            for (got, (block, count)) in got.iter().zip(&blocks) {
                prop_assert_eq!(got, &expected(&bytes, *block, *count));
            }
        }
    }
}

/// Returns a storage with at most four open files, and files `0` to `n - 1`, each with two blocks of its number.
fn with_four_open(files: u8) -> (tempfile::TempDir, DirectStorage, Vec<Arc<dyn ReadFile>>) {
    let folder = tempfile::tempdir().unwrap();
    let mut storage = DirectStorage::open(folder.path(), true).unwrap();
    storage.open_files = OpenFiles::new(4);
    let open = |number: u8| {
        let name = format!("{}/{number}", number % 2);
        write(&storage, &name, &[number; 2 * ALIGNMENT], 2 * ALIGNMENT);
        storage.open(&name).unwrap()
    };
    let files = (0..files).map(open).collect();
    (folder, storage, files)
}

fn first_byte(storage: &DirectStorage, file: &dyn ReadFile) -> Result<u8, IoError> {
    let mut buffer = AlignedBuffer::zeroed(ALIGNMENT);
    let offset = ALIGNMENT as u64;
    storage.read_batch(&mut [ReadRequest {
        file,
        offset,
        buffer: &mut buffer,
    }])?;
    Ok(buffer[0])
}

#[test]
fn more_files_than_descriptors_are_read() {
    let (_folder, storage, files) = with_four_open(40);
    for round in 0..3 {
        for (number, file) in files.iter().enumerate() {
            assert_eq!(first_byte(&storage, &**file).unwrap(), number as u8);
            let open = storage.open_files.open_count();
            assert!(open <= 4, "{open} open in round {round}");
        }
    }
    // A batch may need more for a moment.
    let mut buffers: Vec<_> = files
        .iter()
        .map(|_| AlignedBuffer::zeroed(ALIGNMENT))
        .collect();
    let reads = buffers.iter_mut().zip(&files);
    let mut reads: Vec<_> = reads
        .map(|(buffer, file)| ReadRequest {
            file: &**file,
            offset: 0,
            buffer,
        })
        .collect();
    storage.read_batch(&mut reads).unwrap();
    assert!((0..40).all(|number| buffers[usize::from(number)][0] == number));
    drop(files);
    assert_eq!(storage.open_files.open_count(), 0);
}

#[test]
fn a_closed_file_is_read_after_its_name_was_given_away() {
    let (_folder, storage, files) = with_four_open(20);
    let read = |number: usize| first_byte(&storage, &*files[number]).unwrap();
    storage.rename("0/18", "0/2").unwrap();
    write(&storage, "0/4", &[77; 2 * ALIGNMENT], 100);
    storage.create_log("0/6", 8192).unwrap();
    assert_eq!([18, 2, 4, 6].map(read), [18, 2, 4, 6]);
    storage.remove("1").unwrap();
    assert!(storage.open("1/3").unwrap_err().is_not_found());
    for number in 0..20 {
        assert_eq!(read(number), number as u8);
    }
}

#[test]
fn a_closed_file_is_read_after_its_folder_was_moved() {
    let (folder, storage, files) = with_four_open(20);
    let moved = folder.path().with_extension("moved");
    std::fs::rename(folder.path(), &moved).unwrap();
    for (number, file) in files.iter().enumerate() {
        assert_eq!(first_byte(&storage, &**file).unwrap(), number as u8);
    }
    std::fs::rename(&moved, folder.path()).unwrap();
}

#[test]
fn a_closed_file_that_another_process_replaced_is_an_error() {
    let (folder, storage, files) = with_four_open(20);
    for file in &files {
        first_byte(&storage, &**file).unwrap();
    }
    let read = |number: usize| first_byte(&storage, &*files[number]);
    std::fs::remove_file(folder.path().join("0/2")).unwrap();
    std::fs::write(folder.path().join("0/2"), [2; 2 * ALIGNMENT]).unwrap();
    std::fs::remove_file(folder.path().join("0/4")).unwrap();
    for number in [2, 4] {
        let error = read(number).unwrap_err();
        assert!(matches!(error, IoError::Gone { .. }), "{error}");
        assert!(error.to_string().contains("ulimit -n"), "{error}");
    }
    assert_eq!(read(19).unwrap(), 19);
}
