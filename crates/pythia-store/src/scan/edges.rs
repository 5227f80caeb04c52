//! Batches of nodes: expansion and probes over tuple pages. External lists come from the columns, and so do the edges of
//! nodes that are many of those with the predicate.

use std::ops::Range;

use pythia_rdf::TermId;

use crate::StoreError;
use crate::directory_pages::Held;
use crate::gallop::gallop;
use crate::pattern::{End, Expansion, ExternalList, GraphFilter};
use crate::segment::Segment;
use crate::segment::column::{BadPage, Block, Column, ColumnFile, ColumnPage, PageGraphs};
use crate::segment::tuple::Probe;

/// As [`crate::Snapshot::expand`], on one segment.
pub(crate) fn expand(
    base: &Segment,
    end: End,
    nodes: &[TermId],
    predicate: Option<TermId>,
    graph: GraphFilter,
    out: &mut Expansion,
) -> Result<(), StoreError> {
    if base.statistics().quads == 0 || nodes.is_empty() {
        return Ok(());
    }
    if let Some(predicate) = predicate
        && let Some(stretch) = Stretch::of(base.columns(end), &[predicate.0], nodes, graph)?
    {
        return stretch.expand(nodes, graph, out);
    }
    let tuples = base.tuples(end);
    // The common case: no external lists, so rows go directly to their place.
    if predicate.is_some() || out.with_predicate {
        let rows_before = out.len();
        tuples.expand(nodes, predicate, graph, out)?;
        if out.external.is_empty() {
            return Ok(());
        }
        let inline = split_off(out, rows_before);
        return splice(base, end, nodes, predicate, graph, inline, out);
    }
    // Predicates must be known to put external lists in their places.
    let mut inline = Expansion::new(true, out.with_graph);
    inline.sequence = std::mem::take(&mut out.sequence);
    tuples.expand(nodes, predicate, graph, &mut inline)?;
    out.sequence = std::mem::take(&mut inline.sequence);
    splice(base, end, nodes, predicate, graph, inline, out)
}

/// The pages of a column file from the first row of some nodes to the last.
struct Stretch<'a> {
    file: &'a ColumnFile,
    /// The components before the nodes: a predicate and, if only rows of one node at the other end are read, that node.
    prefix: &'a [u64],
    /// The pages with rows of the graphs: the number, the rows, and whether only some of them are of these graphs.
    pages: Vec<(u64, Range<u64>, bool)>,
}

impl<'a> Stretch<'a> {
    /// Finds the pages of the nodes, if reading all of them costs less than visiting the nodes.
    fn of(
        file: &'a ColumnFile,
        prefix: &'a [u64],
        nodes: &[TermId],
        graph: GraphFilter,
    ) -> Result<Option<Self>, StoreError> {
        let (&[first, ..], &[.., last]) = (nodes, nodes) else {
            return Ok(None);
        };
        if nodes.len() < Expansion::STRETCH_NODES {
            return Ok(None);
        }
        let mut held = Held::default();
        let key = |node: TermId| [prefix, &[node.0]].concat();
        let end = file.pages_before(&mut held, &key(last), true)?;
        let start = file.pages_before(&mut held, &key(first), false)?;
        let mut rows = 0;
        let mut pages = Vec::new();
        for number in start.saturating_sub(1).min(end)..end {
            let entry = file.entry(&mut held, number)?;
            rows += entry.rows.end - entry.rows.start;
            if rows > (nodes.len() * Expansion::ROWS_PER_VISIT) as u64 {
                return Ok(None);
            }
            match entry.graphs(graph) {
                PageGraphs::None => {}
                graphs => pages.push((number as u64, entry.rows, graphs == PageGraphs::Some)),
            }
        }
        Ok(Some(Self {
            file,
            prefix,
            pages,
        }))
    }

