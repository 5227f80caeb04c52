//! The mapping from the ids of a base and its runs to those of the base that replaces them.
//!
//! A term of the old base keeps its place among the others: its new rank is its old rank, minus the unused terms
//! before it, plus the new terms sorted before it. For each 64 old ranks, therefore, the mapping keeps the new rank
//! of the first, which of the 64 are used, which of them follow new terms, and how many. Compaction looks up four ids
//! for every row, so a lookup takes the same few steps regardless of the number of new terms and of where they sort.

use pythia_rdf::{TermId, TermKind};

use super::kind_place;
use super::used::UsedTerms;

/// Old ranks per group.
const GROUP: u64 = 64;
/// In place of a new rank: no quad uses the term.
const UNUSED: u64 = u64::MAX;

/// The mapping from ids of a base and of the terms added after it to ids of a new base.
#[derive(Clone, Debug)]
pub struct IdMapping {
    kinds: Vec<KindMapping>,
}

#[derive(Clone, Debug, Default)]
struct KindMapping {
    /// Number of terms in the old base.
    base: u64,
    groups: Vec<RankBlock>,
    /// For each gap of a group, in order, the number of new terms in the group's gaps up to this one.
    among: Vec<u64>,
    /// New ranks of new terms, in the order in which the terms were added.
    new: Vec<u64>,
}

/// 64 old ranks.
#[derive(Clone, Copy, Debug)]
struct RankBlock {
    /// Number of used terms and new terms before the group.
    rank: u64,
    /// One bit for each rank that is used.
    used: u64,
    /// One bit for each rank that follows new terms; never set for the first.
    gaps: u64,
    /// Index of the group's first gap in `among`.
    first_gap: u64,
}

impl IdMapping {
    /// Returns the new id of an old one; `None` if no quad of the new base has it.
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

    /// Returns whether an id is of a term added after the dictionary was written.
    #[inline]
    pub(super) fn is_later(&self, old: TermId) -> bool {
        kind_place(old).is_some_and(|place| old.payload() >= self.kinds[place].base)
    }

    /// Returns the new ids of old ones, in their order.
    pub fn new_ids(&self, old: &[TermId]) -> Vec<Option<TermId>> {
        old.iter().map(|&id| self.new_id(id)).collect()
    }

    /// Returns the bytes of memory that the mapping takes.
    pub fn memory_bytes(&self) -> usize {
        let bytes = |kind: &KindMapping| {
            size_of_val(&*kind.groups) + size_of_val(&*kind.among) + size_of_val(&*kind.new)
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
        let gaps = (group.gaps & (u64::MAX >> (GROUP - 1 - bit))).count_ones();
        let among = match gaps {
            0 => 0,
            gaps => self.among[(group.first_gap + u64::from(gaps) - 1) as usize],
        };
        Some(group.rank + u64::from(before) + among)
    }
}

/// New terms between two adjacent terms of the old base.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// Number of terms of the old base that sort before them.
    before: u64,
    /// Number of new terms.
    new: u64,
}

/// Builder of a mapping, while the new dictionary is written.
pub(super) struct MappingBuilder<'u> {
    used: &'u UsedTerms,
    kinds: Vec<KindMapping>,
    /// The gaps of each kind, in order.
    gaps: Vec<Vec<Gap>>,
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
            gaps: vec![Vec::new(); used.kinds.len()],
            used,
        }
    }

    /// Adds a new term, in order. `before` counts the terms of the base that sort before it; `new` is its id in the
    /// new base.
    pub(super) fn new_term(&mut self, old: TermId, before: u64, new: TermId) {
        let place = kind_place(old).expect("new terms are of dictionary kinds");
        let kind = &mut self.kinds[place];
        kind.new[(old.payload() - kind.base) as usize] = new.payload();
        let gaps = &mut self.gaps[place];
        match gaps.last_mut() {
            Some(gap) if gap.before == before => gap.new += 1,
            _ => gaps.push(Gap { before, new: 1 }),
        }
    }

    pub(super) fn finish(mut self) -> IdMapping {
        let kinds = self.kinds.iter_mut().zip(&self.used.kinds);
        for ((kind, terms), gaps) in kinds.zip(&self.gaps) {
            kind.add_groups(terms, gaps);
        }
        debug_assert_eq!(self.kinds.len(), TermKind::DICTIONARY.len());
        IdMapping { kinds: self.kinds }
    }
}

