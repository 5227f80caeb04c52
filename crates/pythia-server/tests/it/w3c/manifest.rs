//! The manifests that describe HTTP exchanges in RDF: what is sent, and what must come back.

use std::path::{Path, PathBuf};

use oxrdf::vocab::{rdf, rdfs};
use oxrdf::{Graph, NamedNode, NamedOrBlankNodeRef, TermRef};
use oxrdfio::{RdfFormat, RdfParser};

use crate::wire::Request;

pub(super) const MF: &str = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#";
const UT: &str = "http://www.w3.org/2009/sparql/tests/test-update#";
const HT: &str = "http://www.w3.org/2011/http#";
const CNT: &str = "http://www.w3.org/2011/content#";

/// A test: requests over one store, each with what is expected of its answer.
pub(super) struct Test {
    pub(super) name: String,
    /// Named graphs that are there before, and the file of each.
    pub(super) data: Vec<(String, PathBuf)>,
    pub(super) exchanges: Vec<Exchange>,
}

pub(super) struct Exchange {
    pub(super) request: Request,
    pub(super) expected: Expected,
}

#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Statuses, and classes of them (200 stands for the class if `classes` says so).
    pub(super) statuses: Vec<Status>,
    pub(super) boolean: Option<bool>,
    /// `boolean`, `tabular` or `RDF`.
    pub(super) format: Option<String>,
    /// What the value of Location is called in later requests.
    pub(super) location: Option<String>,
    pub(super) content_type: Option<String>,
    /// A graph that the body must be the same as.
    pub(super) body: Option<String>,
}

/// One status, or all of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    One(u16),
    Class(u16),
}

impl Status {
    pub(super) fn accepts(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => class == status / 100,
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "OK" => Self::One(200),
            "Created" => Self::One(201),
            "NoContent" => Self::One(204),
            "NotFound" => Self::One(404),
            "StatusCode2xx" => Self::Class(2),
            "StatusCode3xx" => Self::Class(3),
            "StatusCode4xx" => Self::Class(4),
            other => panic!("no status is known as {other}"),
        }
    }
}

/// A manifest's triples.
pub(super) struct Manifest {
    graph: Graph,
}

impl Manifest {
    pub(super) fn read(path: &Path) -> Self {
        let bytes =
            std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let base = format!("file://{}", path.display());
        let parser = RdfParser::from_format(RdfFormat::Turtle).with_base_iri(base);
        let mut graph = Graph::new();
        for quad in parser.expect("a path").for_slice(&bytes) {
            let quad = quad.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            graph.insert(oxrdf::TripleRef::from(quad.as_ref()));
        }
        Self { graph }
    }

    /// The tests in their order.
    pub(super) fn entries(&self) -> Vec<NamedNode> {
        let entries = NamedNode::new_unchecked(format!("{MF}entries"));
        let lists = self.graph.triples_for_predicate(&entries);
        let members = lists.flat_map(|list| self.members(list.object));
        let named = members.filter_map(|member| match member {
            TermRef::NamedNode(node) => Some(node.into_owned()),
            _ => None,
        });
        named.collect()
    }

    /// A test that is described in RDF.
    pub(super) fn test(&self, entry: &NamedNode) -> Test {
        let subject = TermRef::NamedNode(entry.as_ref());
        let action = self
            .object(subject, MF, "action")
            .unwrap_or_else(|| panic!("{entry} has no action"));
        let requests = self.object(action, HT, "requests").expect("requests");
        Test {
            name: local_name(entry).to_owned(),
            data: self
                .objects(subject, UT, "graphData")
                .into_iter()
                .map(|data| self.data(data))
                .collect(),
            exchanges: self
                .members(requests)
                .into_iter()
                .map(|request| self.exchange(request))
                .collect(),
        }
    }

    /// The texts of a property.
    pub(super) fn texts(&self, subject: &NamedNode, property: &str) -> Vec<String> {
        let property = NamedNode::new_unchecked(property);
        let objects = self.graph.objects_for_subject_predicate(subject, &property);
        objects.filter_map(text).collect()
    }

    fn data(&self, data: TermRef<'_>) -> (String, PathBuf) {
        let label = rdfs::LABEL.as_str();
        let name = self.object(data, label, "").and_then(text).expect("a name");
        match self.object(data, UT, "graph") {
            Some(TermRef::NamedNode(file)) => {
                let path = file.as_str().strip_prefix("file://").expect("a file");
                (name, PathBuf::from(path))
            }
            other => panic!("the data of {name} is {other:?}"),
        }
    }

