//! Joins several patterns on one variable at a time, by intersecting the terms that they allow.
//!
//! For each solution, every pattern gives the sorted list of its bound node. The lists are intersected by
//! leapfrogging (Veldhuizen, ICDT 2014), in time proportional to the shortest. No intermediate result of a
//! single pattern is materialized: on cyclic patterns this bounds the work by the size of the largest
//! possible answer. Patterns with a constant end have one list for all solutions, which is read once. If many
//! solutions look for their list's terms among few of these, the links of these terms are read instead.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::{End, Expansion, gallop};

use super::batch::Batch;
use super::context::QueryContext;
use super::expand::{distinct_nodes, group_by_source};
use super::links_into::{LinksInto, Progress, Reader, Wanted};
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::limits::governor::Working;
use crate::plan::slots::Slots;
use crate::plan::step::{Position, SlotPattern};

/// Number of solutions whose lists are read together.
const TOGETHER_ROWS: usize = 512;
/// Number of solutions for each list, before their lists are known.
const ROWS_PER_LIST: usize = 4;
/// Number of links that are read and sorted in the time of reading one solution's list.
const LINKS_PER_LIST: usize = 8;

/// Binds a slot to the terms that all of several patterns allow.
pub(crate) struct Intersect {
    input: Fed,
    slot: usize,
    /// The patterns with a constant end.
    fixed: Vec<Member>,
    /// The terms that all of these allow, sorted, if there are any such patterns; read with the first solutions.
    allowed: Option<Vec<u64>>,
    /// The patterns whose lists depend on the solution.
    members: Vec<Member>,
    /// Decides about the links into the allowed terms; `None` if they are read, or cannot be.
    turn: Option<Turn>,
    links: Option<LinksInto>,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    /// The memory of the current lists and of the allowed terms.
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

    fn is_fixed(&self) -> bool {
        matches!(self.node, Position::Constant(_))
    }

    fn predicate(&self) -> TermId {
        let Position::Constant(predicate) = self.pattern.predicate else {
            unreachable!("the planner intersects only with constant predicates");
        };
        predicate
    }

    /// Reads the lists of some rows.
    fn read(
        &mut self,
        batch: &Batch,
        from: usize,
        to: usize,
        context: &QueryContext,
    ) -> Result<(), QueryError> {
        let (nodes, node_of_row) = distinct_nodes(batch, self.node, from, to);
        self.expansion.clear();
        let (predicate, graph) = (self.predicate(), self.pattern.graph.filter());
        let (nodes, out): (&[TermId], _) = (&nodes, &mut self.expansion);
        (context.snapshot).expand(self.end, nodes, Some(predicate), graph, out)?;
        self.starts = group_by_source(&mut self.expansion, nodes.len());
        self.node_of_row = node_of_row;
        Ok(())
    }

