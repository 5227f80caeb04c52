//! The batched index join: one page read per node gives the node's neighbours.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::snapshot::CurrentAttribute;
use pythia_store::{End, Expansion, GraphFilter};

use super::batch::Batch;
use super::context::QueryContext;
use super::early_count::CountedRows;
use super::row_source::{Fed, RowSource};
use super::text_filter::true_in_order_of_terms;
use crate::error::QueryError;
use crate::limits::exchange::PARTS;
use crate::limits::fork::fork;
use crate::limits::governor::{Held, Working};
use crate::plan::expression::SlotExpression;
use crate::plan::slots::Slots;
use crate::plan::step::{EXPAND_NODES, GraphPosition, Position, SlotPattern};

/// Larger buffers are freed instead of being kept for the next rows.
const KEPT_BYTES: usize = 16 << 10;

/// Minimum number of nodes whose links are worth reading on another core.
const PART_NODES: usize = 1024;

/// Joins solutions with a quad pattern by visiting the tuples of their nodes.
pub(crate) struct Expand {
    input: Fed,
    pattern: SlotPattern,
    end: End,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    current: Batch,
    position: usize,
    expansion: Expansion,
    /// The expanded rows, until all their solutions are returned.
    expanded: Option<Expanded>,
    /// The memory of the expansion, where nodes have very many links.
    working: Working,
    once: bool,
    /// The slot for the number of links, if they are only counted.
    counts: Option<usize>,
    /// Maximum number of nodes that are looked up together.
    nodes_max: usize,
    /// Tests of each link.
    filters: Vec<SlotExpression>,
    /// The attribute whose values take the place of graphs, if any.
    attribute: Option<TermId>,
    /// The values of the attribute; made when they are first needed.
    cached: Option<CurrentAttribute>,
}

/// Rows of the current batch, and how many of their solutions are returned.
struct Expanded {
    /// The next row, and the row after the last.
    row: usize,
    to: usize,
    /// The first row of `node_of_row`.
    from: usize,
    node_of_row: Vec<u32>,
    /// The start of each node's links.
    starts: Vec<u32>,
    /// Number of links of the next row that were tested.
    looked: u32,
}

impl Expand {
    pub(crate) fn new(
        input: Fed,
        pattern: SlotPattern,
        end: End,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        let wants_predicate = !matches!(pattern.predicate, Position::Constant(_));
        let wants_graph = pattern.graph.slot().is_some();
        Self {
            input,
            pattern,
            end,
            live,
            current: Batch::default(),
            position: 0,
            expansion: Expansion::new(wants_predicate, wants_graph)
                .within(Arc::clone(context.governor()) as _),
            expanded: None,
            working: Working::new(context.governor()),
            context,
            once: false,
            counts: None,
            nodes_max: EXPAND_NODES,
            filters: Vec::new(),
            attribute: None,
            cached: None,
        }
    }

    /// Reads links together with the cached values of this predicate, which take the place of graphs. The
    /// pattern's predicate must be a constant.
    pub(crate) fn with_attribute(mut self, attribute: TermId) -> Self {
        self.attribute = Some(attribute);
        self
    }

    /// Stops at each solution's first match, if `once`.
    pub(crate) fn once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    /// Returns solutions once with the number of their links, if there is a slot for that.
    pub(crate) fn counting(mut self, slot: Option<usize>) -> Self {
        self.counts = slot;
        self
    }

    /// Looks up up to this many nodes of a batch together from now on.
    pub(crate) fn look_up_together(&mut self, nodes: usize) {
        self.nodes_max = nodes;
    }

    /// Keeps only the links for which these are true. They read the node and what the pattern binds.
    pub(crate) fn with_filters(mut self, filters: &[SlotExpression]) -> Self {
        self.filters = filters.to_vec();
        self
    }

    /// Returns the node's position and the position at the other end.
    fn ends(&self) -> (Position, Position) {
        match self.end {
            End::Subject => (self.pattern.subject, self.pattern.object),
            End::Object => (self.pattern.object, self.pattern.subject),
        }
    }

    /// Returns how many rows have few enough nodes to be expanded together. Rows sorted by the node may be
    /// many more than their nodes.
    fn rows_together(&self, from: usize) -> usize {
        let left = self.current.rows - from;
        let most = self.nodes_max;
        let slot = match self.ends().0 {
            Position::Constant(_) => return left,
            Position::Bound(slot) | Position::New(slot) => slot,
        };
        let Some(nodes) = self.current.columns[slot].get(from..) else {
            return left;
        };
        let mut distinct = 1;
        for (row, pair) in nodes.windows(2).enumerate() {
            if pair[1] < pair[0] {
                return most.min(left);
            }
            distinct += usize::from(pair[1] > pair[0]);
            if distinct > most {
                return row + 1;
            }
        }
        left
    }

