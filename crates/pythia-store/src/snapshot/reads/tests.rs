use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;

fn set() -> ReadSet {
    ReadSet::new(None)
}

/// Gives at most this many bytes.
struct AtMost {
    bytes: usize,
    taken: Arc<AtomicUsize>,
}

impl Allowance for AtMost {
    fn set(&mut self, bytes: usize) -> Result<(), String> {
        if bytes > self.bytes {
            return Err(format!("{bytes} bytes"));
        }
        self.taken.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn left(&self) -> usize {
        self.bytes - self.taken.load(Ordering::Relaxed)
    }
}

fn of_predicate(subject: u64, predicate: u64) -> QuadPattern {
    QuadPattern {
        subject: Some(TermId(subject)),
        predicate: Some(TermId(predicate)),
        ..QuadPattern::default()
    }
}

fn of_subject(subject: u64) -> QuadPattern {
    QuadPattern {
        subject: Some(TermId(subject)),
        ..QuadPattern::default()
    }
}

fn iri(bytes: &[u8]) -> TermKey<'_> {
    TermKey {
        kind: TermKind::Iri,
        bytes,
    }
}

fn patterns() -> impl Strategy<Value = QuadPattern> {
    let id = || prop::option::of((1..4u64).prop_map(TermId));
    let graph = prop_oneof![
        Just(GraphFilter::Any),
        Just(GraphFilter::Named),
        (0..3u64).prop_map(|graph| GraphFilter::One(TermId(graph))),
    ];
    (id(), id(), id(), graph).prop_map(|(subject, predicate, object, graph)| QuadPattern {
        subject,
        predicate,
        object,
        graph,
    })
}

proptest! {
    #[test]
    fn a_quad_is_included_if_a_pattern_matches_it(
        patterns in prop::collection::vec(patterns(), 0..5),
        quad in [1..4u64, 1..4u64, 1..4u64, 0..3u64],
    ) {
        let mut set = set();
        patterns.iter().for_each(|pattern| set.pattern(pattern));
        let is_match = |pattern: &QuadPattern| {
            let bound = [pattern.subject, pattern.predicate, pattern.object];
            let mut pairs = bound.iter().zip(&quad);
            pairs.all(|(bound, id)| bound.is_none_or(|bound| bound.0 == *id))
                && pattern.graph.accepts(TermId(quad[3]))
        };
        prop_assert_eq!(set.includes(&quad), patterns.iter().any(is_match));
    }
}

#[test]
fn too_many_patterns_become_predicates() {
    let mut set = set();
    for subject in 0..1_000_000 {
        set.pattern(&of_predicate(subject, subject % 3));
    }
    assert_eq!(set.detail, Detail::Predicates);
    assert!(set.memory_bytes() <= BYTES_MAX);
    assert!(set.includes(&[2_000_000, 2, 7, 0]));
    assert!(!set.includes(&[2, 3, 7, 0]));
    set.pattern(&of_subject(9));
    assert!(set.includes(&[2, 3, 7, 0]));
}

#[test]
fn many_patterns_without_predicate_become_everything() {
    let mut set = set();
    for subject in 0..1_000_000 {
        set.pattern(&of_subject(subject));
    }
    assert_eq!((set.detail, set.memory_bytes()), (Detail::None, 0));
    assert!(set.includes(&[2_000_000, 2, 7, 0]));
}

#[test]
fn what_does_not_fit_into_the_budget_is_recorded_more_coarsely() {
    for bytes in [0, 20, 100, 1000, 10_000, 100_000] {
        let taken = Arc::new(AtomicUsize::new(0));
        let mut set = ReadSet::new(Some(Box::new(AtMost {
            bytes,
            taken: Arc::clone(&taken),
        })));
        for number in 0..2000 {
            set.pattern(&of_predicate(number, 7));
            set.graph(TermId(number));
            set.absent(iri(format!("http://example.org/{number}").as_bytes()));
            assert!(set.includes(&[number, 7, 1, 0]), "{bytes} {number}");
            assert!(set.asks_for(number) || set.detail == Detail::None);
            let absent = set.absent_terms();
            let key = format!("http://example.org/{number}");
            assert!(absent.is_none_or(|terms| terms.find(iri(key.as_bytes())).is_some()));
            assert!(set.memory_bytes() <= bytes);
            assert_eq!(taken.load(Ordering::Relaxed), set.memory_bytes());
        }
    }
}

#[test]
fn absent_terms_are_found_by_their_keys() {
    let mut set = set();
    set.absent(iri(b"http://example.org/a"));
    set.absent(iri(b"http://example.org/a"));
    let absent = set.absent_terms().expect("they fit");
    assert_eq!(absent.len(), 1);
    assert!(absent.find(iri(b"http://example.org/a")).is_some());
    assert!(absent.find(iri(b"http://example.org/b")).is_none());
}
