//! Solutions that several nodes of a plan have in common, and one of them computes.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use parking_lot::Mutex;

use super::solutions::{NextBatch, Solutions, pull, solutions_of};
use crate::error::QueryError;
use crate::limits::governor::{Governor, Held};

/// Solutions kept by the first node that computes them, for the others.
#[derive(Debug, Default)]
pub(super) struct CommonSolutions(Mutex<Common>);

#[derive(Debug, Default)]
struct Common {
    /// Number of nodes with these solutions.
    nodes: usize,
    /// Number of nodes that have not asked for the solutions in this run of the plan.
    waiting: usize,
    kept: Option<Kept>,
}

/// Batches with their memory, which is released with the last node that reads them.
#[derive(Clone)]
struct Kept {
    batches: VecDeque<RecordBatch>,
    held: Arc<Held>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} batches", self.batches.len())
    }
}

impl CommonSolutions {
    /// Counts a node that will ask for the solutions.
    pub(super) fn add_node(&self) {
        self.0.lock().nodes += 1;
    }

    /// Returns the solutions: those that another node has computed, or those of `run`, which are kept for the other nodes
    /// if the governor has memory.
    pub(super) fn solutions(
        self: &Arc<Self>,
        schema: SchemaRef,
        governor: &Arc<Governor>,
        run: impl FnOnce() -> Result<Solutions> + Send + 'static,
    ) -> Solutions {
        let held = Held::new(governor);
        let common = Arc::clone(self);
        let (batches, rest) = (VecDeque::new(), None);
        let start = Some((run, held));
        solutions_of(
            schema,
            User {
                common,
                start,
                batches,
                held: None,
                rest,
            },
        )
    }

    /// Returns the solutions that are kept, and lets them go with the last node.
    fn take(&self) -> Option<Kept> {
        let mut common = self.0.lock();
        if common.waiting == 0 {
            common.waiting = common.nodes;
        }
        common.waiting -= 1;
        match common.waiting {
            0 => common.kept.take(),
            _ => common.kept.clone(),
        }
    }

    fn keep(&self, kept: Kept) {
        let mut common = self.0.lock();
        if common.waiting > 0 {
            common.kept = Some(kept);
        }
    }
}

/// A node's solutions.
struct User<F> {
    common: Arc<CommonSolutions>,
    /// Function that computes the solutions, and the memory for keeping them; `None` after the first call.
    start: Option<(F, Held)>,
    batches: VecDeque<RecordBatch>,
    /// Memory of the batches while they are read.
    held: Option<Arc<Held>>,
    /// Solutions after the batches.
    rest: Option<Solutions>,
}

impl<F> User<F> {
    /// Takes solutions up to the end, or until there is no memory for more, and keeps all of them for the other nodes.
    async fn collect(&mut self, mut input: Solutions, mut held: Held) -> Result<(), QueryError> {
        while let Some(batch) = pull(&mut input).await? {
            let has_memory = held.add(batch.get_array_memory_size()).is_ok();
            self.batches.push_back(batch);
            if !has_memory {
                self.rest = Some(input);
                return Ok(());
            }
        }
        let batches = self.batches.clone();
        let held = Arc::new(held);
        self.held = Some(Arc::clone(&held));
        self.common.keep(Kept { batches, held });
        Ok(())
    }
}

impl<F: FnOnce() -> Result<Solutions> + Send + 'static> NextBatch for User<F> {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        if let Some((run, held)) = self.start.take() {
            match self.common.take() {
                Some(kept) => (self.batches, self.held) = (kept.batches, Some(kept.held)),
                None => self.collect(run()?, held).await?,
            }
        }
        if let Some(batch) = self.batches.pop_front() {
            return Ok(Some(batch));
        }
        match &mut self.rest {
            Some(rest) => pull(rest).await,
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::StreamExt;
    use futures::executor::block_on;
    use oxrdf::Variable;

    use super::super::batch::{record_batch, schema_of};
    use super::super::solutions::solutions;
    use super::*;

    /// Lets three nodes ask for two batches. Returns the rows of each, and how often they were computed.
    fn ask(governor: &Arc<Governor>) -> (Vec<usize>, usize) {
        let schema = schema_of(&[Variable::new_unchecked("x")]);
        let common = Arc::new(CommonSolutions::default());
        let runs = Arc::new(AtomicUsize::new(0));
        let streams: Vec<Solutions> = (0..3)
            .map(|_| {
                common.add_node();
                let (schema, runs) = (Arc::clone(&schema), Arc::clone(&runs));
                common.solutions(Arc::clone(&schema), governor, move || {
                    runs.fetch_add(1, Ordering::Relaxed);
                    let batch = record_batch(&schema, vec![vec![1; 500]], 500)?;
                    let batches = [Ok(batch.clone()), Ok(batch)];
                    Ok(solutions(schema, futures::stream::iter(batches)))
                })
            })
            .collect();
        let rows = streams.into_iter().map(|stream| {
            let rows = stream.map(|batch| batch.expect("solutions").num_rows());
            block_on(rows.collect::<Vec<_>>()).iter().sum()
        });
        let rows: Vec<usize> = rows.collect();
        assert_eq!(governor.memory_used(), 0, "the last node lets them go");
        (rows, runs.load(Ordering::Relaxed))
    }

    #[test]
    fn one_node_computes_for_all() {
        let governor = Arc::new(Governor::unlimited());
        assert_eq!(ask(&governor), (vec![1000; 3], 1));
    }

    #[test]
    fn without_memory_each_node_computes() {
        let governor = Arc::new(Governor::with_memory(5000));
        assert_eq!(ask(&governor), (vec![1000; 3], 3));
    }
}