    fn exchange(&self, node: TermRef<'_>) -> Exchange {
        let property = |name| self.object(node, HT, name).and_then(text).expect(name);
        let request = Request {
            method: property("methodName"),
            target: property("absolutePath"),
            headers: self.headers(node),
            body: self.object(node, HT, "body").map(|body| self.bytes(body)),
        };
        let answer = self.object(node, HT, "resp").expect("a response");
        let expected = self.expected(answer);
        Exchange { request, expected }
    }

    fn expected(&self, answer: TermRef<'_>) -> Expected {
        let statuses = self.objects(answer, MF, "expectedStatus");
        let statuses = statuses.into_iter().map(|status| match status {
            TermRef::NamedNode(status) => Status::named(local_name(&status.into_owned())),
            other => panic!("{other} is no status"),
        });
        let property = |name| self.object(answer, MF, name).and_then(text);
        let headers = self.headers(answer);
        let content_type = headers.into_iter().find(|(name, _)| name == "content-type");
        let body = self.object(answer, HT, "body");
        Expected {
            statuses: statuses.collect(),
            boolean: property("expectedBoolean").map(|value| value == "true"),
            format: property("expectedFormat"),
            location: property("expectedLocation"),
            content_type: content_type.map(|(_, value)| value),
            body: body.map(|body| String::from_utf8(self.bytes(body)).expect("UTF-8")),
        }
    }

    fn headers(&self, message: TermRef<'_>) -> Vec<(String, String)> {
        let Some(headers) = self.object(message, HT, "headers") else {
            return Vec::new();
        };
        let part = |header, name| self.object(header, HT, name).and_then(text).expect(name);
        let headers = self.members(headers).into_iter();
        headers
            .map(|header| (part(header, "fieldName"), part(header, "fieldValue")))
            .collect()
    }

    fn bytes(&self, body: TermRef<'_>) -> Vec<u8> {
        let chars = self.object(body, CNT, "chars").and_then(text);
        let chars = chars.expect("characters");
        let encoding = self.object(body, CNT, "characterEncoding").and_then(text);
        match encoding.as_deref() {
            Some("UTF-8") => chars.into_bytes(),
            Some("UTF-16") => {
                let units = std::iter::once(0xfeff).chain(chars.encode_utf16());
                units.flat_map(u16::to_be_bytes).collect()
            }
            other => panic!("no encoding is known as {other:?}"),
        }
    }

    fn object<'a>(&'a self, subject: TermRef<'a>, space: &str, name: &str) -> Option<TermRef<'a>> {
        self.objects(subject, space, name).pop()
    }

    fn objects<'a>(&'a self, subject: TermRef<'a>, space: &str, name: &str) -> Vec<TermRef<'a>> {
        let property = NamedNode::new_unchecked(format!("{space}{name}"));
        let Some(subject) = resource(subject) else {
            return Vec::new();
        };
        let triples = self.graph.triples_for_subject(subject);
        let triples = triples.filter(|triple| triple.predicate == property.as_ref());
        triples.map(|triple| triple.object).collect()
    }

    fn members<'a>(&'a self, list: TermRef<'a>) -> Vec<TermRef<'a>> {
        let mut members = Vec::new();
        let mut rest = list;
        while let Some(first) = self.object(rest, rdf::FIRST.as_str(), "") {
            members.push(first);
            rest = self.object(rest, rdf::REST.as_str(), "").expect("a rest");
        }
        members
    }
}

/// The part of a test's IRI after `#`.
pub(super) fn local_name(iri: &NamedNode) -> &str {
    iri.as_str().rsplit('#').next().expect("a part")
}

fn text(term: TermRef<'_>) -> Option<String> {
    match term {
        TermRef::Literal(literal) => Some(literal.value().to_owned()),
        _ => None,
    }
}

fn resource(term: TermRef<'_>) -> Option<NamedOrBlankNodeRef<'_>> {
    match term {
        TermRef::NamedNode(node) => Some(node.into()),
        TermRef::BlankNode(node) => Some(node.into()),
        TermRef::Literal(_) | TermRef::Triple(_) => None,
    }
}
