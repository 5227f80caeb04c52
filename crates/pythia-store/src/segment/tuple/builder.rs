//! Building of one tuple page: takes tuples while they fit, then encodes them ([`encode`]).
//!
//! The builder keeps the exact size of the page as it grows: a column that becomes wider costs its new width for
//! every value it has. So a tuple that does not fit is detected before anything is encoded, its changes are undone,
//! and each page is encoded once.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::format::{self, COUNT_MAX, FLAG_DEFAULT_GRAPH, Header, Layout, ROWS_MAX};
use crate::segment::bits::{BitWriter, width_of};

mod encode;
mod value_list;

pub(super) use value_list::{KIND_SHIFT, TupleGraphs, ValueList};

#[derive(Clone, Copy, Debug)]
struct Column {
    predicate: u64,
    kind: u8,
    min: u64,
    max: u64,
    framed: u64,
    counts: u64,
    count_max: u64,
}

impl Column {
    const fn width(&self) -> u32 {
        if self.framed == 0 {
            0
        } else {
            width_of(self.max - self.min)
        }
    }

    const fn count_width(&self) -> u32 {
        width_of(self.count_max)
    }

    const fn bits(&self) -> u64 {
        self.framed * self.width() as u64 + self.counts * self.count_width() as u64
    }
}

/// Entries `start..end` of the shape list: first the columns with lists, then those with one value.
#[derive(Clone, Copy, Debug)]
struct Shape {
    start: usize,
    end: usize,
    many: usize,
    one_graph: bool,
}

#[derive(Clone, Copy, Debug)]
struct Tuple {
    shape: u32,
    /// Start of its entries, which are parallel to the shape's.
    entries: usize,
    graphs: TupleGraphs,
}

/// The stored part of a tuple for one entry of its shape.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    count: u64,
    delta_width: u8,
}

/// Sums and extremes over the page, copied before each tuple so that it can be undone.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    /// Bits of all columns' values and counts.
    column_bits: u64,
    delta_bits: u64,
    /// Graph numbers stored.
    graph_slots: u64,
    rows: u64,
    node_residual_max: u64,
    predicate_min: u64,
    predicate_max: u64,
    /// An upper bound of the `min` of all columns.
    base_max: u64,
    /// An upper bound of the widths of all columns.
    width_max: u32,
    many_max: usize,
    ones_max: usize,
    named_min: u64,
    named_max: u64,
    has_default: bool,
}

/// A page being filled.
#[derive(Debug, Default)]
pub(super) struct PageBuilder {
    page_bytes: usize,
    columns: Vec<Column>,
    column_index: HashTable<u32>,
    shapes: Vec<Shape>,
    shape_entries: Vec<u32>,
    shape_index: HashTable<u32>,
    graphs: Vec<u64>,
    graph_index: HashTable<u32>,
    nodes: Vec<u64>,
    tuples: Vec<Tuple>,
    entries: Vec<Entry>,
    totals: Totals,
    /// Columns changed by the tuple being added, as they were.
    undo: Vec<(u32, Column)>,
    ones: Vec<u32>,
    head: BitWriter,
    body: BitWriter,
    page: Vec<u8>,
}

fn hash_column(predicate: u64, kind: u8) -> u64 {
    FxBuildHasher.hash_one((predicate, kind))
}

fn hash_shape(entries: &[u32], many: usize, one_graph: bool) -> u64 {
    FxBuildHasher.hash_one((entries, many, one_graph))
}

impl PageBuilder {
    pub(super) fn new(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Returns the first node and its first predicate: the page's key in the directory.
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        let shape = self.shapes[self.tuples.first()?.shape as usize];
        let predicate = self.shape_entries[shape.start..shape.end]
            .iter()
            .map(|&column| self.columns[column as usize].predicate)
            .min()?;
        Some((self.nodes[0], predicate))
    }

    /// Returns the current size of the page in bytes.
    pub(super) fn used_bytes(&self) -> usize {
        Layout::new(&self.header()).end.div_ceil(8)
    }

    /// Adds a tuple if it fits. `runs` are sorted by predicate and kind, and count their rows from `start` of the
    /// rows that [`Self::encode`] will get; `row_graphs` are the graphs of the rows from there.
    pub(super) fn add(
        &mut self,
        node: u64,
        runs: &[ValueList],
        graphs: TupleGraphs,
        row_graphs: &[u64],
        start: usize,
    ) -> bool {
        let totals = self.totals;
        let lengths = (
            self.columns.len(),
            self.graphs.len(),
            self.shapes.len(),
            self.shape_entries.len(),
            self.entries.len(),
        );
        self.undo.clear();
        self.add_node(node);
        self.add_graphs(runs, graphs, row_graphs);
        let many = self.add_runs(runs, start, graphs);
        let shape = self.add_shape(lengths.3, many, matches!(graphs, TupleGraphs::One(_)));
        self.tuples.push(Tuple {
            shape,
            entries: lengths.4,
            graphs,
        });
        if self.fits() {
            return true;
        }
        self.take_back(totals, lengths);
        false
    }

