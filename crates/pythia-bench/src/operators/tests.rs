//! A small run of the whole benchmark. The operators' own tests are beside them.

use super::*;

fn options(folder: &std::path::Path) -> Options {
    Options {
        folder: folder.to_owned(),
        parts: Part::ALL.to_vec(),
        rounds: 1,
        device_time: Duration::from_millis(1),
        scan_bytes: 2 << 20,
        products: 30,
        join_rows: 20_000,
        join_memory_bytes: (8 << 20) + 600_000 + (1 << 20),
        bloom: bloom::Options::new(20_000, 1 << 20).expect("a power of two"),
    }
}

#[test]
fn the_benchmark_runs_in_small_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut steps = Vec::new();
    let report = run(&options(folder.path()), |step| steps.push(step.to_owned())).expect("it runs");
    assert!(
        steps.iter().any(|step| step.starts_with("join: 10 %")),
        "{steps:?}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);

    let scans = report.scan.as_ref().expect("scans");
    assert_eq!(
        scans.shares.len(),
        scan::PROJECTED.len() * scan::SELECTED.len()
    );
    assert_eq!(scans.sizes.len(), 3 * scan::MINIPAGE_BYTES.len());
    let columns = report.columns.as_ref().expect("columns");
    assert_eq!(columns.len(), 4);
    assert!(
        columns
            .iter()
            .all(|column| column.pages > 0 && column.share < 1.0)
    );
    let joins = report.join.as_ref().expect("joins");
    assert_eq!(
        joins.joins.len(),
        join::JOINING.len() * join::PROJECTED.len()
    );
    let filters = report.bloom.as_ref().expect("filters");
    assert_eq!(filters.filters.len(), 9);

    let text = report.text();
    for part in [
        "papers' figures",
        "FlashScan by size",
        "column pages",
        "FlashJoin",
        "pays if",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let html = report.html();
    assert_eq!(html.matches("<svg").count(), 3);
}

#[test]
fn parts_can_be_left_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options {
        parts: vec![Part::Bloom],
        ..options(folder.path())
    };
    let report = run(&options, |_| {}).expect("it runs");
    assert!(report.scan.is_none() && report.join.is_none() && report.columns.is_none());
    assert!(report.bloom.is_some());
}

#[test]
fn the_median_of_times_is_one_of_them() {
    assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&mut []), 0.0);
}
