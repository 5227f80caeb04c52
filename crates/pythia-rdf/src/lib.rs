//! RDF terms, 64-bit term ids, and parsing and writing of RDF formats.
//!
//! A term is either inside its [`TermId`] ([`inline`]) or in a dictionary under its key ([`mod@key`]). [`parse`]
//! turns files ([`source`], [`mod@format`]) into keys, ids and quads. [`mod@write`] turns quads into text, with
//! language tags in their recommended form ([`language`]). [`base`] removes dot segments from base IRIs.

pub mod base;
mod compress;
pub mod error;
pub mod format;
pub mod id;
pub mod inline;
pub mod key;
pub mod language;
pub mod parse;
mod snippet;
pub mod source;
mod term_size;
mod triple_text;
mod validate;
pub mod write;

pub use compress::Compressor;
pub use error::{KeyError, ParseError, SinkError, SyntaxProblem, TermError};
pub use format::{Compression, RdfFormat};
pub use id::{TermId, TermKind};
pub use inline::InlineValue;
pub use key::{Encoded, OwnedKey, TermKey};
pub use parse::{
    CountingSink, ParseOptions, ParseReport, Progress, QuadSink, parse_quads, parse_sources,
};
pub use snippet::{snippet, snippet_of_line};
pub use source::Source;
pub use term_size::{term_text_bytes, triple_text_bytes};
pub use validate::is_iri;
pub use write::RdfWriter;