    /// Reads the links of the next rows of the current batch: of fewer rows, if there is no memory for the links of
    /// all.
    fn expand_some(&mut self) -> Result<(), QueryError> {
        let from = self.position;
        let mut count = self.rows_together(from);
        loop {
            match self.expand(from, from + count) {
                Err(QueryError::Memory(_)) if count > 1 => {
                    self.expansion.free();
                    self.working.clear();
                    count /= 2;
                }
                expanded => {
                    self.position = from + count;
                    return expanded;
                }
            }
        }
    }

    /// Reads the links of rows `from..to` of the current batch.
    fn expand(&mut self, from: usize, to: usize) -> Result<(), QueryError> {
        let (node, _) = self.ends();
        let (nodes, node_of_row) = distinct_nodes(&self.current, node, from, to);
        let predicate = match self.pattern.predicate {
            Position::Constant(id) => Some(id),
            _ => None,
        };
        self.expansion.clear();
        let snapshot = &self.context.snapshot;
        let (end, filter, out) = (self.end, self.pattern.graph.filter(), &mut self.expansion);
        match self.attribute {
            Some(attribute) => {
                if self.cached.is_none() {
                    self.cached = snapshot.attribute(attribute)?;
                }
                let cached = self.cached.as_ref();
                let cached = cached.expect("the planner found it in this snapshot");
                let predicate = predicate.expect("the planner joins edges of one predicate");
                cached.expand(end, &nodes, predicate, filter, out)?;
            }
            None => expand_on_cores(&self.context, end, &nodes, predicate, filter, out)?,
        }
        for filter in &self.filters {
            let keep = self.passing(filter, &nodes)?;
            keep_links(&mut self.expansion, &keep);
        }
        self.working.set(self.expansion.bytes())?;
        self.expanded = Some(Expanded {
            row: from,
            to,
            from,
            node_of_row,
            starts: group_by_source(&mut self.expansion, nodes.len()),
            looked: 0,
        });
        Ok(())
    }

    /// Returns which links of these nodes pass a filter.
    fn passing(&self, filter: &SlotExpression, nodes: &[TermId]) -> Result<Vec<bool>, QueryError> {
        let (node, other) = self.ends();
        let (links, predicate) = (&self.expansion, self.pattern.predicate);
        let count = links.other.len();
        let mut working = Working::new(self.context.governor());
        working.set(2 * count * size_of::<u64>())?;
        let sources = links.source.iter().map(|&source| nodes[source as usize].0);
        let (sources, zeros): (Vec<u64>, Vec<u64>) = (sources.collect(), vec![0; count]);
        let width = filter.slots.last().map_or(0, |slot| slot + 1);
        let mut columns: Vec<&[u64]> = vec![&zeros; width];
        for (position, ids) in [
            (node, &sources),
            (predicate, &links.predicate),
            (other, &links.other),
        ] {
            if let Some(slot) = position.slot().filter(|slot| *slot < width) {
                columns[slot] = ids;
            }
        }
        let context = &self.context;
        match filter.compiled().looks_at_texts() {
            true => true_in_order_of_terms(filter, &columns, count, context),
            false => filter
                .compiled()
                .filter(&columns, count, &context.evaluation),
        }
    }

    /// Returns the next solutions of the expanded rows, at most one batch; `None` if all are returned. Many
    /// rows may share a node with many links, so the number of solutions has no bound.
    fn give(&mut self) -> Result<Option<Batch>, QueryError> {
        let Some(mut expanded) = self.expanded.take() else {
            return Ok(None);
        };
        if let Some(slot) = self.counts {
            let batch = self.counted(&expanded, slot)?;
            self.drop_used();
            return Ok(batch);
        }
        let most = self.context.governor().batch_rows(self.live.len());
        let agree_all = self.all_agree();
        let mut rows: Vec<u32> = Vec::new();
        let mut links: Vec<u32> = Vec::new();
        while expanded.row < expanded.to && rows.len() < most {
            let row = expanded.row;
            let node = expanded.node_of_row[row - expanded.from];
            if node != u32::MAX {
                let node = node as usize;
                let mut link = expanded.starts[node] + expanded.looked;
                let mut end = expanded.starts[node + 1];
                if agree_all {
                    let wanted = if self.once { 1 } else { most - rows.len() };
                    let to = end.min(link.saturating_add(wanted as u32));
                    rows.extend(std::iter::repeat_n(row as u32, (to - link) as usize));
                    links.extend(link..to);
                    link = if self.once { end } else { to };
                }
                while link < end && rows.len() < most {
                    if self.agrees(row, link as usize) {
                        rows.push(row as u32);
                        links.push(link);
                        if self.once {
                            end = link + 1;
                        }
                    }
                    link += 1;
                }
                if link < end {
                    expanded.looked = link - expanded.starts[node];
                    break;
                }
            }
            expanded.row += 1;
            expanded.looked = 0;
        }
        let is_over = expanded.row == expanded.to;
        let batch = (!rows.is_empty()).then(|| self.output(&rows, &links, is_over));
        if is_over {
            self.drop_used();
        } else {
            self.expanded = Some(expanded);
        }
        Ok(batch)
    }

