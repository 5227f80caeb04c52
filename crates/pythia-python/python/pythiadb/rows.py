"""Results that come from a server: solutions as tab-separated values, triples as N-Triples.

Both are read in pieces, so the memory for them does not grow with their number. The terms of a piece are parsed together.
"""

import datetime
import decimal
import io
import itertools
import os
import shutil

from . import _pythiadb, errors

SOLUTIONS = "text/tab-separated-values"
TRIPLES = "application/n-triples"
QUADS = "application/n-quads"
ARROW = "application/vnd.apache.arrow.stream"

_XSD = "http://www.w3.org/2001/XMLSchema#"
_INTEGERS = frozenset(
    _XSD + name
    for name in (
        "integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger "
        "unsignedInt unsignedLong unsignedShort unsignedByte"
    ).split()
)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_KNOWN_TERMS = 1 << 14
FORMATS = {
    "json": "application/sparql-results+json",
    "srj": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "srx": "application/sparql-results+xml",
    "csv": "text/csv",
    "tsv": SOLUTIONS,
    "arrow": ARROW,
    "arrows": ARROW,
    "parquet": "application/vnd.apache.parquet",
    "dot": "text/vnd.graphviz",
    "gv": "text/vnd.graphviz",
}
GRAPH_FORMATS = {
    "nt": TRIPLES,
    "nq": QUADS,
    "ttl": "text/turtle",
    "trig": "application/trig",
    "rdf": "application/rdf+xml",
    "rdfxml": "application/rdf+xml",
    "owl": "application/rdf+xml",
    "jsonld": "application/ld+json",
}


def native(term):
    """Returns the value of Python's own classes that a literal stands for, or the term if no value is exact.

    >>> native(Literal('2026-01-02', datatype=NamedNode('http://www.w3.org/2001/XMLSchema#date')))
    datetime.date(2026, 1, 2)
    """
    if not isinstance(term, _pythiadb.Literal) or term.language:
        return term
    text, datatype = term.value, term.datatype.value
    try:
        if datatype == _XSD + "string":
            return text
        if datatype in _INTEGERS:
            return int(text)
        if datatype == _XSD + "boolean":
            return _BOOLEANS[text]
        if datatype in (_XSD + "double", _XSD + "float"):
            return float(text)
        if datatype == _XSD + "decimal":
            return decimal.Decimal(text)
        # Python 3.10 does not know Z.
        moment = text[:-1] + "+00:00" if text.endswith("Z") else text
        if datatype == _XSD + "date":
            return datetime.date.fromisoformat(moment)
        if datatype in (_XSD + "dateTime", _XSD + "dateTimeStamp"):
            return datetime.datetime.fromisoformat(moment)
        if datatype == _XSD + "time":
            return datetime.time.fromisoformat(moment)
    except (ValueError, KeyError, ArithmeticError):
        pass
    return term


class Row:
    """One solution of a server: a row of terms, by place and by name, as a Solution of a database of this process."""

    __slots__ = ("_places", "_terms")

    def __init__(self, places, terms):
        self._places = places
        self._terms = terms

    def _place(self, key):
        if isinstance(key, _pythiadb.Variable):
            key = key.value
        if isinstance(key, str):
            name = key[1:] if key.startswith("?") else key
            if name not in self._places:
                raise KeyError(f"there is no variable ?{name}")
            return self._places[name]
        if not isinstance(key, int):
            raise TypeError("a column is an int, a str or a Variable")
        if not -len(self._terms) <= key < len(self._terms):
            raise IndexError(f"a row of {len(self._terms)} terms has no place {key}")
        return key

    def __len__(self):
        return len(self._terms)

    def __getitem__(self, key):
        return self._terms[self._place(key)]

    def __getattr__(self, name):
        if name.startswith("__") or name not in self._places:
            raise AttributeError(f"there is no variable ?{name}")
        return self._terms[self._places[name]]

    def __iter__(self):
        return iter(self._terms)

    def get(self, key, default=None):
        """Returns the term of a variable, or `default` if it is unbound or there is no such variable."""
        try:
            term = self[key]
        except (KeyError, IndexError, TypeError):
            return default
        return default if term is None else term

    def keys(self):
        """Returns the names of the variables."""
        return list(self._places)

    def values(self):
        """Returns the terms, with None for unbound variables."""
        return self._terms

    def asdict(self):
        """Returns the row as a dictionary, without unbound variables."""
        return {name: term for name, term in zip(self._places, self._terms) if term is not None}

    def __eq__(self, other):
        return isinstance(other, Row) and (self.keys(), self._terms) == (other.keys(), other._terms)

    def __hash__(self):
        return hash(self._terms)

    def __repr__(self):
        return f"<Solution{''.join(f' {name}={term!r}' for name, term in zip(self._places, self._terms))}>"

    def __reduce__(self):
        return Row, (self._places, self._terms)


