//! Characteristic sets (Neumann & Moerkotte, ICDE 2011): the sets of predicates that subjects have, with their
//! frequencies, gathered while the quads are written in SPO order. They estimate the solutions of a star of patterns,
//! which counts of single patterns cannot.
//!
//! The most frequent [`SETS_MAX`] sets are kept; subjects of the others are only counted. Graphs are ignored.

use std::sync::Arc;

use parking_lot::RwLock;
use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_rdf::TermId;
use rustc_hash::FxHashMap;

use crate::StoreError;

/// Sets that are kept.
pub const SETS_MAX: usize = 10_000;
/// Sets that an estimate looks at: the most frequent ones that may match. The rest is taken to be like them, because the
/// planner asks for the star of each set of patterns.
const SETS_LOOKED_AT: usize = 128;
/// Stars that are remembered.
const STARS_REMEMBERED: usize = 4096;
/// Sets that are counted before the rare ones are dropped.
const SETS_COUNTED: usize = 4 * SETS_MAX;

/// The subjects that have exactly these predicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharacteristicSet {
    /// The predicates, sorted.
    pub predicates: Box<[TermId]>,
    /// Number of subjects.
    pub subjects: u64,
    /// Their quads with each of the predicates.
    pub quads: Box<[u64]>,
}

/// The estimate of a star: the matches of several patterns with one subject, each with a predicate.
#[derive(Clone, Debug, PartialEq)]
pub struct Star {
    /// Subjects that have all of the predicates.
    pub subjects: f64,
    /// Solutions of the patterns.
    pub matches: f64,
    /// Quads of these subjects with each of the predicates.
    pub quads: Vec<f64>,
}

impl Star {
    fn scale(&mut self, factor: f64) {
        self.subjects *= factor;
        self.matches *= factor;
        self.quads.iter_mut().for_each(|quads| *quads *= factor);
    }
}

/// The characteristic sets of a store's subjects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CharacteristicSets {
    /// The most frequent first.
    sets: Vec<CharacteristicSet>,
    /// Subjects whose sets are not kept.
    unlisted_subjects: u64,
    with_predicate: FxHashMap<TermId, SetsWith>,
    stars: RememberedStars,
}

/// Estimates of stars by their predicates. Queries of one shape ask for the same ones.
#[derive(Debug, Default)]
struct RememberedStars(RwLock<StarsOf>);

type StarsOf = FxHashMap<Box<[TermId]>, Option<Arc<Star>>>;

impl Clone for RememberedStars {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for RememberedStars {
    /// Returns true: equal sets have equal stars, remembered or not.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RememberedStars {}

/// The sets that have a predicate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SetsWith {
    /// Their numbers, ascending.
    numbers: Vec<u32>,
    /// The sum of their subjects.
    subjects: u64,
}

impl CharacteristicSets {
    fn new(sets: Vec<CharacteristicSet>, unlisted_subjects: u64) -> Self {
        let mut with_predicate: FxHashMap<TermId, SetsWith> = FxHashMap::default();
        for (number, set) in (0..).zip(&sets) {
            for &predicate in &set.predicates {
                let with = with_predicate.entry(predicate).or_default();
                with.numbers.push(number);
                with.subjects = with.subjects.saturating_add(set.subjects);
            }
        }
        Self {
            sets,
            unlisted_subjects,
            with_predicate,
            stars: RememberedStars::default(),
        }
    }

    /// Returns the sets, the most frequent first.
    pub fn sets(&self) -> &[CharacteristicSet] {
        &self.sets
    }

    /// Returns the number of subjects whose sets are not listed.
    pub fn unlisted_subjects(&self) -> u64 {
        self.unlisted_subjects
    }

    /// Returns the subjects of all sets, listed or not; `None` if the sum overflows.
    pub(crate) fn total_subjects(&self) -> Option<u64> {
        let mut subjects = self.sets.iter().map(|set| set.subjects);
        subjects.try_fold(self.unlisted_subjects, u64::checked_add)
    }

