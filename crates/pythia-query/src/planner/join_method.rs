//! Ways to join one more element to the solutions so far, with their cost and number of solutions. Costs are
//! in microseconds. The constants are for pages in memory; for a store larger than its cache, the cost of
//! reads from the device is added.

use pythia_store::{End, Expansion, Order, ReadCosts};

use super::builder::Knowledge;
use super::cached::CachedPair;
use super::element::{Element, PatternGraph, PatternTerm, Triple};
use pythia_exec::plan::step::{
    Access, EXPAND_NODES, EXPAND_NODES_MAX, PathStep, Position, TableAfter,
};

/// Cost of visiting one tuple page and decoding a list.
const VISIT: f64 = 0.4;
/// Cost of a seek in a scan, in rows read.
const SEEK: f64 = 300.0;
/// Maximum length of a list that is kept in memory for an intersection.
const LIST_ROWS_MAX: f64 = 65536.0;
/// Cost of finding the labels of two terms.
const LABELS: f64 = 1.5;
/// Cost of producing one row.
const ROW: f64 = 0.02;
/// Cost of reading one row of a column.
const SCANNED: f64 = 0.006;
/// Cost of passing a row of a column whose other rows are read, and that of sorting a node that is looked up there.
const PASSED: f64 = 0.0025;
const SORTED: f64 = 0.06;
/// Reading a row of a tuple page, with its predicate, as a multiple of reading one of a column.
const TUPLE_ROW: f64 = 4.0;
/// Cost of reading one row of a column into a hash table.
const HASHED: f64 = 0.025;
/// Cost of reading one link into a table that is sorted by the link's near end.
const LINKED: f64 = 0.05;
/// Cost of starting to read links into such a table.
const LINKS_START: f64 = 5.0;
/// Number of rows of a column that are read instead of a visit for certain. Batches may have fewer nodes than expected, above all
/// those of several threads.
const ROWS_PER_VISIT: f64 = Expansion::ROWS_PER_VISIT as f64 * 2.0 / 3.0;
const ROWS_AT_ONCE: f64 = 32.0;
/// Number of nodes that are many for certain.
const NODES_AT_ONCE: f64 = Expansion::STRETCH_NODES as f64 * 2.0;
/// Cost of one hash lookup.
const LOOKUP: f64 = 0.015;
/// Cost of searching a key's rows of a table for the other end.
const SEARCHED: f64 = 0.03;
/// Shares of the cost of a table that lookups may cost before it, if a table is expected to cost less: the maximum, and the
/// minimum where it is expected to cost far less.
const LOOKED_UP: f64 = 0.25;
const LOOKED_UP_LEAST: f64 = 1.0 / 32.0;
/// Cost of starting a scan.
const SCAN_START: f64 = 2.0;
/// From this many matches, a constant object's list is read from the columns, streaming.
const LONG_LIST: u64 = 4096;

/// Properties of the solutions after some of the elements.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    /// Estimated number of solutions.
    pub(super) rows: f64,
    /// Estimated number of distinct terms per slot; 0 if it is not bound in all solutions.
    pub(super) distinct: Vec<f64>,
    /// Slot by which the solutions are sorted.
    pub(super) sorted: Option<usize>,
    /// True for the single empty solution.
    pub(super) unit: bool,
    /// True for the solutions of one scan.
    pub(super) scanned: bool,
    /// Cost of pages that are not in memory.
    pub(super) reads: ReadCosts,
}

/// A method to join an element.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JoinMethod {
    /// Access to a triple pattern; `None` for a path and for several patterns.
    pub(super) access: Option<Access>,
    /// Elements that are joined in one step, if there are several: their lists are intersected, or one is an
    /// attribute cached beside the other.
    pub(super) members: u64,
    /// Solutions after the join.
    pub(super) rows: f64,
    /// Cost of the join.
    pub(super) cost: f64,
    /// Slot by which the solutions are sorted after the join.
    pub(super) sorted: Option<usize>,
}

