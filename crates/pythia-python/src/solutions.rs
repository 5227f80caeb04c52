//! Results of queries: solutions, read row by row, and triples.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow::record_batch::{RecordBatch, RecordBatchIterator};
use oxrdf::Term;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};
use pythia::{ResultFormat, Results, SolutionBatch, SolutionStream, TripleStream, Variable};

use crate::errors::{closed, of_query, of_write};
use crate::foreign::native;
use crate::interrupt;
use crate::output::Output;
use crate::scope::Scope;
use crate::terms::{PyTriple, PyVariable, to_python};

/// What the results of one query share.
pub(crate) struct Source {
    pub(crate) scope: Scope,
    pub(crate) cancel: Arc<AtomicBool>,
    /// The query, for messages.
    pub(crate) text: String,
    /// Gives values of Python's own classes where there are any.
    pub(crate) native: bool,
}

/// Returns the Python object of the results of a query: solutions, triples or a boolean.
pub(crate) fn results(py: Python<'_>, results: Results, source: Source) -> PyResult<Py<PyAny>> {
    Ok(match results {
        Results::Boolean(value) => value.into_pyobject(py)?.to_owned().into_any().unbind(),
        Results::Solutions(stream) => Py::new(py, Solutions::new(stream, source))?.into_any(),
        Results::Graph(stream) => Py::new(py, Triples::new(stream, source))?.into_any(),
    })
}

/// Locks a state that no code panics with.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The solutions of a SELECT or PATHS query: an iterator of rows, which are computed as they are read.
#[pyclass(frozen, name = "Solutions", module = "pythiadb")]
pub(crate) struct Solutions {
    variables: Arc<Vec<Variable>>,
    source: Source,
    /// `None` once it is closed or read.
    state: Mutex<Option<Reading>>,
}

struct Reading {
    stream: SolutionStream,
    batch: Option<Arc<SolutionBatch>>,
    next: usize,
}

impl Solutions {
    fn new(stream: SolutionStream, source: Source) -> Self {
        Self {
            variables: Arc::new(stream.variables().to_vec()),
            source,
            state: Mutex::new(Some(Reading {
                stream,
                batch: None,
                next: 0,
            })),
        }
    }

    /// Returns the next rows of a batch, at most this many; `None` at the end.
    fn rows(
        &self,
        py: Python<'_>,
        most: usize,
    ) -> PyResult<Option<(Arc<SolutionBatch>, std::ops::Range<usize>)>> {
        self.source.scope.check()?;
        let mut state = lock(&self.state);
        let Some(reading) = &mut *state else {
            return Ok(None);
        };
        while reading
            .batch
            .as_ref()
            .is_none_or(|batch| reading.next >= batch.len())
        {
            let stream = &mut reading.stream;
            let next = interrupt::run(py, &self.source.cancel, || stream.next_batch());
            match next.map(|batch| batch.map_err(|error| of_query(error, &self.source.text))) {
                Ok(Ok(Some(batch))) => {
                    reading.batch = Some(Arc::new(batch));
                    reading.next = 0;
                }
                Ok(Ok(None)) => {
                    *state = None;
                    return Ok(None);
                }
                Ok(Err(error)) | Err(error) => {
                    *state = None;
                    return Err(error);
                }
            }
        }
        let batch = Arc::clone(reading.batch.as_ref().expect("there is one by now"));
        let end = batch.len().min(reading.next.saturating_add(most));
        let rows = reading.next..end;
        reading.next = end;
        Ok(Some((batch, rows)))
    }

    fn row(&self, batch: &Arc<SolutionBatch>, row: usize) -> Solution {
        Solution {
            variables: Arc::clone(&self.variables),
            batch: Arc::clone(batch),
            row,
            native: self.source.native,
        }
    }

