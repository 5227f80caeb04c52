//! The page store of In-Page Logging (§3).
//!
//! Pages are in blocks of flash. Each block has a log area: in the block itself, or on a device of its own. A page in the
//! buffer has a log sector in memory, which gets a record of each change. The sector is written to the block's log area when
//! it is full, or when the page leaves the buffer; the page itself is not written. A page that comes back is read with the log
//! sectors of it, whose records are applied. When a log area is full, its block is merged: all pages with their records
//! applied go to an erased block, and the old block is erased.
//!
//! A new page has no image on flash yet: it is written whole when it first leaves the buffer.
//!
//! The store remembers in memory which page each log sector belongs to (one byte each), so only those are read.

use std::ops::{DerefMut, Range};

use super::Layout;
use super::cache::Cache;
use super::devices::{BLOCK_BYTES, Flash, Medium, Meter, place};
use super::page::{PAGE_BYTES, Page};

/// Bytes at the beginning of a log sector: its page's slot in the block, and the bytes of its records.
const SECTOR_HEADER_BYTES: usize = 3;
/// First byte of a log record that removes the records from a key on. Others begin with the length of a value.
const CUT: u8 = u8::MAX;

/// The store.
#[derive(Debug)]
pub(super) struct PageStore {
    layout: Layout,
    flash: Flash,
    /// Log areas by block, if they are not in the blocks.
    pcram: Vec<u8>,
    blocks: Vec<Block>,
    page_count: u32,
    cache: Cache<Frame>,
    pub(super) meter: Meter,
}

/// A block of pages.
#[derive(Debug)]
struct Block {
    /// Its number on flash.
    number: u32,
    /// The slots whose pages have been written, one bit each.
    written: u32,
    /// The slot of each log sector, in the order of writing.
    sectors: Vec<u8>,
}

/// A page in the buffer.
#[derive(Debug)]
struct Frame {
    page: Page,
    /// Log records that are not yet written.
    log: Vec<u8>,
    /// True if the page was never written; it then needs no log.
    is_new: bool,
}

impl PageStore {
    /// Returns an empty store with a buffer of this many pages.
    pub(super) fn new(layout: Layout, buffer_pages: usize) -> Self {
        Self {
            layout,
            flash: Flash::default(),
            pcram: Vec::new(),
            blocks: Vec::new(),
            page_count: 0,
            cache: Cache::new(buffer_pages),
            meter: Meter::default(),
        }
    }

    /// Adds a page, and returns its number.
    pub(super) fn add(&mut self, page: Page) -> u32 {
        let number = self.page_count;
        self.page_count += 1;
        if (number as usize).is_multiple_of(self.layout.pages_per_block()) {
            let block = Block {
                number: self.flash.take(),
                written: 0,
                sectors: Vec::new(),
            };
            self.blocks.push(block);
        }
        let frame = Frame {
            page,
            log: Vec::new(),
            is_new: true,
        };
        self.keep(number, frame);
        number
    }

    /// Returns a page.
    pub(super) fn page(&mut self, number: u32) -> &Page {
        &self.frame(number).page
    }

    /// Inserts a record into a page. Returns false, without a change, if there is no room.
    pub(super) fn insert(&mut self, number: u32, key: u64, value: &[u8]) -> bool {
        if !self.frame(number).page.insert(key, value) {
            return false;
        }
        let mut record = vec![value.len() as u8];
        record.extend_from_slice(&key.to_be_bytes());
        record.extend_from_slice(value);
        self.log(number, &record);
        true
    }

    /// Removes the records from a key on from a page.
    pub(super) fn cut(&mut self, number: u32, key: u64) {
        self.frame(number).page.cut(key);
        let mut record = vec![CUT];
        record.extend_from_slice(&key.to_be_bytes());
        self.log(number, &record);
    }

