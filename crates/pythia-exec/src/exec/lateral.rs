//! `LATERAL` around patterns that must be evaluated for one combination of terms at a time.
//!
//! The pattern is planned once for each set of bound variables, with placeholders for the terms ([`template`]).
//! Each distinct combination of terms in a batch runs a copy of the plan with its own ids. Left solutions with
//! the same terms share one run; apart from that, solutions come in the order of the left ones.

mod output;
pub(super) mod template;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use self::output::Output;
use self::template::{start, template};
use super::batch::id_columns;
use super::context::QueryContext;
use super::solutions::{Execute, NextBatch, Solutions, pull, solutions_of};
use crate::error::QueryError;
use crate::limits::governor::Working;
use crate::limits::spill::table::RowSet;
use crate::plan::operators::Lateral;

impl Execute for Lateral {
    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let running = Running {
            lateral: self.clone(),
            input: inputs.remove(0),
            left: None,
            right: None,
            output: Output::new(Arc::clone(&schema), &context),
            context,
        };
        solutions_of(schema, running)
    }
}

struct Running {
    lateral: Lateral,
    input: Solutions,
    /// The left solutions being joined.
    left: Option<Left>,
    /// The solutions of the pattern for the current combination.
    right: Option<Right>,
    output: Output,
    context: Arc<QueryContext>,
}

/// A batch of left solutions, grouped by the terms that the pattern sees.
struct Left {
    batch: RecordBatch,
    /// The distinct combinations, in the order in which they first occur.
    keys: RowSet,
    /// The rows of the batch by combination, and the end of each combination's rows.
    rows: Vec<u32>,
    ends: Vec<u32>,
    /// The next combination.
    next: usize,
    /// The batch's charge to the query's memory.
    _charge: Working,
}

/// The pattern's solutions for one combination of terms.
struct Right {
    solutions: Solutions,
    /// The solutions' column for each variable that the pattern binds.
    columns: Arc<[Option<usize>]>,
    /// The combination.
    key: usize,
    /// The batch of solutions being joined, and its next pair of rows.
    found: Option<RecordBatch>,
    next: usize,
}

impl Left {
    fn new(
        batch: RecordBatch,
        shared: &[usize],
        context: &QueryContext,
    ) -> Result<Self, QueryError> {
        let columns = id_columns(&batch);
        let columns: Vec<&[u64]> = shared.iter().map(|column| columns[*column]).collect();
        let mut keys = RowSet::new(shared.len(), 0);
        let mut key_of = Vec::with_capacity(batch.num_rows());
        let mut ends = Vec::new();
        let mut terms = vec![0; shared.len()];
        for row in 0..batch.num_rows() {
            for (term, column) in terms.iter_mut().zip(&columns) {
                *term = column[row];
            }
            let (key, is_new) = keys.insert(keys.hash(&terms), &terms);
            if is_new {
                ends.push(0);
            }
            ends[key as usize] += 1;
            key_of.push(key);
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut rows = vec![0; key_of.len()];
        for (row, key) in key_of.iter().enumerate() {
            let place = &mut ends[*key as usize];
            rows[*place as usize] = row as u32;
            *place += 1;
        }
        let mut charge = Working::new(context.governor());
        let lists = (rows.len() + ends.len()) * size_of::<u32>();
        charge.set(batch.get_array_memory_size() + keys.bytes_with(0) + lists)?;
        Ok(Self {
            batch,
            keys,
            rows,
            ends,
            next: 0,
            _charge: charge,
        })
    }

    /// Returns the rows of the batch with this combination.
    fn rows_of(&self, key: usize) -> &[u32] {
        let start = match key {
            0 => 0,
            key => self.ends[key - 1],
        };
        &self.rows[start as usize..self.ends[key] as usize]
    }
}

impl Right {
    /// Joins the solutions found with their left rows until the output is full.
    fn join(
        &mut self,
        left: &Left,
        lateral: &Lateral,
        output: &mut Output,
    ) -> Result<(), QueryError> {
        let Some(batch) = &self.found else {
            return Ok(());
        };
        let (found, given) = (id_columns(batch), id_columns(&left.batch));
        let rows = left.rows_of(self.key);
        let pairs = rows.len() * batch.num_rows();
        let mut terms = vec![0; given.len()];
        while self.next < pairs && !output.is_full() {
            let (row, solution) = (
                rows[self.next / batch.num_rows()],
                self.next % batch.num_rows(),
            );
            for (term, column) in terms.iter_mut().zip(&given) {
                *term = column[row as usize];
            }
            let right = self.columns.iter();
            let right = right.map(|column| column.map_or(0, |column| found[column][solution]));
            output.add(&terms, right, &lateral.columns);
            self.next += 1;
        }
        if self.next == pairs {
            (self.found, self.next) = (None, 0);
        }
        output.charge()
    }
}

impl NextBatch for Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            self.context.check()?;
            if self.output.is_full() {
                return self.output.take();
            }
            if let (Some(left), Some(right)) = (&self.left, &mut self.right) {
                if right.found.is_none() {
                    right.found = pull(&mut right.solutions).await?;
                }
                match &right.found {
                    Some(_) => right.join(left, &self.lateral, &mut self.output)?,
                    None => self.right = None,
                }
                continue;
            }
            if self.start_next()? {
                continue;
            }
            self.left = None;
            let Some(batch) = pull(&mut self.input).await? else {
                return self.output.take();
            };
            self.left = Some(Left::new(batch, &self.lateral.given, &self.context)?);
        }
    }
}

impl Running {
    /// Starts the pattern for the next combination of terms. Returns false if there is none.
    fn start_next(&mut self) -> Result<bool, QueryError> {
        let Some(left) = &mut self.left else {
            return Ok(false);
        };
        if left.next == left.keys.len() {
            return Ok(false);
        }
        let key = left.next;
        left.next += 1;
        let terms = left.keys.rows().row(key);
        let bound: Vec<bool> = terms.iter().map(|term| *term != 0).collect();
        let template = template(&self.lateral, &bound, &self.context)?;
        self.right = Some(Right {
            solutions: start(&template, terms, &self.context)?,
            columns: Arc::clone(&template.columns),
            key,
            found: None,
            next: 0,
        });
        Ok(true)
    }
}
