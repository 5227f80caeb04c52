//! Larger symbol tables: symbols of up to 12 bytes, found bottom-up like FSST's; the most frequent ones have codes of
//! one byte, the others of two or three. One table per kind, trained on its first mebibyte.

use std::collections::HashMap;

use pythia_rdf::TermKind;

use crate::codes::{CodeTable, LITERALS, SLOT_BYTES, hash, literals, load, sample, token};
use crate::pages::Coder;

const SYMBOL_BYTES_MAX: usize = 12;
const GENERATIONS: usize = 6;
/// Codes of one byte.
const SHORT: usize = 128;
const SAMPLE_BYTES: usize = 1 << 20;
const ALL_BYTES: u128 = (1 << 120) - 1;

/// The symbols, to find the longest one at a place.
struct Finder {
    /// Lengths that symbols with these three bytes have (a hash), then with these two.
    lengths: Vec<u16>,
    /// Symbol and number; 0: empty.
    table: Vec<(u128, u32)>,
}

impl Finder {
    fn new(symbols: &[u128]) -> Self {
        let mut lengths = vec![0u16; 2 << 16];
        let mut table = vec![(0, 0); (symbols.len() * 3).next_power_of_two()];
        let mask = table.len() - 1;
        for (number, &symbol) in symbols.iter().enumerate() {
            let length = (symbol >> 120) as usize;
            match length {
                ..2 => {}
                2 => lengths[(1 << 16) + (symbol as usize & 0xffff)] |= 4,
                _ => lengths[three(symbol)] |= 1 << length,
            }
            let mut at = hash(symbol) as usize & mask;
            while table[at].0 != 0 {
                at = (at + 1) & mask;
            }
            table[at] = (symbol, number as u32);
        }
        Self { lengths, table }
    }

    fn find(&self, symbol: u128) -> Option<u32> {
        let mask = self.table.len() - 1;
        let mut at = hash(symbol) as usize & mask;
        loop {
            match self.table[at] {
                (known, number) if known == symbol => return Some(number),
                (0, _) => return None,
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Returns the longest symbol at a place, and its length.
    #[inline]
    fn longest(&self, text: &[u8], at: usize) -> (u32, usize) {
        let value = load(text, at);
        let left = text.len() - at;
        let two = (1 << 16) + (value as usize & 0xffff);
        let mut lengths = u32::from(self.lengths[three(value)] | self.lengths[two]);
        if left < SLOT_BYTES {
            lengths &= (2 << left) - 1;
        }
        while lengths > 0 {
            let length = lengths.ilog2();
            if let Some(number) = self.find(token(value, length as usize)) {
                return (number, length as usize);
            }
            lengths ^= 1 << length;
        }
        let byte = self.find(token(value, 1));
        (byte.expect("each byte is a symbol"), 1)
    }
}

fn three(value: u128) -> usize {
    ((value as u64 & 0xff_ffff).wrapping_mul(0x9e37_79b1) >> 12) as usize & 0xffff
}

/// Returns the symbols, the most frequent first.
fn train(texts: &[&[u8]], count: usize) -> Vec<u128> {
    let bytes: Vec<u128> = (0..256).map(|byte| token(byte, 1)).collect();
    let mut symbols = bytes.clone();
    let mut uses: HashMap<u128, u64> = HashMap::new();
    for generation in 0..=GENERATIONS {
        let finder = Finder::new(&symbols);
        uses.clear();
        let part = texts.len() * (generation + 1).min(GENERATIONS) / GENERATIONS;
        for text in &texts[..part] {
            let (mut at, mut last) = (0, None);
            while at < text.len() {
                let (_, length) = finder.longest(text, at);
                let symbol = token(load(text, at), length);
                *uses.entry(symbol).or_default() += 1;
                let before = last.map_or(usize::MAX, |last: u128| (last >> 120) as usize);
                if before.saturating_add(length) <= SYMBOL_BYTES_MAX && generation < GENERATIONS - 1
                {
                    let last = last.expect("it has a length") & ALL_BYTES;
                    let both = last | (symbol & ALL_BYTES) << (8 * before);
                    *uses.entry(token(both, before + length)).or_default() += 1;
                }
                last = Some(symbol);
                at += length;
            }
        }
        if generation < GENERATIONS {
            let long = uses
                .iter()
                .filter(|&(symbol, &times)| symbol >> 120 > 1 && times > 2);
            let mut gains: Vec<(u64, u128)> = long
                .map(|(&symbol, &times)| (times * (symbol >> 120) as u64, symbol))
                .collect();
            gains.sort_unstable_by(|a, b| b.cmp(a));
            symbols = bytes.clone();
            symbols.extend(gains.iter().take(count).map(|&(_, symbol)| symbol));
        }
    }
    symbols.sort_by_key(|symbol| (std::cmp::Reverse(uses.get(symbol).copied()), *symbol));
    symbols
}

/// The coder.
pub(crate) struct Symbols {
    count: usize,
    strings: Vec<[u8; SLOT_BYTES]>,
    finder: Finder,
    /// Number of the first string of the current table.
    first: usize,
    /// Numbers of the first strings, with their codes.
    tables: Vec<(usize, CodeTable)>,
    trained: bool,
}

impl Symbols {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            count,
            strings: Vec::new(),
            finder: Finder::new(&[]),
            first: 0,
            tables: Vec::new(),
            trained: false,
        }
    }
}

impl Coder for Symbols {
    fn start_kind(&mut self, _: TermKind) {
        self.trained = false;
    }

    fn prepare(&mut self, suffixes: &[&[u8]], _: u64) -> bool {
        if self.trained {
            return false;
        }
        self.trained = true;
        let symbols = train(&sample(suffixes, SAMPLE_BYTES), self.count);
        self.finder = Finder::new(&symbols);
        self.first = self.strings.len();
        self.strings.extend(literals());
        self.strings
            .extend(symbols.iter().map(|symbol| symbol.to_le_bytes()));
        self.tables.push((
            self.first,
            CodeTable::new(LITERALS, SHORT, SYMBOL_BYTES_MAX),
        ));
        true
    }

    fn compress(&mut self, values: &[&[u8]], codes: &mut Vec<u8>, ends: &mut Vec<u64>) {
        let (_, table) = self.tables.last().expect("prepared");
        codes.clear();
        ends.clear();
        for value in values {
            let mut at = 0;
            while at < value.len() {
                let (number, length) = self.finder.longest(value, at);
                match number as usize {
                    number if number < SHORT => codes.push(number as u8),
                    number => table.push(LITERALS + number, codes),
                }
                at += length;
            }
            ends.push(codes.len() as u64);
        }
    }

    fn table(&self) -> usize {
        self.tables.len() - 1
    }

    fn expand(&self, table: usize, codes: &[u8], wanted: usize, out: &mut Vec<u8>) {
        let (first, table) = &self.tables[table];
        table.expand(&self.strings[*first..], codes, wanted, out);
    }

    fn stored_bytes(&self) -> usize {
        let length = |string: &[u8; SLOT_BYTES]| 1 + usize::from(string[SLOT_BYTES - 1]);
        let all: usize = self.strings.iter().map(length).sum();
        all - self.tables.len() * 2 * LITERALS
    }

    fn memory_bytes(&self) -> usize {
        self.strings.len() * SLOT_BYTES
    }
}
