//! Writing of sorted rows as column pages.
//!
//! Rows gather in a block of [`BLOCK_ROWS`]. A full block is encoded column by column and added to the open page if
//! it fits. The size of a page is the sum of the sizes of its blocks, so filling a page encodes no block twice,
//! except for the one that is cut to fill the page's end.

use pythia_io::PageWriter;

use super::block::BlockEncoder;
use super::counter::PredicateCounter;
use super::directory::{ColumnDirectory, OpenColumnDirectory, PageEntry};
use super::format::{
    BLOCK_ROWS, Column, END_BYTES, HEADER_BYTES, PAGE_ROWS_MAX, PAGE_TYPE, RUN_BYTES, field,
};
use crate::StoreError;
use crate::segment::bits::width_of;

/// A cut block is good enough if it leaves fewer bytes of the page than this empty.
const FILL_SLACK_BYTES: usize = 24;

/// Writer of one column file.
pub struct ColumnWriter {
    file: PageWriter,
    directory: OpenColumnDirectory,
    page: OpenPage,
    encoder: BlockEncoder,
    /// Rows not yet in the page, by column: p, a, b, g.
    pending: [Vec<u64>; 4],
    counter: PredicateCounter,
}

impl ColumnWriter {
    /// Returns a writer of pages of `page_bytes` (a power of two from 4 to 64 KiB) to `file`.
    pub(crate) fn new(file: PageWriter, page_bytes: usize) -> Self {
        Self {
            file,
            directory: OpenColumnDirectory::new(page_bytes),
            page: OpenPage::new(),
            encoder: BlockEncoder::new(),
            pending: std::array::from_fn(|_| Vec::with_capacity(BLOCK_ROWS)),
            counter: PredicateCounter::default(),
        }
    }

    /// As [`Self::new`], without counts per predicate in the directory: for files with any number of predicates.
    pub(crate) fn uncounted(file: PageWriter, page_bytes: usize) -> Self {
        Self {
            counter: PredicateCounter::of_nothing(),
            ..Self::new(file, page_bytes)
        }
    }

    /// Adds a row, which must be greater than the previous one; checked.
    #[inline]
    pub fn push(&mut self, p: u64, a: u64, b: u64, g: u64) -> Result<(), StoreError> {
        let in_order = self.counter.count([p, a, b, g]);
        assert!(in_order, "rows are pushed in order, each once");
        for (column, value) in self.pending.iter_mut().zip([p, a, b, g]) {
            column.push(value);
        }
        while self.pending[0].len() >= BLOCK_ROWS {
            self.flush_block()?;
        }
        Ok(())
    }

    /// Adds rows of (p, a, b, g).
    pub fn push_rows(&mut self, rows: &[[u64; 4]]) -> Result<(), StoreError> {
        rows.iter()
            .try_for_each(|&[p, a, b, g]| self.push(p, a, b, g))
    }

    /// Writes the last page and the directory pages; everything is durable on return.
    pub(crate) fn finish(mut self) -> Result<ColumnDirectory, StoreError> {
        while !self.pending[0].is_empty() {
            self.flush_block()?;
        }
        self.flush_page()?;
        let (mut file, predicates) = (self.file, self.counter.finish());
        let directory = self
            .directory
            .finish(predicates, |page| Ok(file.push(page)?))?;
        file.finish()?;
        Ok(directory)
    }

    /// Moves the pending rows to the page. If they do not all fit, moves as many as fill the page, and writes it.
    fn flush_block(&mut self) -> Result<(), StoreError> {
        let count = self.pending[0].len();
        if self.page.rows + count > PAGE_ROWS_MAX {
            self.flush_page()?;
        }
        let mark = self.page.mark();
        let used = self.page.append(&self.pending, count, &mut self.encoder);
        if used <= self.capacity() {
            self.pending.iter_mut().for_each(Vec::clear);
            return Ok(());
        }
        self.page.roll_back(&mark);
        let moved = self.fill(&mark, count, used);
        for column in &mut self.pending {
            column.drain(..moved);
        }
        self.flush_page()
    }

    /// Returns the bytes of a page that offsets of 16 bits can reach.
    fn capacity(&self) -> usize {
        self.directory.page_bytes.min(usize::from(u16::MAX))
    }