    fn add_node(&mut self, node: u64) {
        if let (Some(&first), Some(&last)) = (self.nodes.first(), self.nodes.last()) {
            assert!(last < node, "rows come sorted by node");
            let residual = node - first - self.nodes.len() as u64;
            self.totals.node_residual_max = residual;
        } else {
            self.totals.predicate_min = u64::MAX;
            self.totals.named_min = u64::MAX;
        }
        self.nodes.push(node);
    }

    fn add_graphs(&mut self, runs: &[ValueList], graphs: TupleGraphs, row_graphs: &[u64]) {
        match graphs {
            TupleGraphs::None => {}
            TupleGraphs::One(graph) => {
                self.totals.graph_slots += 1;
                self.add_graph(graph);
            }
            TupleGraphs::Each => {
                let mut last = None;
                for run in runs.iter().filter(|run| !run.is_external()) {
                    self.totals.graph_slots += run.count;
                    for &graph in &row_graphs[run.start..run.start + run.count as usize] {
                        if last != Some(graph) {
                            self.add_graph(graph);
                            last = Some(graph);
                        }
                    }
                }
            }
        }
    }

    fn add_graph(&mut self, graph: u64) {
        if self.graphs.last() == Some(&graph) {
            return;
        }
        let hash = FxBuildHasher.hash_one(graph);
        let graphs = &mut self.graphs;
        if self
            .graph_index
            .find(hash, |&number| graphs[number as usize] == graph)
            .is_some()
        {
            return;
        }
        let number = graphs.len() as u32;
        graphs.push(graph);
        self.graph_index.insert_unique(hash, number, |&number| {
            FxBuildHasher.hash_one(graphs[number as usize])
        });
        if graph == 0 {
            self.totals.has_default = true;
        } else {
            self.totals.named_min = self.totals.named_min.min(graph);
            self.totals.named_max = self.totals.named_max.max(graph);
        }
    }

    /// Adds the runs to their columns, and their entries and column numbers (lists first) to the ends of `entries`
    /// and `shape_entries`. Returns the number of lists.
    fn add_runs(&mut self, runs: &[ValueList], start: usize, graphs: TupleGraphs) -> usize {
        debug_assert!(graphs != TupleGraphs::None || runs.iter().all(ValueList::is_external));
        let first_entry = self.entries.len();
        self.ones.clear();
        for (place, run) in runs.iter().enumerate() {
            let number = self.column_number(run, place);
            self.widen(number, run);
            if run.is_many() {
                self.shape_entries.push(number);
                self.entries.push(Entry {
                    start: start + run.start,
                    count: run.count,
                    delta_width: run.delta_width,
                });
            } else {
                self.ones.push(number);
            }
        }
        let many = self.entries.len() - first_entry;
        self.shape_entries.extend_from_slice(&self.ones);
        if many < runs.len() {
            self.entries
                .extend(runs.iter().filter(|run| !run.is_many()).map(|run| Entry {
                    start: start + run.start,
                    count: 1,
                    delta_width: 0,
                }));
        }
        self.totals.many_max = self.totals.many_max.max(many);
        self.totals.ones_max = self.totals.ones_max.max(self.ones.len());
        many
    }

    /// Returns the column of a run, creating it if necessary. Tuples are often alike: the column at the same `place`
    /// of the last shape is tried first.
    fn column_number(&mut self, run: &ValueList, place: usize) -> u32 {
        let is = |column: &Column| column.predicate == run.predicate && column.kind == run.kind;
        if let Some(last) = self.tuples.last() {
            let shape = self.shapes[last.shape as usize];
            if let Some(&number) = self.shape_entries[shape.start..shape.end].get(place)
                && is(&self.columns[number as usize])
            {
                return number;
            }
        }
        let columns = &mut self.columns;
        let hash = hash_column(run.predicate, run.kind);
        if let Some(&number) = self
            .column_index
            .find(hash, |&number| is(&columns[number as usize]))
        {
            return number;
        }
        let number = columns.len() as u32;
        columns.push(Column {
            predicate: run.predicate,
            kind: run.kind,
            min: u64::MAX,
            max: 0,
            framed: 0,
            counts: 0,
            count_max: 0,
        });
        self.column_index.insert_unique(hash, number, |&number| {
            let column = &columns[number as usize];
            hash_column(column.predicate, column.kind)
        });
        number
    }

    fn widen(&mut self, number: u32, run: &ValueList) {
        let column = &mut self.columns[number as usize];
        self.undo.push((number, *column));
        let before = column.bits();
        column.min = column.min.min(run.first);
        column.max = column.max.max(run.last);
        column.framed += run.framed();
        if run.is_many() {
            column.counts += 1;
            column.count_max = column.count_max.max(run.stored_count());
        }
        let totals = &mut self.totals;
        totals.column_bits = totals.column_bits - before + column.bits();
        totals.delta_bits += run.delta_bits();
        if !run.is_external() {
            totals.rows += run.count;
        }
        totals.predicate_min = totals.predicate_min.min(run.predicate);
        totals.predicate_max = totals.predicate_max.max(run.predicate);
        totals.base_max = totals.base_max.max(column.min);
        totals.width_max = totals.width_max.max(column.width());
    }

