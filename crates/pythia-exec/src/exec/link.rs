//! Join with a triple pattern in the way that costs least for the number of solutions that come.

use std::sync::Arc;

use pythia_store::Order;

use super::batch::Batch;
use super::context::QueryContext;
use super::expand::Expand;
use super::hash::HashScan;
use super::probe::Probe;
use super::row_source::{Fed, RowSource};
use super::scan::sorted_slot;
use super::siblings::Siblings;
use super::table::{SharedTable, Way};
use crate::error::QueryError;
use crate::explain::CostId;
use crate::limits::governor::Share;
use crate::plan::slots::Slots;
use crate::plan::step::{EXPAND_NODES, EXPAND_NODES_MAX, SlotPattern, TableAfter};

/// Solutions that wait get one of this many parts of the memory left.
const TOGETHER_SHARE: usize = 16;
/// As many solutions as came before, this many times, may wait.
const GROWTH: usize = 4;
/// Maximum number of links that are expected for solutions that wait.
const LINKS_MAX: f64 = 2_097_152.0;
/// A column is read for a batch of this many times the nodes whose visits would take as long.
const DENSE: u64 = 4;
/// Number of visits that pipelines do not tell each other of.
const UNTOLD: u64 = 64;

/// The step that looks up node by node.
pub(crate) enum ByNode {
    Expand(Box<Expand>),
    Probe(Probe),
}

impl ByNode {
    fn step(&mut self) -> &mut dyn RowSource {
        match self {
            Self::Expand(expand) => &mut **expand,
            Self::Probe(probe) => probe,
        }
    }

    /// Takes solutions. More nodes than usual are looked up together if the solutions have `waited` for that.
    fn feed(&mut self, batch: Batch, waited: bool) {
        if let Self::Expand(expand) = self {
            expand.look_up_together(match waited {
                true => EXPAND_NODES_MAX,
                false => EXPAND_NODES,
            });
        }
        self.step().feed(batch);
    }
}

/// Joins solutions with a pattern: looks up their nodes one by one at first, and looks up solutions in a table of all
/// matches once the lookups have cost as much ([`TableAfter`]). Solutions stay in order, and each has its matches in the same
/// order either way.
pub(crate) struct Link {
    input: Fed,
    by_node: ByNode,
    by_table: Option<Box<HashScan>>,
    /// Solutions that wait until there are many.
    together: Batch,
    /// Number of solutions that no longer wait, and of those that they became.
    fed: usize,
    found: usize,
    /// No more solutions come.
    is_ended: bool,
    place: TablePlace,
    /// The table, which other pipelines may have too, once many nodes were looked up.
    table: Option<Arc<SharedTable>>,
    /// The point at which the table is read.
    after: TableAfter,
    /// Number of visits of which the table does not know.
    untold: u64,
    /// The slot that keys the table.
    key: usize,
    once: bool,
    counts: Option<usize>,
}

/// The identity of a join's table, by which pipelines find it.
pub(crate) struct TablePlace {
    pub(crate) siblings: Arc<Siblings>,
    pub(crate) pattern: SlotPattern,
    pub(crate) live: Arc<Slots>,
    pub(crate) cost: CostId,
    pub(crate) context: Arc<QueryContext>,
}

impl TablePlace {
    /// Returns the table in this order. `share` makes the share for its memory, if the table is likely to be read.
    fn table(&self, order: Order, share: impl FnOnce() -> Option<Share>) -> Arc<SharedTable> {
        (self.siblings.tables).of_step(self.cost, self.pattern, order, &self.live, share)
    }
}

impl Link {
    /// Makes a join that begins with the step `by_node`, which has not been fed.
    pub(crate) fn new(by_node: ByNode, place: TablePlace, after: TableAfter) -> Self {
        let key = sorted_slot(&place.pattern, after.order);
        Self {
            input: Fed::default(),
            by_node,
            by_table: None,
            together: Batch::default(),
            fed: 0,
            found: 0,
            is_ended: false,
            place,
            table: None,
            after,
            untold: 0,
            key: key.expect("the planner joins by a variable"),
            once: false,
            counts: None,
        }
    }

    /// Reserves a share of the memory for the table, if it `is_expected`.
    pub(crate) fn expecting_table(mut self, is_expected: bool) -> Self {
        if is_expected {
            let governor = self.place.context.governor();
            self.table = Some(
                self.place
                    .table(self.after.order, || Some(Share::new(governor))),
            );
        }
        self
    }

    /// Stops at each solution's first match, if `once`.
    pub(crate) fn once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    /// Returns solutions once with the number of their matches, if there is a slot for that.
    pub(crate) fn counting(mut self, slot: Option<usize>) -> Self {
        self.counts = slot;
        self
    }

