//! Encoding of a full page's tuples.

use super::{Column, Entry, KIND_SHIFT, PageBuilder, Shape, TupleGraphs};
use crate::segment::bits::{BitWriter, width_of};
use crate::segment::tuple::format::{
    self, DELTA_MIN, DELTA_WIDTH_BITS, EXTERNAL_KIND, EXTERNAL_WIDTH, FLAG_CONTINUED, HEADER_BYTES,
    Header, KIND_BITS, Layout, SAMPLE, WIDTH_BITS,
};

impl PageBuilder {
    /// Returns the page except for its checksum. `others` and `row_graphs` are the rows that the added tuples refer
    /// to; `continued`: the first tuple is the rest of the last page's last one.
    pub(in super::super) fn encode(
        &mut self,
        others: &[u64],
        row_graphs: &[u64],
        continued: bool,
    ) -> &mut [u8] {
        let mut header = self.header();
        if continued {
            header.flags |= FLAG_CONTINUED;
        }
        let sorted = SortedColumns::new(&self.columns);
        header.base_width = width_of(sorted.base_max);
        let mut graphs = self.graphs.clone();
        graphs.sort_unstable();
        let graph_width = format::index_width(graphs.len());
        let offsets = self.encode_tuples(others, row_graphs, &graphs, graph_width);
        header.tuple_bits = self.body.bit_len();
        let fixed: Vec<u64> = self
            .shapes
            .iter()
            .map(|shape| self.fixed_bits(shape, graph_width))
            .collect();
        header.fixed_width = width_of(fixed.iter().copied().max().unwrap_or(0));
        let layout = Layout::new(&header);
        assert!(
            layout.end <= self.page_bytes * 8,
            "sizes are counted exactly"
        );
        self.encode_head(&header, &layout, &sorted, &graphs, &fixed, &offsets);
        debug_assert_eq!(HEADER_BYTES * 8 + self.head.bit_len(), layout.tuples_at);
        append_bits(&mut self.head, &mut self.body);
        self.page.clear();
        self.page.resize(HEADER_BYTES, 0);
        header.write(&mut self.page);
        self.page.extend_from_slice(self.head.as_bytes());
        self.page.resize(self.page_bytes, 0);
        &mut self.page
    }

    /// Returns the bits of a tuple of this shape without its lists.
    fn fixed_bits(&self, shape: &Shape, graph_width: u32) -> u64 {
        let ones = &self.shape_entries[shape.start + shape.many..shape.end];
        let each = if shape.one_graph { 0 } else { graph_width };
        let values: u32 = ones
            .iter()
            .map(|&column| self.columns[column as usize].width() + each)
            .sum();
        u64::from(values + if shape.one_graph { graph_width } else { 0 })
    }

    /// Encodes the tuples into `body`; returns their offsets.
    fn encode_tuples(
        &mut self,
        others: &[u64],
        row_graphs: &[u64],
        graphs: &[u64],
        graph_width: u32,
    ) -> Vec<usize> {
        let number_of = |graph: u64| {
            let number = graphs.binary_search(&graph);
            number.expect("each row's graph was added") as u64
        };
        let frames: Vec<Frame> = self.columns.iter().map(Frame::new).collect();
        let body = &mut self.body;
        body.clear();
        let mut offsets = Vec::with_capacity(self.tuples.len());
        for tuple in &self.tuples {
            offsets.push(body.bit_len());
            if let TupleGraphs::One(graph) = tuple.graphs
                && graph_width > 0
            {
                body.append(number_of(graph), graph_width);
            }
            let shape = self.shapes[tuple.shape as usize];
            let columns = &self.shape_entries[shape.start..shape.end];
            let entries = &self.entries[tuple.entries..tuple.entries + columns.len()];
            let each_graph = tuple.graphs == TupleGraphs::Each && graph_width > 0;
            let many = shape.many;
            for (&column, entry) in columns[many..].iter().zip(&entries[many..]) {
                let frame = &frames[column as usize];
                body.append(others[entry.start] - frame.base, frame.width);
                if each_graph {
                    body.append(number_of(row_graphs[entry.start]), graph_width);
                }
            }
            for (&column, entry) in columns[..many].iter().zip(entries) {
                let frame = &frames[column as usize];
                if frame.external {
                    body.append(entry.count, frame.count_width);
                    continue;
                }
                let rows = entry.start..entry.start + entry.count as usize;
                encode_list(body, frame, entry, &others[rows.clone()]);
                if each_graph {
                    for &graph in &row_graphs[rows] {
                        body.append(number_of(graph), graph_width);
                    }
                }
            }
        }
        offsets
    }

