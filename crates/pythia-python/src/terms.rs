//! RDF terms as Python objects. Their classes have the names, attributes and behaviour of pyoxigraph's.

use std::hash::{DefaultHasher, Hash, Hasher};

use oxrdf::{
    BaseDirection, BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term, Triple,
    Variable,
};
use pyo3::PyClass;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};

use crate::foreign;

/// Compares values of one class; those of others are unequal, and have no order.
fn compare<T: PartialOrd + PyClass>(
    own: &T,
    other: &Bound<'_, PyAny>,
    operation: CompareOp,
) -> PyResult<bool> {
    match (other.cast::<T>(), operation) {
        (Ok(other), _) => Ok(own
            .partial_cmp(&*other.borrow())
            .is_some_and(|order| operation.matches(order))),
        (Err(_), CompareOp::Eq) => Ok(false),
        (Err(_), CompareOp::Ne) => Ok(true),
        (Err(_), _) => Err(PyTypeError::new_err(
            "terms of different classes have no order",
        )),
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn invalid(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An IRI.
///
/// >>> NamedNode('http://example.com')
/// <NamedNode value=http://example.com>
/// >>> str(NamedNode('http://example.com'))
/// '<http://example.com>'
#[pyclass(frozen, name = "NamedNode", module = "pythiadb", from_py_object)]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PyNamedNode(pub(crate) NamedNode);

#[pymethods]
impl PyNamedNode {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH: (&'static str,) = ("value",);

    #[new]
    fn new(value: String) -> PyResult<Self> {
        NamedNode::new(value).map(Self).map_err(invalid)
    }

    /// The IRI.
    #[getter]
    fn value(&self) -> &str {
        self.0.as_str()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<NamedNode value={}>", self.0.as_str())
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, operation: CompareOp) -> PyResult<bool> {
        compare(self, other, operation)
    }

    fn __getnewargs__(&self) -> (&str,) {
        (self.0.as_str(),)
    }

    fn __copy__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __deepcopy__<'a>(slf: PyRef<'a, Self>, _memo: &Bound<'_, PyAny>) -> PyRef<'a, Self> {
        slf
    }
}

/// A blank node. Without a label it gets a new one.
///
/// >>> BlankNode('ex')
/// <BlankNode value=ex>
#[pyclass(frozen, name = "BlankNode", module = "pythiadb", from_py_object)]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PyBlankNode(pub(crate) BlankNodeLabel);

/// A blank node with an order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlankNodeLabel(String);

impl PyBlankNode {
    pub(crate) fn of(node: &BlankNode) -> Self {
        Self(BlankNodeLabel(node.as_str().to_owned()))
    }

    pub(crate) fn node(&self) -> BlankNode {
        BlankNode::new_unchecked(self.0.0.clone())
    }
}

#[pymethods]
impl PyBlankNode {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH: (&'static str,) = ("value",);

    #[new]
    #[pyo3(signature = (value = None))]
    fn new(value: Option<String>) -> PyResult<Self> {
        let node = match value {
            Some(label) => BlankNode::new(label).map_err(invalid)?,
            None => BlankNode::default(),
        };
        Ok(Self::of(&node))
    }

    /// The label.
    #[getter]
    fn value(&self) -> &str {
        &self.0.0
    }

    fn __str__(&self) -> String {
        format!("_:{}", self.0.0)
    }

    fn __repr__(&self) -> String {
        format!("<BlankNode value={}>", self.0.0)
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, operation: CompareOp) -> PyResult<bool> {
        compare(self, other, operation)
    }

    fn __getnewargs__(&self) -> (&str,) {
        (&self.0.0,)
    }

    fn __copy__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __deepcopy__<'a>(slf: PyRef<'a, Self>, _memo: &Bound<'_, PyAny>) -> PyRef<'a, Self> {
        slf
    }
}

/// The direction of a text with a language.
///
/// >>> BaseDirection('ltr')
/// <BaseDirection ltr>
#[pyclass(
    frozen,
    eq,
    hash,
    name = "BaseDirection",
    module = "pythiadb",
    from_py_object
)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyBaseDirection(BaseDirection);

#[pymethods]
impl PyBaseDirection {
    /// From left to right.
    #[classattr]
    const LTR: Self = Self(BaseDirection::Ltr);
    /// From right to left.
    #[classattr]
    const RTL: Self = Self(BaseDirection::Rtl);
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH: (&'static str,) = ("value",);

    #[new]
    fn new(value: &str) -> PyResult<Self> {
        match value {
            "ltr" => Ok(Self::LTR),
            "rtl" => Ok(Self::RTL),
            _ => Err(PyValueError::new_err("a direction is 'ltr' or 'rtl'")),
        }
    }

    /// 'ltr' or 'rtl'.
    #[getter]
    fn value(&self) -> &'static str {
        match self.0 {
            BaseDirection::Ltr => "ltr",
            BaseDirection::Rtl => "rtl",
        }
    }

    fn __str__(&self) -> &'static str {
        self.value()
    }

    fn __repr__(&self) -> String {
        format!("<BaseDirection {}>", self.value())
    }

    fn __getnewargs__(&self) -> (&'static str,) {
        (self.value(),)
    }

    fn __copy__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __deepcopy__<'a>(slf: PyRef<'a, Self>, _memo: &Bound<'_, PyAny>) -> PyRef<'a, Self> {
        slf
    }
}

/// A literal: a value with a datatype, or with a language. Numbers, booleans, dates and times of Python get the datatype of
/// XSD that fits.
///
/// >>> Literal('Zeus', language='en')
/// <Literal value=Zeus language=en>
/// >>> Literal(11)
/// <Literal value=11 datatype=<NamedNode value=http://www.w3.org/2001/XMLSchema#integer>>
#[pyclass(frozen, name = "Literal", module = "pythiadb", from_py_object)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PyLiteral(pub(crate) Literal);

impl PartialOrd for PyLiteral {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        let key = |literal: &Self| {
            let literal = &literal.0;
            let language = literal.language().map(str::to_owned);
            (
                literal.value().to_owned(),
                literal.datatype().as_str().to_owned(),
                language,
            )
        };
        match self == other {
            true => Some(std::cmp::Ordering::Equal),
            // Literals that differ only in direction have an order too.
            false => Some(key(self).cmp(&key(other)).then(std::cmp::Ordering::Less)),
        }
    }
}

#[pymethods]
impl PyLiteral {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH: (&'static str,) = ("value",);

    #[new]
    #[pyo3(signature = (value, *, datatype = None, language = None, direction = None))]
    fn new(
        value: &Bound<'_, PyAny>,
        datatype: Option<PyNamedNode>,
        language: Option<String>,
        direction: Option<PyBaseDirection>,
    ) -> PyResult<Self> {
        if let Some(language) = language {
            let value = text_of(value)?;
            let literal = match direction {
                None => Literal::new_language_tagged_literal(value, language),
                Some(direction) => {
                    Literal::new_directional_language_tagged_literal(value, language, direction.0)
                }
            };
            let literal = literal.map_err(invalid)?;
            return match datatype {
                Some(datatype) if datatype.0 != literal.datatype() => {
                    Err(PyValueError::new_err(format!(
                        "a text with a language has the datatype {}",
                        literal.datatype()
                    )))
                }
                _ => Ok(Self(literal)),
            };
        }
        if direction.is_some() {
            return Err(PyValueError::new_err("a direction needs a language"));
        }
        match datatype {
            Some(datatype) => {
                let value = text_of(value)?;
                Ok(Self(Literal::new_typed_literal(value, datatype.0)))
            }
            None => literal_of_native(value)?.map(Self).ok_or_else(|| {
                let class = value.get_type();
                PyTypeError::new_err(format!("no literal has the value of a {class}"))
            }),
        }
    }

    /// The lexical form.
    #[getter]
    fn value(&self) -> &str {
        self.0.value()
    }

    /// The language, or None.
    #[getter]
    fn language(&self) -> Option<&str> {
        self.0.language()
    }

    /// The direction of a text with a language, or None.
    #[getter]
    fn direction(&self) -> Option<PyBaseDirection> {
        self.0.direction().map(PyBaseDirection)
    }

    /// The datatype.
    #[getter]
    fn datatype(&self) -> PyNamedNode {
        PyNamedNode(self.0.datatype().into_owned())
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        let value = self.0.value();
        match (self.0.language(), self.0.direction()) {
            (Some(language), None) => format!("<Literal value={value} language={language}>"),
            (Some(language), Some(direction)) => {
                format!("<Literal value={value} language={language} direction={direction}>")
            }
            (None, _) => {
                let datatype = self.0.datatype().as_str();
                format!("<Literal value={value} datatype=<NamedNode value={datatype}>>")
            }
        }
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, operation: CompareOp) -> PyResult<bool> {
        compare(self, other, operation)
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let named = pyo3::types::PyDict::new(py);
        match self.0.language() {
            Some(language) => {
                named.set_item("language", language)?;
                if let Some(direction) = self.direction() {
                    named.set_item("direction", direction)?;
                }
            }
            None => named.set_item("datatype", self.datatype())?,
        }
        ((self.0.value(),), named).into_pyobject(py)
    }

    fn __copy__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __deepcopy__<'a>(slf: PyRef<'a, Self>, _memo: &Bound<'_, PyAny>) -> PyRef<'a, Self> {
        slf
    }
}

fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.to_owned()),
        Err(_) => match literal_of_native(value)? {
            Some(literal) => Ok(literal.value().to_owned()),
            None => Ok(value.str()?.to_str()?.to_owned()),
        },
    }
}

