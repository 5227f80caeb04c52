//! Numbered words: a word that has been seen a few times gets a number, which has a code of two or three bytes. The
//! text between words is left to FSST with fewer symbols. The words are those of all kinds; the list only grows.
//!
//! A word is 4 to 15 bytes: a space, if there is one, and all bytes from `0` on, that is, letters and digits and a few
//! signs. 96 codes of one byte are FSST's symbols, up to 64 are frequent words.

use ::fsst::{Compressor, CompressorBuilder, Symbol};
use pythia_rdf::TermKind;

use crate::codes::{
    CodeTable, LITERALS, SLOT_BYTES, STRING_BYTES_MAX, compress, hash, literals, load, sample,
    shorter_bytes, token,
};
use crate::fsst::{Fsst, Schedule};
use crate::pages::Coder;

const WORD_BYTES_MIN: usize = 4;
/// A word gets a number when it is seen for this many times.
const SEEN_TIMES: u32 = 3;
const SYMBOLS: usize = 96;
const FREQUENT: usize = 64;
/// Longest word among the frequent ones, as of a symbol.
const FREQUENT_BYTES_MAX: u8 = 8;
/// Words are looked up this many at once, so that the memory's delays overlap.
const AHEAD: usize = 32;
const COMPARISON_BYTES: usize = 64 << 10;
/// Words must save this part of the bytes, for what they take themselves.
const GAIN: usize = 32;
/// A trial of words after this many bytes, until they are used.
const TRIAL_BYTES: u64 = 1 << 20;
const BUCKETS: usize = 1 << 16;
const COUNTERS: usize = 1 << 18;

/// The kinds of terms whose words are numbered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordsOf {
    Texts,
    All,
}

/// Three words and their numbers (0: none): a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Bucket {
    words: [u128; 3],
    numbers: [u32; 3],
}

impl Bucket {
    #[inline]
    fn find(&self, word: u128) -> u32 {
        let pairs = self.words.iter().zip(&self.numbers);
        pairs.fold(0, |found, (&known, &number)| {
            found | if known == word { number } else { 0 }
        })
    }
}

/// The list of words, and the words that may get into it.
struct List {
    strings: Vec<[u8; SLOT_BYTES]>,
    buckets: Vec<Bucket>,
    /// Upper 24 bits: part of a word's hash; lower 8: times it was seen.
    counters: Vec<u32>,
    words_left: usize,
}

impl List {
    fn find(&self, word: u128, hash: u64) -> u32 {
        let place = hash as usize % BUCKETS;
        let bucket = &self.buckets[place];
        match bucket.find(word) {
            0 if bucket.numbers[2] != 0 => self.buckets[place ^ 1].find(word),
            number => number,
        }
    }

    /// Counts a word without a number; returns its number once it has one.
    fn count(&mut self, word: u128, hash: u64) -> u32 {
        if self.words_left == 0 {
            return 0;
        }
        let counter = &mut self.counters[(hash >> 20) as usize % COUNTERS];
        let tag = (hash >> 40) as u32;
        let times = *counter & 0xff;
        if *counter >> 8 != tag {
            // Words that are seen more often push out others.
            *counter = if times > 1 {
                *counter - 1
            } else {
                tag << 8 | 1
            };
            return 0;
        }
        *counter += 1;
        if times + 1 < SEEN_TIMES {
            return 0;
        }
        *counter = 0;
        let place = hash as usize % BUCKETS;
        for place in [place, place ^ 1] {
            let bucket = &mut self.buckets[place];
            if let Some(free) = bucket.numbers.iter().position(|&number| number == 0) {
                let number = self.strings.len() as u32;
                self.strings.push(word.to_le_bytes());
                (bucket.words[free], bucket.numbers[free]) = (word, number);
                self.words_left -= 1;
                return number;
            }
        }
        0
    }

