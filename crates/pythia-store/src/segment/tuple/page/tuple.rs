//! Location of a tuple's bits, and the walk over its entries.

use std::ops::Range;

use super::{Entry, PageError, TuplePage, Widths};
use crate::segment::bits::mask;
use crate::segment::tuple::format::{DELTA_MIN, DELTA_WIDTH_BITS, SAMPLE};

/// A tuple's shape and its first bit.
#[derive(Clone, Copy, Debug)]
pub struct Tuple {
    shape: Shape,
    at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    number: usize,
    /// Bits of a tuple without its lists.
    fixed: usize,
    /// Number of columns with a list.
    many: usize,
    /// Whether all rows of a tuple are in one graph, whose number it starts with.
    one_graph: bool,
}

/// Entries of a shape: `lists..ones` are columns with lists, `ones..end` with one value.
#[derive(Clone, Copy, Debug)]
struct Entries {
    lists: usize,
    ones: usize,
    end: usize,
}

/// The parts of a list, as bits of the page.
struct List {
    count: u64,
    values_at: usize,
    delta_width: Option<u32>,
    graphs_at: usize,
    end: usize,
}

/// A place among the lists of a tuple.
struct Walk {
    entry: usize,
    end: usize,
    at: usize,
}

impl TuplePage<'_> {
    /// Returns the column number of an entry of a shape.
    #[inline]
    fn entry_column(&self, entry: usize) -> usize {
        let width = self.layout.entry_width;
        self.short_bits(self.layout.entries_at + entry * width as usize, width) as usize
    }

    #[inline]
    fn shape(&self, number: usize) -> Result<Shape, PageError> {
        let (header, layout) = (&self.header, &self.layout);
        if number >= header.shapes {
            return Err(PageError("a tuple has a shape the page does not have"));
        }
        let at = layout.shapes_at + number * layout.shape_bits;
        let width = header.fixed_width + header.many_width + 1;
        let bits = self.short_bits(at, width);
        Ok(Shape {
            number,
            fixed: (bits & mask(header.fixed_width)) as usize,
            many: (bits >> header.fixed_width & mask(header.many_width)) as usize,
            one_graph: bits >> (width - 1) == 1,
        })
    }

    /// Returns the shape's entries: `lists..ones` are columns with lists, `ones..end` with one value.
    #[inline]
    fn entries(&self, shape: &Shape) -> Result<Entries, PageError> {
        let layout = &self.layout;
        let at = layout.shapes_at + (shape.number + 1) * layout.shape_bits;
        let end = self.short_bits(at - layout.end_width as usize, layout.end_width) as usize;
        let lists = if shape.number == 0 {
            0
        } else {
            let before = at - layout.shape_bits - layout.end_width as usize;
            self.short_bits(before, layout.end_width) as usize
        };
        let ones = lists + shape.many;
        if ones > end || end > self.header.entries {
            return Err(PageError("a shape has entries the page does not have"));
        }
        Ok(Entries { lists, ones, end })
    }

    #[inline]
    fn shape_of(&self, tuple: usize) -> Result<Shape, PageError> {
        let width = self.layout.number_width;
        let number = self.short_bits(self.layout.numbers_at + tuple * width as usize, width);
        self.shape(number as usize)
    }

    /// Returns a tuple, found by walking from the last tuple whose place is stored.
    #[inline]
    pub fn tuple(&self, number: usize) -> Result<Tuple, PageError> {
        let layout = &self.layout;
        let shape = self.shape_of(number)?;
        if self.header.is_uniform() {
            let at = layout.tuples_at + number * shape.fixed;
            return Ok(Tuple { shape, at });
        }
        let sample = number / SAMPLE;
        let mut at = layout.tuples_at;
        if sample > 0 {
            let width = layout.sample_width;
            at +=
                self.short_bits(layout.samples_at + (sample - 1) * width as usize, width) as usize;
        }
        for before in sample * SAMPLE..number {
            let shape = self.shape_of(before)?;
            at = self.end_of(&Tuple { shape, at })?;
        }
        Ok(Tuple { shape, at })
    }

    /// Returns the tuple after `before`, which is number `number - 1`.
    #[inline]
    pub fn tuple_after(&self, before: &Tuple, number: usize) -> Result<Tuple, PageError> {
        let at = self.end_of(before)?;
        let shape = self.shape_of(number)?;
        Ok(Tuple { shape, at })
    }

    /// Returns the bit after a tuple.
    #[inline]
    fn end_of(&self, tuple: &Tuple) -> Result<usize, PageError> {
        let mut at = tuple.at + tuple.shape.fixed;
        if tuple.shape.many > 0 {
            let entries = self.entries(&tuple.shape)?;
            for entry in entries.lists..entries.ones {
                let widths = self.widths(self.entry_column(entry));
                at = self.list(widths, at, tuple.shape.one_graph)?.end;
            }
        }
        if at > self.layout.end {
            return Err(PageError("a tuple is longer than the page"));
        }
        Ok(at)
    }

    /// Measures the list at `at`.
    #[inline]
    fn list(&self, widths: Widths, at: usize, one_graph: bool) -> Result<List, PageError> {
        let stored = self.short_bits(at, widths.count);
        let mut at = at + widths.count as usize;
        if widths.are_external() {
            return Ok(List {
                count: stored,
                values_at: at,
                delta_width: None,
                graphs_at: at,
                end: at,
            });
        }
        let count = stored.saturating_add(2);
        if count > self.header.rows as u64 {
            return Err(PageError("a list has more rows than the page"));
        }
        let rows = count as usize;
        let mut delta_width = None;
        let bits = if rows >= DELTA_MIN {
            let width = self.short_bits(at, DELTA_WIDTH_BITS) as u32;
            at += DELTA_WIDTH_BITS as usize;
            delta_width = Some(width);
            widths.value as usize + (rows - 1) * width as usize
        } else {
            rows * widths.value as usize
        };
        let graphs_at = at + bits;
        let end = if one_graph {
            graphs_at
        } else {
            graphs_at + rows * self.layout.graph_width as usize
        };
        if end > self.layout.end {
            return Err(PageError("a list is longer than the page"));
        }
        Ok(List {
            count,
            values_at: at,
            delta_width,
            graphs_at,
            end,
        })
    }

    /// Returns the next wanted list of the entries, as (column number, rows).
    #[inline]
    fn next_list(
        &self,
        walk: &mut Walk,
        tuple: &Tuple,
        from: usize,
    ) -> Result<Option<(usize, Entry)>, PageError> {
        while walk.entry < walk.end {
            let number = self.entry_column(walk.entry);
            let widths = self.widths(number);
            let list = self.list(widths, walk.at, tuple.shape.one_graph)?;
            walk.entry += 1;
            walk.at = list.end;
            if number >= from {
                let entry = Entry {
                    column: self.column(number),
                    count: list.count,
                    values_at: list.values_at,
                    delta_width: list.delta_width,
                    graphs_at: if tuple.shape.one_graph {
                        tuple.at
                    } else {
                        list.graphs_at
                    },
                    each_graph: !tuple.shape.one_graph,
                };
                return Ok(Some((number, entry)));
            }
        }
        Ok(None)
    }

    /// Returns a walk over the lists of a tuple up to the last wanted one; empty if no wanted column has a list.
    #[inline]
    fn lists(&self, tuple: &Tuple, entries: &Entries, columns: &Range<usize>) -> Walk {
        let mut end = entries.ones;
        while end > entries.lists {
            let number = self.entry_column(end - 1);
            if number < columns.end {
                if number < columns.start {
                    end = entries.lists;
                }
                break;
            }
            end -= 1;
        }
        Walk {
            entry: entries.lists,
            end,
            at: tuple.at + tuple.shape.fixed,
        }
    }

    /// Calls `f` for the tuple's entries whose columns are in `columns`, in order of predicate and kind.
    #[inline]
    pub fn visit<E: From<PageError>>(
        &self,
        tuple: &Tuple,
        columns: Range<usize>,
        mut f: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<(), E> {
        let entries = self.entries(&tuple.shape)?;
        let one_graph = tuple.shape.one_graph;
        let graph_width = self.layout.graph_width as usize;
        let mut rows_left = self.header.rows as u64;
        let mut visit = |entry: Entry| {
            if !entry.is_external() {
                rows_left = rows_left
                    .checked_sub(entry.count)
                    .ok_or(PageError("a tuple has more rows than the page"))?;
            }
            f(entry)
        };
        let mut lists = self.lists(tuple, &entries, &columns);
        let mut list = self.next_list(&mut lists, tuple, columns.start)?;
        let (mut at, graph_step) = if one_graph {
            (tuple.at + graph_width, 0)
        } else {
            (tuple.at, graph_width)
        };
        for entry in entries.ones..entries.end {
            let number = self.entry_column(entry);
            if number < columns.start {
                at += self.widths(number).value as usize + graph_step;
                continue;
            }
            if number >= columns.end {
                break;
            }
            while let Some((_, before)) = list.take_if(|list| list.0 < number) {
                visit(before)?;
                list = self.next_list(&mut lists, tuple, columns.start)?;
            }
            let column = self.column(number);
            let graphs_at = at + column.widths.value as usize;
            visit(Entry {
                column,
                count: 1,
                values_at: at,
                delta_width: None,
                graphs_at: if one_graph { tuple.at } else { graphs_at },
                each_graph: !one_graph,
            })?;
            at = graphs_at + graph_step;
        }
        while let Some((_, entry)) = list {
            visit(entry)?;
            list = self.next_list(&mut lists, tuple, columns.start)?;
        }
        Ok(())
    }
}
