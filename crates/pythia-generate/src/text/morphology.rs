//! Regular spelling rules of English for inflections and derivations.

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u')
}

fn ends_with_consonant_and_y(word: &str) -> bool {
    match word.as_bytes() {
        [.., before, b'y'] => !is_vowel(*before),
        _ => false,
    }
}

/// Returns whether a short word doubles its last consonant after a single vowel: stop, stopping.
fn doubles(word: &str) -> bool {
    match word.as_bytes() {
        [rest @ .., before, vowel, last] => {
            is_vowel(*vowel)
                && !is_vowel(*before)
                && !is_vowel(*last)
                && !matches!(last, b'w' | b'x' | b'y')
                && !rest.iter().any(|&letter| is_vowel(letter))
        }
        _ => false,
    }
}

/// Forms the plural of nouns, and the third person of verbs: `horse`, `horses`.
pub(super) fn with_s(word: &str) -> String {
    if ends_with_consonant_and_y(word) {
        return format!("{}ies", &word[..word.len() - 1]);
    }
    let hissing = ["s", "x", "z", "ch", "sh"];
    if hissing.iter().any(|end| word.ends_with(end)) {
        format!("{word}es")
    } else {
        format!("{word}s")
    }
}

/// Appends a suffix that begins with a vowel: `ed`, `er`, `est`, `ing`, `able`.
pub(super) fn with_vowel_suffix(word: &str, suffix: &str) -> String {
    let starts_with_i = suffix.starts_with('i');
    if ends_with_consonant_and_y(word) && !starts_with_i {
        return format!("{}i{suffix}", &word[..word.len() - 1]);
    }
    if word.ends_with('e') && !word.ends_with("ee") && !word.ends_with("oe") {
        return format!("{}{suffix}", &word[..word.len() - 1]);
    }
    if doubles(word) {
        let last = &word[word.len() - 1..];
        return format!("{word}{last}{suffix}");
    }
    format!("{word}{suffix}")
}

/// Appends a suffix that begins with a consonant: `ness`, `less`, `ful`.
pub(super) fn with_consonant_suffix(word: &str, suffix: &str) -> String {
    if ends_with_consonant_and_y(word) {
        format!("{}i{suffix}", &word[..word.len() - 1])
    } else {
        format!("{word}{suffix}")
    }
}

/// Forms the adverb: `simple`, `simply`.
pub(super) fn adverb(adjective: &str) -> String {
    let before_e = adjective.len() - 1;
    if adjective.ends_with("le") && !is_vowel(adjective.as_bytes()[before_e - 2]) {
        format!("{}y", &adjective[..before_e])
    } else if adjective.ends_with("ic") {
        format!("{adjective}ally")
    } else if adjective.ends_with("ll") {
        format!("{adjective}y")
    } else {
        with_consonant_suffix(adjective, "ly")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_spelled_as_in_english() {
        assert_eq!(with_s("horse"), "horses");
        assert_eq!(with_s("bench"), "benches");
        assert_eq!(with_s("berry"), "berries");
        assert_eq!(with_s("day"), "days");
        assert_eq!(with_vowel_suffix("stop", "ing"), "stopping");
        assert_eq!(with_vowel_suffix("bake", "ed"), "baked");
        assert_eq!(with_vowel_suffix("agree", "ing"), "agreeing");
        assert_eq!(with_vowel_suffix("carry", "ed"), "carried");
        assert_eq!(with_vowel_suffix("carry", "ing"), "carrying");
        assert_eq!(with_vowel_suffix("clean", "er"), "cleaner");
        assert_eq!(with_vowel_suffix("gallop", "ed"), "galloped");
        assert_eq!(with_consonant_suffix("happy", "ness"), "happiness");
        assert_eq!(adverb("simple"), "simply");
        assert_eq!(adverb("pale"), "palely");
        assert_eq!(adverb("cosmic"), "cosmically");
        assert_eq!(adverb("full"), "fully");
        assert_eq!(adverb("bright"), "brightly");
    }
}
