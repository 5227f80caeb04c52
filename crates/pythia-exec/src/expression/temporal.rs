//! Dates, times and durations: parsing by datatype, comparison, components and arithmetic.
//!
//! Two points in time compare only if both or neither have a timezone, or if they lie more than
//! 14 hours apart (XSD 1.1 §3.3.7); otherwise the comparison is an error.

use std::cmp::Ordering;

use oxrdf::Literal;
use oxrdf::NamedNodeRef;
use oxrdf::vocab::xsd;
use oxsdatatypes::{
    Date, DateTime, DayTimeDuration, Decimal, Duration, GDay, GMonth, GMonthDay, GYear, GYearMonth,
    Integer, Time, TimezoneOffset, YearMonthDuration,
};

/// A point in, or a recurring part of, the calendar.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the variants are XSD's types")]
pub enum Temporal {
    DateTime(DateTime),
    Date(Date),
    Time(Time),
    GYear(GYear),
    GYearMonth(GYearMonth),
    GMonth(GMonth),
    GMonthDay(GMonthDay),
    GDay(GDay),
}

/// One of XSD's three duration types.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the variants are XSD's types")]
pub enum AnyDuration {
    Duration(Duration),
    YearMonth(YearMonthDuration),
    DayTime(DayTimeDuration),
}

/// The parts of a date or time that `YEAR`, `MONTH` etc. return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are SPARQL's functions")]
pub enum Component {
    Year,
    Month,
    Day,
    Hours,
    Minutes,
}

/// Evaluates an expression with the value inside a [`Temporal`] of any type.
macro_rules! with_temporal {
    ($temporal:expr, $value:ident => $result:expr) => {
        match $temporal {
            Temporal::DateTime($value) => $result,
            Temporal::Date($value) => $result,
            Temporal::Time($value) => $result,
            Temporal::GYear($value) => $result,
            Temporal::GYearMonth($value) => $result,
            Temporal::GMonth($value) => $result,
            Temporal::GMonthDay($value) => $result,
            Temporal::GDay($value) => $result,
        }
    };
}

impl Temporal {
    /// Parses a literal of this datatype; `None` for another datatype or an invalid lexical form.
    pub fn parse(lexical: &str, datatype: &str) -> Option<Self> {
        let datatype = NamedNodeRef::new_unchecked(datatype);
        Some(match datatype {
            xsd::DATE_TIME => Self::DateTime(lexical.parse().ok()?),
            xsd::DATE_TIME_STAMP => {
                let value: DateTime = lexical.parse().ok()?;
                value.timezone_offset()?;
                Self::DateTime(value)
            }
            xsd::DATE => Self::Date(lexical.parse().ok()?),
            xsd::TIME => Self::Time(lexical.parse().ok()?),
            xsd::G_YEAR => Self::GYear(lexical.parse().ok()?),
            xsd::G_YEAR_MONTH => Self::GYearMonth(lexical.parse().ok()?),
            xsd::G_MONTH => Self::GMonth(lexical.parse().ok()?),
            xsd::G_MONTH_DAY => Self::GMonthDay(parse_month_day(lexical)?),
            xsd::G_DAY => Self::GDay(lexical.parse().ok()?),
            _ => return None,
        })
    }