impl Joined {
    /// Returns the properties of the solutions of a pipeline with this number of slots. `unit`: there is only the
    /// empty one.
    pub(super) fn of(known: &Knowledge, slots: usize, unit: bool, reads: ReadCosts) -> Self {
        let mut distinct = vec![0.0; slots];
        for &slot in &known.certain {
            let here = known.distinct.get(&slot).copied().unwrap_or(known.rows);
            distinct[slot] = here.max(1.0);
        }
        Self {
            rows: known.rows,
            distinct,
            sorted: known.sorted,
            unit,
            scanned: false,
            reads,
        }
    }

    pub(super) fn is_bound(&self, slot: usize) -> bool {
        self.distinct[slot] > 0.0
    }

    pub(super) fn is_known(&self, place: PatternTerm) -> bool {
        match place {
            PatternTerm::Constant(_) => true,
            PatternTerm::Slot(slot) => self.is_bound(slot),
        }
    }

    /// Returns the number of distinct terms of a bound slot.
    fn distinct(&self, slot: usize) -> f64 {
        self.distinct[slot].min(self.rows).max(1.0)
    }

    /// Returns whether the element shares a bound variable with the solutions, or has no variable.
    pub(super) fn is_connected(&self, element: &Element) -> bool {
        match element {
            Element::Triple(triple) => {
                let mut slots = triple.slots().peekable();
                slots.peek().is_none() || slots.any(|(slot, _)| self.is_bound(slot))
            }
            Element::Path(path) => {
                let ends = [path.subject, path.object].into_iter();
                let mut slots = ends.filter_map(Position::slot).peekable();
                slots.peek().is_none() || slots.any(|slot| self.is_bound(slot))
            }
            Element::Operand(operand) => {
                let mut slots = operand.slots.iter();
                operand.slots.is_empty() || slots.any(|(slot, _)| self.is_bound(*slot))
            }
        }
    }

    /// Records the way of the last join.
    pub(super) fn pass(&mut self, method: &JoinMethod) {
        self.sorted = method.sorted;
        self.scanned = self.unit && matches!(method.access, Some(Access::Scan(_)));
        self.unit = false;
    }

    /// Records that an element was joined in this method. Returns the slots that it binds.
    pub(super) fn join(&mut self, element: &Element, method: &JoinMethod) -> Vec<usize> {
        self.rows = method.rows;
        self.pass(method);
        let mut bound = Vec::new();
        let mut bind = |slot: usize, distinct: f64| {
            let before = match self.distinct[slot] {
                0.0 => {
                    bound.push(slot);
                    f64::MAX
                }
                before => before,
            };
            self.distinct[slot] = before.min(distinct).min(method.rows).max(1.0);
        };
        element.each_slot(&mut bind);
        if let Element::Triple(triple) = element
            && let PatternGraph::Slot(slot, _) = triple.graph
        {
            bind(slot, method.rows);
        }
        bound
    }

    /// Returns the method to join a number of given rows that bind these slots.
    pub(super) fn values_method(&self, slots: &[(usize, f64)], count: f64) -> JoinMethod {
        let bound = || slots.iter().filter(|(slot, _)| self.is_bound(*slot));
        let rows = bound().fold(self.rows * count, |rows, (slot, distinct)| {
            rows / self.distinct(*slot).max(*distinct)
        });
        let probes = match bound().next() {
            Some(_) => count * HASHED + self.rows * LOOKUP,
            None => 0.0,
        };
        JoinMethod {
            rows,
            cost: probes + rows * ROW,
            ..JoinMethod::default()
        }
    }

