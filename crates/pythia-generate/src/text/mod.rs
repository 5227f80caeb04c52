//! Realistic text: a vocabulary as large as the official generator's and with its word lengths,
//! sentences of random words, and names of people.

mod morphology;
pub(crate) mod names;
mod stems;
mod vocabulary;

pub use vocabulary::Vocabulary;

/// Appends a number in decimal.
#[inline]
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::push_number;

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 7, 10, 1234, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
