//! The environment of an expression: the dictionary, the query's own terms, its start time, its base IRI
//! and custom functions.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use oxiri::Iri;
use oxrdf::{NamedNode, Term};
use oxsdatatypes::DateTime;
use parking_lot::Mutex;
use pythia_rdf::inline::inline_to_literal;
use pythia_rdf::{KeyError, TermId};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

use super::casts::Casts;
use super::table::{FoundTerm, TermReader, TermResolver, TermTable};
use super::value::Value;
use super::warnings::Warnings;
use crate::error::QueryError;
use crate::limits::governor::{Governor, Working};
use crate::service::ServiceHandler;

/// A custom function of the embedding program. Its arguments are bound, and `None` is an error.
pub type CustomFunction = Arc<dyn Fn(&[Term]) -> Option<Term> + Send + Sync>;

/// Custom functions of the embedding program, by IRI.
pub type CustomFunctions = HashMap<NamedNode, CustomFunction>;

/// State shared by all expressions of a query. Cheap to clone.
#[derive(Clone)]
pub struct EvaluationContext {
    resolver: Arc<dyn TermResolver>,
    terms: Arc<TermTable>,
    base_iri: Option<Arc<Iri<String>>>,
    functions: Arc<CustomFunctions>,
    governor: Arc<Governor>,
    /// Sends requests to the endpoints of `SERVICE`.
    service: Option<Arc<dyn ServiceHandler>>,
    state: Arc<State>,
}

/// State that changes while the query runs. The clock and the random generator are costly to make for a query that asks for
/// one triple, and few queries use them: they are made when they are first used.
#[derive(Default)]
struct State {
    now: OnceLock<DateTime>,
    random: OnceLock<Random>,
    /// The running query, for `EXISTS`. Expressions do not know its type.
    query: OnceLock<Weak<dyn Any + Send + Sync>>,
    exists_made: AtomicUsize,
    /// The numbers that terms were cast to.
    casts: OnceLock<Casts>,
    /// Hints for the query's author that are not errors.
    warnings: Mutex<Warnings>,
}

/// The source of `RAND`, `UUID` and `BNODE`.
struct Random {
    /// Distinguishes the blank nodes of this query from those of every other.
    blank_node_seed: u64,
    generator: Mutex<StdRng>,
}

impl Random {
    fn new(seed: [u8; 32]) -> Self {
        let mut generator = StdRng::from_seed(seed);
        Self {
            blank_node_seed: generator.next_u64(),
            generator: Mutex::new(generator),
        }
    }
}

impl EvaluationContext {
    /// Makes a context over a dictionary, within the limits of a query.
    pub fn new(resolver: Arc<dyn TermResolver>, governor: Arc<Governor>) -> Self {
        Self {
            resolver,
            terms: Arc::new(TermTable::new()),
            base_iri: None,
            functions: Arc::default(),
            governor,
            service: None,
            state: Arc::default(),
        }
    }

    /// Sets the result of `NOW()`. Otherwise it is the time of its first use.
    #[must_use]
    pub fn with_now(self, now: DateTime) -> Self {
        // A clock that has been read stays as it is.
        let _ = self.state.now.set(now);
        self
    }

    /// Sets the random seed of `RAND`, `UUID` and `BNODE`. Otherwise it is different for every query.
    #[must_use]
    pub fn with_seed(self, seed: [u8; 32]) -> Self {
        let _ = self.state.random.set(Random::new(seed));
        self
    }

    /// Sets the base against which `IRI("…")` resolves.
    #[must_use]
    pub fn with_base_iri(mut self, base_iri: Option<Iri<String>>) -> Self {
        self.base_iri = base_iri.map(Arc::new);
        self
    }

    /// Sets the custom functions.
    #[must_use]
    pub fn with_functions(mut self, functions: Arc<CustomFunctions>) -> Self {
        self.functions = functions;
        self
    }

