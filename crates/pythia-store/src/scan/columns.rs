//! Rows of an order in columns.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pythia_io::Page;
use pythia_rdf::TermId;

use super::{BATCH_ROWS, BATCH_ROWS_MIN, Projection, Slot};
use crate::StoreError;
use crate::directory_pages::Held;
use crate::pattern::{GraphFilter, IdBatch, Order};
use crate::read_ahead::ReadAhead;
use crate::segment::Segment;
use crate::segment::column::format::BLOCK_ROWS;
use crate::segment::column::{BadPage, Column, ColumnFile, ColumnPage, PageGraphs};

/// A range of rows of a column file.
pub(crate) struct ColumnScan {
    segment: Arc<Segment>,
    order: Order,
    rows: Range<u64>,
    graph: GraphFilter,
    projection: Projection,
    /// The bound components: predicate, then a.
    prefix: Vec<u64>,
    window: VecDeque<(u64, Page)>,
    read_ahead: ReadAhead,
    /// Rows whose first free component is smaller are skipped once their page has been read.
    sought: Option<u64>,
    /// Ids of that component that will be sought, sorted.
    expected: Vec<u64>,
    graphs: Vec<u64>,
    values: Vec<u64>,
}

impl ColumnScan {
    /// Scans the rows that start with `prefix` (the order's components, as many as are bound).
    pub(crate) fn new(
        segment: Arc<Segment>,
        order: Order,
        prefix: Vec<u64>,
        graph: GraphFilter,
        projection: Projection,
    ) -> Result<Self, StoreError> {
        let rows = columns(&segment, order)?.find(&prefix)?;
        Self::over(segment, order, prefix, rows, graph, projection)
    }