/// Returns the literal of a value of Python's own classes; `None` for other classes.
pub(crate) fn literal_of_native(value: &Bound<'_, PyAny>) -> PyResult<Option<Literal>> {
    // A boolean is an integer in Python.
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Some(value.is_true().into()));
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        return Ok(Some(text.to_str()?.into()));
    }
    if value.is_instance_of::<PyInt>() {
        let digits = value.str()?.to_str()?.to_owned();
        return Ok(Some(Literal::new_typed_literal(
            digits,
            oxrdf::vocab::xsd::INTEGER,
        )));
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(Some(value.extract::<f64>()?.into()));
    }
    if let Some(literal) = foreign::moment_or_decimal(value)? {
        return Ok(Some(literal));
    }
    // A subclass of str, but not rdflib's URIRef, which `foreign` knows.
    Ok(match value.cast::<PyString>() {
        Ok(text) if !foreign::is_rdflib(value)? => Some(text.to_str()?.into()),
        _ => None,
    })
}

/// A triple. It can also be an object: a triple term.
///
/// >>> s, p, o = Triple(NamedNode('http://a'), NamedNode('http://b'), Literal(1))
#[pyclass(frozen, sequence, name = "Triple", module = "pythiadb", from_py_object)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PyTriple(pub(crate) Triple);

