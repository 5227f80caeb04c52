//! A database of this process.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxrdf::{BlankNode, GraphName, NamedNode, Term, Variable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pythia::{
    Auxiliary, CachedAttribute, Cores, CustomFunction, CustomFunctions, Database, HttpService,
    LoadHandler, LoadOptions, Loader, Options, Pace, QueryOptions, Results, Update, UpdateOptions,
    WriteOptions,
};
use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::format::format_from_name;
use pythia_rdf::key;

use crate::errors::{exception, of_load, of_query, of_store, of_write};
use crate::feed::Commits;
use crate::interrupt;
use crate::load;
use crate::matching::Matching;
use crate::output::Output;
use crate::scope::Scope;
use crate::solutions::{Source, lock, results, write_nothing};
use crate::terms::{PyVariable, graph_of, quad_of, term_of, to_python};

/// A store that this process has open. `pythiadb.Database` extends it.
#[pyclass(
    frozen,
    subclass,
    name = "LocalDatabase",
    module = "pythiadb._pythiadb"
)]
pub(crate) struct LocalDatabase {
    /// `None` once it is closed.
    database: Mutex<Option<Arc<Database>>>,
    pub(crate) scope: Scope,
    path: Option<PathBuf>,
    read_only: bool,
    timeout: Option<Duration>,
}

/// Options of one query or update.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    timeout: Option<f64>,
    memory: Option<usize>,
    max_rows: Option<u64>,
    union_default_graph: bool,
    base: Option<String>,
    native: bool,
    service: bool,
    default_graphs: Vec<String>,
    named_graphs: Vec<String>,
    functions: Vec<(String, Py<PyAny>)>,
}

fn time(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{seconds} is no time in seconds")))
}

impl Settings {
    /// Returns the functions of Python that the query calls by IRI. Without a term as result, and after an exception, the
    /// call has no value.
    fn functions(&self) -> PyResult<CustomFunctions> {
        let of_python = |(iri, function): &(String, Py<PyAny>)| {
            let iri = NamedNode::new(iri);
            let iri = iri.map_err(|error| {
                PyValueError::new_err(format!("the name of a function: {error}"))
            })?;
            let function = Python::attach(|py| function.clone_ref(py));
            let call: CustomFunction = Arc::new(move |terms: &[Term]| {
                Python::attach(|py| {
                    let terms = terms.iter().cloned().map(|term| to_python(py, term));
                    let terms = PyTuple::new(py, terms.collect::<PyResult<Vec<_>>>().ok()?).ok()?;
                    let result = function.call1(py, terms).ok()?;
                    term_of(result.bind(py)).ok()
                })
            });
            Ok((iri, call))
        };
        self.functions.iter().map(of_python).collect()
    }

    /// Returns the dataset that is given besides the text: default and named graphs.
    fn dataset(&self) -> PyResult<Option<(Vec<NamedNode>, Vec<NamedNode>)>> {
        if self.default_graphs.is_empty() && self.named_graphs.is_empty() {
            return Ok(None);
        }
        let nodes = |names: &[String]| {
            let nodes = names.iter().map(|name| graph_name(name));
            nodes.collect::<PyResult<Vec<_>>>()
        };
        Ok(Some((
            nodes(&self.default_graphs)?,
            nodes(&self.named_graphs)?,
        )))
    }

    /// Returns the options of a query, and the flag that stops it.
    fn query(&self, usual: Option<Duration>) -> PyResult<(QueryOptions, Arc<AtomicBool>)> {
        let cancel = Arc::<AtomicBool>::default();
        let options = QueryOptions {
            timeout: self.timeout.map(time).transpose()?.or(usual),
            cancel: Some(Arc::clone(&cancel)),
            memory_bytes: self.memory,
            row_limit: self.max_rows,
            union_default_graph: self.union_default_graph,
            functions: Arc::new(self.functions()?),
            service: self.service.then(|| Arc::new(HttpService::default()) as _),
            ..QueryOptions::default()
        };
        Ok((options, cancel))
    }
}

/// Returns the name of a graph: an IRI, or `_:label` for a blank node.
fn graph_name(name: &str) -> PyResult<NamedNode> {
    let wrong = |error: &dyn std::fmt::Display| {
        PyValueError::new_err(format!("the name of a graph: {error}"))
    };
    match name.strip_prefix("_:") {
        Some(label) => match BlankNode::new(label) {
            Ok(node) => Ok(key::name_of(node.as_ref())),
            Err(error) => Err(wrong(&error)),
        },
        None => NamedNode::new(name).map_err(|error| wrong(&error)),
    }
}

