//! The changes that match a pattern, in the order of a scan, to be merged with the base's rows.

use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::TermId;

use super::Delta;
use super::run::{Run, component, graph_of, matches, quad_of};
use crate::StoreError;
use crate::loser_tree::LoserTree;
use crate::pattern::{Component, GraphFilter, IdBatch, Order, QuadPattern};
use crate::scan::{SegmentScan, of_segment};

/// The merge key of a quad: components in the scan's order, the rest 0.
pub(crate) type Key = [u64; 4];

/// Returns a quad's key.
pub(crate) fn row_key(quad: &[u64; 4], components: &[Component]) -> Key {
    let mut key = [0; 4];
    for (place, &which) in key.iter_mut().zip(components) {
        *place = component(quad, which);
    }
    key
}

/// The key of an input that has ended.
const END: Key = [u64::MAX; 4];

/// Changes with the sums of their signs, in key order, each key once. Pages of runs on the device are read when the first
/// change is requested, so that a stream can seek before.
pub(crate) struct ChangeStream {
    inputs: Vec<Input>,
    components: Vec<Component>,
    /// The next key of each input with its sign. Empty before the first change is requested, and after a seek.
    heads: Vec<(Key, i32)>,
    tree: LoserTree,
}

/// Rows of one run.
enum Input {
    /// A range that is already in the requested order.
    Range(RunRange),
    /// Rows that had to be sorted.
    Sorted { rows: Vec<(Key, i32)>, next: usize },
    /// Rows of a segment of a run on the device.
    Scan(Box<SegmentInput>),
}

/// Rows of a run in memory.
struct RunRange {
    run: Arc<Run>,
    order: Order,
    rows: Range<usize>,
    graph: GraphFilter,
    /// The key of the next row.
    next: Key,
}

impl RunRange {
    /// Moves to the next row of an accepted graph and makes its key.
    fn settle(&mut self, components: &[Component]) {
        let all = self.run.rows(self.order);
        while self.rows.start < self.rows.end {
            let row = all.row(self.rows.start);
            if self.graph.accepts(graph_of(self.order, &row)) {
                self.next = row_key(&quad_of(self.order, &row), components);
                return;
            }
            self.rows.start += 1;
        }
    }

    fn seek(&mut self, id: u64, components: &[Component]) {
        if self.rows.start == self.rows.end {
            return;
        }
        let all = self.run.rows(self.order);
        let place = self.order.components();
        let place = place
            .iter()
            .position(|which| Some(which) == components.first());
        let bound = place.unwrap_or(0);
        let mut prefix = all.row(self.rows.start);
        prefix[bound] = id;
        let start = all.position(self.rows.start, &prefix[..=bound], false);
        self.rows.start = start.clamp(self.rows.start, self.rows.end);
        self.settle(components);
    }
}

/// Rows of a segment, all added or all removed.
struct SegmentInput {
    scan: SegmentScan,
    rows: IdBatch,
    next: usize,
    sign: i32,
    is_begun: bool,
}

impl SegmentInput {
    /// Reads the first rows, unless that takes a page.
    fn new(scan: SegmentScan, sign: i32) -> Result<Self, StoreError> {
        let mut input = Self {
            is_begun: !scan.reads_on_request(),
            scan,
            rows: IdBatch::default(),
            next: 0,
            sign,
        };
        if input.is_begun {
            input.scan.next_into(&mut input.rows)?;
        }
        Ok(input)
    }

