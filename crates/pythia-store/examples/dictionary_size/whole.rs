//! A bound: whole pages compressed by zstd, which must expand a page for each key.

use std::time::Instant;

use pythia_rdf::OwnedKey;
use zstd::bulk::{Compressor, Decompressor};

use crate::Failure;
use crate::pages::{Packed, common_prefix};

const LEVEL: i32 = 19;
const DICTIONARY_BYTES: usize = 1 << 20;
const SUFFIX_BYTES_MAX: usize = 8 << 10;

/// Prints the bytes that the suffixes of each page of `packed` take together, and the time to expand a page.
pub(crate) fn print(packed: &Packed, terms: &[OwnedKey], quads: u64) -> Result<(), Failure> {
    let mut pages = Vec::new();
    for range in packed.ranges() {
        let mut text = Vec::new();
        let mut before: &[u8] = &[];
        for term in &terms[range] {
            let suffix = &term.bytes[common_prefix(before, &term.bytes)..];
            text.extend_from_slice(&suffix[..suffix.len().min(SUFFIX_BYTES_MAX)]);
            before = &term.bytes;
        }
        pages.push(text);
    }
    let all: usize = pages.iter().map(Vec::len).sum();
    // A prefix of every page, which it shares with its page: most words come often enough that this does not matter.
    let share = DICTIONARY_BYTES.min(all / 16) * 1000 / all.max(1);
    let dictionary: Vec<u8> = pages
        .iter()
        .flat_map(|page| &page[..page.len() * share / 1000])
        .copied()
        .collect();
    let mut compressor = Compressor::with_dictionary(LEVEL, &dictionary)?;
    let mut decompressor = Decompressor::with_dictionary(&dictionary)?;
    let (mut bytes, mut nanoseconds, mut sampled) = (0, 0, 0);
    let step = pages.len().div_ceil(400).max(1);
    for page in pages.iter().step_by(step) {
        let rest = &page[page.len() * share / 1000..];
        let compressed = compressor.compress(rest)?;
        let started = Instant::now();
        let expanded = decompressor.decompress(&compressed, rest.len())?;
        nanoseconds += started.elapsed().as_nanos();
        assert!(expanded == rest);
        bytes += compressed.len() * page.len() / rest.len().max(1);
        sampled += 1;
    }
    println!(
        "  zstd {LEVEL} of a page's suffixes, {} KB of text as dictionary: {:.2} bytes per quad without lengths; \
         {:.0} µs to expand a page ({sampled} pages)",
        dictionary.len() / 1000,
        (bytes * pages.len() / sampled) as f64 / quads as f64,
        nanoseconds as f64 / 1e3 / sampled as f64,
    );
    Ok(())
}