    /// Sets the client for the endpoints of `SERVICE`.
    #[must_use]
    pub fn with_service(mut self, service: Option<Arc<dyn ServiceHandler>>) -> Self {
        self.service = service;
        self
    }

    /// Sets the query's limits.
    #[cfg(test)]
    pub(crate) fn with_governor(mut self, governor: Arc<Governor>) -> Self {
        self.governor = governor;
        self
    }

    /// Adds the terms that another process has looked up for the query, with their ids.
    pub fn with_terms(self, terms: Vec<(Term, TermId)>) -> Result<Self, QueryError> {
        self.terms.restore(terms, &self.governor)?;
        Ok(self)
    }

    /// Returns the query's limits.
    pub fn governor(&self) -> &Arc<Governor> {
        &self.governor
    }

    /// Errors once the query is cancelled or past its deadline.
    pub fn check(&self) -> Result<(), QueryError> {
        self.governor.check()
    }

    /// Returns the terms that this query has computed.
    pub fn terms(&self) -> &Arc<TermTable> {
        &self.terms
    }

    /// Returns the dictionary.
    pub fn resolver(&self) -> &dyn TermResolver {
        &*self.resolver
    }

    /// Returns the time of the query, the same for all of its expressions.
    pub fn now(&self) -> DateTime {
        *self.state.now.get_or_init(DateTime::now)
    }

    /// Returns the query's base IRI.
    pub fn base_iri(&self) -> Option<&Iri<String>> {
        self.base_iri.as_deref()
    }

    /// Returns a custom function.
    pub fn function(&self, name: &NamedNode) -> Option<&CustomFunction> {
        self.functions.get(name)
    }

    /// Returns the client for the endpoints of `SERVICE`.
    pub fn service(&self) -> Option<&Arc<dyn ServiceHandler>> {
        self.service.as_ref()
    }

    /// Adds a warning unless it was added before.
    pub fn warn(&self, warning: String) {
        self.state.warnings.lock().add(warning);
    }

    /// Returns the warnings so far, one per line. If there are many, only the first ones.
    pub fn warnings(&self) -> Vec<String> {
        self.state.warnings.lock().lines()
    }

    /// Returns the warnings so far.
    pub fn warned(&self) -> Warnings {
        self.state.warnings.lock().clone()
    }

    /// Sets the query that these expressions are part of.
    pub fn attach(&self, query: Weak<dyn Any + Send + Sync>) {
        self.state.query.get_or_init(|| query);
    }

    /// Returns the query that these expressions are part of, if it runs.
    pub fn query(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.state.query.get().and_then(Weak::upgrade)
    }

