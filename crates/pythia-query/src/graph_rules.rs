//! Rules over graph names that say which graphs may be read or written, independent of any store.
//!
//! Graphs that the rules do not allow appear not to exist: see [`pythia_exec::plan::dataset`] for queries and
//! [`crate::update`] for updates.

use std::fmt;
use std::sync::Arc;

use oxrdf::{GraphNameRef, NamedNodeRef};

/// A set of graphs, given by name. Clones are cheap.
#[derive(Clone, PartialEq, Eq)]
pub struct GraphRules {
    default: bool,
    named: NamedRules,
}

/// A set of named graphs.
#[derive(Clone, PartialEq, Eq)]
enum NamedRules {
    All,
    Listed(Arc<Listed>),
}

/// Names and prefixes of names, each list sorted and without duplicates.
#[derive(Clone, Default, PartialEq, Eq)]
struct Listed {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

/// Allows all graphs, as there are no restrictions by default.
impl Default for GraphRules {
    fn default() -> Self {
        Self::all()
    }
}

impl GraphRules {
    /// Allows all graphs.
    pub fn all() -> Self {
        Self {
            default: true,
            named: NamedRules::All,
        }
    }

    /// Allows no graph.
    pub fn none() -> Self {
        Self {
            default: false,
            named: NamedRules::Listed(Arc::default()),
        }
    }

    /// Returns rules that allow every graph that at least one entry allows: `default` (the default graph),
    /// `http://…` (the graph of that name), `http://…/*` (graphs whose names start with the prefix), `*` (all
    /// graphs). An empty list allows nothing.
    ///
    /// # Errors
    /// Describes the first entry that has none of these forms.
    pub fn parse(entries: &[impl AsRef<str>]) -> Result<Self, String> {
        let mut default = false;
        let mut listed = Listed::default();
        for entry in entries {
            match entry.as_ref() {
                "*" => return Ok(Self::all()),
                "default" => default = true,
                entry => match entry.strip_suffix('*') {
                    Some(prefix) => listed.prefixes.push(checked(prefix, entry)?.to_owned()),
                    None => listed.exact.push(checked(entry, entry)?.to_owned()),
                },
            }
        }
        Ok(Self {
            default,
            named: NamedRules::Listed(Arc::new(listed.sorted())),
        })
    }

    /// Returns rules that allow the graphs of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let named = match (&self.named, &other.named) {
            (NamedRules::Listed(a), NamedRules::Listed(b)) => {
                let (mut all, b) = (Listed::clone(a), Listed::clone(b));
                all.exact.extend(b.exact);
                all.prefixes.extend(b.prefixes);
                NamedRules::Listed(Arc::new(all.sorted()))
            }
            _ => NamedRules::All,
        };
        Self {
            default: self.default || other.default,
            named,
        }
    }

    /// Returns whether every graph is allowed.
    pub fn is_all(&self) -> bool {
        self.default && self.allows_all_named()
    }

    /// Returns whether no graph is allowed.
    pub fn is_none(&self) -> bool {
        let no_named = matches!(&self.named, NamedRules::Listed(listed)
            if listed.exact.is_empty() && listed.prefixes.is_empty());
        !self.default && no_named
    }

    /// Returns whether the graph is allowed. Graphs named by blank nodes are allowed only if all named graphs
    /// are.
    pub fn allows(&self, graph: GraphNameRef<'_>) -> bool {
        match graph {
            GraphNameRef::DefaultGraph => self.default,
            GraphNameRef::NamedNode(node) => self.allows_named(node),
            GraphNameRef::BlankNode(_) => self.allows_all_named(),
        }
    }

    /// Returns whether the default graph is allowed.
    pub fn allows_default(&self) -> bool {
        self.default
    }

    /// Returns whether every named graph is allowed.
    pub fn allows_all_named(&self) -> bool {
        self.named == NamedRules::All
    }

    /// Returns whether the graph of this name is allowed.
    pub fn allows_named(&self, graph: NamedNodeRef<'_>) -> bool {
        match &self.named {
            NamedRules::All => true,
            NamedRules::Listed(listed) => listed.has(graph.as_str()),
        }
    }

    /// Returns the names of the allowed named graphs, or `None` if they are not all given by name.
    pub fn names(&self) -> Option<&[String]> {
        match self.listed() {
            Some((names, [])) => Some(names),
            _ => None,
        }
    }

    /// Returns the allowed names and prefixes, or `None` if all named graphs are allowed.
    pub(crate) fn listed(&self) -> Option<(&[String], &[String])> {
        match &self.named {
            NamedRules::All => None,
            NamedRules::Listed(listed) => Some((&listed.exact, &listed.prefixes)),
        }
    }
}

