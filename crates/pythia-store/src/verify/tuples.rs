//! Checks SPO and OPS, with the rows of their external lists.

use super::{Check, Fingerprint, IdRanges, OrderSummary};
use crate::StoreError;
use crate::pattern::End;
use crate::segment::Segment;
use crate::segment::column::{BadPage, Column};
use crate::segment::tuple::{Gap, TupleRows};

/// External lists fetched at a time.
const LISTS_MAX: usize = 4096;

/// The tuples seen so far.
struct Tuples<'s> {
    segment: &'s Segment,
    end: End,
    last: Option<[u64; 4]>,
    nodes: u64,
    quads: u64,
    fingerprint: Fingerprint,
    /// External lists whose rows have not been fetched yet.
    gaps: Vec<Gap>,
    rows: TupleRows,
}

impl Check<'_> {
    /// Checks the tuples keyed by an end; `None` if they have problems.
    pub(super) fn tuples(
        &mut self,
        segment: &Segment,
        end: End,
        ids: &IdRanges,
    ) -> Option<OrderSummary> {
        let file = segment.tuples(end);
        let name = file.file().name();
        let mut tuples = Tuples {
            segment,
            end,
            last: None,
            nodes: 0,
            quads: 0,
            fingerprint: Fingerprint::default(),
            gaps: Vec::new(),
            rows: TupleRows::default(),
        };
        let mut sound = true;
        let pages = file.directory().pages() as u64;
        let whole = self.pages(file.file(), 0..pages, |check, number| {
            if let Err(error) = tuples.page(number, ids) {
                check.error(name, error);
                sound = false;
            }
        });
        let whole = self.directory_pages(file.file(), pages) && whole;
        if whole && let Err(error) = tuples.fetch_lists() {
            self.error(name, error);
            sound = false;
        }
        if !whole || !sound {
            return None;
        }
        let statistics = file.directory().statistics;
        if (statistics.tuples, statistics.rows) != (tuples.nodes, tuples.quads) {
            let message = format!(
                "it has {} quads of {} nodes, its directory knows {} of {}",
                tuples.quads, tuples.nodes, statistics.rows, statistics.tuples
            );
            self.problem(name, None, message);
            return None;
        }
        Some(OrderSummary {
            quads: tuples.quads,
            fingerprint: tuples.fingerprint,
            named_quads: 0,
            named_fingerprint: Fingerprint::default(),
        })
    }
}

impl Tuples<'_> {
    fn corrupt(&self, page: Option<u64>, message: &str) -> StoreError {
        StoreError::corrupt(self.segment.tuples(self.end).file().name(), page, message)
    }

    fn quad(&self, [node, predicate, other, graph]: [u64; 4]) -> [u64; 4] {
        match self.end {
            End::Subject => [node, predicate, other, graph],
            End::Object => [other, predicate, node, graph],
        }
    }

    fn page(&mut self, number: u64, ids: &IdRanges) -> Result<(), StoreError> {
        let file = self.segment.tuples(self.end);
        let mut rows = std::mem::take(&mut self.rows);
        let page = number as usize;
        file.scan_pages(page..page + 1).next_batch(&mut rows)?;
        let first_row = rows.node.first().copied();
        let first_gap = rows.gaps.first().filter(|gap| gap.row == 0);
        let first = first_gap.map(|gap| gap.node).or(first_row);
        if first != Some(file.first_node(page)?) {
            return Err(self.corrupt(
                Some(number),
                "its first node is not the one in the directory",
            ));
        }
        let mut gaps = rows.gaps.iter().peekable();
        for row in 0..=rows.len() {
            while let Some(gap) = gaps.next_if(|gap| gap.row == row) {
                self.list(number, gap)?;
            }
            if row < rows.len() {
                let row = [
                    rows.node[row],
                    rows.predicate[row],
                    rows.other[row],
                    rows.graph[row],
                ];
                self.row(number, row, ids)?;
            }
        }
        self.rows = rows;
        if self.gaps.len() >= LISTS_MAX {
            self.fetch_lists()?;
        }
        Ok(())
    }

    fn row(&mut self, page: u64, row: [u64; 4], ids: &IdRanges) -> Result<(), StoreError> {
        if self.last.is_some_and(|last| last >= row) {
            return Err(self.corrupt(Some(page), "rows that are not in order"));
        }
        self.nodes += u64::from(self.last.is_none_or(|last| last[0] != row[0]));
        self.last = Some(row);
        let quad = self.quad(row);
        if !ids.accept(quad) {
            let message = "a row with an id that is no term of the store, or not in its place";
            return Err(self.corrupt(Some(page), message));
        }
        self.fingerprint.add(quad);
        self.quads += 1;
        Ok(())
    }

    /// Adds an external list: checks its order as if by its first row; no row of its predicate may follow it.
    fn list(&mut self, page: u64, gap: &Gap) -> Result<(), StoreError> {
        if self
            .last
            .is_some_and(|last| [last[0], last[1]] >= [gap.node, gap.predicate])
        {
            return Err(self.corrupt(Some(page), "lists that are not in order"));
        }
        self.nodes += u64::from(self.last.is_none_or(|last| last[0] != gap.node));
        self.last = Some([gap.node, gap.predicate, u64::MAX, u64::MAX]);
        self.quads += gap.count;
        self.gaps.push(*gap);
        Ok(())
    }

    /// Reads the rows of external lists from the columns, where their ids have been checked.
    fn fetch_lists(&mut self) -> Result<(), StoreError> {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.sort_unstable_by_key(|gap| (gap.predicate, gap.node));
        let keys: Vec<[u64; 2]> = gaps.iter().map(|gap| [gap.predicate, gap.node]).collect();
        let mut missing: Vec<u64> = gaps.iter().map(|gap| gap.count).collect();
        let (mut others, mut graphs) = (Vec::new(), Vec::new());
        let mut too_many = false;
        self.segment
            .columns(self.end)
            .lists(&keys, |index, page, rows| {
                others.clear();
                graphs.clear();
                page.values(Column::B, rows.clone(), &mut others)?;
                page.values(Column::G, rows.clone(), &mut graphs)?;
                let gap = &gaps[index];
                for (&other, &graph) in others.iter().zip(&graphs) {
                    let quad = match self.end {
                        End::Subject => [gap.node, gap.predicate, other, graph],
                        End::Object => [other, gap.predicate, gap.node, graph],
                    };
                    self.fingerprint.add(quad);
                }
                match missing[index].checked_sub(rows.len() as u64) {
                    Some(left) => missing[index] = left,
                    None => too_many = true,
                }
                Ok::<_, BadPage>(())
            })?;
        if too_many || missing.iter().any(|&count| count > 0) {
            return Err(self.corrupt(None, "an external list that is not as long in the columns"));
        }
        Ok(())
    }
}