    /// Returns the method to join a path.
    pub(super) fn path_method(&self, path: &PathStep) -> JoinMethod {
        let known = |end: Position| match end.slot() {
            None => Some(1.0),
            Some(slot) => self.is_bound(slot).then(|| self.distinct(slot)),
        };
        let expected = &path.estimate;
        let (subjects, objects) = (known(path.subject), known(path.object));
        let (found, visits) = match (subjects, objects) {
            (Some(subjects), Some(objects)) => {
                let share = match path.object {
                    Position::Constant(_) => expected.subjects / expected.all_subjects.max(1.0),
                    _ => expected.objects / expected.all_objects.max(1.0),
                };
                let visits = (subjects * expected.objects).min(objects * expected.subjects);
                (share.min(1.0), visits)
            }
            (Some(subjects), None) => (expected.objects, subjects * expected.objects),
            (None, Some(objects)) => (expected.subjects, objects * expected.subjects),
            (None, None) => {
                let pairs = expected.all_subjects * expected.objects + expected.nodes;
                (pairs, pairs)
            }
        };
        let found = match path.counted {
            Some(_) if subjects.is_some() || objects.is_some() => found.min(1.0),
            Some(_) => expected.all_subjects + expected.nodes,
            None => found,
        };
        let sorted = match (path.subject, path.object) {
            (Position::Constant(_), end) | (end, Position::Constant(_)) if self.unit => end.slot(),
            _ => None,
        };
        let rows = self.rows * found;
        let by_labels = path.labelled.is_some() && subjects.is_some() && objects.is_some();
        let search = match by_labels {
            true => self.rows * LABELS,
            false => self.visits(visits) + self.rows * LOOKUP,
        };
        JoinMethod {
            access: None,
            members: 0,
            rows,
            cost: search + rows * ROW,
            sorted: sorted.filter(|_| path.counted.is_none()),
        }
    }

    /// Returns the slot that a pattern would bind from a node's list: its only unknown end, if the other end,
    /// the predicate and the graph are known.
    pub(super) fn new_end(&self, element: &Element) -> Option<usize> {
        let Element::Triple(triple) = element else {
            return None;
        };
        let (PatternTerm::Constant(_), PatternGraph::Filter(_)) = (triple.predicate, triple.graph)
        else {
            return None;
        };
        match (triple.subject, triple.object) {
            (known, PatternTerm::Slot(slot)) | (PatternTerm::Slot(slot), known)
                if !self.is_bound(slot) && self.is_known(known) =>
            {
                Some(slot)
            }
            _ => None,
        }
    }

    /// Returns the cost of intersecting the lists of patterns whose only unknown end is this slot, or `None` if they may
    /// be too long to keep in memory.
    pub(super) fn lists_cost(&self, patterns: &[&Triple], slot: usize) -> Option<f64> {
        let (fixed, others): (Vec<&Triple>, Vec<&Triple>) = patterns
            .iter()
            .partition(|pattern| pattern.has_constant_end());
        let cost_of = |patterns: &[&Triple]| {
            let lists = patterns.iter().map(|pattern| self.list_cost(pattern));
            lists.sum::<Option<f64>>()
        };
        let (once, each) = (cost_of(&fixed)?, cost_of(&others)?);
        let allowed = fixed.iter().map(|pattern| pattern.count).reduce(f64::min);
        Some(match (allowed, &others[..]) {
            (Some(allowed), [other]) => once + each.min(self.links_cost(other, slot, allowed)),
            _ => once + each,
        })
    }

    /// Returns the cost of testing each term that lists have in common. `rows` solutions are expected with them, and the
    /// shortest list has `shortest` terms. The expected number is often far too low, because constants go together: all of the
    /// shortest list may be in the others. The geometric mean of the two numbers is taken.
    pub(super) fn tests_cost(&self, rows: f64, shortest: f64) -> f64 {
        let common = (rows / self.rows.max(1.0)).max(1.0);
        self.visits((common * shortest).sqrt())
    }

    /// Returns the cost of reading a pattern's lists from the known ends; that of a constant is read once.
    pub(super) fn list_cost(&self, triple: &Triple) -> Option<f64> {
        if triple.has_constant_end() {
            let fits = triple.count <= LIST_ROWS_MAX;
            return fits.then_some(self.visits(1.0) + self.scanned(triple.count));
        }
        let bound = triple.slots().find(|(slot, _)| self.is_bound(*slot))?;
        let length = triple.count / bound.1;
        (length <= LIST_ROWS_MAX).then_some(self.visits(self.rows) + self.rows * length * SCANNED)
    }

    /// Returns the cost of reading all links of a pattern into the terms that other patterns allow for a slot, and of
    /// looking up the solutions among them.
    fn links_cost(&self, triple: &Triple, slot: usize, allowed: f64) -> f64 {
        let end = triple.slots().find(|(end, _)| *end == slot);
        let links = allowed * triple.count / end.map_or(1.0, |(_, distinct)| distinct.max(1.0));
        LINKS_START + self.visits(allowed) + links * LINKED + self.rows * LOOKUP
    }