    /// Returns the number of the shape at the end of `shape_entries` from `start`.
    fn add_shape(&mut self, start: usize, many: usize, one_graph: bool) -> u32 {
        let (known, new) = self.shape_entries.split_at(start);
        let is = |shape: &Shape| {
            shape.many == many
                && shape.one_graph == one_graph
                && &known[shape.start..shape.end] == new
        };
        if let Some(last) = self.tuples.last()
            && is(&self.shapes[last.shape as usize])
        {
            let number = last.shape;
            self.shape_entries.truncate(start);
            return number;
        }
        let hash = hash_shape(new, many, one_graph);
        let shapes = &mut self.shapes;
        if let Some(&number) = self
            .shape_index
            .find(hash, |&number| is(&shapes[number as usize]))
        {
            self.shape_entries.truncate(start);
            return number;
        }
        let number = shapes.len() as u32;
        shapes.push(Shape {
            start,
            end: self.shape_entries.len(),
            many,
            one_graph,
        });
        let entries = &self.shape_entries;
        self.shape_index.insert_unique(hash, number, |&number| {
            let shape = &shapes[number as usize];
            hash_shape(
                &entries[shape.start..shape.end],
                shape.many,
                shape.one_graph,
            )
        });
        number
    }

    fn take_back(&mut self, totals: Totals, lengths: (usize, usize, usize, usize, usize)) {
        let (columns, graphs, shapes, shape_entries, entries) = lengths;
        while let Some((number, column)) = self.undo.pop() {
            self.columns[number as usize] = column;
        }
        while self.columns.len() > columns {
            let number = self.columns.len() as u32 - 1;
            let column = self.columns[number as usize];
            let hash = hash_column(column.predicate, column.kind);
            forget(&mut self.column_index, hash, number);
            self.columns.pop();
        }
        while let Some(&graph) = self.graphs.get(graphs..).and_then(<[u64]>::last) {
            let number = self.graphs.len() as u32 - 1;
            forget(&mut self.graph_index, FxBuildHasher.hash_one(graph), number);
            self.graphs.pop();
        }
        while self.shapes.len() > shapes {
            let number = self.shapes.len() as u32 - 1;
            let shape = self.shapes[number as usize];
            let hash = hash_shape(
                &self.shape_entries[shape.start..shape.end],
                shape.many,
                shape.one_graph,
            );
            forget(&mut self.shape_index, hash, number);
            self.shapes.pop();
        }
        self.shape_entries.truncate(shape_entries);
        self.entries.truncate(entries);
        self.tuples.pop();
        self.nodes.pop();
        self.totals = totals;
    }

    fn fits(&self) -> bool {
        self.totals.rows <= ROWS_MAX as u64
            && self.tuples.len() <= COUNT_MAX
            && self.columns.len() <= COUNT_MAX
            && self.shapes.len() <= COUNT_MAX
            && self.shape_entries.len() <= COUNT_MAX
            && self.graphs.len() <= COUNT_MAX
            && Layout::new(&self.header()).end <= self.page_bytes * 8
    }

    /// Returns the header of the current page; its widths are upper bounds of the final ones.
    fn header(&self) -> Header {
        let totals = &self.totals;
        let graph_width = format::index_width(self.graphs.len());
        let tuple_bits =
            totals.column_bits + totals.delta_bits + totals.graph_slots * u64::from(graph_width);
        let one = u64::from(totals.width_max + graph_width);
        let fixed_max = totals.ones_max as u64 * one + u64::from(graph_width);
        let named = totals.named_max.saturating_sub(totals.named_min);
        Header {
            flags: if totals.has_default {
                FLAG_DEFAULT_GRAPH
            } else {
                0
            },
            tuples: self.tuples.len(),
            columns: self.columns.len(),
            shapes: self.shapes.len(),
            entries: self.shape_entries.len(),
            graphs: self.graphs.len(),
            rows: totals.rows as usize,
            tuple_bits: tuple_bits as usize,
            node_width: width_of(totals.node_residual_max),
            predicate_width: width_of(totals.predicate_max.saturating_sub(totals.predicate_min)),
            base_width: width_of(totals.base_max),
            graph_id_width: width_of(named),
            fixed_width: width_of(fixed_max),
            many_width: width_of(totals.many_max as u64),
            first_node: self.nodes.first().copied().unwrap_or(0),
            predicate_base: totals.predicate_min,
            graph_base: if totals.named_max == 0 {
                0
            } else {
                totals.named_min
            },
        }
    }

    /// Removes the tuples; keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.columns.clear();
        self.column_index.clear();
        self.shapes.clear();
        self.shape_entries.clear();
        self.shape_index.clear();
        self.graphs.clear();
        self.graph_index.clear();
        self.nodes.clear();
        self.tuples.clear();
        self.entries.clear();
        self.totals = Totals::default();
    }
}

fn forget(index: &mut HashTable<u32>, hash: u64, number: u32) {
    if let Ok(found) = index.find_entry(hash, |&other| other == number) {
        found.remove();
    }
}
