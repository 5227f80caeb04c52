//! Generators of benchmark data at any scale, as N-Triples.
//!
//! - [`bsbm`]: the data set of the Berlin SPARQL Benchmark 3.1, with its BIBM changes;
//! - [`graph`]: random and power-law graphs;
//! - [`people`]: people and what they like, with the cardinalities of the "Clustered TDB" paper;
//! - [`shapes`]: data of known shapes, for tests of query plans.
//!
//! The output is a function of a configuration and its seed. Each entity draws from its own stream of random numbers,
//! keyed by seed, kind and number, so any machine can write any [`Part`] of a data set without knowing the others, and
//! the concatenated parts are byte for byte the whole. Only integer arithmetic and exactly rounded floating-point
//! operations are used: the bytes do not depend on the platform.
//!
//! ```
//! use pythia_generate::{Part, bsbm};
//!
//! let config = bsbm::Config::new(100)?;
//! let mut text = Vec::new();
//! let summary = bsbm::write_ntriples(&config, Part::WHOLE, &mut text)?;
//! assert_eq!(summary.bytes, text.len() as u64);
//! # Ok::<(), pythia_generate::GenerateError>(())
//! ```

pub mod bsbm;
pub mod graph;
pub mod people;
pub mod shapes;

mod groups;
mod math;
mod part;
mod random;
mod stream;
mod text;

pub use part::Part;
pub use stream::{Summary, TripleReader};
pub use text::Vocabulary;

/// An error that stopped the generation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A configuration that describes no data set.
    #[error("{name} is {value}, but must be {expected}")]
    Config {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// The output could not be written.
    #[error("write the generated triples: {0}")]
    Write(#[from] std::io::Error),
}

impl GenerateError {
    pub(crate) fn config(name: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self::Config {
            name,
            value: value.to_string(),
            expected,
        }
    }
}
