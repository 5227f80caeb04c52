//! Measures two ways from a named graph to its quads: a fifth order that begins with the graph, and a list of each
//! graph's subjects, whose tuples are then read.
//!
//! `cargo run --release -p pythiadb-store --example graph_order -- STORE GRAPHS`
//!
//! Deals the quads of a store to this many graphs of equal size in two ways: neighbouring subjects together, as
//! documents do, and at random. Prints the bytes per quad of each order, and the pages read cold per graph.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::{TermId, TermKind};
use pythia_store::segment::{SegmentOptions, TermsPlace};
use pythia_store::{
    BaseWriter, End, Expansion, GraphFilter, OpenOptions, Order, SegmentWriter, Store,
};

type Quad = [u64; 4];

/// Graphs whose reads are counted.
const SAMPLE: u64 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [store, graphs] = &args[..] else {
        return Err("usage: graph_order STORE GRAPHS".into());
    };
    let graphs: u64 = graphs.parse()?;
    let quads = quads_of(Path::new(store))?;
    println!("{} quads", quads.len());
    for (name, scattered) in [
        ("one graph", None),
        ("neighbours", Some(false)),
        ("random", Some(true)),
    ] {
        let mut dealt = quads.clone();
        deal(&mut dealt, graphs, scattered);
        measure(name, dealt, scattered.map_or(0, |_| graphs))?;
    }
    Ok(())
}

fn quads_of(folder: &Path) -> Result<Vec<Quad>, Box<dyn Error>> {
    let store = Store::open(folder, OpenOptions::default())?;
    let snapshot = store.snapshot();
    let mut quads = Vec::new();
    let mut scan = snapshot.quads()?;
    let mut batch = Default::default();
    while scan.next_into(&mut batch)? {
        let columns = &batch.columns;
        quads.extend(
            (0..batch.rows).map(|row| [columns[0][row], columns[1][row], columns[2][row], 0]),
        );
    }
    Ok(quads)
}

fn graph(number: u64) -> u64 {
    TermId::new(TermKind::Iri, (1 << 24) + number).0
}

fn deal(quads: &mut [Quad], graphs: u64, scattered: Option<bool>) {
    let each = (quads.len() as u64).div_ceil(graphs);
    for (number, quad) in (0_u64..).zip(quads) {
        quad[3] = match scattered {
            None => 0,
            Some(false) => graph(number / each),
            Some(true) => graph((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % graphs),
        };
    }
}

fn permuted(quads: &[Quad], components: [usize; 4]) -> Vec<Quad> {
    let mut rows: Vec<Quad> = quads
        .iter()
        .map(|quad| components.map(|place| quad[place]))
        .collect();
    rows.sort_unstable();
    rows
}

fn measure(name: &str, quads: Vec<Quad>, graphs: u64) -> Result<(), Box<dyn Error>> {
    let storage = Arc::new(MemoryStorage::new());
    let writer = BaseWriter::create(storage.clone(), SegmentOptions::default())?;
    let dictionary = writer.segment().dictionary(1)?.finish()?;
    let mut orders = Vec::new();
    for (order, components) in [
        (Order::Spo, [0, 1, 2, 3]),
        (Order::Ops, [2, 1, 0, 3]),
        (Order::Pso, [1, 0, 2, 3]),
        (Order::Pos, [1, 2, 0, 3]),
    ] {
        let mut out = writer.segment().order(order)?;
        for row in permuted(&quads, components) {
            out.push(row)?;
        }
        orders.push(out.finish()?);
    }
    let id = writer.seal(dictionary, orders)?;
    let bytes = |name: String| -> Result<f64, Box<dyn Error>> {
        Ok(storage.open(&name)?.len() as f64 / quads.len() as f64)
    };
    print!("{name}:");
    for order in Order::OF_ALL_GRAPHS {
        print!(
            " {} {:.2}",
            order.name(),
            bytes(format!("{}/{}.pages", id.folder(), order.name()))?
        );
    }
    println!();
    if graphs == 0 {
        return Ok(());
    }
    for page_bytes in [4 << 10, 16 << 10] {
        let options = SegmentOptions {
            column_page_bytes: page_bytes,
            ..SegmentOptions::default()
        };
        for (what, components) in [("gspo", [3, 0, 1, 2]), ("gpso", [3, 1, 0, 2])] {
            let folder = format!("{what}-{page_bytes}");
            let segment = SegmentWriter::new(
                storage.clone(),
                folder.clone(),
                TermsPlace::Existing,
                options,
            );
            let mut out = segment.order(Order::Pso)?;
            for row in permuted(&quads, components) {
                out.push(row)?;
            }
            out.finish()?;
            let size = bytes(format!("{folder}/pso.pages"))?;
            println!(
                "  {what} {size:.2} in pages of {page_bytes}: {:.2} pages a graph",
                size * quads.len() as f64 / page_bytes as f64 / graphs as f64 + 1.0
            );
        }
        let segment = SegmentWriter::new(
            storage.clone(),
            format!("gs-{page_bytes}"),
            TermsPlace::Existing,
            options,
        );
        let mut out = segment.order(Order::Pso)?;
        let mut pairs = permuted(&quads, [3, 0, 1, 2]);
        pairs.dedup_by_key(|row| [row[0], row[1]]);
        for row in &pairs {
            out.push([row[0], row[1], 0, 0])?;
        }
        out.finish()?;
        println!(
            "  subjects of graphs {:.2} in pages of {page_bytes}",
            bytes(format!("gs-{page_bytes}/pso.pages"))?
        );
    }
    let mut subjects: Vec<[u64; 2]> = quads.iter().map(|quad| [quad[3], quad[0]]).collect();
    subjects.sort_unstable();
    subjects.dedup();
    let mut pages = 0;
    for sample in 0..SAMPLE {
        let wanted = graph(sample * graphs / SAMPLE);
        let nodes: Vec<TermId> = subjects
            .iter()
            .filter(|pair| pair[0] == wanted)
            .map(|pair| TermId(pair[1]))
            .collect();
        let store = Store::open_storage(
            storage.clone(),
            OpenOptions {
                cache_bytes: 4 << 20,
            },
        )?;
        let mut out = Expansion::new(true, true);
        store.snapshot().expand(
            End::Subject,
            &nodes,
            None,
            GraphFilter::One(TermId(wanted)),
            &mut out,
        )?;
        let groups = store.snapshot().counters().groups;
        pages += groups
            .iter()
            .map(|(_, group)| group.device_pages)
            .sum::<u64>();
    }
    println!(
        "  subjects' tuples: {:.1} pages a graph",
        pages as f64 / SAMPLE as f64
    );
    Ok(())
}
