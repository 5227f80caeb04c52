//! Relations in PAX pages, and reads of parts of them.
//!
//! A relation has [`ATTRIBUTES`] attributes of four bytes. A page holds the same rows of all of them: one *minipage* for each
//! attribute, one after the other (Figure 1 of the paper). A *piece* is the smallest part of a minipage that is worth a read:
//! a block of the device, or the whole minipage if that is smaller.
//!
//! A [`Reader`] reads ranges of a file into one buffer with one batch. It reads through gaps that cost less than another
//! read.

use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use pythia_io::{ALIGNMENT, AlignedBuffer, MERGED_READ_BYTES_MAX, ReadFile, ReadRequest, Storage};

/// Attributes of a relation: one is 4 % of a row.
pub(super) const ATTRIBUTES: usize = 25;
/// Bytes of a value.
pub(super) const VALUE_BYTES: usize = 4;
/// Bytes that a batch of reads gets, if they are not of one page: thousands of small reads or dozens of large ones.
pub(super) const WINDOW_BYTES: usize = 8 << 20;

/// The division of a relation's file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Bytes of a minipage, a power of two.
    pub(super) minipage_bytes: usize,
}

impl Layout {
    pub(super) fn page_bytes(self) -> usize {
        ATTRIBUTES * self.minipage_bytes
    }

    pub(super) fn page_rows(self) -> usize {
        self.minipage_bytes / VALUE_BYTES
    }

    fn piece_bytes(self) -> usize {
        self.minipage_bytes.min(ALIGNMENT)
    }

    fn piece_rows(self) -> usize {
        self.piece_bytes() / VALUE_BYTES
    }

    fn page(self, page: usize) -> Range<u64> {
        let start = (page * self.page_bytes()) as u64;
        start..start + self.page_bytes() as u64
    }

    fn minipage(self, page: usize, attribute: usize) -> Range<u64> {
        let start = self.page(page).start + (attribute * self.minipage_bytes) as u64;
        start..start + self.minipage_bytes as u64
    }

    /// Returns the page of a row. Sizes are powers of two, and divisions slow.
    fn page_of(self, row: u32) -> usize {
        row as usize >> self.page_rows().ilog2()
    }

    /// Returns the number of a row's pieces among those of all pages.
    fn piece_of(self, row: u32) -> usize {
        row as usize >> self.piece_rows().ilog2()
    }

    /// Returns the place of the piece that has the value of a row.
    fn piece(self, row: u32, attribute: usize) -> Range<u64> {
        let within = row as usize & (self.page_rows() - 1);
        let offset = within / self.piece_rows() * self.piece_bytes();
        let start = self.minipage(self.page_of(row), attribute).start + offset as u64;
        start..start + self.piece_bytes() as u64
    }
}

/// A relation in a file.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) layout: Layout,
    pub(super) pages: usize,
    file: Arc<dyn ReadFile>,
}