impl KindMapping {
    fn add_groups(&mut self, terms: &super::used::KindTerms, gaps: &[Gap]) {
        let mut gaps = gaps.iter().copied().peekable();
        let mut rank = 0;
        for number in 0..terms.base.div_ceil(GROUP) {
            let first = number * GROUP;
            let all = u64::MAX >> (GROUP - (terms.base - first).min(GROUP));
            let used = match &terms.used_base {
                Some(used) => used.words()[number as usize],
                None => all,
            };
            // New terms right before the group's first term come before the whole group.
            while let Some(gap) = gaps.next_if(|gap| gap.before <= first) {
                rank += gap.new;
            }
            let mut group = RankBlock {
                rank,
                used,
                gaps: 0,
                first_gap: self.among.len() as u64,
            };
            let mut among = 0;
            while let Some(gap) = gaps.next_if(|gap| gap.before < first + GROUP) {
                among += gap.new;
                group.gaps |= 1 << (gap.before - first);
                self.among.push(among);
            }
            self.groups.push(group);
            rank += u64::from(used.count_ones()) + among;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::super::used::{Bits, KindTerms};
    use super::*;

    /// Makes a mapping of IRIs: `used` marks used base terms, `new` says before how many of them each new term goes.
    fn mapping(used: &[bool], new: &[u64]) -> IdMapping {
        let mut used_base = Bits::new(used.len() as u64);
        for (rank, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            used_base.insert(rank as u64);
        }
        let kind = |kind: TermKind| match kind {
            TermKind::Iri => KindTerms {
                base: used.len() as u64,
                new: new.len() as u64,
                used_base: Some(used_base.clone()),
                used_new: Bits::new(new.len() as u64),
            },
            _ => KindTerms {
                base: 0,
                new: 0,
                used_base: None,
                used_new: Bits::new(0),
            },
        };
        let used_terms = UsedTerms {
            kinds: TermKind::DICTIONARY.map(kind).to_vec(),
        };
        let mut builder = MappingBuilder::new(&used_terms);
        for (serial, &before) in new.iter().enumerate() {
            let old = TermId::new(TermKind::Iri, (used.len() + serial) as u64);
            let rank = used[..before as usize].iter().filter(|used| **used).count() + serial;
            builder.new_term(old, before, TermId::new(TermKind::Iri, rank as u64));
        }
        builder.finish()
    }

    fn check(used: &[bool], new: &[u64]) -> IdMapping {
        let mapping = mapping(used, new);
        let (mut rank, mut serial) = (0, 0);
        for (old, &used) in used.iter().enumerate() {
            serial += new[serial..]
                .iter()
                .take_while(|&&before| before <= old as u64)
                .count();
            let expected = used.then(|| TermId::new(TermKind::Iri, rank + serial as u64));
            let old = TermId::new(TermKind::Iri, old as u64);
            assert_eq!(mapping.new_id(old), expected, "{old:?} of {new:?}");
            rank += u64::from(used);
        }
        mapping
    }

    #[test]
    fn terms_keep_their_order_wherever_new_ones_are_put() {
        let mut random = SmallRng::seed_from_u64(14);
        for case in 0..300 {
            let base = [0, 1, 63, 64, 65, 128, 300][case % 7];
            let used: Vec<bool> = (0..base).map(|_| random.random_ratio(4, 5)).collect();
            let count = random.random_range(0..200);
            let most = if case % 2 == 0 { base } else { base.min(70) };
            let mut new: Vec<u64> = (0..count)
                .map(|_| random.random_range(0..=most as u64))
                .collect();
            new.sort_unstable();
            check(&used, &new);
        }
    }

    /// A lookup reads its group and at most one gap. As 64 ranks have at most 64 gaps, new terms that crowd before
    /// one term leave a single entry, so a lookup has nothing to skip.
    #[test]
    fn an_answer_takes_no_longer_where_new_terms_crowd() {
        let used = vec![true; 1000];
        let crowded = check(&used, &vec![530; 20_000]);
        let iris = |mapping: &IdMapping| {
            let kind = kind_place(TermId::new(TermKind::Iri, 0)).expect("a dictionary kind");
            mapping.kinds[kind].among.len()
        };
        assert_eq!(iris(&crowded), 1);
        let spread: Vec<u64> = (0..20_000).map(|n| n / 20).collect();
        let most = used.len();
        assert!(iris(&check(&used, &spread)) < most);
    }
}