#[pymethods]
impl PyTriple {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH: (&'static str, &'static str, &'static str) = ("subject", "predicate", "object");

    #[new]
    fn new(
        subject: &Bound<'_, PyAny>,
        predicate: &Bound<'_, PyAny>,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        Ok(Self(Triple::new(
            subject_of(subject)?,
            predicate_of(predicate)?,
            term_of(object)?,
        )))
    }

    /// The subject.
    #[getter]
    fn subject(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, self.0.subject.clone().into())
    }

    /// The predicate.
    #[getter]
    fn predicate(&self) -> PyNamedNode {
        PyNamedNode(self.0.predicate.clone())
    }

    /// The object.
    #[getter]
    fn object(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, self.0.object.clone())
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let predicate = self.predicate().__repr__();
        let [subject, object] =
            [self.subject(py)?, self.object(py)?].map(|term| term.bind(py).repr());
        Ok(format!(
            "<Triple subject={} predicate={predicate} object={}>",
            subject?, object?
        ))
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<Self>()
            .is_ok_and(|other| other.borrow().0 == self.0)
    }

    fn __len__(&self) -> usize {
        3
    }

    fn __getitem__(&self, py: Python<'_>, place: usize) -> PyResult<Py<PyAny>> {
        match place {
            0 => self.subject(py),
            1 => to_python(py, self.0.predicate.clone().into()),
            2 => self.object(py),
            _ => Err(PyIndexError::new_err("a triple has three terms")),
        }
    }

    fn __getnewargs__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, PyNamedNode, Py<PyAny>)> {
        Ok((self.subject(py)?, self.predicate(), self.object(py)?))
    }

    fn __copy__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __deepcopy__<'a>(slf: PyRef<'a, Self>, _memo: &Bound<'_, PyAny>) -> PyRef<'a, Self> {
        slf
    }
}

