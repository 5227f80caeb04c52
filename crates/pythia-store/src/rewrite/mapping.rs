//! From the ids of a base and its runs to those of the base that replaces them.
//!
//! A term of the old base keeps its place among the others: its new rank is its old one, less the
//! unused terms before it, plus the new terms sorted before it. So for each 64 old ranks it is enough to
//! know the new rank of the first, which of the 64 are used, before which of them new terms were put,
//! and how many. Every row of a rewrite asks four times, so an answer takes the same few steps however
//! many new terms there are, and wherever they sort.

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
    /// For each gap of a group, in order, how many new terms are in the group's gaps up to this one.
    among: Vec<u64>,
    /// New ranks of new terms, by the order in which these came.
    new: Vec<u64>,
}

/// 64 old ranks.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Used terms and new terms before all of them.
    rank: u64,
    /// Which of them are used, a bit each.
    used: u64,
    /// Which of them have new terms right before them, a bit each; never the first.
    gaps: u64,
    /// Where the group's gaps begin in `among`.
    first_gap: u64,
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

/// New terms that were put between the same two terms of the old base.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// How many terms of the old base sort before them.
    before: u64,
    /// How many they are.
    new: u64,
}

/// Makes a mapping while the new dictionary is written.
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

    /// A new term, in order: how many terms of the base sort before it, and its id in the new base.
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
            // Those right before the first of the group come before all of it.
            while let Some(gap) = gaps.next_if(|gap| gap.before <= first) {
                rank += gap.new;
            }
            let mut group = Group {
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

    /// A mapping of IRIs: which of the base's are used, and before how many of them each new one is put.
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

    /// What an answer looks at: its group and at most one gap. As 64 ranks have at most 64 gaps, new
    /// terms that crowd before one term leave one entry, and none that would have to be passed over.
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
