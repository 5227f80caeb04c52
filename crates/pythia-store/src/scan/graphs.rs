//! The named graphs of a segment.

use std::sync::Arc;

use crate::StoreError;
use crate::directory_pages::Held;
use crate::pattern::Order;
use crate::segment::Segment;
use crate::segment::column::ColumnFile;

/// Pages that are read together.
const PAGES_TOGETHER: usize = 64;

/// The distinct named graphs of a segment, in order of their ids. Pages within one graph are not read.
pub(crate) struct NamedGraphs {
    segment: Arc<Segment>,
    /// The next page.
    page: usize,
}

impl NamedGraphs {
    /// Starts at the first graph; `None` if the segment has no order that begins with the graph.
    pub(crate) fn new(segment: &Arc<Segment>) -> Option<Self> {
        segment.column_file(Order::Gpso)?;
        Some(Self {
            segment: Arc::clone(segment),
            page: 0,
        })
    }

    /// Appends the next graphs to `graphs`, whose last one may be there already; returns false at the end.
    pub(crate) fn next_into(&mut self, graphs: &mut Vec<u64>) -> Result<bool, StoreError> {
        let file = self.segment.column_file(Order::Gpso);
        let file = file.expect("checked when it was begun");
        let pages = self.next_pages(file)?;
        let Some(&last) = pages.last() else {
            return Ok(false);
        };
        file.read(&pages, |_, page| {
            for (graph, _) in page.runs() {
                if graphs.last() != Some(&graph) {
                    graphs.push(graph);
                }
            }
            Ok(())
        })?;
        self.page = last as usize + 1;
        Ok(true)
    }

    /// Returns the next pages on which a graph begins, some of them. The first page that follows one of another graph
    /// may begin with the rest of that graph.
    fn next_pages(&self, file: &ColumnFile) -> Result<Vec<u64>, StoreError> {
        let mut held = Held::default();
        let mut pages = Vec::new();
        let mut page = self.page;
        while page < file.directory().pages() && pages.len() < PAGES_TOGETHER {
            pages.push(page as u64);
            let graph = file.entry(&mut held, page)?.first[0];
            // A page whose successor begins with its own first graph has only that graph.
            let after = file.pages_before(&mut held, &[graph], true)?;
            page = match after > page + 1 {
                true => after - 1,
                false => page + 1,
            };
        }
        Ok(pages)
    }
}