    /// Scans some of the rows that start with `prefix`.
    pub(crate) fn over(
        segment: Arc<Segment>,
        order: Order,
        prefix: Vec<u64>,
        rows: Range<u64>,
        graph: GraphFilter,
        projection: Projection,
    ) -> Result<Self, StoreError> {
        let read_ahead = ReadAhead::new(columns(&segment, order)?.file());
        Ok(Self {
            segment,
            order,
            rows,
            graph,
            projection,
            prefix,
            window: VecDeque::new(),
            read_ahead,
            sought: None,
            expected: Vec::new(),
            graphs: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Appends the next rows to `batch`; it stays empty at the end.
    pub(crate) fn fill(&mut self, batch: &mut IdBatch) -> Result<(), StoreError> {
        let segment = Arc::clone(&self.segment);
        let file = columns(&segment, self.order)?;
        let mut held = Held::default();
        while batch.rows < BATCH_ROWS_MIN {
            let sought = match self.sought {
                Some(id) => Some(self.page_of(file, &mut held, id)?),
                None => None,
            };
            if let Some(page) = sought {
                let first = file.entry(&mut held, page)?.rows.start;
                self.rows.start = self.rows.start.max(first);
            }
            if self.rows.is_empty() {
                break;
            }
            let number = file.page_of_row(&mut held, self.rows.start)?;
            let entry = file.entry(&mut held, number)?;
            let (page_rows, graphs) = (&entry.rows, entry.graphs(self.graph));
            if graphs == PageGraphs::None {
                self.rows.start = page_rows.end;
                continue;
            }
            self.fetch(file, &mut held, number)?;
            let Some((_, page)) = self.window.front() else {
                break;
            };
            let page = page.clone();
            let view = file.view(&entry, number as u64, &page)?;
            if let Some(id) = self.sought.take()
                && sought == Some(number)
            {
                let position = view.position(&self.key(id), false);
                let position = position.map_err(|problem| file.corrupt(number as u64, problem))?;
                self.rows.start = self.rows.start.max(page_rows.start + position as u64);
                if self.rows.start >= page_rows.end {
                    continue;
                }
            }
            // End on a block, so that the next batch does not decode it again.
            let start = (self.rows.start - page_rows.start) as usize;
            let most = (start + BATCH_ROWS - batch.rows).next_multiple_of(BLOCK_ROWS);
            let end = most.min((self.rows.end.min(page_rows.end) - page_rows.start) as usize);
            let result = match graphs {
                PageGraphs::Some => self.some_rows(&view, start..end, batch),
                _ => self.all_rows(&view, start..end, batch),
            };
            result.map_err(|problem| file.corrupt(number as u64, problem))?;
            self.rows.start = page_rows.start + end as u64;
        }
        if self.rows.is_empty() {
            self.window.clear();
        }
        Ok(())
    }

    /// Returns whether no rows are left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Skips the rows whose first free component is smaller than `id`.
    pub(crate) fn seek(&mut self, id: TermId) {
        if self.prefix.len() <= 2 {
            self.sought = self.sought.max(Some(id.0));
        }
    }

    /// Records which ids will be sought.
    pub(crate) fn expect(&mut self, ids: &[u64]) {
        if self.prefix.len() <= 2 {
            self.expected.clear();
            self.expected.extend_from_slice(ids);
        }
    }

    /// Returns the key of the first row with an id in the first free component.
    fn key(&self, id: u64) -> Vec<u64> {
        self.prefix.iter().copied().chain([id]).collect()
    }

    /// Returns the page that has this row or is the one before it. Reads directory pages only.
    fn page_of(&self, file: &ColumnFile, held: &mut Held, id: u64) -> Result<usize, StoreError> {
        let before = file.pages_before(held, &self.key(id), false)?;
        Ok(before.saturating_sub(1))
    }

    /// Makes the page the window's first.
    fn fetch(
        &mut self,
        file: &ColumnFile,
        held: &mut Held,
        number: usize,
    ) -> Result<(), StoreError> {
        let number = number as u64;
        while self.window.front().is_some_and(|front| front.0 != number) {
            self.window.pop_front();
        }
        if !self.window.is_empty() {
            return Ok(());
        }
        let last = file.page_of_row(held, self.rows.end - 1)? as u64;
        let most = self.read_ahead.next();
        let expected = self.expected_pages(file, held, number, last, most)?;
        let candidates: &mut dyn Iterator<Item = u64> = match expected {
            Some(expected) => &mut expected.into_iter(),
            None => &mut (number..=last),
        };
        let mut numbers = Vec::new();
        while numbers.len() < most
            && let Some(page) = candidates.next()
        {
            if self.graph == GraphFilter::Any
                || file.entry(held, page as usize)?.graphs(self.graph) != PageGraphs::None
            {
                numbers.push(page);
            }
        }
        let pages = file.hold(&numbers)?;
        self.window.extend(numbers.into_iter().zip(pages));
        Ok(())
    }

    /// Returns the page and the next ones that have expected ids, unless most pages have some.
    fn expected_pages(
        &self,
        file: &ColumnFile,
        held: &mut Held,
        number: u64,
        last: u64,
        most: usize,
    ) -> Result<Option<Vec<u64>>, StoreError> {
        let mut pages = vec![number];
        let mut page = number;
        let mut ids = &self.expected[..];
        while pages.len() < most {
            // The page of an id is a function that ascends with it.
            let (mut low, mut high) = (0, ids.len());
            while low < high {
                let middle = usize::midpoint(low, high);
                match self.page_of(file, held, ids[middle])? as u64 <= page {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            ids = &ids[low..];
            let Some(&id) = ids.first() else { break };
            let next = self.page_of(file, held, id)? as u64;
            if next > last {
                break;
            }
            page = next;
            pages.push(page);
        }
        let is_dense = page - number < 2 * pages.len() as u64;
        Ok((!is_dense).then_some(pages))
    }

    fn all_rows(
        &mut self,
        page: &ColumnPage<'_>,
        rows: Range<usize>,
        batch: &mut IdBatch,
    ) -> Result<(), BadPage> {
        for (slot, out) in self.projection.slots.iter().zip(&mut batch.columns) {
            match *slot {
                Slot::Constant(id) => out.resize(out.len() + rows.len(), id),
                Slot::First => page.predicates(rows.clone(), out),
                Slot::Second => page.values(Column::A, rows.clone(), out)?,
                Slot::Third => page.values(Column::B, rows.clone(), out)?,
                Slot::Fourth => page.values(Column::G, rows.clone(), out)?,
            }
        }
        batch.rows += rows.len();
        Ok(())
    }

    /// Appends the rows whose graph passes.
    fn some_rows(
        &mut self,
        page: &ColumnPage<'_>,
        rows: Range<usize>,
        batch: &mut IdBatch,
    ) -> Result<(), BadPage> {
        self.graphs.clear();
        page.values(Column::G, rows.clone(), &mut self.graphs)?;
        let graph = self.graph;
        let chosen = |graphs: &[u64]| {
            let accepted = |&(_, &id): &(usize, &u64)| graph.accepts(TermId(id));
            let chosen = graphs.iter().enumerate().filter(accepted);
            chosen.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let chosen = chosen(&self.graphs);
        if chosen.is_empty() {
            return Ok(());
        }
        for (slot, out) in self.projection.slots.iter().zip(&mut batch.columns) {
            self.values.clear();
            match *slot {
                Slot::Constant(id) => {
                    out.resize(out.len() + chosen.len(), id);
                    continue;
                }
                Slot::First => page.predicates(rows.clone(), &mut self.values),
                Slot::Second => page.values(Column::A, rows.clone(), &mut self.values)?,
                Slot::Third => page.values(Column::B, rows.clone(), &mut self.values)?,
                Slot::Fourth => self.values.extend_from_slice(&self.graphs),
            }
            out.extend(chosen.iter().map(|&index| self.values[index]));
        }
        batch.rows += chosen.len();
        Ok(())
    }
}

/// Returns the columns of an order, which the segment must have.
fn columns(segment: &Segment, order: Order) -> Result<&ColumnFile, StoreError> {
    segment.column_file(order).ok_or_else(|| {
        let message = format!("it has no columns of {}", order.name());
        StoreError::corrupt(segment.folder(), None, message)
    })
}
