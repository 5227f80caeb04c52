//! Patterns whose solutions are computed by several threads.
//!
//! ```text
//! first steps → pieces of their solutions → the other steps on each piece → solutions, in the order of the pieces
//! ```
//!
//! A pattern's pipeline is cut behind the first step with many solutions, and behind the last that works on all of them
//! together. If the pattern takes its solutions from an input, these are cut. See [`super::ordered`] for the threads.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pythia_sparql::scope::draws;

use super::batch::{Batch, bytes_of};
use super::context::QueryContext;
use super::link::is_dense;
use super::ordered::{Items, Ordered, Work};
use super::pattern::output_of;
use super::pipeline::build;
use super::row_source::Pipeline;
use super::siblings::Siblings;
use super::solutions::{Solutions, pull};
use crate::error::QueryError;
use crate::plan::expression::SlotExpression;
use crate::plan::operators::Pattern;
use crate::plan::step::{Access, Step, StepKind};

/// Estimated number of solutions of the first steps that is worth cutting.
const CUT_ROWS: f64 = 256.0;
/// Estimated number of solutions that the other steps make of a piece.
const PIECE_ROWS: f64 = 65_536.0;
/// Minimum and maximum number of solutions of a piece, about, but for smaller ones. Steps look up many of them together.
const PIECE_ROWS_MIN: f64 = 64.0;
const PIECE_ROWS_MAX: f64 = 8_192.0;
/// The first and the last of many pieces are as small as one of this many parts of the others, so that helpers soon have some, and that
/// all threads end at about the same time.
const SMALLER: usize = 8;
/// Minimum number of such pieces: with fewer, what each piece costs would count for more.
const MANY_PIECES: f64 = 4.0;
/// A piece has at most one of this many parts of the solutions that are still expected.
const LEFT: usize = 4;
/// Bytes that a step holds between batches: the rows that a scan has read, or its buffers.
const STEP_BYTES: usize = 64 << 10;
/// Maximum number of solutions of an input that are cut together, and the number of pieces. Those of the first batch are
/// cut first, since they may be enough.
const INPUT_ROWS: usize = 1 << 16;
const INPUT_PIECES: usize = 16;
/// Minimum number of solutions of a piece of them.
const INPUT_PIECE_MIN: usize = 1024;

/// The solutions of a pattern that is cut.
pub(super) type Pieces = Ordered<First, Others>;

/// The place where a pipeline is cut.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Number of steps before it.
    first: usize,
    sizes: Sizes,
}

/// The sizes of pieces, one after the other.
#[derive(Clone, Copy)]
struct Sizes {
    /// Minimum and maximum number of solutions of a piece, before batches are divided evenly.
    least: usize,
    most: usize,
    /// Estimated number of all solutions.
    expected: usize,
    /// Number of solutions of the pieces so far.
    given: usize,
}

impl Sizes {
    /// Returns sizes that are all equal.
    fn equal(rows: usize) -> Self {
        Self {
            least: rows,
            most: rows,
            expected: 0,
            given: 0,
        }
    }

    /// Returns the estimated number of pieces.
    fn pieces(&self) -> usize {
        self.expected.div_ceil(self.most) + self.most / self.least - 1
    }

    /// Returns the number of solutions of the next piece, if there are that many.
    fn next(&self) -> usize {
        let shrinking = match self.expected.saturating_sub(self.given) {
            // More come than were expected.
            0 => self.most,
            left => left.div_ceil(LEFT),
        };
        self.given.min(shrinking).clamp(self.least, self.most)
    }

    /// Cuts the next piece off some solutions, so that no small rest is left. Returns where it ends.
    fn cut(&mut self, solutions: Range<usize>) -> usize {
        let size = self.next();
        let pieces = (solutions.len() + size / 2) / size;
        let rows = solutions.len().div_ceil(pieces.max(1));
        self.given += rows;
        solutions.start + rows
    }
}

impl Cut {
    /// Returns the number of steps before it.
    pub(super) fn first(self) -> usize {
        self.first
    }
}

