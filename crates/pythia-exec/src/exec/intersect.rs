//! Joins several patterns on one variable at a time, by intersecting the terms that they allow.
//!
//! For each solution, every pattern gives the sorted list of its bound node. The lists are intersected by
//! leapfrogging (Veldhuizen, ICDT 2014), in time proportional to the shortest. No intermediate result of a
//! single pattern is materialized: on cyclic patterns this bounds the work by the size of the largest
//! possible answer.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::{End, Expansion};

use super::batch::Batch;
use super::context::QueryContext;
use super::expand::{distinct_nodes, group_by_source};
use super::merge::gallop;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::limits::governor::Working;
use crate::plan::slots::Slots;
use crate::plan::step::{Position, SlotPattern};

/// Number of solutions whose lists are read together.
const TOGETHER_ROWS: usize = 512;

/// Binds a slot to the terms that all of several patterns allow.
pub(crate) struct Intersect {
    input: Fed,
    slot: usize,
    members: Vec<Member>,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    /// The memory of the current lists.
    working: Working,
    once: bool,
    current: Batch,
    /// Rows before `read` have their lists in the members; rows before `position` are joined.
    position: usize,
    first: usize,
    read: usize,
}

/// One of the patterns, and its lists for the rows being joined.
struct Member {
    end: End,
    node: Position,
    pattern: SlotPattern,
    expansion: Expansion,
    /// The start of each node's list, and the node of each row.
    starts: Vec<u32>,
    node_of_row: Vec<u32>,
}

impl Member {
    fn new(slot: usize, pattern: SlotPattern, context: &QueryContext) -> Self {
        let (end, node) = match pattern.object {
            Position::New(found) if found == slot => (End::Subject, pattern.subject),
            _ => (End::Object, pattern.object),
        };
        Self {
            end,
            node,
            pattern,
            expansion: Expansion::new(false, false).within(Arc::clone(context.governor()) as _),
            starts: Vec::new(),
            node_of_row: Vec::new(),
        }
    }

    /// Reads the lists of some rows.
    fn read(
        &mut self,
        batch: &Batch,
        from: usize,
        to: usize,
        context: &QueryContext,
    ) -> Result<(), QueryError> {
        let Position::Constant(predicate) = self.pattern.predicate else {
            unreachable!("the planner intersects only with constant predicates");
        };
        let (nodes, node_of_row) = distinct_nodes(batch, self.node, from, to);
        self.expansion.clear();
        let graph = self.pattern.graph.filter();
        let (nodes, out): (&[TermId], _) = (&nodes, &mut self.expansion);
        (context.snapshot).expand(self.end, nodes, Some(predicate), graph, out)?;
        self.starts = group_by_source(&mut self.expansion, nodes.len());
        self.node_of_row = node_of_row;
        Ok(())
    }

    /// Returns the bytes of the current lists.
    fn bytes(&self) -> usize {
        let Expansion { source, other, .. } = &self.expansion;
        source.capacity() * 4 + other.capacity() * 8
    }

    /// Returns the list of a row, counted from the first row that was read.
    fn list(&self, row: usize) -> &[u64] {
        match self.node_of_row[row] {
            u32::MAX => &[],
            node => {
                let [from, to] = [node, node + 1].map(|n| self.starts[n as usize] as usize);
                &self.expansion.other[from..to]
            }
        }
    }
}

impl Intersect {
    pub(crate) fn new(
        input: Fed,
        slot: usize,
        patterns: &[SlotPattern],
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        let members = patterns
            .iter()
            .map(|pattern| Member::new(slot, *pattern, &context));
        Self {
            input,
            slot,
            members: members.collect(),
            live,
            working: Working::new(context.governor()),
            context,
            once: false,
            current: Batch::default(),
            position: 0,
            first: 0,
            read: 0,
        }
    }

