//! GROUP BY and aggregates.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::batch::{id_columns, record_batch};
use super::context::QueryContext;
use super::operator::{Operator, Solutions, pull, solutions};
use crate::error::QueryError;
use crate::expression::aggregate::CompiledAggregate;

/// Groups solutions by key columns and folds each group. Without keys there is one group, even
/// of no solutions.
#[derive(Clone)]
pub(crate) struct Group {
    /// Key columns; `None` is a key that no solution binds.
    pub(crate) keys: Vec<Option<usize>>,
    /// What is computed of each group.
    pub(crate) aggregates: Arc<[CompiledAggregate]>,
    /// The aggregates as written, for EXPLAIN.
    pub(crate) text: Vec<String>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by {:?}: {}", self.keys, self.text.join(", "))
    }
}

impl Operator for Group {
    fn name(&self) -> &'static str {
        "Group"
    }

    fn describe(&self, _: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }

    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let group = self.clone();
        let output = Arc::clone(&schema);
        let state = Some(inputs.remove(0));
        solutions(
            schema,
            stream::try_unfold(state, move |input| {
                let (group, output) = (group.clone(), Arc::clone(&output));
                let context = Arc::clone(&context);
                async move {
                    let Some(input) = input else {
                        return Ok(None);
                    };
                    let batch = fold(&group, input, &output, &context).await?;
                    Ok(Some((batch, None)))
                }
            }),
        )
    }
}

/// Numbers the groups by their keys.
struct Groups {
    numbers: HashMap<Box<[u64]>, u32, FxBuildHasher>,
    /// Key columns of the groups, in order of their numbers.
    keys: Vec<Vec<u64>>,
    count: usize,
}

impl Groups {
    /// The number of the group with this key; a new key makes a new group.
    fn number(&mut self, key: &[u64]) -> u32 {
        if let Some(&number) = self.numbers.get(key) {
            return number;
        }
        let number = self.count as u32;
        self.numbers.insert(key.into(), number);
        for (keys, value) in self.keys.iter_mut().zip(key) {
            keys.push(*value);
        }
        self.count += 1;
        number
    }
}

async fn fold(
    group: &Group,
    mut input: Solutions,
    schema: &SchemaRef,
    context: &QueryContext,
) -> Result<RecordBatch, QueryError> {
    let mut groups = Groups {
        numbers: HashMap::default(),
        keys: vec![Vec::new(); group.keys.len()],
        count: usize::from(group.keys.is_empty()),
    };
    let mut accumulators: Vec<_> = group
        .aggregates
        .iter()
        .map(CompiledAggregate::accumulator)
        .collect();
    let mut reserved = 0;
    while let Some(batch) = pull(&mut input).await? {
        context.check()?;
        let columns = id_columns(&batch);
        let numbers = number_rows(group, &columns, batch.num_rows(), &mut groups);
        for accumulator in &mut accumulators {
            accumulator.update(&numbers, groups.count, &columns, &context.evaluation)?;
        }
        let held = accumulators.iter().map(|a| a.memory_bytes()).sum::<usize>()
            + groups.count * (group.keys.len() * 16 + 32);
        if held > reserved {
            context.reserve(held - reserved)?;
            reserved = held;
        }
    }
    let mut columns = groups.keys;
    for accumulator in accumulators {
        columns.push(accumulator.finish(groups.count, &context.evaluation)?);
    }
    Ok(record_batch(schema, columns, groups.count)?)
}

/// The group of each row; new keys make new groups.
fn number_rows(group: &Group, columns: &[&[u64]], rows: usize, groups: &mut Groups) -> Vec<u32> {
    if group.keys.is_empty() {
        return vec![0; rows];
    }
    let mut key = vec![0; group.keys.len()];
    let mut last: Option<(Vec<u64>, u32)> = None;
    let mut number_of = |row: usize| {
        for (value, column) in key.iter_mut().zip(&group.keys) {
            *value = column.map_or(0, |column| columns[column][row]);
        }
        // Solutions often come in runs of one key.
        if let Some((previous, number)) = &last
            && *previous == key
        {
            return *number;
        }
        let number = groups.number(&key);
        last = Some((key.clone(), number));
        number
    };
    (0..rows).map(&mut number_of).collect()
}
