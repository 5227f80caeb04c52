//! Filter pages: each is a Bloom filter of the keys of some consecutive entry pages.
//!
//! Looking up many terms that a dictionary lacks would read an entry page for most of them. A filter page has the keys of dozens
//! of entry pages, and tells nearly all such terms apart. As in a Buffered Bloom filter (Bulletin, "Storage Class Memory Aware
//! Data Management", §3), each page is a filter of its own, and lookups are grouped by page; here the keys of a page follow
//! each other, so that similar terms need few pages.

use pythia_io::SEAL_BYTES;

use super::format::Damage;

/// Bytes before the bits: the seal, a mark, the number of keys, zeros.
const HEADER_BYTES: usize = 16;
const MARK: [u8; 4] = *b"dfl\x01";
/// Minimum bits per key. With eight probes, 0.31 % of other keys pass.
const BITS_PER_KEY: usize = 12;
const PROBES: u32 = 8;

/// The hashes of keys that are not on a filter page yet.
#[derive(Debug)]
pub(super) struct OpenFilter {
    page_bytes: usize,
    /// The keys of entry pages that are finished, and how many pages that are.
    hashes: Vec<u64>,
    entry_pages: usize,
}

impl OpenFilter {
    pub(super) fn new(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            hashes: Vec::new(),
            entry_pages: 0,
        }
    }

    /// Adds the keys of the next entry page, by their hashes, and leaves `hashes` empty. If the open filter page has no room for
    /// them, it is returned, with the number of its entry pages.
    pub(super) fn add_page(&mut self, hashes: &mut Vec<u64>) -> Option<(Vec<u8>, usize)> {
        let is_full = self.hashes.len() + hashes.len() > keys_max(self.page_bytes);
        let full = is_full.then(|| self.take()).flatten();
        self.hashes.append(hashes);
        self.entry_pages += 1;
        full
    }

    /// Returns the open filter page, with the number of its entry pages; `None` if it has none.
    pub(super) fn take(&mut self) -> Option<(Vec<u8>, usize)> {
        if self.entry_pages == 0 {
            return None;
        }
        let mut page = vec![0; self.page_bytes];
        page[SEAL_BYTES..8].copy_from_slice(&MARK);
        page[8..12].copy_from_slice(&(self.hashes.len() as u32).to_le_bytes());
        let bits = &mut page[HEADER_BYTES..];
        for hash in self.hashes.drain(..) {
            for place in places(hash, bits.len()) {
                bits[place / 8] |= 1 << (place % 8);
            }
        }
        Some((page, std::mem::take(&mut self.entry_pages)))
    }
}

/// Returns the number of keys that a filter page may have, unless they are of a single entry page.
fn keys_max(page_bytes: usize) -> usize {
    (page_bytes - HEADER_BYTES) * 8 / BITS_PER_KEY
}

/// Returns the bits of a hash among those of `bytes` bytes (Kirsch and Mitzenmacher, "Less hashing, same performance"). Part
/// of the format.
fn places(hash: u64, bytes: usize) -> impl Iterator<Item = usize> {
    let (first, step) = (hash as u32, (hash >> 32) as u32 | 1);
    let bits = bytes as u64 * 8;
    (0..PROBES).map(move |probe| {
        let value = first.wrapping_add(probe.wrapping_mul(step));
        ((u64::from(value) * bits) >> 32) as usize
    })
}

/// A filter page.
pub(super) struct FilterPage<'a> {
    bits: &'a [u8],
}

impl<'a> FilterPage<'a> {
    pub(super) fn parse(page: &'a [u8]) -> Result<Self, Damage> {
        match page.split_at_checked(HEADER_BYTES) {
            Some((header, bits)) if header[SEAL_BYTES..8] == MARK && !bits.is_empty() => {
                Ok(Self { bits })
            }
            _ => Err(Damage("a filter page")),
        }
    }

    /// Returns whether the entry pages may have a key with this hash; false is certain.
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let is_set = |place: usize| self.bits[place / 8] & (1 << (place % 8)) != 0;
        places(hash, self.bits.len()).all(is_set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashes::hash_of_node;

    #[test]
    fn a_full_page_holds_its_keys_and_few_others() {
        for page_bytes in [4 << 10, 8 << 10, 64 << 10] {
            let keys = keys_max(page_bytes) as u64;
            let mut open = OpenFilter::new(page_bytes);
            assert!(open.take().is_none());
            let mut hashes: Vec<u64> = (0..keys).map(hash_of_node).collect();
            assert!(open.add_page(&mut hashes).is_none() && hashes.is_empty());
            let (page, entry_pages) = open.add_page(&mut vec![hash_of_node(keys)]).expect("full");
            assert_eq!((page.len(), entry_pages), (page_bytes, 1));
            let filter = FilterPage::parse(&page).expect("just made");
            assert!((0..keys).all(|key| filter.may_hold(hash_of_node(key))));
            let others = keys..keys + 100_000;
            let wrong = others.filter(|&key| filter.may_hold(hash_of_node(key)));
            assert!((200..450).contains(&wrong.count()), "{page_bytes}");
            assert!(open.take().is_some_and(|(_, entry_pages)| entry_pages == 1));
        }
    }

    #[test]
    fn other_pages_are_refused() {
        let whole = OpenFilter::new(4096).page_of(&[1]);
        assert!(FilterPage::parse(&whole).is_ok());
        for bytes in [0, 4, 8, HEADER_BYTES] {
            assert!(FilterPage::parse(&whole[..bytes]).is_err());
        }
        assert!(FilterPage::parse(&vec![0; 4096]).is_err());
    }

    impl OpenFilter {
        fn page_of(mut self, hashes: &[u64]) -> Vec<u8> {
            self.add_page(&mut hashes.to_vec());
            self.take().expect("it has a page").0
        }
    }
}
