//! The vocabulary: 89,529 different words of 2 to 22 letters, all equally frequent.
//!
//! Number and lengths are those of the official generator's dictionary (in its 1 M file); the words are not. They grow
//! from hand-written stems: first the stems, then inflections, derivations and compounds, and, if English has too few
//! words of a length, words of syllables.

use super::morphology::{adverb, with_consonant_suffix, with_s, with_vowel_suffix};
use super::stems::{ADJECTIVES, NOUNS, PREFIXES, VERBS};
use crate::random::{Stream, scale_u32};
use std::collections::HashSet;
use std::sync::LazyLock;

const LENGTH_MIN: usize = 2;
const LENGTH_MAX: usize = 22;

/// Number of words of each length, from [`LENGTH_MIN`] letters on.
const WORDS_BY_LENGTH: [usize; LENGTH_MAX - LENGTH_MIN + 1] = [
    54, 260, 1289, 4306, 8371, 13644, 16581, 14253, 10350, 7476, 5336, 3456, 2023, 1137, 564, 224,
    107, 49, 31, 12, 6,
];

/// A word with the space after it; the last byte is its number of letters.
const SLOT_BYTES: usize = 24;
type Slot = [u8; SLOT_BYTES];

/// All words that texts are made of.
#[derive(Debug)]
pub struct Vocabulary {
    slots: Vec<Slot>,
}

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(Vocabulary::grow);

impl Vocabulary {
    /// Returns the only vocabulary; the first call builds it in some ten milliseconds.
    pub fn get() -> &'static Self {
        &VOCABULARY
    }

    /// Returns the number of words.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns a word by its number, below [`len`](Self::len).
    pub fn word(&self, number: usize) -> &str {
        let slot = &self.slots[number];
        let letters = usize::from(slot[SLOT_BYTES - 1]);
        std::str::from_utf8(&slot[..letters]).expect("words are ASCII")
    }

    /// Returns all words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|number| self.word(number))
    }

    /// Appends `count` (at least one) random words separated by spaces.
    #[inline]
    pub(crate) fn push_text(&self, random: &mut Stream, count: u32, out: &mut Vec<u8>) {
        let mut bits = 0;
        for number in 0..count {
            // One draw makes two words.
            bits = if number % 2 == 0 {
                random.next()
            } else {
                bits >> 32
            };
            let slot = &self.slots[scale_u32(bits as u32, self.slots.len() as u32) as usize];
            let end = out.len() + usize::from(slot[SLOT_BYTES - 1]) + 1;
            // Copying a fixed number of bytes and truncating is faster than copying just the word.
            out.extend_from_slice(slot);
            out.truncate(end);
        }
        out.pop();
    }

    fn grow() -> Self {
        let mut growth = Growth::default();
        growth.add_stems();
        growth.add_inflections();
        growth.add_derivations();
        growth.add_compounds();
        growth.add_syllables();
        Self {
            slots: growth.slots,
        }
    }
}

/// A vocabulary under construction, with the number of missing words of each length.
#[derive(Default)]
struct Growth {
    slots: Vec<Slot>,
    known: HashSet<String>,
    count_by_length: [usize; WORDS_BY_LENGTH.len()],
}

impl Growth {
    fn missing(&self, length: usize) -> usize {
        if (LENGTH_MIN..=LENGTH_MAX).contains(&length) {
            WORDS_BY_LENGTH[length - LENGTH_MIN] - self.count_by_length[length - LENGTH_MIN]
        } else {
            0
        }
    }

    /// Adds a word if it is new and words of its length are still missing.
    fn offer(&mut self, word: String) -> bool {
        if self.missing(word.len()) == 0 || self.known.contains(&word) {
            return false;
        }
        let mut slot = [b' '; SLOT_BYTES];
        slot[..word.len()].copy_from_slice(word.as_bytes());
        slot[SLOT_BYTES - 1] = word.len() as u8;
        self.slots.push(slot);
        self.count_by_length[word.len() - LENGTH_MIN] += 1;
        self.known.insert(word)
    }

    fn add_stems(&mut self) {
        for stems in [NOUNS, VERBS, ADJECTIVES] {
            for stem in stems.split_whitespace() {
                self.offer(stem.to_owned());
            }
        }
    }

    fn add_inflections(&mut self) {
        for noun in NOUNS.split_whitespace() {
            self.offer(with_s(noun));
            for suffix in ["less", "like", "ful", "ship"] {
                self.offer(with_consonant_suffix(noun, suffix));
            }
        }
        for verb in VERBS.split_whitespace() {
            self.offer(with_s(verb));
            for suffix in ["ed", "ing", "er", "ers", "able", "ingly"] {
                self.offer(with_vowel_suffix(verb, suffix));
            }
        }
        for adjective in ADJECTIVES.split_whitespace() {
            self.offer(adverb(adjective));
            self.offer(with_consonant_suffix(adjective, "ness"));
            if adjective.len() <= 6 {
                self.offer(with_vowel_suffix(adjective, "er"));
                self.offer(with_vowel_suffix(adjective, "est"));
            }
        }
    }