class _Result:
    """A result that is read once, item by item.

    Its items do not refer to it, so that a result that nobody has any more ends at once, and its query with it.
    """

    def __init__(self, answer, ask, items, most):
        self._answer = answer
        self._ask = ask
        self._is_begun = False
        self._items = items if most is None else _limited(items, answer, most)

    def __iter__(self):
        return self

    def __next__(self):
        if self._items is None:
            self._answer._endpoint.check()
            raise StopIteration
        self._is_begun = True
        return next(self._items)

    def fetchall(self):
        """Returns a list of everything that was not read yet."""
        return list(self)

    def close(self):
        """Frees the result, and stops the query. Iterating further finds nothing."""
        self._items = None
        self._answer.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _again(self, accept):
        """Returns the answer in another format, for which the query is sent again."""
        self._answer._endpoint.check()
        if self._items is None:
            raise errors.ClosedError("the result is closed")
        if self._is_begun:
            raise errors.QueryError("some of the result has been read already; run the query again")
        self.close()
        return self._ask(accept)

    def write(self, output=None, format=None):
        """Writes all of the result, as the server formats it, to a file, a path or bytes. The query is sent again."""
        name = format_of(output, format, self._formats)
        return write(self._again(self._formats[name]), output)


class RemoteSolutions(_Result):
    """The solutions of a query on a server: an iterator of rows, which come while the server computes them."""

    _formats = FORMATS

    def __init__(self, answer, ask, head, start, use_native, most):
        self.columns = [name[1:] for name in head.split("\t")] if head else []
        super().__init__(answer, ask, _rows(answer, start, self.columns, use_native), most)

    @property
    def variables(self):
        """The variables, in the order of the columns."""
        return [_pythiadb.Variable(name) for name in self.columns]

    def fetchone(self):
        """Returns the next row, or None at the end."""
        return next(self, None)

    def fetchmany(self, size):
        """Returns a list of the next rows, at most `size`."""
        return list(itertools.islice(self, size))

    def to_arrow(self):
        """Returns all solutions as a reader of pyarrow. The query is sent again, for an answer in Arrow's format."""
        import pyarrow

        answer = self._again(ARROW)
        return pyarrow.ipc.open_stream(io.BufferedReader(answer, 1 << 18))

    def to_pandas(self):
        """Returns all solutions as a DataFrame of pandas."""
        return self.to_arrow().read_pandas()

    def to_polars(self):
        """Returns all solutions as a DataFrame of polars."""
        import polars

        return polars.from_arrow(self.to_arrow().read_all())

    def __arrow_c_stream__(self, requested_schema=None):
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self):
        return f"<Solutions of {', '.join(self.columns)}>"


class RemoteTriples(_Result):
    """The triples of a CONSTRUCT or DESCRIBE query on a server: an iterator."""

    _formats = GRAPH_FORMATS

    def __init__(self, answer, ask, most):
        super().__init__(answer, ask, (quad.triple for quad in quads(answer)), most)

    def __repr__(self):
        return "<Triples>"


