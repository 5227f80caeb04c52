use std::collections::BTreeMap;

use pythia_io::probe::SplitMix;

use super::devices::{Flash, Meter, place};
use super::page::Page;
use super::*;

fn layout(log: Medium, sector_bytes: usize, log_area_bytes: usize) -> Layout {
    Layout {
        log,
        sector_bytes,
        log_area_bytes,
    }
}

/// Inserts, replaces and retrieves at random, and compares each answer with that of a `BTreeMap`.
fn check_against_map(mut store: impl RecordStore, seed: u64, steps: usize) {
    let mut random = SplitMix(seed);
    let mut map = BTreeMap::new();
    for step in 0..steps {
        // Half of the insertions are of keys that may be there.
        let key = match random.below(2) {
            0 => random.below(steps as u64),
            _ => random.next_u64(),
        };
        let mut value = vec![0; random.below(43) as usize];
        random.fill(&mut value);
        store.insert(key, &value);
        map.insert(key, value);
        let probed = random.below(steps as u64);
        assert_eq!(
            store.get(probed),
            map.get(&probed).cloned(),
            "seed {seed}, step {step}"
        );
        if random.below(steps as u64) < 3 {
            store.flush();
        }
    }
    for (key, value) in map {
        assert_eq!(store.get(key), Some(value), "seed {seed}");
    }
}

#[test]
fn stores_return_what_was_last_inserted() {
    for seed in 0..2 {
        for layout in [
            layout(Medium::Flash, 512, 8192),
            layout(Medium::Flash, 512, 65_536),
            layout(Medium::Pcram, 64, 1024),
            layout(Medium::Pcram, 512, 8192),
        ] {
            check_against_map(Tree::new(layout, 20), seed, 4000);
        }
        check_against_map(Runs::new(120_000, Vec::new()), seed, 4000);
    }
}

#[test]
fn a_tree_in_the_buffer_reads_nothing() {
    let mut tree = Tree::new(layout(Medium::Pcram, 128, 8192), 1000);
    for key in 0..10_000_u64 {
        tree.insert(key, &[1; 40]);
    }
    let phase = tree.take_phase();
    assert_eq!(phase.counts, Counts::default());
    assert_eq!(phase.seconds, [0.0; 2]);
    tree.flush();
    let phase = tree.take_phase();
    assert_eq!(phase.counts.pages_written, tree.store.page_count());
    assert_eq!(phase.counts.sectors_written, 0);
    // They are written once: changes since are in the log.
    tree.insert(5, &[2; 40]);
    tree.flush();
    let phase = tree.take_phase();
    assert_eq!(
        (phase.counts.pages_written, phase.counts.sectors_written),
        (0, 1)
    );
    assert_eq!(phase.counts.log_bytes, 1 + 8 + 40);
}

#[test]
fn a_full_log_area_is_merged() {
    let layout = layout(Medium::Flash, 512, 8192);
    let mut tree = Tree::new(layout, 100);
    tree.insert(1, &[0; 40]);
    tree.flush();
    tree.take_phase();
    for value in 1..=17 {
        tree.insert(1, &[value; 40]);
        tree.flush();
    }
    let phase = tree.take_phase();
    let counts = Counts {
        pages_read: 1,
        pages_written: 1,
        sectors_read: 16,
        sectors_written: 17,
        log_bytes: 17 * 49,
        merges: 1,
        erases: 1,
    };
    assert_eq!(phase.counts, counts);
    // 17 sectors; a page and its log of 8 KiB each are read in pages of 2 KiB; one page is written, one block erased.
    let chips_us = 17.0 * 213.0 + 8.0 * 75.0 + 4.0 * 250.0 + 1500.0;
    assert!((phase.seconds[0] * 1e6 - chips_us).abs() < 1.0, "{phase:?}");
}

#[test]
fn devices_take_the_time_of_their_smallest_reads_and_writes() {
    let mut meter = Meter::default();
    let mut us = |operation: &dyn Fn(&mut Meter)| {
        operation(&mut meter);
        meter
            .take()
            .seconds
            .map(|seconds| (seconds * 1e7).round() / 10.0)
    };
    let page = 0..8192;
    // A page of 8 KiB: four pages of the chip; one read of the SSD.
    assert_eq!(
        us(&|meter| meter.read(std::slice::from_ref(&page), &[])),
        [300.0, 72.0]
    );
    // Two sectors of the same page of the chip and of the SSD are one read more.
    let sectors = [0..8192, 16_384..16_896, 17_408..17_920];
    assert_eq!(us(&|meter| meter.read(&sectors, &[])), [375.0, 72.0]);
    // The log of another device is read meanwhile.
    assert_eq!(
        us(&|meter| meter.read(std::slice::from_ref(&page), &[0..512, 4096..4608])),
        [300.0, 72.0]
    );
    // A sector that does not begin the SSD's page of 4 KiB changes what is there.
    let flash = |at| move |meter: &mut Meter| meter.write(Medium::Flash, at..at + 512);
    assert_eq!(us(&flash(4096)), [213.0, 241.0]);
    assert_eq!(us(&flash(4608)), [213.0, 241.0 + 72.0]);
    let pcram = |meter: &mut Meter| meter.write(Medium::Pcram, 128..256);
    assert_eq!(us(&pcram), [28.2, 386.0 + 36.0]);
}

