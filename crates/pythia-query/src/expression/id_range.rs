//! Which ids a comparison with a constant accepts, where ids order like their values.
//!
//! Inline ids with the same upper 12 bits, a *stretch*, order like the values they hold if they
//! are integers (also of derived types, where these bits tell the type), decimals (where they
//! tell the number of digits behind the point), dates, dateTimes or years; see
//! [`pythia_rdf::inline`]. So within a stretch a comparison with a constant comes down to two
//! bounds. They are found when a stretch is first met, for a query sees few of them.

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

/// Bits below those that tell the stretch.
pub(crate) const STRETCH_SHIFT: u32 = 52;
/// Stretches of one kind.
const STRETCHES: usize = 16;

/// The outcome of a comparison for the ids of some kinds.
#[derive(Debug)]
pub(crate) struct IdRanges {
    first_stretch: u64,
    bounds: Box<[OnceLock<Option<Bounds>>]>,
    /// The constant, if the stretches hold numbers.
    number: Option<Number>,
    /// The outcome for smaller values.
    pub(crate) less: Truth,
    /// The outcome between the bounds; `None` where it takes the value to tell.
    pub(crate) between: Option<Truth>,
    /// The outcome for larger values.
    pub(crate) greater: Truth,
}

/// Ids below `lower` hold smaller values than the constant, those from `upper` on larger ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) lower: u64,
    pub(crate) upper: u64,
}

impl IdRanges {
    /// The ranges of `value operator constant`, if the constant has such.
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
                // Nothing is known of NaN's neighbours.
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

    /// The bounds within a stretch; `None` if its ids are not compared this way.
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

/// The kinds of numbers whose ids order within a stretch: neighbours in kind order.
const NUMBER_KINDS: [TermKind; 3] = [
    TermKind::Integer,
    TermKind::DerivedInteger,
    TermKind::Decimal,
];

const _: () = assert!(
    NUMBER_KINDS[1] as u8 == NUMBER_KINDS[0] as u8 + 1
        && NUMBER_KINDS[2] as u8 == NUMBER_KINDS[1] as u8 + 1
);

/// Finds the bounds of a number by bisection, with the very comparison they replace. `None` if
/// the stretch holds no numbers at all.
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

/// The ids of what is earlier or later than a constant in every timezone. What is closer is
/// compared by value, which knows where the order is undefined.
fn temporal_bounds(constant: Temporal) -> Option<(TermKind, Bounds)> {
    /// More than the 14 hours that an unknown timezone can make, each way.
    const MARGIN_SECONDS: i64 = 2 * 24 * 60 * 60;
    let (earlier, later) = match constant {
        Temporal::GYear(year) => {
            // The first of a year's ids is that of the easternmost timezone.
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
