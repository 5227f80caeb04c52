//! The same question for the product's column pages: the time to read one column's part of each page, compared with whole
//! pages.
//!
//! The pages are those of a store of BSBM data, in PSO and POS. A part is read in blocks of the device, each page's part by a
//! read of its own. The parts' places are known before the reads, which favours parts: they are in the pages' headers.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use pythia::{Compression, Database, LoadOptions, RdfFormat, Source, StoreReport};
use pythia_generate::{Part, bsbm};
use pythia_io::{ReadFile, Storage};
use pythia_store::Order;
use pythia_store::report::FileReport;
use pythia_store::segment::column::minipage_places;
use serde::Serialize;

use super::relation::{Reader, WINDOW_BYTES};

/// Memory of the load of the store, in bytes.
pub const LOAD_MEMORY_BYTES: usize = 512 << 20;
const FOLDER: &str = "store";
/// Tries in each round: a column file is small.
const TRIES: usize = 5;

/// Times of one column of one order.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// The order of the quads.
    pub order: &'static str,
    /// The component in the column.
    pub component: &'static str,
    /// Pages read.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// The column's share of the bytes of the pages.
    pub share: f64,
    /// Median time to read all pages, in milliseconds.
    pub whole_ms: f64,
    /// Median time to read the column's part of each page.
    pub part_ms: f64,
    /// Bytes read for the parts.
    pub part_bytes: u64,
    /// Computed: bytes of a page from which on the part takes half of the time; `None`: the share is too large for that.
    pub page_bytes_for_half: Option<u64>,
}

/// Loads BSBM data with a number of products into `folder`, which is `storage`, and measures both column files.
pub(super) fn run(
    storage: &dyn Storage,
    folder: &Path,
    products: u64,
    bridge_bytes: u64,
    rounds: usize,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Column>> {
    progress("columns: load a store");
    let database = load(&folder.join(FOLDER), products)?;
    let segment = database.store().manifest().segment.folder();
    let mut columns = Vec::new();
    for order in StoreReport::new(database.store()).orders {
        let components = match order.order {
            Order::Pso => ["subject", "object"],
            Order::Pos => ["object", "subject"],
            _ => continue,
        };
        let name = order.order.name();
        progress(&format!("columns: {name}"));
        let file = storage.open(&format!("{FOLDER}/{segment}/{name}.pages"))?;
        let pages = Pages::read(storage, file, order.file)?;
        for (number, component) in components.into_iter().enumerate() {
            let column = pages.measure(storage, number, bridge_bytes, rounds)?;
            columns.push(Column {
                order: name,
                component,
                ..column
            });
        }
    }
    drop(database);
    storage.remove(FOLDER)?;
    Ok(columns)
}

/// Makes a store and opens it.
fn load(folder: &Path, products: u64) -> Result<Database> {
    let config = bsbm::Config::new(products)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let sources = Part::all(u32::try_from(cores)?)
        .map(|part| {
            let reader = bsbm::reader(&config, part);
            let name = format!("generated part {part}");
            Source::from_reader(name, reader, RdfFormat::NTriples, Compression::None)
        })
        .collect::<Result<Vec<Source>, _>>()?;
    let options = LoadOptions {
        memory_bytes: LOAD_MEMORY_BYTES,
        tmp: folder.parent().unwrap_or(folder).to_owned(),
        ..LoadOptions::default()
    };
    pythia::load(folder, sources, &options, &Default::default())?;
    Ok(Database::open(folder)?)
}

/// The pages of a column file.
struct Pages {
    file: Arc<dyn ReadFile>,
    page_bytes: usize,
    /// The place of each page's columns in the page.
    places: Vec<[Range<usize>; 3]>,
}

impl Pages {
    /// Finds the columns of all pages.
    fn read(storage: &dyn Storage, file: Arc<dyn ReadFile>, report: FileReport) -> Result<Self> {
        let page_bytes = report.page_bytes;
        let mut reader = Reader::new(storage, 0);
        let mut places = Vec::new();
        for page in 0..report.pages {
            let place = page * page_bytes as u64..(page + 1) * page_bytes as u64;
            reader.read(&*file, [place.clone()])?;
            match minipage_places(reader.bytes(place)) {
                Some(found) => places.push(found),
                // The pages of the file's directory come last.
                None => break,
            }
        }
        ensure!(!places.is_empty(), "{} has no column pages", file.name());
        Ok(Self {
            file,
            page_bytes,
            places,
        })
    }

    /// Measures the reads of one column. Whole pages and parts take turns.
    fn measure(
        &self,
        storage: &dyn Storage,
        column: usize,
        bridge_bytes: u64,
        rounds: usize,
    ) -> Result<Column> {
        let whole: Vec<Range<u64>> = (0..self.places.len())
            .map(|page| self.place(page, 0..self.page_bytes))
            .collect();
        let parts = self.places.iter().enumerate();
        let parts: Vec<Range<u64>> = parts
            .map(|(page, places)| self.place(page, places[column].clone()))
            .filter(|place| !place.is_empty())
            .collect();
        let mut reader = Reader::new(storage, 0);
        let mut times = [const { Vec::new() }; 2];
        let mut part_bytes = 0;
        for _ in 0..rounds * TRIES {
            for (places, times) in [&whole, &parts].into_iter().zip(&mut times) {
                let before = reader.bytes_read;
                let begun = Instant::now();
                for window in places.chunks(WINDOW_BYTES / self.page_bytes) {
                    reader.read(&*self.file, window.iter().cloned())?;
                }
                times.push(begun.elapsed().as_secs_f64() * 1e3);
                part_bytes = reader.bytes_read - before;
            }
        }
        let used: u64 = parts.iter().map(|place| place.end - place.start).sum();
        let share = used as f64 / (self.places.len() * self.page_bytes) as f64;
        let [whole_ms, part_ms] = times.map(|mut times| super::median(&mut times));
        Ok(Column {
            order: "",
            component: "",
            pages: self.places.len() as u64,
            page_bytes: self.page_bytes,
            share,
            whole_ms,
            part_ms,
            part_bytes,
            page_bytes_for_half: page_bytes_for_half(share, bridge_bytes),
        })
    }

    fn place(&self, page: usize, within: Range<usize>) -> Range<u64> {
        let start = (page * self.page_bytes) as u64;
        start + within.start as u64..start + within.end as u64
    }
}

/// Returns the bytes of a page whose part with this share takes half of the time of the page: a read costs as much as
/// `bridge_bytes` more.
fn page_bytes_for_half(share: f64, bridge_bytes: u64) -> Option<u64> {
    let left = 0.5 - share;
    (left > 0.0).then(|| (bridge_bytes as f64 / left) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_need_pages_of_twice_the_cost_of_a_read() {
        assert_eq!(page_bytes_for_half(0.0, 16_000), Some(32_000));
        assert_eq!(page_bytes_for_half(0.25, 16_000), Some(64_000));
        assert_eq!(page_bytes_for_half(0.5, 16_000), None);
    }
}
