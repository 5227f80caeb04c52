//! Tags of graphs and queries, and the other headers of answers for caches.
//!
//! A tag is a hash of the version of what was read ([`pythia::Version`]) and of everything else that decides about
//! the answer: the program, the store, the graphs that the user may read, and the request. So no tag outlives a
//! change of roles or a restored backup, and tags tell nothing about the store. [`super::validators`] says how they
//! are compared.

use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, ETAG, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use oxrdf::{GraphNameRef, NamedNodeRef};
use pythia::{GraphRules, Snapshot, StoreId, Version};
use sha2::{Digest, Sha256};

use super::validators::{Reading, Unmet, Validator};

/// Bytes of a hash that a tag has.
const HASH_BYTES: usize = 10;

/// Makes the tags of a user's answers from a store.
#[derive(Clone, Copy)]
pub(crate) struct Tags<'a> {
    pub(crate) store: StoreId,
    /// The graphs that the user may read.
    pub(crate) visible: &'a GraphRules,
}

impl Tags<'_> {
    /// Returns the tag of a graph, or of the whole dataset (`None`), in a format.
    pub(crate) fn of_graph(
        self,
        snapshot: &Snapshot,
        graph: Option<GraphNameRef<'_>>,
        media_type: &str,
    ) -> Validator {
        let mut representation = self.hash("representation");
        representation.text(env!("CARGO_PKG_VERSION"));
        representation.text(media_type);
        Validator::Strong {
            state: self.state(snapshot, graph),
            representation: representation.finish(),
            layout: format!("{:x}", snapshot.layout()),
        }
    }

    /// Returns the part of a graph's tag that stands for its content, whatever its form.
    pub(crate) fn state(self, snapshot: &Snapshot, graph: Option<GraphNameRef<'_>>) -> String {
        let mut state = self.hash("state");
        match graph {
            // No name of a graph is empty.
            None => state.text(""),
            Some(graph) => state.text(&graph.to_string()),
        }
        state.version(match graph {
            None => self.version(snapshot),
            Some(graph) => self.graph_version(snapshot, graph),
        });
        state.finish()
    }

    /// Returns the tag of the answer to a query. `request` is everything in the request that decides about it.
    pub(crate) fn of_query(self, snapshot: &Snapshot, request: &[&str]) -> Validator {
        let mut hash = self.hash("query");
        hash.text(env!("CARGO_PKG_VERSION"));
        hash.version(self.version(snapshot));
        request.iter().for_each(|part| hash.text(part));
        Validator::Weak(hash.finish())
    }

    /// Returns the version of all that the user may read. If these graphs are given by name, commits to others do not
    /// change it.
    fn version(self, snapshot: &Snapshot) -> Version {
        let Some(names) = self.visible.names() else {
            return snapshot.version();
        };
        let graphs = names.iter().map(|name| NamedNodeRef::new_unchecked(name));
        let graphs = graphs.map(GraphNameRef::NamedNode);
        let versions = [GraphNameRef::DefaultGraph].into_iter().chain(graphs);
        let versions = versions.map(|graph| self.graph_version(snapshot, graph));
        versions.max().unwrap_or_default()
    }

    /// Returns the version of a graph. A hidden graph appears not to change.
    fn graph_version(self, snapshot: &Snapshot, graph: GraphNameRef<'_>) -> Version {
        match self.visible.allows(graph) {
            true => snapshot.graph_version(graph),
            false => Version::default(),
        }
    }

    /// Begins a hash of what all tags have in common.
    fn hash(self, kind: &str) -> Hash {
        let mut hash = Hash(Sha256::new());
        hash.text(kind);
        hash.0.update(self.store.0);
        match self.visible.is_all() {
            true => hash.text("*"),
            // Rules are equal if and only if they are printed alike, as lists.
            false => hash.text(&format!("{:?}", self.visible)),
        }
        hash
    }
}

/// A hash of a sequence of parts.
struct Hash(Sha256);

impl Hash {
    fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
    }

    fn version(&mut self, version: Version) {
        self.0.update(version.position.to_le_bytes());
        self.0.update(version.time.to_le_bytes());
    }

    fn finish(self) -> String {
        hex::encode(&self.0.finalize()[..HASH_BYTES])
    }
}

/// The headers of an answer for caches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caching {
    /// The value of `ETag`.
    tag: Option<HeaderValue>,
    /// The value of `Cache-Control`.
    control: Option<HeaderValue>,
    /// True if the client has a copy: the answer has no body.
    is_unmodified: bool,
}

impl Caching {
    /// Returns the headers of an answer with this tag, if it has one, given what the conditions of the request mean for
    /// it.
    ///
    /// # Errors
    /// The conditions that are not met.
    pub(crate) fn of(
        validator: Option<&Validator>,
        reading: Reading,
        is_private: bool,
    ) -> Result<Self, Unmet> {
        let (tag, is_unmodified) = match reading {
            Reading::Whole => (validator.map(Validator::header), false),
            Reading::NotModified(tag) => (Some(tag), true),
            Reading::Failed => return Err(Unmet::Match),
        };
        Ok(Self {
            tag,
            control: Some(control(is_private)),
            is_unmodified,
        })
    }

