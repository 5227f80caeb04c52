//! Search in sorted keys near their beginning.

/// Returns the index of the first of the sorted keys that is at least `key`, in time logarithmic in its
/// distance.
pub fn gallop<K: Ord>(keys: &[K], key: K) -> usize {
    if keys.first().is_none_or(|first| *first >= key) {
        return 0;
    }
    let mut step = 1;
    while step < keys.len() && keys[step] < key {
        step *= 2;
    }
    let from = step / 2;
    let to = (step + 1).min(keys.len());
    from + keys[from..to].partition_point(|k| *k < key)
}

#[cfg(test)]
mod tests {
    use super::gallop;

    #[test]
    fn gallop_finds_the_first_at_least() {
        let keys = [2, 2, 4, 8, 8, 8, 9, 20, 21, 22, 30];
        for key in 0..40 {
            assert_eq!(
                gallop(&keys, key),
                keys.partition_point(|k| *k < key),
                "{key}"
            );
        }
        assert_eq!(gallop(&[], 3), 0);
    }
}