    fn add_derivations(&mut self) {
        // Each stem takes every fourth prefix: all prefixes would crowd out the compounds.
        for (number, verb) in VERBS.split_whitespace().enumerate() {
            for prefix in PREFIXES.iter().skip(number % 4).step_by(4) {
                self.offer(format!("{prefix}{verb}"));
                self.offer(with_s(&format!("{prefix}{verb}")));
                for suffix in ["ed", "ing", "er", "able", "ability"] {
                    self.offer(format!("{prefix}{}", with_vowel_suffix(verb, suffix)));
                }
            }
        }
        for (number, adjective) in ADJECTIVES.split_whitespace().enumerate() {
            for prefix in PREFIXES.iter().skip(number % 4).step_by(4) {
                self.offer(format!("{prefix}{adjective}"));
                self.offer(format!("{prefix}{}", adverb(adjective)));
                let quality = with_consonant_suffix(adjective, "ness");
                self.offer(format!("{prefix}{quality}"));
                self.offer(with_s(&format!("{prefix}{quality}")));
            }
        }
    }

    /// Adds compounds: "lampwood", "lampwoods", "lampwoodless", "overlampwoodless".
    fn add_compounds(&mut self) {
        let mut by_length = vec![Vec::new(); LENGTH_MAX + 1];
        for noun in NOUNS.split_whitespace() {
            by_length[noun.len()].push(noun);
        }
        let mut random = Stream::new(0, 0, 1);
        for length in 6..=LENGTH_MAX {
            let mut tries = 40 * self.missing(length);
            while self.missing(length) > 0 && tries > 0 {
                tries -= 1;
                let suffix = match random.below(4) {
                    0 => "s",
                    1 if length >= 13 => "less",
                    2 if length >= 13 => "like",
                    _ => "",
                };
                let prefix = if length < 14 {
                    ""
                } else {
                    PREFIXES[random.below(PREFIXES.len() as u32) as usize]
                };
                let Some(rest) = length.checked_sub(suffix.len() + prefix.len()) else {
                    continue;
                };
                if rest < 6 {
                    continue;
                }
                let first = random.between(3, rest as u32 - 3) as usize;
                let (Some(first), Some(second)) = (
                    pick(&mut random, &by_length[first]),
                    pick(&mut random, &by_length[rest - first]),
                ) else {
                    continue;
                };
                // There is no plural unless a single "s" forms it.
                let plural = suffix != "s" || with_s(second).len() == second.len() + 1;
                if first != second && plural {
                    self.offer(format!("{prefix}{first}{second}{suffix}"));
                }
            }
        }
    }

    /// Adds words of syllables, such as "velora" and "tamin".
    fn add_syllables(&mut self) {
        const ONSETS: &str = "b bl br c cl cr d dr f fl fr g gl gr h j k l m n p pl pr qu r s sk \
             sm sn sp st str sw t th tr v w z";
        const VOWELS: &str = "a e i o u ai ea ia io oa ou";
        const CODAS: &str = "l n r ld lm lt nd rl rm st th";
        let [onsets, vowels, codas] =
            [ONSETS, VOWELS, CODAS].map(|parts| parts.split_whitespace().collect::<Vec<_>>());
        let mut random = Stream::new(0, 0, 6);
        while self.slots.len() < WORDS_BY_LENGTH.iter().sum() {
            let mut word = String::new();
            let syllables = random.between(1, 3);
            if random.below(4) == 0 {
                word += vowels[random.below(5) as usize];
            }
            for _ in 0..syllables {
                word += onsets[random.below(onsets.len() as u32) as usize];
                // Two vowels in a row are rarer.
                let choice = if random.below(4) == 0 {
                    vowels.len()
                } else {
                    5
                };
                word += vowels[random.below(choice as u32) as usize];
            }
            if random.below(3) > 0 {
                word += codas[random.below(codas.len() as u32) as usize];
            }
            self.offer(word);
        }
    }
}

fn pick<'a>(random: &mut Stream, words: &[&'a str]) -> Option<&'a str> {
    let count = u32::try_from(words.len()).ok()?;
    (count > 0).then(|| words[random.below(count) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinct_and_have_the_wanted_lengths() {
        let vocabulary = Vocabulary::get();
        assert_eq!(vocabulary.len(), WORDS_BY_LENGTH.iter().sum::<usize>());
        let mut count_by_length = [0; WORDS_BY_LENGTH.len()];
        let mut distinct = HashSet::new();
        for word in vocabulary.words() {
            assert!(word.bytes().all(|letter| letter.is_ascii_lowercase()));
            assert!(distinct.insert(word), "{word} is there twice");
            count_by_length[word.len() - LENGTH_MIN] += 1;
        }
        assert_eq!(count_by_length, WORDS_BY_LENGTH);
        let letters: usize = vocabulary.words().map(str::len).sum();
        let mean = letters as f64 / vocabulary.len() as f64;
        assert!((8.8..8.87).contains(&mean), "{mean}");
    }

    #[test]
    fn text_has_the_asked_number_of_words() {
        let vocabulary = Vocabulary::get();
        let mut random = Stream::new(1, 1, 1);
        for count in 1..20 {
            let mut text = b"before ".to_vec();
            vocabulary.push_text(&mut random, count, &mut text);
            let text = String::from_utf8(text).expect("words are ASCII");
            assert_eq!(text.split(' ').count() as u32, count + 1, "{text}");
            assert!(!text.ends_with(' '));
        }
    }
}
