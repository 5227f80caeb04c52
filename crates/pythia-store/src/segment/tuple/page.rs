//! Reading of one tuple page: nodes, columns, graphs and values are here, the walk over tuples is in [`tuple`].
//!
//! A page with a correct checksum may still come from a broken or hostile writer. So every number that controls a
//! loop or sizes an allocation is first compared with the page's header, and reads of bits are total. A damaged page
//! yields an error or wrong rows, never a panic, and never more rows per tuple than its header's count.

use std::ops::Range;

use super::format::{
    EXTERNAL_WIDTH, FLAG_CONTINUED, FLAG_DEFAULT_GRAPH, Header, KIND_BITS, Layout, WIDTH_BITS,
};
use crate::pattern::GraphFilter;
use crate::segment::bits::{mask, read_bits, read_short_bits, unpack};

mod tuple;

pub use tuple::Tuple;

/// The reason why bytes are not a tuple page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageError(pub &'static str);

/// A page, its header decoded.
#[derive(Clone, Copy, Debug)]
pub struct TuplePage<'a> {
    bytes: &'a [u8],
    header: Header,
    layout: Layout,
}

/// A pair of predicate and kind at the other end, on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    number: usize,
    /// The smallest id at the other end; its kind is every value's.
    base: u64,
    widths: Widths,
}

/// Width of a column's values and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Widths {
    value: u32,
    count: u32,
}

impl Widths {
    #[inline]
    fn new(bits: u64) -> Self {
        Self {
            value: (bits & mask(WIDTH_BITS)) as u32,
            count: (bits >> WIDTH_BITS & mask(WIDTH_BITS)) as u32,
        }
    }

    /// Returns whether the column holds only the lengths of lists.
    #[inline]
    fn are_external(self) -> bool {
        self.value == EXTERNAL_WIDTH
    }
}

/// Bits of a column record before the smallest payload.
const COLUMN_HEAD_BITS: u32 = 2 * WIDTH_BITS + KIND_BITS;

/// The rows of a tuple in one column.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The column.
    column: Column,
    /// Number of rows.
    pub count: u64,
    /// First bit of the values, after the width of the differences.
    values_at: usize,
    /// Width of the differences, if there are any.
    delta_width: Option<u32>,
    /// Start of the graphs' numbers.
    graphs_at: usize,
    /// Whether each row has a graph's number, or all share one.
    each_graph: bool,
}

impl Entry {
    /// Returns whether only the count is on the page.
    pub fn is_external(&self) -> bool {
        self.column.widths.are_external()
    }
}

/// A graph filter in terms of a page's graph numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphNumbers {
    /// Every row passes.
    All,
    /// No row passes.
    None,
    /// Every row passes except those with this number.
    Not(u64),
    /// Only this number.
    Only(u64),
}

impl GraphNumbers {
    /// Returns whether a row with this graph number passes.
    #[inline]
    pub fn accept(self, number: u64) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Not(not) => number != not,
            Self::Only(only) => number == only,
        }
    }
}

