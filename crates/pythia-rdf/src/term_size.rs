//! Estimates of the memory that terms take.

use oxrdf::{Term, Triple};

/// Returns the approximate bytes of a term's texts.
pub fn term_text_bytes(term: &Term) -> usize {
    match term {
        Term::NamedNode(node) => node.as_str().len(),
        Term::BlankNode(node) => node.as_str().len(),
        Term::Literal(literal) => literal.value().len() + literal.datatype().as_str().len(),
        Term::Triple(triple) => triple_text_bytes(triple),
    }
}

/// Returns the approximate bytes of the texts of a triple term.
pub fn triple_text_bytes(triple: &Triple) -> usize {
    triple.predicate.as_str().len() + term_text_bytes(&triple.object) + 64
}
