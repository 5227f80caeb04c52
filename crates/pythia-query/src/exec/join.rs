//! Joins of independently evaluated inputs: inner join, left join and MINUS, by hash on the
//! variables bound on both sides, with SPARQL's compatibility on the rest.

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
use super::step::SlotExpression;
use crate::error::QueryError;

/// How many candidate pairs are checked together.
const PAIRS: usize = 8192;

/// Which join.
#[derive(Debug, Clone)]
pub(crate) enum JoinKind {
    /// Compatible pairs.
    Inner,
    /// Compatible pairs for which the condition holds, and left solutions that have none.
    Left(Option<SlotExpression>),
    /// Left solutions without a compatible right one that shares a bound variable.
    Minus,
}

/// Joins left and right; the right input is held in memory.
#[derive(Debug, Clone)]
pub(crate) struct HashJoin {
    pub(crate) kind: JoinKind,
    /// Columns (left, right) of variables bound in every solution of both inputs.
    pub(crate) keys: Vec<(usize, usize)>,
    /// Columns (left, right) of other shared variables.
    pub(crate) maybe: Vec<(usize, usize)>,
    /// Right columns appended to the left ones.
    pub(crate) added: Vec<usize>,
}

impl Operator for HashJoin {
    fn name(&self) -> &'static str {
        match self.kind {
            JoinKind::Inner => "HashJoin",
            JoinKind::Left(_) => "HashLeftJoin",
            JoinKind::Minus => "HashMinus",
        }
    }

    fn describe(&self, _: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {:?}", self.keys)?;
        if !self.maybe.is_empty() {
            write!(f, " compatible {:?}", self.maybe)?;
        }
        Ok(())
    }

    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let right = inputs.pop().expect("a join has two inputs");
        let left = inputs.pop().expect("a join has two inputs");
        let joiner = Joiner {
            join: self.clone(),
            left,
            unread_right: Some(right),
            table: Table::default(),
            current: None,
            schema: Arc::clone(&schema),
            context,
        };
        solutions(
            schema,
            stream::try_unfold(joiner, |mut joiner| async move {
                Ok(joiner.next().await?.map(|batch| (batch, joiner)))
            }),
        )
    }
}

/// The right input in memory.
#[derive(Default)]
struct Table {
    columns: Vec<Vec<u64>>,
    rows: usize,
    by_key: HashMap<Box<[u64]>, Vec<u32>, FxBuildHasher>,
    every: Vec<u32>,
}

impl Table {
    fn matches(&self, key: &[u64]) -> &[u32] {
        if key.is_empty() {
            return &self.every;
        }
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }
}

/// Where a left batch has been joined up to.
struct Current {
    columns: Vec<Vec<u64>>,
    rows: usize,
    row: usize,
    /// How many of the row's candidates have been taken.
    taken: usize,
    matched: Vec<bool>,
}

struct Joiner {
    join: HashJoin,
    left: Solutions,
    unread_right: Option<Solutions>,
    table: Table,
    current: Option<Current>,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl Joiner {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        if let Some(right) = self.unread_right.take() {
            self.read_right(right).await?;
        }
        loop {
            self.context.check()?;
            if let Some(mut current) = self.current.take() {
                let batch = self.join_some(&mut current)?;
                let finished = current.row >= current.rows;
                let rest = if finished {
                    self.unmatched(&current)?
                } else {
                    self.current = Some(current);
                    None
                };
                match (batch, rest) {
                    (Some(batch), Some(rest)) => {
                        let both = arrow::compute::concat_batches(&self.schema, [&batch, &rest])
                            .map_err(datafusion_common::DataFusionError::from)?;
                        return Ok(Some(both));
                    }
                    (Some(batch), None) | (None, Some(batch)) => return Ok(Some(batch)),
                    (None, None) => continue,
                }
            }
            let Some(batch) = pull(&mut self.left).await? else {
                return Ok(None);
            };
            if self.table.rows == 0 && matches!(self.join.kind, JoinKind::Inner) {
                return Ok(None);
            }
            self.current = Some(Current {
                columns: id_columns(&batch)
                    .into_iter()
                    .map(<[u64]>::to_vec)
                    .collect(),
                rows: batch.num_rows(),
                row: 0,
                taken: 0,
                matched: vec![false; batch.num_rows()],
            });
        }
    }

