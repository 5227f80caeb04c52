//! The dictionary: every distinct term of a segment, sorted, compressed, on pages.
//!
//! A term's id is its rank among the terms of its kind, so ids compare like terms. Per kind, in
//! [`TermKind::DICTIONARY`](pythia_rdf::TermKind::DICTIONARY) order, [`DictionaryWriter`] takes the sorted keys and
//! packs them, front-coded and FSST-compressed, into pages of one file. The [`DictionaryDirectory`], which finds the
//! page of a key or of a rank, has a part in memory and directory pages. [`Dictionary`] reads both ways: key → id and id → key cost one page
//! read each, unless the key is longer than a page. Filter pages spare most of the reads for many keys that are not there.
//!
//! Invariants:
//! - A page holds keys of one kind; pages of a kind are in key order, kinds in id order.
//! - An entry shares with its predecessor (a group's first entry: with the page's first key) as many bytes as
//!   possible, so a search expands few entries.
//! - No byte of a page is trusted: invalid contents are [`StoreError::Corrupt`](crate::StoreError).
//!
//! The format is drawn in `docs/format/dictionary.md`.

mod build;
mod directory;
mod directory_page;
mod filter_page;
mod find;
mod format;
mod keys;
mod overflow;
mod page;
mod reader;
mod separators;
mod symbols;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use directory::{DictionaryDirectory, KindStatistics};
pub use format::{PAGE_BYTES_DEFAULT, PAGE_BYTES_MAX, PAGE_BYTES_MIN};
pub use keys::Keys;
pub use reader::Dictionary;
pub use writer::DictionaryWriter;

/// Returns the length of the longest common prefix.
#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    for (index, (a_word, b_word)) in a_words.iter().zip(b_words).enumerate() {
        let difference = u64::from_le_bytes(*a_word) ^ u64::from_le_bytes(*b_word);
        if difference != 0 {
            return index * 8 + (difference.trailing_zeros() / 8) as usize;
        }
    }
    let tail = a_words.len() * 8;
    tail + a[tail..]
        .iter()
        .zip(&b[tail..])
        .take_while(|(x, y)| x == y)
        .count()
}
