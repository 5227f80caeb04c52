//! Reading of a column page: a checked view of the bytes that decodes the requested parts.

use std::cmp::Ordering;
use std::ops::{Range, RangeInclusive};

use super::block;
use super::format::{
    BLOCK_ROWS, BadPage, Column, END_BYTES, HEADER_BYTES, PAGE_ROWS_MAX, PAGE_TYPE, RUN_BYTES,
    field,
};

/// The rows of one column page.
///
/// Rows are numbered from 0 within the page. Making the view checks the header; other damage becomes an error during
/// decoding.
#[derive(Clone, Copy)]
pub(crate) struct ColumnPage<'a> {
    bytes: &'a [u8],
    rows: usize,
    blocks: usize,
    runs: usize,
    minipages: [Minipage<'a>; 3],
}

/// Rows of one block.
pub(crate) struct Block {
    pub(crate) rows: Range<usize>,
    /// Bounds of a sorted column's values in them, known without decoding the block.
    pub(crate) values: RangeInclusive<u64>,
}

/// One column of the page.
#[derive(Clone, Copy, Default)]
struct Minipage<'a> {
    /// The value of all blocks, if there are no bytes.
    base: u64,
    minimum_bytes: usize,
    /// Minima, then ends; empty for a constant column.
    index: &'a [u8],
    data: &'a [u8],
}

/// Returns the places of the minipages of the second, the third component and the graph in a column page; `None` if the bytes
/// are not a column page. Does not check the seal.
pub fn minipage_places(page: &[u8]) -> Option<[Range<usize>; 3]> {
    ColumnPage::new(page).ok()?;
    let bound = |number: usize| usize::from(u16_at(page, field::STARTS + 2 * number));
    Some([0, 1, 2].map(|number| bound(number)..bound(number + 1)))
}

