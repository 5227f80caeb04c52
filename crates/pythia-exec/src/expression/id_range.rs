//! The ids that a comparison with a constant accepts, where ids sort like their values.
//!
//! Inline ids with the same upper 12 bits form a *stretch*. They sort like their values if they are
//! integers (also of derived types, where these bits identify the type), decimals (where they hold the
//! number of fraction digits), dates, dateTimes or years; see [`pythia_rdf::inline`]. So within a stretch,
//! a comparison with a constant is a comparison with two bounds. The bounds of a stretch are computed on
//! its first use, since a query sees few stretches.

use std::cmp::Ordering;
use std::sync::OnceLock;

use oxrdf::vocab::xsd;
use oxsdatatypes::DayTimeDuration;
use pythia_rdf::inline::inline_literal;
use pythia_rdf::{TermId, TermKind};

use super::compare::{Comparison, Truth, truth};
use super::number::Number;
use super::temporal::{AnyDuration, Temporal};
use super::value::Value;

/// Number of bits below those that identify the stretch.
pub(crate) const STRETCH_SHIFT: u32 = 52;
/// Number of stretches of one kind.
const STRETCHES: usize = 16;

/// The result of a comparison for the ids of some kinds.
#[derive(Debug)]
pub(crate) struct IdRanges {
    first_stretch: u64,
    bounds: Box<[OnceLock<Option<Bounds>>]>,
    /// The constant, if the stretches hold numbers.
    number: Option<Number>,
    /// The result for smaller values.
    pub(crate) less: Truth,
    /// The result between the bounds; `None` if it depends on the value.
    pub(crate) between: Option<Truth>,
    /// The result for larger values.
    pub(crate) greater: Truth,
}

/// Ids below `lower` hold values smaller than the constant, ids from `upper` on larger ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) lower: u64,
    pub(crate) upper: u64,
}

impl IdRanges {
    /// Returns the ranges of `value operator constant`, if the constant's type has any.
    pub(crate) fn new(operator: Comparison, constant: &Value<'_>) -> Option<Self> {
        let outcome = |ordering| truth(Some(operator.accepts(ordering)));
        let ranges = |first_kind: TermKind, kind_count: usize| Self {
            first_stretch: TermId::new(first_kind, 0).0 >> STRETCH_SHIFT,
            bounds: (0..kind_count * STRETCHES)
                .map(|_| OnceLock::new())
                .collect(),
            number: None,
            less: outcome(Ordering::Less),
            between: None,
            greater: outcome(Ordering::Greater),
        };
        match constant {
            Value::Number(number) => {
                // NaN has no order.
                number.partial_cmp(number)?;
                Some(Self {
                    number: Some(*number),
                    between: Some(outcome(Ordering::Equal)),
                    ..ranges(TermKind::Integer, NUMBER_KINDS.len())
                })
            }
            Value::Temporal(temporal) => {
                let (kind, bounds) = temporal_bounds(*temporal)?;
                let ranges = ranges(kind, 1);
                for stretch in &ranges.bounds {
                    stretch.set(Some(bounds)).expect("not set before");
                }
                Some(ranges)
            }
            _ => None,
        }
    }

    /// Returns the bounds within a stretch; `None` if its ids are not compared this way.
    #[inline]
    pub(crate) fn bounds(&self, stretch: u64) -> Option<Bounds> {
        let index = usize::try_from(stretch.wrapping_sub(self.first_stretch)).ok()?;
        let bounds = self.bounds.get(index)?;
        match bounds.get() {
            Some(bounds) => *bounds,
            None => *bounds.get_or_init(|| number_bounds(stretch, self.number?)),
        }
    }
}

/// The kinds of numbers whose ids are sorted within a stretch. They are adjacent.
const NUMBER_KINDS: [TermKind; 3] = [
    TermKind::Integer,
    TermKind::DerivedInteger,
    TermKind::Decimal,
];

const _: () = assert!(
    NUMBER_KINDS[1] as u8 == NUMBER_KINDS[0] as u8 + 1
        && NUMBER_KINDS[2] as u8 == NUMBER_KINDS[1] as u8 + 1
);

/// Finds the bounds of a number by bisection, with the comparison that they replace. Returns `None` if the
/// stretch holds no numbers.
fn number_bounds(stretch: u64, constant: Number) -> Option<Bounds> {
    let start = stretch << STRETCH_SHIFT;
    // Most stretches lie on one side.
    let end = start + (1 << STRETCH_SHIFT);
    if Number::from_inline(TermId(start))? > constant {
        let (lower, upper) = (start, start);
        return Some(Bounds { lower, upper });
    }
    if Number::from_inline(TermId(end - 1))? < constant {
        let (lower, upper) = (end, end);
        return Some(Bounds { lower, upper });
    }
    let first = |beyond: &dyn Fn(Number) -> bool| {
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            let value = Number::from_inline(TermId(middle));
            if beyond(value.expect("a stretch holds numbers throughout")) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    };
    Some(Bounds {
        lower: first(&|value| value >= constant),
        upper: first(&|value| value > constant),
    })
}

/// Returns the ids of values that are earlier or later than a constant in every timezone. Closer values are
/// compared by value, which knows where the order is undefined.
fn temporal_bounds(constant: Temporal) -> Option<(TermKind, Bounds)> {
    /// More than the 14 hours by which an unknown timezone can differ in either direction.
    const MARGIN_SECONDS: i64 = 2 * 24 * 60 * 60;
    let (earlier, later) = match constant {
        Temporal::GYear(year) => {
            // The first id of a year is in the easternmost timezone.
            let first = |year: i64| {
                let width = if year < 0 { 5 } else { 4 };
                inline_literal(&format!("{year:0width$}+14:00"), xsd::G_YEAR.as_str())
            };
            (first(year.year())?, first(year.year().checked_add(1)?)?)
        }
        _ => {
            let margin = AnyDuration::DayTime(DayTimeDuration::new(MARGIN_SECONDS));
            (
                Value::from(constant.subtract_duration(margin)?).to_inline()?,
                Value::from(constant.add_duration(margin)?).to_inline()?,
            )
        }
    };
    let bounds = Bounds {
        lower: earlier.0,
        upper: later.0,
    };
    Some((earlier.kind(), bounds))
}