    /// Estimates the star of the subjects that have all of these predicates, of which some may be the same. `None` if no
    /// listed set has them and some sets are not listed, or if no set has one of them. If no set has all of them, they are
    /// estimated at one subject, which may have been changed later.
    pub fn star(&self, predicates: &[TermId]) -> Option<Arc<Star>> {
        if let Some(known) = self.stars.0.read().get(predicates) {
            return known.clone();
        }
        let star = self.count_star(predicates).map(Arc::new);
        let mut stars = self.stars.0.write();
        if stars.len() >= STARS_REMEMBERED {
            stars.clear();
        }
        stars.insert(predicates.into(), star.clone());
        star
    }

    fn count_star(&self, predicates: &[TermId]) -> Option<Star> {
        let lists = predicates.iter().map(|p| self.with_predicate.get(p));
        let rarest = lists.min_by_key(|list| list.map_or(0, |list| list.numbers.len()))??;
        let mut star = Star {
            subjects: 0.0,
            matches: 0.0,
            quads: vec![0.0; predicates.len()],
        };
        let mut here = Vec::with_capacity(predicates.len());
        let mut looked_at = 0.0;
        for &number in rarest.numbers.iter().take(SETS_LOOKED_AT) {
            let set = &self.sets[number as usize];
            looked_at += set.subjects as f64;
            let places = predicates.iter().map(|p| set.predicates.binary_search(p));
            here.clear();
            here.extend(
                places
                    .map_while(Result::ok)
                    .map(|place| set.quads[place] as f64),
            );
            if here.len() < predicates.len() {
                continue;
            }
            let subjects = set.subjects as f64;
            star.subjects += subjects;
            star.matches += here
                .iter()
                .fold(subjects, |all, quads| all * quads / subjects);
            star.quads
                .iter_mut()
                .zip(&here)
                .for_each(|(sum, quads)| *sum += quads);
        }
        if star.subjects > 0.0 {
            if rarest.numbers.len() > SETS_LOOKED_AT {
                star.scale(rarest.subjects as f64 / looked_at);
            }
            return Some(star);
        }
        (self.unlisted_subjects == 0).then(|| Star {
            subjects: 1.0,
            matches: 1.0,
            quads: vec![1.0; predicates.len()],
        })
    }

    /// Appends the stored form.
    pub(crate) fn write(&self, out: &mut ByteWriter) {
        let mut predicates: Vec<TermId> = self.with_predicate.keys().copied().collect();
        predicates.sort_unstable();
        let number = |id: &TermId| predicates.binary_search(id).expect("a set has it") as u64;
        out.varint(self.unlisted_subjects);
        out.varint(predicates.len() as u64);
        predicates.iter().for_each(|id| out.varint(id.0));
        out.varint(self.sets.len() as u64);
        for set in &self.sets {
            out.varint(set.subjects);
            out.varint(set.predicates.len() as u64);
            for (predicate, quads) in set.predicates.iter().zip(&set.quads) {
                out.varint(number(predicate));
                out.varint(*quads);
            }
        }
    }