    async fn read_right(&mut self, mut right: Solutions) -> Result<(), QueryError> {
        let width = right.schema().fields().len();
        self.table.columns = vec![Vec::new(); width];
        while let Some(batch) = pull(&mut right).await? {
            self.context.check()?;
            let rows = batch.num_rows();
            self.context
                .reserve(rows * (width * 8 + self.join.keys.len() * 8 + 48))?;
            for (column, found) in self.table.columns.iter_mut().zip(id_columns(&batch)) {
                column.extend_from_slice(found);
            }
            self.table.rows += rows;
        }
        if self.join.keys.is_empty() {
            self.table.every = (0..self.table.rows as u32).collect();
            return Ok(());
        }
        for row in 0..self.table.rows {
            let key: Box<[u64]> = self
                .join
                .keys
                .iter()
                .map(|(_, right)| self.table.columns[*right][row])
                .collect();
            self.table.by_key.entry(key).or_default().push(row as u32);
        }
        Ok(())
    }

    /// Joins on from where `current` stands, for up to [`PAIRS`] candidate pairs.
    fn join_some(&self, current: &mut Current) -> Result<Option<RecordBatch>, QueryError> {
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let mut key = Vec::with_capacity(self.join.keys.len());
        let mut looked = 0;
        while current.row < current.rows && looked < PAIRS {
            let row = current.row;
            key.clear();
            key.extend(
                self.join
                    .keys
                    .iter()
                    .map(|(left, _)| current.columns[*left][row]),
            );
            let candidates = &self.table.matches(&key)[current.taken..];
            let now = candidates.len().min(PAIRS - looked);
            for &right in &candidates[..now] {
                if self.compatible(current, row, right as usize) {
                    pairs.push((row as u32, right));
                }
            }
            looked += now.max(1);
            if now < candidates.len() {
                current.taken += now;
            } else {
                current.row += 1;
                current.taken = 0;
            }
        }
        if let JoinKind::Minus = self.join.kind {
            for (row, _) in pairs {
                current.matched[row as usize] = true;
            }
            return Ok(None);
        }
        self.output(current, pairs)
    }

    /// Whether the pair agrees on the variables that may be unbound. MINUS also wants at least
    /// one shared variable bound on both sides.
    fn compatible(&self, current: &Current, row: usize, right: usize) -> bool {
        let mut shares = !self.join.keys.is_empty();
        for &(l, r) in &self.join.maybe {
            let (a, b) = (current.columns[l][row], self.table.columns[r][right]);
            if a != 0 && b != 0 {
                if a != b {
                    return false;
                }
                shares = true;
            }
        }
        shares || !matches!(self.join.kind, JoinKind::Minus)
    }

    fn output(
        &self,
        current: &mut Current,
        pairs: Vec<(u32, u32)>,
    ) -> Result<Option<RecordBatch>, QueryError> {
        if pairs.is_empty() {
            return Ok(None);
        }
        let mut columns: Vec<Vec<u64>> = current
            .columns
            .iter()
            .map(|column| pairs.iter().map(|(l, _)| column[*l as usize]).collect())
            .collect();
        for &(l, r) in &self.join.maybe {
            for (value, (_, right)) in columns[l].iter_mut().zip(&pairs) {
                if *value == 0 {
                    *value = self.table.columns[r][*right as usize];
                }
            }
        }
        for &r in &self.join.added {
            let column = &self.table.columns[r];
            columns.push(
                pairs
                    .iter()
                    .map(|(_, right)| column[*right as usize])
                    .collect(),
            );
        }
        let mut keep: Vec<bool> = vec![true; pairs.len()];
        if let JoinKind::Left(Some(condition)) = &self.join.kind {
            let views: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
            keep = condition
                .compiled
                .filter(&views, pairs.len(), &self.context.evaluation)?;
        }
        for ((row, _), keep) in pairs.iter().zip(&keep) {
            current.matched[*row as usize] |= *keep;
        }
        let rows = keep.iter().filter(|k| **k).count();
        if rows == 0 {
            return Ok(None);
        }
        if rows < pairs.len() {
            for column in &mut columns {
                let mut place = 0;
                column.retain(|_| {
                    place += 1;
                    keep[place - 1]
                });
            }
        }
        Ok(Some(record_batch(&self.schema, columns, rows)?))
    }

    /// The left solutions of a finished batch that found nothing, where the join keeps them.
    fn unmatched(&self, current: &Current) -> Result<Option<RecordBatch>, QueryError> {
        if let JoinKind::Inner = self.join.kind {
            return Ok(None);
        }
        let rows: Vec<usize> = (0..current.rows)
            .filter(|&row| !current.matched[row])
            .collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let mut columns: Vec<Vec<u64>> = current
            .columns
            .iter()
            .map(|column| rows.iter().map(|&row| column[row]).collect())
            .collect();
        columns.resize(self.schema.fields().len(), Vec::new());
        Ok(Some(record_batch(&self.schema, columns, rows.len())?))
    }
}