/// The default graph.
#[pyclass(
    frozen,
    eq,
    hash,
    name = "DefaultGraph",
    module = "pythiadb",
    from_py_object
)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyDefaultGraph;

#[pymethods]
impl PyDefaultGraph {
    #[new]
    fn new() -> Self {
        Self
    }

    /// Always empty.
    #[getter]
    fn value(&self) -> &'static str {
        ""
    }

    fn __str__(&self) -> &'static str {
        "DEFAULT"
    }

    fn __repr__(&self) -> &'static str {
        "<DefaultGraph>"
    }

    fn __getnewargs__<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        PyTuple::empty(py)
    }

    fn __copy__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __deepcopy__<'a>(slf: PyRef<'a, Self>, _memo: &Bound<'_, PyAny>) -> PyRef<'a, Self> {
        slf
    }
}

/// A triple in a graph.
///
/// >>> Quad(NamedNode('http://a'), NamedNode('http://b'), Literal(1)).graph_name
/// <DefaultGraph>
#[pyclass(frozen, sequence, name = "Quad", module = "pythiadb", from_py_object)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PyQuad(pub(crate) Quad);

#[pymethods]
impl PyQuad {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH: (&'static str, &'static str, &'static str, &'static str) =
        ("subject", "predicate", "object", "graph_name");

    #[new]
    #[pyo3(signature = (subject, predicate, object, graph_name = None))]
    fn new(
        subject: &Bound<'_, PyAny>,
        predicate: &Bound<'_, PyAny>,
        object: &Bound<'_, PyAny>,
        graph_name: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let graph = graph_name.map(graph_of).transpose()?;
        Ok(Self(Quad::new(
            subject_of(subject)?,
            predicate_of(predicate)?,
            term_of(object)?,
            graph.unwrap_or(GraphName::DefaultGraph),
        )))
    }

    /// The subject.
    #[getter]
    fn subject(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, self.0.subject.clone().into())
    }

    /// The predicate.
    #[getter]
    fn predicate(&self) -> PyNamedNode {
        PyNamedNode(self.0.predicate.clone())
    }

    /// The object.
    #[getter]
    fn object(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, self.0.object.clone())
    }

    /// The name of the graph.
    #[getter]
    fn graph_name(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        graph_to_python(py, &self.0.graph_name)
    }

    /// The triple.
    #[getter]
    fn triple(&self) -> PyTriple {
        PyTriple(self.0.clone().into())
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let predicate = self.predicate().__repr__();
        let [subject, object, graph] = [self.subject(py)?, self.object(py)?, self.graph_name(py)?]
            .map(|term| term.bind(py).repr());
        let (subject, object, graph) = (subject?, object?, graph?);
        Ok(format!(
            "<Quad subject={subject} predicate={predicate} object={object} graph_name={graph}>"
        ))
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<Self>()
            .is_ok_and(|other| other.borrow().0 == self.0)
    }

    fn __len__(&self) -> usize {
        4
    }

    fn __getitem__(&self, py: Python<'_>, place: usize) -> PyResult<Py<PyAny>> {
        match place {
            0 => self.subject(py),
            1 => to_python(py, self.0.predicate.clone().into()),
            2 => self.object(py),
            3 => self.graph_name(py),
            _ => Err(PyIndexError::new_err("a quad has four terms")),
        }
    }

    #[expect(clippy::type_complexity, reason = "the arguments of the constructor")]
    fn __getnewargs__(
        &self,
        py: Python<'_>,
    ) -> PyResult<(Py<PyAny>, PyNamedNode, Py<PyAny>, Py<PyAny>)> {
        Ok((
            self.subject(py)?,
            self.predicate(),
            self.object(py)?,
            self.graph_name(py)?,
        ))
    }

    fn __copy__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __deepcopy__<'a>(slf: PyRef<'a, Self>, _memo: &Bound<'_, PyAny>) -> PyRef<'a, Self> {
        slf
    }
}

