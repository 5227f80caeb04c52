//! Search by name: `GET /find?text=…`.
//!
//! Names and IRIs are sorted in the store, so the names with a prefix are one range of each naming predicate, and
//! the IRIs one range of each namespace. Candidates from there, up to a limit, are ranked by their number of
//! triples.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use oxrdf::{Term, vocab::rdf};
use pythia::QueryError;
use pythia::ids::{Component, Order, TermId, TermKey, TermKind};
use serde::Serialize;

use super::labels::{labels, naming};
use super::namespaces::{expand, namespaces};
use super::reader::{Reader, from};

/// Limit on candidates for one answer.
const CANDIDATES: usize = 512;
/// Limit on candidates from one range of names.
const OF_RANGE: usize = 256;
/// Limit on candidates from one namespace.
const OF_NAMESPACE: usize = 32;
/// Limit on terms read in one namespace, or among new names, where some of them may be hidden.
const OF_HIDDEN: usize = 4096;
/// Limit on predicates searched where no naming predicate is known.
const PREDICATES: usize = 64;
/// Types returned for each thing.
const TYPES: usize = 5;

/// A search result.
#[derive(Debug, Serialize)]
pub(super) struct FoundNode {
    iri: String,
    label: Option<String>,
    types: Vec<String>,
    matched: Matched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Matched {
    Label,
    Iri,
}

/// The name by which a thing was found.
struct FoundName {
    matched: Matched,
    label: Option<TermId>,
    is_exact: bool,
}

/// Candidates in the order in which they were found.
#[derive(Default)]
struct Candidates {
    nodes: Vec<TermId>,
    found: HashMap<TermId, FoundName>,
}

impl Candidates {
    fn is_full(&self) -> bool {
        self.nodes.len() >= CANDIDATES
    }