/// Returns where to cut a pipeline, not before `least` steps; `None` if it is measured, or if no step is left for several
/// pieces. Pieces do not depend on the number of threads: the order of solutions depends on them.
pub(super) fn cut(steps: &[Step], least: usize, context: &QueryContext) -> Option<Cut> {
    if context.profile.is_some() {
        return None;
    }
    let many = 1 + steps.iter().position(|step| step.rows >= CUT_ROWS)?;
    let whole = steps.iter().rposition(|step| !is_divisible(step));
    let whole = whole.max(waiting(steps));
    let first = whole.map_or(many, |last| many.max(last + 1)).max(least);
    let first = first + merging(&steps[first..]);
    let others = &steps[first..];
    if others.is_empty() {
        return None;
    }
    let most = others
        .iter()
        .fold(1.0, |most: f64, step| most.max(step.rows));
    let cut = steps[first - 1].rows;
    let rows = (cut * PIECE_ROWS / most).clamp(PIECE_ROWS_MIN, PIECE_ROWS_MAX);
    let sizes = Sizes {
        least: match cut >= MANY_PIECES * rows {
            true => rows as usize / SMALLER,
            false => rows as usize,
        },
        most: rows as usize,
        expected: cut as usize,
        given: 0,
    };
    (cut > rows).then_some(Cut { first, sizes })
}

/// Returns the join whose solutions may wait for others, if it is likely that their nodes are then read from a column, on all cores, and
/// that those of a piece would be too few for that.
fn waiting(steps: &[Step]) -> Option<usize> {
    let is_expected = |pair: &[Step]| {
        let (before, join) = (&pair[0], &pair[1]);
        let is_expansion = matches!(join.kind, StepKind::Pattern(_, Access::Expand(_)));
        let column = join.table.filter(|table| table.waits && is_expansion);
        column.is_some_and(|table| {
            before.rows > table.column as f64 && !is_dense(PIECE_ROWS_MAX as u64, table.column)
        })
    };
    steps
        .windows(2)
        .position(is_expected)
        .map(|before| before + 1)
}

/// Returns the number of the first steps that compare solutions of the step before them: they drop what a merge of graphs has
/// twice.
fn merging(steps: &[Step]) -> usize {
    let matches = |step: &Step| {
        matches!(
            step.kind,
            StepKind::Pattern(..) | StepKind::Ranges(..) | StepKind::Intersect(..)
        )
    };
    let before = steps.iter().position(matches).unwrap_or(steps.len());
    let is_merge = |step: &Step| matches!(step.kind, StepKind::Merged(_));
    let last = steps[..before].iter().rposition(is_merge);
    last.map_or(0, |last| last + 1)
}

/// Returns whether several threads may run all of the steps for the solutions of an input, if there are any, and the steps are
/// not measured.
pub(super) fn are_divisible(steps: &[Step], context: &QueryContext) -> bool {
    context.profile.is_none() && !steps.is_empty() && steps.iter().all(is_divisible)
}

/// Returns whether several threads may run a step, each for some of the solutions, as well as one for all of them.
fn is_divisible(step: &Step) -> bool {
    let draws = |expression: &SlotExpression| draws(&expression.source.expression);
    if step.filters.iter().any(draws) {
        return false;
    }
    match &step.kind {
        // Texts are read in the order of the dictionary, for as many solutions as possible.
        StepKind::Filter(expression) if expression.compiled().looks_at_texts() => false,
        StepKind::Filter(expression) | StepKind::Bind(_, expression) => !draws(expression),
        StepKind::Optional(inner) => inner.iter().all(is_divisible),
        StepKind::Union(branches) => branches.iter().flatten().all(is_divisible),
        // What they have found on their way helps with later solutions.
        StepKind::Path(_) | StepKind::Reachable(_) => false,
        _ => true,
    }
}

/// Starts a pattern that is cut.
pub(super) fn pieces(
    pattern: &Pattern,
    cut: Cut,
    schema: &SchemaRef,
    context: &Arc<QueryContext>,
) -> Pieces {
    let width = pattern.slots.len();
    let siblings: Arc<Siblings> = Arc::default();
    let mut pipeline = build(&pattern.steps[..cut.first], width, context, &siblings);
    pipeline.feed(Batch::unit(width));
    pieces_of(pattern, cut, (pipeline, None), &siblings, schema, context)
}

/// Goes on with a pattern whose steps before the cut run, and may have given solutions.
pub(super) fn pieces_of(
    pattern: &Pattern,
    cut: Cut,
    (pipeline, given): (Pipeline, Option<Batch>),
    siblings: &Arc<Siblings>,
    schema: &SchemaRef,
    context: &Arc<QueryContext>,
) -> Pieces {
    let first = First::new(pipeline, cut.sizes, given);
    let held = held(&pattern.steps[cut.first..]);
    let others = others(pattern, cut.first, siblings, schema, context);
    let governor = context.governor();
    Ordered::new(first, cut.sizes.pieces(), others, governor).with_held(held, governor)
}

