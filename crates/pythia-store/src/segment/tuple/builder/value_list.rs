//! Properties of a tuple's values that do not depend on the page.

use crate::segment::bits::{mask, width_of};
use crate::segment::tuple::format::{DELTA_MIN, DELTA_WIDTH_BITS, EXTERNAL_KIND};

/// The values of one tuple that share predicate and kind, or the length of an external list.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ValueList {
    pub(in super::super) predicate: u64,
    /// [`EXTERNAL_KIND`] for a list of which only `count` is kept.
    pub(in super::super) kind: u8,
    /// Width of the largest difference of neighbours, for lists that store differences.
    pub(in super::super) delta_width: u8,
    /// Start of the values among the tuple's rows.
    pub(in super::super) start: usize,
    /// Number of values, each with its graph.
    pub(in super::super) count: u64,
    /// The smallest payload.
    pub(in super::super) first: u64,
    /// The largest payload.
    pub(in super::super) last: u64,
}

impl ValueList {
    /// Returns a list that is only counted.
    pub(in super::super) fn external(predicate: u64, count: u64) -> Self {
        Self {
            predicate,
            kind: EXTERNAL_KIND,
            delta_width: 0,
            start: 0,
            count,
            first: 0,
            last: 0,
        }
    }

    /// Returns the run of `others[start..end]`, which are sorted and of one kind.
    pub(in super::super) fn inline(
        predicate: u64,
        others: &[u64],
        start: usize,
        end: usize,
    ) -> Self {
        let values = &others[start..end];
        let (first, last) = (values[0], values[values.len() - 1]);
        let delta_max = values
            .windows(2)
            .map(|pair| pair[1].wrapping_sub(pair[0]))
            .max()
            .unwrap_or(0);
        // A descent wraps around to a difference larger than any payload.
        assert!(delta_max <= mask(KIND_SHIFT), "rows come sorted");
        Self {
            predicate,
            kind: (first >> KIND_SHIFT) as u8,
            delta_width: width_of(delta_max) as u8,
            start,
            count: values.len() as u64,
            first: first & mask(KIND_SHIFT),
            last: last & mask(KIND_SHIFT),
        }
    }

    pub(in super::super) const fn is_external(&self) -> bool {
        self.kind == EXTERNAL_KIND
    }

    pub(super) const fn is_many(&self) -> bool {
        self.count != 1 || self.is_external()
    }

    /// Returns the number stored for the count: a list on the page has at least two values.
    pub(super) const fn stored_count(&self) -> u64 {
        if self.is_external() {
            self.count
        } else {
            self.count - 2
        }
    }

    /// Returns the number of values written in the column's width; the others are differences.
    pub(super) const fn framed(&self) -> u64 {
        match self.count {
            _ if self.is_external() => 0,
            few if few < DELTA_MIN as u64 => few,
            _ => 1,
        }
    }

    /// Returns the bits of the differences and their width.
    pub(in super::super) const fn delta_bits(&self) -> u64 {
        if self.is_external() || self.count < DELTA_MIN as u64 {
            0
        } else {
            DELTA_WIDTH_BITS as u64 + (self.count - 1) * self.delta_width as u64
        }
    }
}

/// Bits below the kind of an id.
pub(in super::super) const KIND_SHIFT: u32 = pythia_rdf::TermId::PAYLOAD_BITS;

/// The graphs of a tuple's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum TupleGraphs {
    /// No row has a value: all lists are external.
    None,
    /// All rows are in this graph.
    One(u64),
    /// Each row's graph is stored.
    Each,
}
