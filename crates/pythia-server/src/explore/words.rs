//! The typed text, the terms it may mean, and words that are not names: keywords, functions, variables, prefixes.

use std::cmp::Reverse;

use oxrdf::Term;
use pythia::completion::{CompletionContext, Expected, called_iris, function_names};
use pythia::well_known_prefixes;
use serde::Serialize;

use super::complete::{Prefix, Suggestion};
use super::namespaces::local_start;

/// The kind of a suggestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Predicate,
    Class,
    Node,
    Graph,
    Prefix,
    Variable,
    Keyword,
    Function,
}

/// Quality of a term's match with the typed text, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    Beginning,
    Label,
    WordOfLabel,
    Part,
}

/// Keywords that begin clauses outside of groups.
const CLAUSES: [&str; 34] = [
    "SELECT",
    "PREFIX",
    "WHERE",
    "CONSTRUCT",
    "ASK",
    "DESCRIBE",
    "FROM",
    "FROM NAMED",
    "ORDER BY",
    "GROUP BY",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "VALUES",
    "BASE",
    "DISTINCT",
    "REDUCED",
    "PATHS",
    "INSERT DATA",
    "DELETE DATA",
    "DELETE WHERE",
    "INSERT",
    "DELETE",
    "WITH",
    "USING",
    "LOAD",
    "CLEAR",
    "CREATE",
    "DROP",
    "COPY",
    "MOVE",
    "ADD",
    "INTO",
    "SILENT",
];
/// Keywords that begin parts of groups.
const PARTS: [&str; 12] = [
    "OPTIONAL",
    "LATERAL",
    "FILTER",
    "UNION",
    "BIND",
    "VALUES",
    "MINUS",
    "GRAPH",
    "SERVICE",
    "FILTER EXISTS",
    "FILTER NOT EXISTS",
    "SELECT",
];
/// Keywords of expressions that are not functions.
const OPERATORS: [&str; 5] = ["EXISTS", "NOT EXISTS", "IN", "AS", "DISTINCT"];
/// Keywords of projections and of ORDER BY, and those that may follow them.
const PROJECTION: [&str; 6] = ["DISTINCT", "REDUCED", "ASC", "DESC", "WHERE", "FROM"];
/// Maximum number of prefixes that are suggested beside other words.
const PREFIXES: usize = 5;

/// The typed text, and the prefixes declared in the query.
pub(super) struct TypedText<'p> {
    place: &'p CompletionContext,
    small: String,
    /// Beginnings of IRIs that the typed text means, if it is a prefixed name or the beginning of an IRI.
    beginnings: Vec<String>,
}

impl<'p> TypedText<'p> {
    pub(super) fn of(place: &'p CompletionContext) -> Self {
        let typed = place.typed.as_str();
        let mut beginnings = Vec::new();
        if let Some(iri) = typed.strip_prefix('<') {
            beginnings.push(iri.trim_end_matches('>').to_owned());
        } else if let Some((prefix, local)) = typed.split_once(':') {
            let local = local.replace('\\', "");
            let declared = place.prefixes.iter().filter(|(name, _)| name == prefix);
            beginnings.extend(declared.map(|(_, iri)| format!("{iri}{local}")));
            if beginnings.is_empty() {
                let known = well_known_prefixes()
                    .iter()
                    .filter(|(name, _)| *name == prefix);
                beginnings.extend(known.map(|(_, iri)| format!("{iri}{local}")));
            }
        }
        Self {
            place,
            small: typed.to_lowercase(),
            beginnings,
        }
    }

    pub(super) fn typed(&self) -> &str {
        &self.place.typed
    }

    pub(super) fn prefixes(&self) -> &[(String, String)] {
        &self.place.prefixes
    }

    /// Returns whether a prefixed name or an IRI is being typed.
    pub(super) fn is_name(&self) -> bool {
        self.typed().contains([':', '<'])
    }

    /// Returns how a term matches the typed text, if it does.
    pub(super) fn matches(&self, term: &Term, label: Option<&str>) -> Option<Match> {
        if self.small.is_empty() {
            return Some(Match::Beginning);
        }
        let iri = match term {
            Term::NamedNode(node) => node.as_str(),
            Term::Literal(literal) => {
                let value = literal.value().to_lowercase();
                return value.starts_with(&self.small).then_some(Match::Label);
            }
            _ => return None,
        };
        if self.is_name() {
            let begins = |beginning: &String| iri.starts_with(beginning.as_str());
            return self
                .beginnings
                .iter()
                .any(begins)
                .then_some(Match::Beginning);
        }
        let local = iri[local_start(iri)..].to_lowercase();
        if local.starts_with(&self.small) {
            return Some(Match::Beginning);
        }
        let label = label.unwrap_or_default().to_lowercase();
        if label.starts_with(&self.small) {
            return Some(Match::Label);
        }
        let is_word = |word: &str| word.starts_with(&self.small);
        if label.split_whitespace().any(is_word) {
            return Some(Match::WordOfLabel);
        }
        local.contains(&self.small).then_some(Match::Part)
    }
}