    /// Returns a new number for an `EXISTS` of the query.
    pub fn number_exists(&self) -> usize {
        self.state.exists_made.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of `EXISTS` tests that the query has so far.
    pub fn exists_made(&self) -> usize {
        self.state.exists_made.load(Ordering::Relaxed)
    }

    /// Returns the numbers that the query's terms were cast to.
    pub(super) fn casts(&self) -> &Casts {
        let casts = &self.state.casts;
        casts.get_or_init(|| Casts::new(&self.governor))
    }

    /// Returns the number that distinguishes the blank nodes of this query from those of others.
    pub fn blank_node_seed(&self) -> u64 {
        self.random_source().blank_node_seed
    }

    /// Returns a new random generator, different for every call.
    pub fn random(&self) -> StdRng {
        StdRng::from_rng(&mut *self.random_source().generator.lock())
    }

    fn random_source(&self) -> &Random {
        (self.state.random).get_or_init(|| Random::new(random_seed()))
    }

    /// Returns the id of a term, which is added to the query's table if it has none yet.
    pub fn intern(&self, term: Term) -> Result<TermId, QueryError> {
        self.terms.intern(term, &*self.resolver, &self.governor)
    }

    /// Returns the ids of terms in order, like [`Self::intern`]. The dictionary's pages are read in one
    /// batch.
    pub fn intern_all(&self, terms: Vec<Term>) -> Result<Vec<TermId>, QueryError> {
        self.terms
            .intern_all(terms, &*self.resolver, &self.governor)
    }

    /// Returns the id of a value's canonical term.
    pub fn intern_value(&self, value: Value<'_>) -> Result<TermId, QueryError> {
        match value.to_inline() {
            Some(id) => Ok(id),
            None => self.intern(value.into_term()),
        }
    }

    /// Returns the terms of bound ids of any kind, in order. Sorted, distinct ids are fastest: the
    /// dictionary's pages are read in batches.
    pub fn decode(&self, ids: &[TermId]) -> Result<Vec<Term>, QueryError> {
        let (mut terms, places) = inline_terms(ids);
        for places in places.chunks(READ_MAX) {
            self.check()?;
            let part: Vec<TermId> = places.iter().map(|&place| ids[place]).collect();
            self.read(&part, &mut |index, term| {
                terms[places[index]] = Some(term.into_term()?);
                Ok(())
            })?;
        }
        Ok(all(terms))
    }

    /// Calls `f` with the index and each term, in any order. Ids must not be inline.
    fn read(&self, ids: &[TermId], f: &mut TermReader<'_>) -> Result<(), QueryError> {
        let is_stored = |id: &TermId| id.kind().is_dictionary();
        if ids.iter().all(is_stored) {
            return self.resolver.read(ids, f);
        }
        let of_places =
            |places: &[usize]| -> Vec<TermId> { places.iter().map(|&place| ids[place]).collect() };
        let (stored, computed): (Vec<usize>, Vec<usize>) =
            (0..ids.len()).partition(|&place| is_stored(&ids[place]));
        let mut read = |index: usize, term: FoundTerm<'_>| f(stored[index], term);
        self.resolver.read(&of_places(&stored), &mut read)?;
        let mut read = |index: usize, term: FoundTerm<'_>| f(computed[index], term);
        self.terms.read(&of_places(&computed), &mut read)
    }
}

/// Returns the terms of inline ids, and the places of the others.
fn inline_terms(ids: &[TermId]) -> (Vec<Option<Term>>, Vec<usize>) {
    let terms = ids.iter().map(|id| inline_to_literal(*id).map(Term::from));
    let is_other = |&place: &usize| !ids[place].kind().is_inline();
    (terms.collect(), (0..ids.len()).filter(is_other).collect())
}

fn all(terms: Vec<Option<Term>>) -> Vec<Term> {
    let terms = terms.into_iter();
    let terms = terms.map(|term| term.expect("every bound id has a term"));
    terms.collect()
}

/// Number of terms that are read from the dictionary between checks of the deadline.
const READ_MAX: usize = 4096;
/// Number of charged terms that are read first, while their length is unknown.
const READ_FIRST: usize = 64;
/// Approximate bytes that are read before they are charged for, estimated from the previous terms.
const READ_BYTES: usize = 1 << 20;
/// Upper limit for the texts of a usual inline term.
const INLINE_TEXT_BYTES: usize = 64;

impl EvaluationContext {
    /// Does the same as [`Self::decode`] and charges for the terms: their texts and `each_bytes` per term.
    pub fn decode_charged(
        &self,
        ids: &[TermId],
        each_bytes: usize,
        charge: &mut Working,
    ) -> Result<Vec<Term>, QueryError> {
        let inline = ids.iter().filter(|id| id.kind().is_inline()).count();
        charge.add(inline * (INLINE_TEXT_BYTES + each_bytes))?;
        let (mut terms, places) = inline_terms(ids);
        let others: Vec<TermId> = places.iter().map(|&place| ids[place]).collect();
        self.read_charged(&others, each_bytes, charge, |index, term| {
            terms[places[index]] = Some(term.into_term()?);
            Ok(())
        })?;
        Ok(all(terms))
    }

