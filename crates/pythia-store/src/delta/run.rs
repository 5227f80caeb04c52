//! A run in memory: quads that were added and removed, sorted in all orders.
//!
//! Every quad of a run has a sign. For each quad the sum over the base and all runs of a snapshot is 0 or 1,
//! regardless of the order of the runs, so runs are merged by adding signs and dropping zeros.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::TermId;

use super::device::{FilterBuilder, StoredFilter, add_edge};
use crate::gallop::gallop_rows;
use crate::hashes::hash_of;
use crate::pattern::{Component, End, GraphFilter, Order, QuadPattern};

/// Bytes of a row in one order.
const ROW_BYTES: usize = size_of::<[u64; 4]>() + size_of::<i32>();
/// Runs with fewer rows have no filters.
const FILTERED_ROWS_MIN: usize = 256;

/// A quad as subject, predicate, object and graph: raw ids, 0 for the default graph.
pub(crate) type Quad = [u64; 4];

/// Rows of an order with their signs, sorted.
#[derive(Clone, Debug)]
pub(crate) struct SignedRows {
    rows: Vec<[u64; 4]>,
    /// The sum of the signs of all rows before each row, and after the last.
    sums: Vec<i32>,
}

impl Default for SignedRows {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl SignedRows {
    fn with_capacity(rows: usize) -> Self {
        let mut sums = Vec::with_capacity(rows + 1);
        sums.push(0);
        Self {
            rows: Vec::with_capacity(rows),
            sums,
        }
    }

    fn push(&mut self, row: [u64; 4], sign: i32) {
        let sum = self.sums.last().copied().unwrap_or(0);
        self.rows.push(row);
        self.sums.push(sum + sign);
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn row(&self, index: usize) -> [u64; 4] {
        self.rows[index]
    }

    /// Returns 1 for an added row, -1 for a removed one.
    pub(crate) fn sign(&self, index: usize) -> i32 {
        self.sums[index + 1] - self.sums[index]
    }

    /// Returns the sum of the signs of some rows.
    fn sum(&self, rows: Range<usize>) -> i64 {
        i64::from(self.sums[rows.end]) - i64::from(self.sums[rows.start])
    }

    /// Returns the first row, from row `from` on, that is not less than `prefix`; with `after`, the first that is
    /// greater and does not start with it.
    pub(crate) fn position(&self, from: usize, prefix: &[u64], after: bool) -> usize {
        let is_before = |row: &[u64; 4]| match row[..prefix.len()].cmp(prefix) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => after,
            std::cmp::Ordering::Greater => false,
        };
        // Ascending lookups are mostly close to each other.
        gallop_rows(from..self.rows.len(), 1, |row| is_before(&self.rows[row]))
    }

    /// Returns the rows that start with `prefix`.
    pub(crate) fn range(&self, prefix: &[u64]) -> Range<usize> {
        let is_less = |row: &[u64; 4]| row[..prefix.len()] < *prefix;
        let start = self.rows.partition_point(is_less);
        start..self.position(start, prefix, true)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ([u64; 4], bool)> + '_ {
        (0..self.len()).map(|index| (self.rows[index], self.sign(index) > 0))
    }
}

/// The changes of a run to a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PredicateChange {
    pub(crate) predicate: TermId,
    /// Change in the number of quads, in all graphs.
    pub(crate) quads: i64,
    /// Change in the number of quads in the default graph.
    pub(crate) default_quads: i64,
    /// Quads that were added.
    pub(crate) added: u64,
    /// The kinds of the subjects and objects of added quads, a bit each.
    pub(crate) subject_kinds: u128,
    pub(crate) object_kinds: u128,
}

/// Signed quads in all orders. Immutable.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// As in [`Order::ALL`].
    orders: [SignedRows; Order::ALL.len()],
    /// The nodes that have rows, by end; `None` for a small run, which is searched directly.
    filters: Option<[StoredFilter; 2]>,
    /// Sorted by predicate.
    predicates: Vec<PredicateChange>,
    /// Change in the number of quads per graph; sorted.
    graphs: Vec<(u64, i64)>,
}