    /// Returns the expanded rows that have links, each once, with their number.
    fn counted(&self, expanded: &Expanded, slot: usize) -> Result<Option<Batch>, QueryError> {
        let (_, other) = self.ends();
        let is_bound = |position| matches!(position, Position::Bound(_));
        let differs_by_row = is_bound(other)
            || is_bound(self.pattern.predicate)
            || matches!(self.pattern.graph, GraphPosition::Bound(_));
        let mut known: Vec<Option<usize>> = vec![None; expanded.starts.len()];
        let mut counted = CountedRows::default();
        for row in expanded.row..expanded.to {
            let node = expanded.node_of_row[row - expanded.from] as usize;
            let Some(&end) = expanded.starts.get(node + 1) else {
                continue;
            };
            let count = match known[node] {
                Some(count) if !differs_by_row => count,
                _ => {
                    self.context.check()?;
                    let links = expanded.starts[node]..end;
                    links
                        .filter(|link| self.agrees(row, *link as usize))
                        .count()
                }
            };
            known[node] = Some(count);
            counted.add(&self.current, row, slot, count);
        }
        Ok(counted.gather(&self.current, slot, &self.live))
    }

    /// Frees used buffers, so that they do not wait in memory while later steps work.
    fn drop_used(&mut self) {
        if self.working.bytes() > KEPT_BYTES {
            self.expansion.free();
            self.working.clear();
        }
        if self.position >= self.current.rows {
            self.current = Batch::default();
            self.position = 0;
        }
    }

    /// Returns whether all links that are read agree with all rows.
    fn all_agree(&self) -> bool {
        let (_, other) = self.ends();
        let visible = &self.context.dataset.visible;
        matches!(other, Position::New(_))
            && !matches!(self.pattern.predicate, Position::Bound(_))
            && match self.pattern.graph {
                GraphPosition::Bound(_) => false,
                GraphPosition::New(..) => visible.is_none() || self.attribute.is_some(),
                GraphPosition::Filter(_) => true,
            }
    }

    /// Returns whether a link agrees with the row's bindings and the pattern's constants.
    #[inline]
    fn agrees(&self, row: usize, link: usize) -> bool {
        let holds = |position: Position, found: &[u64]| match position {
            Position::New(_) => true,
            Position::Constant(id) => found[link] == id.0,
            Position::Bound(slot) => found[link] == self.current.value(slot, row),
        };
        let (_, other) = self.ends();
        holds(other, &self.expansion.other)
            && (matches!(self.pattern.predicate, Position::Constant(_))
                || holds(self.pattern.predicate, &self.expansion.predicate))
            && match self.pattern.graph {
                GraphPosition::Bound(slot) => {
                    self.expansion.graph[link] == self.current.value(slot, row)
                }
                // Invisible quads must not appear in the step's measurements either.
                GraphPosition::New(..) if self.attribute.is_none() => {
                    let visible = self.context.dataset.visible.as_deref();
                    visible.is_none_or(|seen| seen.accepts(TermId(self.expansion.graph[link])))
                }
                _ => true,
            }
    }

    /// Returns the solutions of rows and links. They are the last ones of the expanded rows if `is_over`.
    fn output(&mut self, rows: &[u32], links: &[u32], is_over: bool) -> Batch {
        let mut batch = match is_over && self.position == self.current.rows {
            true => std::mem::take(&mut self.current).pick(rows, &self.live),
            false => self.current.gather(rows, &self.live),
        };
        let (_, other) = self.ends();
        let mut bind = |slot: usize, found: &[u64]| {
            if self.live.contains(slot) {
                batch.columns[slot] = links.iter().map(|&link| found[link as usize]).collect();
            }
        };
        if let Position::New(slot) = other {
            bind(slot, &self.expansion.other);
        }
        if let Position::New(slot) = self.pattern.predicate {
            bind(slot, &self.expansion.predicate);
        }
        if let GraphPosition::New(slot, _) = self.pattern.graph {
            bind(slot, &self.expansion.graph);
        }
        batch
    }
}