    /// Calls `f` with the index and each term, in any order, and charges for the terms: their texts and
    /// `each_bytes` per term. Ids must not be inline. Reads a few terms first, then as many at a time as the previous
    /// lengths allow.
    pub(super) fn read_charged(
        &self,
        ids: &[TermId],
        each_bytes: usize,
        charge: &mut Working,
        mut f: impl FnMut(usize, FoundTerm<'_>) -> Result<(), KeyError>,
    ) -> Result<(), QueryError> {
        let (mut start, mut count) = (0, READ_FIRST);
        while start < ids.len() {
            self.check()?;
            let part = &ids[start..(start + count).min(ids.len())];
            let mut texts_bytes = 0;
            self.read(part, &mut |index, term| {
                texts_bytes += term.text_bytes();
                f(start + index, term)
            })?;
            charge.add(texts_bytes + part.len() * each_bytes)?;
            let fitting = READ_BYTES * part.len() / texts_bytes.max(1);
            count = fitting.clamp(1, 8 * part.len()).min(READ_MAX);
            start += part.len();
        }
        Ok(())
    }
}

/// Returns 256 random bits, different for every call, from the entropy that the standard library seeds its
/// hash maps with.
fn random_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    for part in seed.chunks_exact_mut(8) {
        part.copy_from_slice(&RandomState::new().hash_one(0_u8).to_ne_bytes());
    }
    seed
}

impl fmt::Debug for EvaluationContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluationContext")
            .field("now", &self.state.now)
            .field("base_iri", &self.base_iri)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use oxrdf::TermRef;
    use pythia_rdf::TermKind;
    use pythia_rdf::key::KeyParts;

    use super::*;

    /// Texts of one length, and the sizes of the requested batches.
    struct Texts {
        bytes: usize,
        asked: Mutex<Vec<usize>>,
    }

    impl TermResolver for Texts {
        fn resolve(&self, _: TermRef<'_>) -> Result<Option<TermId>, QueryError> {
            Ok(None)
        }

        fn read(&self, ids: &[TermId], f: &mut TermReader<'_>) -> Result<(), QueryError> {
            self.asked.lock().push(ids.len());
            let text = "x".repeat(self.bytes);
            for index in 0..ids.len() {
                f(index, FoundTerm::Parts(KeyParts::String(&text))).expect("a text");
            }
            Ok(())
        }
    }

    /// Returns the sizes of the batches requested to decode `count` texts, and whether they fit into 8 MiB.
    fn asked(bytes: usize, count: u64) -> (Vec<usize>, bool) {
        let texts = Arc::new(Texts {
            bytes,
            asked: Mutex::default(),
        });
        let governor = Arc::new(Governor::with_memory(8 << 20));
        let resolver: Arc<dyn TermResolver> = Arc::<Texts>::clone(&texts);
        let context = EvaluationContext::new(resolver, Arc::clone(&governor));
        let ids: Vec<TermId> = (0..count)
            .map(|n| TermId::new(TermKind::String, n))
            .collect();
        let mut charge = Working::new(&governor);
        let decoded = context.decode_charged(&ids, 0, &mut charge);
        let fits = match decoded {
            Ok(terms) => terms.len() == ids.len(),
            Err(error) => {
                assert!(matches!(error, QueryError::Memory(_)));
                false
            }
        };
        (texts.asked.lock().clone(), fits)
    }

    #[test]
    fn long_texts_are_charged_for_a_few_at_a_time() {
        let (asked, fits) = asked(200_000, 65_536);
        assert_eq!((asked, fits), (vec![64], false));
        let (asked, fits) = self::asked(20_000, 300);
        assert_eq!((asked[..2].to_vec(), fits), (vec![64, 52], true));
    }

    #[test]
    fn short_texts_are_read_in_large_batches() {
        let (asked, fits) = asked(20, 65_536);
        assert!(fits && asked.len() <= 18, "{asked:?}");
    }
}
