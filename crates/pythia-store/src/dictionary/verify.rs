//! Verification of a whole dictionary: for `pythia verify`.

use pythia_io::Page;
use pythia_rdf::{TermKey, TermKind};

use super::filter_page::FilterPage;
use super::reader::Dictionary;
use crate::StoreError;
use crate::hashes::hash_of_key;

impl Dictionary {
    /// Reads every page and checks that keys ascend, that every rank has one key, that each key is on the page where
    /// the directory looks for it and in that page's filter, and that the number of bytes is the directory's.
    ///
    /// Calls `progress` now and then with the number of terms checked.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<(), StoreError> {
        const PROGRESS_TERMS: u64 = 1 << 16;
        let mut checked = 0u64;
        for kind in TermKind::DICTIONARY {
            let Some(mut lookup) = self.lookup(kind) else {
                continue;
            };
            let mut last: Option<Vec<u8>> = None;
            let mut key_bytes = 0;
            let mut filter = None;
            let mut keys = self.iter(kind);
            while let Some((id, key)) = keys.next()? {
                let fault = if last.as_deref().is_some_and(|last| last >= key.bytes) {
                    Some("not above the key before it")
                } else {
                    let page = lookup.page_of_rank(id.payload())?;
                    let candidates = lookup.pages_of_key(key.bytes)?;
                    let there = page.is_some_and(|page| candidates.contains(&page));
                    let number = page.and_then(|page| lookup.filter_of(page));
                    if !there {
                        Some("not on the page where the directory looks for it")
                    } else if !self.may_hold(number, &mut filter, key)? {
                        Some("not in the filter of its page")
                    } else {
                        None
                    }
                };
                if let Some(fault) = fault {
                    let message = format!("the key of {kind:?} number {} is {fault}", id.payload());
                    let number = lookup
                        .place_of_rank(id.payload())?
                        .map(|place| place.number);
                    return Err(StoreError::corrupt(self.file().name(), number, message));
                }
                key_bytes += key.bytes.len() as u64;
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key.bytes);
                checked += 1;
                if checked.is_multiple_of(PROGRESS_TERMS) {
                    progress(checked);
                }
            }
            let expected = self.directory().statistics(kind).key_bytes;
            if key_bytes != expected {
                let message = format!(
                    "expected {expected} bytes of keys of kind {kind:?}, as the directory says; \
                     they have {key_bytes}"
                );
                return Err(StoreError::corrupt(self.file().name(), None, message));
            }
        }
        progress(checked);
        Ok(())
    }

    /// Returns whether a key is in the filter page of this number, if there is one. `held` is the filter page used last.
    fn may_hold(
        &self,
        number: Option<u64>,
        held: &mut Option<(u64, Page)>,
        key: TermKey<'_>,
    ) -> Result<bool, StoreError> {
        let Some(number) = number else {
            return Ok(true);
        };
        let page = match held.take() {
            Some((last, page)) if last == number => page,
            _ => self.filter_pages().page(number)?,
        };
        let (_, page) = held.insert((number, page));
        let filter = FilterPage::parse(page);
        let filter = filter.map_err(|damage| damage.at(self.file().name(), number))?;
        Ok(filter.may_hold(hash_of_key(key)))
    }
}
