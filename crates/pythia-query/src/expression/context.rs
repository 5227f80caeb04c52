//! What an expression needs besides its rows: the dictionary, the query's own terms, the moment
//! the query started, its base IRI and the functions of the embedding program.

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
use pythia_rdf::{TermId, TermKind};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

use super::table::{TermResolver, TermTable};
use super::value::Value;
use super::warnings::Warnings;
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::governor::Governor;
use crate::service::ServiceHandler;

/// A function of the embedding program: its arguments are bound, and `None` is an error.
pub type CustomFunction = Arc<dyn Fn(&[Term]) -> Option<Term> + Send + Sync>;

/// The functions of the embedding program, by IRI.
pub type CustomFunctions = HashMap<NamedNode, CustomFunction>;

/// What all expressions of one query share. Cheap to clone.
#[derive(Clone)]
pub struct EvaluationContext {
    resolver: Arc<dyn TermResolver>,
    terms: Arc<TermTable>,
    now: DateTime,
    base_iri: Option<Arc<Iri<String>>>,
    functions: Arc<CustomFunctions>,
    governor: Arc<Governor>,
    /// Makes the blank nodes of this query different from those of every other.
    blank_node_seed: u64,
    random: Arc<Mutex<StdRng>>,
    /// The running query, for `EXISTS`.
    query: Arc<OnceLock<Weak<QueryContext>>>,
    exists_made: Arc<AtomicUsize>,
    /// What whoever wrote the query should know, though it is no error.
    warnings: Arc<Mutex<Warnings>>,
    /// Asks the endpoints of `SERVICE`.
    service: Option<Arc<dyn ServiceHandler>>,
}

impl EvaluationContext {
    /// A context over a dictionary. `now` is what `NOW()` gives for the whole query; `seed` is
    /// where `RAND`, `UUID` and `BNODE` draw from: [`random_seed`], except in tests.
    pub fn new(resolver: Arc<dyn TermResolver>, now: DateTime, seed: [u8; 32]) -> Self {
        let mut random = StdRng::from_seed(seed);
        Self {
            resolver,
            terms: Arc::new(TermTable::new()),
            now,
            base_iri: None,
            functions: Arc::default(),
            governor: Arc::new(Governor::unlimited()),
            blank_node_seed: random.next_u64(),
            random: Arc::new(Mutex::new(random)),
            query: Arc::default(),
            exists_made: Arc::default(),
            warnings: Arc::default(),
            service: None,
        }
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

    /// Sets who asks the endpoints of `SERVICE`.
    #[must_use]
    pub fn with_service(mut self, service: Option<Arc<dyn ServiceHandler>>) -> Self {
        self.service = service;
        self
    }

    /// Sets the query's limits.
    #[must_use]
    pub fn with_governor(mut self, governor: Arc<Governor>) -> Self {
        self.governor = governor;
        self
    }

    /// The query's limits.
    pub fn governor(&self) -> &Arc<Governor> {
        &self.governor
    }

    /// An error once the query is cancelled or past its deadline.
    pub fn check(&self) -> Result<(), QueryError> {
        self.governor.check()
    }

    /// The terms this query has computed.
    pub fn terms(&self) -> &Arc<TermTable> {
        &self.terms
    }

    /// The dictionary.
    pub fn resolver(&self) -> &dyn TermResolver {
        &*self.resolver
    }

    /// When the query started.
    pub fn now(&self) -> DateTime {
        self.now
    }

    /// The query's base IRI.
    pub fn base_iri(&self) -> Option<&Iri<String>> {
        self.base_iri.as_deref()
    }

    /// A custom function.
    pub fn function(&self, name: &NamedNode) -> Option<&CustomFunction> {
        self.functions.get(name)
    }

    /// Who asks the endpoints of `SERVICE`.
    pub(crate) fn service(&self) -> Option<&Arc<dyn ServiceHandler>> {
        self.service.as_ref()
    }

    /// Adds a warning, once.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.lock().add(warning);
    }

