//! The format of a tuple page: constants, the header, and the places of the sections.
//!
//! Drawn and explained in `docs/format/tuple-pages.md`. A page is a fixed header and then one packed run of bits (see
//! [`crate::segment::bits`]): columns, graphs, shapes, shape entries, nodes, shape numbers, offset samples, tuples.

use crate::segment::bits::width_of;

/// Byte 4 of every tuple page.
pub const PAGE_TYPE: u8 = b'T';
/// Bytes of the header; the packed bits follow.
pub const HEADER_BYTES: usize = 60;
/// The place of every `SAMPLE`-th tuple is stored; the others are found by walking from there.
pub const SAMPLE: usize = 4;
/// Lists of at least this many values store differences.
pub const DELTA_MIN: usize = 4;
/// Bits of the width of a list's differences.
pub const DELTA_WIDTH_BITS: u32 = 6;
/// Bits of a kind in a column record.
pub const KIND_BITS: u32 = 8;
/// Bits of each of the two widths in a column record.
pub const WIDTH_BITS: u32 = 6;
/// The kind of a column that holds only the lengths of lists stored elsewhere. (No term at the end of an edge has
/// this kind.)
pub const EXTERNAL_KIND: u8 = 0;
/// The value width of such a column; no payload is that wide.
pub const EXTERNAL_WIDTH: u32 = 63;
/// Most rows with values on one page; bounds the size of a decoded page.
pub const ROWS_MAX: usize = 65_535;
/// Most tuples, columns, shapes, shape entries and graphs on one page.
pub const COUNT_MAX: usize = u16::MAX as usize;
/// The smallest page.
pub const PAGE_BYTES_MIN: usize = 4096;
/// The largest page.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// Largest width of the size of a tuple without its lists: a shape without its end is read at once.
pub const FIXED_WIDTH_MAX: u32 = 40;

/// Flag: the graph table starts with the default graph.
pub const FLAG_DEFAULT_GRAPH: u8 = 1;
/// Flag: the first tuple continues the last one of the previous page.
pub const FLAG_CONTINUED: u8 = 2;

/// The decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// `FLAG_…` bits.
    pub flags: u8,
    /// Tuples (nodes) on the page.
    pub tuples: usize,
    /// Columns: distinct (predicate, kind at the other end).
    pub columns: usize,
    /// Distinct shapes.
    pub shapes: usize,
    /// Entries of all shapes together.
    pub entries: usize,
    /// Distinct graphs, including the default graph.
    pub graphs: usize,
    /// Rows whose values are on the page.
    pub rows: usize,
    /// Bits of the tuples section.
    pub tuple_bits: usize,
    /// Width of a node: id − first node − its index.
    pub node_width: u32,
    /// Width of a column's predicate − `predicate_base`.
    pub predicate_width: u32,
    /// Width of a column's smallest payload.
    pub base_width: u32,
    /// Width of a graph in the table − `graph_base`.
    pub graph_id_width: u32,
    /// Width of a shape's fixed size.
    pub fixed_width: u32,
    /// Width of a shape's number of lists.
    pub many_width: u32,
    /// Id of the first node.
    pub first_node: u64,
    /// Smallest predicate.
    pub predicate_base: u64,
    /// Smallest graph that is not the default graph.
    pub graph_base: u64,
}

impl Header {
    /// Writes everything except the checksum.
    pub fn write(&self, page: &mut [u8]) {
        let page = &mut page[..HEADER_BYTES];
        page.fill(0);
        page[4] = PAGE_TYPE;
        page[5] = self.flags;
        let counts = [
            self.tuples,
            self.columns,
            self.shapes,
            self.entries,
            self.graphs,
            self.rows,
        ];
        for (i, count) in counts.into_iter().enumerate() {
            let count = u16::try_from(count).expect("the builder keeps counts in 16 bits");
            page[6 + 2 * i..8 + 2 * i].copy_from_slice(&count.to_le_bytes());
        }
        let widths = [
            self.node_width,
            self.predicate_width,
            self.base_width,
            self.graph_id_width,
            self.fixed_width,
            self.many_width,
        ];
        for (byte, width) in page[18..24].iter_mut().zip(widths) {
            *byte = width as u8;
        }
        let bits = u32::try_from(self.tuple_bits).expect("pages are small");
        page[24..28].copy_from_slice(&bits.to_le_bytes());
        page[32..40].copy_from_slice(&self.first_node.to_le_bytes());
        page[40..48].copy_from_slice(&self.predicate_base.to_le_bytes());
        page[48..56].copy_from_slice(&self.graph_base.to_le_bytes());
    }

    /// Reads a header. Checks the type and the ranges of widths, but not whether the sections fit.
    #[inline]
    pub fn read(page: &[u8]) -> Result<Self, &'static str> {
        let Some(page) = page.first_chunk::<HEADER_BYTES>() else {
            return Err("shorter than a header");
        };
        if page[4] != PAGE_TYPE {
            return Err("not a tuple page");
        }
        let count = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]) as usize;
        let id = |at: usize| {
            u64::from_le_bytes(page[at..at + 8].try_into().expect("a range of eight bytes"))
        };
        let header = Self {
            flags: page[5],
            tuples: count(6),
            columns: count(8),
            shapes: count(10),
            entries: count(12),
            graphs: count(14),
            rows: count(16),
            node_width: page[18].into(),
            predicate_width: page[19].into(),
            base_width: page[20].into(),
            graph_id_width: page[21].into(),
            fixed_width: page[22].into(),
            many_width: page[23].into(),
            tuple_bits: u32::from_le_bytes([page[24], page[25], page[26], page[27]]) as usize,
            first_node: id(32),
            predicate_base: id(40),
            graph_base: id(48),
        };
        let wide = header.node_width > 64
            || header.predicate_width > 64
            || header.base_width > 56
            || header.graph_id_width > 64
            || header.fixed_width > FIXED_WIDTH_MAX
            || header.many_width > 16;
        if wide {
            return Err("a width is out of range");
        }
        if header.tuples == 0 || header.columns == 0 || header.shapes == 0 {
            return Err("an empty page");
        }
        Ok(header)
    }

    /// Returns whether every tuple has the same size, so that no offsets are needed.
    #[inline]
    pub fn is_uniform(&self) -> bool {
        self.shapes == 1 && self.many_width == 0
    }
}

