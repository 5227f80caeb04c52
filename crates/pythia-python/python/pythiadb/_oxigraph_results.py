"""Results of the queries of `pythiadb.oxigraph`."""

import functools

from ._oxigraph_formats import QueryResultsFormat, RdfFormat, format_of, read_bytes, write_bytes
from ._oxigraph_text import boolean_text, read, solutions_text
from ._pythiadb import Variable


@functools.total_ordering
class QueryBoolean:
    """The answer of an ASK query: `bool()` gives it.

    >>> QueryBoolean(True)
    <QueryBoolean true>
    """

    __slots__ = ("_value",)

    def __init__(self, value):
        self._value = bool(value)

    def serialize(self, output=None, format=None):
        """Writes the answer to a path or an open file, or returns it as bytes."""
        format = format_of(format, output, QueryResultsFormat)
        return write_bytes(boolean_text(self._value, format.code).encode(), output)

    def __bool__(self):
        return self._value

    def __eq__(self, other):
        return self._value == other._value if isinstance(other, QueryBoolean) else NotImplemented

    def __lt__(self, other):
        return self._value < other._value if isinstance(other, QueryBoolean) else NotImplemented

    def __hash__(self):
        return hash(self._value)

    def __repr__(self):
        return f"<QueryBoolean {'true' if self._value else 'false'}>"


class QuerySolution:
    """A row of a SELECT query: its terms by place, name or Variable, with None for what is unbound or not there."""

    __slots__ = ("_names", "_terms")
    __hash__ = None

    def __init__(self, names, terms):
        self._names = names
        self._terms = tuple(terms)

    def __getitem__(self, key):
        if isinstance(key, Variable):
            key = key.value
        if isinstance(key, str):
            place = self._names.get(key)
            return None if place is None else self._terms[place]
        if not isinstance(key, int) or key < 0:
            raise TypeError(f"a place is an int from 0, a str or a Variable, and not {key!r}")
        return self._terms[key] if key < len(self._terms) else None

    def __len__(self):
        return len(self._terms)

    def __iter__(self):
        return iter(self._terms)

    def __eq__(self, other):
        if not isinstance(other, QuerySolution):
            return NotImplemented
        return self._names == other._names and self._terms == other._terms

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        bound = [f" {name}={term!r}" for name, term in zip(self._names, self._terms) if term is not None]
        return f"<QuerySolution{''.join(bound)}>"


class QuerySolutions:
    """The rows of a SELECT query: an iterator."""

    def __init__(self, names, rows, solutions=None):
        self._names = {name: place for place, name in enumerate(names)}
        self._rows = rows
        # Pythia's own result, until a row of it is read.
        self._unread = solutions

    @classmethod
    def of(cls, solutions):
        """Returns the rows of a result of `pythiadb.Database`."""
        return cls(solutions.columns, (row.values() for row in solutions), solutions)

    @property
    def variables(self):
        """The variables, in the order of the columns."""
        return [Variable(name) for name in self._names]

    def serialize(self, output=None, format=None):
        """Writes the rows that were not read yet to a path or an open file, or returns them as bytes."""
        format = format_of(format, output, QueryResultsFormat)
        unread, self._unread = self._unread, None
        if unread is not None:
            return unread.write(output, format.code)
        return write_bytes(solutions_text(self._names, self._rows, format.code).encode(), output)

    def __iter__(self):
        return self

    def __next__(self):
        self._unread = None
        return QuerySolution(self._names, next(self._rows))


class QueryTriples:
    """The triples of a CONSTRUCT or DESCRIBE query: an iterator."""

    def __init__(self, triples):
        self._triples = triples

    def serialize(self, output=None, format=None):
        """Writes the triples that were not read yet to a path or an open file, or returns them as bytes."""
        format = format_of(format, output, RdfFormat)
        # Pythia writes results as streaming JSON-LD only, which is JSON-LD.
        code = "jsonld" if format is RdfFormat.STREAMING_JSON_LD else format.code
        return self._triples.write(output, code)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._triples)


def results_of(found):
    """Returns the object of pyoxigraph's classes for what `pythiadb.Database.query` returns."""
    if isinstance(found, bool):
        return QueryBoolean(found)
    return QuerySolutions.of(found) if hasattr(found, "columns") else QueryTriples(found)


def parse_query_results(input=None, format=None, *, path=None):
    """Reads the results of a query from a text, bytes, an open file or a path: returns QuerySolutions or a QueryBoolean.

    The format is JSON, XML or TSV.

    >>> [row['x'] for row in parse_query_results('?x\\n5\\n', QueryResultsFormat.TSV)]
    [<Literal value=5 datatype=<NamedNode value=http://www.w3.org/2001/XMLSchema#integer>>]
    """
    format = format_of(format, path, QueryResultsFormat)
    found = read(read_bytes(input, path), format.code, path)
    return QueryBoolean(found) if isinstance(found, bool) else QuerySolutions(*found)