    /// Reads the output of [`Self::write`].
    pub(crate) fn read(input: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let unlisted_subjects = input.varint()?;
        let mut predicates = Vec::new();
        for _ in 0..input.count(1)? {
            predicates.push(TermId(input.varint()?));
        }
        if !predicates.is_sorted_by(|a, b| a < b) {
            return Err(input.corrupt("the predicates of characteristic sets in order"));
        }
        let mut sets: Vec<CharacteristicSet> = Vec::new();
        for _ in 0..input.count(2)? {
            let subjects = input.varint()?;
            let (mut members, mut quads) = (Vec::new(), Vec::new());
            for _ in 0..input.count(2)? {
                let number = usize::try_from(input.varint()?).unwrap_or(usize::MAX);
                let Some(&predicate) = predicates.get(number) else {
                    return Err(input.corrupt("a characteristic set of listed predicates"));
                };
                members.push(predicate);
                quads.push(input.varint()?);
            }
            let frequent_first = sets.last().is_none_or(|last| last.subjects >= subjects);
            if subjects == 0 || !frequent_first || !members.is_sorted_by(|a, b| a < b) {
                return Err(input.corrupt("characteristic sets in order"));
            }
            sets.push(CharacteristicSet {
                predicates: members.into(),
                subjects,
                quads: quads.into(),
            });
        }
        Ok(Self::new(sets, unlisted_subjects))
    }
}

/// Subjects and quads per predicate of a set.
#[derive(Debug)]
struct Counts {
    subjects: u64,
    quads: Box<[u64]>,
}

/// Collector of the sets, from quads in SPO order.
#[derive(Debug, Default)]
pub(crate) struct CharacteristicCounter {
    subject: u64,
    /// The predicates of the current subject, and its quads with each.
    predicates: Vec<u64>,
    quads: Vec<u64>,
    sets: FxHashMap<Box<[u64]>, Counts>,
    unlisted_subjects: u64,
}

impl CharacteristicCounter {
    #[inline]
    pub(crate) fn count(&mut self, subject: u64, predicate: u64) {
        if subject != self.subject {
            self.settle();
            self.subject = subject;
        }
        if self.predicates.last() == Some(&predicate) {
            *self.quads.last_mut().expect("as long as the predicates") += 1;
        } else {
            self.predicates.push(predicate);
            self.quads.push(1);
        }
    }

    fn settle(&mut self) {
        if self.predicates.is_empty() {
            return;
        }
        match self.sets.get_mut(&self.predicates[..]) {
            Some(counts) => {
                counts.subjects += 1;
                for (sum, quads) in counts.quads.iter_mut().zip(&self.quads) {
                    *sum += quads;
                }
            }
            None => {
                let counts = Counts {
                    subjects: 1,
                    quads: self.quads.clone().into(),
                };
                self.sets.insert(self.predicates.clone().into(), counts);
                if self.sets.len() >= SETS_COUNTED {
                    let frequent = self.most_frequent();
                    self.sets = frequent.into_iter().collect();
                }
            }
        }
        self.predicates.clear();
        self.quads.clear();
    }

    /// Takes out the most frequent sets, and counts the subjects of the others.
    fn most_frequent(&mut self) -> Vec<(Box<[u64]>, Counts)> {
        let mut sets: Vec<_> = self.sets.drain().collect();
        sets.sort_unstable_by(|(a_set, a), (b_set, b)| {
            let subjects = b.subjects.cmp(&a.subjects);
            subjects.then_with(|| a_set.cmp(b_set))
        });
        let unlisted = sets
            .iter()
            .skip(SETS_MAX)
            .map(|(_, counts)| counts.subjects);
        self.unlisted_subjects += unlisted.sum::<u64>();
        sets.truncate(SETS_MAX);
        sets
    }

