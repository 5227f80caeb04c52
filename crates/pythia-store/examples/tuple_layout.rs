//! Measures the tuple pages on real data: bytes per quad of SPO and OPS, tuples on one page, external
//! lists and fill, by page size.
//!
//! `cargo run --release -p pythiadb-store --example tuple_layout -- FILE…`
//! `--sweep` also varies from which size on a list is external; `--hops` also walks: pages read per
//! hop from a cold cache, and the time of warm lookups, expansions and scans.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use pythia_io::{BufferPool, MemoryStorage, PageWriter, Storage};
use pythia_rdf::{
    OwnedKey, ParseOptions, Progress, QuadSink, SinkError, Source, TermError, TermId, TermKey,
    parse_sources,
};
use pythia_store::StoreError;
use pythia_store::pattern::{Expansion, GraphFilter};
use pythia_store::segment::tuple::format::{Header, Layout};
use pythia_store::segment::tuple::{
    ExternalPolicy, PageSink, TupleDirectory, TupleFile, TupleRows, TupleStatistics, TupleWriter,
};

type Quad = [u64; 4];

/// Numbers terms as they come; keys get their rank afterwards.
#[derive(Default)]
struct Collect {
    keys: HashMap<OwnedKey, u32>,
    quads: Vec<[Handle; 4]>,
}

#[derive(Clone, Copy)]
enum Handle {
    Key(u32),
    Id(u64),
}

impl QuadSink for Collect {
    type Term = Handle;

    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<Handle, TermError> {
        let key = key.to_owned_key();
        if let Some(&number) = self.keys.get(&key) {
            return Ok(Handle::Key(number));
        }
        validate()?;
        let number = self.keys.len() as u32;
        self.keys.insert(key, number);
        Ok(Handle::Key(number))
    }

    fn inline(&mut self, id: TermId) -> Handle {
        Handle::Id(id.0)
    }

    fn default_graph(&mut self) -> Handle {
        Handle::Id(0)
    }

    fn quad(&mut self, s: Handle, p: Handle, o: Handle, g: Handle) -> Result<(), SinkError> {
        self.quads.push([s, p, o, g]);
        Ok(())
    }
}

impl Collect {
    /// The distinct quads, with keys as ranks among the keys of their kind.
    fn into_quads(self) -> Vec<Quad> {
        let mut ids = vec![0; self.keys.len()];
        let mut keys: Vec<(OwnedKey, u32)> = self.keys.into_iter().collect();
        keys.sort_unstable_by(|a, b| a.0.as_key().cmp(&b.0.as_key()));
        let (mut kind, mut rank) = (None, 0);
        for (key, number) in keys {
            if kind != Some(key.kind) {
                (kind, rank) = (Some(key.kind), 0);
            }
            ids[number as usize] = TermId::new(key.kind, rank).0;
            rank += 1;
        }
        let id = |handle| match handle {
            Handle::Key(number) => ids[number as usize],
            Handle::Id(id) => id,
        };
        let mut quads: Vec<Quad> = self.quads.iter().map(|quad| quad.map(id)).collect();
        quads.sort_unstable();
        quads.dedup();
        quads
    }
}

/// Adds up what the sections take, and keeps nothing.
#[derive(Default)]
struct Measure {
    pages: u64,
    /// Header, columns, graphs, shapes, entries, nodes, shape numbers, samples, tuples: bits.
    sections: [u64; 9],
}

impl PageSink for Measure {
    fn push_page(&mut self, page: &mut [u8]) -> Result<u64, StoreError> {
        let header = Header::read(page).expect("just written");
        let layout = Layout::new(&header);
        let starts = [
            0,
            layout.columns_at,
            layout.graphs_at,
            layout.shapes_at,
            layout.entries_at,
            layout.nodes_at,
            layout.numbers_at,
            layout.samples_at,
            layout.tuples_at,
            layout.end,
        ];
        for (sum, section) in self.sections.iter_mut().zip(starts.windows(2)) {
            *sum += (section[1] - section[0]) as u64;
        }
        self.pages += 1;
        Ok(self.pages - 1)
    }
}