impl Relation {
    /// Writes a relation of whole pages. `value` returns the value of an attribute in a row.
    pub(super) fn create(
        storage: &dyn Storage,
        name: &str,
        layout: Layout,
        pages: usize,
        value: impl Fn(u32, usize) -> u32,
    ) -> Result<Self> {
        let mut writer = storage.create(name)?;
        let mut bytes = vec![0; layout.page_bytes()];
        for page in 0..pages {
            let first = (page * layout.page_rows()) as u32;
            let minipages = bytes.chunks_exact_mut(layout.minipage_bytes);
            for (attribute, minipage) in minipages.enumerate() {
                let (values, _) = minipage.as_chunks_mut::<VALUE_BYTES>();
                for (row, bytes) in (first..).zip(values) {
                    *bytes = value(row, attribute).to_le_bytes();
                }
            }
            writer.append(&bytes)?;
        }
        writer.sync()?;
        Ok(Self {
            layout,
            pages,
            file: storage.open(name)?,
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.pages * self.layout.page_rows()
    }

    /// Calls `visit` for each page with the given attributes, which are ascending. Reads whole pages if `whole` is set, else
    /// only the minipages of these attributes.
    pub(super) fn each_page(
        &self,
        reader: &mut Reader<'_>,
        attributes: &[usize],
        whole: bool,
        mut visit: impl FnMut(&Page<'_>) -> Result<()>,
    ) -> Result<()> {
        let page_bytes = match whole {
            true => self.layout.page_bytes(),
            false => {
                let place_bytes = self.layout.minipage_bytes.max(ALIGNMENT);
                self.bytes_of_page(reader, attributes.len(), place_bytes)
            }
        };
        let window = (WINDOW_BYTES / page_bytes).max(1);
        for first in (0..self.pages).step_by(window) {
            let pages = first..(first + window).min(self.pages);
            if whole {
                let all = self.layout.page(first).start..self.layout.page(pages.end - 1).end;
                reader.read(&*self.file, [all])?;
            } else {
                let minipages = pages.clone().flat_map(|page| {
                    let places = attributes.iter();
                    places.map(move |&attribute| self.layout.minipage(page, attribute))
                });
                reader.read(&*self.file, minipages)?;
            }
            for page in pages {
                visit(&Page {
                    relation: self,
                    reader,
                    number: page,
                })?;
            }
        }
        Ok(())
    }

    /// Reads the values of some attributes (ascending) in some rows (ascending, may repeat), and only the pieces that have
    /// them. `visit` gets, for each attribute and piece, the attribute's index, the range of `rows` in the piece, and the
    /// values of the piece.
    pub(super) fn fetch(
        &self,
        reader: &mut Reader<'_>,
        rows: &[u32],
        attributes: &[usize],
        mut visit: impl FnMut(usize, Range<usize>, &[[u8; VALUE_BYTES]]),
    ) -> Result<()> {
        let mut groups = Vec::new();
        let mut from = 0;
        while from < rows.len() {
            self.fetch_window(reader, rows, from, attributes, &mut groups)?;
            for group in &groups {
                for (index, &attribute) in attributes.iter().enumerate() {
                    let piece = reader.bytes(self.layout.piece(rows[group.start], attribute));
                    visit(index, group.clone(), piece.as_chunks().0);
                }
            }
            from = groups.last().map_or(rows.len(), |group| group.end);
        }
        Ok(())
    }

    /// Reads the pieces of rows of whole pages, as many as a window takes, from a place in `rows` on. `groups` gets the ranges
    /// of rows whose values are in the same piece.
    fn fetch_window(
        &self,
        reader: &mut Reader<'_>,
        rows: &[u32],
        from: usize,
        attributes: &[usize],
        groups: &mut Vec<Range<usize>>,
    ) -> Result<()> {
        let (mut places, mut bytes, mut start) = (Vec::new(), 0, from);
        groups.clear();
        let page_of = |row: u32| self.layout.page_of(row);
        for of_page in rows[from..].chunk_by(|a, b| page_of(*a) == page_of(*b)) {
            if bytes >= WINDOW_BYTES {
                break;
            }
            let first = groups.len();
            let piece_of = |row: u32| self.layout.piece_of(row);
            for together in of_page.chunk_by(|a, b| piece_of(*a) == piece_of(*b)) {
                groups.push(start..start + together.len());
                start += together.len();
            }
            let pieces = &groups[first..];
            for &attribute in attributes {
                let firsts = pieces.iter().map(|group| rows[group.start]);
                places.extend(firsts.map(|row| self.layout.piece(row, attribute)));
            }
            bytes += self.bytes_of_page(reader, pieces.len() * attributes.len(), ALIGNMENT);
        }
        reader.read(&*self.file, places)
    }

    /// Returns the most bytes read of a page for a number of places in it: gaps may be read, too.
    fn bytes_of_page(&self, reader: &Reader<'_>, places: usize, place_bytes: usize) -> usize {
        let bytes = places * (place_bytes + reader.bridge_bytes as usize);
        bytes.min(self.layout.page_bytes())
    }

    /// Returns the index of a row's value in its piece.
    pub(super) fn index_in_piece(&self, row: u32) -> usize {
        row as usize & (self.layout.piece_rows() - 1)
    }
}

/// A page whose wanted attributes are in a reader's buffer.
pub(super) struct Page<'p> {
    relation: &'p Relation,
    reader: &'p Reader<'p>,
    number: usize,
}

impl Page<'_> {
    /// Returns the number of the first row.
    pub(super) fn first_row(&self) -> u32 {
        (self.number * self.relation.layout.page_rows()) as u32
    }

    /// Returns the values of an attribute that was read.
    pub(super) fn column(&self, attribute: usize) -> &[[u8; VALUE_BYTES]] {
        let place = self.relation.layout.minipage(self.number, attribute);
        self.reader.bytes(place).as_chunks().0
    }
}

/// Reads ranges of files in batches, and counts.
pub(super) struct Reader<'s> {
    storage: &'s dyn Storage,
    /// Gaps of up to this number of bytes are read, too.
    bridge_bytes: u64,
    buffer: AlignedBuffer,
    /// Places in the file that the buffer holds, ascending, each with its beginning in the buffer.
    extents: Vec<(Range<u64>, usize)>,
    /// Device reads so far.
    pub(super) reads: u64,
    /// Bytes read so far.
    pub(super) bytes_read: u64,
}