impl RowSource for Expand {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.context.check()?;
            if let Some(batch) = self.give()? {
                return Ok(Some(batch));
            }
            if self.position < self.current.rows {
                self.expand_some()?;
                continue;
            }
            match self.input.take() {
                Some(batch) => {
                    self.current = batch;
                    self.position = 0;
                }
                None => return Ok(None),
            }
        }
    }
}

/// Appends the edges of nodes, as [`Snapshot::expand`] does. Of many nodes, they are read on all free cores.
///
/// [`Snapshot::expand`]: pythia_store::Snapshot::expand
fn expand_on_cores(
    context: &QueryContext,
    end: End,
    nodes: &[TermId],
    predicate: Option<TermId>,
    graph: GraphFilter,
    out: &mut Expansion,
) -> Result<(), QueryError> {
    let (snapshot, cores) = (&context.snapshot, context.cores());
    // What a step reads is measured on the query's own thread.
    if nodes.len() < 2 * PART_NODES || context.profile.is_some() || !cores.are_free() {
        return Ok(snapshot.expand(end, nodes, predicate, graph, out)?);
    }
    // The nodes are sorted: parts have pages of their own.
    let parts = (nodes.len() / PART_NODES).min(PARTS);
    let parts: Vec<_> = nodes.chunks(nodes.len().div_ceil(parts)).collect();
    let (with_predicate, with_graph) = (out.with_predicate, out.with_graph);
    let governor = context.governor();
    let found = fork(cores, parts.len(), |part| {
        let mut edges =
            Expansion::new(with_predicate, with_graph).within(Arc::clone(governor) as _);
        snapshot.expand(end, parts[part], predicate, graph, &mut edges)?;
        let mut held = Held::new(governor);
        held.set(edges.bytes())?;
        Ok((edges, held))
    })?;
    let links: usize = found.iter().map(|(edges, _)| edges.len()).sum();
    let mut held = Held::new(governor);
    held.set(out.bytes() + links * bytes_of_link(out))?;
    out.reserve_exact(links);
    let mut first = 0;
    for (nodes, (edges, _held)) in parts.iter().zip(found) {
        out.append_following(edges, first);
        first += nodes.len() as u32;
    }
    Ok(())
}

fn bytes_of_link(links: &Expansion) -> usize {
    let ids = 1 + usize::from(links.with_predicate) + usize::from(links.with_graph);
    ids * 8 + 4
}

fn keep_links(links: &mut Expansion, keep: &[bool]) {
    let mut kept = keep.iter();
    links
        .source
        .retain(|_| *kept.next().expect("one for each link"));
    for column in [&mut links.other, &mut links.predicate, &mut links.graph] {
        let mut kept = keep.iter();
        column.retain(|_| *kept.next().expect("one for each link"));
    }
}

/// Returns the distinct bound nodes of the rows, sorted, and each row's place among them (`u32::MAX` if the
/// row has no node).
pub(super) fn distinct_nodes(
    batch: &Batch,
    node: Position,
    from: usize,
    to: usize,
) -> (Vec<TermId>, Vec<u32>) {
    let slot = match node {
        Position::Constant(id) => return (vec![id], vec![0; to - from]),
        Position::Bound(slot) | Position::New(slot) => slot,
    };
    let column = &batch.columns[slot];
    if column.is_empty() {
        return (Vec::new(), vec![u32::MAX; to - from]);
    }
    let values = &column[from..to];
    let mut nodes: Vec<TermId> = values
        .iter()
        .map(|&v| TermId(v))
        .filter(|n| n.is_bound())
        .collect();
    if !nodes.is_sorted() {
        nodes.sort_unstable();
    }
    nodes.dedup();
    let places = if nodes.len() == values.len() && values.is_sorted() {
        (0..values.len() as u32).collect()
    } else {
        values
            .iter()
            .map(|&v| match nodes.binary_search(&TermId(v)) {
                Ok(place) => place as u32,
                Err(_) => u32::MAX,
            })
            .collect()
    };
    (nodes, places)
}

/// Sorts an expansion by source, unless it is sorted, and returns the start of each source's links.
pub(super) fn group_by_source(expansion: &mut Expansion, sources: usize) -> Vec<u32> {
    let mut starts = vec![0_u32; sources + 1];
    for &source in &expansion.source {
        starts[source as usize + 1] += 1;
    }
    for i in 0..sources {
        starts[i + 1] += starts[i];
    }
    if !expansion.source.is_sorted() {
        let mut order: Vec<u32> = (0..expansion.source.len() as u32).collect();
        order.sort_by_key(|&link| expansion.source[link as usize]);
        for column in [
            &mut expansion.other,
            &mut expansion.predicate,
            &mut expansion.graph,
        ] {
            if !column.is_empty() {
                *column = order.iter().map(|&link| column[link as usize]).collect();
            }
        }
        expansion.source.sort_unstable();
    }
    starts
}