/// Returns the prefix that makes an IRI shortest, and the local name, if that can be written.
pub(super) fn shortest<'s>(
    iri: &'s str,
    prefixes: impl Iterator<Item = (&'s str, &'s str)>,
) -> Option<(&'s str, &'s str)> {
    let is_plain = |local: &str| {
        let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        !local.is_empty() && !local.starts_with('-') && local.chars().all(plain)
    };
    let fitting = prefixes.filter_map(|(name, start)| {
        let local = iri.strip_prefix(start).filter(|local| is_plain(local))?;
        Some((name, local))
    });
    fitting.min_by_key(|(name, local)| (local.len(), Reverse(name.len())))
}

/// Returns the words that are allowed at a place.
pub(super) fn words(place: &CompletionContext) -> Vec<Suggestion> {
    let typed = place.typed.to_uppercase();
    let keywords = |words: &[&str]| -> Vec<Suggestion> {
        let fitting = words.iter().filter(|word| word.starts_with(&typed));
        fitting
            .map(|word| plain((*word).to_owned(), Kind::Keyword))
            .collect()
    };
    match place.expected {
        Expected::Nothing => Vec::new(),
        Expected::Clause => keywords(&CLAUSES),
        Expected::PrefixName => declarations(place),
        Expected::Projection => {
            let mut items = variables(place);
            items.extend(keywords(&PROJECTION));
            items
        }
        Expected::Expression => {
            let mut items = variables(place);
            let functions = function_names().filter(|name| name.starts_with(&typed));
            items.extend(functions.map(|name| plain(format!("{name}("), Kind::Function)));
            items.extend(called(place));
            items.extend(keywords(&OPERATORS));
            items
        }
        Expected::AfterTriple => keywords(&PARTS),
        Expected::Subject => {
            let mut items = variables(place);
            items.extend(keywords(&PARTS));
            items.extend(prefixes(place));
            items
        }
        Expected::Predicate | Expected::Object | Expected::Class | Expected::Graph => {
            let mut items = variables(place);
            items.extend(prefixes(place));
            items
        }
    }
}

/// Returns the functions and aggregates that are called by IRI, if their prefixes are declared.
fn called(place: &CompletionContext) -> Vec<Suggestion> {
    let typed = place.typed.to_lowercase();
    let named = called_iris().filter_map(|iri| {
        let prefixes = place
            .prefixes
            .iter()
            .map(|(name, start)| (name.as_str(), start.as_str()));
        let (prefix, local) = shortest(&iri, prefixes)?;
        let name = format!("{prefix}:{local}");
        let fits = name.starts_with(&typed) || local.starts_with(&typed);
        fits.then(|| plain(format!("{name}("), Kind::Function))
    });
    named.collect()
}

fn plain(insert: String, kind: Kind) -> Suggestion {
    Suggestion {
        insert,
        iri: None,
        label: None,
        kind,
        count: None,
        prefix: None,
    }
}

/// Returns the query's variables that begin with the typed text.
pub(super) fn variables(place: &CompletionContext) -> Vec<Suggestion> {
    let typed = place.typed.trim_start_matches(['?', '$']);
    let has_sign = typed.len() < place.typed.len();
    if !has_sign && !typed.is_empty() {
        return Vec::new();
    }
    let fitting = place.variables.iter().filter(|name| {
        // Leaves out the variable that is being typed.
        name.starts_with(typed) && (name.as_str() != typed || typed.is_empty())
    });
    fitting
        .map(|name| plain(format!("?{name}"), Kind::Variable))
        .collect()
}

/// Suggests declarations of well-known prefixes.
fn declarations(place: &CompletionContext) -> Vec<Suggestion> {
    let typed = place.typed.trim_end_matches(':');
    let known = well_known_prefixes().iter();
    let fitting = known.filter(|(name, _)| name.starts_with(typed));
    fitting
        .map(|(name, iri)| Suggestion {
            iri: Some((*iri).to_owned()),
            ..plain(format!("{name}: <{iri}>"), Kind::Prefix)
        })
        .collect()
}

