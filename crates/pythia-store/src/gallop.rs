//! Search in sorted rows near their beginning.

use std::ops::Range;

/// Returns the index of the first of the sorted keys that is at least `key`, in time logarithmic in its
/// distance.
#[inline]
pub fn gallop<K: Ord>(keys: &[K], key: K) -> usize {
    if keys.first().is_none_or(|first| *first >= key) {
        return 0;
    }
    gallop_rows(1..keys.len(), 1, |index| keys[index] < key)
}

/// Returns the first row of a range for which `is_before` is false, or its end; rows for which it is true come first. The
/// steps start at `first_step` rows and double, so the time is logarithmic in the distance.
#[inline]
pub(crate) fn gallop_rows(
    rows: Range<usize>,
    first_step: usize,
    is_before: impl Fn(usize) -> bool,
) -> usize {
    let Range { mut start, mut end } = rows;
    let mut step = first_step;
    while start + step <= end {
        let last = start + step - 1;
        if !is_before(last) {
            end = last;
            break;
        }
        start += step;
        step *= 2;
    }
    while start < end {
        let middle = usize::midpoint(start, end);
        match is_before(middle) {
            true => start = middle + 1,
            false => end = middle,
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::{gallop, gallop_rows};

    #[test]
    fn gallop_finds_the_first_at_least() {
        let keys = [2, 2, 4, 8, 8, 8, 9, 20, 21, 22, 30];
        for key in 0..40 {
            assert_eq!(
                gallop(&keys, key),
                keys.partition_point(|k| *k < key),
                "{key}"
            );
            for (first_step, start) in
                (1..20).flat_map(|step| (0..=keys.len()).map(move |start| (step, start)))
            {
                let expected = start + keys[start..].partition_point(|k| *k < key);
                let found = gallop_rows(start..keys.len(), first_step, |row| keys[row] < key);
                assert_eq!(
                    found, expected,
                    "{key} from {start} in steps of {first_step}"
                );
            }
        }
        assert_eq!(gallop(&[], 3), 0);
    }
}