impl Run {
    /// Returns a run of changes: quads with the sums of their signs, in any order and with repeats.
    pub(crate) fn new(changes: &[(Quad, i32)]) -> Self {
        let mut rows: Vec<([u64; 4], i32)> = Vec::with_capacity(changes.len());
        Self::of_orders(Order::ALL.map(|order| {
            rows.clear();
            let permuted = |&(quad, sign): &(Quad, i32)| (in_order(order, &quad), sign);
            let of_order = |(quad, _): &&(Quad, i32)| order.has_graph(quad[3]);
            rows.extend(changes.iter().filter(of_order).map(permuted));
            rows.sort_unstable_by_key(|entry| entry.0);
            summed(&rows)
        }))
    }

    /// Merges several runs into one. Frees the rows of unshared runs order by order.
    pub(crate) fn merged_owned(runs: Vec<Arc<Self>>) -> Self {
        let mut runs: Vec<Owned> = runs.into_iter().map(Owned::new).collect();
        if let [run] = &mut runs[..]
            && let Owned::Alone(run) = run
        {
            return std::mem::take(&mut **run);
        }
        Self::of_orders(std::array::from_fn(|index| {
            // From the last, and smallest, on.
            let rows = runs.iter_mut().rev().map(|run| run.take(index));
            rows.reduce(|later, before| match (later, before) {
                (Cow::Owned(rows), other) | (other, Cow::Owned(rows)) if rows.len() == 0 => other,
                (later, before) => Cow::Owned(merged_pair(&before, &later)),
            })
            .map_or_else(SignedRows::default, Cow::into_owned)
        }))
    }

    /// Returns the same changes with other ids. Frees the rows of an unshared run order by order.
    pub(crate) fn with_ids(run: Arc<Self>, id: impl Fn(u64) -> u64) -> Self {
        let mut run = Owned::new(run);
        Self::of_orders(std::array::from_fn(|index| {
            let order = run.take(index);
            let mut rows: Vec<([u64; 4], i32)> = Vec::with_capacity(order.len());
            rows.extend((0..order.len()).map(|row| (order.row(row).map(&id), order.sign(row))));
            drop(order);
            rows.sort_unstable_by_key(|entry| entry.0);
            summed(&rows)
        }))
    }

    fn of_orders(orders: [SignedRows; Order::ALL.len()]) -> Self {
        let [spo, ops, pso, ..] = &orders;
        let (predicates, graphs) = summary(pso);
        Self {
            filters: (spo.len() >= FILTERED_ROWS_MIN).then(|| [spo, ops].map(filter)),
            predicates,
            graphs,
            orders,
        }
    }

    /// Returns the number of changed quads.
    pub(crate) fn len(&self) -> usize {
        self.orders[0].len()
    }

    /// Returns the number of added quads.
    pub(crate) fn added(&self) -> usize {
        // The others were removed.
        let sum = self.orders[0].sum(0..self.len());
        (self.len() as i64 + sum) as usize / 2
    }

    /// Returns the approximate memory of the run.
    pub(crate) fn memory_bytes(&self) -> usize {
        let rows: usize = self.orders.iter().map(SignedRows::len).sum();
        let rows = rows * ROW_BYTES;
        let filters = self.filters.iter().flatten();
        let filters = filters.map(StoredFilter::memory_bytes).sum::<usize>();
        let predicates = self.predicates.len() * size_of::<PredicateChange>();
        rows + filters + predicates + self.graphs.len() * size_of::<(u64, i64)>()
    }

    /// Number of orders.
    pub(crate) const ORDERS: usize = Order::ALL.len();

    /// Returns an upper bound of the bytes of a run of this many rows, except for its list of predicates.
    pub(crate) const fn bytes_of(rows: usize) -> usize {
        /// Bytes per row in the filters and in the list of graphs.
        const BESIDE: usize = 48;
        rows * (Self::ORDERS * ROW_BYTES + BESIDE)
    }

    /// Returns the rows in an order.
    pub(crate) fn rows(&self, order: Order) -> &SignedRows {
        &self.orders[order as usize]
    }

    /// Returns whether the node may have rows, or rows of the predicate; false is certain.
    pub(crate) fn touches(&self, end: End, node: TermId, predicate: Option<TermId>) -> bool {
        let filters = self.filters.as_ref();
        filters.is_none_or(|filters| filters[end as usize].may_hold(hash_of(node, predicate)))
    }

    /// Returns the places of the nodes for which [`Self::touches`] is true.
    pub(crate) fn touched(
        &self,
        end: End,
        nodes: &[TermId],
        predicate: Option<TermId>,
    ) -> Vec<usize> {
        let Some(filters) = &self.filters else {
            return (0..nodes.len()).collect();
        };
        let hash = |place: usize| hash_of(nodes[place], predicate);
        filters[end as usize].places_held(nodes.len(), hash)
    }