    /// Writes all changes of pages in the buffer.
    pub(super) fn flush(&mut self) {
        for number in self.cache.pages() {
            let frame = self.cache.get(number).expect("it is in the buffer");
            let is_new = std::mem::take(&mut frame.is_new);
            let log = std::mem::take(&mut frame.log);
            if is_new {
                let page = frame.page.clone();
                self.write_page(number, &page);
            } else if !log.is_empty() {
                self.write_sector(number, &log);
            }
        }
    }

    /// Returns the bytes of its blocks and log areas.
    pub(super) fn bytes(&self) -> u64 {
        let areas = match self.layout.log {
            Medium::Flash => 0,
            Medium::Pcram => self.layout.log_area_bytes,
        };
        (self.flash.in_use() * (BLOCK_BYTES + areas)) as u64
    }

    /// Returns the number of pages.
    pub(super) fn page_count(&self) -> u64 {
        self.page_count.into()
    }

    fn frame(&mut self, number: u32) -> &mut Frame {
        if self.cache.get(number).is_none() {
            let frame = Frame {
                page: self.read_page(number),
                log: Vec::new(),
                is_new: false,
            };
            self.keep(number, frame);
        }
        self.cache.get(number).expect("it is in the buffer")
    }

    /// Puts a page into the buffer, and writes the changes of the one that it replaces.
    fn keep(&mut self, number: u32, frame: Frame) {
        let Some((old, frame)) = self.cache.insert(number, frame) else {
            return;
        };
        if frame.is_new {
            self.write_page(old, &frame.page);
        } else if !frame.log.is_empty() {
            self.write_sector(old, &frame.log);
        }
    }

    /// Adds a record to the log sector in memory. If it does not fit, the sector is written first.
    fn log(&mut self, number: u32, record: &[u8]) {
        let room = self.layout.sector_bytes - SECTOR_HEADER_BYTES;
        let frame = self.frame(number);
        if frame.is_new {
            return;
        }
        if frame.log.len() + record.len() <= room {
            frame.log.extend_from_slice(record);
            return;
        }
        let full = std::mem::replace(&mut frame.log, record.to_vec());
        self.write_sector(number, &full);
    }

    /// Writes a new page.
    fn write_page(&mut self, number: u32, page: &Page) {
        let (block, slot) = self.place_of(number);
        let block = &mut self.blocks[block];
        block.written |= 1 << slot;
        let at = slot * PAGE_BYTES;
        self.flash.write(block.number, at, page.bytes());
        let range = place(block.number, at..at + PAGE_BYTES);
        self.meter.write(Medium::Flash, range);
        self.meter.counts.pages_written += 1;
    }

    /// Writes log records of a page to the log area of its block, which is merged first if its log area is full.
    fn write_sector(&mut self, number: u32, records: &[u8]) {
        let (block, slot) = self.place_of(number);
        if self.blocks[block].sectors.len() == self.layout.sectors_per_block() {
            self.merge(block);
        }
        let mut sector = vec![slot as u8];
        sector.extend_from_slice(&(records.len() as u16).to_le_bytes());
        sector.extend_from_slice(records);
        sector.resize(self.layout.sector_bytes, u8::MAX);
        let block = &mut self.blocks[block];
        let range = self.layout.sector(block.number, block.sectors.len());
        block.sectors.push(slot as u8);
        match self.layout.log {
            Medium::Flash => {
                let at = range.start as usize % BLOCK_BYTES;
                self.flash.write(block.number, at, &sector);
            }
            Medium::Pcram => {
                let bytes = range.start as usize..range.end as usize;
                if self.pcram.len() < bytes.end {
                    self.pcram.resize(bytes.end, 0);
                }
                self.pcram[bytes].copy_from_slice(&sector);
            }
        }
        self.meter.write(self.layout.log, range);
        self.meter.counts.sectors_written += 1;
        self.meter.counts.log_bytes += records.len() as u64;
    }