    fn fetch(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Solution>> {
        let mut fetched = Vec::new();
        while fetched.len() < most {
            let Some((batch, rows)) = self.rows(py, most - fetched.len())? else {
                break;
            };
            fetched.extend(rows.map(|row| self.row(&batch, row)));
        }
        Ok(fetched)
    }

    /// Takes the solutions, of which none may have been read.
    fn take(&self) -> PyResult<SolutionStream> {
        self.source.scope.check()?;
        let mut state = lock(&self.state);
        match &*state {
            Some(reading) if reading.batch.is_some() => {
                let message = "some solutions have been read already; run the query again";
                Err(crate::errors::exception("QueryError", message))
            }
            Some(_) => Ok(state.take().expect("it is there").stream),
            None => Err(closed("result")),
        }
    }
}

#[pymethods]
impl Solutions {
    /// The variables, in the order of the columns.
    #[getter]
    fn variables(&self) -> Vec<PyVariable> {
        self.variables.iter().cloned().map(PyVariable).collect()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.variables
            .iter()
            .map(|variable| variable.as_str().to_owned())
            .collect()
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Solution>> {
        Ok(self
            .rows(py, 1)?
            .map(|(batch, rows)| self.row(&batch, rows.start)))
    }

    /// Returns the next row, or None at the end.
    fn fetchone(&self, py: Python<'_>) -> PyResult<Option<Solution>> {
        self.__next__(py)
    }

    /// Returns a list of the next rows, at most `size`.
    fn fetchmany(&self, py: Python<'_>, size: usize) -> PyResult<Vec<Solution>> {
        self.fetch(py, size)
    }

    /// Returns a list of all rows that were not read yet.
    fn fetchall(&self, py: Python<'_>) -> PyResult<Vec<Solution>> {
        self.fetch(py, usize::MAX)
    }

    /// Stops the query, from another thread than the one that reads: that one gets CancelledError.
    fn cancel(&self) {
        self.source.cancel.store(true, Ordering::Relaxed);
    }

    /// Frees the result. Iterating further finds no rows.
    fn close(&self) {
        *lock(&self.state) = None;
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    /// Writes all solutions to a file, a path or bytes.
    #[pyo3(signature = (output = None, format = None))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        output: Option<&Bound<'py, PyAny>>,
        format: Option<&str>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (mut output, format) = Output::open(output, format)?;
        let stream = self.take()?;
        let written = interrupt::run(py, &self.source.cancel, || {
            pythia::write_results(Results::Solutions(stream), format, &mut output)
        })?;
        output.finish(
            py,
            written
                .map(|_| ())
                .map_err(|error| of_write(error, &self.source.text)),
        )
    }

    /// Returns all solutions as a stream of Arrow, which pandas, polars, DuckDB and pyarrow read without a copy.
    fn to_arrow(&self, py: Python<'_>) -> PyResult<ArrowStream> {
        let stream = self.take()?;
        let made = interrupt::run(py, &self.source.cancel, || pythia::record_batches(stream))?;
        let (schema, batches) = made.map_err(|error| of_write(error, &self.source.text))?;
        Ok(ArrowStream {
            columns: schema
                .fields()
                .iter()
                .map(|field| field.name().clone())
                .collect(),
            batches: Mutex::new(Some((schema, batches))),
        })
    }

    /// Returns all solutions as a DataFrame of pandas, through pyarrow.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let table = py
            .import("pyarrow")?
            .call_method1("table", (self.to_arrow(py)?,))?;
        table.call_method0("to_pandas")
    }

    /// Returns all solutions as a DataFrame of polars.
    fn to_polars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("polars")?
            .call_method1("DataFrame", (self.to_arrow(py)?,))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.to_arrow(py)?.__arrow_c_stream__(py, requested_schema)
    }

    fn __repr__(&self) -> String {
        format!("<Solutions of {}>", self.columns().join(", "))
    }
}

/// Columns of Arrow in memory, for other libraries.
#[pyclass(frozen, name = "ArrowStream", module = "pythiadb")]
pub(crate) struct ArrowStream {
    columns: Vec<String>,
    batches: Mutex<Option<(arrow::datatypes::SchemaRef, Vec<RecordBatch>)>>,
}

#[pymethods]
impl ArrowStream {
    /// Gives the columns to a reader, once.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the wish.
        let _ = requested_schema;
        let (schema, batches) = lock(&self.batches).take().ok_or_else(|| closed("stream"))?;
        let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        format!("<ArrowStream of {}>", self.columns.join(", "))
    }
}

/// One solution: a row of terms, by place and by name.
#[pyclass(frozen, sequence, name = "Solution", module = "pythiadb")]
pub(crate) struct Solution {
    variables: Arc<Vec<Variable>>,
    batch: Arc<SolutionBatch>,
    row: usize,
    native: bool,
}

impl Solution {
    fn value(&self, py: Python<'_>, column: usize) -> PyResult<Py<PyAny>> {
        match self.batch.term(self.row, column) {
            None => Ok(py.None()),
            Some(Term::Literal(literal)) if self.native => match native(py, literal)? {
                Some(value) => Ok(value.unbind()),
                None => to_python(py, literal.clone().into()),
            },
            Some(term) => to_python(py, term.clone()),
        }
    }

    fn column(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        let count = self.variables.len();
        if let Ok(place) = key.extract::<isize>() {
            let at = if place < 0 {
                place + count as isize
            } else {
                place
            };
            return usize::try_from(at)
                .ok()
                .filter(|at| *at < count)
                .ok_or_else(|| {
                    PyIndexError::new_err(format!("a row of {count} terms has no place {place}"))
                });
        }
        let name = match key.cast::<PyVariable>() {
            Ok(variable) => variable.get().0.as_str().to_owned(),
            Err(_) => key
                .extract::<String>()
                .map_err(|_| PyTypeError::new_err("a column is an int, a str or a Variable"))?,
        };
        let name = name.strip_prefix('?').unwrap_or(&name);
        let found = self
            .variables
            .iter()
            .position(|variable| variable.as_str() == name);
        found.ok_or_else(|| PyKeyError::new_err(format!("there is no variable ?{name}")))
    }
}