/// A variable of a query.
///
/// >>> str(Variable('foo'))
/// '?foo'
#[pyclass(frozen, name = "Variable", module = "pythiadb", from_py_object)]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PyVariable(pub(crate) Variable);

#[pymethods]
impl PyVariable {
    #[classattr]
    #[pyo3(name = "__match_args__")]
    const MATCH: (&'static str,) = ("value",);

    #[new]
    fn new(value: String) -> PyResult<Self> {
        Variable::new(value).map(Self).map_err(invalid)
    }

    /// The name, without its sign.
    #[getter]
    fn value(&self) -> &str {
        self.0.as_str()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Variable value={}>", self.0.as_str())
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, operation: CompareOp) -> PyResult<bool> {
        compare(self, other, operation)
    }

    fn __getnewargs__(&self) -> (&str,) {
        (self.0.as_str(),)
    }

    fn __copy__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __deepcopy__<'a>(slf: PyRef<'a, Self>, _memo: &Bound<'_, PyAny>) -> PyRef<'a, Self> {
        slf
    }
}

/// Returns the nodes of a path, and its edges: predicates, and whether they are followed backwards. None for a term that is
/// no path.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "the parts of a path")]
pub(crate) fn path_parts(
    py: Python<'_>,
    term: &Bound<'_, PyAny>,
) -> PyResult<Option<(Vec<Py<PyAny>>, Vec<(Py<PyAny>, bool)>)>> {
    let Some(path) = pythia::Path::of_term(&term_of(term)?) else {
        return Ok(None);
    };
    let nodes = path.nodes.into_iter().map(|node| to_python(py, node));
    let edges = path.edges.into_iter().map(|edge| {
        let predicate = match edge.predicate {
            Some(predicate) => to_python(py, predicate.into())?,
            None => py.None(),
        };
        Ok((predicate, edge.inverse))
    });
    Ok(Some((
        nodes.collect::<PyResult<_>>()?,
        edges.collect::<PyResult<_>>()?,
    )))
}

/// Returns the Python object of a term.
pub(crate) fn to_python(py: Python<'_>, term: Term) -> PyResult<Py<PyAny>> {
    Ok(match term {
        Term::NamedNode(node) => Py::new(py, PyNamedNode(node))?.into_any(),
        Term::BlankNode(node) => Py::new(py, PyBlankNode::of(&node))?.into_any(),
        Term::Literal(literal) => Py::new(py, PyLiteral(literal))?.into_any(),
        Term::Triple(triple) => Py::new(py, PyTriple(*triple))?.into_any(),
    })
}

/// Returns the Python object of the name of a graph.
pub(crate) fn graph_to_python(py: Python<'_>, graph: &GraphName) -> PyResult<Py<PyAny>> {
    match graph {
        GraphName::NamedNode(node) => to_python(py, node.clone().into()),
        GraphName::BlankNode(node) => to_python(py, node.clone().into()),
        GraphName::DefaultGraph => Ok(Py::new(py, PyDefaultGraph)?.into_any()),
    }
}

/// Returns the term of a Python object: one of these classes, of rdflib's, or a value of Python's own classes.
pub(crate) fn term_of(object: &Bound<'_, PyAny>) -> PyResult<Term> {
    if let Ok(node) = object.cast::<PyNamedNode>() {
        return Ok(node.get().0.clone().into());
    }
    if let Ok(literal) = object.cast::<PyLiteral>() {
        return Ok(literal.get().0.clone().into());
    }
    if let Ok(node) = object.cast::<PyBlankNode>() {
        return Ok(node.get().node().into());
    }
    if let Ok(triple) = object.cast::<PyTriple>() {
        return Ok(Term::Triple(Box::new(triple.get().0.clone())));
    }
    if let Some(term) = foreign::rdflib_term(object)? {
        return Ok(term);
    }
    if let Some(literal) = literal_of_native(object)? {
        return Ok(literal.into());
    }
    let class = object.get_type();
    Err(PyTypeError::new_err(format!(
        "{class} is no class of RDF terms"
    )))
}

pub(crate) fn subject_of(object: &Bound<'_, PyAny>) -> PyResult<NamedOrBlankNode> {
    match node_of(object)? {
        Some(Term::NamedNode(node)) => Ok(node.into()),
        Some(Term::BlankNode(node)) => Ok(node.into()),
        _ => Err(misplaced(object, "a subject is a NamedNode or a BlankNode")),
    }
}

pub(crate) fn predicate_of(object: &Bound<'_, PyAny>) -> PyResult<NamedNode> {
    match node_of(object)? {
        Some(Term::NamedNode(node)) => Ok(node),
        _ => Err(misplaced(object, "a predicate is a NamedNode")),
    }
}

pub(crate) fn graph_of(object: &Bound<'_, PyAny>) -> PyResult<GraphName> {
    if object.is_instance_of::<PyDefaultGraph>() {
        return Ok(GraphName::DefaultGraph);
    }
    match node_of(object)? {
        Some(Term::NamedNode(node)) => Ok(node.into()),
        Some(Term::BlankNode(node)) => Ok(node.into()),
        _ => Err(misplaced(
            object,
            "the name of a graph is a NamedNode, a BlankNode or DefaultGraph()",
        )),
    }
}

/// Returns a term that is no value of Python's own classes, whose literals have no place here.
fn node_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Term>> {
    let is_plain = object.is_exact_instance_of::<PyString>() || object.is_none();
    match is_plain {
        true => Ok(None),
        false => term_of(object).map(Some),
    }
}

fn misplaced(object: &Bound<'_, PyAny>, rule: &str) -> PyErr {
    let class = object.get_type();
    PyTypeError::new_err(format!("{rule}, and not a {class}"))
}

/// Returns the quad of a Python object: a quad, a triple, or three or four terms.
pub(crate) fn quad_of(object: &Bound<'_, PyAny>) -> PyResult<Quad> {
    if let Ok(quad) = object.cast::<PyQuad>() {
        return Ok(quad.get().0.clone());
    }
    if let Ok(triple) = object.cast::<PyTriple>() {
        return Ok(triple.get().0.clone().in_graph(GraphName::DefaultGraph));
    }
    let parts: Vec<Bound<'_, PyAny>> = match object.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) if object.is_instance_of::<PyString>() => Vec::new(),
        Err(_) => match object.try_iter() {
            Ok(parts) => parts.collect::<PyResult<_>>()?,
            Err(_) => Vec::new(),
        },
    };
    let (triple, graph) = match &parts[..] {
        [subject, predicate, object] => ([subject, predicate, object], GraphName::DefaultGraph),
        [subject, predicate, object, graph] => {
            ([subject, predicate, object], foreign::graph_or_none(graph)?)
        }
        _ => {
            let class = object.get_type();
            let message = format!(
                "a quad is a Quad, a Triple, or a tuple of 3 or 4 terms, and not a {class}"
            );
            return Err(PyTypeError::new_err(message));
        }
    };
    let [subject, predicate, object] = triple;
    Ok(Quad::new(
        subject_of(subject)?,
        predicate_of(predicate)?,
        term_of(object)?,
        graph,
    ))
}
