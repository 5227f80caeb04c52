//! Checks of path searches in parsed patterns.

use std::ops::Range;

use spargebra::algebra::GraphPattern;

use crate::error::SparqlError;
use crate::path_search::{PathSearch, is_search};
use crate::position::syntax;
use crate::scope::visit_mut;
use crate::token::{Kind, Token, tokens};

/// Returns an error for a path search with an invalid body, at its SERVICE or at the faulty option. The
/// pattern is written in the range `part` of the text.
pub(crate) fn check_searches(
    text: &str,
    part: Range<usize>,
    pattern: &mut GraphPattern,
) -> Result<(), SparqlError> {
    let mut faults = Vec::new();
    let mut services = 0;
    visit_mut(pattern, &mut |pattern| {
        if let GraphPattern::Service { name, inner, .. } = pattern {
            if is_search(name) {
                faults.extend(search_fault(inner).map(|fault| (services, fault)));
            }
            services += 1;
        }
    });
    let Some((number, error)) = faults.into_iter().next() else {
        return Ok(());
    };
    let is_service =
        |token: &Token<'_>| token.kind == Kind::Word && token.text.eq_ignore_ascii_case("service");
    let message = error.to_string();
    let (start, text_of_pattern) = (part.start, &text[part]);
    let from = tokens(text_of_pattern).filter(is_service).nth(number);
    let written = tokens(text_of_pattern).filter(is_service).count();
    let Some(service) = from.filter(|_| written == services) else {
        return Err(*error);
    };
    let named = message.split_once("path:").map_or("", |(_, rest)| rest);
    let name = named.split(|c: char| !c.is_alphanumeric()).next();
    let name = name.filter(|name| *name != "search");
    let is_option = |token: &Token<'_>| {
        let local = match token.kind {
            Kind::Name => token.text.split_once(':').map(|(_, local)| local),
            Kind::Iri => token
                .text
                .trim_end_matches('>')
                .strip_prefix("<urn:pythia:path#"),
            _ => None,
        };
        local.is_some() && local == name
    };
    let mut inside = tokens(text_of_pattern).skip_while(|token| token.start < service.start);
    let at = inside.find(is_option).unwrap_or(service);
    Err(syntax(text, start + at.start, message))
}

/// Returns the error in the body of a path search. Not inlined, to keep the frame of the visiting function
/// small, because that recurses as deep as patterns nest.
#[inline(never)]
fn search_fault(body: &GraphPattern) -> Option<Box<SparqlError>> {
    PathSearch::read(body).err().map(Box::new)
}