/// Returns the bindings of a query: a dictionary of variables, or their names, and terms.
fn bindings(given: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(Variable, Term)>> {
    let Some(given) = given else {
        return Ok(Vec::new());
    };
    let one = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let variable = match key.cast::<PyVariable>() {
            Ok(variable) => variable.get().0.clone(),
            Err(_) => {
                let name: String = key.extract()?;
                let name = name.strip_prefix(['?', '$']).unwrap_or(&name);
                Variable::new(name).map_err(|error| PyValueError::new_err(error.to_string()))?
            }
        };
        Ok((variable, term_of(&value)?))
    };
    given.iter().map(one).collect()
}

impl LocalDatabase {
    /// Returns the open database.
    pub(crate) fn open(&self) -> PyResult<Arc<Database>> {
        self.scope.check()?;
        let database = lock(&self.database);
        database
            .clone()
            .ok_or_else(|| crate::errors::closed("database"))
    }

    /// Prepares a query with bindings, and runs it.
    fn run(
        &self,
        py: Python<'_>,
        text: String,
        given: Option<&Bound<'_, PyDict>>,
        settings: &Settings,
        explained: Option<(bool, bool)>,
    ) -> PyResult<Py<PyAny>> {
        let database = self.open()?;
        let (mut options, cancel) = settings.query(self.timeout)?;
        let bindings = bindings(given)?;
        if let Some((analyze, _)) = explained {
            (options.explain, options.profile) = (true, analyze);
        }
        let base = settings.base.as_deref();
        let dataset = settings.dataset()?;
        let outcome = interrupt::run(py, &cancel, || {
            let mut query = database.parse_query(&text, base, &options)?;
            if let Some((default, named)) = dataset {
                query.set_dataset(default, named);
            }
            let query = query.with_bindings(&bindings)?;
            let prepared = database.prepare_parsed(&query, &options)?;
            let Some((analyze, json)) = explained else {
                return prepared.execute().map(Outcome::Results);
            };
            if analyze {
                write_nothing(prepared.execute()?)?;
            }
            Ok(Outcome::Plan(match json {
                true => prepared.explain_json(),
                false => prepared.explain(),
            }))
        })?;
        match outcome {
            Ok(Outcome::Plan(plan)) => Ok(plan.into_pyobject(py)?.into_any().unbind()),
            Ok(Outcome::Results(found)) => {
                let source = Source {
                    scope: self.scope.clone(),
                    cancel,
                    text,
                    native: settings.native,
                };
                results(py, found, source)
            }
            Err(error) => Err(of_query(error, &text)),
        }
    }
}

/// Returns what LOAD may read: the files of a folder, and documents of servers.
fn loader(folder: Option<PathBuf>, http: bool) -> Option<Arc<dyn LoadHandler>> {
    let mut loader = Loader::new();
    if let Some(folder) = &folder {
        loader = loader.with_folder(folder);
    }
    if http {
        loader = loader.with_http();
    }
    (folder.is_some() || http).then(|| Arc::new(loader) as _)
}

/// What a query gave.
enum Outcome {
    Results(Results),
    Plan(String),
}

/// Opens or makes the store.
fn open_store(path: Option<&PathBuf>, create: bool, options: Options) -> PyResult<Database> {
    let Some(path) = path else {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let made = pythia_store::load::load(
            Arc::clone(&storage),
            Vec::new(),
            &LoadOptions::default(),
            &Arc::default(),
        );
        made.map_err(of_load)?;
        return Database::open_storage(storage, options).map_err(|error| of_query(error, ""));
    };
    if create && pythia::check_store(path).is_err() {
        pythia::load(path, Vec::new(), &LoadOptions::default(), &Arc::default())
            .map_err(of_load)?;
    }
    Database::open_with(path, options).map_err(|error| of_query(error, ""))
}

