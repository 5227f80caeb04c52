//! Loads files, bytes and open files of Python.

use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxrdf::NamedNode;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use pythia::{Database, LoadOptions, LoadProgress, RdfFormat, Source};
use pythia_io::system;
use pythia_rdf::format::{detect, format_from_name};

use crate::errors::{exception, of_load, of_parse};

/// Time between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);
/// The start of a text that tells its format.
const GUESSED: usize = 4096;

/// What is loaded: a path, bytes, or an open file.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Input {
    source: Py<PyAny>,
    #[pyo3(default)]
    format: Option<String>,
    #[pyo3(default)]
    base: Option<String>,
    #[pyo3(default)]
    graph: Option<String>,
}

impl Input {
    fn open(&self, py: Python<'_>, scope: Option<u64>) -> PyResult<Source> {
        let given = self.format.as_deref().map(rdf_format).transpose()?;
        let source = self.source.bind(py);
        let opened = if let Ok(bytes) = source.cast::<PyBytes>() {
            let bytes = bytes.as_bytes().to_vec();
            let format = given.unwrap_or_else(|| guess(&bytes));
            Source::from_stream("<bytes>".to_owned(), Cursor::new(bytes), format)
        } else if let Ok(path) = source.extract::<PathBuf>() {
            Source::from_path(&path, given, None)
        } else if source.hasattr("read")? {
            let name = file_name(source)?;
            let by_name = name.as_ref().and_then(|name| detect(name.as_ref()).0);
            let mut file = PythonFile::new(source);
            let format = match given.or(by_name) {
                Some(format) => format,
                None => {
                    let start = file.start(py)?;
                    guess(&start)
                }
            };
            let name = name.unwrap_or_else(|| "<file>".to_owned());
            Source::from_stream(name, file, format)
        } else {
            let class = source.get_type();
            let message =
                format!("a {class} cannot be loaded: give a path, bytes, an open file, or quads");
            return Err(PyTypeError::new_err(message));
        };
        let graph = self.graph.as_deref().map(NamedNode::new).transpose();
        let graph = graph.map_err(|error| PyValueError::new_err(format!("the graph: {error}")))?;
        let opened = opened.map_err(of_parse)?;
        Ok(opened
            .with_graph(graph)
            .with_base(self.base.clone())
            .with_blank_node_scope(scope))
    }
}

pub(crate) fn rdf_format(name: &str) -> PyResult<RdfFormat> {
    format_from_name(name.trim_start_matches('.')).ok_or_else(|| {
        let message = format!("{name} is no format of RDF: one of nt, nq, ttl, trig, rdf, jsonld");
        PyValueError::new_err(message)
    })
}

/// Returns the format that the start of a text looks like. TriG contains Turtle and N-Triples.
fn guess(start: &[u8]) -> RdfFormat {
    let text = String::from_utf8_lossy(&start[..start.len().min(GUESSED)]);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with(['{', '[']) && !text.starts_with("[]") && !text.contains("{ ?") {
        let json = |text: &str| text[1..].trim_start().starts_with(['"', '{', '}', ']']);
        if json(text) {
            return format_from_name("jsonld").expect("a known name");
        }
    }
    if text.starts_with("<?xml") || text.starts_with("<rdf:") || text.starts_with("<!") {
        return RdfFormat::RdfXml;
    }
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_line =
        |line: &str| (line.starts_with('<') || line.starts_with("_:")) && line.ends_with('.');
    match lines.next() {
        Some(line)
            if is_line(line)
                && lines
                    .next()
                    .is_none_or(|line| is_line(line) || !text.ends_with('\n')) =>
        {
            RdfFormat::NQuads
        }
        _ => RdfFormat::TriG,
    }
}

fn file_name(file: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match file.getattr_opt("name")? {
        Some(name) => Ok(name
            .extract::<PathBuf>()
            .ok()
            .map(|name| name.display().to_string())),
        None => Ok(None),
    }
}

/// An open file of Python, with bytes or text.
struct PythonFile {
    file: Py<PyAny>,
    /// Bytes that are read already.
    rest: Vec<u8>,
    next: usize,
}

impl PythonFile {
    fn new(file: &Bound<'_, PyAny>) -> Self {
        Self {
            file: file.clone().unbind(),
            rest: Vec::new(),
            next: 0,
        }
    }

    /// Reads the next bytes; none at the end.
    fn fill(&mut self, py: Python<'_>, size: usize) -> PyResult<()> {
        let read = self.file.bind(py).call_method1("read", (size,))?;
        self.next = 0;
        self.rest = match read.cast::<PyString>() {
            Ok(text) => text.to_str()?.as_bytes().to_vec(),
            Err(_) => read.extract::<Vec<u8>>().map_err(|_| {
                PyTypeError::new_err("the file's read() returns neither bytes nor str")
            })?,
        };
        Ok(())
    }

