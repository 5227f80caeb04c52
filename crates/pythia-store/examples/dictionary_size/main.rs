//! Measures how small the dictionary becomes with other codings of its text (`docs/decisions/0044-dictionary-size.md`):
//!
//! ```text
//! cargo run --release -p pythiadb-store --example dictionary_size -- FILE…
//! ```
//!
//! Packs the terms of each file as the store does, with pages of 8 KiB, once with each coding. Prints where the bytes
//! go today, and for each coding its size and what writing and decoding cost. Rounds of all codings alternate, and the
//! best of each counts: other programs disturb all alike.

mod codes;
mod fsst;
mod pages;
mod symbols;
mod whole;
mod words;

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use pythia_io::{MemoryStorage, PageWriter, Storage};
use pythia_rdf::{
    OwnedKey, ParseOptions, Progress, QuadSink, SinkError, Source, TermError, TermId, TermKey,
    parse_sources,
};
use pythia_store::dictionary::DictionaryWriter;

use crate::fsst::Fsst;
use crate::pages::{Coder, PAGE_BYTES, Packed, pack};
use crate::symbols::Symbols;
use crate::words::{Words, WordsOf};

type Failure = Box<dyn std::error::Error>;
type MakeCoder = Box<dyn Fn() -> Box<dyn Coder>>;

const LOOKUPS: usize = 200_000;
const BATCH: usize = 200;
const READING_ROUNDS: usize = 11;
const WRITING_ROUNDS: usize = 3;

/// Keeps each key once.
#[derive(Default)]
struct Terms {
    keys: HashSet<OwnedKey>,
    quads: u64,
}

impl QuadSink for Terms {
    type Term = ();

    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<(), TermError> {
        validate()?;
        self.keys.insert(key.to_owned_key());
        Ok(())
    }

    fn inline(&mut self, _: TermId) {}

    fn default_graph(&mut self) {}

    fn quad(&mut self, (): (), (): (), (): (), (): ()) -> Result<(), SinkError> {
        self.quads += 1;
        Ok(())
    }
}

fn main() -> Result<(), Failure> {
    for file in std::env::args().skip(1) {
        let mut sinks = [Terms::default()];
        let source = Source::from_path(Path::new(&file), None, None)?;
        let options = ParseOptions::default().with_lenient(true);
        parse_sources(vec![source], &options, &mut sinks, &Progress::default())?;
        let [Terms { keys, quads }] = sinks;
        let mut terms: Vec<OwnedKey> = keys.into_iter().collect();
        terms.sort_unstable();
        measure(&file, &terms, quads)?;
    }
    Ok(())
}

fn measure(file: &str, terms: &[OwnedKey], quads: u64) -> Result<(), Failure> {
    let text: usize = terms.iter().map(|term| term.bytes.len()).sum();
    println!("{file}: {quads} quads, {} terms, {text} bytes", terms.len());
    let per_quad = |bytes: usize| bytes as f64 / quads as f64;
    println!(
        "  the store's own file: {:.2} bytes per quad",
        per_quad(stored_bytes(terms)?)
    );
    let codings = codings();
    let packed: Vec<Packed> = codings
        .iter()
        .map(|(_, coder)| pack(terms, coder()))
        .collect();
    print_parts(&packed[0], quads);
    println!(
        "  numbers at the ends of keys as differences would save at most {:.2} bytes per quad",
        per_quad(numbers(terms))
    );
    whole::print(&packed[0], terms, quads)?;
    for packed in &packed {
        packed.check(terms);
    }
    let reading = read(&packed, terms);
    let writing = write(&codings, terms);
    for (index, (name, _)) in codings.iter().enumerate() {
        let packed = &packed[index];
        let strings = packed.coder.stored_bytes();
        let times = &reading[index];
        println!(
            "  {name}: {:.2} bytes per quad ({:.2} of them strings, {} KB in memory); write {:.0} ms ({:.2}), \
             walk {:.0} ns/term ({:.2}), random key {:.0} ns ({:.2}), {BATCH} keys {:.0} µs ({:.2})",
            per_quad(packed.file_bytes() + strings),
            per_quad(strings),
            packed.coder.memory_bytes() / 1000,
            writing[index],
            writing[index] / writing[0],
            times[0],
            times[0] / reading[0][0],
            times[1],
            times[1] / reading[0][1],
            times[2] / 1000.0,
            times[2] / reading[0][2],
        );
    }
    Ok(())
}