    /// Passes on each numbered word of a text: start, end, number.
    fn split(&mut self, text: &[u8], mut f: impl FnMut(usize, usize, u32)) {
        let mut words = [(0, 0, 0, 0); AHEAD];
        let mut at = 0;
        while at < text.len() {
            let (mut count, mut touched) = (0, 0);
            while at < text.len() && count < AHEAD {
                let (word, length) = next_word(text, at);
                if !(WORD_BYTES_MIN..=STRING_BYTES_MAX).contains(&length) {
                    at += length.max(1);
                    while length > STRING_BYTES_MAX && at < text.len() && text[at] >= b'0' {
                        at += 1;
                    }
                    continue;
                }
                let hash = hash(word);
                touched |= self.buckets[hash as usize % BUCKETS].numbers[0];
                words[count] = (word, hash, at, length);
                count += 1;
                at += length;
            }
            std::hint::black_box(touched);
            for &(word, hash, start, length) in &words[..count] {
                let mut number = self.find(word, hash);
                // At the start of a suffix there may be the end of a word.
                if number == 0 && (start > 0 || text[0] == b' ') {
                    number = self.count(word, hash);
                }
                if number > 0 {
                    f(start, start + length, number);
                }
            }
        }
    }
}

/// Returns the word at a place and its length: 0 if there is none, 16 if it is longer than words are.
#[inline]
fn next_word(text: &[u8], at: usize) -> (u128, usize) {
    const ONES: u128 = u128::MAX / 255;
    let value = load(text, at);
    let letters = value | if value as u8 == b' ' { 0x30 } else { 0 };
    // The top bits of bytes below `0`; the lowest is exact.
    let ends = letters.wrapping_sub(ONES * 0x30) & !letters & (ONES * 0x80);
    let length = (ends.trailing_zeros() / 8) as usize;
    (token(value, length.min(STRING_BYTES_MAX)), length)
}

/// A part of a text.
#[derive(Clone, Copy)]
enum Part {
    /// The next stretch between words.
    Stretch,
    Word(u32),
    End,
}

/// A compressor for the text between words, and the codes.
struct WordTable {
    stretches: Compressor,
    /// Frequent words' codes of one byte.
    frequent: Vec<(u32, u8)>,
    codes: CodeTable,
}

/// The coder.
pub(crate) struct Words {
    of: WordsOf,
    list: List,
    plain: Fsst,
    /// `None`: FSST alone.
    table: Option<WordTable>,
    /// All tables: `None` is FSST's, with this number.
    tables: Vec<Result<CodeTable, usize>>,
    schedule: Schedule,
    trial_at: u64,
    kind_bytes: u64,
    wanted: bool,
    parts: Vec<Part>,
    /// Codes of one byte by word; 0: none.
    short: Vec<u8>,
}

impl Words {
    pub(crate) fn new(count: usize, of: WordsOf) -> Self {
        Self {
            of,
            list: List {
                strings: literals(),
                buckets: vec![Bucket::default(); BUCKETS],
                counters: vec![0; COUNTERS],
                words_left: count,
            },
            plain: Fsst::new(),
            table: None,
            tables: Vec::new(),
            schedule: Schedule::default(),
            trial_at: 0,
            kind_bytes: 0,
            wanted: false,
            parts: Vec::new(),
            short: Vec::new(),
        }
    }

