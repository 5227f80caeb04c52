//! Sorting of the batches' rows into the orders of the segment.
//!
//! ```text
//! batch rows ─ renumber ─ sort ─┐  merge,      ┌─ SPO writer
//!   (one batch per thread)      ├─ drop ───────┤
//! batch rows ─ renumber ─ sort ─┘  repeats     └─ PSO, OPS, POS, GPSO sorters ─ merge ─ writers (side by side)
//! ```
//!
//! Because the distinct rows come in SPO order, the other orders only need a stable sort by the components that move
//! to the front. Everything stays in memory if the budget allows; otherwise every sorted chunk is spilled.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, bounded};
use pythia_rdf::TermId;

use super::LoadError;
use super::error::joined;
use super::numbering::{NumberedBatch, TermNumbers};
use super::progress::LoadProgress;
use super::row::{Layout, Quad, Row, RowOrder, Widths, bits_to_sort};
use super::runs::RunSpace;
use super::sorter::{MergedRows, RowSorter, SortPlan, SortedRun};

/// Rows passed between threads at a time.
const BLOCK_ROWS: usize = 1 << 15;
/// Blocks that may wait for a thread.
const BLOCKS_WAITING: usize = 4;
/// Bounds of the bytes read at a time from a spilled run.
const READ_BYTES: std::ops::RangeInclusive<usize> = 1 << 14..=1 << 20;

/// A sink for the rows of one order.
pub(super) trait RowSink: Send {
    /// The result of writing all rows.
    type Sealed: Send;
    /// Takes the next row: ids in the sink's own order.
    fn row(&mut self, ids: [u64; 4]) -> Result<(), LoadError>;
    /// Ends the rows.
    fn seal(self) -> Result<Self::Sealed, LoadError>;
}

/// A function that returns which quads (ids of subject, predicate, object and graph) need not be written.
pub(super) type KnownQuads<'k> = &'k (dyn Fn(&[[u64; 4]]) -> Result<Vec<bool>, LoadError> + Sync);

/// Resources for sorting.
#[derive(Clone, Debug)]
pub(super) struct OrdersPlan {
    pub(super) memory_bytes: usize,
    pub(super) threads: usize,
    pub(super) space: Arc<RunSpace>,
    pub(super) progress: Arc<LoadProgress>,
}

/// The lists and widths that rows are packed with.
#[derive(Debug)]
struct Packing {
    terms: TermNumbers,
    /// Numbers of all predicates and graphs, sorted.
    predicates: Vec<u32>,
    graphs: Vec<u32>,
    predicate_ids: Vec<u64>,
    graph_ids: Vec<u64>,
    widths: Widths,
}