    /// Returns whether the answer has no body.
    pub(crate) fn is_unmodified(&self) -> bool {
        self.is_unmodified
    }

    /// Returns the status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self.is_unmodified {
            true => StatusCode::NOT_MODIFIED,
            false => StatusCode::OK,
        }
    }

    /// Adds the headers.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        if self.tag.is_some() {
            // Also where the body is not compressed, as 304 must have the same (RFC 9110 §15.4.5).
            headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        }
        let added = [(ETAG, self.tag), (CACHE_CONTROL, self.control)];
        for (name, value) in added {
            headers.extend(value.map(|value| (name, value)));
        }
    }
}

/// Returns `Cache-Control`. Every use of a copy needs a question, as a query must see the commits before it.
fn control(is_private: bool) -> HeaderValue {
    HeaderValue::from_static(match is_private {
        true => "private, no-cache",
        false => "no-cache",
    })
}

/// Adds the coding of a compressed answer to its strong tag, as the bytes are others.
pub(crate) async fn tag_coding(mut response: Response) -> Response {
    let headers = response.headers();
    let tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok());
    let coding = headers.get(CONTENT_ENCODING);
    let coding = coding.and_then(|coding| coding.to_str().ok());
    if let (Some(tag), Some(coding)) = (tag, coding)
        && let Some(open) = tag.strip_suffix('"').filter(|tag| tag.starts_with('"'))
        // The page's files have it already.
        && !open.ends_with(&format!("-{coding}"))
        && let Ok(tag) = HeaderValue::from_str(&format!("{open}-{coding}\""))
    {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[tokio::test]
    async fn strong_tags_of_compressed_answers_name_the_coding() {
        let tagged = async |tag: &'static str, coding: Option<&'static str>| {
            let mut response = Response::new(Body::empty());
            let headers = response.headers_mut();
            headers.insert(ETAG, HeaderValue::from_static(tag));
            let coding = coding.map(|coding| (CONTENT_ENCODING, HeaderValue::from_static(coding)));
            headers.extend(coding);
            let response = tag_coding(response).await;
            response.headers()[ETAG].to_str().expect("ASCII").to_owned()
        };
        assert_eq!(tagged("\"a-b-c\"", None).await, "\"a-b-c\"");
        assert_eq!(tagged("\"a-b-c\"", Some("gzip")).await, "\"a-b-c-gzip\"");
        assert_eq!(tagged("\"a-gzip\"", Some("gzip")).await, "\"a-gzip\"");
        assert_eq!(tagged("W/\"a\"", Some("zstd")).await, "W/\"a\"");
        assert_eq!(tagged("\"", Some("zstd")).await, "\"");
    }

    #[test]
    fn tags_differ_by_everything_that_decides_about_the_answer() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("store");
        let (options, progress) = (pythia::LoadOptions::default(), Default::default());
        pythia::load(&path, Vec::new(), &options, &progress).expect("an empty store");
        let database = pythia::Database::open_for_writing(&path).expect("a store");
        let rules = |entries: &[&str]| GraphRules::parse(entries).expect("valid");
        let (all, some) = (rules(&["*"]), rules(&["http://e/a", "http://e/b"]));
        let tags = |byte, visible| Tags {
            store: StoreId([byte; 16]),
            visible,
        };
        let named = |iri| Some(GraphNameRef::NamedNode(NamedNodeRef::new_unchecked(iri)));
        let mut seen = std::collections::BTreeSet::new();
        let update = "INSERT DATA { GRAPH <http://e/c> { <http://e/s> <http://e/p> 1 } }";
        for _ in 0..2 {
            let snapshot = database.snapshot();
            let graphs = [None, Some(GraphNameRef::DefaultGraph), named("http://e/c")];
            for (byte, visible) in [(1, &all), (2, &all), (1, &some)] {
                for graph in graphs {
                    seen.insert(tags(byte, visible).state(&snapshot, graph));
                }
                for request in [["a", "bc"], ["ab", "c"]] {
                    let Validator::Weak(tag) = tags(byte, visible).of_query(&snapshot, &request)
                    else {
                        panic!("queries have weak tags");
                    };
                    seen.insert(tag);
                }
            }
            database.update(update).expect("an update");
        }
        // Once for each of three users, and again after the update, which the third does not see; the default graph
        // has not changed.
        assert_eq!(seen.len(), 3 * 5 + 2 * 4);
        let snapshot = database.snapshot();
        let form = |media_type| tags(1, &all).of_graph(&snapshot, None, media_type);
        assert_ne!(form("text/turtle"), form("application/n-triples"));
        assert_eq!(form("text/turtle"), form("text/turtle"));
    }
}