impl Listed {
    fn sorted(mut self) -> Self {
        self.prefixes.sort_unstable();
        // A prefix makes all longer prefixes that start with it redundant.
        self.prefixes
            .dedup_by(|longer, shorter| longer.starts_with(shorter.as_str()));
        let prefixes = &self.prefixes;
        self.exact
            .retain(|name| !prefixes.iter().any(|prefix| name.starts_with(prefix)));
        self.exact.sort_unstable();
        self.exact.dedup();
        self
    }

    fn has(&self, name: &str) -> bool {
        let is_exact = |exact: &String| exact.as_str().cmp(name);
        self.exact.binary_search_by(is_exact).is_ok()
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// Checks a name or prefix.
fn checked<'e>(text: &'e str, entry: &str) -> Result<&'e str, String> {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_absolute =
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_scheme);
    let is_foreign = |c: char| c.is_whitespace() || c.is_control() || "<>\"{}|^`\\*".contains(c);
    if is_absolute && !text.contains(is_foreign) {
        return Ok(text);
    }
    Err(format!(
        "\"{entry}\" names no graph: write \"default\", an IRI such as \"http://example.org/g\", the \
         beginning of IRIs such as \"http://example.org/*\", or \"*\" for all graphs"
    ))
}

impl fmt::Debug for GraphRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries = f.debug_list();
        match &self.named {
            NamedRules::All if self.default => {
                entries.entry(&"*");
            }
            NamedRules::All => {
                entries.entry(&"named");
            }
            NamedRules::Listed(listed) => {
                entries.entries(self.default.then_some("default"));
                entries.entries(&listed.exact);
                entries.entries(listed.prefixes.iter().map(|prefix| format!("{prefix}*")));
            }
        }
        entries.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(iri: &str) -> GraphNameRef<'_> {
        GraphNameRef::NamedNode(NamedNodeRef::new(iri).expect("an IRI"))
    }

    #[test]
    fn entries_allow_what_they_name_and_nothing_else() {
        let rules = GraphRules::parse(&["default", "http://a/x", "http://b/*"]).expect("valid");
        assert!(rules.allows(GraphNameRef::DefaultGraph));
        assert!(rules.allows(named("http://a/x")));
        assert!(!rules.allows(named("http://a/xy")));
        assert!(rules.allows(named("http://b/")));
        assert!(rules.allows(named("http://b/c/d")));
        assert!(!rules.allows(named("http://bc/")));
        let blank = oxrdf::BlankNode::default();
        assert!(!rules.allows(blank.as_ref().into()));
        assert!(!rules.is_all() && !rules.is_none());
    }

    #[test]
    fn a_star_is_everything_and_no_entries_are_nothing() {
        let all = GraphRules::parse(&["http://a/", "*"]).expect("valid");
        assert!(all.is_all());
        assert_eq!(all, GraphRules::all());
        let no_entries: [&str; 0] = [];
        let none = GraphRules::parse(&no_entries).expect("valid");
        assert!(none.is_none());
        assert_eq!(none, GraphRules::none());
    }

    #[test]
    fn entries_that_name_no_graph_are_refused_with_what_to_write() {
        for wrong in [
            "",
            "graph",
            "/a",
            "a b:c",
            "http://a/*/b",
            "**",
            "<http://a/>",
        ] {
            let error = GraphRules::parse(&[wrong]).expect_err(wrong);
            assert!(error.contains("names no graph"), "{error}");
        }
    }

    #[test]
    fn unions_allow_what_either_does_in_its_shortest_form() {
        let a = GraphRules::parse(&["default", "http://a/b", "http://c/d*"]).expect("valid");
        let b = GraphRules::parse(&["http://a/*", "http://c/*"]).expect("valid");
        let both = GraphRules::parse(&["default", "http://a/*", "http://c/*"]).expect("valid");
        assert_eq!(a.union(&b), both);
        assert!(a.union(&GraphRules::all()).is_all());
        assert_eq!(a.union(&GraphRules::none()), a);
    }

    #[test]
    fn graphs_that_are_given_by_name_are_listed() {
        let rules = |entries: &[&str]| GraphRules::parse(entries).expect("valid");
        let names = ["http://a/x".to_owned(), "http://b/y".to_owned()];
        let named = rules(&["http://b/y", "default", "http://a/x"]);
        assert_eq!(named.names(), Some(&names[..]));
        assert_eq!(GraphRules::none().names(), Some(&[][..]));
        assert_eq!(rules(&["http://a/x", "http://b/*"]).names(), None);
        assert_eq!(GraphRules::all().names(), None);
    }
}