#[pymethods]
impl LocalDatabase {
    #[new]
    #[pyo3(signature = (path, *, create, read_only, cache, memory, threads, timeout, spill_folder, spill_limit))]
    #[expect(clippy::too_many_arguments, reason = "options with names")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        create: bool,
        read_only: bool,
        cache: Option<usize>,
        memory: Option<usize>,
        threads: Option<usize>,
        timeout: Option<f64>,
        spill_folder: Option<PathBuf>,
        spill_limit: Option<u64>,
    ) -> PyResult<Self> {
        let mut options = Options {
            spill_folder,
            threads: threads.and_then(NonZero::new),
            write: (!read_only).then(WriteOptions::default),
            ..Options::default()
        };
        options.cache_bytes = cache.unwrap_or(options.cache_bytes);
        options.memory_bytes = memory.unwrap_or(options.memory_bytes);
        options.spill_bytes = spill_limit.unwrap_or(options.spill_bytes);
        let database = py.detach(|| open_store(path.as_ref(), create, options))?;
        Ok(Self {
            database: Mutex::new(Some(Arc::new(database))),
            scope: Scope::new(),
            path,
            read_only,
            timeout: timeout.map(time).transpose()?,
        })
    }

    /// The folder of the store; None in memory.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// True if the database is open for reading only.
    #[getter]
    fn read_only(&self) -> bool {
        self.read_only
    }

    /// True once the database is closed.
    #[getter]
    fn closed(&self) -> bool {
        !self.scope.is_open()
    }

    /// Closes the database. Its results and transactions cannot be used afterwards.
    fn close(&self, py: Python<'_>) {
        self.scope.end();
        let database = lock(&self.database).take();
        // Ends threads of the store, which may want the interpreter's lock to read a file of Python.
        py.detach(|| drop(database));
    }

    /// Runs a query.
    #[pyo3(signature = (text, bindings, settings))]
    fn _query(
        &self,
        py: Python<'_>,
        text: String,
        bindings: Option<&Bound<'_, PyDict>>,
        settings: Settings,
    ) -> PyResult<Py<PyAny>> {
        self.run(py, text, bindings, &settings, None)
    }

    /// Returns the plan of a query.
    #[pyo3(signature = (text, bindings, settings, analyze, json))]
    fn _explain(
        &self,
        py: Python<'_>,
        text: String,
        bindings: Option<&Bound<'_, PyDict>>,
        settings: Settings,
        analyze: bool,
        json: bool,
    ) -> PyResult<Py<PyAny>> {
        self.run(py, text, bindings, &settings, Some((analyze, json)))
    }

    /// Runs an update; returns the position of its commit, and the numbers of quads added and removed.
    #[pyo3(signature = (text, settings, key, load_folder, load_http))]
    fn _update(
        &self,
        py: Python<'_>,
        text: String,
        settings: Settings,
        key: Option<String>,
        load_folder: Option<PathBuf>,
        load_http: bool,
    ) -> PyResult<(Option<u64>, u64, u64)> {
        let database = self.open()?;
        let (query, cancel) = settings.query(self.timeout)?;
        let options = UpdateOptions {
            query,
            load: loader(load_folder, load_http),
            ..UpdateOptions::default()
        };
        let base = settings.base.as_deref();
        let dataset = settings.dataset()?;
        let report = interrupt::run(py, &cancel, || {
            let mut update = Update::parse(&text, base)?;
            if let Some((default, named)) = dataset {
                update.set_using(default, named)?;
            }
            database.update_parsed(&update, &options, key.as_deref())
        })?;
        let report = report.map_err(|error| of_query(error, &text))?;
        Ok((report.position, report.added, report.removed))
    }

    /// Loads sources; returns what was loaded, as a dictionary.
    #[pyo3(signature = (sources, lenient, memory, progress))]
    fn _load<'py>(
        &self,
        py: Python<'py>,
        sources: Vec<load::Input>,
        lenient: bool,
        memory: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        load::load(py, &*self.open()?, sources, lenient, memory, progress)
    }

    /// Returns the quads that match a pattern.
    #[pyo3(signature = (subject = None, predicate = None, object = None, graph_name = None))]
    fn quads(
        &self,
        py: Python<'_>,
        subject: Option<&Bound<'_, PyAny>>,
        predicate: Option<&Bound<'_, PyAny>>,
        object: Option<&Bound<'_, PyAny>>,
        graph_name: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Matching> {
        let snapshot = self.open()?.snapshot();
        let pattern = [subject, predicate, object];
        Matching::new(py, snapshot, self.scope.clone(), pattern, graph_name)
    }

    fn __contains__(&self, py: Python<'_>, quad: &Bound<'_, PyAny>) -> PyResult<bool> {
        let quad = quad_of(quad)?;
        let database = self.open()?;
        let found = py.detach(|| crate::matching::contains(&database.snapshot(), &quad));
        found.map_err(of_store)
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.open()?.snapshot().statistics().quads as usize)
    }

    /// The names of the named graphs.
    fn graphs(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let database = self.open()?;
        let names = py.detach(|| crate::matching::graphs(&database.snapshot()));
        let names = names.map_err(of_store)?;
        names
            .into_iter()
            .map(|name| crate::terms::to_python(py, name))
            .collect()
    }

    /// Returns the figures of the store.
    fn _stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let database = self.open()?;
        let figures = PyDict::new(py);
        let snapshot = database.snapshot();
        let statistics = snapshot.statistics();
        figures.set_item("quads", statistics.quads)?;
        figures.set_item("subjects", statistics.subjects)?;
        figures.set_item("objects", statistics.objects)?;
        figures.set_item(
            "named_graphs",
            crate::matching::graphs(&snapshot).map_err(of_store)?.len(),
        )?;
        let ids: Vec<_> = statistics
            .predicates
            .iter()
            .map(|each| each.predicate)
            .collect();
        let terms = snapshot.decode(&ids).map_err(of_store)?;
        let predicates = PyDict::new(py);
        for (term, predicate) in terms.into_iter().zip(&statistics.predicates) {
            predicates.set_item(crate::terms::to_python(py, term)?, predicate.quads)?;
        }
        figures.set_item("predicates", predicates)?;
        figures.set_item("position", database.store().position().0)?;
        Ok(figures)
    }

    /// Writes a new base with all changes.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        let database = self.open()?;
        py.detach(|| database.store().compact())
            .map(drop)
            .map_err(of_store)
    }

    /// Builds optional indexes, or drops them.
    fn _optimize(
        &self,
        py: Python<'_>,
        reachability: Vec<String>,
        attributes: Vec<(String, Vec<String>)>,
        degrees: bool,
        drop: bool,
    ) -> PyResult<()> {
        let database = self.open()?;
        let attributes = attributes
            .into_iter()
            .map(|(predicate, along)| CachedAttribute { predicate, along });
        let named = Auxiliary {
            reachability,
            attributes: attributes.collect(),
            degrees,
        };
        py.detach(|| match drop {
            true => database.drop_auxiliary(&named).map(|_| ()),
            false => database
                .optimize(&named, Default::default(), &Pace::new(None))
                .map(|_| ()),
        })
        .map_err(of_store)
    }

    /// Backs the store up into a folder.
    fn _backup(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let database = self.open()?;
        py.detach(|| database.backup(&folder))
            .map(drop)
            .map_err(|error| exception("StoreError", error.to_string()))
    }

    /// Writes all quads, or those of one graph.
    #[pyo3(signature = (output, format, graph))]
    fn _dump<'py>(
        &self,
        py: Python<'py>,
        output: Option<&Bound<'py, PyAny>>,
        format: Option<&str>,
        graph: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let database = self.open()?;
        let graph = graph.map(graph_of).transpose()?;
        let (mut output, format) = Output::open(output, format)?;
        let format = format_from_name(format.name()).ok_or_else(|| {
            PyValueError::new_err(format!(
                "quads are not written as {}: use nq, trig, nt or ttl",
                format.name()
            ))
        })?;
        let written = py.detach(|| {
            let (snapshot, cores) = (database.snapshot(), Arc::new(Cores::new(None)));
            match graph {
                None => pythia::dump(&snapshot, &cores, format, &mut output),
                Some(graph) => {
                    let graph: GraphName = graph;
                    pythia::dump_graph(
                        &snapshot,
                        &cores,
                        &QueryOptions::default(),
                        graph.as_ref(),
                        format,
                        &mut output,
                    )
                }
            }
        });
        output.finish(py, written.map(|_| ()).map_err(|error| of_write(error, "")))
    }

    /// Returns the commits from a position on.
    fn _commits(&self, from: u64) -> PyResult<Commits> {
        Commits::open(&*self.open()?, self.scope.clone(), from)
    }
}

/// Checks the store in a folder: returns the problems that were found.
#[pyfunction]
pub(crate) fn verify(py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
    let report = py.detach(|| pythia::verify(&path, Default::default(), &mut |_| {}));
    let report = report.map_err(of_store)?;
    Ok(report.problems.iter().map(ToString::to_string).collect())
}