/// Returns the bytes that a thread holds between batches of these steps.
fn held(steps: &[Step]) -> usize {
    steps.len() * STEP_BYTES
}

/// Makes the work of each thread: the steps of a pattern from one on.
fn others(
    pattern: &Pattern,
    from: usize,
    siblings: &Arc<Siblings>,
    schema: &SchemaRef,
    context: &Arc<QueryContext>,
) -> impl Fn() -> Others + Send + Sync + 'static {
    let (steps, output): (Arc<[Step]>, Arc<[usize]>) =
        (pattern.steps[from..].into(), pattern.output.clone().into());
    let width = pattern.slots.len();
    let (schema, context) = (Arc::clone(schema), Arc::clone(context));
    let siblings = Arc::clone(siblings);
    move || Others {
        pipeline: build(&steps, width, &context, &siblings),
        output: Arc::clone(&output),
        schema: Arc::clone(&schema),
        context: Arc::clone(&context),
    }
}

/// Solutions that an operator takes.
pub(super) struct Input {
    pub(super) solutions: Solutions,
    /// The slot of each column.
    pub(super) slots: Vec<usize>,
    /// Number of slots.
    pub(super) width: usize,
}

/// Work on an input that is cut.
pub(super) struct FedPieces<W: Work<Item = Piece> = Others> {
    pieces: Ordered<First, W>,
    input: Input,
    /// Number of solutions that are cut together.
    together: usize,
    /// False if the solutions are taken as they come.
    is_cut: bool,
    context: Arc<QueryContext>,
}

impl FedPieces<Others> {
    /// Starts a pattern with an input. Its steps must be [divisible](are_divisible).
    pub(super) fn of_pattern(
        pattern: &Pattern,
        solutions: Solutions,
        schema: &SchemaRef,
        context: &Arc<QueryContext>,
    ) -> Self {
        let input = Input {
            solutions,
            slots: pattern.input.clone(),
            width: pattern.slots.len(),
        };
        let held = held(&pattern.steps);
        let work = others(pattern, 0, &Arc::default(), schema, context);
        Self::new(input, work, Some(held), context)
    }
}

impl<W: Work<Item = Piece, Output = RecordBatch>> FedPieces<W> {
    /// Starts work on an input. The work of each thread holds about `held` bytes; if `None`, one thread does all of it, and takes
    /// the solutions as they come.
    pub(super) fn new(
        input: Input,
        work: impl Fn() -> W + Send + Sync + 'static,
        held: Option<usize>,
        context: &Arc<QueryContext>,
    ) -> Self {
        let sizes = Sizes::equal(INPUT_PIECE_MIN);
        let nothing = First::new(Pipeline::new(Vec::new(), context), sizes, None);
        let governor = context.governor();
        let pieces = Ordered::new(nothing, 0, work, governor);
        Self {
            pieces: match held {
                Some(held) => pieces.with_held(held, governor),
                None => pieces.alone(),
            },
            input,
            together: 1,
            is_cut: held.is_some(),
            context: Arc::clone(context),
        }
    }

    /// Returns the next solutions.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            self.context.check()?;
            if let Some(solutions) = self.pieces.next()? {
                return Ok(Some(solutions));
            }
            let mut batch = Batch::empty(self.input.width);
            while batch.rows < self.together
                && let Some(solutions) = pull(&mut self.input.solutions).await?
            {
                batch.append_solutions(&solutions, &self.input.slots);
                batch.charge(self.context.governor())?;
            }
            if batch.rows == 0 {
                return Ok(None);
            }
            let mut rows = batch.rows;
            if self.is_cut {
                let most = self.context.governor().batch_rows(self.input.width);
                self.together = (4 * batch.rows).min(INPUT_ROWS).min(most);
                rows = batch.rows.div_ceil(INPUT_PIECES).max(INPUT_PIECE_MIN);
            }
            let pieces = batch.rows.div_ceil(rows);
            self.pieces.go_on(pieces, |first| first.take(batch, rows));
        }
    }
}

