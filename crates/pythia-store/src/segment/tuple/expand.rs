//! Expansion of nodes to their edges: one page visit per node, many nodes per batch of pages.

use std::ops::Range;

use pythia_rdf::TermId;

use super::file::TupleFile;
use super::page::{Entry, GraphNumbers, PageError, Tuple, TuplePage};
use crate::StoreError;
use crate::directory_pages::Held;
use crate::pattern::{Expansion, ExternalList, GraphFilter};

/// The nodes `first..end` of the list being expanded, which are looked up on one page.
#[derive(Clone, Copy, Debug)]
struct Visit {
    page: u64,
    first: usize,
    end: usize,
}

impl TupleFile {
    /// Appends the edges of `nodes`, which are sorted and distinct, with one predicate or with all, in order of node, predicate,
    /// other end and graph.
    /// A node that is not in the file has no edges.
    ///
    /// Reads each page once, and all pages as one batch. If calls with the same `out` go through the nodes in order,
    /// the following pages are read ahead, more each time. Lists of which the pages hold only the length are added to
    /// [`Expansion::external`], regardless of the graphs of their rows.
    pub fn expand(
        &self,
        nodes: &[TermId],
        predicate: Option<TermId>,
        graph: GraphFilter,
        out: &mut Expansion,
    ) -> Result<(), StoreError> {
        debug_assert!(nodes.is_sorted_by(|a, b| a < b), "sorted and distinct");
        if let &[node] = nodes {
            let pages = self.pages_of(&mut Held::default(), node, predicate)?;
            if pages.len() <= 1 {
                return self.expand_on(pages, node, 0, predicate, graph, out);
            }
        }
        let visits = self.visits(nodes, predicate)?;
        let mut pages: Vec<u64> = visits.iter().map(|visit| visit.page).collect();
        pages.extend(out.sequence.along_with(&pages, &self.file));
        self.file.pages(&pages, |index, page| {
            let Some(&Visit {
                page: number,
                first,
                end,
            }) = visits.get(index)
            else {
                return Ok(());
            };
            TuplePage::parse(page)
                .and_then(|page| {
                    expand_page(&page, &nodes[first..end], first, predicate, graph, out)
                })
                .map_err(|error| self.corrupt(number, error))
        })
    }

    /// Expands one node like [`Self::expand`], as number `source`; allocates only room in `out`. Pages of a split
    /// tuple are read one after the other.
    pub fn expand_one(
        &self,
        node: TermId,
        source: u32,
        predicate: Option<TermId>,
        graph: GraphFilter,
        out: &mut Expansion,
    ) -> Result<(), StoreError> {
        let pages = self.pages_of(&mut Held::default(), node, predicate)?;
        self.expand_on(pages, node, source, predicate, graph, out)
    }

    #[inline]
    fn expand_on(
        &self,
        pages: Range<usize>,
        node: TermId,
        source: u32,
        predicate: Option<TermId>,
        graph: GraphFilter,
        out: &mut Expansion,
    ) -> Result<(), StoreError> {
        for number in pages {
            let page = self.file.page(number as u64)?;
            let mut expand = || {
                let page = TuplePage::parse(&page)?;
                let Some(tuple) = page.find(node.0) else {
                    return Ok(());
                };
                let lists = Lists::new(&page, predicate, graph);
                lists.expand(&page.tuple(tuple)?, source, out)
            };
            expand().map_err(|error| self.corrupt(number as u64, error))?;
        }
        Ok(())
    }

    /// Returns the pages to visit for each node; adjacent nodes share them.
    fn visits(
        &self,
        nodes: &[TermId],
        predicate: Option<TermId>,
    ) -> Result<Vec<Visit>, StoreError> {
        let mut visits: Vec<Visit> = Vec::new();
        let mut held = Held::default();
        for (index, node) in nodes.iter().enumerate() {
            for page in self.pages_of(&mut held, *node, predicate)? {
                match visits.last_mut() {
                    Some(last) if last.page == page as u64 => last.end = index + 1,
                    _ => visits.push(Visit {
                        page: page as u64,
                        first: index,
                        end: index + 1,
                    }),
                }
            }
        }
        Ok(visits)
    }
}