impl<'a> ColumnPage<'a> {
    /// Returns a view of a whole page, checksum included.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, BadPage> {
        if bytes.len() < HEADER_BYTES || bytes[field::PAGE_TYPE] != PAGE_TYPE {
            return Err(BadPage("not a column page"));
        }
        let rows = u32_at(bytes, field::ROW_COUNT) as usize;
        let blocks = usize::from(u16_at(bytes, field::BLOCK_COUNT));
        let runs = usize::from(u16_at(bytes, field::RUN_COUNT));
        if rows == 0 || rows > PAGE_ROWS_MAX || blocks != rows.div_ceil(BLOCK_ROWS) || runs == 0 {
            return Err(BadPage("impossible row, block or run count"));
        }
        let mut page = Self {
            bytes,
            rows,
            blocks,
            runs,
            minipages: [Minipage::default(); 3],
        };
        page.find_minipages()?;
        page.check_runs()?;
        Ok(page)
    }

    fn find_minipages(&mut self) -> Result<(), BadPage> {
        const BAD: BadPage = BadPage("minipages overlap or run past the page");
        let flags = self.bytes[field::FLAGS];
        let mut end_before = HEADER_BYTES + self.runs * RUN_BYTES;
        for column in Column::ALL {
            let number = column as usize;
            let start = usize::from(u16_at(self.bytes, field::STARTS + 2 * number));
            let end = usize::from(u16_at(self.bytes, field::STARTS + 2 * number + 2));
            let minimum_bytes = usize::from(self.bytes[field::MINIMUM_BYTES + number]);
            let minipage = &mut self.minipages[number];
            minipage.base = u64_at(self.bytes, field::BASES + 8 * number);
            if minimum_bytes > 8 || start != end_before {
                return Err(BAD);
            }
            let bytes = self.bytes.get(start..end).ok_or(BAD)?;
            end_before = end;
            if flags & column.constant_flag() != 0 {
                continue;
            }
            let index_bytes = self.blocks * (minimum_bytes + END_BYTES);
            minipage.minimum_bytes = minimum_bytes;
            (minipage.index, minipage.data) = bytes.split_at_checked(index_bytes).ok_or(BAD)?;
        }
        Ok(())
    }

    fn check_runs(&self) -> Result<(), BadPage> {
        let mut last: Option<(u64, usize)> = None;
        for index in 0..self.runs {
            let (predicate, end) = (self.run_predicate(index), self.run_end(index));
            let sorted = last.is_none_or(|(before, start)| before < predicate && start < end);
            if !sorted || end == 0 || end > self.rows {
                return Err(BadPage("predicate runs out of order"));
            }
            last = Some((predicate, end));
        }
        match last {
            Some((_, end)) if end == self.rows => Ok(()),
            _ => Err(BadPage("predicate runs that do not cover the rows")),
        }
    }

    /// Returns the number of rows; at least one.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the predicates with their rows, in order; at least one.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, Range<usize>)> + '_ {
        (0..self.runs).map(|index| {
            let start = if index == 0 {
                0
            } else {
                self.run_end(index - 1)
            };
            (self.run_predicate(index), start..self.run_end(index))
        })
    }

    /// Returns the predicate of a run.
    fn run_predicate(&self, index: usize) -> u64 {
        u64_at(self.bytes, HEADER_BYTES + index * RUN_BYTES)
    }

    fn run_end(&self, index: usize) -> usize {
        u32_at(self.bytes, HEADER_BYTES + index * RUN_BYTES + 8) as usize
    }

    /// Appends the predicates of `rows` to `out`.
    pub(crate) fn predicates(&self, rows: Range<usize>, out: &mut Vec<u64>) {
        for (predicate, run) in self.runs() {
            let (start, end) = (run.start.max(rows.start), run.end.min(rows.end));
            if start < end {
                out.resize(out.len() + end - start, predicate);
            }
        }
    }

    /// Appends a column's values in `rows` to `out`.
    pub(crate) fn values(
        &self,
        column: Column,
        rows: Range<usize>,
        out: &mut Vec<u64>,
    ) -> Result<(), BadPage> {
        debug_assert!(rows.start <= rows.end && rows.end <= self.rows);
        let minipage = &self.minipages[column as usize];
        if minipage.index.is_empty() {
            out.resize(out.len() + rows.len(), minipage.base);
            return Ok(());
        }
        let mut row = rows.start;
        while row < rows.end {
            let block = row / BLOCK_ROWS;
            let block_rows = self.block_rows(block);
            let start = out.len();
            out.resize(start + block_rows.len(), 0);
            minipage.decode(block, self.blocks, &mut out[start..])?;
            out.truncate(start + rows.end.min(block_rows.end) - block_rows.start);
            if row > block_rows.start {
                out.drain(start..start + row - block_rows.start);
            }
            row = block_rows.end;
        }
        Ok(())
    }

    /// Returns the parts of `rows`, all of one predicate, that are in one block each. The column is sorted in them.
    pub(crate) fn blocks(&self, column: Column, rows: Range<usize>) -> impl Iterator<Item = Block> {
        let minipage = self.minipages[column as usize];
        // The minimum is the first value only of blocks that are entirely within the rows.
        let first_value = move |block: usize, of: &Range<usize>, within: &Range<usize>| {
            if minipage.index.is_empty() {
                return Some(minipage.base);
            }
            (of == within).then(|| minipage.minimum(block))
        };
        let page = *self;
        let within = move |block: usize| {
            let of = page.block_rows(block);
            let within = of.start.max(rows.start)..of.end.min(rows.end);
            let first = first_value(block, &of, &within);
            (!within.is_empty()).then_some((within, first))
        };
        let mut block = rows.start / BLOCK_ROWS;
        std::iter::from_fn(move || {
            let (rows, first) = within(block)?;
            block += 1;
            let next = within(block).and_then(|(_, first)| first);
            Some(Block {
                rows,
                values: first.unwrap_or(0)..=next.unwrap_or(u64::MAX),
            })
        })
    }

    fn block_rows(&self, block: usize) -> Range<usize> {
        block * BLOCK_ROWS..((block + 1) * BLOCK_ROWS).min(self.rows)
    }

    /// Returns the rows whose key starts with `prefix`: a predicate, then values of a and b.
    pub(crate) fn find(&self, prefix: &[u64]) -> Result<Range<usize>, BadPage> {
        Ok(self.position(prefix, false)?..self.position(prefix, true)?)
    }

    /// Returns the first row whose key is not less than `prefix` or, with `after`, greater than all keys that start
    /// with it.
    pub(crate) fn position(&self, prefix: &[u64], after: bool) -> Result<usize, BadPage> {
        let Some((&predicate, rest)) = prefix.split_first() else {
            return Ok(if after { self.rows } else { 0 });
        };
        let run = partition_point(self.runs, |index| self.run_predicate(index) < predicate);
        let start = if run == 0 { 0 } else { self.run_end(run - 1) };
        if run == self.runs || self.run_predicate(run) != predicate {
            return Ok(start);
        }
        let mut rows = start..self.run_end(run);
        let columns = [Column::A, Column::B, Column::G];
        for (index, (&value, column)) in rest.iter().zip(columns).enumerate() {
            if index + 1 == rest.len() {
                return self.bound(column, rows, value, after);
            }
            let first = self.bound(column, rows.clone(), value, false)?;
            let end = self.bound(column, first..rows.end, value, true)?;
            if first == end {
                return Ok(first);
            }
            rows = first..end;
        }
        Ok(if after { rows.end } else { rows.start })
    }

    /// Returns the first row within `rows`, where the column is sorted, whose value is not less than `value`
    /// (`after`: greater). Decodes at most three blocks.
    fn bound(
        &self,
        column: Column,
        rows: Range<usize>,
        value: u64,
        after: bool,
    ) -> Result<usize, BadPage> {
        let below = |other: u64| match other.cmp(&value) {
            Ordering::Less => true,
            Ordering::Equal => after,
            Ordering::Greater => false,
        };
        let minipage = &self.minipages[column as usize];
        if rows.is_empty() {
            return Ok(rows.start);
        }
        if minipage.index.is_empty() {
            return Ok(if below(minipage.base) {
                rows.end
            } else {
                rows.start
            });
        }
        // The minimum is the first value only of blocks that are entirely within the rows.
        let first = rows.start / BLOCK_ROWS;
        let last = (rows.end - 1) / BLOCK_ROWS;
        let inner = first + 1..last;
        let skipped = partition_point(inner.len(), |index| {
            below(minipage.minimum(inner.start + index))
        });
        let mut values = Vec::with_capacity(BLOCK_ROWS);
        for block in [first + skipped, first + skipped + 1] {
            if block > last {
                break;
            }
            if block < last && block > first + skipped {
                // An inner block whose first value is known to be beyond.
                return Ok(block * BLOCK_ROWS);
            }
            let block_rows = self.block_rows(block);
            let within = block_rows.start.max(rows.start)..block_rows.end.min(rows.end);
            values.clear();
            self.values(column, within.clone(), &mut values)?;
            let offset = values.partition_point(|&other| below(other));
            if offset < values.len() {
                return Ok(within.start + offset);
            }
        }
        Ok(rows.end)
    }

    /// Checks the assumption of searches beyond sorted rows: that each block's minimum is correct.
    pub(crate) fn check_blocks(&self) -> Result<(), BadPage> {
        let mut values = Vec::new();
        for column in Column::ALL {
            let minipage = &self.minipages[column as usize];
            if minipage.index.is_empty() {
                continue;
            }
            for block in 0..self.blocks {
                values.clear();
                self.values(column, self.block_rows(block), &mut values)?;
                if values.iter().min() != Some(&minipage.minimum(block)) {
                    return Err(BadPage("a block whose minimum is not in it"));
                }
            }
        }
        Ok(())
    }
}

impl Minipage<'_> {
    fn minimum(&self, block: usize) -> u64 {
        let mut bytes = [0u8; 8];
        let start = block * self.minimum_bytes;
        let stored = self.index.get(start..start + self.minimum_bytes);
        let stored = stored.unwrap_or(&[]);
        bytes[..stored.len()].copy_from_slice(stored);
        self.base.wrapping_add(u64::from_le_bytes(bytes))
    }

    fn end(&self, block: usize, blocks: usize) -> usize {
        let ends = blocks * self.minimum_bytes;
        usize::from(u16_at(self.index, ends + block * END_BYTES))
    }

    fn decode(&self, block: usize, blocks: usize, out: &mut [u64]) -> Result<(), BadPage> {
        let start = if block == 0 {
            0
        } else {
            self.end(block - 1, blocks)
        };
        let body = self
            .data
            .get(start..self.end(block, blocks))
            .ok_or(BadPage("a block outside its minipage"))?;
        block::decode(body, self.minimum(block), out)
    }
}

/// Returns the number of leading indexes below `count` for which `holds` is true.
fn partition_point(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Reads a fixed field; the callers have checked that it is within the page.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("within the page"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("within the page"))
}