    /// Returns the changes of predicates, sorted.
    pub(crate) fn predicates(&self) -> &[PredicateChange] {
        &self.predicates
    }

    /// Returns the run's changes to a predicate, if any.
    pub(crate) fn predicate(&self, predicate: TermId) -> Option<&PredicateChange> {
        let found = self
            .predicates
            .binary_search_by_key(&predicate, |change| change.predicate);
        found.ok().map(|index| &self.predicates[index])
    }

    /// Returns the change in the number of quads per graph.
    pub(crate) fn graphs(&self) -> &[(u64, i64)] {
        &self.graphs
    }

    /// Returns an order and a range of its rows that includes all rows that match a pattern. If the last value is
    /// true, all rows of the range match, except for their graphs.
    pub(crate) fn matching(&self, pattern: &QuadPattern) -> (Order, Range<usize>, bool) {
        let (order, prefix, is_exact) = lookup(pattern);
        if let (Some(predicate), true) = (pattern.predicate, prefix.is_empty())
            && self.predicate(predicate).is_none()
        {
            return (order, 0..0, true);
        }
        let touched = match (pattern.subject, pattern.object) {
            (Some(subject), _) if !self.touches(End::Subject, subject, pattern.predicate) => false,
            (_, Some(object)) => self.touches(End::Object, object, pattern.predicate),
            _ => true,
        };
        let rows = match touched {
            true => self.rows(order).range(&prefix),
            false => 0..0,
        };
        (order, rows, is_exact)
    }

    /// Returns the change in the number of quads that match a pattern.
    pub(crate) fn count(&self, pattern: &QuadPattern) -> i64 {
        if let (None, Some(predicate), None) = (pattern.subject, pattern.predicate, pattern.object)
        {
            let Some(change) = self.predicate(predicate) else {
                return 0;
            };
            match pattern.graph {
                GraphFilter::Any => return change.quads,
                GraphFilter::Named => return change.quads - change.default_quads,
                GraphFilter::One(TermId::DEFAULT_GRAPH) => return change.default_quads,
                GraphFilter::One(_) => {}
            }
        }
        if let (true, GraphFilter::One(graph)) = (pattern.is_open(), pattern.graph) {
            let place = self.graphs.binary_search_by_key(&graph.0, |entry| entry.0);
            return place.map_or(0, |index| self.graphs[index].1);
        }
        let (order, rows, is_exact) = self.matching(pattern);
        self.sum(
            order,
            rows,
            |row| is_exact || matches(pattern, order, &row),
            is_exact,
            pattern.graph,
        )
    }

    /// Returns the change in the number of quads that join a pair.
    pub(crate) fn probe(
        &self,
        predicate: TermId,
        (subject, object): (TermId, TermId),
        graph: GraphFilter,
    ) -> i64 {
        let touched = self.touches(End::Subject, subject, Some(predicate))
            && self.touches(End::Object, object, Some(predicate));
        if !touched {
            return 0;
        }
        let rows = self.rows(Order::Spo);
        let range = rows.range(&[subject.0, predicate.0, object.0]);
        let of_graph = |&index: &usize| graph.accepts(TermId(rows.row(index)[3]));
        range
            .filter(of_graph)
            .map(|index| i64::from(rows.sign(index)))
            .sum()
    }

    /// Returns the change in the number of quads of a predicate whose subject (or object) is in `ids`.
    pub(crate) fn count_range(
        &self,
        predicate: TermId,
        end: End,
        ids: &Range<u64>,
        graph: GraphFilter,
    ) -> i64 {
        let order = column_order(end);
        let rows = self.rows_within(predicate, order, ids);
        self.sum(order, rows, |_| true, true, graph)
    }

    /// Returns the rows of a predicate whose first free component is in `ids`.
    pub(crate) fn rows_within(
        &self,
        predicate: TermId,
        order: Order,
        ids: &Range<u64>,
    ) -> Range<usize> {
        let rows = self.rows(order);
        if self.predicate(predicate).is_none() {
            return 0..0;
        }
        let start = rows.range(&[predicate.0]).start;
        let start = rows.position(start, &[predicate.0, ids.start], false);
        start..rows.position(start, &[predicate.0, ids.end], false)
    }

