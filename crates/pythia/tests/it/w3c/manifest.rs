//! The manifests of the W3C's SPARQL suites: which tests there are, and the files of each.

use std::path::{Path, PathBuf};

use oxrdf::vocab::{rdf, rdfs};
use oxrdf::{Graph, NamedNode, NamedOrBlankNodeRef, Term, TermRef};
use oxrdfio::{RdfFormat, RdfParser};

const MF: &str = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#";
const QT: &str = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#";
const UT: &str = "http://www.w3.org/2009/sparql/tests/test-update#";

/// What a test asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The query's answer on the data.
    Evaluation,
    /// Whether the query is one.
    Positive,
    Negative,
    /// What the update makes of the data.
    Update,
    /// Whether the update is one.
    PositiveUpdate,
    NegativeUpdate,
}

/// The files of a dataset.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) default: Vec<PathBuf>,
    /// The IRIs of named graphs, and the file of each.
    pub(crate) named: Vec<(String, PathBuf)>,
}

/// One test of a suite.
#[derive(Debug)]
pub(crate) struct Test {
    /// The folder within the suites and the name within its manifest: `sparql11/bind#bind01`.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) query: PathBuf,
    /// The files of the default graph.
    pub(crate) data: Vec<PathBuf>,
    /// The files of the named graphs, whose names are their places.
    pub(crate) graphs: Vec<PathBuf>,
    /// Endpoints and the file of what each serves.
    pub(crate) services: Vec<(String, PathBuf)>,
    pub(crate) result: Option<PathBuf>,
    /// How often a solution is repeated does not matter (`REDUCED`).
    pub(crate) lax: bool,
    /// Of an update: the data before and after it.
    pub(crate) update: Option<(Files, Files)>,
}