impl Packing {
    fn new(terms: TermNumbers, batches: &[NumberedBatch]) -> Self {
        let collect = |list: &dyn Fn(&NumberedBatch) -> &[u32]| {
            let mut all: Vec<u32> = batches
                .iter()
                .flat_map(|batch| list(batch).to_vec())
                .collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        // A batch without a list of graphs has all its quads in the default graph, number 0.
        let graphs = collect(&|batch| match &batch.graphs[..] {
            [] => &[0],
            graphs => graphs,
        });
        let predicates = collect(&|batch| &batch.predicates);
        let end = |component: usize| {
            let ends = batches.iter().map(|batch| batch.ends[component]);
            ends.max().unwrap_or(0)
        };
        let last = |list: &[u32]| list.len().saturating_sub(1) as u32;
        let widths = Widths::of(Quad {
            subject: end(0),
            predicate: last(&predicates),
            object: end(1),
            graph: last(&graphs),
        });
        let ids = |list: &[u32]| list.iter().map(|&number| terms.id(number)).collect();
        Self {
            predicate_ids: ids(&predicates),
            graph_ids: ids(&graphs),
            predicates,
            graphs,
            terms,
            widths,
        }
    }

    /// Returns whether a row is of a named graph.
    #[inline]
    fn is_named(&self, quad: Quad) -> bool {
        self.graph_ids[quad.graph as usize] != TermId::DEFAULT_GRAPH.0
    }

    /// Returns the orders that rows are sorted into after SPO.
    fn sorted_orders(&self) -> Vec<RowOrder> {
        let mut orders = vec![RowOrder::Pso, RowOrder::Ops, RowOrder::Pos];
        if self
            .graph_ids
            .iter()
            .any(|&id| id != TermId::DEFAULT_GRAPH.0)
        {
            orders.push(RowOrder::Gpso);
        }
        orders
    }

    /// Returns the ids of the row's subject, predicate, object and graph.
    #[inline]
    fn ids(&self, quad: Quad) -> [u64; 4] {
        [
            self.terms.id(quad.subject),
            self.predicate_ids[quad.predicate as usize],
            self.terms.id(quad.object),
            self.graph_ids[quad.graph as usize],
        ]
    }
}

/// A value for each order.
#[derive(Debug)]
pub(super) struct PerOrder<T> {
    pub(super) spo: T,
    pub(super) ops: T,
    pub(super) pso: T,
    pub(super) pos: T,
    /// Has the quads of named graphs alone.
    pub(super) gpso: T,
}

impl<T> PerOrder<T> {
    /// Returns the values, as in [`Order::ALL`](crate::Order::ALL).
    pub(super) fn into_list(self) -> Vec<T> {
        vec![self.spo, self.ops, self.pso, self.pos, self.gpso]
    }
}

/// The orders, written.
#[derive(Debug)]
pub(super) struct Orders<T> {
    pub(super) sealed: PerOrder<T>,
    /// Distinct quads that were written.
    pub(super) quads: u64,
    /// Distinct quads that were known.
    pub(super) known: u64,
    /// Whether sorted quads were spilled.
    pub(super) spilled: bool,
}

/// Sorts the rows of all batches and writes the orders.
pub(super) fn write_orders<S: RowSink>(
    batches: Vec<NumberedBatch>,
    terms: TermNumbers,
    sinks: PerOrder<S>,
    known: Option<KnownQuads<'_>>,
    plan: &OrdersPlan,
) -> Result<Orders<S::Sealed>, LoadError> {
    let packing = Packing::new(terms, &batches);
    if packing.widths.total() <= u64::BITS {
        write_packed::<u64, S>(batches, &packing, sinks, known, plan)
    } else {
        write_packed::<u128, S>(batches, &packing, sinks, known, plan)
    }
}

/// The division of the budget while rows of one width are sorted.
struct SortBudget<R> {
    sort: SortPlan<R>,
    read_bytes: usize,
    threads: usize,
}

impl<R: Row> SortBudget<R> {
    fn new(rows: usize, sorters: usize, plan: &OrdersPlan) -> Self {
        let threads = plan.threads.max(1);
        // In memory: the merged SPO runs, the sorters of the other orders and the scratch space of a sort.
        let resident = rows.saturating_mul(R::BYTES).saturating_mul(sorters + 2);
        if resident <= plan.memory_bytes {
            return Self {
                sort: SortPlan {
                    chunk_rows: rows.max(1),
                    file: None,
                    spare: Mutex::new(Vec::new()),
                },
                read_bytes: 0,
                threads,
            };
        }
        // A chunk and its scratch space for each thread, then a chunk for each sorter and one scratch space; the rest
        // is for reading runs.
        let chunks = (2 * threads).max(sorters + 1) + 1;
        let chunk_rows = (plan.memory_bytes / chunks / R::BYTES).max(1024);
        let runs = rows.div_ceil(chunk_rows) + threads;
        let read_bytes = plan.memory_bytes / chunks / runs.max(1);
        Self {
            sort: SortPlan {
                chunk_rows,
                file: Some(plan.space.file("sorted quads")),
                spare: Mutex::new(Vec::new()),
            },
            read_bytes: read_bytes.clamp(*READ_BYTES.start(), *READ_BYTES.end()),
            threads,
        }
    }
}

fn write_packed<R: Row, S: RowSink>(
    batches: Vec<NumberedBatch>,
    packing: &Packing,
    sinks: PerOrder<S>,
    known: Option<KnownQuads<'_>>,
    plan: &OrdersPlan,
) -> Result<Orders<S::Sealed>, LoadError> {
    let rows = batches.iter().map(|batch| batch.rows.len()).sum();
    let orders = packing.sorted_orders();
    let budget = SortBudget::<R>::new(rows, orders.len(), plan);
    plan.progress.begin("sort quads", rows as u64);
    let runs = sort_batches::<R>(batches, packing, &budget, plan)?;
    plan.progress.begin("write SPO", rows as u64);
    let merged = MergedRows::new(runs, budget.read_bytes)?;
    let (spo, distinct) = write_spo(merged, packing, sinks.spo, known, &budget, plan)?;
    let quads = distinct.count;
    budget.sort.shrink();
    plan.progress
        .begin("write the other orders", 3 * quads + distinct.sorted.named);
    let job = |order, runs, sink| OrderJob {
        order,
        runs,
        sink,
        packing,
        read_bytes: budget.read_bytes,
        progress: &plan.progress,
    };
    let mut sorted = distinct.sorted.orders.into_iter();
    // Without named graphs, there are no rows of GPSO.
    let mut runs = || sorted.next().unwrap_or_default();
    let pso = job(RowOrder::Pso, runs(), sinks.pso);
    let ops = job(RowOrder::Ops, runs(), sinks.ops);
    let pos = job(RowOrder::Pos, runs(), sinks.pos);
    let gpso = job(RowOrder::Gpso, runs(), sinks.gpso);
    let (ops, [pso, pos, gpso]) = write_side_by_side(ops, [pso, pos, gpso], budget.threads)?;
    Ok(Orders {
        sealed: PerOrder {
            spo,
            ops,
            pso,
            pos,
            gpso,
        },
        quads,
        known: distinct.known,
        spilled: budget.sort.file.is_some(),
    })
}

/// Packs and sorts the batches' rows, several batches at a time.
fn sort_batches<R: Row>(
    batches: Vec<NumberedBatch>,
    packing: &Packing,
    budget: &SortBudget<R>,
    plan: &OrdersPlan,
) -> Result<Vec<SortedRun<R>>, LoadError> {
    let workers = budget.threads.min(batches.len()).max(1);
    let queue = Mutex::new(VecDeque::from(batches));
    let next = || queue.lock().expect("nothing panics holding it").pop_front();
    let work = || {
        let layout = Layout::new(RowOrder::Spo, packing.widths);
        let mut sorter =
            RowSorter::<R>::new(&budget.sort, bits_to_sort(RowOrder::Spo, packing.widths));
        let mut scratch = budget.sort.take_chunk();
        let mut runs = Vec::new();
        while let Some(batch) = next() {
            let rows = batch.rows.len();
            if budget.sort.file.is_none() {
                sorter.expect_rows(rows);
            }
            pack_batch(batch, packing, &layout, &mut sorter, &mut scratch)?;
            if budget.sort.file.is_none() {
                // Each batch is a chunk: no thread waits for more.
                sorter.seal(&mut scratch)?;
            }
            plan.progress.done.fetch_add(rows as u64, Ordering::Relaxed);
        }
        runs.extend(sorter.finish(&mut scratch)?);
        budget.sort.return_chunk(scratch);
        Ok(runs)
    };
    let mut runs = Vec::new();
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for handle in handles {
            runs.extend(joined(handle.join(), "sorting quads")?);
        }
        Ok::<(), LoadError>(())
    })?;
    Ok(runs)
}

