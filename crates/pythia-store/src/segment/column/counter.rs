//! Counts per predicate of sorted rows.

use super::directory::PredicateRows;

/// Counter of sorted rows, which computes their [`PredicateRows`].
#[derive(Default)]
pub(crate) struct PredicateCounter {
    /// True if it only checks that rows are in order.
    only_checks: bool,
    last: Option<[u64; 4]>,
    current: PredicateRows,
    /// Distinct b of the current a.
    pairs: u64,
    done: Vec<PredicateRows>,
}

impl PredicateCounter {
    /// Returns a counter that counts nothing, for files with any number of predicates.
    pub(crate) fn of_nothing() -> Self {
        Self {
            only_checks: true,
            ..Self::default()
        }
    }

    /// Counts a row; returns false if it is not greater than the previous one.
    #[inline]
    pub(crate) fn count(&mut self, row: [u64; 4]) -> bool {
        let [p, a, b, _] = row;
        if self.only_checks {
            let in_order = self.last.is_none_or(|last| last < row);
            self.last = Some(row);
            return in_order;
        }
        let mut in_order = true;
        if let Some(last) = self.last {
            in_order = last < row;
            if last[0] != p {
                self.close();
            } else if last[1] != a {
                self.close_list();
                self.open_list(a);
            } else if last[2] != b {
                self.pairs += 1;
            }
        }
        if self.current.rows == 0 {
            self.current.predicate = p;
            self.open_list(a);
        }
        self.current.rows += 1;
        self.last = Some(row);
        in_order
    }

    fn open_list(&mut self, a: u64) {
        self.pairs = 1;
        self.current.distinct_a += 1;
        self.current.a_kinds |= 1 << ((a >> 56) & 0x7f);
    }

    fn close_list(&mut self) {
        self.current.pairs += self.pairs;
        self.current.pairs_max = self.current.pairs_max.max(self.pairs);
    }

    /// Ends the current predicate, if there is one.
    fn close(&mut self) {
        if self.current.rows == 0 {
            return;
        }
        self.close_list();
        self.done.push(self.current);
        self.current = PredicateRows {
            first_row: self.current.first_row + self.current.rows,
            ..PredicateRows::default()
        };
    }

    /// Returns the predicates, in order.
    pub(crate) fn finish(mut self) -> Vec<PredicateRows> {
        self.close();
        self.done
    }
}
