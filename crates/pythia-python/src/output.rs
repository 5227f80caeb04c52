//! Where results are written: a file with a path, a file of Python, or bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pythia::ResultFormat;

use crate::errors::of_io;
use crate::solutions::result_format;

/// An open output.
pub(crate) enum Output {
    File(BufWriter<File>, PathBuf),
    Python(BufWriter<PythonFile>),
    Bytes(Vec<u8>),
}

impl Output {
    /// Opens an output. Without a format, the name of the file tells it.
    pub(crate) fn open(
        output: Option<&Bound<'_, PyAny>>,
        format: Option<&str>,
    ) -> PyResult<(Self, ResultFormat)> {
        let given = format.map(result_format).transpose()?;
        let needed = || PyValueError::new_err("a format is needed, for example format='json'");
        let Some(output) = output.filter(|output| !output.is_none()) else {
            return Ok((Self::Bytes(Vec::new()), given.ok_or_else(needed)?));
        };
        if let Ok(path) = output.extract::<PathBuf>() {
            let by_name = || ResultFormat::of_file(&path);
            let format = given.or_else(by_name).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "the name {} does not tell a format; give format=",
                    path.display()
                ))
            })?;
            let file = File::create(&path);
            let file = file
                .map_err(|error| of_io(error_of(&error), format!("{}: {error}", path.display())))?;
            return Ok((
                Self::File(BufWriter::with_capacity(1 << 16, file), path),
                format,
            ));
        }
        Ok((Self::of_file(output)?, given.ok_or_else(needed)?))
    }

    /// Returns the output into an open file of Python.
    pub(crate) fn of_file(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !file.hasattr("write")? {
            let class = file.get_type();
            return Err(PyTypeError::new_err(format!(
                "a {class} is no path and no file to write to"
            )));
        }
        let file = PythonFile(file.clone().unbind());
        Ok(Self::Python(BufWriter::with_capacity(1 << 18, file)))
    }

    /// Ends the output; returns the bytes if it is in memory. A file that is not whole is removed.
    pub(crate) fn finish<'py>(
        self,
        py: Python<'py>,
        written: PyResult<()>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Self::Bytes(bytes) => {
                written?;
                Ok(Some(PyBytes::new(py, &bytes).into_any()))
            }
            Self::Python(mut out) => {
                written?;
                out.flush().map_err(|error| {
                    let message = error.to_string();
                    of_io(error, message)
                })?;
                Ok(None)
            }
            Self::File(mut out, path) => {
                let whole = written.and_then(|()| {
                    out.flush().map_err(|error| {
                        of_io(error_of(&error), format!("{}: {error}", path.display()))
                    })
                });
                if whole.is_err() {
                    let _ = std::fs::remove_file(&path);
                }
                whole.map(|()| None)
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(out, _) => out.write(bytes),
            Self::Python(out) => out.write(bytes),
            Self::Bytes(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(out, _) => out.flush(),
            Self::Python(out) => out.flush(),
            Self::Bytes(_) => Ok(()),
        }
    }
}

/// Returns an error of the same kind.
fn error_of(error: &io::Error) -> io::Error {
    error.kind().into()
}

/// A file of Python that takes bytes.
pub(crate) struct PythonFile(Py<PyAny>);

impl Write for PythonFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let written = self
                .0
                .call_method1(py, "write", (PyBytes::new(py, bytes),))?;
            // Some files return nothing, and take everything.
            Ok(written.extract::<usize>(py).unwrap_or(bytes.len()))
        })
        .map_err(|error: PyErr| io::Error::other(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Python::attach(|py| {
            if self.0.bind(py).hasattr("flush")? {
                self.0.call_method0(py, "flush")?;
            }
            Ok(())
        })
        .map_err(|error: PyErr| io::Error::other(error))
    }
}