/// Suggests prefixes that begin with the typed text.
fn prefixes(place: &CompletionContext) -> Vec<Suggestion> {
    let typed = place.typed.as_str();
    if typed.is_empty() || typed.contains([':', '<']) {
        return Vec::new();
    }
    let declared = place.prefixes.iter();
    let declared: Vec<(&str, &str)> = declared
        .map(|(n, iri)| (n.as_str(), iri.as_str()))
        .collect();
    let is_new = |name: &str| declared.iter().all(|(known, _)| *known != name);
    let known = well_known_prefixes().iter().copied();
    let all = declared.iter().map(|(n, iri)| (*n, *iri, false));
    let all = all.chain(
        known
            .filter(|(n, _)| is_new(n))
            .map(|(n, iri)| (n, iri, true)),
    );
    let fitting = all
        .filter(|(name, ..)| name.starts_with(typed))
        .take(PREFIXES);
    fitting
        .map(|(name, iri, is_new)| Suggestion {
            iri: Some(iri.to_owned()),
            prefix: is_new.then(|| Prefix {
                name: name.to_owned(),
                iri: iri.to_owned(),
            }),
            ..plain(format!("{name}:"), Kind::Prefix)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> CompletionContext {
        CompletionContext::at(text, text.len())
    }

    #[test]
    fn names_are_matched_by_beginning_label_and_part() {
        let term = |iri: &str| Term::from(oxrdf::NamedNode::new_unchecked(iri));
        let name = term("http://xmlns.com/foaf/0.1/familyName");
        for (typed, label, expected) in [
            ("", None, Some(Match::Beginning)),
            ("fam", None, Some(Match::Beginning)),
            ("foaf:fam", None, Some(Match::Beginning)),
            ("foaf:nam", None, None),
            ("<http://xmlns.com/foaf/0.1/f", None, Some(Match::Beginning)),
            ("Sur", Some("Surname"), Some(Match::Label)),
            ("nam", Some("surname or name"), Some(Match::WordOfLabel)),
            ("name", None, Some(Match::Part)),
            ("xyz", Some("surname"), None),
        ] {
            let place = place(&format!("SELECT * {{ ?x {typed}"));
            assert_eq!(place.typed, typed);
            assert_eq!(
                TypedText::of(&place).matches(&name, label),
                expected,
                "{typed}"
            );
        }
    }

    #[test]
    fn an_iri_is_written_with_the_prefix_that_fits_best() {
        let prefixes = [
            ("a", "http://e/"),
            ("b", "http://e/b/"),
            ("c", "http://e/b/c"),
        ];
        let short = |iri| shortest(iri, prefixes.into_iter());
        assert_eq!(short("http://e/x"), Some(("a", "x")));
        assert_eq!(short("http://e/b/x"), Some(("b", "x")));
        assert_eq!(short("http://e/b/cx"), Some(("c", "x")));
        assert_eq!(short("http://e/x/y"), None);
        assert_eq!(short("http://e/"), None);
    }

    #[test]
    fn words_are_those_that_fit_the_place() {
        let inserts = |text: &str| -> Vec<String> {
            words(&place(text))
                .into_iter()
                .map(|item| item.insert)
                .collect()
        };
        assert_eq!(inserts("SEL"), ["SELECT"]);
        assert_eq!(
            inserts("PREFIX foa"),
            ["foaf: <http://xmlns.com/foaf/0.1/>"]
        );
        assert_eq!(inserts("SELECT * { ?x ?p ?o . OPT"), ["OPTIONAL"]);
        assert_eq!(
            inserts("SELECT * { ?x ?p ?o FILTER(STRL"),
            ["STRLANG(", "STRLANGDIR(", "STRLEN("]
        );
        let declared = "PREFIX m: <http://www.w3.org/2005/xpath-functions/math#> \
            PREFIX agg: <http://jena.apache.org/ARQ/function/aggregate#> SELECT";
        assert_eq!(
            inserts(&format!("{declared} * {{ ?x ?p ?o FILTER(m:ata")),
            ["m:atan(", "m:atan2("]
        );
        let all = inserts(&format!("{declared} (std"));
        assert_eq!(all, ["agg:stdev(", "agg:stdev_samp(", "agg:stdev_pop("]);
        assert_eq!(inserts("SELECT * { ?x foa"), ["foaf:"]);
        assert_eq!(inserts("SELECT * { ?long ?p ?lo"), ["?long"]);
    }
}