/// The IRI of a file.
pub(crate) fn iri_of(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// The file of an IRI made by [`iri_of`].
pub(crate) fn path_of(iri: &str) -> PathBuf {
    PathBuf::from(iri.strip_prefix("file://").expect("the IRI of a file"))
}

/// The folders below this one that have a manifest, in order.
pub(crate) fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        if folder.join("manifest.ttl").exists() {
            found.push(folder.clone());
        }
        let entries = std::fs::read_dir(&folder).expect("a folder of the suites");
        let paths = entries.map(|entry| entry.expect("readable").path());
        open.extend(paths.filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

/// The tests that a folder's manifest lists. Those of protocols are left out.
pub(crate) fn tests(folder: &Path, suites: &Path) -> Vec<Test> {
    let manifest = Manifest::read(&folder.join("manifest.ttl"));
    let within = folder.strip_prefix(suites).expect("a folder of the suites");
    let entries = manifest.entries();
    let tests = entries
        .iter()
        .map(|entry| manifest.test(entry, &within.display().to_string()));
    tests.flatten().collect()
}

/// Reads a file of triples. Relative IRIs are relative to the file.
pub(crate) fn graph_of(path: &Path) -> Graph {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let format = RdfFormat::from_extension(extension.expect("an extension")).expect("a format");
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parser = RdfParser::from_format(format).with_base_iri(iri_of(path));
    let mut graph = Graph::new();
    for quad in parser.expect("a path").for_slice(&bytes) {
        let quad = quad.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        graph.insert(oxrdf::TripleRef::from(quad.as_ref()));
    }
    graph
}

struct Manifest {
    graph: Graph,
}

impl Manifest {
    fn read(path: &Path) -> Self {
        Self {
            graph: graph_of(path),
        }
    }

    /// The members of the lists of entries.
    fn entries(&self) -> Vec<NamedNode> {
        let mut entries = Vec::new();
        let property = NamedNode::new_unchecked(format!("{MF}entries"));
        for list in self.graph.triples_for_predicate(&property) {
            let mut rest = list.object;
            while let Some(node) = resource(rest) {
                if let Some(TermRef::NamedNode(entry)) =
                    self.graph.object_for_subject_predicate(node, rdf::FIRST)
                {
                    entries.push(entry.into_owned());
                }
                match self.graph.object_for_subject_predicate(node, rdf::REST) {
                    Some(next) => rest = next,
                    None => break,
                }
            }
        }
        entries
    }

    fn objects(&self, subject: TermRef<'_>, property: &str) -> Vec<Term> {
        let property = NamedNode::new_unchecked(property);
        let Some(subject) = resource(subject) else {
            return Vec::new();
        };
        let objects = self
            .graph
            .objects_for_subject_predicate(subject, &property)
            .map(TermRef::into_owned);
        objects.collect()
    }

    fn files(&self, subject: TermRef<'_>, property: &str) -> Vec<PathBuf> {
        let objects = self.objects(subject, property);
        objects.iter().map(file).collect()
    }

    fn test(&self, entry: &NamedNode, folder: &str) -> Option<Test> {
        let subject = TermRef::NamedNode(entry.as_ref());
        let types = self.objects(subject, rdf::TYPE.as_str());
        let kind = types.iter().find_map(|kind| match kind {
            Term::NamedNode(kind) => match kind.as_str().strip_prefix(MF)? {
                "QueryEvaluationTest" | "CSVResultFormatTest" => Some(Kind::Evaluation),
                "PositiveSyntaxTest" | "PositiveSyntaxTest11" => Some(Kind::Positive),
                "NegativeSyntaxTest" | "NegativeSyntaxTest11" => Some(Kind::Negative),
                "UpdateEvaluationTest" => Some(Kind::Update),
                "PositiveUpdateSyntaxTest" | "PositiveUpdateSyntaxTest11" => {
                    Some(Kind::PositiveUpdate)
                }
                "NegativeUpdateSyntaxTest" | "NegativeUpdateSyntaxTest11" => {
                    Some(Kind::NegativeUpdate)
                }
                _ => None,
            },
            _ => None,
        })?;
        let action = self.objects(subject, &format!("{MF}action")).pop()?;
        let property = |name: &str| self.files(action.as_ref(), &format!("{QT}{name}"));
        let query = match kind {
            Kind::Evaluation => property("query").pop()?,
            Kind::Update => self.files(action.as_ref(), &format!("{UT}request")).pop()?,
            _ => file(&action),
        };
        let result = self.objects(subject, &format!("{MF}result")).pop();
        let update = result.as_ref().filter(|_| kind == Kind::Update);
        let update = update.map(|after| {
            let before = self.dataset(action.as_ref());
            (before, self.dataset(after.as_ref()))
        });
        let services = self.objects(action.as_ref(), &format!("{QT}serviceData"));
        let name = entry.as_str().rsplit(['#', '/']).next().expect("a part");
        Some(Test {
            name: format!("{folder}#{name}"),
            kind,
            query,
            data: property("data"),
            graphs: property("graphData"),
            services: services
                .iter()
                .map(|service| self.service(service.as_ref()))
                .collect(),
            result: result.filter(Term::is_named_node).as_ref().map(file),
            update,
            lax: !self
                .objects(subject, &format!("{MF}resultCardinality"))
                .is_empty(),
        })
    }

    /// The dataset before or after an update.
    fn dataset(&self, node: TermRef<'_>) -> Files {
        let named = self.objects(node, &format!("{UT}graphData"));
        let named = named.iter().map(|graph| {
            let path = self.files(graph.as_ref(), &format!("{UT}graph")).pop();
            let label = self.objects(graph.as_ref(), rdfs::LABEL.as_str()).pop();
            let Some(Term::Literal(label)) = label else {
                panic!("{graph} has no name");
            };
            (label.value().to_owned(), path.expect("a file"))
        });
        Files {
            default: self.files(node, &format!("{UT}data")),
            named: named.collect(),
        }
    }

    fn service(&self, service: TermRef<'_>) -> (String, PathBuf) {
        let endpoint = self.objects(service, &format!("{QT}endpoint")).pop();
        let Some(Term::NamedNode(endpoint)) = endpoint else {
            panic!("{service} has no endpoint");
        };
        let data = self.files(service, &format!("{QT}data")).pop();
        (endpoint.into_string(), data.expect("data of the endpoint"))
    }
}

fn file(term: &Term) -> PathBuf {
    match term {
        Term::NamedNode(node) => path_of(node.as_str()),
        other => panic!("{other} is no file"),
    }
}

fn resource(term: TermRef<'_>) -> Option<NamedOrBlankNodeRef<'_>> {
    match term {
        TermRef::NamedNode(node) => Some(node.into()),
        TermRef::BlankNode(node) => Some(node.into()),
        TermRef::Literal(_) | TermRef::Triple(_) => None,
    }
}