fn pack_batch<R: Row>(
    batch: NumberedBatch,
    packing: &Packing,
    layout: &Layout,
    sorter: &mut RowSorter<'_, R>,
    scratch: &mut Vec<R>,
) -> Result<(), LoadError> {
    let positions = |numbers: &[u32], all: &[u32]| -> Vec<u32> {
        let position = |number: &u32| {
            all.binary_search(number)
                .expect("the list was made of these")
        };
        numbers
            .iter()
            .map(|number| position(number) as u32)
            .collect()
    };
    let predicates = positions(&batch.predicates, &packing.predicates);
    let graphs = match &batch.graphs[..] {
        // The default graph, number 0, comes first in the list of all.
        [] => vec![0],
        graphs => positions(graphs, &packing.graphs),
    };
    let (rows, numbers) = batch.into_rows()?;
    rows.drain(*READ_BYTES.end(), |rows| {
        let packed = rows.map(|[s, p, o, g]| {
            layout.pack(Quad {
                subject: numbers[s as usize],
                predicate: predicates[p as usize],
                object: numbers[o as usize],
                graph: graphs[g as usize],
            })
        });
        sorter.extend(packed, scratch)
    })
}

type Block<R> = Arc<Vec<R>>;

/// The distinct rows.
struct Distinct<R> {
    count: u64,
    known: u64,
    sorted: Sorted<R>,
}

/// The distinct rows, sorted for the orders of [`Packing::sorted_orders`].
struct Sorted<R> {
    /// Rows of named graphs.
    named: u64,
    orders: Vec<Vec<SortedRun<R>>>,
}