    /// Adds about as many pending rows as fill the page; returns their number. `count` rows were too many: with them
    /// the page would take `used` bytes.
    fn fill(&mut self, mark: &Mark, count: usize, used: usize) -> usize {
        let page_bytes = self.capacity();
        let free = page_bytes - mark.used;
        let (mut too_many, mut fitting) = (count, 0);
        // Estimate by the bytes per row in the last attempt.
        let (mut tried, mut tried_bytes) = (count, used - mark.used);
        for _ in 0..5 {
            if (free < FILL_SLACK_BYTES && mark.rows > 0) || fitting + 1 >= too_many {
                break;
            }
            tried = (tried * free / tried_bytes).clamp(fitting + 1, too_many - 1);
            let used = self.page.append(&self.pending, tried, &mut self.encoder);
            tried_bytes = used - mark.used;
            if used > page_bytes {
                too_many = tried;
            } else if page_bytes - used < FILL_SLACK_BYTES {
                return tried;
            } else {
                fitting = tried;
            }
            self.page.roll_back(mark);
        }
        if mark.rows == 0 {
            // An empty page has room for any row.
            fitting = fitting.max(1);
        }
        if fitting > 0 {
            let used = self.page.append(&self.pending, fitting, &mut self.encoder);
            debug_assert!(used <= page_bytes);
        }
        fitting
    }

    /// Seals and appends the page, if it has rows.
    fn flush_page(&mut self) -> Result<(), StoreError> {
        if self.page.rows == 0 {
            return Ok(());
        }
        let mut bytes = vec![0; self.directory.page_bytes];
        let used = self.page.write(&mut bytes);
        for (sum, used) in self.directory.used_bytes.iter_mut().zip(used) {
            *sum += used as u64;
        }
        let first_row = self.directory.rows;
        self.directory.push(&PageEntry {
            first: self.page.first,
            rows: first_row..first_row + self.page.rows as u64,
            b: self.page.columns[Column::B as usize].bounds.values,
            g: self.page.columns[Column::G as usize].bounds.values,
        });
        self.file.push(&mut bytes)?;
        self.page.clear();
        Ok(())
    }
}

/// The open page.
struct OpenPage {
    rows: usize,
    first: [u64; 3],
    /// Predicate and the row after its last.
    runs: Vec<(u64, u32)>,
    columns: [OpenColumn; 3],
}

/// A column of the open page.
#[derive(Default)]
struct OpenColumn {
    minima: Vec<u64>,
    /// End of each block in `data`.
    ends: Vec<usize>,
    data: Vec<u8>,
    bounds: Bounds,
}

/// Bounds of a column.
#[derive(Clone, Copy, Default)]
struct Bounds {
    /// Smallest and largest of the blocks' minima.
    minima: [u64; 2],
    /// Smallest and largest of the values.
    values: [u64; 2],
}

/// A state of the page for rolling back.
struct Mark {
    rows: usize,
    used: usize,
    run_count: usize,
    last_run: Option<(u64, u32)>,
    bounds: [Bounds; 3],
}

impl OpenPage {
    fn new() -> Self {
        Self {
            rows: 0,
            first: [0; 3],
            runs: Vec::new(),
            columns: Default::default(),
        }
    }

    fn clear(&mut self) {
        self.rows = 0;
        self.runs.clear();
        for column in &mut self.columns {
            column.truncate(0);
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            rows: self.rows,
            used: self.used_bytes(),
            run_count: self.runs.len(),
            last_run: self.runs.last().copied(),
            bounds: self.columns.each_ref().map(|column| column.bounds),
        }
    }

    fn roll_back(&mut self, mark: &Mark) {
        self.rows = mark.rows;
        self.runs.truncate(mark.run_count);
        if let (Some(run), Some(saved)) = (self.runs.last_mut(), mark.last_run) {
            *run = saved;
        }
        for (column, bounds) in self.columns.iter_mut().zip(mark.bounds) {
            column.truncate(mark.rows / BLOCK_ROWS);
            column.bounds = bounds;
        }
    }

