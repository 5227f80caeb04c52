//! The state of `EXISTS` tests between batches.

use hashbrown::HashMap;

use super::row_source::Pipeline;
use crate::limits::governor::Share;
use crate::limits::spill::table::RowSet;

/// State of a test, kept between batches.
pub(crate) struct ExistsState {
    /// Number of combinations of terms that are tested together next.
    pub(super) together: usize,
    /// The method by which rows are tested, by which of the shared variables are bound.
    pub(super) methods: HashMap<Vec<bool>, TestMethod>,
}

/// Number of combinations of terms that are tested together at first. It doubles with each round, so that a
/// test whose first rows have a match reads little.
const FIRST_ROWS: usize = 128;

impl Default for ExistsState {
    fn default() -> Self {
        Self {
            together: FIRST_ROWS,
            methods: HashMap::default(),
        }
    }
}

/// The method by which rows with certain variables bound are tested.
pub(super) enum TestMethod {
    /// Rows are fed to the pattern's pipeline.
    Pipeline(FedPattern),
    /// Rows are tested one by one. Holds the answers so far by the terms of the bound variables, as far as
    /// memory allows.
    OneByOne(Known),
}

/// The answers so far, by the terms of the bound variables.
pub(super) struct Known {
    pub(super) terms: RowSet,
    pub(super) answers: Vec<bool>,
    pub(super) share: Share,
}

/// The pipeline of a pattern, with rows as input.
pub(super) struct FedPattern {
    pub(super) source: Pipeline,
    pub(super) width: usize,
    /// Holds the number, from 1, of the row that a solution came from.
    pub(super) row_slot: usize,
}

impl Known {
    pub(super) fn answer(&mut self, terms: &[u64]) -> Option<bool> {
        let number = self.terms.find(self.terms.hash(terms), terms)?;
        Some(self.answers[number as usize])
    }

    /// Keeps a new answer if there is memory for it.
    pub(super) fn keep(&mut self, terms: &[u64], answer: bool) -> bool {
        if self
            .share
            .fits(self.terms.bytes_with(1) + self.answers.len() * 2 + 1)
        {
            self.terms.insert(self.terms.hash(terms), terms);
            self.answers.push(answer);
        }
        answer
    }
}