#[pymethods]
impl Solution {
    fn __len__(&self) -> usize {
        self.variables.len()
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.value(py, self.column(key)?)
    }

    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let found = self
            .variables
            .iter()
            .position(|variable| variable.as_str() == name);
        match found {
            Some(column) => self.value(py, column),
            None => Err(pyo3::exceptions::PyAttributeError::new_err(format!(
                "there is no variable ?{name}"
            ))),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.values(py)?.try_iter()?.into_any())
    }

    /// Returns the term of a variable, or `default` if it is unbound or there is no such variable.
    #[pyo3(signature = (key, default = None))]
    fn get(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let default = default.unwrap_or_else(|| py.None());
        match self.column(key) {
            Ok(column) if self.batch.term(self.row, column).is_some() => self.value(py, column),
            _ => Ok(default),
        }
    }

    /// The names of the variables.
    fn keys(&self) -> Vec<String> {
        self.variables
            .iter()
            .map(|variable| variable.as_str().to_owned())
            .collect()
    }

    /// The terms, with None for unbound variables.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let values = (0..self.variables.len()).map(|column| self.value(py, column));
        PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the row as a dictionary, without unbound variables.
    fn asdict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (column, variable) in self.variables.iter().enumerate() {
            if self.batch.term(self.row, column).is_some() {
                dict.set_item(variable.as_str(), self.value(py, column)?)?;
            }
        }
        Ok(dict)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        match other.cast::<Self>() {
            Ok(other) if other.get().variables == self.variables => {
                self.values(py)?.eq(other.get().values(py)?)
            }
            _ => Ok(false),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.values(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut shown = String::from("<Solution");
        for (column, variable) in self.variables.iter().enumerate() {
            let value = self.value(py, column)?;
            shown.push_str(&format!(
                " {}={}",
                variable.as_str(),
                value.bind(py).repr()?
            ));
        }
        shown.push('>');
        Ok(shown)
    }
}

/// The triples of a CONSTRUCT or DESCRIBE query: an iterator.
#[pyclass(frozen, name = "Triples", module = "pythiadb")]
pub(crate) struct Triples {
    source: Source,
    state: Mutex<Option<TripleStream>>,
}

impl Triples {
    fn new(stream: TripleStream, source: Source) -> Self {
        Self {
            source,
            state: Mutex::new(Some(stream)),
        }
    }
}

#[pymethods]
impl Triples {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyTriple>> {
        self.source.scope.check()?;
        let mut state = lock(&self.state);
        let Some(stream) = &mut *state else {
            return Ok(None);
        };
        let next = interrupt::run(py, &self.source.cancel, || stream.next_triple());
        match next.and_then(|next| next.map_err(|error| of_query(error, &self.source.text))) {
            Ok(Some(triple)) => Ok(Some(PyTriple(triple))),
            Ok(None) => {
                *state = None;
                Ok(None)
            }
            Err(error) => {
                *state = None;
                Err(error)
            }
        }
    }

    /// Returns a list of all triples that were not read yet.
    fn fetchall<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(slf.py());
        while let Some(triple) = slf.get().__next__(slf.py())? {
            list.append(triple)?;
        }
        Ok(list)
    }

    /// Stops the query, from another thread than the one that reads: that one gets CancelledError.
    fn cancel(&self) {
        self.source.cancel.store(true, Ordering::Relaxed);
    }

    /// Frees the result.
    fn close(&self) {
        *lock(&self.state) = None;
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    /// Writes all triples to a file, a path or bytes.
    #[pyo3(signature = (output = None, format = None))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        output: Option<&Bound<'py, PyAny>>,
        format: Option<&str>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.source.scope.check()?;
        let (mut output, format) = Output::open(output, format)?;
        let stream = lock(&self.state).take().ok_or_else(|| closed("result"))?;
        let written = interrupt::run(py, &self.source.cancel, || {
            pythia::write_results(Results::Graph(stream), format, &mut output)
        })?;
        output.finish(
            py,
            written
                .map(|_| ())
                .map_err(|error| of_write(error, &self.source.text)),
        )
    }

    fn __repr__(&self) -> &'static str {
        "<Triples>"
    }
}

/// Reads results to their end.
pub(crate) fn write_nothing(results: Results) -> Result<(), pythia::QueryError> {
    let format = match results {
        Results::Graph(_) => ResultFormat::NTriples,
        Results::Boolean(_) | Results::Solutions(_) => ResultFormat::Tsv,
    };
    match pythia::write_results(results, format, std::io::sink()) {
        Ok(_) => Ok(()),
        Err(pythia::WriteError::Query(error) | pythia::WriteError::Cut { error, .. }) => Err(error),
        Err(error) => Err(pythia::QueryError::Execution(error.to_string())),
    }
}

/// Returns the format of results with a name, an extension or a media type.
pub(crate) fn result_format(name: &str) -> PyResult<ResultFormat> {
    let path = format!("results.{}", name.trim_start_matches('.'));
    let by_extension = || ResultFormat::of_file(std::path::Path::new(&path));
    ResultFormat::named(name).or_else(by_extension).ok_or_else(|| {
        pyo3::exceptions::PyValueError::new_err(format!(
            "{name} is no format: one of json, xml, csv, tsv, arrow, parquet, nt, nq, ttl, trig, rdf, jsonld"
        ))
    })
}