    /// Returns the number of lists that were read for the current rows.
    fn lists(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the bytes of the current lists.
    fn bytes(&self) -> usize {
        self.expansion.bytes()
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

/// The lists that were read so far. Links into the allowed terms are read for as long as these lists took: the better way is
/// found for twice its cost at most, whatever the statistics said (the ski-rental rule).
struct Turn {
    links: Reader,
    rows: usize,
    lists: usize,
    /// Number of lists before which no more links are read.
    not_before: usize,
}

impl Turn {
    /// Returns how many lists are read in all if this many more rows follow. Of the first rows, several may share a list.
    fn expected(&self, more_rows: usize) -> usize {
        match self.rows {
            0 => more_rows / ROWS_PER_LIST,
            rows => self.lists + self.lists * more_rows / rows,
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
        let (fixed, members): (Vec<_>, Vec<_>) = members.partition(Member::is_fixed);
        let can_turn = !fixed.is_empty() && members.len() == 1;
        Self {
            input,
            slot,
            fixed,
            allowed: None,
            members,
            turn: can_turn.then(|| Turn {
                links: Reader::new(),
                rows: 0,
                lists: 0,
                not_before: 0,
            }),
            links: None,
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

    /// Reads what the next rows of the current batch need.
    fn read_more(&mut self) -> Result<(), QueryError> {
        if self.allowed.is_none() && !self.fixed.is_empty() {
            self.allowed = Some(self.read_allowed()?);
        }
        self.consider_turn()?;
        self.first = self.read;
        let is_none_allowed = self.allowed.as_ref().is_some_and(Vec::is_empty);
        if is_none_allowed {
            self.position = self.current.rows;
        }
        if is_none_allowed || self.links.is_some() {
            self.read = self.current.rows;
            return self.count_memory();
        }
        self.read = (self.read + TOGETHER_ROWS).min(self.current.rows);
        for member in &mut self.members {
            member.read(&self.current, self.first, self.read, &self.context)?;
        }
        if let Some(turn) = &mut self.turn {
            turn.rows += self.read - self.first;
            turn.lists += self.members.iter().map(Member::lists).sum::<usize>();
        }
        self.count_memory()
    }

    /// Reads the terms that all patterns with a constant end allow.
    fn read_allowed(&mut self) -> Result<Vec<u64>, QueryError> {
        for member in &mut self.fixed {
            member.read(&self.current, 0, 1, &self.context)?;
        }
        self.count_memory()?;
        let mut lists: Vec<&[u64]> = self.fixed.iter().map(|member| member.list(0)).collect();
        let mut allowed = Vec::new();
        leapfrog(&mut lists, |term| {
            allowed.push(term);
            true
        });
        allowed.shrink_to_fit();
        self.fixed
            .iter_mut()
            .for_each(|member| member.expansion.free());
        Ok(allowed)
    }

    fn count_memory(&mut self) -> Result<(), QueryError> {
        let lists = self.fixed.iter().chain(&self.members).map(Member::bytes);
        let allowed = self.allowed.as_ref().map_or(0, Vec::capacity) * size_of::<u64>();
        self.working.set(lists.sum::<usize>() + allowed)
    }

    /// Reads the links into the allowed terms, if the lists of the solutions cost more.
    fn consider_turn(&mut self) -> Result<(), QueryError> {
        let (Some(allowed), [member]) = (&self.allowed, &mut self.members[..]) else {
            return Ok(());
        };
        let Some(turn) = &mut self.turn else {
            return Ok(());
        };
        let lists = turn.expected(self.current.rows - self.read);
        if lists < turn.not_before.max(allowed.len()).max(1) {
            return Ok(());
        }
        turn.not_before = lists + lists / 4;
        let wanted = Wanted {
            terms: allowed,
            end: member.end.other(),
            predicate: member.predicate(),
            graph: member.pattern.graph.filter(),
            most: lists.saturating_mul(LINKS_PER_LIST),
        };
        match turn.links.read(&wanted, &self.context)? {
            Progress::Part => {}
            Progress::NoMemory => self.turn = None,
            Progress::All => {
                member.expansion.free();
                let turn = self.turn.take().expect("found above");
                self.links = Some(turn.links.finish()?);
            }
        }
        Ok(())
    }

    /// Joins rows whose lists are read, up to one batch of results.
    fn join(&mut self) -> Batch {
        let mut rows: Vec<u32> = Vec::new();
        let mut found: Vec<u64> = Vec::new();
        let most = self.context.governor().batch_rows(self.live.len());
        let once = self.once;
        let mut lists: Vec<&[u64]> = Vec::with_capacity(self.members.len() + 1);
        while self.position < self.read && rows.len() < most {
            let row = self.position;
            self.position += 1;
            let mut emit = |term: u64| {
                rows.push(row as u32);
                found.push(term);
                !once
            };
            if let (Some(links), [member]) = (&self.links, &self.members[..]) {
                let node = member
                    .node
                    .slot()
                    .map_or(0, |slot| self.current.value(slot, row));
                links.of(node).all(&mut emit);
                continue;
            }
            lists.clear();
            lists.extend(self.allowed.as_deref());
            let of_row = |member| Member::list(member, row - self.first);
            lists.extend(self.members.iter().map(of_row));
            leapfrog(&mut lists, emit);
        }
        let mut batch = match self.position == self.current.rows {
            true => std::mem::take(&mut self.current).pick(&rows, &self.live),
            false => self.current.gather(&rows, &self.live),
        };
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
                if self.position >= self.current.rows {
                    self.current = Batch::default();
                    (self.position, self.first, self.read) = (0, 0, 0);
                }
                if batch.rows > 0 {
                    return Ok(Some(batch));
                }
            } else if self.read < self.current.rows {
                self.read_more()?;
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