    /// Returns the datatype of the canonical literal.
    pub fn datatype(self) -> NamedNodeRef<'static> {
        match self {
            Self::DateTime(_) => xsd::DATE_TIME,
            Self::Date(_) => xsd::DATE,
            Self::Time(_) => xsd::TIME,
            Self::GYear(_) => xsd::G_YEAR,
            Self::GYearMonth(_) => xsd::G_YEAR_MONTH,
            Self::GMonth(_) => xsd::G_MONTH,
            Self::GMonthDay(_) => xsd::G_MONTH_DAY,
            Self::GDay(_) => xsd::G_DAY,
        }
    }

    /// Returns the canonical literal.
    pub fn to_literal(self) -> Literal {
        Literal::new_typed_literal(
            with_temporal!(self, value => value.to_string()),
            self.datatype(),
        )
    }

    /// Returns the seconds on the timeline (UTC, or local without a timezone) in units of 10⁻¹⁸, and
    /// whether there is a timezone. Sorts like the `<` operator where that is defined.
    pub fn instant(self) -> (i128, bool) {
        let bytes = with_temporal!(self, value => value.to_be_bytes());
        let mut seconds = [0; 16];
        seconds.copy_from_slice(&bytes[..16]);
        (
            i128::from_be_bytes(seconds),
            self.timezone_offset().is_some(),
        )
    }

    /// Returns the timezone's offset from UTC.
    pub fn timezone_offset(self) -> Option<TimezoneOffset> {
        with_temporal!(self, value => value.timezone_offset())
    }

    /// Returns the timezone's offset from UTC as a duration, for `TIMEZONE`.
    pub fn timezone(self) -> Option<DayTimeDuration> {
        with_temporal!(self, value => value.timezone())
    }

    /// Returns a component; `None` if this type does not have it.
    pub fn component(self, component: Component) -> Option<Integer> {
        use Component as C;
        Some(match (component, self) {
            (C::Year, Self::DateTime(v)) => v.year().into(),
            (C::Year, Self::Date(v)) => v.year().into(),
            (C::Year, Self::GYear(v)) => v.year().into(),
            (C::Year, Self::GYearMonth(v)) => v.year().into(),
            (C::Month, Self::DateTime(v)) => v.month().into(),
            (C::Month, Self::Date(v)) => v.month().into(),
            (C::Month, Self::GYearMonth(v)) => v.month().into(),
            (C::Month, Self::GMonth(v)) => v.month().into(),
            (C::Month, Self::GMonthDay(v)) => v.month().into(),
            (C::Day, Self::DateTime(v)) => v.day().into(),
            (C::Day, Self::Date(v)) => v.day().into(),
            (C::Day, Self::GMonthDay(v)) => v.day().into(),
            (C::Day, Self::GDay(v)) => v.day().into(),
            (C::Hours, Self::DateTime(v)) => v.hour().into(),
            (C::Hours, Self::Time(v)) => v.hour().into(),
            (C::Minutes, Self::DateTime(v)) => v.minute().into(),
            (C::Minutes, Self::Time(v)) => v.minute().into(),
            _ => return None,
        })
    }

    /// Returns the seconds with their fraction.
    pub fn seconds(self) -> Option<Decimal> {
        match self {
            Self::DateTime(v) => Some(v.second()),
            Self::Time(v) => Some(v.second()),
            _ => None,
        }
    }

    /// Returns the time between two points of one type.
    pub fn subtract(self, other: Self) -> Option<DayTimeDuration> {
        match (self, other) {
            (Self::DateTime(a), Self::DateTime(b)) => a.checked_sub(b),
            (Self::Date(a), Self::Date(b)) => a.checked_sub(b),
            (Self::Time(a), Self::Time(b)) => a.checked_sub(b),
            _ => None,
        }
    }

    /// Adds a duration.
    pub fn add_duration(self, duration: AnyDuration) -> Option<Self> {
        use AnyDuration as D;
        Some(match (self, duration) {
            (Self::DateTime(v), d) => Self::DateTime(v.checked_add_duration(d.to_duration())?),
            (Self::Date(v), d) => Self::Date(v.checked_add_duration(d.to_duration())?),
            (Self::Time(v), D::DayTime(d)) => Self::Time(v.checked_add_day_time_duration(d)?),
            (Self::Time(v), D::Duration(d)) => Self::Time(v.checked_add_duration(d)?),
            _ => return None,
        })
    }

    /// Subtracts a duration.
    pub fn subtract_duration(self, duration: AnyDuration) -> Option<Self> {
        use AnyDuration as D;
        Some(match (self, duration) {
            (Self::DateTime(v), d) => Self::DateTime(v.checked_sub_duration(d.to_duration())?),
            (Self::Date(v), d) => Self::Date(v.checked_sub_duration(d.to_duration())?),
            (Self::Time(v), D::DayTime(d)) => Self::Time(v.checked_sub_day_time_duration(d)?),
            (Self::Time(v), D::Duration(d)) => Self::Time(v.checked_sub_duration(d)?),
            _ => return None,
        })
    }

    /// Evaluates `=`: values of different types differ; `None` if the result depends on an unknown
    /// timezone.
    pub fn equals(self, other: Self) -> Option<bool> {
        if self.datatype() != other.datatype() {
            return Some(false);
        }
        self.compare(other).map(Ordering::is_eq)
    }

    /// Compares for `<`: `None` if the types differ or the order is unknown.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::DateTime(a), Self::DateTime(b)) => a.partial_cmp(&b),
            (Self::Date(a), Self::Date(b)) => a.partial_cmp(&b),
            (Self::Time(a), Self::Time(b)) => a.partial_cmp(&b),
            (Self::GYear(a), Self::GYear(b)) => a.partial_cmp(&b),
            (Self::GYearMonth(a), Self::GYearMonth(b)) => a.partial_cmp(&b),
            (Self::GMonth(a), Self::GMonth(b)) => a.partial_cmp(&b),
            (Self::GMonthDay(a), Self::GMonthDay(b)) => a.partial_cmp(&b),
            (Self::GDay(a), Self::GDay(b)) => a.partial_cmp(&b),
            _ => None,
        }
    }

    /// Casts to another calendar type (XPath F&O §19.1.5).
    pub fn cast(self, datatype: NamedNodeRef<'_>) -> Option<Self> {
        use Temporal as T;
        if self.datatype() == datatype {
            return Some(self);
        }
        Some(match (datatype, self) {
            (xsd::DATE_TIME, T::Date(v)) => T::DateTime(v.try_into().ok()?),
            (xsd::DATE, T::DateTime(v)) => T::Date(v.try_into().ok()?),
            (xsd::TIME, T::DateTime(v)) => T::Time(v.into()),
            (xsd::G_YEAR, T::DateTime(v)) => T::GYear(v.try_into().ok()?),
            (xsd::G_YEAR, T::Date(v)) => T::GYear(v.try_into().ok()?),
            (xsd::G_YEAR, T::GYearMonth(v)) => T::GYear(v.try_into().ok()?),
            (xsd::G_YEAR_MONTH, T::DateTime(v)) => T::GYearMonth(v.try_into().ok()?),
            (xsd::G_YEAR_MONTH, T::Date(v)) => T::GYearMonth(v.into()),
            (xsd::G_MONTH, T::DateTime(v)) => T::GMonth(v.into()),
            (xsd::G_MONTH, T::Date(v)) => T::GMonth(v.into()),
            (xsd::G_MONTH, T::GYearMonth(v)) => T::GMonth(v.into()),
            (xsd::G_MONTH, T::GMonthDay(v)) => T::GMonth(v.into()),
            (xsd::G_MONTH_DAY, T::DateTime(v)) => T::GMonthDay(v.into()),
            (xsd::G_MONTH_DAY, T::Date(v)) => T::GMonthDay(v.into()),
            (xsd::G_DAY, T::DateTime(v)) => T::GDay(v.into()),
            (xsd::G_DAY, T::Date(v)) => T::GDay(v.into()),
            (xsd::G_DAY, T::GMonthDay(v)) => T::GDay(v.into()),
            _ => return None,
        })
    }
}

