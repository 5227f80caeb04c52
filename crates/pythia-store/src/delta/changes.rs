//! The changes that match a pattern, in the order of a scan, to be merged with the base's rows.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::TermId;

use super::Delta;
use super::run::{Run, component, matches, quad_of};
use crate::pattern::{Component, GraphFilter, Order, QuadPattern};

/// The part of a quad that rows are merged by: components in the scan's order, the rest 0.
pub(crate) type Key = [u64; 4];

/// A quad's key.
pub(crate) fn row_key(quad: &[u64; 4], components: &[Component]) -> Key {
    let mut key = [0; 4];
    for (place, &which) in key.iter_mut().zip(components) {
        *place = component(quad, which);
    }
    key
}

/// Changes with the sums of their signs, in key order, each key once.
pub(crate) struct ChangeStream {
    inputs: Vec<Input>,
    components: Vec<Component>,
}

/// Rows of one run.
enum Input {
    /// Those of a range that lie in the order asked for.
    Range {
        run: Arc<Run>,
        order: Order,
        rows: Range<usize>,
        graph: GraphFilter,
        /// The key of the next row.
        next: Key,
    },
    /// Those that had to be sorted.
    Sorted { rows: Vec<(Key, i32)>, next: usize },
}

impl Input {
    fn peek(&self) -> Option<(Key, i32)> {
        match self {
            Self::Range {
                run,
                order,
                rows,
                next,
                ..
            } => (rows.start < rows.end).then(|| (*next, run.rows(*order).sign(rows.start))),
            Self::Sorted { rows, next } => rows.get(*next).copied(),
        }
    }

    fn advance(&mut self, components: &[Component]) {
        match self {
            Self::Range { rows, .. } => {
                rows.start += 1;
                self.settle(components);
            }
            Self::Sorted { next, .. } => *next += 1,
        }
    }

    /// Goes on to the next row of an accepted graph and makes its key.
    fn settle(&mut self, components: &[Component]) {
        let Self::Range {
            run,
            order,
            rows,
            graph,
            next,
        } = self
        else {
            return;
        };
        let all = run.rows(*order);
        while rows.start < rows.end {
            let row = all.row(rows.start);
            if graph.accepts(TermId(row[3])) {
                *next = row_key(&quad_of(*order, &row), components);
                return;
            }
            rows.start += 1;
        }
    }

    fn seek(&mut self, id: u64, components: &[Component]) {
        match self {
            Self::Range {
                run, order, rows, ..
            } => {
                let place = order.components();
                let place = place
                    .iter()
                    .position(|which| Some(which) == components.first());
                let all = run.rows(*order);
                let bound = place.unwrap_or(0);
                if rows.start == rows.end {
                    return;
                }
                let mut prefix = all.row(rows.start);
                prefix[bound] = id;
                let start = all.position(rows.start, &prefix[..=bound], false);
                rows.start = start.clamp(rows.start, rows.end);
                self.settle(components);
            }
            Self::Sorted { rows, next } => {
                *next += rows[*next..].partition_point(|(key, _)| key[0] < id);
            }
        }
    }
}

impl ChangeStream {
    /// The changes that match a pattern, or, if `ids` says so, those whose first free component is
    /// among them. Keys are of `components`, a prefix of the order's that the pattern leaves free.
    /// `None` if there are none.
    pub(crate) fn new(
        delta: &Delta,
        pattern: &QuadPattern,
        order: Order,
        ids: Option<&Range<u64>>,
        components: &[Component],
    ) -> Option<Self> {
        let inputs = delta.runs.iter().filter_map(|run| {
            let mut input = match ids {
                Some(ids) => range_of_ids(run, pattern, order, ids),
                None => of_pattern(run, pattern, order, components),
            }?;
            input.settle(components);
            input.peek().map(|_| input)
        });
        let inputs: Vec<Input> = inputs.collect();
        (!inputs.is_empty()).then(|| Self {
            inputs,
            components: components.to_vec(),
        })
    }

    /// The next key and the sum of its signs, if it is not greater than `last`. The sum may be 0.
    pub(crate) fn next_until(&mut self, last: Option<&Key>) -> Option<(Key, i64)> {
        let smallest = self
            .inputs
            .iter()
            .filter_map(Input::peek)
            .map(|(key, _)| key);
        let key = smallest.min()?;
        if last.is_some_and(|last| key > *last) {
            return None;
        }
        let mut sum = 0;
        for input in &mut self.inputs {
            while let Some((same, sign)) = input.peek()
                && same.cmp(&key) == Ordering::Equal
            {
                sum += i64::from(sign);
                input.advance(&self.components);
            }
        }
        Some((key, sum))
    }

    /// Skips changes whose first component is smaller.
    pub(crate) fn seek(&mut self, id: TermId) {
        for input in &mut self.inputs {
            input.seek(id.0, &self.components);
        }
    }
}

fn range_of_ids(
    run: &Arc<Run>,
    pattern: &QuadPattern,
    order: Order,
    ids: &Range<u64>,
) -> Option<Input> {
    let rows = run.rows_within(pattern.predicate?, order, ids);
    Some(Input::Range {
        run: Arc::clone(run),
        order,
        rows,
        graph: pattern.graph,
        next: Key::default(),
    })
}

fn of_pattern(
    run: &Arc<Run>,
    pattern: &QuadPattern,
    order: Order,
    components: &[Component],
) -> Option<Input> {
    let (found, rows, is_exact) = match (pattern.subject, pattern.predicate, pattern.object) {
        (None, None, None) => (order, 0..run.len(), true),
        (None, Some(predicate), None) if matches!(order, Order::Pso | Order::Pos) => {
            (order, run.rows(order).range(&[predicate.0]), true)
        }
        _ => run.matching(pattern),
    };
    if rows.is_empty() {
        return None;
    }
    if is_exact && is_sorted_by(found, pattern, components) {
        return Some(Input::Range {
            run: Arc::clone(run),
            order: found,
            rows,
            graph: pattern.graph,
            next: Key::default(),
        });
    }
    let all = run.rows(found);
    let mut sorted: Vec<(Key, i32)> = rows
        .filter(|&index| {
            let row = all.row(index);
            pattern.graph.accepts(TermId(row[3])) && (is_exact || matches(pattern, found, &row))
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

/// Whether what an order has of a pattern is sorted by these components.
fn is_sorted_by(order: Order, pattern: &QuadPattern, components: &[Component]) -> bool {
    let is_free = |which: &Component| match which {
        Component::Subject => pattern.subject.is_none(),
        Component::Predicate => pattern.predicate.is_none(),
        Component::Object => pattern.object.is_none(),
        Component::Graph => true,
    };
    let all = order.components();
    let free: Vec<Component> = all.iter().copied().filter(is_free).collect();
    free.starts_with(components)
}