    /// Reads the first rows, if that was not done yet.
    fn begin(&mut self) -> Result<(), StoreError> {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.scan.next_into(&mut self.rows)?;
        }
        Ok(())
    }

    #[inline]
    fn head(&self) -> (Key, i32) {
        if self.next == self.rows.rows {
            return (END, 0);
        }
        let mut key = Key::default();
        for (place, column) in key.iter_mut().zip(&self.rows.columns) {
            *place = column[self.next];
        }
        (key, self.sign)
    }

    fn advance(&mut self) -> Result<(), StoreError> {
        self.next += 1;
        if self.next == self.rows.rows {
            self.next = 0;
            self.scan.next_into(&mut self.rows)?;
        }
        Ok(())
    }

    fn seek(&mut self, id: TermId) -> Result<(), StoreError> {
        if !self.is_begun {
            return self.scan.seek(id);
        }
        let rest = self
            .rows
            .columns
            .first()
            .map_or(&[][..], |first| &first[self.next..]);
        self.next += rest.partition_point(|&other| other < id.0);
        if self.next == self.rows.rows {
            self.scan.seek(id)?;
            self.next = 0;
            self.scan.next_into(&mut self.rows)?;
        }
        Ok(())
    }
}

impl Input {
    /// Returns whether there are more rows, or the first ones were not read yet.
    fn may_have_rows(&self) -> bool {
        match self {
            Self::Scan(scan) if !scan.is_begun => true,
            input => input.head().0 != END,
        }
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Range(_) | Self::Sorted { .. } => Ok(()),
            Self::Scan(scan) => scan.begin(),
        }
    }

    /// Returns the next key with its sign; [`END`] if there is none.
    #[inline]
    fn head(&self) -> (Key, i32) {
        match self {
            Self::Range(range) if range.rows.is_empty() => (END, 0),
            Self::Range(range) => {
                let sign = range.run.rows(range.order).sign(range.rows.start);
                (range.next, sign)
            }
            Self::Sorted { rows, next } => rows.get(*next).copied().unwrap_or((END, 0)),
            Self::Scan(scan) => scan.head(),
        }
    }

    fn advance(&mut self, components: &[Component]) -> Result<(), StoreError> {
        match self {
            Self::Range(range) => {
                range.rows.start += 1;
                range.settle(components);
                Ok(())
            }
            Self::Sorted { next, .. } => {
                *next += 1;
                Ok(())
            }
            Self::Scan(scan) => scan.advance(),
        }
    }

    fn seek(&mut self, id: TermId, components: &[Component]) -> Result<(), StoreError> {
        match self {
            Self::Range(range) => range.seek(id.0, components),
            Self::Sorted { rows, next } => {
                *next += rows[*next..].partition_point(|(key, _)| key[0] < id.0);
            }
            Self::Scan(scan) => scan.seek(id)?,
        }
        Ok(())
    }
}

impl ChangeStream {
    /// Returns the changes that match a pattern; with `ids`, only those whose first free component is in `ids`. Keys
    /// consist of `components`, a prefix of those of the order that the pattern leaves free. `None` if there are no
    /// changes.
    pub(crate) fn new(
        delta: &Delta,
        pattern: &QuadPattern,
        order: Order,
        ids: Option<&Range<u64>>,
        components: &[Component],
    ) -> Result<Option<Self>, StoreError> {
        let in_memory = delta.runs.iter().filter_map(|run| match ids {
            Some(ids) => range_of_ids(run, pattern, order, ids, components),
            None => of_pattern(run, pattern, order, components),
        });
        let mut inputs: Vec<Input> = in_memory.collect();
        for (segment, sign) in delta.segments(*pattern) {
            let scan = match ids {
                Some(ids) => {
                    of_segment::scan_range(segment, pattern, order, ids.clone(), components)?
                }
                None => of_segment::scan(segment, pattern, order, components)?,
            };
            inputs.push(Input::Scan(Box::new(SegmentInput::new(scan, sign)?)));
        }
        inputs.retain(Input::may_have_rows);
        Ok((!inputs.is_empty()).then(|| Self {
            inputs,
            components: components.to_vec(),
            heads: Vec::new(),
            tree: LoserTree::default(),
        }))
    }

    /// Finds the next key of each input.
    fn begin(&mut self) -> Result<(), StoreError> {
        for input in &mut self.inputs {
            input.begin()?;
        }
        self.heads.extend(self.inputs.iter().map(Input::head));
        self.tree = LoserTree::new(self.heads.len(), less(&self.heads));
        Ok(())
    }