/// Expands `nodes`, the first of which has number `first`, on their page.
fn expand_page(
    page: &TuplePage<'_>,
    nodes: &[TermId],
    first: usize,
    predicate: Option<TermId>,
    graph: GraphFilter,
    out: &mut Expansion,
) -> Result<(), PageError> {
    let lists = Lists::new(page, predicate, graph);
    if lists.columns.is_empty() {
        return Ok(());
    }
    let mut before: Option<(usize, Tuple)> = None;
    for (index, node) in nodes.iter().enumerate() {
        let from = before.map_or(0, |(number, _)| number + 1);
        let number = page.lower_bound(from, node.0);
        if number >= page.tuples() {
            break;
        }
        if page.node(number) != node.0 {
            continue;
        }
        let tuple = match &before {
            Some((last, before)) if last + 1 == number => page.tuple_after(before, number)?,
            _ => page.tuple(number)?,
        };
        let source = (first + index) as u32;
        lists.expand(&tuple, source, out)?;
        before = Some((number, tuple));
    }
    Ok(())
}

/// The wanted lists, in terms of one page.
struct Lists<'a> {
    page: &'a TuplePage<'a>,
    /// The columns of the wanted predicate, or all.
    columns: Range<usize>,
    graphs: GraphNumbers,
}

impl<'a> Lists<'a> {
    #[inline]
    fn new(page: &'a TuplePage<'a>, predicate: Option<TermId>, graph: GraphFilter) -> Self {
        let columns = predicate.map_or(page.all_columns(), |one| page.columns_of(one.0));
        Self {
            page,
            columns,
            graphs: page.graph_numbers(graph),
        }
    }

    /// Appends the wanted rows of a tuple.
    #[inline]
    fn expand(&self, tuple: &Tuple, source: u32, out: &mut Expansion) -> Result<(), PageError> {
        self.page.visit(tuple, self.columns.clone(), |entry| {
            self.append(&entry, source, out);
            Ok(())
        })
    }

    /// Appends the rows of an entry that pass the graph filter.
    #[inline]
    fn append(&self, entry: &Entry, source: u32, out: &mut Expansion) {
        let page = self.page;
        if entry.is_external() {
            out.external.push(ExternalList {
                source,
                predicate: TermId(page.predicate(entry)),
                count: entry.count,
            });
            return;
        }
        if entry.count == 1 {
            self.append_one(entry, source, out);
            return;
        }
        let start = out.other.len();
        if page.has_one_graph(entry) {
            let number = page.graph_number(entry, 0);
            if !self.graphs.accept(number) {
                return;
            }
            page.values(entry, &mut out.other);
            if out.with_graph {
                out.graph.resize(out.other.len(), page.graph(number));
            }
        } else {
            page.values(entry, &mut out.other);
            let mut kept = start;
            for row in 0..entry.count as usize {
                let number = page.graph_number(entry, row);
                if self.graphs.accept(number) {
                    out.other[kept] = out.other[start + row];
                    kept += 1;
                    if out.with_graph {
                        out.graph.push(page.graph(number));
                    }
                }
            }
            out.other.truncate(kept);
        }
        let end = out.other.len();
        out.source.resize(end, source);
        if out.with_predicate {
            out.predicate.resize(end, page.predicate(entry));
        }
    }
    /// As [`Self::append`], for a single row, which most entries are.
    #[inline]
    fn append_one(&self, entry: &Entry, source: u32, out: &mut Expansion) {
        if out.with_graph || self.graphs != GraphNumbers::All {
            let number = self.page.graph_number(entry, 0);
            if !self.graphs.accept(number) {
                return;
            }
            if out.with_graph {
                out.graph.push(self.page.graph(number));
            }
        }
        out.other.push(self.page.first_value(entry));
        out.source.push(source);
        if out.with_predicate {
            out.predicate.push(self.page.predicate(entry));
        }
    }
}
