//! The ids of many keys at once: filter pages leave out most keys that the dictionary lacks, then all entry pages are read as one
//! batch.

use std::ops::Range;

use pythia_rdf::{TermId, TermKey, TermKind};

use super::directory::{Lookup, PagePlace};
use super::filter_page::FilterPage;
use super::format::Damage;
use super::reader::Dictionary;
use crate::StoreError;
use crate::hashes::hash_of_key;

/// Minimum number of entry pages for which filters are read.
const FILTERED_MIN: usize = 16;
/// Minimum number of entry pages per filter page. A filter page costs a read too, and if the dictionary has the keys, saves none.
const FILTERED_PER_PAGE: usize = 2;

/// The reason why a page alone does not answer a search.
enum Unanswered {
    Damaged(Damage),
    /// The search must compare with a large key, which takes more pages.
    Overflows,
}

impl From<Damage> for Unanswered {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

/// An entry page to search.
struct Searched {
    kind: TermKind,
    place: PagePlace,
    /// The number of its filter page, if it has one.
    filter: Option<u64>,
    /// The keys that it may have, as places in the order of keys.
    keys: Range<usize>,
}

/// Search for the ids of keys.
struct Search<'s> {
    dictionary: &'s Dictionary,
    keys: &'s [TermKey<'s>],
    /// Indexes of keys, in the order of these.
    order: Vec<usize>,
    pages: Vec<Searched>,
    /// Indexes of keys that take more than a page each.
    alone: Vec<usize>,
}

impl Dictionary {
    /// Returns the ids of several keys, in their order. Reads all entry pages as one batch; before, if that saves reads, their
    /// filter pages.
    pub fn find_batch(&self, keys: &[TermKey<'_>]) -> Result<Vec<Option<TermId>>, StoreError> {
        let mut search = Search::new(self, keys)?;
        search.leave_out_unlikely()?;
        let mut ids = vec![None; keys.len()];
        search.read(&mut ids)?;
        for index in search.alone {
            ids[index] = self.find(keys[index])?;
        }
        Ok(ids)
    }
}

impl<'s> Search<'s> {
    /// Finds the entry page of each key.
    fn new(dictionary: &'s Dictionary, keys: &'s [TermKey<'s>]) -> Result<Self, StoreError> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|&index| keys[index]);
        let mut pages: Vec<Searched> = Vec::new();
        let mut alone = Vec::new();
        let mut lookup: Option<(TermKind, Lookup<'_>)> = None;
        for (position, &index) in order.iter().enumerate() {
            let kind = keys[index].kind;
            let Some(lookup) = dictionary.lookup_of(kind, &mut lookup) else {
                continue;
            };
            let candidates = lookup.pages_of_key(keys[index].bytes)?;
            match candidates.len() {
                0 => {}
                1 => {
                    let place = lookup.place(candidates.start)?;
                    match pages.last_mut() {
                        Some(last) if last.place.number == place.number => {
                            last.keys.end = position + 1;
                        }
                        _ => pages.push(Searched {
                            kind,
                            place,
                            filter: lookup.filter_of(candidates.start),
                            keys: position..position + 1,
                        }),
                    }
                }
                _ => alone.push(index),
            }
        }
        Ok(Self {
            dictionary,
            keys,
            order,
            pages,
            alone,
        })
    }

    /// Leaves out keys that are not in the filters of their pages, and pages without keys.
    fn leave_out_unlikely(&mut self) -> Result<(), StoreError> {
        let mut filters: Vec<(u64, Range<usize>)> = Vec::new();
        for (index, page) in self.pages.iter().enumerate() {
            let Some(filter) = page.filter else {
                return Ok(());
            };
            match filters.last_mut() {
                Some((last, pages)) if *last == filter => pages.end = index + 1,
                _ => filters.push((filter, index..index + 1)),
            }
        }
        if self.pages.len() < FILTERED_MIN.max(filters.len() * FILTERED_PER_PAGE) {
            return Ok(());
        }
        let numbers: Vec<u64> = filters.iter().map(|(number, _)| *number).collect();
        let file = self.dictionary.filter_pages();
        let mut is_likely = vec![false; self.order.len()];
        file.pages(&numbers, |index, page| {
            let filter = FilterPage::parse(page);
            let filter = filter.map_err(|damage| damage.at(file.name(), numbers[index]))?;
            for page in &self.pages[filters[index].1.clone()] {
                for position in page.keys.clone() {
                    let key = self.keys[self.order[position]];
                    is_likely[position] = filter.may_hold(hash_of_key(key));
                }
            }
            Ok::<(), StoreError>(())
        })?;
        let mut likely = Vec::new();
        self.pages.retain_mut(|page| {
            let start = likely.len();
            let positions = page.keys.clone().filter(|&position| is_likely[position]);
            likely.extend(positions.map(|position| self.order[position]));
            page.keys = start..likely.len();
            !page.keys.is_empty()
        });
        self.order = likely;
        Ok(())
    }

    /// Reads the entry pages, and sets the ids of the keys that are there.
    fn read(&mut self, ids: &mut [Option<TermId>]) -> Result<(), StoreError> {
        let numbers: Vec<u64> = self.pages.iter().map(|page| page.place.number).collect();
        let file = self.dictionary.file();
        let mut scratch = Vec::new();
        file.pages(&numbers, |index, bytes| {
            let Searched {
                kind, place, keys, ..
            } = &self.pages[index];
            let entries = self.dictionary.entries(bytes, *kind, place)?;
            for &index in &self.order[keys.clone()] {
                let found = entries.search(self.keys[index].bytes, &mut scratch, |_, _| {
                    Err(Unanswered::Overflows)
                });
                match found {
                    Ok(found) => {
                        let id = |entry| TermId::new(*kind, place.first_rank + entry as u64);
                        ids[index] = found.ok().map(id);
                    }
                    Err(Unanswered::Overflows) => self.alone.push(index),
                    Err(Unanswered::Damaged(damage)) => {
                        return Err(damage.at(file.name(), place.number));
                    }
                }
            }
            Ok(())
        })
    }
}
