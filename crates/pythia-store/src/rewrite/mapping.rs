//! From the ids of a base and its runs to those of the base that replaces them.
//!
//! A term of the old base keeps its place among the others: its new rank is its old one, less the
//! unused terms before it, plus the new terms sorted before it. So for each 64 old ranks it is enough to
//! know the new rank of the first, which of the 64 are used, and where new terms were put among them.

use pythia_rdf::{TermId, TermKind};

use super::kind_place;
use super::used::UsedTerms;

/// Old ranks that have one entry.
const GROUP: u64 = 64;
/// In place of a new rank: no quad uses the term.
const UNUSED: u64 = u64::MAX;

/// The mapping of ids of a base, and of the terms that came after it, to those of a new base.
#[derive(Clone, Debug)]
pub struct IdMapping {
    kinds: Vec<KindMapping>,
}

#[derive(Clone, Debug, Default)]
struct KindMapping {
    /// Terms that the old base has.
    base: u64,
    groups: Vec<Group>,
    /// For each new term, in order, how many terms of the old base sort before it.
    inserted: Vec<u64>,
    /// New ranks of new terms, by the order in which these came.
    new: Vec<u64>,
}

/// 64 old ranks.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Used terms and new terms before all of them.
    rank: u64,
    /// How many of `inserted` are before all of them.
    inserted: u64,
    /// Which of them are used, a bit each.
    used: u64,
}

impl IdMapping {
    /// The new id of an old one; `None` if no quad of the new base has it.
    #[inline]
    pub fn new_id(&self, old: TermId) -> Option<TermId> {
        let Some(place) = kind_place(old) else {
            return Some(old);
        };
        let kind = &self.kinds[place];
        let rank = match old.payload().checked_sub(kind.base) {
            None => kind.of_base(old.payload())?,
            Some(serial) => *kind.new.get(usize::try_from(serial).ok()?)?,
        };
        let kind_bits = old.0 & !TermId::PAYLOAD_MAX;
        (rank != UNUSED).then_some(TermId(kind_bits | rank))
    }

    /// The new ids of old ones, in their order.
    pub fn new_ids(&self, old: &[TermId]) -> Vec<Option<TermId>> {
        old.iter().map(|&id| self.new_id(id)).collect()
    }

    /// Memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        let bytes = |kind: &KindMapping| {
            size_of_val(&*kind.groups) + size_of_val(&*kind.inserted) + size_of_val(&*kind.new)
        };
        self.kinds.iter().map(bytes).sum()
    }
}

impl KindMapping {
    #[inline]
    fn of_base(&self, old: u64) -> Option<u64> {
        let group = self.groups[(old / GROUP) as usize];
        let bit = old % GROUP;
        if group.used >> bit & 1 == 0 {
            return None;
        }
        let before = (group.used & ((1 << bit) - 1)).count_ones();
        let among = &self.inserted[group.inserted as usize..];
        let among = among.iter().take_while(|&&at| at <= old).count();
        Some(group.rank + u64::from(before) + among as u64)
    }
}

/// Makes a mapping while the new dictionary is written.
pub(super) struct MappingBuilder<'u> {
    used: &'u UsedTerms,
    kinds: Vec<KindMapping>,
}

impl<'u> MappingBuilder<'u> {
    pub(super) fn new(used: &'u UsedTerms) -> Self {
        let kind = |terms: &super::used::KindTerms| KindMapping {
            base: terms.base,
            new: vec![UNUSED; terms.new as usize],
            ..KindMapping::default()
        };
        Self {
            kinds: used.kinds.iter().map(kind).collect(),
            used,
        }
    }

    /// A new term, in order: how many terms of the base sort before it, and its id in the new base.
    pub(super) fn new_term(&mut self, old: TermId, before: u64, new: TermId) {
        let place = kind_place(old).expect("new terms are of dictionary kinds");
        let kind = &mut self.kinds[place];
        kind.inserted.push(before);
        kind.new[(old.payload() - kind.base) as usize] = new.payload();
    }

    pub(super) fn finish(mut self) -> IdMapping {
        for (kind, terms) in self.kinds.iter_mut().zip(&self.used.kinds) {
            let (mut rank, mut inserted) = (0, 0);
            for number in 0..terms.base.div_ceil(GROUP) {
                let first = number * GROUP;
                let here = kind.inserted[inserted..]
                    .iter()
                    .take_while(|&&at| at <= first);
                // Those right before the first of the group come before all of it.
                let here = here.count();
                inserted += here;
                rank += here as u64;
                let all = u64::MAX >> (GROUP - (terms.base - first).min(GROUP));
                let used = match &terms.used_base {
                    Some(used) => used.words()[number as usize],
                    None => all,
                };
                kind.groups.push(Group {
                    rank,
                    inserted: inserted as u64,
                    used,
                });
                let end = first + GROUP;
                let among = kind.inserted[inserted..].iter().take_while(|&&at| at < end);
                let among = among.count();
                inserted += among;
                rank += u64::from(used.count_ones()) + among as u64;
            }
        }
        debug_assert_eq!(self.kinds.len(), TermKind::DICTIONARY.len());
        IdMapping { kinds: self.kinds }
    }
}