/// Merges the SPO runs, writes SPO, and sorts the distinct rows for the other orders.
fn write_spo<R: Row, S: RowSink>(
    mut merged: MergedRows<R>,
    packing: &Packing,
    sink: S,
    known: Option<KnownQuads<'_>>,
    budget: &SortBudget<R>,
    plan: &OrdersPlan,
) -> Result<(S::Sealed, Distinct<R>), LoadError> {
    std::thread::scope(|scope| {
        let (to_writer, written) = bounded::<Block<R>>(BLOCKS_WAITING);
        let (to_sorters, sorted) = bounded::<Block<R>>(BLOCKS_WAITING);
        let writer = scope.spawn(move || write_blocks(&written, packing, sink, &plan.progress));
        let sorters = scope.spawn(move || sort_blocks(&sorted, packing, budget));
        let filter = known.map(|known| KnownFilter { known, packing });
        let count = send_distinct(&mut merged, filter.as_ref(), &to_writer, &to_sorters);
        drop((to_writer, to_sorters, merged));
        let spo = joined(writer.join(), "writing SPO");
        let sorted = joined(sorters.join(), "sorting quads");
        // A thread that fails also ends the merge: its own error comes first.
        let (spo, sorted) = (spo?, sorted?);
        let (count, known) = count?;
        let distinct = Distinct {
            count,
            known,
            sorted,
        };
        Ok((spo, distinct))
    })
}

/// A filter that drops known rows.
struct KnownFilter<'a> {
    known: KnownQuads<'a>,
    packing: &'a Packing,
}

impl KnownFilter<'_> {
    fn apply<R: Row>(&self, rows: &mut Vec<R>) -> Result<(), LoadError> {
        let layout = Layout::new(RowOrder::Spo, self.packing.widths);
        let quads = rows.iter().map(|&row| self.packing.ids(layout.unpack(row)));
        let known = (self.known)(&quads.collect::<Vec<_>>())?;
        let mut known = known.into_iter();
        rows.retain(|_| !known.next().expect("an answer for each"));
        Ok(())
    }
}

/// Sends the merged rows, each once, to both threads. Returns how many were sent, and how many were known.
fn send_distinct<R: Row>(
    merged: &mut MergedRows<R>,
    filter: Option<&KnownFilter<'_>>,
    writer: &Sender<Block<R>>,
    sorters: &Sender<Block<R>>,
) -> Result<(u64, u64), LoadError> {
    let mut last = None;
    let (mut count, mut known) = (0, 0);
    loop {
        let mut block = Vec::with_capacity(BLOCK_ROWS);
        if !merged.next_block(&mut block, BLOCK_ROWS)? {
            return Ok((count, known));
        }
        block.dedup();
        if block.first().copied() == last {
            block.remove(0);
        }
        last = block.last().copied().or(last);
        let distinct = block.len() as u64;
        if let Some(filter) = filter {
            filter.apply(&mut block)?;
        }
        count += block.len() as u64;
        known += distinct - block.len() as u64;
        let block = Arc::new(block);
        // The receivers are gone only if their threads have failed, which then report why.
        if writer.send(Arc::clone(&block)).is_err() || sorters.send(block).is_err() {
            return Ok((count, known));
        }
    }
}

fn write_blocks<R: Row, S: RowSink>(
    blocks: &Receiver<Block<R>>,
    packing: &Packing,
    mut sink: S,
    progress: &LoadProgress,
) -> Result<S::Sealed, LoadError> {
    let layout = Layout::new(RowOrder::Spo, packing.widths);
    for block in blocks {
        for &row in block.iter() {
            sink.row(packing.ids(layout.unpack(row)))?;
        }
        progress
            .done
            .fetch_add(block.len() as u64, Ordering::Relaxed);
    }
    sink.seal()
}

/// Sorts incoming rows for the orders after SPO.
fn sort_blocks<R: Row>(
    blocks: &Receiver<Block<R>>,
    packing: &Packing,
    budget: &SortBudget<R>,
) -> Result<Sorted<R>, LoadError> {
    let from = Layout::new(RowOrder::Spo, packing.widths);
    let mut scratch = budget.sort.take_chunk();
    let sorter = |order| {
        let mut sorter = RowSorter::<R>::new(&budget.sort, bits_to_sort(order, packing.widths));
        if budget.sort.file.is_none() {
            sorter.expect_rows(budget.sort.chunk_rows);
        }
        (order, Layout::new(order, packing.widths), sorter)
    };
    let orders = packing.sorted_orders();
    let mut sorters: Vec<_> = orders.into_iter().map(sorter).collect();
    let mut named = 0;
    for block in blocks {
        for (order, to, sorter) in &mut sorters {
            let quads = block.iter().map(|&row| from.unpack(row));
            if *order == RowOrder::Gpso {
                let of_named: Vec<R> = quads
                    .filter(|&quad| packing.is_named(quad))
                    .map(|quad| to.pack(quad))
                    .collect();
                named += of_named.len() as u64;
                sorter.extend(of_named.into_iter(), &mut scratch)?;
            } else {
                sorter.extend(quads.map(|quad| to.pack(quad)), &mut scratch)?;
            }
        }
    }
    let sorters = sorters.into_iter().map(|(_, _, sorter)| sorter).collect();
    let orders = finish(sorters, scratch, budget)?;
    Ok(Sorted { named, orders })
}