/// Parses a `gMonthDay`. The parser of `oxsdatatypes` rejects the leap day, which XSD allows.
fn parse_month_day(lexical: &str) -> Option<GMonthDay> {
    match lexical.strip_prefix("--02-29") {
        Some(timezone) => {
            let date: Date = format!("2000-02-29{timezone}").parse().ok()?;
            Some(date.into())
        }
        None => lexical.parse().ok(),
    }
}

impl AnyDuration {
    /// Parses a literal of this datatype; `None` for another datatype or an invalid form.
    pub fn parse(lexical: &str, datatype: &str) -> Option<Self> {
        Some(match NamedNodeRef::new_unchecked(datatype) {
            xsd::DURATION => Self::Duration(lexical.parse().ok()?),
            xsd::YEAR_MONTH_DURATION => Self::YearMonth(lexical.parse().ok()?),
            xsd::DAY_TIME_DURATION => Self::DayTime(lexical.parse().ok()?),
            _ => return None,
        })
    }

    /// Returns the datatype of the canonical literal.
    pub fn datatype(self) -> NamedNodeRef<'static> {
        match self {
            Self::Duration(_) => xsd::DURATION,
            Self::YearMonth(_) => xsd::YEAR_MONTH_DURATION,
            Self::DayTime(_) => xsd::DAY_TIME_DURATION,
        }
    }

    /// Returns the canonical literal.
    pub fn to_literal(self) -> Literal {
        let lexical = match self {
            Self::Duration(v) => v.to_string(),
            Self::YearMonth(v) => v.to_string(),
            Self::DayTime(v) => v.to_string(),
        };
        Literal::new_typed_literal(lexical, self.datatype())
    }

    /// Returns the same duration as the general type.
    pub fn to_duration(self) -> Duration {
        match self {
            Self::Duration(v) => v,
            Self::YearMonth(v) => v.into(),
            Self::DayTime(v) => v.into(),
        }
    }

    /// Adds two durations. Two of the same special type keep that type.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::YearMonth(a), Self::YearMonth(b)) => Self::YearMonth(a.checked_add(b)?),
            (Self::DayTime(a), Self::DayTime(b)) => Self::DayTime(a.checked_add(b)?),
            (a, b) => Self::Duration(a.to_duration().checked_add(b.to_duration())?),
        })
    }

    /// Subtracts a duration.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::YearMonth(a), Self::YearMonth(b)) => Self::YearMonth(a.checked_sub(b)?),
            (Self::DayTime(a), Self::DayTime(b)) => Self::DayTime(a.checked_sub(b)?),
            (a, b) => Self::Duration(a.to_duration().checked_sub(b.to_duration())?),
        })
    }

    /// Negates the duration.
    pub fn negate(self) -> Option<Self> {
        Some(match self {
            Self::Duration(v) => Self::Duration(v.checked_neg()?),
            Self::YearMonth(v) => Self::YearMonth(v.checked_neg()?),
            Self::DayTime(v) => Self::DayTime(v.checked_neg()?),
        })
    }

    /// Casts to another duration type, dropping the part that the target does not have.
    pub fn cast(self, datatype: NamedNodeRef<'_>) -> Option<Self> {
        let (months, seconds) = self.parts();
        Some(match datatype {
            xsd::DURATION => Self::Duration(self.to_duration()),
            xsd::YEAR_MONTH_DURATION => Self::YearMonth(YearMonthDuration::new(months)),
            xsd::DAY_TIME_DURATION => Self::DayTime(DayTimeDuration::new(seconds)),
            _ => return None,
        })
    }

    /// Returns the months including years, and the seconds including days.
    fn parts(self) -> (i64, Decimal) {
        let bytes = self.to_duration().to_be_bytes();
        let (mut months, mut seconds) = ([0; 8], [0; 16]);
        months.copy_from_slice(&bytes[..8]);
        seconds.copy_from_slice(&bytes[8..]);
        (i64::from_be_bytes(months), Decimal::from_be_bytes(seconds))
    }

    /// Returns a key for a total order: the length with months of the mean Gregorian length, then the
    /// months.
    pub fn order_key(self) -> (i128, i64) {
        /// 365.2425 days / 12.
        const MONTH_SECONDS: i128 = 2_629_746;
        const SECOND: i128 = 1_000_000_000_000_000_000;
        let (months, seconds) = self.parts();
        let length = i128::from(months)
            .saturating_mul(MONTH_SECONDS * SECOND)
            .saturating_add(i128::from_be_bytes(seconds.to_be_bytes()));
        (length, months)
    }
}