    /// Calls `take` with a page, a block of its rows, and those that are of the nodes: their numbers in the block, and the places of
    /// their nodes.
    fn each_block(
        &self,
        nodes: &[TermId],
        graph: GraphFilter,
        mut take: impl FnMut(&ColumnPage<'_>, &Block, &[(u32, u32)]) -> Result<(), BadPage>,
    ) -> Result<(), StoreError> {
        let column = match self.prefix {
            [_] => Column::A,
            _ => Column::B,
        };
        let numbers: Vec<u64> = self.pages.iter().map(|(number, ..)| *number).collect();
        let mut pages = self.pages.iter();
        let mut rows_of = RowsOfNodes::new(nodes);
        self.file.read(&numbers, |_, page| {
            let (_, page_rows, is_mixed) = pages.next().expect("one for each number");
            page.check_rows(page_rows)?;
            let rows = page.find(self.prefix)?;
            for block in page.blocks(column, rows) {
                if !rows_of.may_be_in(&block) {
                    continue;
                }
                rows_of.find(page, column, &block)?;
                if *is_mixed && !rows_of.found.is_empty() {
                    rows_of.keep_in(graph, page, &block)?;
                }
                if !rows_of.found.is_empty() {
                    take(page, &block, &rows_of.found)?;
                }
            }
            Ok(())
        })
    }

    /// Appends the edges of the nodes.
    fn expand(
        &self,
        nodes: &[TermId],
        graph: GraphFilter,
        out: &mut Expansion,
    ) -> Result<(), StoreError> {
        let mut values = Vec::new();
        self.each_block(nodes, graph, |page, block, found| {
            let mut append = |column: Column, to: &mut Vec<u64>| {
                values.clear();
                page.values(column, block.rows.clone(), &mut values)?;
                to.extend(found.iter().map(|(row, _)| values[*row as usize]));
                Ok::<_, BadPage>(())
            };
            append(Column::B, &mut out.other)?;
            if out.with_graph {
                append(Column::G, &mut out.graph)?;
            }
            out.source.extend(found.iter().map(|(_, node)| *node));
            if out.with_predicate {
                out.predicate.resize(out.source.len(), self.prefix[0]);
            }
            Ok(())
        })
    }
}

/// Finds the rows of some nodes in blocks of a column that is sorted by node.
struct RowsOfNodes<'n> {
    nodes: &'n [TermId],
    /// The first node that may be in the next rows.
    next: usize,
    /// The rows of the last block that are of nodes, with the places of these.
    found: Vec<(u32, u32)>,
    /// Memory for values of a block.
    values: Vec<u64>,
}