    /// Feeds a batch to the way that costs least for all solutions so far.
    fn join(&mut self, batch: Batch) -> Result<(), QueryError> {
        if let Some(by_table) = &mut self.by_table {
            by_table.feed(batch);
            return Ok(());
        }
        let nodes = nodes_of(&batch, self.key);
        let together = match self.after.waits {
            true => nodes.max(self.together_max() as u64),
            false => nodes.min(EXPAND_NODES as u64),
        };
        let column = self.after.column.saturating_mul(nodes).div_ceil(together);
        self.untold += nodes.min(column);
        let way = self.way()?;
        if let Some(profile) = &self.place.context.profile {
            match &way {
                Way::Table(table) => profile.note_table(self.place.cost, table.matches()),
                Way::ByNode | Way::Together => profile.note_lookups(self.place.cost, nodes),
            }
        }
        match way {
            Way::ByNode if self.gains_by_waiting(nodes) => {
                self.gather(batch, self.together_max());
            }
            Way::ByNode => self.gather(batch, 0),
            Way::Table(table) => {
                let table = table.once(self.once).counting(self.counts);
                let solutions = self.waiting_with(batch);
                self.by_table.insert(Box::new(table)).feed(solutions);
            }
            Way::Together => self.gather(batch, EXPAND_NODES_MAX),
        }
        Ok(())
    }

    /// Returns the number of solutions that may wait: some times as many as came before, so that the first ones are joined at once,
    /// and fewer if they are likely to have very many links.
    fn together_max(&self) -> usize {
        let links = self.found as f64 / self.fed.max(1) as f64;
        let most = LINKS_MAX / links.max(1.0);
        (GROWTH * self.fed).min(EXPAND_NODES_MAX).min(most as usize)
    }

    /// Returns whether these solutions cost much less if they wait until their nodes are many, since reading a column then costs little
    /// for each.
    fn gains_by_waiting(&self, nodes: u64) -> bool {
        let column = self.after.column;
        let are_enough = self.together_max() as u64 > column;
        self.after.waits && are_enough && !is_dense(nodes, column)
    }

    /// Returns the way that costs least for all nodes so far.
    fn way(&mut self) -> Result<Way, QueryError> {
        if self.table.is_none() && self.untold <= UNTOLD.min(self.after.nodes) {
            return Ok(Way::ByNode);
        }
        let table = (self.table).get_or_insert_with(|| self.place.table(self.after.order, || None));
        let visits = std::mem::take(&mut self.untold);
        table.way(visits, self.after.nodes, &self.place.context)
    }

    /// Lets solutions wait until there are this many.
    fn gather(&mut self, batch: Batch, enough: usize) {
        let waited = enough > 0;
        self.together = self.waiting_with(batch);
        let governor = self.place.context.governor();
        if self.together.rows < enough && self.together.charge(governor).is_ok() {
            let most = governor.memory_left() / TOGETHER_SHARE / size_of::<u64>();
            let ids: usize = self.together.columns.iter().map(Vec::len).sum();
            if ids < most {
                return;
            }
        }
        self.feed_waiting(waited);
    }

    /// Takes the solutions that wait, followed by others.
    fn waiting_with(&mut self, batch: Batch) -> Batch {
        let mut waiting = std::mem::take(&mut self.together);
        if waiting.rows == 0 {
            return batch;
        }
        waiting.append(&batch);
        waiting
    }

    /// Looks up the solutions that wait.
    fn feed_waiting(&mut self, waited: bool) {
        let solutions = std::mem::take(&mut self.together);
        self.fed += solutions.rows;
        self.by_node.feed(solutions, waited);
    }
}

impl RowSource for Link {
    fn begin(&mut self) {
        self.is_ended = false;
    }

    fn end(&mut self) {
        self.is_ended = true;
    }

    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            let found = match &mut self.by_table {
                Some(by_table) => by_table.next()?,
                None => self.by_node.step().next()?,
            };
            if let Some(found) = found {
                self.found += found.rows;
                return Ok(Some(found));
            }
            match self.input.take() {
                Some(batch) => self.join(batch)?,
                None if self.is_ended && self.together.rows > 0 => self.feed_waiting(true),
                None => return Ok(None),
            }
        }
    }
}

/// Returns whether these nodes are many more than those whose visits take as long as reading the column.
pub(super) fn is_dense(nodes: u64, column: u64) -> bool {
    nodes >= column.saturating_mul(DENSE)
}

/// Returns the number of nodes that are looked up for a batch. A node counts again if another is between.
fn nodes_of(batch: &Batch, key: usize) -> u64 {
    let nodes = batch.columns[key].windows(2);
    1 + nodes.filter(|pair| pair[0] != pair[1]).count() as u64
}