    /// Returns the method to join an edge and a cached attribute. `edges` is the number of links read, `rows`
    /// the number of solutions.
    pub(super) fn cached_way(&self, pair: &CachedPair, edges: f64, rows: f64) -> JoinMethod {
        JoinMethod {
            access: Some(Access::Cached(pair.end, pair.predicate)),
            members: 1 << pair.edge | 1 << pair.attribute,
            rows,
            cost: self.visits(self.rows) + edges * SCANNED + rows * ROW,
            sorted: self.sorted,
        }
    }

    /// Returns the cost of producing rows.
    pub(super) fn output_cost(&self, rows: f64) -> f64 {
        rows * ROW
    }

    /// Returns the cost of looking up nodes: one page each, but no page is read twice for one batch.
    fn visits(&self, nodes: f64) -> f64 {
        nodes * VISIT + nodes.min(self.reads.tuple_pages) * self.reads.page_us
    }

    /// Returns the cost of looking up a pattern's links: one page for each node or, for nodes that are many of those
    /// with the predicate, all rows of a column each time.
    fn expanded(&self, triple: &Triple) -> f64 {
        let visits = self.visits(self.rows);
        if self.rows < NODES_AT_ONCE || !matches!(triple.predicate, PatternTerm::Constant(_)) {
            return visits;
        }
        let at_once = self.column_at_once(triple.count);
        let cost = at_once.map_or(visits, |column| visits.min(column));
        if !self.waits(triple) {
            return cost;
        }
        let after_waiting = self.column_after_waiting(triple.count);
        after_waiting.map_or(cost, |column| cost.min(column))
    }

    /// Returns whether solutions may wait for others before their links are looked up: those of a scan that is not sorted by the
    /// nodes.
    fn waits(&self, triple: &Triple) -> bool {
        let is_sorted = triple.slots().any(|(slot, _)| self.sorted == Some(slot));
        self.scanned && !is_sorted
    }

    /// Returns the cost of reading links from a column of `count` rows for the solutions as they come, if they are many enough for
    /// that.
    fn column_at_once(&self, count: f64) -> Option<f64> {
        let most = EXPAND_NODES as f64;
        let together = self.rows.min(most);
        let times = (self.rows / most).max(1.0);
        (count <= together * ROWS_AT_ONCE).then(|| times * self.scanned(count) + self.rows * LOOKUP)
    }

    /// As [`Self::column_at_once`], for solutions that may wait for others.
    fn column_after_waiting(&self, count: f64) -> Option<f64> {
        let (together, times) = waiting(self.rows);
        (count <= together * ROWS_PER_VISIT)
            .then(|| times * self.passed(count) + self.rows * SORTED)
    }

    /// Returns the cost of reading a column for some of its rows.
    fn passed(&self, rows: f64) -> f64 {
        rows * (PASSED + self.reads.row_us)
    }

    /// Returns the cost of reading rows of a column.
    fn scanned(&self, rows: f64) -> f64 {
        rows * (SCANNED + self.reads.row_us)
    }

    /// Estimates the solutions after joining a triple pattern, assuming independent variables.
    pub(super) fn rows_after(&self, triple: &Triple) -> f64 {
        let bound = triple.slots().filter(|(slot, _)| self.is_bound(*slot));
        bound.fold(self.rows * triple.count, |rows, (slot, distinct)| {
            rows / self.distinct(slot).max(distinct)
        })
    }

