//! Plans as bytes.
//!
//! A written plan begins with the version of its form and a checksum, and continues in MessagePack with what the
//! plan needs from its query: dataset, base IRI, start, and the terms that the query has and the store does not. Expressions are
//! written in SPARQL's algebra, and compiled where the plan is read.

use std::str::FromStr;

use oxiri::Iri;
use oxrdf::Term;
use oxsdatatypes::DateTime;
use pythia_rdf::TermId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::tree::Plan;
use crate::error::QueryError;
use crate::expression::EvaluationContext;

/// The version of the form of written plans.
const VERSION: u32 = 4;

/// Maximum nesting of a written plan. Reading a level takes about 2 KiB of stack in a debug build, of the 2 MiB of
/// a thread.
const DEPTH_MAX: usize = 600;

/// A plan with what it needs from its query.
#[derive(Debug, Deserialize, Serialize)]
pub struct WrittenPlan {
    /// The query's base IRI.
    base_iri: Option<String>,
    /// The result of `NOW()`.
    now: String,
    /// The query's dataset.
    pub dataset: Dataset,
    /// Terms that planning has looked up, with their ids, in the order of the query's table of terms.
    #[serde(with = "super::form")]
    pub terms: Vec<(Term, TermId)>,
    /// The plan.
    pub plan: Plan,
}

impl WrittenPlan {
    /// Makes a plan that can be written.
    pub fn new(plan: Plan, dataset: &Dataset, evaluation: &EvaluationContext) -> Self {
        Self {
            base_iri: evaluation.base_iri().map(|iri| iri.as_str().to_owned()),
            now: evaluation.now().to_string(),
            dataset: dataset.clone(),
            terms: evaluation.terms().entries(),
            plan,
        }
    }

    /// Returns the result of `NOW()`.
    pub fn now(&self) -> Result<DateTime, QueryError> {
        DateTime::from_str(&self.now).map_err(|error| QueryError::Plan(error.to_string()))
    }

    /// Returns the query's base IRI.
    pub fn base_iri(&self) -> Result<Option<Iri<String>>, QueryError> {
        let base_iri = self.base_iri.clone().map(Iri::parse).transpose();
        base_iri.map_err(|error| QueryError::Plan(error.to_string()))
    }
}

/// Writes a value that contains plans.
pub fn to_bytes(value: &impl Serialize) -> Result<Vec<u8>, QueryError> {
    let error = |error: rmp_serde::encode::Error| QueryError::Plan(error.to_string());
    let body = rmp_serde::to_vec(value).map_err(error)?;
    let checksum = crc32c::crc32c(&body).to_le_bytes();
    Ok([&VERSION.to_le_bytes()[..], &checksum, &body].concat())
}

/// Reads a value that contains plans. The bytes are trusted to come from [`to_bytes`]: a plan says what is run.
///
/// # Errors
/// [`QueryError::Plan`] if the bytes are damaged, of another version, or nested more deeply than plans are read.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, QueryError> {
    let wrong = |problem: &str| QueryError::Plan(problem.to_owned());
    let (version, rest) = bytes
        .split_first_chunk()
        .ok_or_else(|| wrong("too short"))?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(QueryError::Plan(format!(
            "its version is {version}, and this program reads version {VERSION}"
        )));
    }
    let (checksum, body) = rest.split_first_chunk().ok_or_else(|| wrong("too short"))?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return Err(wrong("its checksum does not match"));
    }
    let mut from = rmp_serde::Deserializer::from_read_ref(body);
    from.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut from).map_err(|error| QueryError::Plan(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, Serialize)]
    struct Nested(Vec<Nested>);

    #[test]
    fn bytes_that_are_nested_too_deeply_are_refused() {
        let read = |depth: usize| {
            let value = (0..depth).fold(Nested(Vec::new()), |inner, _| Nested(vec![inner]));
            from_bytes::<Nested>(&to_bytes(&value)?)
        };
        assert!(read(100).is_ok());
        assert!(matches!(read(2 * DEPTH_MAX), Err(QueryError::Plan(_))));
    }
}