    fn add(&mut self, node: TermId, found: FoundName) {
        if node.kind() != TermKind::Iri || self.is_full() {
            return;
        }
        match self.found.get_mut(&node) {
            None => {
                self.nodes.push(node);
                self.found.insert(node, found);
            }
            Some(before) if found.is_exact && !before.is_exact => *before = found,
            Some(_) => {}
        }
    }
}

/// Finds the things with a name or IRI that starts with the text.
pub(super) fn find(
    reader: &Reader,
    text: &str,
    limit: usize,
) -> Result<Vec<FoundNode>, QueryError> {
    let nodes = find_nodes(reader, text, limit)?;
    let ids: Vec<TermId> = nodes.iter().map(|(node, _)| *node).collect();
    let terms = reader.snapshot.decode(&ids)?;
    let matched: Vec<TermId> = nodes.iter().filter_map(|(_, found)| found.label).collect();
    let mut matched = reader.snapshot.decode(&matched)?.into_iter();
    let mut names = labels(reader, &ids)?;
    let mut items = Vec::new();
    for ((node, found), term) in nodes.iter().zip(terms) {
        let Term::NamedNode(iri) = term else { continue };
        let label = match found.label.and_then(|_| matched.next()) {
            Some(Term::Literal(literal)) => Some(literal.value().to_owned()),
            _ => names.remove(node),
        };
        items.push(FoundNode {
            iri: iri.into_string(),
            label,
            types: types(reader, *node, TYPES)?,
            matched: found.matched,
        });
    }
    Ok(items)
}

/// Returns the ids of the things only, for completion.
pub(super) fn find_ids(
    reader: &Reader,
    text: &str,
    limit: usize,
) -> Result<Vec<TermId>, QueryError> {
    let found = find_nodes(reader, text, limit)?;
    Ok(found.into_iter().map(|(node, _)| node).collect())
}

fn find_nodes(
    reader: &Reader,
    text: &str,
    limit: usize,
) -> Result<Vec<(TermId, FoundName)>, QueryError> {
    let text = text.trim();
    let mut candidates = Candidates::default();
    if !text.is_empty() {
        by_label(reader, text, &mut candidates)?;
        by_iri(reader, text, &mut candidates)?;
    }
    let mut nodes = candidates.nodes.clone();
    nodes.sort_unstable();
    let degrees = reader.degrees(&nodes)?;
    let mut ranked: Vec<(TermId, u64)> = nodes.into_iter().zip(degrees).collect();
    // A node without visible triples occurs only in removed or hidden quads.
    ranked.retain(|(_, degree)| *degree > 0);
    ranked.sort_by_key(|(node, degree)| {
        let is_exact = candidates.found[node].is_exact;
        (!is_exact, std::cmp::Reverse(*degree), *node)
    });
    ranked.truncate(limit);
    let mut found = candidates.found;
    let found = ranked.into_iter().map(|(node, _)| {
        let found = found.remove(&node).expect("candidates are found");
        (node, found)
    });
    Ok(found.collect())
}

/// Returns the first classes of a node.
pub(super) fn types(reader: &Reader, node: TermId, most: usize) -> Result<Vec<String>, QueryError> {
    let Some(is_a) = reader.snapshot.resolve(rdf::TYPE.into())? else {
        return Ok(Vec::new());
    };
    let wanted = [Component::Subject, Component::Object];
    let mut rows = reader.rows(&from(node, Some(is_a)), Order::Pso, wanted)?;
    let mut classes = Vec::new();
    while classes.len() < most
        && let Some([_, class]) = rows.next()?
    {
        if class.kind() == TermKind::Iri {
            classes.push(class);
        }
    }
    let terms = reader.snapshot.decode(&classes)?.into_iter();
    Ok(terms
        .filter_map(|term| match term {
            Term::NamedNode(class) => Some(class.into_string()),
            _ => None,
        })
        .collect())
}

fn by_label(reader: &Reader, text: &str, candidates: &mut Candidates) -> Result<(), QueryError> {
    let predicates = predicates(reader)?;
    for variant in variants(text) {
        for kind in [TermKind::String, TermKind::LangString] {
            let names = Names::starting(reader, kind, &variant)?;
            for predicate in &predicates {
                if candidates.is_full() {
                    return Ok(());
                }
                by_names(reader, *predicate, &names, candidates)?;
            }
        }
    }
    Ok(())
}

/// Returns the predicates that name visible things: the known ones, else those that may have texts as objects.
fn predicates(reader: &Reader) -> Result<Vec<TermId>, QueryError> {
    let mut predicates = Vec::new();
    for known in naming(&reader.snapshot)? {
        if reader.uses(known)? {
            predicates.push(known);
        }
    }
    if !predicates.is_empty() {
        return Ok(predicates);
    }
    for known in &reader.snapshot.statistics().predicates {
        let kinds = known.object_kinds;
        let has_text = kinds.contains(TermKind::String) || kinds.contains(TermKind::LangString);
        // The kinds cover all graphs, so they must not decide when some graphs are hidden.
        if (has_text || !reader.sees_all()) && reader.uses(known.predicate)? {
            predicates.push(known.predicate);
        }
        if predicates.len() == PREDICATES {
            break;
        }
    }
    Ok(predicates)
}

/// The literals of one kind that start with a text.
struct Names {
    ids: Vec<Range<u64>>,
    /// Literals that equal the text.
    exact: HashSet<TermId>,
}

impl Names {
    fn starting(reader: &Reader, kind: TermKind, text: &str) -> Result<Self, QueryError> {
        let [old, new] = reader.snapshot.ids_with_prefix(kind, text.as_bytes())?;
        let mut ids = vec![old];
        if !new.is_empty() {
            let most = match reader.sees_all() {
                true => OF_RANGE,
                false => OF_HIDDEN,
            };
            let terms = (reader.snapshot).new_terms_with_prefix(kind, text.as_bytes(), most)?;
            ids.extend(terms.iter().map(|(_, id)| id.0..id.0 + 1));
        }
        ids.retain(|ids| !ids.is_empty());
        let exact = match ids.is_empty() {
            true => HashSet::new(),
            false => exact_ids(reader, kind, text)?,
        };
        Ok(Self { ids, exact })
    }
}

/// Adds the things that have one of these names as the object of a predicate.
fn by_names(
    reader: &Reader,
    predicate: TermId,
    names: &Names,
    candidates: &mut Candidates,
) -> Result<(), QueryError> {
    let mut taken = 0;
    for objects in &names.ids {
        let mut rows = reader.rows_in(predicate, objects.clone())?;
        while taken < OF_RANGE
            && let Some([label, node]) = rows.next()?
        {
            taken += 1;
            let found = FoundName {
                matched: Matched::Label,
                label: Some(label),
                is_exact: names.exact.contains(&label),
            };
            candidates.add(node, found);
        }
    }
    Ok(())
}

/// Returns the ids of terms of this kind whose text equals `text`.
fn exact_ids(reader: &Reader, kind: TermKind, text: &str) -> Result<HashSet<TermId>, QueryError> {
    let mut key = text.as_bytes().to_vec();
    if kind == TermKind::LangString {
        // In the key, two zero bytes separate text and language.
        key.extend([0, 0]);
        let terms = reader.snapshot.terms_with_prefix(kind, &key, OF_RANGE)?;
        return Ok(terms.into_iter().map(|(_, id)| id).collect());
    }
    let found = reader.snapshot.resolve_key(TermKey { kind, bytes: &key })?;
    Ok(found.into_iter().collect())
}

fn by_iri(reader: &Reader, text: &str, candidates: &mut Candidates) -> Result<(), QueryError> {
    let typed = text.trim_start_matches('<').trim_end_matches('>');
    let mut prefixes = Vec::new();
    if typed.contains(':') {
        prefixes.push(typed.to_owned());
        prefixes.extend(expand(typed));
    }
    if !text.starts_with('<') {
        let locals = variants(text);
        let locals: Vec<String> = locals.iter().map(|local| local.replace(' ', "_")).collect();
        for namespace in namespaces(reader)? {
            prefixes.extend(locals.iter().map(|local| format!("{namespace}{local}")));
        }
    }
    for prefix in prefixes {
        if candidates.is_full() {
            break;
        }
        by_prefix(reader, &prefix, candidates)?;
    }
    Ok(())
}

/// Adds the first things whose IRI starts with the prefix. Hidden things do not count towards the limit.
fn by_prefix(reader: &Reader, prefix: &str, candidates: &mut Candidates) -> Result<(), QueryError> {
    let most = match reader.sees_all() {
        true => OF_NAMESPACE,
        false => OF_HIDDEN,
    };
    let terms = (reader.snapshot).terms_with_prefix(TermKind::Iri, prefix.as_bytes(), most)?;
    let mut taken = 0;
    for (key, node) in terms {
        reader.check()?;
        if taken == OF_NAMESPACE || candidates.is_full() {
            break;
        }
        if !reader.sees_all() && !reader.knows(node)? {
            continue;
        }
        taken += 1;
        let found = FoundName {
            matched: Matched::Iri,
            label: None,
            is_exact: key.bytes == prefix.as_bytes(),
        };
        candidates.add(node, found);
    }
    Ok(())
}

/// Returns the spellings to search for: as typed, capitalized, in title case, in lower and in upper case.
fn variants(text: &str) -> Vec<String> {
    let capital = |word: &str| {
        let mut chars = word.chars();
        let first = chars.next().into_iter().flat_map(char::to_uppercase);
        first.chain(chars).collect::<String>()
    };
    let small = text.to_lowercase();
    let title: Vec<String> = small.split(' ').map(capital).collect();
    let mut variants = vec![
        text.to_owned(),
        capital(text),
        title.join(" "),
        capital(&small),
        text.to_uppercase(),
        small,
    ];
    let mut seen = HashSet::new();
    variants.retain(|variant| seen.insert(variant.clone()));
    variants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_looked_for_as_it_may_be_written() {
        assert_eq!(
            variants("new york"),
            ["new york", "New york", "New York", "NEW YORK"]
        );
        assert_eq!(variants("USA"), ["USA", "Usa", "usa"]);
        assert_eq!(variants("école"), ["école", "École", "ÉCOLE"]);
    }
}
