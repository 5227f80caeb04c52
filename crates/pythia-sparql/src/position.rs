//! Positions in a text: bytes, lines and columns.

use crate::error::SparqlError;

/// Returns an error at a byte of the text.
pub(crate) fn syntax(text: &str, at: usize, message: impl Into<String>) -> SparqlError {
    let (line, column) = place_of(text, at);
    SparqlError::Syntax {
        line,
        column,
        message: message.into(),
    }
}

/// Returns the line and column, from 1, of a byte of the text.
pub(crate) fn place_of(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..byte];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

/// Line numbers of byte positions that are requested in ascending order.
pub(crate) struct Lines<'t> {
    text: &'t str,
    /// Last requested byte, and its line.
    byte: usize,
    line: usize,
    #[cfg(test)]
    bytes_read: usize,
}

impl<'t> Lines<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        Self {
            text,
            byte: 0,
            line: 1,
            #[cfg(test)]
            bytes_read: 0,
        }
    }

    /// Returns the line, from 1, of a byte of the text. Reads only the bytes since the last requested
    /// position.
    pub(crate) fn of_byte(&mut self, byte: usize) -> usize {
        if byte < self.byte {
            (self.byte, self.line) = (0, 1);
        }
        let between = &self.text.as_bytes()[self.byte..byte];
        self.line += between.iter().filter(|byte| **byte == b'\n').count();
        self.byte = byte;
        #[cfg(test)]
        {
            self.bytes_read += between.len();
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_many_places_are_found_in_one_pass() {
        let text = "CLEAR ALL;\n\nCLEAR DEFAULT; # é\n".repeat(1000);
        let mut lines = Lines::of(&text);
        let starts: Vec<usize> = text.match_indices("CLEAR").map(|(at, _)| at).collect();
        for start in &starts {
            assert_eq!(lines.of_byte(*start), place_of(&text, *start).0);
        }
        assert!(lines.bytes_read <= text.len());
        assert_eq!(lines.of_byte(starts[3]), 6);
    }
}