    /// Adds the first `count` pending rows as a block. Returns the bytes that the page takes, which may exceed its
    /// size.
    fn append(
        &mut self,
        pending: &[Vec<u64>; 4],
        count: usize,
        encoder: &mut BlockEncoder,
    ) -> usize {
        // Only the page's last block has fewer rows.
        debug_assert!(self.rows.is_multiple_of(BLOCK_ROWS));
        if self.rows == 0 {
            self.first = [pending[0][0], pending[1][0], pending[2][0]];
        }
        let mut end = self.rows as u32;
        for run in pending[0][..count].chunk_by(|left, right| left == right) {
            end += run.len() as u32;
            match self.runs.last_mut() {
                Some(last) if last.0 == run[0] => last.1 = end,
                _ => self.runs.push((run[0], end)),
            }
        }
        for (column, values) in self.columns.iter_mut().zip(&pending[1..]) {
            column.append(&values[..count], encoder);
        }
        self.rows += count;
        self.used_bytes()
    }

    fn used_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(OpenColumn::bytes).sum();
        HEADER_BYTES + self.runs.len() * RUN_BYTES + columns
    }

    /// Writes the page except for its checksum. Returns the bytes of header, predicates, a, b and graph.
    fn write(&self, bytes: &mut [u8]) -> [usize; 5] {
        bytes[field::PAGE_TYPE] = PAGE_TYPE;
        put(
            bytes,
            field::RUN_COUNT,
            &(self.runs.len() as u16).to_le_bytes(),
        );
        put(bytes, field::ROW_COUNT, &(self.rows as u32).to_le_bytes());
        let blocks = self.rows.div_ceil(BLOCK_ROWS) as u16;
        put(bytes, field::BLOCK_COUNT, &blocks.to_le_bytes());
        let mut at = HEADER_BYTES;
        for (predicate, end) in &self.runs {
            put(bytes, at, &predicate.to_le_bytes());
            put(bytes, at + 8, &end.to_le_bytes());
            at += RUN_BYTES;
        }
        let mut used = [HEADER_BYTES, self.runs.len() * RUN_BYTES, 0, 0, 0];
        for column in Column::ALL {
            let number = column as usize;
            let open = &self.columns[number];
            put(
                bytes,
                field::STARTS + 2 * number,
                &(at as u16).to_le_bytes(),
            );
            put(
                bytes,
                field::BASES + 8 * number,
                &open.bounds.minima[0].to_le_bytes(),
            );
            if open.is_constant() {
                bytes[field::FLAGS] |= column.constant_flag();
            } else {
                let minimum_bytes = open.minimum_bytes();
                bytes[field::MINIMUM_BYTES + number] = minimum_bytes as u8;
                open.write(minimum_bytes, &mut bytes[at..at + open.bytes()]);
            }
            used[number + 2] = open.bytes();
            at += open.bytes();
        }
        put(bytes, field::END, &(at as u16).to_le_bytes());
        used
    }
}

impl OpenColumn {
    fn append(&mut self, values: &[u64], encoder: &mut BlockEncoder) {
        let (min, max) = encoder.encode(values, &mut self.data);
        if self.minima.is_empty() {
            self.bounds = Bounds {
                minima: [min, min],
                values: [min, max],
            };
        } else {
            let Bounds { minima, values } = &mut self.bounds;
            *minima = [minima[0].min(min), minima[1].max(min)];
            *values = [values[0].min(min), values[1].max(max)];
        }
        self.minima.push(min);
        self.ends.push(self.data.len());
    }

    /// Keeps this many blocks; the caller resets the bounds.
    fn truncate(&mut self, blocks: usize) {
        self.minima.truncate(blocks);
        self.ends.truncate(blocks);
        self.data.truncate(self.ends.last().copied().unwrap_or(0));
    }

    fn is_constant(&self) -> bool {
        self.bounds.values[0] == self.bounds.values[1]
    }

    fn minimum_bytes(&self) -> usize {
        let [min, max] = self.bounds.minima;
        width_of(max - min).div_ceil(8) as usize
    }

    fn bytes(&self) -> usize {
        if self.minima.is_empty() || self.is_constant() {
            return 0;
        }
        self.minima.len() * (self.minimum_bytes() + END_BYTES) + self.data.len()
    }

    fn write(&self, minimum_bytes: usize, bytes: &mut [u8]) {
        let mut at = 0;
        for minimum in &self.minima {
            let relative = (minimum - self.bounds.minima[0]).to_le_bytes();
            put(bytes, at, &relative[..minimum_bytes]);
            at += minimum_bytes;
        }
        for &end in &self.ends {
            put(bytes, at, &(end as u16).to_le_bytes());
            at += END_BYTES;
        }
        put(bytes, at, &self.data);
    }
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}