    /// The warnings up to now.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().lines()
    }

    /// The warnings up to now.
    pub(crate) fn warned(&self) -> Warnings {
        self.warnings.lock().clone()
    }

    /// Says which query these expressions are part of.
    pub(crate) fn attach(&self, query: &Arc<QueryContext>) {
        self.query.get_or_init(|| Arc::downgrade(query));
    }

    /// The query these expressions are part of.
    pub(crate) fn query(&self) -> Result<Arc<QueryContext>, QueryError> {
        let query = self.query.get().and_then(Weak::upgrade);
        query.ok_or_else(|| QueryError::Execution("EXISTS outside a running query".to_owned()))
    }

    /// A number for one more `EXISTS` of the query.
    pub(crate) fn number_exists(&self) -> usize {
        self.exists_made.fetch_add(1, Ordering::Relaxed)
    }

    /// How many `EXISTS` the query has so far.
    pub(crate) fn exists_made(&self) -> usize {
        self.exists_made.load(Ordering::Relaxed)
    }

    pub(crate) fn blank_node_seed(&self) -> u64 {
        self.blank_node_seed
    }

    /// A generator of its own, different with every call.
    pub(crate) fn random(&self) -> StdRng {
        StdRng::from_rng(&mut *self.random.lock())
    }

    /// The id of a term, which is added to the query's table if it has none yet.
    pub fn intern(&self, term: Term) -> Result<TermId, QueryError> {
        self.terms.intern(term, &*self.resolver, &self.governor)
    }

    /// The ids of terms, in their order, as [`Self::intern`]: the dictionary's pages are read as one batch.
    pub fn intern_all(&self, terms: Vec<Term>) -> Result<Vec<TermId>, QueryError> {
        self.terms
            .intern_all(terms, &*self.resolver, &self.governor)
    }

    /// The id of the canonical term of a value.
    pub fn intern_value(&self, value: Value<'_>) -> Result<TermId, QueryError> {
        match value.to_inline() {
            Some(id) => Ok(id),
            None => self.intern(value.into_term()),
        }
    }

    /// The terms of ids of any kind but unbound, in order. Fastest for sorted, distinct ids: the
    /// dictionary's pages are read in batches.
    pub fn decode(&self, ids: &[TermId]) -> Result<Vec<Term>, QueryError> {
        if ids.iter().all(|id| id.kind().is_dictionary()) {
            return self.decode_stored(ids);
        }
        let select = |kind: fn(TermKind) -> bool| {
            let matching = ids.iter().copied().filter(|id| kind(id.kind()));
            matching.collect::<Vec<_>>()
        };
        let stored = select(TermKind::is_dictionary);
        let mut stored = self.decode_stored(&stored)?.into_iter();
        let computed = select(|kind| kind == TermKind::Computed);
        let mut computed = self.terms.terms(&computed).into_iter();
        let terms = ids.iter().map(|id| {
            let term = match id.kind() {
                TermKind::Computed => computed.next(),
                kind if kind.is_dictionary() => stored.next(),
                _ => inline_to_literal(*id).map(Term::from),
            };
            term.expect("every bound id has a term")
        });
        Ok(terms.collect())
    }
}

/// How many terms are read from the dictionary between looks at the deadline.
const DECODED: usize = 4096;

impl EvaluationContext {
    fn decode_stored(&self, ids: &[TermId]) -> Result<Vec<Term>, QueryError> {
        if ids.len() <= DECODED {
            return self.resolver.decode(ids);
        }
        let mut terms = Vec::with_capacity(ids.len());
        for part in ids.chunks(DECODED) {
            self.check()?;
            terms.extend(self.resolver.decode(part)?);
        }
        Ok(terms)
    }
}

/// 256 bits that differ with every call, from the operating system's entropy that the standard
/// library keys its hash maps with.
pub fn random_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    for part in seed.chunks_exact_mut(8) {
        part.copy_from_slice(&RandomState::new().hash_one(0_u8).to_ne_bytes());
    }
    seed
}

impl fmt::Debug for EvaluationContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluationContext")
            .field("now", &self.now)
            .field("base_iri", &self.base_iri)
            .finish_non_exhaustive()
    }
}
