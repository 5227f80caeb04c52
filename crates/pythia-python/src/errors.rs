//! Errors as Python's exceptions, whose classes are in `pythiadb/errors.py`.

use std::io;

use pyo3::exceptions::{PyFileNotFoundError, PyOSError};
use pyo3::prelude::*;
use pythia::{LoadError, QueryError, StoreError, WriteError};
use pythia_rdf::ParseError;

/// Returns an exception of one of our classes.
pub(crate) fn exception(name: &str, arguments: impl PyErrArguments) -> PyErr {
    Python::attach(|py| {
        let class = py
            .import("pythiadb.errors")
            .and_then(|module| module.getattr(name));
        match class {
            Ok(class) => match class.cast_into::<pyo3::types::PyType>() {
                Ok(class) => PyErr::from_type(class, arguments.arguments(py)),
                Err(error) => error.into(),
            },
            Err(error) => error,
        }
    })
}

pub(crate) use pyo3::PyErrArguments;

/// Returns the exception of the use of something that is closed.
pub(crate) fn closed(what: &str) -> PyErr {
    exception("ClosedError", format!("the {what} is closed"))
}

/// Returns the exception of a query or update with this text.
pub(crate) fn of_query(error: QueryError, text: &str) -> PyErr {
    if let QueryError::Syntax {
        line,
        column,
        message,
    } = &error
    {
        let source = text
            .split('\n')
            .nth(line - 1)
            .unwrap_or_default()
            .to_owned();
        let place = (None::<String>, *line, *column, source);
        return exception("QuerySyntaxError", (message.clone(), place));
    }
    let message = error.to_string();
    match error {
        _ if error.is_retryable() => exception("ConflictError", message),
        QueryError::Timeout => {
            let message =
                "the query took longer than its timeout; raise timeout or make the query cheaper";
            exception("TimeoutError", message)
        }
        QueryError::Cancelled => exception("CancelledError", message),
        QueryError::Memory(_)
        | QueryError::RowLimit(_)
        | QueryError::Changes(_)
        | QueryError::Spill { .. } => exception("LimitError", message),
        QueryError::Store(error) => of_store(error),
        _ => exception("QueryError", message),
    }
}

/// Returns the exception of a store.
pub(crate) fn of_store(error: StoreError) -> PyErr {
    let message = error.to_string();
    match &error {
        error if error.is_retryable() => exception("ConflictError", message),
        StoreError::ReadOnly => {
            let message = "the database is open for reading: open it with read_only=False";
            exception("ReadOnlyError", message)
        }
        StoreError::Writing { .. } | StoreError::Locked { .. } => exception("LockedError", message),
        StoreError::NotAStore { .. } => exception("NotAStoreError", message),
        StoreError::Corrupt { .. } => exception("CorruptionError", message),
        StoreError::Io(error) if error.is_corruption() => exception("CorruptionError", message),
        _ => exception("StoreError", message),
    }
}

/// Returns the exception of a load.
pub(crate) fn of_load(error: LoadError) -> PyErr {
    match error {
        LoadError::Parse(error) => of_parse(error),
        LoadError::Store(error) => of_store(error),
        error => exception("LoadError", error.to_string()),
    }
}

/// Returns the exception of a source of RDF.
pub(crate) fn of_parse(error: ParseError) -> PyErr {
    let message = error.to_string();
    match error {
        ParseError::Syntax(problem) => {
            let place = (problem.source, problem.line, problem.column, None::<String>);
            exception("ParseError", (problem.message, place))
        }
        ParseError::Io { error, .. } => of_io(error, message),
        ParseError::Format { message, .. } => {
            let message = message.replace(
                "name it, for example --format nt",
                "give format='nt', for example",
            );
            exception("LoadError", message)
        }
        ParseError::Sink(error) => match error.downcast::<PyErrorInside>() {
            Ok(PyErrorInside(error)) => error,
            Err(error) => exception("LoadError", error.to_string()),
        },
        _ => exception("LoadError", message),
    }
}

/// Returns the exception of an operation on a file. One that Python code has raised comes back as it was.
pub(crate) fn of_io(error: io::Error, message: String) -> PyErr {
    if error.get_ref().is_some_and(|inner| inner.is::<PyErr>()) {
        let inner = error.into_inner().expect("it has an inner error");
        return *inner.downcast::<PyErr>().expect("it is Python's");
    }
    match error.kind() {
        io::ErrorKind::NotFound => PyFileNotFoundError::new_err(message),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            exception("LoadError", message)
        }
        _ => PyOSError::new_err(message),
    }
}

/// Returns the exception of results that cannot be written.
pub(crate) fn of_write(error: WriteError, text: &str) -> PyErr {
    match error {
        WriteError::Query(error) => of_query(error, text),
        WriteError::Io(error) => {
            let message = error.to_string();
            of_io(error, message)
        }
        error => exception("QueryError", error.to_string()),
    }
}

/// An exception that Python code has raised inside a parse.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PyErrorInside(pub(crate) PyErr);
