//! The checks of single terms that oxttl makes while it parses, for terms taken from the text directly.

use oxiri::Iri;
use oxrdf::Literal;

use crate::error::TermError;

pub(crate) const RDF: &[u8] = b"http://www.w3.org/1999/02/22-rdf-syntax-ns#";
pub(crate) const XSD_STRING: &[u8] = b"http://www.w3.org/2001/XMLSchema#string";

/// Datatypes that only a literal with a language tag has.
pub(crate) fn is_reserved_datatype(datatype: &[u8]) -> bool {
    matches!(
        datatype.strip_prefix(RDF),
        Some(b"langString" | b"dirLangString")
    )
}

/// UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Result<(), TermError> {
    utf8(bytes).map(|_| ())
}

fn utf8(bytes: &[u8]) -> Result<&str, TermError> {
    std::str::from_utf8(bytes).map_err(|error| TermError::Invalid(format!("invalid UTF-8: {error}")))
}

/// An absolute IRI.
pub(crate) fn iri(bytes: &[u8]) -> Result<(), TermError> {
    match Iri::parse(utf8(bytes)?) {
        Ok(_) => Ok(()),
        Err(error) => Err(TermError::Invalid(error.to_string())),
    }
}

/// A BCP 47 language tag.
pub(crate) fn language(tag: &[u8]) -> Result<(), TermError> {
    match Literal::new_language_tagged_literal("", utf8(tag)?) {
        Ok(_) => Ok(()),
        Err(error) => Err(TermError::Invalid(error.to_string())),
    }
}