    /// Splits texts into `parts`; returns the stretches between words.
    fn split<'a>(&mut self, texts: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let mut stretches = Vec::new();
        self.parts.clear();
        for text in texts {
            let mut done = 0;
            self.list.split(text, |start, end, word| {
                if start > done {
                    stretches.push(&text[done..start]);
                    self.parts.push(Part::Stretch);
                }
                self.parts.push(Part::Word(word));
                done = end;
            });
            if done < text.len() {
                stretches.push(&text[done..]);
                self.parts.push(Part::Stretch);
            }
            self.parts.push(Part::End);
        }
        stretches
    }

    /// Writes the codes of `parts`.
    fn assemble(
        &mut self,
        table: &WordTable,
        stretches: &[&[u8]],
        codes: &mut Vec<u8>,
        ends: &mut Vec<u64>,
    ) {
        let (mut stretch_codes, mut stretch_ends) = (Vec::new(), Vec::new());
        compress(
            &table.stretches,
            stretches,
            &mut stretch_codes,
            &mut stretch_ends,
        );
        self.short.clear();
        self.short.resize(self.list.strings.len(), 0);
        for &(word, code) in &table.frequent {
            self.short[word as usize] = code;
        }
        codes.clear();
        ends.clear();
        let mut start = 0;
        let mut stretch_ends = stretch_ends.into_iter();
        for &part in &self.parts {
            match part {
                Part::Stretch => {
                    let end = stretch_ends.next().expect("one of each stretch") as usize;
                    codes.extend_from_slice(&stretch_codes[start..end]);
                    start = end;
                }
                Part::Word(word) => match self.short[word as usize] {
                    0 => table.codes.push(word as usize, codes),
                    code => codes.push(code),
                },
                Part::End => ends.push(codes.len() as u64),
            }
        }
    }

    /// Makes a table for texts like these, whose `parts` are known.
    fn train(&self, stretches: &[&[u8]]) -> WordTable {
        let stretches = trimmed(&Compressor::train(&stretches.to_vec()), stretches);
        let symbols = stretches.n_symbols();
        let mut uses = vec![0; self.list.strings.len()];
        for part in &self.parts {
            if let Part::Word(word) = part {
                uses[*word as usize] += 1;
            }
        }
        let often = uses.iter().sum::<usize>() / 1024;
        let mut frequent: Vec<u32> = (0..uses.len() as u32)
            .filter(|&word| uses[word as usize] > often.max(8))
            .filter(|&word| self.list.strings[word as usize][SLOT_BYTES - 1] <= FREQUENT_BYTES_MAX)
            .collect();
        frequent.sort_by_key(|&word| std::cmp::Reverse(uses[word as usize]));
        frequent.truncate(FREQUENT);
        let short = symbols + frequent.len();
        let codes = (symbols..short).map(|code| code as u8);
        WordTable {
            frequent: frequent.into_iter().zip(codes).collect(),
            codes: CodeTable::new(self.list.strings.len(), short, 8),
            stretches,
        }
    }

    /// Uses the table from now on: its codes of one byte get numbers, too.
    fn adopt(&mut self, table: WordTable) {
        let symbols = table.stretches.symbol_table().iter();
        for (symbol, &length) in symbols.zip(table.stretches.symbol_lengths()) {
            let symbol = token(u128::from(symbol.to_u64()), usize::from(length));
            self.list.strings.push(symbol.to_le_bytes());
        }
        for &(word, _) in &table.frequent {
            let word = self.list.strings[word as usize];
            self.list.strings.push(word);
        }
        let first = self.list.strings.len() - table.stretches.n_symbols() - table.frequent.len();
        let short = self.list.strings.len() - first;
        self.tables.push(Ok(CodeTable::new(first, short, 8)));
        self.table = Some(table);
    }

    /// Returns the bytes that a sample takes with a table.
    fn sample_bytes(&mut self, table: &WordTable, sample: &[&[u8]]) -> usize {
        let stretches = self.split(sample);
        let (mut codes, mut ends) = (Vec::new(), Vec::new());
        self.assemble(table, &stretches, &mut codes, &mut ends);
        shorter_bytes(sample, &ends)
    }

    /// Makes a new table if it saves enough; returns whether it does.
    fn retrain(&mut self, suffixes: &[&[u8]]) -> bool {
        let sample = sample(suffixes, COMPARISON_BYTES);
        let old = match self.table.take() {
            Some(table) => {
                let bytes = self.sample_bytes(&table, &sample);
                self.table = Some(table);
                bytes
            }
            None => {
                let (mut codes, mut ends) = (Vec::new(), Vec::new());
                compress(&self.plain.compressor, &sample, &mut codes, &mut ends);
                shorter_bytes(&sample, &ends)
            }
        };
        let stretches = self.split(&sample);
        if stretches.is_empty() {
            return false;
        }
        let table = self.train(&stretches);
        let new = self.sample_bytes(&table, &sample);
        let better = new + new / GAIN < old;
        if better {
            self.adopt(table);
        }
        better
    }
}