impl<'n> RowsOfNodes<'n> {
    fn new(nodes: &'n [TermId]) -> Self {
        Self {
            nodes,
            next: 0,
            found: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Returns whether a node may be in the next block.
    fn may_be_in(&mut self, block: &Block) -> bool {
        self.next += gallop(&self.nodes[self.next..], TermId(*block.values.start()));
        let node = self.nodes.get(self.next);
        node.is_some_and(|node| node.0 <= *block.values.end())
    }

    /// Finds the rows of nodes in a block.
    fn find(
        &mut self,
        page: &ColumnPage<'_>,
        column: Column,
        block: &Block,
    ) -> Result<(), BadPage> {
        self.values.clear();
        self.found.clear();
        page.values(column, block.rows.clone(), &mut self.values)?;
        let keys = &self.values;
        let last = keys.last().copied().unwrap_or(0);
        let mut row = 0;
        while let Some(node) = self.nodes.get(self.next).filter(|node| node.0 <= last) {
            row += gallop(&keys[row..], node.0);
            while keys.get(row) == Some(&node.0) {
                self.found.push((row as u32, self.next as u32));
                row += 1;
            }
            if node.0 == last {
                // The next block may have more of its rows.
                break;
            }
            self.next += 1;
        }
        Ok(())
    }

    /// Keeps the rows in these graphs.
    fn keep_in(
        &mut self,
        graph: GraphFilter,
        page: &ColumnPage<'_>,
        block: &Block,
    ) -> Result<(), BadPage> {
        let graphs = &mut self.values;
        graphs.clear();
        page.values(Column::G, block.rows.clone(), graphs)?;
        self.found
            .retain(|(row, _)| graph.accepts(TermId(graphs[*row as usize])));
        Ok(())
    }
}

/// Moves the rows from `row` on, and the external lists, out of an expansion.
fn split_off(out: &mut Expansion, row: usize) -> Expansion {
    let tail = |column: &mut Vec<u64>| column.split_off(row.min(column.len()));
    Expansion {
        source: out.source.split_off(row),
        predicate: tail(&mut out.predicate),
        other: tail(&mut out.other),
        graph: tail(&mut out.graph),
        external: std::mem::take(&mut out.external),
        with_predicate: out.with_predicate,
        with_graph: out.with_graph,
        ..Expansion::default()
    }
}

/// Rows of external lists, and each list's range of rows.
#[derive(Default)]
struct Lists {
    other: Vec<u64>,
    graph: Vec<u64>,
    /// Per external list.
    rows: Vec<Range<usize>>,
}

/// Appends the rows of `inline` to `out`, with the rows of its external lists in their places.
fn splice(
    base: &Segment,
    end: End,
    nodes: &[TermId],
    predicate: Option<TermId>,
    graph: GraphFilter,
    inline: Expansion,
    out: &mut Expansion,
) -> Result<(), StoreError> {
    out.require_room(inline.external.iter().map(|list| list.count).sum())?;
    let lists = fetch(base, end, nodes, graph, &inline.external, out.with_graph)?;
    let key = |row: usize| {
        let of_row = || inline.predicate.get(row).map(|&id| TermId(id));
        (inline.source[row], predicate.or_else(of_row))
    };
    let mut row = 0;
    for (list, rows) in inline.external.iter().zip(&lists.rows) {
        let list_key = (list.source, Some(list.predicate));
        let mut end = row;
        while end < inline.len() && key(end) < list_key {
            end += 1;
        }
        out.append(&inline, row..end);
        row = end;
        let count = rows.len();
        out.source.resize(out.source.len() + count, list.source);
        if out.with_predicate {
            out.predicate
                .resize(out.predicate.len() + count, list.predicate.0);
        }
        out.other.extend_from_slice(&lists.other[rows.clone()]);
        if out.with_graph {
            out.graph.extend_from_slice(&lists.graph[rows.clone()]);
        }
    }
    out.append(&inline, row..inline.len());
    Ok(())
}

/// Reads external lists from the columns, all their pages in batches.
fn fetch(
    base: &Segment,
    end: End,
    nodes: &[TermId],
    graph: GraphFilter,
    external: &[ExternalList],
    with_graph: bool,
) -> Result<Lists, StoreError> {
    let mut lists = Lists {
        rows: vec![0..0; external.len()],
        ..Lists::default()
    };
    if external.is_empty() {
        return Ok(lists);
    }
    let mut keyed: Vec<([u64; 2], usize)> = external
        .iter()
        .enumerate()
        .map(|(index, list)| ([list.predicate.0, nodes[list.source as usize].0], index))
        .collect();
    keyed.sort_unstable();
    let keys: Vec<[u64; 2]> = keyed.iter().map(|(key, _)| *key).collect();
    base.columns(end).lists(&keys, |index, page, rows| {
        let start = lists.other.len();
        append_list(
            page,
            rows,
            graph,
            with_graph,
            &mut lists.other,
            &mut lists.graph,
        )?;
        let list = &mut lists.rows[keyed[index].1];
        // Pages of one list follow each other.
        *list = if list.end == 0 { start } else { list.start }..lists.other.len();
        Ok(())
    })?;
    Ok(lists)
}

/// Appends column b, and if wanted column g, of a page's rows that pass the filter.
pub(crate) fn append_list(
    page: &ColumnPage<'_>,
    rows: Range<usize>,
    filter: GraphFilter,
    with_graph: bool,
    other: &mut Vec<u64>,
    graph: &mut Vec<u64>,
) -> Result<(), BadPage> {
    let (start, graph_start) = (other.len(), graph.len());
    page.values(Column::B, rows.clone(), other)?;
    if !with_graph && filter == GraphFilter::Any {
        return Ok(());
    }
    page.values(Column::G, rows, graph)?;
    let mut kept = 0;
    for offset in 0..graph.len() - graph_start {
        let id = graph[graph_start + offset];
        if filter.accepts(TermId(id)) {
            other[start + kept] = other[start + offset];
            graph[graph_start + kept] = id;
            kept += 1;
        }
    }
    other.truncate(start + kept);
    graph.truncate(graph_start + if with_graph { kept } else { 0 });
    Ok(())
}

/// Implements [`crate::Snapshot::probe`] on one segment.
pub(crate) fn probe(
    base: &Segment,
    predicate: TermId,
    pairs: &[(TermId, TermId)],
    graph: GraphFilter,
) -> Result<Vec<bool>, StoreError> {
    let mut found = vec![false; pairs.len()];
    if base.statistics().quads == 0 || pairs.is_empty() {
        return Ok(found);
    }
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_unstable_by_key(|&index| pairs[index]);
    let sorted: Vec<(TermId, TermId)> = order.iter().map(|&index| pairs[index]).collect();
    if let Some(of_sorted) = probe_list(base, predicate, &sorted, graph)? {
        for (index, is_there) in order.into_iter().zip(of_sorted) {
            found[index] = is_there;
        }
        return Ok(found);
    }
    let mut answers = Vec::new();
    base.spo
        .probe_batch(predicate, &sorted, graph, &mut answers)?;
    let mut external: Vec<usize> = Vec::new();
    for (position, answer) in answers.iter().enumerate() {
        match answer {
            Probe::Yes => found[order[position]] = true,
            Probe::No => {}
            Probe::External => external.push(position),
        }
    }
    let mut keys: Vec<[u64; 3]> = external
        .iter()
        .map(|&position| [predicate.0, sorted[position].0.0, sorted[position].1.0])
        .collect();
    keys.dedup();
    let mut key_found = vec![false; keys.len()];
    let mut graphs = Vec::new();
    base.pso.lists(&keys, |index, page, rows| {
        graphs.clear();
        page.values(Column::G, rows, &mut graphs)?;
        key_found[index] |= graphs.iter().any(|&id| graph.accepts(TermId(id)));
        Ok(())
    })?;
    for position in external {
        let (subject, object) = sorted[position];
        let key = [predicate.0, subject.0, object.0];
        let index = keys.binary_search(&key);
        found[order[position]] = index.is_ok_and(|index| key_found[index]);
    }
    Ok(found)
}

/// Tests sorted pairs of many subjects with one object, such as a class. Returns `None` if reading the object's list costs more
/// than visiting the subjects.
fn probe_list(
    base: &Segment,
    predicate: TermId,
    pairs: &[(TermId, TermId)],
    graph: GraphFilter,
) -> Result<Option<Vec<bool>>, StoreError> {
    let object = pairs[0].1;
    if pairs.len() < Expansion::STRETCH_NODES || pairs.iter().any(|pair| pair.1 != object) {
        return Ok(None);
    }
    let mut nodes: Vec<TermId> = pairs.iter().map(|pair| pair.0).collect();
    nodes.dedup();
    let (file, prefix) = (base.columns(End::Object), [predicate.0, object.0]);
    let Some(stretch) = Stretch::of(file, &prefix, &nodes, graph)? else {
        return Ok(None);
    };
    let mut is_there = vec![false; nodes.len()];
    stretch.each_block(&nodes, graph, |_, _, rows| {
        rows.iter()
            .for_each(|(_, node)| is_there[*node as usize] = true);
        Ok(())
    })?;
    let mut node = 0;
    let of_pair = |pair: &(TermId, TermId)| {
        node += usize::from(nodes[node] != pair.0);
        is_there[node]
    };
    Ok(Some(pairs.iter().map(of_pair).collect()))
}