    /// Lists the methods to join a triple pattern, after which there are `rows` solutions.
    pub(super) fn triple_methods(&self, triple: &Triple, rows: f64, methods: &mut Vec<JoinMethod>) {
        let subject = self.is_known(triple.subject);
        let object = self.is_known(triple.object);
        let mut add = |access: Access, cost: f64, sorted: Option<usize>| {
            methods.push(JoinMethod {
                access: Some(access),
                members: 0,
                rows,
                cost,
                sorted,
            });
        };
        if subject
            && object
            && let (PatternTerm::Constant(_), PatternGraph::Filter(_)) =
                (triple.predicate, triple.graph)
        {
            return self.tests(triple, &mut add);
        }
        if !triple.slots().any(|(slot, _)| self.is_bound(slot)) {
            for order in scan_orders(triple, self.unit) {
                let sorted = if self.unit {
                    sorted_by(triple, order)
                } else {
                    None
                };
                let read = match triple.ranges_in(order) {
                    Some(confined) => confined.count + confined.ids.len() as f64 * SEEK,
                    _ if order == Order::Spo => triple.count * TUPLE_ROW,
                    _ => triple.count,
                };
                let cost = self.rows * (SCAN_START + self.scanned(read));
                add(Access::Scan(order), cost, sorted);
            }
            return;
        }
        let output = rows * ROW;
        for (is_known, end) in [(subject, End::Subject), (object, End::Object)] {
            if is_known {
                let cost = self.expanded(triple) + output;
                add(Access::Expand(end), cost, self.sorted);
            }
        }
        if let (Some(order), Some(slot)) = (
            keyed_order(triple, subject, object),
            single_key(triple, subject, object),
        ) {
            self.keyed_ways(triple, order, slot, output, &mut add);
        }
        if !subject && !object {
            let order = match (triple.object, &triple.confined) {
                (PatternTerm::Constant(_), _) => Order::Ops,
                (_, Some(confined)) if confined.end == End::Object => Order::Pos,
                (PatternTerm::Slot(_), _) => Order::Pso,
            };
            add(Access::Scan(order), self.rows * SCAN_START + output, None);
        }
    }

    /// Lists the methods to test whether solutions that bind both ends of a pattern match it.
    fn tests(&self, triple: &Triple, add: &mut impl FnMut(Access, f64, Option<usize>)) {
        add(Access::Probe, self.visits(self.rows), self.sorted);
        if let Some(order) = tested_order(triple) {
            let cost = self.table(triple) + self.rows * SEARCHED;
            add(Access::Hash(order), cost, self.sorted);
        }
        if let (Some(order), Some(slot)) = (
            keyed_order(triple, true, true),
            single_key(triple, true, true),
        ) {
            self.keyed_ways(triple, order, slot, 0.0, add);
        }
    }

    /// Lists the methods to join a pattern by its single shared slot, by which the matches are sorted in this
    /// order.
    fn keyed_ways(
        &self,
        triple: &Triple,
        order: Order,
        slot: usize,
        output: f64,
        add: &mut impl FnMut(Access, f64, Option<usize>),
    ) {
        if self.sorted == Some(slot) {
            let read = triple.count.min(self.rows * 400.0);
            let cost = SCAN_START + self.scanned(read) + self.rows * ROW + output;
            add(Access::Merge(order), cost, self.sorted);
        }
        add(
            Access::Hash(order),
            self.table(triple) + output,
            self.sorted,
        );
    }

    /// Returns when a join with a pattern in this way changes from lookups of nodes to a table of all matches, if it can: when
    /// the lookups have cost as much as the table. If a table is expected to cost less, lookups end earlier, the surer that
    /// is.
    pub(super) fn table_after(&self, triple: &Triple, access: Access) -> Option<TableAfter> {
        let (subject, object) = (self.is_known(triple.subject), self.is_known(triple.object));
        let order = match access {
            Access::Hash(order) => order,
            Access::Probe if triple.slots().count() == 2 => tested_order(triple)?,
            Access::Expand(_) | Access::Probe => {
                single_key(triple, subject, object).and(keyed_order(triple, subject, object))?
            }
            Access::Scan(_) | Access::Cached(..) | Access::Merge(_) => return None,
        };
        let each = VISIT + self.reads.page_us;
        let table = SCAN_START + triple.count * (HASHED + self.reads.row_us);
        let even = table / (each - LOOKUP).max(LOOKUP);
        let sure = match access {
            Access::Hash(_) => (even / self.rows * LOOKED_UP).clamp(LOOKED_UP_LEAST, LOOKED_UP),
            _ => 1.0,
        };
        Some(TableAfter {
            order,
            nodes: (even * sure) as u64,
            column: match access {
                Access::Expand(_) => (self.passed(triple.count) / each) as u64,
                _ => u64::MAX,
            },
            waits: self.waits(triple),
        })
    }

    /// Returns the cost of a table of all matches of a pattern, in which the solutions are looked up.
    fn table(&self, triple: &Triple) -> f64 {
        SCAN_START + triple.count * (HASHED + self.reads.row_us) + self.rows * LOOKUP
    }
}