    /// Returns the next key and the sum of its signs, if it is not greater than `last`. The sum may be 0.
    pub(crate) fn next_until(
        &mut self,
        last: Option<&Key>,
    ) -> Result<Option<(Key, i64)>, StoreError> {
        if self.heads.is_empty() {
            self.begin()?;
        }
        let (key, _) = self.heads[self.tree.winner()];
        if key == END || last.is_some_and(|last| key > *last) {
            return Ok(None);
        }
        let mut sum = 0;
        loop {
            let winner = self.tree.winner();
            let (same, sign) = self.heads[winner];
            if same != key {
                break;
            }
            sum += i64::from(sign);
            self.inputs[winner].advance(&self.components)?;
            self.heads[winner] = self.inputs[winner].head();
            self.tree.replay(less(&self.heads));
        }
        Ok(Some((key, sum)))
    }

    /// Skips changes whose first component is smaller.
    pub(crate) fn seek(&mut self, id: TermId) -> Result<(), StoreError> {
        if !self.heads.is_empty() && self.heads[self.tree.winner()].0[0] >= id.0 {
            return Ok(());
        }
        self.heads.clear();
        let components = &self.components;
        self.inputs
            .iter_mut()
            .try_for_each(|input| input.seek(id, components))
    }
}

/// Compares the keys of inputs.
fn less(heads: &[(Key, i32)]) -> impl Fn(usize, usize) -> bool + '_ {
    |a, b| heads[a].0 < heads[b].0
}

fn range_of_ids(
    run: &Arc<Run>,
    pattern: &QuadPattern,
    order: Order,
    ids: &Range<u64>,
    components: &[Component],
) -> Option<Input> {
    let rows = run.rows_within(pattern.predicate?, order, ids);
    Some(range(run, order, rows, pattern.graph, components))
}

fn range(
    run: &Arc<Run>,
    order: Order,
    rows: Range<usize>,
    graph: GraphFilter,
    components: &[Component],
) -> Input {
    let mut range = RunRange {
        run: Arc::clone(run),
        order,
        rows,
        graph,
        next: Key::default(),
    };
    range.settle(components);
    Input::Range(range)
}

fn of_pattern(
    run: &Arc<Run>,
    pattern: &QuadPattern,
    order: Order,
    components: &[Component],
) -> Option<Input> {
    let (found, rows, is_exact) = match (pattern.subject, pattern.predicate, pattern.object) {
        (None, _, None) if pattern.graph.one_named().is_some() => run.matching(pattern),
        (None, None, None) => (order, 0..run.rows(order).len(), true),
        (None, Some(predicate), None) if matches!(order, Order::Pso | Order::Pos) => {
            (order, run.rows(order).range(&[predicate.0]), true)
        }
        _ => run.matching(pattern),
    };
    if rows.is_empty() {
        return None;
    }
    if is_exact && is_sorted_by(found, pattern, components) {
        return Some(range(run, found, rows, pattern.graph, components));
    }
    let all = run.rows(found);
    let mut sorted: Vec<(Key, i32)> = rows
        .filter(|&index| {
            let row = all.row(index);
            pattern.graph.accepts(graph_of(found, &row))
                && (is_exact || matches(pattern, found, &row))
        })
        .map(|index| {
            let quad = quad_of(found, &all.row(index));
            (row_key(&quad, components), all.sign(index))
        })
        .collect();
    sorted.sort_unstable();
    Some(Input::Sorted {
        rows: sorted,
        next: 0,
    })
}

/// Returns whether the rows that an order has of a pattern are sorted by these components.
fn is_sorted_by(order: Order, pattern: &QuadPattern, components: &[Component]) -> bool {
    let is_free = |which: &Component| match which {
        Component::Subject => pattern.subject.is_none(),
        Component::Predicate => pattern.predicate.is_none(),
        Component::Object => pattern.object.is_none(),
        Component::Graph => !matches!(pattern.graph, GraphFilter::One(_)),
    };
    let all = order.components();
    let free: Vec<Component> = all.iter().copied().filter(is_free).collect();
    free.starts_with(components)
}