#[test]
fn each_read_of_the_pcram_chip_has_its_latency() {
    let mut meter = Meter::default();
    let mut us = |ranges: &[std::ops::Range<u64>]| {
        meter.read(&[], ranges);
        meter.take().seconds[0] * 1e6
    };
    // Table 2 of the article: 206 ns for 32 bytes, of which 78 ns are for the first.
    let per_32_bytes = 0.206 - 0.078;
    for (ranges, reads, bytes) in [
        (&[(0, 32)][..], 1.0, 32.0),
        (&[(0, 512)], 1.0, 512.0),
        (&[(0, 256), (256, 512)], 1.0, 512.0),
        (&[(0, 512), (1024, 1536), (4096, 4128)], 3.0, 1056.0),
    ] {
        let ranges: Vec<_> = ranges.iter().map(|&(start, end)| start..end).collect();
        let expected = reads * 0.078 + bytes / 32.0 * per_32_bytes;
        let found = us(&ranges);
        assert!(
            (found - expected).abs() < 0.001,
            "{ranges:?}: {found} µs, not {expected}"
        );
    }
}

#[test]
#[should_panic(expected = "written once")]
fn flash_is_not_overwritten() {
    let mut flash = Flash::default();
    let block = flash.take();
    flash.write(block, 0, &[1; 512]);
    flash.erase(block);
    let block = flash.take();
    flash.write(block, 0, &[1; 512]);
    flash.write(block, 256, &[2; 512]);
}

#[test]
fn a_full_page_refuses_records_and_keeps_those_it_has() {
    let mut page = Page::new();
    let count = (0..).take_while(|key| page.insert(*key, &[7; 40])).count();
    assert_eq!(count, (8192 - 4) / (2 + 9 + 40));
    assert!(
        page.insert(3, &[8; 40]),
        "a replaced record needs no more room"
    );
    assert!(!page.insert(3, &[8; 200]));
    let middle = page.middle();
    let upper = page.upper(middle);
    page.cut(middle);
    assert_eq!(page.len() + upper.len(), count);
    assert_eq!((page.get(3), page.get(middle)), (Some(&[8; 40][..]), None));
    assert_eq!(upper.get(middle), Some(&[7; 40][..]));
    assert_eq!(page.floor(middle), page.get(middle - 1));
    assert_eq!(place(2, 512..1024), 262_656..263_168);
}

fn small() -> Options {
    Options {
        records: 6000,
        log_area_bytes: vec![8192, 32_768],
        jobs: 2,
        ..Options::default()
    }
}

#[test]
fn the_order_of_the_results_is_that_of_the_paper() {
    let report = run(&small(), |_| ()).unwrap();
    assert_eq!(report.stores.len(), 7);
    for stores in report.stores[..6].chunks(3) {
        let [flash, small, large] = stores else {
            panic!("three stores for each log area");
        };
        for (faster, slower) in [(small, large), (large, flash)] {
            assert!(faster.insert.seconds[0] < slower.insert.seconds[0]);
        }
        assert!(large.insert.counts.merges > 2 * small.insert.counts.merges);
        assert!(large.retrieve.seconds[0] < flash.retrieve.seconds[0]);
        assert!(flash.retrieve.counts.pages_read > report.records / 2);
    }
    let runs = &report.stores[6];
    assert!(runs.layout.is_none() && runs.insert.counts.merges > 0);
    assert_eq!(runs.commit_logs.len(), 8);
    for log in &runs.commit_logs {
        assert_eq!(log.writes, report.records.div_ceil(log.group));
        assert!(log.seconds > 0.0 && log.written_bytes >= report.records * 40);
    }
    let again = run(&small(), |_| ()).unwrap();
    for (first, second) in report.stores.iter().zip(&again.stores) {
        assert_eq!(first.insert.counts, second.insert.counts);
        assert_eq!(first.retrieve.seconds, second.retrieve.seconds);
    }
}

#[test]
fn no_more_stores_are_in_memory_than_are_asked_for() {
    for jobs in [1, 2] {
        let threads = std::sync::Mutex::new(std::collections::HashSet::new());
        let options = Options {
            records: 500,
            jobs,
            ..small()
        };
        let thread = |_: &str| {
            let id = std::thread::current().id();
            threads.lock().unwrap().insert(id);
        };
        run(&options, thread).unwrap();
        let found = threads.into_inner().unwrap().len();
        assert!((1..=jobs).contains(&found), "{found} threads, not {jobs}");
    }
}

#[test]
fn the_report_has_the_paper_and_what_follows() {
    let report = run(&small(), |_| ()).unwrap();
    let (text, html) = (report.text(), report.html());
    for part in [
        "Beside the paper",
        "17.0",
        "43.0",
        "modelled",
        "sorted runs",
        "log",
    ] {
        assert!(text.contains(part), "{part} in {text}");
        assert!(html.contains(part), "{part}");
    }
    assert!(html.contains("<svg"));
}

#[test]
fn parameters_out_of_range_are_refused() {
    let refused = |change: &dyn Fn(&mut Options), message: &str| {
        let mut options = small();
        change(&mut options);
        let error = run(&options, |_| ()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    refused(&|options| options.records = 0, "at least 1 record");
    refused(
        &|options| options.buffer_bytes = Some(1),
        "the buffer has at least",
    );
    refused(
        &|options| options.log_area_bytes = vec![128 << 10],
        "a log area has",
    );
    refused(
        &|options| options.sector_bytes = vec![100],
        "a log sector has",
    );
    refused(
        &|options| options.sector_bytes = vec![32],
        "a log sector has",
    );
    refused(&|options| options.groups = vec![0], "a group has");
    refused(&|options| options.jobs = 0, "at least 1 store");
}