/// Sorts the last chunk of each order: two at a time if everything is in memory. The runs of SPO no longer are, so there is room
/// for two scratch spaces.
fn finish<R: Row>(
    sorters: Vec<RowSorter<'_, R>>,
    mut scratch: Vec<R>,
    budget: &SortBudget<R>,
) -> Result<Vec<Vec<SortedRun<R>>>, LoadError> {
    if budget.threads == 1 || budget.sort.file.is_some() {
        let sorters = sorters.into_iter();
        return sorters.map(|sorter| sorter.finish(&mut scratch)).collect();
    }
    let queue = Mutex::new(sorters.into_iter().enumerate());
    let next = || queue.lock().expect("nothing panics holding it").next();
    let work = |mut scratch: Vec<R>| {
        let mut sorted = Vec::new();
        while let Some((order, sorter)) = next() {
            sorted.push((order, sorter.finish(&mut scratch)?));
        }
        Ok::<_, LoadError>(sorted)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(Vec::new()));
        let mut sorted = work(scratch)?;
        sorted.extend(joined(other.join(), "sorting quads")?);
        sorted.sort_unstable_by_key(|(order, _)| *order);
        Ok(sorted.into_iter().map(|(_, runs)| runs).collect())
    })
}

/// One order to be merged and written.
struct OrderJob<'a, R, S> {
    order: RowOrder,
    runs: Vec<SortedRun<R>>,
    sink: S,
    packing: &'a Packing,
    read_bytes: usize,
    progress: &'a LoadProgress,
}

impl<R: Row, S: RowSink> OrderJob<'_, R, S> {
    /// Merges the rows and writes them, each on a thread of its own.
    fn write(self) -> Result<S::Sealed, LoadError> {
        let (rows, mut sink) = (
            OrderRows {
                merged: MergedRows::new(self.runs, self.read_bytes)?,
                order: self.order,
                packing: self.packing,
            },
            self.sink,
        );
        std::thread::scope(|scope| {
            let (to_sink, ids) = bounded::<Vec<[u64; 4]>>(BLOCKS_WAITING / 2);
            let merge = scope.spawn(move || rows.send(&to_sink));
            for block in ids {
                for &ids in &block {
                    sink.row(ids)?;
                }
                let done = &self.progress.done;
                done.fetch_add(block.len() as u64, Ordering::Relaxed);
            }
            joined(merge.join(), "merging quads")?;
            sink.seal()
        })
    }
}

/// The rows of an order, sorted.
struct OrderRows<'a, R> {
    merged: MergedRows<R>,
    order: RowOrder,
    packing: &'a Packing,
}

impl<R: Row> OrderRows<'_, R> {
    /// Sends the ids of all rows, until nobody receives them.
    fn send(mut self, sink: &Sender<Vec<[u64; 4]>>) -> Result<(), LoadError> {
        let layout = Layout::new(self.order, self.packing.widths);
        let mut rows = Vec::new();
        while self.merged.next_block(&mut rows, BLOCK_ROWS)? {
            let ids = rows.iter().map(|&row| self.ids(layout.unpack(row)));
            if sink.send(ids.collect()).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn ids(&self, quad: Quad) -> [u64; 4] {
        let [s, p, o, g] = self.packing.ids(quad);
        match self.order {
            RowOrder::Spo => [s, p, o, g],
            RowOrder::Pso => [p, s, o, g],
            RowOrder::Ops => [o, p, s, g],
            RowOrder::Pos => [p, o, s, g],
            RowOrder::Gpso => [g, p, s, o],
        }
    }
}

/// Writes OPS on one thread, and the orders in columns, one after the other, on another.
fn write_side_by_side<R: Row, S: RowSink>(
    ops: OrderJob<'_, R, S>,
    columns: [OrderJob<'_, R, S>; 3],
    threads: usize,
) -> Result<(S::Sealed, [S::Sealed; 3]), LoadError> {
    let write_columns = move || -> Result<[S::Sealed; 3], LoadError> {
        let [pso, pos, gpso] = columns;
        Ok([pso.write()?, pos.write()?, gpso.write()?])
    };
    if threads == 1 {
        return Ok((ops.write()?, write_columns()?));
    }
    std::thread::scope(|scope| {
        let ops = scope.spawn(move || ops.write());
        let columns = write_columns();
        let ops = joined(ops.join(), "writing OPS")?;
        Ok((ops, columns?))
    })
}