    fn encode_head(
        &mut self,
        header: &Header,
        layout: &Layout,
        sorted: &SortedColumns,
        graphs: &[u64],
        fixed: &[u64],
        offsets: &[usize],
    ) {
        let head = &mut self.head;
        head.clear();
        for &number in &sorted.order {
            let column = &self.columns[number as usize];
            let width = if column.kind == EXTERNAL_KIND {
                EXTERNAL_WIDTH
            } else {
                column.width()
            };
            head.append(width.into(), WIDTH_BITS);
            head.append(column.count_width().into(), WIDTH_BITS);
            head.append(column.kind.into(), KIND_BITS);
            head.append(column.base(), header.base_width);
            head.append(
                column.predicate - header.predicate_base,
                header.predicate_width,
            );
        }
        for &graph in graphs.iter().filter(|&&graph| graph != 0) {
            head.append(graph - header.graph_base, header.graph_id_width);
        }
        for (shape, &fixed) in self.shapes.iter().zip(fixed) {
            head.append(fixed, header.fixed_width);
            head.append(shape.many as u64, header.many_width);
            head.append(shape.one_graph.into(), 1);
            head.append(shape.end as u64, layout.end_width);
        }
        for &column in &self.shape_entries {
            let rank = sorted.rank[column as usize];
            head.append(rank.into(), layout.entry_width);
        }
        for (i, &node) in self.nodes.iter().enumerate() {
            head.append(node - header.first_node - i as u64, header.node_width);
        }
        for tuple in &self.tuples {
            head.append(tuple.shape.into(), layout.number_width);
        }
        if layout.sample_width > 0 {
            for &offset in offsets.iter().skip(SAMPLE).step_by(SAMPLE) {
                head.append(offset as u64, layout.sample_width);
            }
        }
    }
}

impl Column {
    /// Returns the smallest payload, 0 for lists of which only the length is kept.
    const fn base(&self) -> u64 {
        if self.framed == 0 { 0 } else { self.min }
    }
}

/// The parameters for encoding a column's values.
struct Frame {
    /// The smallest id.
    base: u64,
    width: u32,
    count_width: u32,
    external: bool,
}

impl Frame {
    fn new(column: &Column) -> Self {
        Self {
            base: u64::from(column.kind) << KIND_SHIFT | column.base(),
            width: column.width(),
            count_width: column.count_width(),
            external: column.kind == EXTERNAL_KIND,
        }
    }
}

fn encode_list(body: &mut BitWriter, frame: &Frame, entry: &Entry, values: &[u64]) {
    body.append(entry.count - 2, frame.count_width);
    if values.len() < DELTA_MIN {
        body.append_all(values, frame.base, frame.width);
        return;
    }
    let delta_width = u32::from(entry.delta_width);
    body.append(delta_width.into(), DELTA_WIDTH_BITS);
    body.append(values[0] - frame.base, frame.width);
    for pair in values.windows(2) {
        body.append(pair[1] - pair[0], delta_width);
    }
}

/// The columns in stored order, by predicate and kind; they are numbered in the order of their creation.
struct SortedColumns {
    order: Vec<u32>,
    /// Per column number, its place in `order`.
    rank: Vec<u32>,
    base_max: u64,
}

impl SortedColumns {
    fn new(columns: &[Column]) -> Self {
        let mut order: Vec<u32> = (0..columns.len() as u32).collect();
        order.sort_unstable_by_key(|&number| {
            let column = &columns[number as usize];
            (column.predicate, column.kind)
        });
        let mut rank = vec![0; columns.len()];
        for (place, &number) in order.iter().enumerate() {
            rank[number as usize] = place as u32;
        }
        Self {
            order,
            rank,
            base_max: columns.iter().map(Column::base).max().unwrap_or(0),
        }
    }
}

/// Appends all bits of `from`.
fn append_bits(to: &mut BitWriter, from: &mut BitWriter) {
    let mut bits = from.bit_len();
    for chunk in from.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let width = bits.min(64);
        to.append(u64::from_le_bytes(word), width as u32);
        bits -= width;
    }
}