impl<'a> TuplePage<'a> {
    /// Reads the header and checks that the sections fit the page.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PageError> {
        let header = Header::read(bytes).map_err(PageError)?;
        let layout = Layout::new(&header);
        if layout.end > bytes.len() * 8 {
            return Err(PageError("the sections are longer than the page"));
        }
        Ok(Self {
            bytes,
            header,
            layout,
        })
    }

    /// Returns the number of tuples on the page.
    #[inline]
    pub fn tuples(&self) -> usize {
        self.header.tuples
    }

    /// Returns the number of rows whose values are on the page.
    pub fn rows(&self) -> usize {
        self.header.rows
    }

    /// Returns whether the first tuple continues the last one of the previous page.
    pub fn is_continued(&self) -> bool {
        self.header.flags & FLAG_CONTINUED != 0
    }

    #[inline]
    fn bits(&self, at: usize, width: u32) -> u64 {
        read_bits(self.bytes, at, width)
    }

    /// As [`Self::bits`], for numbers narrower than an id.
    #[inline]
    fn short_bits(&self, at: usize, width: u32) -> u64 {
        read_short_bits(self.bytes, at, width)
    }

    /// Returns the node of a tuple.
    #[inline]
    pub fn node(&self, tuple: usize) -> u64 {
        let width = self.header.node_width;
        let residual = self.bits(self.layout.nodes_at + tuple * width as usize, width);
        self.header
            .first_node
            .wrapping_add(tuple as u64)
            .wrapping_add(residual)
    }

    /// Returns the first tuple from `from` on whose node is not smaller.
    #[inline]
    pub fn lower_bound(&self, from: usize, node: u64) -> usize {
        // If no id were left out, the node would be at `distance`; it is before that by the number of ids left out,
        // which is at most the largest number stored.
        let distance = node.saturating_sub(self.header.first_node);
        let left_out = mask(self.header.node_width);
        let index = |id: u64| usize::try_from(id).unwrap_or(usize::MAX);
        let high = self
            .header
            .tuples
            .min(index(distance.saturating_add(1)))
            .max(from);
        let low = from.max(index(distance.saturating_sub(left_out)).min(high));
        lower_bound(low, high, |tuple| self.node(tuple) < node)
    }

    /// Returns the tuple of a node.
    #[inline]
    pub fn find(&self, node: u64) -> Option<usize> {
        let tuple = self.lower_bound(0, node);
        (tuple < self.header.tuples && self.node(tuple) == node).then_some(tuple)
    }

    /// Returns the place of a column's record.
    #[inline]
    fn column_at(&self, number: usize) -> usize {
        self.layout.columns_at + number * self.layout.column_bits
    }

    /// Returns a column by its number.
    #[inline]
    fn column(&self, number: usize) -> Column {
        let header = &self.header;
        let at = self.column_at(number);
        let head = self.short_bits(at, COLUMN_HEAD_BITS);
        let at = at + COLUMN_HEAD_BITS as usize;
        let base = self.short_bits(at, header.base_width);
        let kind = head >> (2 * WIDTH_BITS);
        Column {
            number,
            base: kind << pythia_rdf::TermId::PAYLOAD_BITS | base,
            widths: Widths::new(head),
        }
    }

    /// Returns the widths of a column.
    #[inline]
    fn widths(&self, number: usize) -> Widths {
        Widths::new(self.short_bits(self.column_at(number), 2 * WIDTH_BITS))
    }

    /// Returns a column's predicate, relative to the smallest.
    #[inline]
    fn column_predicate(&self, column: usize) -> u64 {
        let before = COLUMN_HEAD_BITS + self.header.base_width;
        let at = self.column_at(column) + before as usize;
        self.bits(at, self.header.predicate_width)
    }

    /// Returns the predicate of an entry.
    #[inline]
    pub fn predicate(&self, entry: &Entry) -> u64 {
        let distance = self.column_predicate(entry.column.number);
        self.header.predicate_base.wrapping_add(distance)
    }

    /// Returns the columns whose predicates are not smaller than this one, by number.
    pub fn columns_from(&self, predicate: u64) -> Range<usize> {
        let Some(distance) = predicate.checked_sub(self.header.predicate_base) else {
            return self.all_columns();
        };
        let columns = self.header.columns;
        lower_bound(0, columns, |column| {
            self.column_predicate(column) < distance
        })..columns
    }

    /// Returns the columns of a predicate, by number.
    pub fn columns_of(&self, predicate: u64) -> Range<usize> {
        let Range { start, end } = self.columns_from(predicate);
        let distance = predicate.wrapping_sub(self.header.predicate_base);
        let end = (start..end)
            .find(|&column| self.column_predicate(column) != distance)
            .unwrap_or(end);
        start..end
    }

    /// Returns all columns.
    pub fn all_columns(&self) -> Range<usize> {
        0..self.header.columns
    }

    /// Returns the smallest id at the other end.
    #[inline]
    pub fn first_value(&self, entry: &Entry) -> u64 {
        let column = &entry.column;
        let value = self.short_bits(entry.values_at, column.widths.value);
        column.base.wrapping_add(value)
    }

    /// Appends the ids at the other end, sorted.
    #[inline]
    pub fn values(&self, entry: &Entry, out: &mut Vec<u64>) {
        let column = &entry.column;
        if entry.count == 1 {
            out.push(self.first_value(entry));
            return;
        }
        let count = entry.count as usize;
        let Some(delta_width) = entry.delta_width else {
            unpack(
                self.bytes,
                entry.values_at,
                column.widths.value,
                count,
                column.base,
                out,
            );
            return;
        };
        let start = out.len();
        out.push(self.first_value(entry));
        let at = entry.values_at + column.widths.value as usize;
        unpack(self.bytes, at, delta_width, count - 1, 0, out);
        let mut sum = 0_u64;
        for value in &mut out[start..] {
            sum = sum.wrapping_add(*value);
            *value = sum;
        }
    }

    /// Returns the rows of the entry (from 0) whose other end is `other`.
    pub fn rows_of(&self, entry: &Entry, other: u64) -> Range<usize> {
        let column = &entry.column;
        let wanted = other.wrapping_sub(column.base);
        let count = entry.count as usize;
        let mut value = self.bits(entry.values_at, column.widths.value);
        let (mut at, width) = match entry.delta_width {
            None => (
                entry.values_at + column.widths.value as usize,
                column.widths.value,
            ),
            Some(width) => (entry.values_at + column.widths.value as usize, width),
        };
        let mut row = 0;
        let mut step = |value: &mut u64, row: &mut usize| {
            *row += 1;
            if *row < count {
                let bits = self.bits(at, width);
                *value = match entry.delta_width {
                    None => bits,
                    Some(_) => value.wrapping_add(bits),
                };
                at += width as usize;
            }
        };
        while row < count && value < wanted {
            step(&mut value, &mut row);
        }
        let start = row;
        while row < count && value == wanted {
            step(&mut value, &mut row);
        }
        start..row
    }

    /// Returns the graph number of a row of an entry.
    #[inline]
    pub fn graph_number(&self, entry: &Entry, row: usize) -> u64 {
        let width = self.layout.graph_width;
        let row = if entry.each_graph { row } else { 0 };
        self.short_bits(entry.graphs_at + row * width as usize, width)
    }

    /// Returns whether all rows of the entry have the same graph number.
    pub fn has_one_graph(&self, entry: &Entry) -> bool {
        !entry.each_graph || self.layout.graph_width == 0
    }

    /// Returns the graph with a number.
    #[inline]
    pub fn graph(&self, number: u64) -> u64 {
        let has_default = u64::from(self.header.flags & FLAG_DEFAULT_GRAPH);
        let Some(named) = number.checked_sub(has_default & 1) else {
            return 0;
        };
        let width = self.header.graph_id_width;
        let at = self.layout.graphs_at + named as usize * width as usize;
        self.header.graph_base.wrapping_add(self.bits(at, width))
    }

    /// Returns the graph filter in terms of this page's graph numbers.
    pub fn graph_numbers(&self, filter: GraphFilter) -> GraphNumbers {
        let graphs = self.header.graphs;
        let has_default = self.header.flags & FLAG_DEFAULT_GRAPH != 0;
        match filter {
            GraphFilter::Any => GraphNumbers::All,
            GraphFilter::Named if !has_default => GraphNumbers::All,
            GraphFilter::Named if graphs == 1 => GraphNumbers::None,
            GraphFilter::Named => GraphNumbers::Not(0),
            GraphFilter::One(graph) => {
                let number = lower_bound(0, graphs, |number| self.graph(number as u64) < graph.0);
                if number == graphs || self.graph(number as u64) != graph.0 {
                    GraphNumbers::None
                } else if graphs == 1 {
                    GraphNumbers::All
                } else {
                    GraphNumbers::Only(number as u64)
                }
            }
        }
    }
}

/// Returns the first number of `low..high` that is not below, where all that are below come first. Its steps are free
/// of branches, which would be unpredictable.
#[inline]
fn lower_bound(mut low: usize, high: usize, is_below: impl Fn(usize) -> bool) -> usize {
    let mut count = high.saturating_sub(low);
    while count > 0 {
        let half = count.div_ceil(2);
        let next = low + half;
        low = std::hint::select_unpredictable(is_below(next - 1), next, low);
        count -= half;
    }
    low
}
