//! Parts of a data set.

use crate::GenerateError;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// One of several parts of about equal size. The parts in order are the whole data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    number: u32,
    parts: u32,
}

impl Part {
    /// The whole data set as its only part.
    pub const WHOLE: Self = Self {
        number: 1,
        parts: 1,
    };

    /// Selects part `number` of `1..=parts`.
    pub fn new(number: u32, parts: u32) -> Result<Self, GenerateError> {
        if number == 0 || number > parts {
            return Err(GenerateError::config(
                "the part",
                format_args!("{number}/{parts}"),
                "from 1 to the number of parts",
            ));
        }
        Ok(Self { number, parts })
    }

    /// Returns all parts, in order.
    pub fn all(parts: u32) -> impl Iterator<Item = Self> {
        (1..=parts).map(move |number| Self { number, parts })
    }

    /// Returns the number of this part, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns the number of parts.
    pub fn parts(self) -> u32 {
        self.parts
    }

    /// Returns this part of `0..total`.
    pub(crate) fn of(self, total: u128) -> Range<u128> {
        let cut = |number: u32| total * u128::from(number) / u128::from(self.parts);
        cut(self.number - 1)..cut(self.number)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.parts)
    }
}

/// Reads `3/8`.
impl FromStr for Part {
    type Err = GenerateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || GenerateError::config("the part", text, "of the form 3/8");
        let (number, parts) = text.split_once('/').ok_or_else(error)?;
        Self::new(
            number.parse().map_err(|_| error())?,
            parts.parse().map_err(|_| error())?,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_whole() {
        let mut next = 0;
        for part in Part::all(7) {
            let range = part.of(100);
            assert_eq!(range.start, next);
            next = range.end;
        }
        assert_eq!(next, 100);
        assert_eq!(Part::WHOLE.of(100), 0..100);
    }

    #[test]
    fn parts_are_read_and_shown() {
        let part: Part = "3/8".parse().expect("well formed");
        assert_eq!((part.number(), part.parts()), (3, 8));
        assert_eq!(part.to_string(), "3/8");
        for bad in ["", "3", "0/8", "9/8", "a/b", "1/0", "-1/2", "1/2/3"] {
            assert!(bad.parse::<Part>().is_err(), "{bad}");
        }
    }
}
