//! Checks of SERVICE in parsed patterns: of path searches, and of endpoints that are variables.

use std::ops::Range;

use spargebra::algebra::GraphPattern;
use spargebra::term::{NamedNodePattern, Variable};

use crate::error::SparqlError;
use crate::path_search::{PathSearch, is_search};
use crate::position::syntax;
use crate::scope::{Variables, in_scope, mentioned, visit_mut};
use crate::token::{Kind, Token, tokens};
use crate::validate::endpoints::endpoint;

/// Returns an error for a path search with an invalid body, at its SERVICE or at the faulty option, or for a
/// SERVICE whose endpoint is a variable that nothing binds. The pattern is written in the range `part` of the
/// text.
pub(crate) fn check_services(
    text: &str,
    part: Range<usize>,
    pattern: &mut GraphPattern,
) -> Result<(), SparqlError> {
    let mut faults = Vec::new();
    let mut services = 0;
    let mut endpoints = Vec::new();
    visit_mut(pattern, &mut |pattern| {
        if let GraphPattern::Service { name, inner, .. } = pattern {
            if is_search(name) {
                faults.extend(search_fault(inner).map(|fault| (services, fault)));
            }
            services += 1;
            endpoints.extend(endpoint(pattern).map(|variable| (services - 1, variable.clone())));
        }
    });
    let written = Written {
        text,
        part,
        services,
    };
    if let Some((number, error)) = faults.into_iter().next() {
        return Err(written.of_search(number, *error));
    }
    if endpoints.is_empty() {
        return Ok(());
    }
    let mut bound = Variables::new();
    visit_mut(pattern, &mut |pattern| add_bound(pattern, &mut bound));
    match endpoints.into_iter().find(|(_, v)| !bound.contains(v)) {
        Some((number, variable)) => Err(written.of_endpoint(number, &variable)),
        None => Ok(()),
    }
}

/// Adds the variables that a pattern itself may bind, without those of inner patterns that are visited.
#[inline(never)]
fn add_bound(pattern: &GraphPattern, bound: &mut Variables) {
    match pattern {
        GraphPattern::Bgp { .. } | GraphPattern::Path { .. } | GraphPattern::Values { .. } => {
            bound.extend(in_scope(pattern));
        }
        GraphPattern::Service { name, inner, .. } => match is_search(name) {
            true => bound.extend(in_scope(pattern)),
            false => mentioned(inner, bound),
        },
        GraphPattern::Extend { variable, .. } => {
            bound.insert(variable.clone());
        }
        GraphPattern::Graph {
            name: NamedNodePattern::Variable(variable),
            ..
        } => {
            bound.insert(variable.clone());
        }
        GraphPattern::Group { aggregates, .. } => {
            bound.extend(aggregates.iter().map(|(variable, _)| variable.clone()));
        }
        _ => {}
    }
}

/// The text of a pattern with this number of SERVICEs outside EXISTS.
struct Written<'t> {
    text: &'t str,
    part: Range<usize>,
    services: usize,
}

impl<'t> Written<'t> {
    fn tokens(&self) -> impl Iterator<Item = Token<'t>> {
        tokens(&self.text[self.part.clone()])
    }

    /// Returns where a SERVICE is written; `None` if the text has others, inside EXISTS for example.
    fn service(&self, number: usize) -> Option<Token<'t>> {
        let is_service = |token: &Token<'_>| {
            token.kind == Kind::Word && token.text.eq_ignore_ascii_case("service")
        };
        let found = self.tokens().filter(is_service).nth(number);
        let written = self.tokens().filter(is_service).count();
        found.filter(|_| written == self.services)
    }

    /// Returns the error of a path search, with its place.
    fn of_search(&self, number: usize, error: SparqlError) -> SparqlError {
        let Some(service) = self.service(number) else {
            return error;
        };
        let message = error.to_string();
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
        let mut inside = self
            .tokens()
            .skip_while(|token| token.start < service.start);
        let at = inside.find(is_option).unwrap_or(service);
        syntax(self.text, self.part.start + at.start, message)
    }

    /// Returns the error for an endpoint that nothing binds, at its variable.
    fn of_endpoint(&self, number: usize, variable: &Variable) -> SparqlError {
        let service = self.service(number).map_or(0, |service| service.start);
        let mut inside = self.tokens().skip_while(|token| token.start < service);
        let at = inside
            .find(|token| token.kind == Kind::Variable && token.text[1..] == *variable.as_str());
        let message = format!(
            "nothing binds {variable}, which names the endpoint of this SERVICE; bind it in the same group with a \
             pattern, VALUES or BIND, or name the endpoint"
        );
        syntax(
            self.text,
            self.part.start + at.map_or(service, |at| at.start),
            message,
        )
    }
}

/// Returns the error in the body of a path search. Not inlined, to keep the frame of the visiting function
/// small, because that recurses as deep as patterns nest.
#[inline(never)]
fn search_fault(body: &GraphPattern) -> Option<Box<SparqlError>> {
    PathSearch::read(body).err().map(Box::new)
}