    /// Returns the start of the file, which is read again later.
    fn start(&mut self, py: Python<'_>) -> PyResult<Vec<u8>> {
        self.fill(py, GUESSED)?;
        Ok(self.rest.clone())
    }
}

impl Read for PythonFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.next == self.rest.len() {
            Python::attach(|py| self.fill(py, buffer.len().max(1 << 16)))
                .map_err(|error: PyErr| io::Error::other(error))?;
        }
        let rest = &self.rest[self.next..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.next += count;
        Ok(count)
    }
}

/// Loads the inputs into a database; returns what was loaded.
pub(crate) fn load<'py>(
    py: Python<'py>,
    database: &Database,
    inputs: Vec<Input>,
    lenient: bool,
    memory: Option<usize>,
    report: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    // Blank nodes are always new. Those of one source in an empty store keep their labels.
    let has_quads = database.snapshot().statistics().quads > 0;
    let keeps_labels = inputs.len() == 1 && !has_quads;
    let scope = || (!keeps_labels).then(system::random_u64);
    let sources = inputs.iter().map(|input| input.open(py, scope()));
    let sources: Vec<Source> = sources.collect::<PyResult<_>>()?;
    let mut options = LoadOptions {
        lenient,
        ..LoadOptions::default()
    };
    options.memory_bytes = memory.unwrap_or(options.memory_bytes);
    let progress = Arc::new(LoadProgress::default());
    let loaded = py.detach(|| match &report {
        None => database.store().load(sources, &options, &progress),
        Some(report) => with_reports(report, &progress, || {
            database.store().load(sources, &options, &progress)
        }),
    });
    py.check_signals()?;
    let loaded = loaded.map_err(of_load)?;
    let told = PyDict::new(py);
    told.set_item("quads", loaded.quads)?;
    told.set_item("known_quads", loaded.known_quads)?;
    told.set_item("quads_read", loaded.quads_read)?;
    told.set_item("skipped", loaded.skipped)?;
    let first: Vec<String> = loaded
        .first_skipped
        .iter()
        .map(ToString::to_string)
        .collect();
    told.set_item("first_skipped", first)?;
    Ok(told)
}

/// Runs work, and calls a function of Python with the phase, what is done of it, the total, and the quads that were read.
fn with_reports<T>(report: &Py<PyAny>, progress: &LoadProgress, work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                std::thread::park_timeout(REPORT);
                if let Some(phase) = progress.phase() {
                    let done = match phase.name {
                        "parse" => progress.parse.bytes_read.load(Ordering::Relaxed),
                        _ => progress.done.load(Ordering::Relaxed),
                    };
                    let quads = progress.parse.quads.load(Ordering::Relaxed);
                    Python::attach(|py| {
                        let told = report.call1(py, (phase.name, done, phase.total, quads));
                        if let Err(error) = told {
                            error.write_unraisable(py, None);
                        }
                    });
                }
            }
        });
        let done = work();
        is_done.store(true, Ordering::Relaxed);
        done
    })
}

/// Parses data without a store; returns its quads.
#[pyfunction]
#[pyo3(signature = (input, lenient = false))]
pub(crate) fn parse(
    py: Python<'_>,
    input: Input,
    lenient: bool,
) -> PyResult<Vec<crate::terms::PyQuad>> {
    let source = input.open(py, None)?;
    let options = pythia_rdf::ParseOptions::default().with_lenient(lenient);
    let mut quads = Vec::new();
    let parsed = py.detach(|| {
        pythia_rdf::parse_quads(vec![source], &options, &Default::default(), |quad| {
            quads.push(crate::terms::PyQuad(quad.into_owned()));
            Ok(())
        })
    });
    parsed.map_err(of_parse)?;
    Ok(quads)
}

/// Serializes quads.
#[pyfunction]
#[pyo3(signature = (quads, format, prefixes = Vec::new()))]
pub(crate) fn serialize<'py>(
    py: Python<'py>,
    quads: &Bound<'py, PyAny>,
    format: &str,
    prefixes: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let prefixes: Vec<_> = prefixes
        .iter()
        .map(|(name, iri)| (name.as_str(), iri.as_str()))
        .collect();
    let failed = |error: &dyn std::fmt::Display| exception("LoadError", error.to_string());
    let writer = pythia_rdf::RdfWriter::new(Vec::new(), rdf_format(format)?, &prefixes);
    let mut writer = writer.map_err(|error| failed(&error))?;
    for quad in quads.try_iter()? {
        let quad = crate::terms::quad_of(&quad?)?;
        writer
            .quad(quad.as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    let bytes = writer.finish().map_err(|error| failed(&error))?;
    Ok(PyBytes::new(py, &bytes))
}