    /// Stops at each solution's first match, if `once`.
    pub(crate) fn once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    /// Joins rows whose lists are read, up to one batch of results.
    fn join(&mut self) -> Batch {
        let mut rows: Vec<u32> = Vec::new();
        let mut found: Vec<u64> = Vec::new();
        let mut lists: Vec<&[u64]> = Vec::with_capacity(self.members.len());
        let most = self.context.governor().batch_rows(self.live.len());
        while self.position < self.read && rows.len() < most {
            let row = self.position;
            self.position += 1;
            lists.clear();
            lists.extend(
                self.members
                    .iter()
                    .map(|member| member.list(row - self.first)),
            );
            leapfrog(&mut lists, |term| {
                rows.push(row as u32);
                found.push(term);
                !self.once
            });
        }
        let mut batch = self.current.gather(&rows, &self.live);
        if self.live.contains(self.slot) {
            batch.columns[self.slot] = found;
        }
        batch
    }
}

impl RowSource for Intersect {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.context.check()?;
            if self.position < self.read {
                let batch = self.join();
                if self.position == self.current.rows {
                    self.current = Batch::default();
                    (self.position, self.first, self.read) = (0, 0, 0);
                }
                if batch.rows > 0 {
                    return Ok(Some(batch));
                }
            } else if self.read < self.current.rows {
                self.first = self.read;
                self.read = (self.read + TOGETHER_ROWS).min(self.current.rows);
                for member in &mut self.members {
                    member.read(&self.current, self.first, self.read, &self.context)?;
                }
                let lists = self.members.iter().map(Member::bytes);
                self.working.set(lists.sum())?;
            } else {
                let Some(batch) = self.input.take() else {
                    return Ok(None);
                };
                self.current = batch;
                (self.position, self.first, self.read) = (0, 0, 0);
            }
        }
    }
}

/// Calls `emit` with each term that is in all of the sorted lists, until it returns false.
fn leapfrog(lists: &mut [&[u64]], mut emit: impl FnMut(u64) -> bool) {
    let Some(mut target) = lists.first().and_then(|list| list.first()).copied() else {
        return;
    };
    // Number of lists, the latest ones, that stand at the target.
    let mut agree = 0;
    let mut turn = 0;
    loop {
        let list = &mut lists[turn];
        *list = &list[gallop(list, target)..];
        let Some(&head) = list.first() else {
            return;
        };
        agree = if head == target { agree + 1 } else { 1 };
        target = head;
        if agree == lists.len() {
            if !emit(target) {
                return;
            }
            let Some(next) = target.checked_add(1) else {
                return;
            };
            (target, agree) = (next, 0);
        }
        turn = (turn + 1) % lists.len();
    }
}

#[cfg(test)]
mod tests {
    use super::leapfrog;

    fn common(lists: &[&[u64]]) -> Vec<u64> {
        let mut found = Vec::new();
        leapfrog(&mut lists.to_vec(), |term| {
            found.push(term);
            true
        });
        found
    }

    #[test]
    fn leapfrog_finds_what_all_lists_have() {
        assert_eq!(common(&[&[1, 3, 4, 9], &[2, 3, 9, 10]]), [3, 9]);
        assert_eq!(common(&[&[1, 2, 3], &[3], &[0, 3, 7]]), [3]);
        assert!(common(&[&[5], &[]]).is_empty());
        assert_eq!(common(&[&[1, u64::MAX], &[u64::MAX]]), [u64::MAX]);
        assert_eq!(common(&[&[4, 5]]), [4, 5]);
        for seed in 0..50_u64 {
            let list = |step: u64, from: u64| (0..60).map(|i| from + i * step).collect::<Vec<_>>();
            let (a, b, c) = (list(2 + seed % 3, 1), list(3, seed), list(1 + seed % 2, 7));
            let expected: Vec<u64> = a
                .iter()
                .copied()
                .filter(|id| b.contains(id) && c.contains(id))
                .collect();
            assert_eq!(common(&[&a, &b, &c]), expected, "{seed}");
        }
    }
}