/// Returns the codings that are compared; the first is the store's.
fn codings() -> Vec<(&'static str, MakeCoder)> {
    let words = |count, of| -> MakeCoder { Box::new(move || Box::new(Words::new(count, of))) };
    let symbols = |count| -> MakeCoder { Box::new(move || Box::new(Symbols::new(count))) };
    vec![
        (
            "FSST, 255 symbols (the store's)",
            Box::new(|| Box::new(Fsst::new())),
        ),
        ("4,096 symbols of up to 12 bytes", symbols(4096)),
        ("32,000 symbols of up to 12 bytes", symbols(32_000)),
        ("16,384 words", words(16_384, WordsOf::Texts)),
        ("40,000 words", words(40_000, WordsOf::Texts)),
        ("131,072 words", words(131_072, WordsOf::Texts)),
        ("131,072 words, of IRIs too", words(131_072, WordsOf::All)),
    ]
}

/// Returns the bytes of the pages that the store writes.
fn stored_bytes(terms: &[OwnedKey]) -> Result<usize, Failure> {
    let storage = MemoryStorage::new();
    let pages = PageWriter::new(storage.create("dictionary.pages")?, PAGE_BYTES);
    let mut writer = DictionaryWriter::new(pages, 1, true)?;
    for term in terms {
        writer.push(term.as_key())?;
    }
    Ok(writer.finish()?.page_count() as usize * PAGE_BYTES)
}

fn print_parts(packed: &Packed, quads: u64) {
    let per_quad = |bytes: usize| bytes as f64 / quads as f64;
    for (kind, parts) in &packed.parts {
        println!(
            "      {kind:?}: {} terms, text {:.2} bytes per quad; pages {:.2} = headers {:.2}, lengths {:.2}, first keys \
             {:.2}, suffixes {:.2}, unused {:.2}, overflow {:.2}",
            parts.terms,
            per_quad(parts.text),
            per_quad(parts.pages * PAGE_BYTES),
            per_quad(parts.headers),
            per_quad(parts.lengths),
            per_quad(parts.first_keys),
            per_quad(parts.suffixes),
            per_quad(parts.unused),
            per_quad(parts.overflow),
        );
    }
}

/// Returns the bytes that keys would save that differ from the key before in a number at the end alone, if each were
/// stored as one byte and the difference. Today these keys take two lengths and the digits that differ.
fn numbers(terms: &[OwnedKey]) -> usize {
    let mut saved = 0;
    for pair in terms.windows(2) {
        let [before, key] = [0, 1].map(|index| &pair[index].bytes);
        let (Some((start, from)), Some((same_start, to))) = (number(before), number(key)) else {
            continue;
        };
        if pair[0].kind == pair[1].kind && start == same_start {
            let digits = key.len() - pages::common_prefix(before, key);
            let difference = 2 * (to.abs_diff(from));
            let bytes = 1
                + (64 - difference.leading_zeros() as usize)
                    .div_ceil(7)
                    .max(1);
            saved += (2 + digits).saturating_sub(bytes);
        }
    }
    saved
}

/// Splits a key before the digits at its end.
fn number(key: &[u8]) -> Option<(&[u8], u64)> {
    let digits = key
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (start, digits) = key.split_at(key.len() - digits.min(18));
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (digits[0] != b'0').then_some((start, number))
}

/// Returns the times of each coding: ns per term in order, ns per random key, ns per batch of random keys.
fn read(all: &[Packed], terms: &[OwnedKey]) -> Vec<[f64; 3]> {
    let random: Vec<usize> = (0..LOOKUPS as u64)
        .map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize % terms.len())
        .collect();
    let mut batches = random.clone();
    for batch in batches.chunks_mut(BATCH) {
        batch.sort_unstable();
    }
    let mut best = vec![[f64::MAX; 3]; all.len()];
    let mut bytes = 0;
    let mut key = Vec::new();
    for _ in 0..READING_ROUNDS {
        for (packed, best) in all.iter().zip(&mut best) {
            let started = Instant::now();
            packed.walk(&mut key, |key| bytes += key.len());
            let walk = started.elapsed().as_nanos() as f64 / terms.len() as f64;
            let started = Instant::now();
            for &term in &random {
                packed.key(term, &mut key);
                bytes += key.len();
            }
            let single = started.elapsed().as_nanos() as f64 / LOOKUPS as f64;
            let started = Instant::now();
            for batch in batches.chunks(BATCH) {
                packed.keys(batch, &mut key, |key| bytes += key.len());
            }
            let batch = started.elapsed().as_nanos() as f64 / (LOOKUPS / BATCH) as f64;
            for (best, time) in best.iter_mut().zip([walk, single, batch]) {
                *best = best.min(time);
            }
        }
    }
    assert!(bytes > 0);
    best
}

/// Returns the milliseconds that packing takes with each coding.
fn write(codings: &[(&str, MakeCoder)], terms: &[OwnedKey]) -> Vec<f64> {
    let mut best = vec![f64::MAX; codings.len()];
    for _ in 0..WRITING_ROUNDS {
        for ((_, coder), best) in codings.iter().zip(&mut best) {
            let started = Instant::now();
            let packed = pack(terms, coder());
            *best = best.min(started.elapsed().as_secs_f64() * 1e3);
            drop(packed);
        }
    }
    best
}