/// The first steps, whose solutions are cut.
pub(super) struct First {
    pipeline: Pipeline,
    sizes: Sizes,
    current: Arc<Batch>,
    /// Number of the current solutions that were given out.
    given: usize,
}

impl First {
    fn new(pipeline: Pipeline, sizes: Sizes, given: Option<Batch>) -> Self {
        Self {
            pipeline,
            sizes,
            current: Arc::new(given.unwrap_or_default()),
            given: 0,
        }
    }

    /// Takes solutions of an input, to be cut into pieces of this many.
    fn take(&mut self, solutions: Batch, rows: usize) {
        (self.current, self.given) = (Arc::new(solutions), 0);
        self.sizes = Sizes::equal(rows);
    }
}

impl Items for First {
    type Item = Piece;

    fn next(&mut self) -> Result<Option<Piece>, QueryError> {
        while self.given == self.current.rows {
            self.given = 0;
            self.current = Arc::default();
            match self.pipeline.next()? {
                Some(batch) => self.current = Arc::new(batch),
                None => return Ok(None),
            }
        }
        let rows = self.given..self.sizes.cut(self.given..self.current.rows);
        if rows == (0..self.current.rows) {
            let batch = mem::take(&mut self.current);
            self.given = 0;
            return Ok(Some(Piece { batch, rows }));
        }
        self.given = rows.end;
        let batch = Arc::clone(&self.current);
        Ok(Some(Piece { batch, rows }))
    }
}

/// Some of the solutions of a batch.
pub(super) struct Piece {
    batch: Arc<Batch>,
    rows: Range<usize>,
}

impl Piece {
    /// Returns the number of solutions.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns their columns. Every slot must be bound.
    pub(super) fn columns(&self) -> Vec<&[u64]> {
        let columns = self.batch.columns.iter();
        debug_assert!(
            columns
                .clone()
                .all(|column| column.len() == self.batch.rows)
        );
        columns.map(|column| &column[self.rows.clone()]).collect()
    }

    /// Returns a batch of them.
    fn into_batch(self) -> Batch {
        let (from, to) = (self.rows.start, self.rows.end);
        match Arc::try_unwrap(self.batch) {
            Ok(batch) if from == 0 && to == batch.rows => batch,
            Ok(batch) => batch.slice(from, to),
            Err(batch) => batch.slice(from, to),
        }
    }
}

/// All solutions of a batch.
impl From<Batch> for Piece {
    fn from(batch: Batch) -> Self {
        Self {
            rows: 0..batch.rows,
            batch: Arc::new(batch),
        }
    }
}

/// The other steps, run by one thread.
pub(super) struct Others {
    pipeline: Pipeline,
    output: Arc<[usize]>,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl Work for Others {
    type Item = Piece;
    type Output = RecordBatch;

    fn begin(&mut self, piece: Piece) {
        self.pipeline.feed_part(piece.into_batch());
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        self.context.check()?;
        let Some(batch) = self.pipeline.next()? else {
            return Ok(None);
        };
        output_of(batch, &self.output, &self.schema).map(Some)
    }

    fn bytes(solutions: &RecordBatch) -> usize {
        bytes_of(solutions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sizes of the pieces of solutions that come in batches.
    fn sizes(mut sizes: Sizes, batches: &[usize]) -> Vec<usize> {
        let mut pieces = Vec::new();
        for &rows in batches {
            let mut start = 0;
            while start < rows {
                let end = sizes.cut(start..rows);
                pieces.push(end - start);
                start = end;
            }
        }
        pieces
    }

    #[test]
    fn the_first_and_the_last_pieces_are_small() {
        let expecting = |expected| Sizes {
            least: 100,
            most: 800,
            expected,
            given: 0,
        };
        assert_eq!(
            sizes(expecting(6000), &[6000]),
            [
                100, 100, 200, 400, 743, 743, 743, 743, 557, 418, 314, 235, 176, 132, 99, 99, 99,
                99
            ]
        );
        let more_than_expected = sizes(expecting(100), &[5000]);
        assert_eq!(more_than_expected[..4], [100, 100, 200, 384]);
        assert!(more_than_expected.len() < 12, "{more_than_expected:?}");
        let in_batches = sizes(expecting(1_000_000), &[1000, 1000, 1000]);
        assert_eq!(in_batches, [100, 100, 200, 300, 300, 1000, 1000]);
        assert_eq!(sizes(Sizes::equal(300), &[1000, 200]), [334, 333, 333, 200]);
    }
}