/// Returns the compressor with the symbols that save most in these texts.
fn trimmed(full: &Compressor, texts: &[&[u8]]) -> Compressor {
    let (mut codes, mut ends) = (Vec::new(), Vec::new());
    compress(full, texts, &mut codes, &mut ends);
    let mut gains = [0; 256];
    let mut codes = codes.iter();
    while let Some(&code) = codes.next() {
        match full.symbol_lengths().get(usize::from(code)) {
            // Without the symbol there would be an escape for each byte.
            Some(&length) => gains[usize::from(code)] += 2 * usize::from(length) - 1,
            None => drop(codes.next()),
        }
    }
    let mut kept: Vec<usize> = (0..full.n_symbols()).collect();
    kept.sort_by_key(|&code| std::cmp::Reverse(gains[code]));
    kept.truncate(SYMBOLS);
    kept.sort_unstable();
    if kept.is_empty() {
        return CompressorBuilder::new().build();
    }
    let symbols: Vec<Symbol> = kept.iter().map(|&code| full.symbol_table()[code]).collect();
    let lengths: Vec<u8> = kept
        .iter()
        .map(|&code| full.symbol_lengths()[code])
        .collect();
    Compressor::rebuild_from(symbols, lengths)
}

impl Coder for Words {
    fn start_kind(&mut self, kind: TermKind) {
        self.plain.start_kind(kind);
        self.table = None;
        self.schedule = Schedule::default();
        (self.trial_at, self.kind_bytes) = (0, 0);
        self.wanted = match self.of {
            WordsOf::All => kind != TermKind::BlankNode,
            WordsOf::Texts => matches!(kind, TermKind::String | TermKind::LangString),
        };
    }

    fn prepare(&mut self, suffixes: &[&[u8]], batch_bytes: u64) -> bool {
        let due = self.schedule.is_due(batch_bytes);
        let mut new = due && self.table.is_none() && self.plain.retrain(suffixes);
        if new {
            self.tables.push(Err(self.plain.table()));
        }
        self.kind_bytes += batch_bytes;
        let trial = self.table.is_none() && self.kind_bytes >= self.trial_at;
        if self.wanted && (trial || due) {
            self.trial_at = self.kind_bytes + TRIAL_BYTES.max(self.kind_bytes / 4);
            new |= self.retrain(suffixes);
        }
        if self.wanted && self.table.is_none() {
            for suffix in suffixes {
                self.list.split(suffix, |_, _, _| {});
            }
        }
        new
    }

    fn compress(&mut self, values: &[&[u8]], codes: &mut Vec<u8>, ends: &mut Vec<u64>) {
        let Some(table) = self.table.take() else {
            return self.plain.compress(values, codes, ends);
        };
        let stretches = self.split(values);
        self.assemble(&table, &stretches, codes, ends);
        self.table = Some(table);
    }

    fn table(&self) -> usize {
        self.tables.len() - 1
    }

    fn expand(&self, table: usize, codes: &[u8], wanted: usize, out: &mut Vec<u8>) {
        match &self.tables[table] {
            Ok(table) => table.expand(&self.list.strings, codes, wanted, out),
            Err(table) => self.plain.expand(*table, codes, wanted, out),
        }
    }

    fn stored_bytes(&self) -> usize {
        if self.tables.iter().all(Result::is_err) {
            return 0;
        }
        let words = &self.list.strings[LITERALS..];
        words
            .iter()
            .map(|word| 1 + usize::from(word[SLOT_BYTES - 1]))
            .sum()
    }

    fn memory_bytes(&self) -> usize {
        self.list.strings.len() * SLOT_BYTES + self.plain.memory_bytes()
    }
}