impl PartialEq for AnyDuration {
    fn eq(&self, other: &Self) -> bool {
        self.to_duration() == other.to_duration()
    }
}

impl PartialOrd for AnyDuration {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.to_duration().partial_cmp(&other.to_duration())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date_time(text: &str) -> Temporal {
        Temporal::parse(text, xsd::DATE_TIME.as_str()).expect("a dateTime")
    }

    #[test]
    fn comparison_is_unknown_within_fourteen_hours_of_an_unknown_timezone() {
        let local = date_time("2024-05-01T12:00:00");
        let close = date_time("2024-05-01T13:00:00Z");
        let far = date_time("2024-05-03T00:00:00Z");
        assert_eq!(local.compare(close), None);
        assert_eq!(local.compare(far), Some(Ordering::Less));
        assert!(local.instant() < far.instant());
    }

    #[test]
    fn instants_are_in_utc() {
        let a = date_time("2024-05-01T12:00:00+02:00");
        let b = date_time("2024-05-01T10:00:00Z");
        assert_eq!(a.instant(), b.instant());
        assert_eq!(a.equals(b), Some(true));
    }

    #[test]
    fn duration_order_key_has_months_first_in_its_bytes() {
        let year = AnyDuration::parse("P1Y", xsd::DURATION.as_str()).expect("a duration");
        let day = AnyDuration::parse("P1D", xsd::DURATION.as_str()).expect("a duration");
        assert_eq!(year.order_key().1, 12);
        assert_eq!(day.order_key(), (86_400 * 1_000_000_000_000_000_000, 0));
        assert!(day.order_key() < year.order_key());
    }
}
