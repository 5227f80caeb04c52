//! Generators of benchmark data at any scale, as N-Triples.
//!
//! - [`bsbm`]: the data set of the Berlin SPARQL Benchmark 3.1, with its BIBM changes;
//! - [`graph`]: random and power-law graphs.
//!
//! Everything is a function of a configuration and its seed. Each entity draws from a stream of
//! random numbers of its own, keyed by seed, kind and number, so any
//! [`Part`] of a data set can be written by any machine without knowing the others, and the parts
//! put one behind the other are byte for byte the whole. Only integer arithmetic and the exactly
//! rounded floating-point operations are used: the bytes do not depend on the platform.
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

mod groups;
mod math;
mod part;
mod random;
mod stream;
mod text;

pub use part::Part;
pub use stream::{Summary, TripleReader};
pub use text::Vocabulary;

/// Why nothing, or not all, was generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A configuration that describes no data set.
    #[error("{name} is {value}, but must be {expected}")]
    Config {
        /// Which setting.
        name: &'static str,
        /// What it was set to.
        value: String,
        /// What it may be.
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