fn write<S: PageSink>(
    sink: S,
    rows: &[Quad],
    page_bytes: usize,
    policy: ExternalPolicy,
) -> Result<(S, TupleDirectory), StoreError> {
    let mut writer = TupleWriter::new(sink, page_bytes, policy);
    for &[node, predicate, other, graph] in rows {
        writer.push(node, predicate, other, graph)?;
    }
    writer.finish()
}

fn report(
    name: &str,
    rows: &[Quad],
    page_bytes: usize,
    policy: ExternalPolicy,
) -> Result<(), StoreError> {
    let (measure, directory) = write(Measure::default(), rows, page_bytes, policy)?;
    let nanos = best_of(5, || {
        black_box(write(Measure::default(), rows, page_bytes, policy).expect("it went well"));
    });
    let TupleStatistics {
        tuples,
        tuples_inline,
        tuples_split,
        rows,
        external_lists,
        external_rows,
        ..
    } = directory.statistics;
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let pages = directory.pages();
    print!(
        "{name} {:>6} {:>6} {pages:>7} {:>6.3} {:>8.3} {tuples_split:>5} {external_lists:>6} {:>6.1} {:>5.1} {:>6.1} |",
        directory.page_bytes(),
        policy.list_bytes_max,
        (pages * directory.page_bytes()) as f64 / rows as f64,
        share(tuples_inline, tuples),
        share(external_rows, rows),
        100.0 * directory.statistics.fill(pages, directory.page_bytes()),
        rows as f64 / nanos * 1e3,
    );
    for bits in measure.sections {
        print!(" {:>6.3}", bits as f64 / 8.0 / rows as f64);
    }
    println!();
    Ok(())
}

/// A file of the rows in memory, with a pool in front.
fn file(rows: &[Quad], page_bytes: usize) -> Result<TupleFile, Box<dyn Error>> {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let sink = PageWriter::new(storage.create("pages")?, page_bytes);
    let (pages, directory) = write(sink, rows, page_bytes, ExternalPolicy::for_page(page_bytes))?;
    pages.finish()?;
    let pool = BufferPool::new(storage, 64 << 20);
    let file = pool.open("pages", page_bytes, "pages")?;
    Ok(TupleFile::new(file, Arc::new(directory))?)
}

/// Numbers that look random and are the same in every run.
fn shuffle(i: usize) -> usize {
    (i as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29) as usize
}

/// Runs `f` several times and prints the shortest time per item: a busy machine only adds.
fn timed(what: &str, items: usize, f: impl FnMut()) {
    let nanos = best_of(20, f);
    println!("  {what:<40} {:>9.1} ns each", nanos / items as f64);
}

