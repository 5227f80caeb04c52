//! The days of the data set, formatted once.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// Days from the beginning of 2000 to the data set's current day, 2008-06-20.
pub(super) const TODAY: u32 = 3093;

/// Days of product types and features: a month, eight years ago.
pub(super) const STANDARD_DAYS: RangeInclusive<u32> = TODAY - 2922..=TODAY - 2890;
pub(super) const PRODUCER_DAYS: RangeInclusive<u32> = TODAY - 2800..=TODAY - 1069;
pub(super) const PRODUCT_DAYS: RangeInclusive<u32> = TODAY - 2800..=TODAY - 515;
/// Days of vendors and offers.
pub(super) const OFFER_DAYS: RangeInclusive<u32> = TODAY - 97..=TODAY - 1;
pub(super) const REVIEW_DAYS: RangeInclusive<u32> = TODAY - 365..=TODAY - 1;
pub(super) const REVIEWER_DAYS: RangeInclusive<u32> = TODAY..=TODAY + 94;

const YEARS: RangeInclusive<u32> = 2000..=2009;
const DATE_BYTES: usize = 10;

static DATES: LazyLock<Vec<[u8; DATE_BYTES]>> = LazyLock::new(|| {
    let mut dates = Vec::new();
    for year in YEARS {
        let february = if year % 4 == 0 { 29 } else { 28 };
        let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (month, days) in (1..).zip(months) {
            for day in 1..=days {
                let text = format!("{year}-{month:02}-{day:02}");
                dates.push(text.as_bytes().try_into().expect("ten characters"));
            }
        }
    }
    dates
});

/// Dates by their number of days since the beginning of 2000.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dates(&'static [[u8; DATE_BYTES]]);

impl Dates {
    pub(super) fn new() -> Self {
        Self(&DATES)
    }

    #[inline]
    pub(super) fn text(self, day: u32) -> &'static [u8; DATE_BYTES] {
        &self.0[day as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let dates = Dates::new();
        for (day, text) in [
            (0, "2000-01-01"),
            (59, "2000-02-29"),
            (TODAY, "2008-06-20"),
            (*STANDARD_DAYS.start(), "2000-06-20"),
            (*STANDARD_DAYS.end(), "2000-07-22"),
            (*PRODUCT_DAYS.start(), "2000-10-20"),
            (*PRODUCT_DAYS.end(), "2007-01-22"),
            (*OFFER_DAYS.start(), "2008-03-15"),
            (*REVIEW_DAYS.start(), "2007-06-21"),
            (*REVIEWER_DAYS.end(), "2008-09-22"),
        ] {
            assert_eq!(dates.text(day), text.as_bytes());
        }
    }
}
