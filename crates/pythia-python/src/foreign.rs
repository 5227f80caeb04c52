//! Values of other libraries and of Python itself: terms of rdflib, decimals, dates and times.

use oxrdf::vocab::xsd;
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, Term};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyType};

use crate::terms::graph_of;

/// Returns a class of a module.
fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    module: &str,
    name: &str,
) -> PyResult<&'py Bound<'py, PyType>> {
    cell.import(py, module, name)
}

static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static DATETIME: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static DATE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static TIME: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Returns the literal of a decimal, a date or a time; `None` for values of other classes.
pub(crate) fn moment_or_decimal(value: &Bound<'_, PyAny>) -> PyResult<Option<Literal>> {
    let py = value.py();
    let iso = || -> PyResult<String> { value.call_method0("isoformat")?.extract() };
    let literal = if value.is_instance(class(py, &DECIMAL, "decimal", "Decimal")?)? {
        let text: String = value.call_method1("__format__", ("f",))?.extract()?;
        if text.contains(['N', 'I']) {
            return Err(PyValueError::new_err(
                "no xsd:decimal is infinite or not a number",
            ));
        }
        Literal::new_typed_literal(text, xsd::DECIMAL)
    } else if value.is_instance(class(py, &DATETIME, "datetime", "datetime")?)? {
        Literal::new_typed_literal(in_utc(iso()?), xsd::DATE_TIME)
    } else if value.is_instance(class(py, &DATE, "datetime", "date")?)? {
        Literal::new_typed_literal(iso()?, xsd::DATE)
    } else if value.is_instance(class(py, &TIME, "datetime", "time")?)? {
        Literal::new_typed_literal(in_utc(iso()?), xsd::TIME)
    } else {
        return Ok(None);
    };
    Ok(Some(literal))
}

/// Writes UTC as `Z`, as XSD does in its canonical form.
fn in_utc(text: String) -> String {
    match text.strip_suffix("+00:00") {
        Some(text) => format!("{text}Z"),
        None => text,
    }
}

/// Returns the value of Python's own classes that a literal stands for; `None` if there is none that is exact.
pub(crate) fn native<'py>(
    py: Python<'py>,
    literal: &Literal,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if literal.language().is_some() {
        return Ok(None);
    }
    let text = literal.value();
    let datatype = literal.datatype();
    let parsed = match datatype {
        xsd::STRING => Ok(PyString::new(py, text).into_any()),
        xsd::BOOLEAN => match text {
            "true" | "1" => Ok(PyBool::new(py, true).to_owned().into_any()),
            "false" | "0" => Ok(PyBool::new(py, false).to_owned().into_any()),
            _ => return Ok(None),
        },
        xsd::INTEGER
        | xsd::INT
        | xsd::LONG
        | xsd::SHORT
        | xsd::BYTE
        | xsd::NON_NEGATIVE_INTEGER
        | xsd::POSITIVE_INTEGER
        | xsd::NON_POSITIVE_INTEGER
        | xsd::NEGATIVE_INTEGER
        | xsd::UNSIGNED_INT
        | xsd::UNSIGNED_LONG
        | xsd::UNSIGNED_SHORT
        | xsd::UNSIGNED_BYTE => match text.parse::<i64>() {
            Ok(value) => return Ok(Some(value.into_pyobject(py)?.into_any())),
            Err(_) => py.get_type::<PyInt>().call1((text,)),
        },
        xsd::DOUBLE | xsd::FLOAT => match text {
            "INF" => Ok(PyFloat::new(py, f64::INFINITY).into_any()),
            "-INF" => Ok(PyFloat::new(py, f64::NEG_INFINITY).into_any()),
            _ => py.get_type::<PyFloat>().call1((text,)),
        },
        xsd::DECIMAL => class(py, &DECIMAL, "decimal", "Decimal")?.call1((text,)),
        xsd::DATE => from_iso(py, &DATE, "date", text),
        xsd::DATE_TIME | xsd::DATE_TIME_STAMP => from_iso(py, &DATETIME, "datetime", text),
        xsd::TIME => from_iso(py, &TIME, "time", text),
        _ => return Ok(None),
    };
    match parsed {
        Ok(value) => Ok(Some(value)),
        // Years before 1 or after 9999, a date with a time zone, a lexical form that is wrong.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyException>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

fn from_iso<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    name: &str,
    text: &str,
) -> PyResult<Bound<'py, PyAny>> {
    // Python 3.10 does not know `Z`.
    let text = match text.strip_suffix('Z') {
        Some(text) => format!("{text}+00:00"),
        None => text.to_owned(),
    };
    class(py, cell, "datetime", name)?.call_method1("fromisoformat", (text,))
}

/// Returns whether the class of an object is one of rdflib's. rdflib itself is not loaded for that.
pub(crate) fn is_rdflib(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module = object.get_type().getattr("__module__")?;
    Ok(module.cast::<PyString>().is_ok_and(|module| {
        module
            .to_str()
            .is_ok_and(|module| module == "rdflib" || module.starts_with("rdflib."))
    }))
}

/// Returns the term of an object of rdflib; `None` for other objects.
pub(crate) fn rdflib_term(object: &Bound<'_, PyAny>) -> PyResult<Option<Term>> {
    if !is_rdflib(object)? {
        return Ok(None);
    }
    let text = || -> PyResult<String> { Ok(object.str()?.to_str()?.to_owned()) };
    let name = object.get_type().name()?;
    let invalid = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    Ok(match name.to_str()? {
        "URIRef" => {
            let node = NamedNode::new(text()?).map_err(|error| invalid(&error))?;
            Some(node.into())
        }
        "BNode" => {
            let node = BlankNode::new(text()?).map_err(|error| invalid(&error))?;
            Some(node.into())
        }
        "Literal" => {
            let language: Option<String> = object.getattr("language")?.extract()?;
            let datatype = object.getattr("datatype")?;
            let literal = match language {
                Some(language) => Literal::new_language_tagged_literal(text()?, language)
                    .map_err(|error| invalid(&error))?,
                None if datatype.is_none() => text()?.into(),
                None => {
                    let datatype = datatype.str()?.to_str()?.to_owned();
                    let datatype = NamedNode::new(datatype).map_err(|error| invalid(&error))?;
                    Literal::new_typed_literal(text()?, datatype)
                }
            };
            Some(literal.into())
        }
        _ => None,
    })
}

/// Returns the graph that the fourth part of a quad names: a term, a graph of rdflib, or `None` for the default graph.
pub(crate) fn graph_or_none(object: &Bound<'_, PyAny>) -> PyResult<GraphName> {
    if object.is_none() {
        return Ok(GraphName::DefaultGraph);
    }
    if is_rdflib(object)? && object.hasattr("identifier")? {
        let identifier = object.getattr("identifier")?;
        if identifier.str()?.to_str()? == "urn:x-rdflib:default" {
            return Ok(GraphName::DefaultGraph);
        }
        return graph_of(&identifier);
    }
    graph_of(object)
}