/// Returns how many nodes are looked up together, of this many that come, and how many times. The first ones are at once, then
/// four times as many wait as came before (`GROWTH` of the executor's `link.rs`).
fn waiting(nodes: f64) -> (f64, f64) {
    let (first, most) = (EXPAND_NODES as f64, EXPAND_NODES_MAX as f64);
    if nodes <= first {
        return (nodes, 1.0);
    }
    let growing = nodes.min(most);
    let times = 1.0 + (growing / first).log2() / 2.0 + (nodes - growing) / most;
    ((nodes / 2.0).clamp(first, most), times)
}

/// Returns the single slot that joins the pattern: exactly one end is a bound variable, the other is free or
/// constant, and predicate and graph are fixed.
fn single_key(triple: &Triple, subject: bool, object: bool) -> Option<usize> {
    let (PatternTerm::Constant(_), PatternGraph::Filter(_)) = (triple.predicate, triple.graph)
    else {
        return None;
    };
    match (triple.subject, triple.object) {
        (PatternTerm::Slot(s), PatternTerm::Slot(o)) if s != o && subject != object => {
            Some(if subject { s } else { o })
        }
        (PatternTerm::Slot(s), PatternTerm::Constant(_)) if subject => Some(s),
        (PatternTerm::Constant(_), PatternTerm::Slot(o)) if object => Some(o),
        _ => None,
    }
}

/// Returns the order of a table in which solutions are looked up that bind both ends of a pattern.
fn tested_order(triple: &Triple) -> Option<Order> {
    match (triple.subject, triple.object) {
        (PatternTerm::Slot(s), PatternTerm::Slot(o)) if s != o => {
            let by_subject = triple.distinct_subjects >= triple.distinct_objects;
            Some(if by_subject { Order::Pso } else { Order::Pos })
        }
        _ => None,
    }
}

/// Returns the order whose rows are sorted by the joining slot.
fn keyed_order(triple: &Triple, subject: bool, object: bool) -> Option<Order> {
    match (triple.subject, triple.object) {
        (PatternTerm::Slot(_), PatternTerm::Slot(_)) if subject && !object => Some(Order::Pso),
        (PatternTerm::Slot(_), PatternTerm::Slot(_)) if object && !subject => Some(Order::Pos),
        (PatternTerm::Slot(_), PatternTerm::Constant(_)) => Some(Order::Pos),
        (PatternTerm::Constant(_), PatternTerm::Slot(_)) => Some(Order::Pso),
        _ => None,
    }
}

/// Returns the useful scan orders for a pattern that shares nothing with the solutions so far.
fn scan_orders(triple: &Triple, unit: bool) -> impl Iterator<Item = Order> {
    let (first, second) = match (triple.subject, triple.predicate, triple.object) {
        (PatternTerm::Constant(_), ..) => (Order::Spo, None),
        (_, PatternTerm::Constant(_), PatternTerm::Constant(_))
            if triple.count as u64 > LONG_LIST =>
        {
            (Order::Pos, None)
        }
        (_, _, PatternTerm::Constant(_)) => (Order::Ops, None),
        // A later merge join may need either.
        (PatternTerm::Slot(_), PatternTerm::Constant(_), PatternTerm::Slot(_)) => (
            Order::Pso,
            (unit || triple.confined.is_some()).then_some(Order::Pos),
        ),
        _ => (Order::Spo, None),
    };
    std::iter::once(first).chain(second)
}

/// Returns the slot by which a scan is sorted: the slot of the first non-constant component in the order.
fn sorted_by(triple: &Triple, order: Order) -> Option<usize> {
    let (s, p, o) = (triple.subject, triple.predicate, triple.object);
    let components = match order {
        Order::Spo => [s, p, o],
        Order::Ops => [o, p, s],
        Order::Pso | Order::Gpso => [p, s, o],
        Order::Pos => [p, o, s],
    };
    let slots = components.into_iter().find_map(|place| match place {
        PatternTerm::Slot(slot) => Some(slot),
        PatternTerm::Constant(_) => None,
    });
    slots.or(match triple.graph {
        PatternGraph::Slot(slot, _) => Some(slot),
        PatternGraph::Filter(_) => None,
    })
}