    /// Reads a page, and applies its log.
    fn read_page(&mut self, number: u32) -> Page {
        let (block, slot) = self.place_of(number);
        let block = &self.blocks[block];
        let bytes = slot * PAGE_BYTES..(slot + 1) * PAGE_BYTES;
        let mut page = Page::copy_of(self.flash.read(block.number, bytes.clone()));
        let mut logs = Vec::new();
        for (index, _) in block
            .sectors
            .iter()
            .enumerate()
            .filter(|(_, of)| usize::from(**of) == slot)
        {
            let range = self.layout.sector(block.number, index);
            apply(&mut page, self.sector(&range));
            logs.push(range);
        }
        self.meter.counts.pages_read += 1;
        self.meter.counts.sectors_read += logs.len() as u64;
        self.meter_read(place(block.number, bytes), logs);
        page
    }

    /// Writes the pages of a block, with their log applied, to an erased block.
    fn merge(&mut self, index: usize) {
        let block = &mut self.blocks[index];
        let (old, written) = (block.number, block.written);
        let sectors = std::mem::take(&mut block.sectors);
        let pages_bytes = self.layout.pages_per_block() * PAGE_BYTES;
        let mut pages = self.flash.read(old, 0..pages_bytes).to_vec();
        let mut logs = Vec::new();
        for (index, slot) in sectors.iter().enumerate() {
            let range = self.layout.sector(old, index);
            let at = usize::from(*slot) * PAGE_BYTES;
            let page = &mut pages[at..at + PAGE_BYTES];
            apply(&mut Page::over(page), self.sector(&range));
            logs.push(range);
        }
        let new = self.flash.take();
        self.flash.write(new, 0, &pages);
        self.flash.erase(old);
        self.blocks[index].number = new;
        let count = written.count_ones() as usize;
        let bytes = 0..count * PAGE_BYTES;
        self.meter.counts.pages_read += count as u64;
        self.meter.counts.sectors_read += logs.len() as u64;
        self.meter.counts.pages_written += count as u64;
        self.meter.counts.merges += 1;
        self.meter_read(place(old, bytes.clone()), logs);
        self.meter.write(Medium::Flash, place(new, bytes));
        self.meter.erase();
    }

    /// Returns the bytes of a log sector.
    fn sector(&self, range: &Range<u64>) -> &[u8] {
        let bytes = range.start as usize..range.end as usize;
        match self.layout.log {
            Medium::Flash => {
                let block = (bytes.start / BLOCK_BYTES) as u32;
                let at = bytes.start % BLOCK_BYTES;
                self.flash.read(block, at..at + bytes.len())
            }
            Medium::Pcram => &self.pcram[bytes],
        }
    }

    /// Counts the time of reading pages of a block and log sectors of it.
    fn meter_read(&mut self, pages: Range<u64>, mut logs: Vec<Range<u64>>) {
        match self.layout.log {
            Medium::Flash => {
                logs.insert(0, pages);
                self.meter.read(&logs, &[]);
            }
            Medium::Pcram => self.meter.read(&[pages], &logs),
        }
    }

    fn place_of(&self, number: u32) -> (usize, usize) {
        let per_block = self.layout.pages_per_block();
        (number as usize / per_block, number as usize % per_block)
    }
}

/// Applies the records of a log sector to their page.
fn apply<B: DerefMut<Target = [u8]>>(page: &mut Page<B>, sector: &[u8]) {
    let bytes = usize::from(u16::from_le_bytes([sector[1], sector[2]]));
    let mut records = &sector[SECTOR_HEADER_BYTES..SECTOR_HEADER_BYTES + bytes];
    while let [kind, rest @ ..] = records {
        let (key, rest) = rest.split_at(8);
        let key = u64::from_be_bytes(key.try_into().expect("eight bytes"));
        if *kind == CUT {
            page.cut(key);
            records = rest;
            continue;
        }
        let (value, rest) = rest.split_at(usize::from(*kind));
        let fits = page.insert(key, value);
        assert!(fits, "it fitted when it was logged");
        records = rest;
    }
}
