//! Sorting of the batches' rows into the orders of the segment.
//!
//! ```text
//! batch rows ─ renumber ─ sort ─┐  merge,      ┌─ SPO: write
//!   (one batch per thread)      ├─ drop ───────┤
//! batch rows ─ renumber ─ sort ─┘  repeats     └─ OPS, PSO, POS, GPSO: pack ─ sort ─ merge ─ write
//!                                                 (one order per lane)
//! ```
//!
//! Because the distinct rows come in SPO order, the other orders only need a stable sort by the components that move
//! to the front. Everything stays in memory if the budget allows; otherwise every sorted chunk is spilled. In memory and with
//! several lanes, the merge does not wait for SPO's writer, so that other lanes soon have all rows.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
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
/// Most orders sorted or written at a time if rows are spilled.
const SPILLED_LANES: usize = 2;
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
    /// Orders that may be sorted or written at a time.
    lanes: usize,
}

impl<R: Row> SortBudget<R> {
    fn new(rows: usize, sorters: usize, plan: &OrdersPlan) -> Self {
        let threads = plan.threads.max(1);
        // In memory: the rows of the orders after SPO, and either the merged runs and the rows that wait for SPO's writer, or
        // those rows and the scratch space of each lane but the writer's.
        let all_rows = rows.max(1).saturating_mul(R::BYTES);
        let spaces = plan.memory_bytes / all_rows;
        if spaces >= sorters + 2 {
            return Self {
                sort: SortPlan {
                    // One more, so that a sorter never sorts before it has all rows.
                    chunk_rows: rows + 1,
                    file: None,
                    spare: Mutex::new(Vec::new()),
                },
                read_bytes: 0,
                threads,
                lanes: threads.min(spaces - sorters).min(sorters + 1),
            };
        }
        // A chunk and its scratch space for each thread, then a chunk for each sorter and the scratch space of each lane; the rest
        // is for reading runs.
        let lanes = threads.min(SPILLED_LANES);
        let chunks = (2 * threads).max(sorters + lanes) + 1;
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
            lanes,
        }
    }

    fn is_in_memory(&self) -> bool {
        self.sort.file.is_none()
    }

    /// Returns the channel to SPO's writer. If everything is in memory and there are other lanes, the merge does not wait for it:
    /// other orders are sorted and written meanwhile.
    fn spo_channel(&self) -> (Sender<Block<R>>, Receiver<Block<R>>) {
        if self.is_in_memory() && self.lanes > 1 {
            unbounded()
        } else {
            bounded(BLOCKS_WAITING)
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
    let orders = packing.sorted_orders().len();
    let budget = SortBudget::<R>::new(rows, orders, plan);
    plan.progress.begin("sort quads", rows as u64);
    let runs = sort_batches::<R>(batches, packing, &budget, plan)?;
    // If every row is distinct, and of a named graph if there are any.
    let written_max = (1 + orders as u64) * rows as u64;
    plan.progress.begin("write orders", written_max);
    let merge = Merge {
        rows: MergedRows::new(runs, budget.read_bytes)?,
        filter: known.map(|known| KnownFilter { known, packing }),
    };
    let writing = Writing {
        packing,
        budget: &budget,
        written_max,
        has_failed: AtomicBool::new(false),
        progress: &plan.progress,
    };
    let (distinct, sealed) = writing.write(merge, sinks)?;
    Ok(Orders {
        sealed,
        quads: distinct.count,
        known: distinct.known,
        spilled: !budget.is_in_memory(),
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

/// State shared by the threads that write orders.
struct Writing<'a, R> {
    packing: &'a Packing,
    budget: &'a SortBudget<R>,
    /// Rows of all orders, at most.
    written_max: u64,
    /// Set when an order cannot be written: nobody needs the others then.
    has_failed: AtomicBool,
    progress: &'a LoadProgress,
}

/// An order to be sorted and written.
struct OrderJob<'a, R, S> {
    order: RowOrder,
    /// `None` if the order has no rows.
    sorter: Option<RowSorter<'a, R>>,
    sink: S,
}

/// The orders that a lane has written.
type Written<S> = Vec<(RowOrder, <S as RowSink>::Sealed)>;

impl<'a, R: Row> Writing<'a, R> {
    /// Merges the runs and writes all orders, one at a time in each lane. The first lane begins with SPO, while rows still come.
    fn write<S: RowSink>(
        &self,
        merge: Merge<'_, R>,
        sinks: PerOrder<S>,
    ) -> Result<(Distinct, PerOrder<S::Sealed>), LoadError> {
        let PerOrder {
            spo,
            ops,
            pso,
            pos,
            gpso,
        } = sinks;
        // The order that takes longest comes first.
        let others = [
            (RowOrder::Ops, ops),
            (RowOrder::Pso, pso),
            (RowOrder::Pos, pos),
            (RowOrder::Gpso, gpso),
        ];
        let (to_spo, spo_blocks) = self.budget.spo_channel();
        let (to_lanes, jobs) = unbounded();
        let jobs = &jobs;
        std::thread::scope(|scope| {
            let first = scope.spawn(move || {
                let spo = self.or_stop(self.write_spo(&spo_blocks, spo))?;
                Ok((spo, self.work(jobs, Vec::new())?))
            });
            let lane = |_| scope.spawn(move || self.work(jobs, Vec::new()));
            let further: Vec<_> = (2..self.budget.lanes).map(lane).collect();
            let second = self.merge_and_work(merge, to_spo, others, to_lanes, jobs);
            let first = joined(first.join(), "writing quads");
            let further: Vec<_> = further
                .into_iter()
                .map(|lane| joined(lane.join(), "writing quads"))
                .collect();
            // If the first lane fails, it also ends the merge: its own error comes first.
            let (spo, mut written) = first?;
            for lane in further {
                written.extend(lane?);
            }
            let (distinct, of_second) =
                second?.expect("the merge ends early only if the first lane does");
            written.extend(of_second);
            Ok((distinct, per_order(spo, written)))
        })
    }

    /// The second lane: merges and packs the rows, passes the orders on to all lanes, and works on them too. `None`: SPO's writer
    /// has ended the merge.
    fn merge_and_work<S: RowSink>(
        &self,
        merge: Merge<'_, R>,
        to_spo: Sender<Block<R>>,
        orders: [(RowOrder, S); 4],
        to_lanes: Sender<OrderJob<'a, R, S>>,
        jobs: &Receiver<OrderJob<'a, R, S>>,
    ) -> Result<Option<(Distinct, Written<S>)>, LoadError> {
        let (to_packer, blocks) = bounded(BLOCKS_WAITING);
        let (distinct, packed) = std::thread::scope(|scope| {
            let packer = scope.spawn(move || self.pack(&blocks));
            let distinct = merge.send(&to_spo, &to_packer);
            drop((to_spo, to_packer));
            let packed = joined(packer.join(), "sorting quads")?;
            Ok::<_, LoadError>((distinct?, packed))
        })?;
        let Some(distinct) = distinct else {
            return Ok(None);
        };
        let Packed {
            rows,
            mut sorters,
            scratch,
        } = packed;
        self.done(self.written_max - distinct.count - rows);
        for (order, sink) in orders {
            let sorter = sorters.iter().position(|(of, _)| *of == order);
            let job = OrderJob {
                order,
                sorter: sorter.map(|at| sorters.swap_remove(at).1),
                sink,
            };
            to_lanes.send(job).expect("this thread has a receiver");
        }
        drop(to_lanes);
        let written = match self.budget.lanes {
            1 => Vec::new(),
            _ => self.work(jobs, scratch)?,
        };
        Ok(Some((distinct, written)))
    }

    /// Packs incoming rows for the orders after SPO.
    fn pack(&self, blocks: &Receiver<Block<R>>) -> Result<Packed<'a, R>, LoadError> {
        let (packing, budget) = (self.packing, self.budget);
        let from = Layout::new(RowOrder::Spo, packing.widths);
        let mut scratch = budget.sort.take_chunk();
        let sorter = |order| {
            let mut sorter = RowSorter::<R>::new(&budget.sort, bits_to_sort(order, packing.widths));
            if budget.is_in_memory() {
                sorter.expect_rows(budget.sort.chunk_rows);
            }
            (order, sorter)
        };
        let mut sorters: Vec<_> = packing.sorted_orders().into_iter().map(sorter).collect();
        let mut rows = 0;
        for block in blocks {
            for (order, sorter) in &mut sorters {
                let to = Layout::new(*order, packing.widths);
                let quads = block.iter().map(|&row| from.unpack(row));
                if *order == RowOrder::Gpso {
                    let named = quads.filter(|&quad| packing.is_named(quad));
                    let named = named.inspect(|_| rows += 1);
                    sorter.extend(named.map(|quad| to.pack(quad)), &mut scratch)?;
                } else {
                    rows += block.len() as u64;
                    sorter.extend(quads.map(|quad| to.pack(quad)), &mut scratch)?;
                }
            }
        }
        Ok(Packed {
            rows,
            sorters,
            scratch,
        })
    }

    fn write_spo<S: RowSink>(
        &self,
        blocks: &Receiver<Block<R>>,
        mut sink: S,
    ) -> Result<S::Sealed, LoadError> {
        let layout = Layout::new(RowOrder::Spo, self.packing.widths);
        for block in blocks {
            for &row in block.iter() {
                sink.row(self.packing.ids(layout.unpack(row)))?;
            }
            self.done(block.len() as u64);
        }
        sink.seal()
    }

    fn done(&self, rows: u64) {
        self.progress.done.fetch_add(rows, Ordering::Relaxed);
    }

    /// Sorts and writes orders until none is left.
    fn work<S: RowSink>(
        &self,
        jobs: &Receiver<OrderJob<'a, R, S>>,
        mut scratch: Vec<R>,
    ) -> Result<Written<S>, LoadError> {
        let mut written = Vec::new();
        for job in jobs {
            if self.has_failed.load(Ordering::Relaxed) {
                break;
            }
            let order = job.order;
            let sealed = self.or_stop(self.write_order(job, &mut scratch))?;
            written.push((order, sealed));
        }
        Ok(written)
    }

    /// Ends the work of all lanes, after their current orders, if this is an error.
    fn or_stop<T>(&self, outcome: Result<T, LoadError>) -> Result<T, LoadError> {
        if outcome.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// Sorts an order, then merges its rows and writes them, each on a thread of its own.
    fn write_order<S: RowSink>(
        &self,
        job: OrderJob<'a, R, S>,
        scratch: &mut Vec<R>,
    ) -> Result<S::Sealed, LoadError> {
        let mut sink = job.sink;
        let runs = match job.sorter {
            Some(sorter) => sorter.finish(scratch)?,
            None => Vec::new(),
        };
        if !self.budget.is_in_memory() {
            // Their memory is for reading runs now.
            *scratch = Vec::new();
            self.budget.sort.shrink();
        }
        let rows = OrderRows {
            merged: MergedRows::new(runs, self.budget.read_bytes)?,
            order: job.order,
            packing: self.packing,
        };
        std::thread::scope(|scope| {
            let (to_sink, ids) = bounded::<Vec<[u64; 4]>>(BLOCKS_WAITING / 2);
            let merge = scope.spawn(move || rows.send(&to_sink));
            for block in ids {
                for &ids in &block {
                    sink.row(ids)?;
                }
                self.done(block.len() as u64);
            }
            joined(merge.join(), "merging quads")?;
            sink.seal()
        })
    }
}

/// Returns the orders, each of which was written.
fn per_order<T>(spo: T, mut others: Vec<(RowOrder, T)>) -> PerOrder<T> {
    let mut take = |order| {
        let at = others.iter().position(|(of, _)| *of == order);
        others.swap_remove(at.expect("each order was written")).1
    };
    PerOrder {
        spo,
        ops: take(RowOrder::Ops),
        pso: take(RowOrder::Pso),
        pos: take(RowOrder::Pos),
        gpso: take(RowOrder::Gpso),
    }
}

/// Rows packed for the orders after SPO.
struct Packed<'a, R> {
    /// Rows of all sorters.
    rows: u64,
    sorters: Vec<(RowOrder, RowSorter<'a, R>)>,
    /// Scratch space of their sorts.
    scratch: Vec<R>,
}

/// The numbers of distinct rows to be written, and of those that were known.
#[derive(Clone, Copy)]
struct Distinct {
    count: u64,
    known: u64,
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

/// The merge of the sorted batches.
struct Merge<'a, R> {
    rows: MergedRows<R>,
    filter: Option<KnownFilter<'a>>,
}

impl<R: Row> Merge<'_, R> {
    /// Sends the merged rows, each once, to both threads; returns `None` if one of them has ended.
    fn send(
        mut self,
        spo: &Sender<Block<R>>,
        packer: &Sender<Block<R>>,
    ) -> Result<Option<Distinct>, LoadError> {
        let mut last = None;
        let mut sent = Distinct { count: 0, known: 0 };
        loop {
            let mut block = Vec::with_capacity(BLOCK_ROWS);
            if !self.rows.next_block(&mut block, BLOCK_ROWS)? {
                return Ok(Some(sent));
            }
            block.dedup();
            if block.first().copied() == last {
                block.remove(0);
            }
            last = block.last().copied().or(last);
            let distinct = block.len() as u64;
            if let Some(filter) = &self.filter {
                filter.apply(&mut block)?;
            }
            sent.count += block.len() as u64;
            sent.known += distinct - block.len() as u64;
            let block = Arc::new(block);
            if spo.send(Arc::clone(&block)).is_err() || packer.send(block).is_err() {
                return Ok(None);
            }
        }
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