/// Returns the width of an index below `count`.
#[inline]
pub const fn index_width(count: usize) -> u32 {
    width_of((count as u64).saturating_sub(1))
}

/// Bit offsets of the sections from the start of the page, and the widths that follow from counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Column records: value width, count width, kind, smallest payload, predicate.
    pub columns_at: usize,
    /// Bits of a column record.
    pub column_bits: usize,
    /// Graph table, without the default graph.
    pub graphs_at: usize,
    /// Shape records: fixed size, number of lists, one-graph flag, end in the entries.
    pub shapes_at: usize,
    /// Bits of a shape record.
    pub shape_bits: usize,
    /// Width of a shape's end in the entries.
    pub end_width: u32,
    /// Shape entries: column numbers.
    pub entries_at: usize,
    /// Width of a column number.
    pub entry_width: u32,
    /// Nodes.
    pub nodes_at: usize,
    /// Shape numbers of the tuples.
    pub numbers_at: usize,
    /// Width of a shape number.
    pub number_width: u32,
    /// Offset samples.
    pub samples_at: usize,
    /// Width of an offset.
    pub sample_width: u32,
    /// Tuples.
    pub tuples_at: usize,
    /// Width of a graph's index in the table.
    pub graph_width: u32,
    /// One past the last bit of the tuples.
    pub end: usize,
}

impl Layout {
    /// Returns the layout of a page with this header.
    #[inline]
    pub fn new(header: &Header) -> Self {
        let column_bits = column_bits(header.predicate_width, header.base_width);
        let columns_at = HEADER_BYTES * 8;
        let graphs_at = columns_at + header.columns * column_bits;
        let has_default = usize::from(header.flags & FLAG_DEFAULT_GRAPH != 0);
        let named = header.graphs.saturating_sub(has_default);
        let shapes_at = graphs_at + named * header.graph_id_width as usize;
        let end_width = width_of(header.entries as u64);
        let shape_bits = shape_bits(end_width, header.fixed_width, header.many_width);
        let entries_at = shapes_at + header.shapes * shape_bits;
        let entry_width = index_width(header.columns);
        let nodes_at = entries_at + header.entries * entry_width as usize;
        let numbers_at = nodes_at + header.tuples * header.node_width as usize;
        let number_width = index_width(header.shapes);
        let samples_at = numbers_at + header.tuples * number_width as usize;
        let sample_width = sample_width(header.is_uniform(), header.tuple_bits);
        let tuples_at = samples_at + samples(header.tuples) * sample_width as usize;
        Self {
            columns_at,
            column_bits,
            graphs_at,
            shapes_at,
            shape_bits,
            end_width,
            entries_at,
            entry_width,
            nodes_at,
            numbers_at,
            number_width,
            samples_at,
            sample_width,
            tuples_at,
            graph_width: index_width(header.graphs),
            end: tuples_at + header.tuple_bits,
        }
    }
}

/// Returns the bits of a column record.
#[inline]
pub const fn column_bits(predicate_width: u32, base_width: u32) -> usize {
    (predicate_width + base_width + KIND_BITS + 2 * WIDTH_BITS) as usize
}

/// Returns the bits of a shape record.
#[inline]
pub const fn shape_bits(end_width: u32, fixed_width: u32, many_width: u32) -> usize {
    (end_width + fixed_width + many_width + 1) as usize
}

/// Returns the width of an offset sample.
#[inline]
pub const fn sample_width(uniform: bool, tuple_bits: usize) -> u32 {
    if uniform {
        0
    } else {
        width_of(tuple_bits as u64)
    }
}

/// Returns the number of stored offsets: those of tuples `SAMPLE`, `2 * SAMPLE`, …; tuple 0 is at 0.
#[inline]
pub const fn samples(tuples: usize) -> usize {
    tuples.saturating_sub(1) / SAMPLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips() {
        let header = Header {
            flags: FLAG_DEFAULT_GRAPH,
            tuples: 300,
            columns: 7,
            shapes: 5,
            entries: 19,
            graphs: 3,
            rows: 2000,
            tuple_bits: 30_000,
            node_width: 3,
            predicate_width: 18,
            base_width: 56,
            graph_id_width: 9,
            fixed_width: 8,
            many_width: 2,
            first_node: 1 << 60,
            predicate_base: 77,
            graph_base: u64::MAX,
        };
        let mut page = vec![0xff; 100];
        header.write(&mut page);
        assert_eq!(Header::read(&page), Ok(header));
        assert_eq!(Header::read(&page[..59]), Err("shorter than a header"));
        page[4] = 0;
        assert_eq!(Header::read(&page), Err("not a tuple page"));
    }
}
