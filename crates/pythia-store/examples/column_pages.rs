//! Sizes and speeds of the column pages at every page size: `column_pages FILE…`.
//!
//! The numbers in `docs/decisions/0006-column-pages.md` come from here.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pythia_rdf::{Source, TermId};
use pythia_store::load::{LoadOptions, LoadProgress};
use pythia_store::report::{OrderContents, StoreReport};
use pythia_store::store::load_into;
use pythia_store::{
    Component, IdBatch, OpenOptions, Order, QuadPattern, SegmentOptions, Snapshot, Store,
};

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        return Err("usage: column_pages FILE…".into());
    }
    for file in &files {
        println!("{file}");
        for kib in [4, 8, 16, 32, 64] {
            measure(file, kib << 10)?;
        }
    }
    Ok(())
}

fn measure(file: &str, column_page_bytes: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let options = LoadOptions {
        segment: Some(SegmentOptions {
            column_page_bytes,
            ..SegmentOptions::default()
        }),
        ..LoadOptions::default()
    };
    let source = Source::from_path(Path::new(file), None, None)?;
    let progress = Arc::new(LoadProgress::default());
    load_into(folder.path(), vec![source], &options, &progress)?;
    let cache = OpenOptions {
        cache_bytes: 1 << 30,
    };
    let store = Store::open(folder.path(), cache)?;
    let report = StoreReport::new(&store);
    print!("{:>3} KiB", column_page_bytes >> 10);
    for order in &report.orders[2..] {
        let OrderContents::Columns {
            header_bytes,
            predicate_bytes,
            second_bytes,
            third_bytes,
            ..
        } = order.contents
        else {
            continue;
        };
        print!(
            " | {} {:.3} (pages {:.3}, second {:.3}, third {:.3})",
            order.order.name(),
            report.per_quad(order.file.bytes()),
            report.per_quad(header_bytes + predicate_bytes),
            report.per_quad(second_bytes),
            report.per_quad(third_bytes),
        );
    }
    let snapshot = store.snapshot();
    let quads = report.statistics.quads as f64;
    for order in [Order::Pso, Order::Pos] {
        let seconds = best(5, || scan_all(&snapshot, order))?;
        print!(
            " | scan {} {:.0} M rows/s",
            order.name(),
            quads / seconds / 1e6
        );
    }
    let keys = sample(&snapshot)?;
    let seconds = best(5, || count_all(&snapshot, &keys))?;
    println!(" | count(p, o) {:.2} µs", seconds / keys.len() as f64 * 1e6);
    Ok(())
}

/// Returns the shortest time of several runs, in seconds.
fn best(
    runs: usize,
    mut run: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        run()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}

fn scan_all(snapshot: &Snapshot, order: Order) -> Result<(), Box<dyn Error>> {
    use Component::{Object, Predicate, Subject};
    let wanted = [Predicate, Subject, Object];
    let mut scan = snapshot.scan(&QuadPattern::default(), order, &wanted)?;
    let mut batch = IdBatch::default();
    while scan.next_into(&mut batch)? {}
    Ok(())
}

/// Predicates and objects of every thousandth quad.
fn sample(snapshot: &Snapshot) -> Result<Vec<QuadPattern>, Box<dyn Error>> {
    let mut keys = Vec::new();
    let mut scan = snapshot.quads()?;
    let mut rows = 0;
    while let Some(batch) = scan.next()? {
        for row in (0..batch.rows).filter(|row| (rows + row).is_multiple_of(1009)) {
            keys.push(QuadPattern {
                predicate: Some(TermId(batch.columns[1][row])),
                object: Some(TermId(batch.columns[2][row])),
                // A filter that passes all: the count then comes from the columns.
                graph: pythia_store::GraphFilter::One(TermId(batch.columns[3][row])),
                ..QuadPattern::default()
            });
        }
        rows += batch.rows;
    }
    Ok(keys)
}

fn count_all(snapshot: &Snapshot, keys: &[QuadPattern]) -> Result<(), Box<dyn Error>> {
    for key in keys {
        snapshot.count(key)?;
    }
    Ok(())
}