    fn sum(
        &self,
        order: Order,
        range: Range<usize>,
        accepts: impl Fn([u64; 4]) -> bool,
        all_accepted: bool,
        graph: GraphFilter,
    ) -> i64 {
        let rows = self.rows(order);
        let one_graph = match self.graphs[..] {
            [] => return 0,
            [(only, _)] => Some(graph.accepts(TermId(only))),
            _ => (graph == GraphFilter::Any).then_some(true),
        };
        match one_graph {
            Some(false) => 0,
            Some(true) if all_accepted => rows.sum(range),
            _ => range
                .filter(|&index| {
                    let row = rows.row(index);
                    graph.accepts(graph_of(order, &row)) && accepts(row)
                })
                .map(|index| i64::from(rows.sign(index)))
                .sum(),
        }
    }
}

/// A run that is consumed if it is unshared.
enum Owned {
    Alone(Box<Run>),
    Shared(Arc<Run>),
}

impl Owned {
    fn new(run: Arc<Run>) -> Self {
        match Arc::try_unwrap(run) {
            Ok(run) => Self::Alone(Box::new(run)),
            Err(run) => Self::Shared(run),
        }
    }

    fn take(&mut self, order: usize) -> Cow<'_, SignedRows> {
        match self {
            Self::Alone(run) => Cow::Owned(std::mem::take(&mut run.orders[order])),
            Self::Shared(run) => Cow::Borrowed(&run.orders[order]),
        }
    }
}

/// The changes of several runs as one, in an order, row by row.
pub(crate) struct MergedRows<'r> {
    inputs: Vec<(&'r SignedRows, usize)>,
}

impl<'r> MergedRows<'r> {
    pub(crate) fn new(runs: &'r [Arc<Run>], order: Order) -> Self {
        let inputs = runs.iter().map(|run| (run.rows(order), 0)).collect();
        Self { inputs }
    }
}

impl Iterator for MergedRows<'_> {
    type Item = ([u64; 4], bool);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rows = |(rows, next): &(&SignedRows, usize)| rows.rows.get(*next).copied();
            let least = self.inputs.iter().filter_map(rows).min()?;
            let mut sum = 0;
            for (rows, next) in &mut self.inputs {
                if rows.rows.get(*next) == Some(&least) {
                    sum += rows.sign(*next);
                    *next += 1;
                }
            }
            if sum != 0 {
                return Some((least, sum > 0));
            }
        }
    }
}

/// Returns a filter of the nodes, and nodes with predicates, that rows of SPO or OPS begin with.
fn filter(rows: &SignedRows) -> StoredFilter {
    let mut builder = FilterBuilder::new(2 * rows.len() as u64);
    let mut last = None;
    for row in &rows.rows {
        add_edge(&mut builder, &mut last, [row[0], row[1]]);
    }
    builder.finish()
}

/// Returns the column order that sorts by an end.
pub(crate) fn column_order(end: End) -> Order {
    match end {
        End::Subject => Order::Pso,
        End::Object => Order::Pos,
    }
}

/// Returns the components of a quad in an order.
pub(crate) fn in_order(order: Order, &[s, p, o, g]: &Quad) -> [u64; 4] {
    match order {
        Order::Spo => [s, p, o, g],
        Order::Ops => [o, p, s, g],
        Order::Pso => [p, s, o, g],
        Order::Pos => [p, o, s, g],
        Order::Gpso => [g, p, s, o],
    }
}

/// Returns the quad of a row of an order.
pub(crate) fn quad_of(order: Order, &[a, b, c, g]: &[u64; 4]) -> Quad {
    match order {
        Order::Spo => [a, b, c, g],
        Order::Ops => [c, b, a, g],
        Order::Pso => [b, a, c, g],
        Order::Pos => [c, a, b, g],
        Order::Gpso => [c, b, g, a],
    }
}

/// Returns the graph of a row of an order.
#[inline]
pub(crate) fn graph_of(order: Order, row: &[u64; 4]) -> TermId {
    TermId(match order {
        Order::Gpso => row[0],
        Order::Spo | Order::Ops | Order::Pso | Order::Pos => row[3],
    })
}

/// Returns a component of a quad.
pub(crate) fn component(quad: &Quad, component: Component) -> u64 {
    quad[component as usize]
}

