//! Costs of paths: numbers of edges, or sums of weights, exact to 18 decimal places.

use oxrdf::Literal;
use oxrdf::vocab::xsd;
use oxsdatatypes::Decimal;

use crate::error::QueryError;
use crate::expression::{Number, written_units};

/// Fixed-point unit of weights: [`Decimal`] has 18 decimal places.
const UNIT: i128 = 1_000_000_000_000_000_000;

/// The cost of an edge or a path: a number of edges, or a weight in units of 10⁻¹⁸.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost(i128);

impl Cost {
    /// Cost of a path without edges.
    pub(crate) const ZERO: Self = Self(0);
    /// Cost of an edge in an unweighted search.
    pub(crate) const EDGE: Self = Self(1);
    /// Cost of an edge without a valid weight; less than all others.
    pub(crate) const FAULT: Self = Self(i128::MIN);

    /// Returns the cost of `count` edges in an unweighted search.
    pub(crate) fn edges(count: u32) -> Self {
        Self(i128::from(count))
    }

    /// Returns the cost of a weight, or `None` if it is negative, not a number, or too large.
    pub(crate) fn of(weight: Number) -> Option<Self> {
        let raw = written_units(weight)?;
        (raw >= 0).then_some(Self(raw))
    }

    /// Returns the cost that orders before another if this one is greater.
    pub(crate) fn reversed(self) -> Self {
        Self(-self.0)
    }

    /// Adds two costs.
    pub(crate) fn plus(self, other: Self) -> Result<Self, QueryError> {
        self.0.checked_add(other.0).map(Self).ok_or_else(|| {
            QueryError::Path("a path costs more than the largest xsd:decimal".to_owned())
        })
    }

    /// Returns the cost as a literal: `xsd:integer` if it is whole, otherwise `xsd:decimal`.
    pub(crate) fn literal(self, weighted: bool) -> Literal {
        let whole = if weighted { self.0 / UNIT } else { self.0 };
        if !weighted || self.0 % UNIT == 0 {
            return Literal::new_typed_literal(whole.to_string(), xsd::INTEGER);
        }
        let exact = Decimal::from_be_bytes(self.0.to_be_bytes());
        Literal::new_typed_literal(exact.to_string(), xsd::DECIMAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::str::FromStr;

    fn cost(text: &str) -> Cost {
        Cost::of(Number::Decimal(Decimal::from_str(text).unwrap())).unwrap()
    }

    #[test]
    fn decimals_add_up_exactly() {
        let sum = cost("0.1").plus(cost("0.2")).unwrap();
        assert_eq!(sum, cost("0.3"));
        assert_eq!(sum.literal(true).value(), "0.3");
        assert_eq!(cost("2.0").literal(true).datatype(), xsd::INTEGER);
        assert_eq!(Cost::EDGE.literal(false).value(), "1");
        assert!(Cost::of(Number::from_i64(-1)).is_none());
    }

    #[test]
    fn doubles_and_floats_cost_what_is_written() {
        for value in [0.1, 0.3, 1e6, 65_535.0, 1e18, 1e20] {
            let written = cost(&value.to_string());
            assert_eq!(Cost::of(Number::Double(value.into())), Some(written));
        }
        assert_eq!(Cost::of(Number::Float(0.1.into())), Some(cost("0.1")));
        for value in [f64::NAN, f64::INFINITY, -0.1, 1e21] {
            assert!(Cost::of(Number::Double(value.into())).is_none(), "{value}");
        }
    }

    #[test]
    fn costs_have_an_end() {
        assert!(Cost(i128::MAX).plus(Cost::EDGE).is_err());
    }
}