/// The shortest time of `f`, in nanoseconds.
fn best_of(times: usize, mut f: impl FnMut()) -> f64 {
    (0..times)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_nanos() as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn hops(name: &str, rows: &[Quad], page_bytes: usize) -> Result<(), Box<dyn Error>> {
    let file = file(rows, page_bytes)?;
    let pool = file.file().pool().clone();
    println!("{name}, pages of {page_bytes} bytes");
    let mut found = Expansion::default();
    let any = GraphFilter::Any;
    // Walks from random nodes along random edges, each with a cold cache.
    let (mut walked, mut reads) = (0, 0);
    for walk in 0..2000 {
        pool.clear();
        let before = pool.counters();
        let mut node = TermId(rows[shuffle(walk) % rows.len()][0]);
        for step in 0..4 {
            found.clear();
            file.expand_one(node, 0, None, any, &mut found)?;
            walked += 1;
            let Some(last) = found.other.len().checked_sub(1) else {
                break;
            };
            node = TermId(found.other[shuffle(walk * 4 + step) % (last + 1)]);
        }
        reads += pool.counters().since(&before).total().device_pages;
    }
    println!(
        "  {:.4} pages read per hop, {walked} hops",
        reads as f64 / walked as f64
    );

    let picks: Vec<(TermId, TermId)> = (0..20_000)
        .map(|i| rows[shuffle(i) % rows.len()])
        .map(|row| (TermId(row[0]), TermId(row[1])))
        .collect();
    let mut nodes: Vec<TermId> = picks.iter().map(|pick| pick.0).collect();
    nodes.sort_unstable();
    nodes.dedup();
    found.clear();
    file.expand(&nodes, None, any, &mut found)?;
    let edges = found.len() as f64 / nodes.len() as f64;
    println!("  {} nodes with {edges:.1} edges each:", nodes.len());
    let mut shuffled = nodes.clone();
    shuffled.sort_unstable_by_key(|node| shuffle(node.0 as usize));
    timed("one node, its page alone", shuffled.len(), || {
        for node in &shuffled {
            let page = file.page_of(*node).expect("a whole file");
            black_box(file.file().page(page).expect("a whole file"));
        }
    });
    timed("one node, all edges", shuffled.len(), || {
        for &node in &shuffled {
            found.clear();
            file.expand_one(node, 0, None, any, &mut found)
                .expect("a whole file");
            black_box(&found);
        }
    });
    timed("one node, one predicate", picks.len(), || {
        for pick in &picks {
            found.clear();
            file.expand_one(pick.0, 0, Some(pick.1), any, &mut found)
                .expect("a whole file");
            black_box(&found);
        }
    });
    timed("count of one node and predicate", picks.len(), || {
        for pick in &picks {
            black_box(file.count(pick.0, Some(pick.1)).expect("a whole file"));
        }
    });
    timed("frontier, all edges, per node", nodes.len(), || {
        found.clear();
        file.expand(&nodes, None, any, &mut found)
            .expect("a whole file");
    });
    let mut all: Vec<TermId> = rows.iter().map(|row| TermId(row[0])).collect();
    all.dedup();
    timed("all nodes, all edges, per quad", rows.len(), || {
        found.clear();
        file.expand(&all, None, any, &mut found)
            .expect("a whole file");
    });
    let mut batch = TupleRows::default();
    timed("scan, per quad", rows.len(), || {
        let mut scan = file.scan();
        while scan.next_batch(&mut batch).expect("a whole file") {
            black_box(&batch);
        }
    });
    Ok(())
}

/// What to measure beyond the table.
#[derive(Clone, Copy)]
struct Options {
    sweep: bool,
    hops: bool,
}

fn measure(file: &str, options: Options) -> Result<(), Box<dyn Error>> {
    let sources = vec![Source::from_path(Path::new(file), None, None)?];
    let mut sinks = [Collect::default()];
    let parse = ParseOptions::default().with_threads(1);
    parse_sources(sources, &parse, &mut sinks, &Progress::default())?;
    let [sink] = sinks;
    let spo = sink.into_quads();
    let mut ops: Vec<Quad> = spo.iter().map(|&[s, p, o, g]| [o, p, s, g]).collect();
    ops.sort_unstable();
    println!("\n{file}: {} quads", spo.len());
    println!(
        "order page   list    pages B/quad inline%  cut   ext.lists rows% fill% Mrow/s | B/quad: \
         header columns graphs shapes entries nodes numbers samples tuples"
    );
    for page_bytes in [4096, 8192, 16_384, 32_768] {
        let parts: &[usize] = if options.sweep {
            &[16, 8, 4, 2, 1]
        } else {
            &[0]
        };
        for &part in parts {
            let mut policy = ExternalPolicy::for_page(page_bytes);
            if let Some(list_bytes_max) = page_bytes.checked_div(part) {
                policy.list_bytes_max = list_bytes_max;
            }
            for (name, rows) in [("SPO", &spo), ("OPS", &ops)] {
                report(name, rows, page_bytes, policy)?;
            }
        }
    }
    if options.hops {
        for page_bytes in [4096, 16_384] {
            hops("SPO", &spo, page_bytes)?;
            hops("OPS", &ops, page_bytes)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options {
        sweep: false,
        hops: false,
    };
    let mut files = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--sweep" => options.sweep = true,
            "--hops" => options.hops = true,
            _ => files.push(argument),
        }
    }
    if files.is_empty() {
        return Err("which files?".into());
    }
    for file in files {
        measure(&file, options)?;
    }
    Ok(())
}