impl<'s> Reader<'s> {
    /// Makes a reader that reads through gaps of up to `bridge_bytes`.
    pub(super) fn new(storage: &'s dyn Storage, bridge_bytes: u64) -> Self {
        Self {
            storage,
            bridge_bytes,
            buffer: AlignedBuffer::zeroed(0),
            extents: Vec::new(),
            reads: 0,
            bytes_read: 0,
        }
    }

    /// Returns the bytes of its buffer.
    pub(super) fn memory_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Reads the blocks of the given places, which are ascending.
    pub(super) fn read(
        &mut self,
        file: &dyn ReadFile,
        places: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<()> {
        const BLOCK: u64 = ALIGNMENT as u64;
        self.extents.clear();
        let mut length = 0;
        for place in places {
            let start = place.start / BLOCK * BLOCK;
            let end = place.end.next_multiple_of(BLOCK);
            match self.extents.last_mut() {
                Some((last, _)) if start <= last.end + self.bridge_bytes => {
                    length += end.saturating_sub(last.end) as usize;
                    last.end = last.end.max(end);
                }
                _ => {
                    self.extents.push((start..end, length));
                    length += (end - start) as usize;
                }
            }
        }
        if self.buffer.len() < length {
            self.buffer = AlignedBuffer::zeroed(length);
        }
        let mut reads = Vec::with_capacity(self.extents.len());
        let mut rest = &mut self.buffer[..length];
        for (place, _) in &self.extents {
            let buffer;
            (buffer, rest) = rest.split_at_mut((place.end - place.start) as usize);
            let chunks = buffer.chunks_mut(MERGED_READ_BYTES_MAX);
            let offsets = (place.start..).step_by(MERGED_READ_BYTES_MAX);
            reads.extend(offsets.zip(chunks).map(|(offset, buffer)| ReadRequest {
                file,
                offset,
                buffer,
            }));
        }
        self.storage.read_batch(&mut reads)?;
        self.reads += reads.len() as u64;
        self.bytes_read += length as u64;
        Ok(())
    }

    /// Returns bytes that were among those read last.
    pub(super) fn bytes(&self, place: Range<u64>) -> &[u8] {
        let after = self
            .extents
            .partition_point(|(extent, _)| extent.start <= place.start);
        let (extent, start) = &self.extents[after - 1];
        let from = start + (place.start - extent.start) as usize;
        &self.buffer[from..from + (place.end - place.start) as usize]
    }
}

/// Returns a value.
pub(super) fn value(bytes: [u8; VALUE_BYTES]) -> u32 {
    u32::from_le_bytes(bytes)
}

/// Returns a number below a bound from random bits.
pub(super) fn scaled(bits: u32, bound: u32) -> u32 {
    ((u64::from(bits) * u64::from(bound)) >> 32) as u32
}

/// Returns random bits of a row's attribute.
pub(super) fn mixed(seed: u64, row: u32, attribute: usize) -> u32 {
    let place = u64::from(row) << 8 | attribute as u64;
    pythia_io::probe::SplitMix(seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64() as u32
}

#[cfg(test)]
mod tests {
    use pythia_io::MemoryStorage;

    use super::*;

    const PAGES: usize = 3;

    fn relation(storage: &MemoryStorage, minipage_bytes: usize) -> Relation {
        let layout = Layout { minipage_bytes };
        Relation::create(storage, "relation", layout, PAGES, |row, attribute| {
            mixed(7, row, attribute)
        })
        .expect("written")
    }

    #[test]
    fn pages_have_the_values_that_were_written() {
        for (minipage_bytes, bridge_bytes) in [(512, 0), (4096, 0), (4096, 10_000), (16_384, 0)] {
            let storage = MemoryStorage::new();
            let relation = relation(&storage, minipage_bytes);
            for whole in [false, true] {
                let mut reader = Reader::new(&storage, bridge_bytes);
                let mut rows = 0;
                let visit = |page: &Page<'_>| {
                    for attribute in [0, 7, 24] {
                        for (row, bytes) in (page.first_row()..).zip(page.column(attribute)) {
                            assert_eq!(value(*bytes), mixed(7, row, attribute));
                            rows += 1;
                        }
                    }
                    Ok(())
                };
                relation
                    .each_page(&mut reader, &[0, 7, 24], whole, visit)
                    .expect("read");
                assert_eq!(rows, 3 * relation.rows());
            }
        }
    }

    #[test]
    fn fetched_values_are_those_of_their_rows_and_only_their_pieces_are_read() {
        for minipage_bytes in [512, 4096, 65_536] {
            let storage = MemoryStorage::new();
            let relation = relation(&storage, minipage_bytes);
            let last = relation.rows() as u32 - 1;
            // Twice in the first piece, a row twice, and the last.
            let rows = [0, 1, 1, last];
            let mut reader = Reader::new(&storage, 0);
            let mut found = Vec::new();
            let visit = |index: usize, range: Range<usize>, piece: &[[u8; VALUE_BYTES]]| {
                for place in range {
                    let bytes = piece[relation.index_in_piece(rows[place])];
                    found.push((index, place, value(bytes)));
                }
            };
            relation
                .fetch(&mut reader, &rows, &[3, 20], visit)
                .expect("read");
            found.sort_unstable();
            let expected = [3, 20]
                .into_iter()
                .enumerate()
                .flat_map(|(index, attribute)| {
                    let places = rows.into_iter().enumerate();
                    places.map(move |(place, row)| (index, place, mixed(7, row, attribute)))
                });
            assert_eq!(found, expected.collect::<Vec<_>>());
            assert_eq!((reader.reads, reader.bytes_read), (4, 4 * 4096));
        }
    }

    #[test]
    fn gaps_are_read_through_if_that_costs_less() {
        let storage = MemoryStorage::new();
        let relation = relation(&storage, 4096);
        for (bridge_bytes, reads, blocks) in [(0, 3, 3), (4096, 2, 4), (8192, 1, 6)] {
            let mut reader = Reader::new(&storage, bridge_bytes);
            let places = [0, 2, 5].map(|block| block * 4096..block * 4096 + 10);
            reader.read(&*relation.file, places).expect("read");
            assert_eq!((reader.reads, reader.bytes_read), (reads, blocks * 4096));
        }
    }
}