def solutions(answer, ask, use_native, most):
    """Returns the solutions or the boolean that an answer holds."""
    start = b""
    while b"\n" not in start:
        piece = answer.some()
        if not piece:
            if start.strip() in (b"true", b"false"):
                return start.strip() == b"true"
            raise errors.ServerError("the server's answer is no table")
        start += piece
    head, _, rest = start.partition(b"\n")
    head = head.decode()
    if head and not head.startswith("?"):
        if start.strip() in (b"true", b"false"):
            return start.strip() == b"true"
        raise errors.ServerError("the server's answer is no table")
    return RemoteSolutions(answer, ask, head, rest, use_native, most)


def _limited(items, answer, most):
    for number, item in enumerate(items):
        if number == most:
            answer.close()
            raise errors.LimitError(f"the query has more results than its limit of {most}")
        yield item


def _rows(answer, start, columns, use_native):
    """Returns the rows of an answer, after whose first line comes `start`."""
    places = {name: place for place, name in enumerate(columns)}
    width, known = len(places), {"": None}
    for lines in _lines(answer, start):
        rows = [line.split("\t") for line in lines.split("\n")] if width else [[] for _ in lines.split("\n")]
        _learn(known, rows, use_native)
        for row in rows:
            if len(row) != width:
                raise errors.ServerError("the server's answer is no table")
            yield Row(places, tuple([known[cell] for cell in row]))
        if len(known) > _KNOWN_TERMS:
            known = {"": None}


def quads(answer, graph=None):
    """Returns the quads of an answer in N-Triples or N-Quads, as they come. `graph` is the graph of triples."""
    for lines in _lines(answer, b""):
        source = {"source": lines.encode(), "format": "nq", "base": None, "graph": None}
        found = _pythiadb.parse(source)
        if graph is None:
            yield from found
        else:
            for quad in found:
                yield _pythiadb.Quad(quad.subject, quad.predicate, quad.object, graph)


def _lines(answer, start):
    """Returns the lines of an answer, as texts of one or more whole lines."""
    parts = [start] if start else []
    while True:
        if parts and b"\n" in parts[-1]:
            whole, _, rest = parts[-1].rpartition(b"\n")
            yield b"".join([*parts[:-1], whole]).decode()
            parts = [rest] if rest else []
        piece = answer.some()
        if not piece:
            break
        parts.append(piece)
    if parts:
        yield b"".join(parts).decode()


def _learn(known, rows, use_native):
    """Adds the terms of rows to those that are known, by their texts."""
    new = list({cell: None for row in rows for cell in row if cell not in known})
    if not new:
        return
    # The syntax of a cell is that of an object in Turtle.
    text = "".join([f"<x:x> <x:x> {cell} .\n" for cell in new])
    source = {"source": text.encode(), "format": "ttl", "base": None, "graph": None}
    try:
        found = _pythiadb.parse(source)
    except errors.ParseError as error:
        raise errors.ServerError(f"the server's answer has a wrong term: {error}") from error
    if len(found) != len(new):
        raise errors.ServerError("the server's answer has a wrong term")
    for cell, quad in zip(new, found):
        known[cell] = native(quad.object) if use_native else quad.object


def format_of(output, format, formats):
    """Returns the name of a format: the one that is given, or the ending of a path."""
    name = format
    if name is None and isinstance(output, (str, os.PathLike)):
        name = os.path.splitext(os.fspath(output))[1]
    if name is None:
        raise ValueError("a format is needed, for example format='json'" if "json" in formats else "a format is needed")
    name = name.lstrip(".").lower()
    if name not in formats:
        raise ValueError(f"{name or output} is no format: one of {', '.join(formats)}")
    return name


def write(answer, output):
    """Writes an answer to a path or an open file, or returns it as bytes. A file that is not whole is removed."""
    if output is None:
        return b"".join(iter(answer.some, b""))
    if hasattr(output, "write"):
        for piece in iter(answer.some, b""):
            output.write(piece)
        return None
    try:
        with open(output, "wb") as file:
            shutil.copyfileobj(answer, file, 1 << 16)
    except BaseException:
        answer.close()
        if os.path.exists(output):
            os.remove(output)
        raise
    return None


# For the example above.
Literal, NamedNode = _pythiadb.Literal, _pythiadb.NamedNode
