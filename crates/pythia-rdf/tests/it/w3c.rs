//! The W3C's suites for N-Triples, N-Quads, Turtle, TriG and RDF/XML, RDF 1.1 and 1.2.

use std::path::{Path, PathBuf};

use oxrdf::dataset::CanonicalizationAlgorithm;
use oxrdf::vocab::rdf;
use oxrdf::{Dataset, Graph, NamedNode, Quad, TermRef};
use oxrdfio::RdfParser;
use pythia_rdf::{RdfFormat, RdfWriter, Source};

use crate::collect::{options, parse_all};
use crate::differential;

/// A file or folder of the test data, or `None` after saying loudly that it is missing.
pub(crate) fn data(name: &str) -> Option<PathBuf> {
    let given = std::env::var_os("PYTHIA_SHARED_DATA").map(PathBuf::from);
    let folder =
        given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!(
        "\n*** SKIPPED: there is no test data at {} (set PYTHIA_SHARED_DATA) ***\n",
        path.display()
    );
    None
}

struct Test {
    name: String,
    kind: String,
    action: PathBuf,
    result: Option<PathBuf>,
    base: String,
}

fn manifests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the suites") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            manifests(&path, found);
        } else if path.file_name().is_some_and(|name| name == "manifest.ttl") {
            found.push(path);
        }
    }
}

fn tests(manifest: &Path) -> Vec<Test> {
    const MF: &str = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#";
    let property = |name: &str| NamedNode::new_unchecked(format!("{MF}{name}"));
    let folder = manifest.parent().expect("a file");
    let own = format!("file://{}/", folder.display());
    let text = std::fs::read(manifest).expect("readable");
    let mut graph = Graph::new();
    for quad in RdfParser::from_format(RdfFormat::Turtle)
        .with_base_iri(own.clone())
        .expect("a path")
        .for_slice(&text)
    {
        let quad = quad.expect("a manifest is valid");
        graph.insert(oxrdf::TripleRef::from(quad.as_ref()));
    }
    let local = |term: TermRef<'_>| match term {
        TermRef::NamedNode(node) => folder.join(node.as_str().strip_prefix(&own).expect("a path")),
        other => panic!("{other} is no file"),
    };
    let assumed = graph
        .triples_for_predicate(&property("assumedTestBase"))
        .next()
        .map(|triple| {
            triple
                .object
                .to_string()
                .trim_matches(['<', '>'])
                .to_owned()
        });
    let mut tests = Vec::new();
    for triple in graph.triples_for_predicate(rdf::TYPE) {
        let TermRef::NamedNode(kind) = triple.object else {
            continue;
        };
        let Some(kind) = kind
            .as_str()
            .strip_prefix("http://www.w3.org/ns/rdftest#Test")
        else {
            continue;
        };
        let Some(action) = graph.object_for_subject_predicate(triple.subject, &property("action"))
        else {
            continue;
        };
        let action = local(action);
        // Relative to the suite's home if it says where that is.
        let name = action
            .strip_prefix(folder)
            .expect("a file of the suite")
            .to_string_lossy()
            .into_owned();
        tests.push(Test {
            name: format!("{}{}", folder.display(), triple.subject),
            kind: kind.to_owned(),
            base: format!("{}{name}", assumed.as_deref().unwrap_or(&own)),
            result: graph
                .object_for_subject_predicate(triple.subject, &property("result"))
                .map(local),
            action,
        });
    }
    tests
}

fn parse(path: &Path, base: &str) -> Result<Vec<Quad>, String> {
    let source = Source::from_path(path, None, None)
        .expect("a test file")
        .with_base(Some(base.to_owned()));
    parse_all(vec![source], &options(64), 2)
        .map(|(quads, _)| quads)
        .map_err(|error| error.to_string())
}

fn canonical(quads: Vec<Quad>) -> Dataset {
    let mut dataset: Dataset = quads.into_iter().collect();
    dataset.canonicalize(CanonicalizationAlgorithm::Unstable);
    dataset
}

/// What is wrong with the outcome of a test.
fn run(test: &Test) -> Result<(), String> {
    let parsed = parse(&test.action, &test.base);
    if test.kind.starts_with("NTriples") || test.kind.starts_with("NQuads") {
        let format = if test.kind.starts_with("NQ") {
            RdfFormat::NQuads
        } else {
            RdfFormat::NTriples
        };
        differential::check(&std::fs::read(&test.action).expect("readable"), format);
    }
    if test.kind.contains("Negative") {
        return match parsed {
            Ok(_) => Err("accepted".to_owned()),
            Err(_) => Ok(()),
        };
    }
    let quads = parsed?;
    let Some(result) = &test.result else {
        return Ok(());
    };
    if test.kind.ends_with("C14N") {
        let format = if test.kind.starts_with("NQ") {
            RdfFormat::NQuads
        } else {
            RdfFormat::NTriples
        };
        let mut writer = RdfWriter::new(Vec::new(), format, &[]).expect("no prefixes");
        for quad in &quads {
            writer
                .quad(quad.as_ref())
                .map_err(|error| error.to_string())?;
        }
        let written = writer.finish().map_err(|error| error.to_string())?;
        let wanted = std::fs::read(result).expect("readable");
        // Quads come in no particular order; each line must be canonical.
        let lines = |bytes: &[u8]| {
            let mut lines: Vec<Vec<u8>> =
                bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            lines.sort();
            lines
        };
        return if lines(&written) == lines(&wanted) {
            Ok(())
        } else {
            Err(format!(
                "written as {:?}, not {:?}",
                String::from_utf8_lossy(&written),
                String::from_utf8_lossy(&wanted)
            ))
        };
    }
    let (ours, wanted) = (canonical(quads), canonical(parse(result, &test.base)?));
    if ours == wanted {
        Ok(())
    } else {
        Err(format!("got\n{ours}\nnot\n{wanted}"))
    }
}

/// Runs the tests whose kind begins with `kind`; those in `excused` may fail.
fn suite(kind: &str, count_min: usize, excused: &[&str]) {
    let Some(data) = data("rdf-tests/rdf") else {
        return;
    };
    let mut files = Vec::new();
    manifests(&data, &mut files);
    let (mut count, mut failed) = (0, Vec::new());
    for test in files.iter().flat_map(|file| tests(file)) {
        if !test.kind.starts_with(kind) {
            continue;
        }
        count += 1;
        if let Err(problem) = run(&test)
            && !excused.iter().any(|name| test.name.contains(name))
        {
            failed.push(format!("{} ({}): {problem}", test.name, test.kind));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {count} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert!(count >= count_min, "only {count} tests found");
    println!("{kind}: {count} tests");
}

#[test]
fn n_triples() {
    suite("NTriples", 130, &[]);
}

#[test]
fn n_quads() {
    suite("NQuads", 140, &[]);
}

#[test]
fn turtle() {
    suite("Turtle", 400, &[]);
}

#[test]
fn trig() {
    suite("Trig", 400, &[]);
}

#[test]
fn rdf_xml() {
    // The parser writes the namespaces in scope into an XML literal, which is the same value in another form.
    let other_form = [
        "xml-canon-test001",
        "xml-canon-test002",
        "rdf12-xml-an-13",
        "rdf12-xml-an-14",
    ];
    suite("XML", 190, &other_form);
}
