//! Checks the orders in columns.

use pythia_rdf::TermId;

use super::{Check, Fingerprint, IdRanges, OrderSummary};
use crate::StoreError;
use crate::delta::quad_of;
use crate::directory_pages::Held;
use crate::pattern::Order;
use crate::segment::Segment;
use crate::segment::column::{
    BadPage, Column, ColumnFile, ColumnPage, PageEntry, PredicateCounter,
};
use crate::statistics::GraphCounter;

/// The rows seen so far.
struct Rows {
    order: Order,
    last: Option<[u64; 4]>,
    predicates: PredicateCounter,
    graphs: GraphCounter,
    quads: u64,
    fingerprint: Fingerprint,
    named_quads: u64,
    named_fingerprint: Fingerprint,
    /// One page's columns.
    columns: [Vec<u64>; 4],
}

impl Check<'_> {
    /// Checks the columns of an order; `None` if they have problems, or there are none.
    pub(super) fn columns(
        &mut self,
        segment: &Segment,
        order: Order,
        ids: &IdRanges,
    ) -> Option<OrderSummary> {
        let file = segment.column_file(order)?;
        let mut rows = Rows {
            order,
            last: None,
            predicates: match order {
                Order::Gpso => PredicateCounter::of_nothing(),
                _ => PredicateCounter::default(),
            },
            graphs: GraphCounter::of_listed(&segment.statistics().graphs),
            quads: 0,
            fingerprint: Fingerprint::default(),
            named_quads: 0,
            named_fingerprint: Fingerprint::default(),
            columns: Default::default(),
        };
        let mut sound = true;
        let pages = file.directory().pages() as u64;
        let whole = self.pages(file.file(), 0..pages, |check, number| {
            if let Err(error) = rows.page(file, number, ids) {
                check.error(file.file().name(), error);
                sound = false;
            }
        });
        let whole = self.directory_pages(file.file(), pages) && whole;
        if !whole || !sound {
            return None;
        }
        let name = file.file().name();
        if rows.predicates.finish() != file.directory().predicates {
            self.problem(
                name,
                None,
                "the directory's counts per predicate are not those of the rows",
            );
            return None;
        }
        if order != Order::Gpso && rows.graphs.finish() != segment.statistics().graphs {
            self.problem(
                name,
                None,
                "the directory's counts per graph are not those of the rows",
            );
            return None;
        }
        Some(OrderSummary {
            quads: rows.quads,
            fingerprint: rows.fingerprint,
            named_quads: rows.named_quads,
            named_fingerprint: rows.named_fingerprint,
        })
    }
}

impl Rows {
    fn page(&mut self, file: &ColumnFile, number: u64, ids: &IdRanges) -> Result<(), StoreError> {
        let page = file.file().page(number)?;
        let entry = file.entry(&mut Held::default(), number as usize)?;
        let view = file.view(&entry, number, &page)?;
        self.decode(&view)
            .and_then(|()| view.check_blocks())
            .and_then(|()| self.compare_directory(&entry))
            .and_then(|()| self.rows(ids))
            .map_err(|problem| file.corrupt(number, problem))
    }

    fn decode(&mut self, view: &ColumnPage<'_>) -> Result<(), BadPage> {
        self.columns.iter_mut().for_each(Vec::clear);
        let [p, a, b, g] = &mut self.columns;
        let all = 0..view.rows();
        view.predicates(all.clone(), p);
        view.values(Column::A, all.clone(), a)?;
        view.values(Column::B, all.clone(), b)?;
        view.values(Column::G, all, g)
    }

    fn compare_directory(&self, entry: &PageEntry) -> Result<(), BadPage> {
        if entry.rows.start != self.quads {
            return Err(BadPage(
                "its first row has not the number that the directory gives it",
            ));
        }
        let [p, a, b, g] = &self.columns;
        let bounds = |column: &[u64]| {
            let least = column.iter().copied().min();
            [least, column.iter().copied().max()].map(Option::unwrap_or_default)
        };
        if entry.first != [p[0], a[0], b[0]] {
            return Err(BadPage("its first row is not the one in the directory"));
        }
        if entry.b != bounds(b) || entry.g != bounds(g) {
            return Err(BadPage("its values are not within the directory's bounds"));
        }
        Ok(())
    }

    fn rows(&mut self, ids: &IdRanges) -> Result<(), BadPage> {
        let [p, a, b, g] = &self.columns;
        for (((&p, &a), &b), &g) in p.iter().zip(a).zip(b).zip(g) {
            let row = [p, a, b, g];
            if self.last.is_some_and(|last| last >= row) {
                return Err(BadPage("rows that are not in order"));
            }
            self.last = Some(row);
            let quad = quad_of(self.order, &row);
            if !self.order.has_graph(quad[3]) {
                return Err(BadPage("a quad of the default graph"));
            }
            if !ids.accept(quad) {
                return Err(BadPage(
                    "a row with an id that is no term of the store, or not in its place",
                ));
            }
            self.predicates.count(row);
            if self.order != Order::Gpso {
                self.graphs.count(g);
            }
            if quad[3] != TermId::DEFAULT_GRAPH.0 {
                self.named_fingerprint.add(quad);
                self.named_quads += 1;
            }
            self.fingerprint.add(quad);
            self.quads += 1;
        }
        Ok(())
    }
}