    pub(crate) fn finish(mut self) -> CharacteristicSets {
        self.settle();
        let sets = self.most_frequent().into_iter();
        let sets = sets.map(|(predicates, counts)| CharacteristicSet {
            predicates: predicates.iter().map(|&id| TermId(id)).collect(),
            subjects: counts.subjects,
            quads: counts.quads,
        });
        CharacteristicSets::new(sets.collect(), self.unlisted_subjects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(rows: impl IntoIterator<Item = (u64, u64)>) -> CharacteristicSets {
        let mut counter = CharacteristicCounter::default();
        for (subject, predicate) in rows {
            counter.count(subject, predicate);
        }
        counter.finish()
    }

    #[test]
    fn stars_are_counted_together_and_come_back() {
        // Two subjects have 7 and 8 (one has 8 twice); one has 7 alone, and one has 6.
        let sets = gather([(1, 7), (1, 8), (2, 7), (2, 8), (2, 8), (3, 7), (4, 6)]);
        let star = |predicates: &[u64]| {
            let predicates: Vec<TermId> = predicates.iter().map(|&id| TermId(id)).collect();
            let star = sets.star(&predicates)?;
            Some((star.subjects, star.matches, star.quads.clone()))
        };
        assert_eq!(star(&[7]), Some((3.0, 3.0, vec![3.0])));
        assert_eq!(star(&[7, 8]), Some((2.0, 3.0, vec![2.0, 3.0])));
        assert_eq!(star(&[8, 7]), Some((2.0, 3.0, vec![3.0, 2.0])));
        assert_eq!(star(&[8, 8]), Some((2.0, 4.5, vec![3.0, 3.0])));
        assert_eq!(star(&[8, 9]), None);
        assert_eq!(star(&[6, 8]), Some((1.0, 1.0, vec![1.0, 1.0])));
        assert_eq!(star(&[9]), None);
        assert_eq!(sets.total_subjects(), Some(4));
        let mut out = ByteWriter::new();
        sets.write(&mut out);
        let bytes = out.into_bytes();
        let read = CharacteristicSets::read(&mut ByteReader::new("test", &bytes));
        assert_eq!(read.expect("just written"), sets);
        for cut in 0..bytes.len() {
            let damaged = CharacteristicSets::read(&mut ByteReader::new("test", &bytes[..cut]));
            assert!(damaged.is_err(), "{cut} bytes were enough");
        }
    }

    #[test]
    fn sets_that_are_not_looked_at_are_like_the_others() {
        // Each subject has a set of its own, with 1 and another; every second has 2, and every fourth has 3 twice.
        let sets = gather((0..4 * SETS_LOOKED_AT as u64).flat_map(|n| {
            let own = [(n, 1), (n, 2), (n, 3), (n, 3), (n, 1000 + n)];
            own.into_iter()
                .filter(move |(_, predicate)| match predicate {
                    2 => n % 2 == 0,
                    3 => n % 4 == 0,
                    _ => true,
                })
        }));
        let star = |predicates: &[u64]| {
            let predicates: Vec<TermId> = predicates.iter().map(|&id| TermId(id)).collect();
            sets.star(&predicates).expect("some subject has them")
        };
        let all = 4.0 * SETS_LOOKED_AT as f64;
        let is_near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.2;
        assert_eq!(star(&[1]).subjects, all);
        assert!(is_near(star(&[1, 2]).subjects, all / 2.0));
        let twice = star(&[1, 3]);
        assert!(is_near(twice.subjects, all / 4.0) && is_near(twice.matches, all / 2.0));
        assert!(is_near(twice.quads[1], all / 2.0));
    }

    #[test]
    fn few_stars_are_remembered_and_each_stays_the_same() {
        let sets = gather([(1, 7), (1, 8), (2, 7), (2, 8), (2, 8), (3, 7)]);
        let star = |predicates: &[TermId]| sets.star(predicates).map(|star| (*star).clone());
        let both = [TermId(7), TermId(8)];
        let before = star(&both);
        for length in 1..=2 * STARS_REMEMBERED {
            star(&vec![TermId(7); length % 64 + 1]);
            star(&[TermId(7), TermId(length as u64)]);
            assert!(sets.stars.0.read().len() <= STARS_REMEMBERED);
        }
        assert_eq!(star(&both), before);
        // What is remembered is no part of the sets.
        assert_eq!(sets, sets.clone());
    }

    #[test]
    fn rare_sets_are_given_up_and_their_subjects_counted() {
        let common = (0..1000).map(|subject| (subject + 1, 1));
        let rare = (0..SETS_COUNTED as u64 + 7).map(|n| (n + 10_000, n + 2));
        let sets = gather(common.chain(rare));
        assert_eq!(sets.sets().len(), SETS_MAX);
        assert_eq!(sets.sets()[0].subjects, 1000);
        assert_eq!(sets.total_subjects(), Some(1000 + SETS_COUNTED as u64 + 7));
    }
}