/// Returns the order that finds a pattern, the prefix to look up, and whether the prefix covers the whole pattern.
fn lookup(pattern: &QuadPattern) -> (Order, Vec<u64>, bool) {
    let (s, p, o) = (pattern.subject, pattern.predicate, pattern.object);
    if let (None, None, Some(graph)) = (s, o, pattern.graph.one_named()) {
        let prefix = [Some(graph), p].into_iter().flatten();
        return (Order::Gpso, prefix.map(|id| id.0).collect(), true);
    }
    let ids = |ids: &[Option<TermId>]| ids.iter().map_while(|id| id.map(|id| id.0)).collect();
    match (s, p, o) {
        (Some(_), None, Some(_)) => (Order::Spo, ids(&[s]), false),
        (Some(_), ..) => (Order::Spo, ids(&[s, p, o]), true),
        (None, _, Some(_)) => (Order::Ops, ids(&[o, p]), true),
        (None, Some(_), None) => (Order::Pso, ids(&[p]), true),
        (None, None, None) => (Order::Spo, Vec::new(), true),
    }
}

/// Returns whether a row has the pattern's terms; ignores its graph.
pub(crate) fn matches(pattern: &QuadPattern, order: Order, row: &[u64; 4]) -> bool {
    let [s, p, o, _] = quad_of(order, row);
    let fits = |bound: Option<TermId>, id: u64| bound.is_none_or(|bound| bound.0 == id);
    fits(pattern.subject, s) && fits(pattern.predicate, p) && fits(pattern.object, o)
}

/// Returns sorted rows, each once, with the sums of their signs; drops rows whose signs cancel.
fn summed(rows: &[([u64; 4], i32)]) -> SignedRows {
    let mut out = SignedRows::with_capacity(rows.len());
    for same in rows.chunk_by(|a, b| a.0 == b.0) {
        let sign: i32 = same.iter().map(|entry| entry.1).sum();
        if sign != 0 {
            out.push(same[0].0, sign);
        }
    }
    out
}

fn merged_pair(a: &SignedRows, b: &SignedRows) -> SignedRows {
    let mut out = SignedRows::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a.rows[i].cmp(&b.rows[j]) {
            std::cmp::Ordering::Less => {
                out.push(a.rows[i], a.sign(i));
                i += 1;
            }
            std::cmp::Ordering::Greater => {
                out.push(b.rows[j], b.sign(j));
                j += 1;
            }
            std::cmp::Ordering::Equal => {
                let sign = a.sign(i) + b.sign(j);
                if sign != 0 {
                    out.push(a.rows[i], sign);
                }
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    (i..a.len()).for_each(|i| out.push(a.rows[i], a.sign(i)));
    (j..b.len()).for_each(|j| out.push(b.rows[j], b.sign(j)));
    out
}

/// Returns the changes of rows in order PSO, per predicate and per graph.
fn summary(pso: &SignedRows) -> (Vec<PredicateChange>, Vec<(u64, i64)>) {
    let mut predicates: Vec<PredicateChange> = Vec::new();
    let mut graphs: rustc_hash::FxHashMap<u64, i64> = rustc_hash::FxHashMap::default();
    let (mut graph, mut graph_quads) = (0, 0);
    for ([p, s, o, g], added) in pso.iter() {
        let sign = if added { 1 } else { -1 };
        if predicates.last().is_none_or(|last| last.predicate.0 != p) {
            predicates.push(PredicateChange {
                predicate: TermId(p),
                quads: 0,
                default_quads: 0,
                added: 0,
                subject_kinds: 0,
                object_kinds: 0,
            });
        }
        let change = predicates.last_mut().expect("just pushed");
        change.quads += sign;
        if g == 0 {
            change.default_quads += sign;
        }
        if added {
            change.added += 1;
            change.subject_kinds |= 1 << TermId(s).kind_number();
            change.object_kinds |= 1 << TermId(o).kind_number();
        }
        if g != graph {
            *graphs.entry(graph).or_default() += graph_quads;
            (graph, graph_quads) = (g, 0);
        }
        graph_quads += sign;
    }
    if pso.len() > 0 {
        *graphs.entry(graph).or_default() += graph_quads;
    }
    // Graphs whose quads cancel stay: the list has every graph of the rows.
    let mut graphs: Vec<(u64, i64)> = graphs.into_iter().collect();
    graphs.sort_unstable();
    (predicates, graphs)
}
