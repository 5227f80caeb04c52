"""Databases of this process, and their transactions."""

import os
import re
import time
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from . import _pythiadb
from .errors import ClosedError, LoadError, ReadOnlyError
from .paths import paths as _paths

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_QUADS = 4096


class Changes(NamedTuple):
    """What an update or a transaction has changed."""

    position: int | None
    """The number of its commit; None if nothing has changed."""
    added: int
    removed: int


class LoadReport(NamedTuple):
    """What a load has done."""

    quads: int
    """Quads that are new."""
    known_quads: int
    """Quads that the database already had."""
    skipped: int
    """Statements with errors; always 0 unless `lenient` is set."""
    first_skipped: list


class Commit(NamedTuple):
    """A commit, in the order of all commits."""

    position: int
    time: datetime
    key: str | None
    changes: list
    """Pairs: True for an added quad and False for a removed one, and the quad."""

    @property
    def added(self):
        """The quads that were added."""
        return [quad for added, quad in self.changes if added]

    @property
    def removed(self):
        """The quads that were removed."""
        return [quad for added, quad in self.changes if not added]


def size(value):
    """Returns a number of bytes: a number, or a text such as '512M' or '2G'.

    >>> size('64M')
    67108864
    """
    if value is None or isinstance(value, int):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", value, re.IGNORECASE)
    if not match:
        raise ValueError(f"{value!r} is no size: write a number of bytes, or for example '512M' or '2G'")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def seconds(value):
    """Returns a time in seconds: a number, or a timedelta."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def _settings(*, timeout=None, memory=None, max_rows=None, union_default_graph=False, base=None, native=False,
              service=False, default_graphs=(), named_graphs=(), functions=None):
    return {
        "timeout": seconds(timeout),
        "memory": size(memory),
        "max_rows": max_rows,
        "union_default_graph": union_default_graph,
        "base": base,
        "native": native,
        "service": service,
        "default_graphs": [_name(graph) for graph in default_graphs],
        "named_graphs": [_name(graph) for graph in named_graphs],
        "functions": [(_name(name), function) for name, function in (functions or {}).items()],
    }


def _name(graph):
    """Returns the name of a graph for the core: an IRI, `_:label`, or Jena's name of the default graph."""
    if isinstance(graph, _pythiadb.BlankNode):
        return str(graph)
    if isinstance(graph, _pythiadb.DefaultGraph):
        return "urn:x-arq:DefaultGraph"
    return getattr(graph, "value", None) or str(graph)


class Transaction(_pythiadb.LocalTransaction):
    """A private view of the database as it was when the transaction began, with the transaction's own changes.

    At the end of a `with` block the changes are committed, together; after an exception they are discarded. A
    transaction that changes what another one has changed meanwhile fails with ConflictError, and is then repeated.

    >>> db = Database.in_memory()
    >>> a, b = NamedNode('http://a'), NamedNode('http://b')
    >>> with db.transaction() as t:
    ...     t.add((a, b, 1))
    ...     t.extend((a, b, number) for number in range(10))
    True
    9
    >>> len(db)
    10
    """

    def query(self, text, *, native=False):
        """Runs a query on the transaction's view."""
        return self._query(text, native)

    def update(self, text):
        """Runs an update in the transaction."""
        return Changes(None, *self._update(text))

    def commit(self, key=None):
        """Makes the changes durable and visible, and ends the transaction.

        With a key, a commit that may have succeeded can be repeated: of the commits with one key only the first counts.
        """
        return Changes(*self._commit(key))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.rollback()
        elif not self.closed:
            self.commit()
        return False


class Database(_pythiadb.LocalDatabase):
    """An RDF database. `open`, `create` and `in_memory` return one; `connect` one of a server.

    It can be used by several threads at once, and as a context manager that closes it at the end.

    >>> with Database.in_memory() as db:
    ...     db.update("INSERT DATA { <http://a> <http://b> 'c' }").added
    1
    """

    def __new__(cls, path=None, *, create=False, read_only=False, cache=None, memory=None, threads=None, timeout=None,
                spill_folder=None, spill_limit=None):
        path = None if path is None else os.fspath(path)
        return super().__new__(
            cls,
            path,
            create=create,
            read_only=read_only,
            cache=size(cache),
            memory=size(memory),
            threads=threads,
            timeout=seconds(timeout),
            spill_folder=spill_folder,
            spill_limit=size(spill_limit),
        )

    @classmethod
    def open(cls, path, *, read_only=False, **options):
        """Opens the store in a folder.

        Only one process at a time may have it open for writing; any number may read it, with `read_only=True`.
        `cache` is the memory for pages and `memory` that for running queries, as a number of bytes or '512M';
        `threads` compute queries; `timeout`, in seconds, stops queries that give no other. Larger intermediate results
        go to files in `spill_folder`, together at most `spill_limit`.
        """
        return cls(path, read_only=read_only, **options)

    @classmethod
    def create(cls, path, **options):
        """Opens the store in a folder, and makes an empty one there if there is none. Options are those of `open`."""
        return cls(path, create=True, **options)

    @classmethod
    def in_memory(cls, **options):
        """Returns an empty database that is gone when it is closed."""
        return cls(None, **options)

    @staticmethod
    def connect(url, *, token=None, user=None, password=None, timeout=None, tls=None):
        """Returns the dataset at an address of a server, as a RemoteDatabase: `http://127.0.0.1:7878/yago`.

        Nothing is sent yet. `token`, or `user` and `password`, are the credentials; use https if they leave the machine.
        `timeout`, in seconds, is that of queries and updates that give no other. `tls` is an `ssl.SSLContext` in place of
        the usual one, which checks the server's certificate.
        """
        from .remote import RemoteDatabase

        return RemoteDatabase(url, token=token, user=user, password=password, timeout=timeout, tls=tls)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
        return False

    def __repr__(self):
        place = self.path or "in memory"
        state = ", closed" if self.closed else ", read-only" if self.read_only else ""
        return f"<Database {place}{state}>"

    def __iter__(self):
        return self.quads()

    def __bool__(self):
        return True

    def query(self, text, bindings=None, **settings):
        """Runs a query: returns Solutions, Triples or a boolean.

        `bindings` gives terms to variables, which take their places in the query. Settings: `timeout` in seconds,
        `memory`, `max_rows`, `union_default_graph`, `base`; `default_graphs` and `named_graphs` are the dataset; `functions` are functions of Python, by the IRIs that the query calls; `native=True` for values of Python's own classes instead of
        literals; `service=True` allows SERVICE to ask other servers.

        >>> db = Database.in_memory()
        >>> _ = db.update("INSERT DATA { <http://a> <http://b> 1, 2 }")
        >>> [row.x for row in db.query("SELECT ?x { ?s ?p ?x } ORDER BY ?x", native=True)]
        [1, 2]
        >>> db.query("ASK { ?s ?p ?x }", {"x": 2})
        True
        """
        return self._query(text, bindings, _settings(**settings))

    def explain(self, text, bindings=None, *, analyze=False, json=False, **settings):
        """Returns the plan of a query as text or JSON. With `analyze` the query runs, and the plan shows what each part
        cost."""
        return self._explain(text, bindings, _settings(**settings), analyze, json)

    def update(self, text, *, key=None, load_folder=None, load_http=False, **settings):
        """Runs an update: all of its operations, or none.

        With a key, an update that may have been done can be repeated: of those with one key only the first counts.
        LOAD may read the files of `load_folder`, and from servers with `load_http`; otherwise it is an error.
        """
        return Changes(*self._update(text, _settings(**settings), key, load_folder, load_http))

    def transaction(self, *, serializable=False):
        """Begins a transaction. It sees the database as it is now, and its own changes."""
        return Transaction(self, serializable)

    def load(self, source, *, format=None, base=None, graph=None, lenient=False, memory=None, progress=None):
        """Loads data in one step: a path or several, bytes, an open file, a graph of rdflib, an iterable of quads, or a
        table with the columns subject, predicate, object and optionally graph.

        The format and the compression of files are those of their names or first bytes; `format` names another.
        `graph` puts triples into a named graph. `lenient` skips statements with errors. `progress` is called with the
        phase, what is done of it, its total, and the quads so far.
        """
        if self.read_only:
            raise ReadOnlyError("the database is open for reading: open it with read_only=False")
        graph = None if graph is None else getattr(graph, "value", None) or str(graph)
        several = isinstance(source, (list, tuple)) and source and all(_is_file(each) for each in source)
        if several or _is_file(source):
            sources = list(source) if several else [source]
            inputs = [{"source": each, "format": format, "base": base, "graph": graph} for each in sources]
            report = self._load(inputs, lenient, size(memory), progress)
            return LoadReport(report["quads"], report["known_quads"], report["skipped"], report["first_skipped"])
        quads = _quads_of(source)
        if graph is not None:
            quads = _in_graph(quads, _pythiadb.NamedNode(graph))
        return self._load_quads(quads)

    def _load_quads(self, quads):
        given = 0

        def counted():
            nonlocal given
            for quad in quads:
                given += 1
                yield quad

        with self.transaction() as transaction:
            added = transaction.extend(counted())
        return LoadReport(added, given - added, 0, [])

    def dump(self, output=None, *, format=None, graph=None):
        """Writes all quads, sorted, to a path or file, or returns them as bytes. `graph` writes the triples of one graph."""
        return self._dump(output, format if format or output else "nq", graph)

    def subscribe(self, from_position=1, *, follow=False, poll=0.2):
        """Returns the commits from a position on. With `follow` it waits for new ones, and does not end.

        >>> db = Database.in_memory()
        >>> _ = db.update("INSERT DATA { <http://a> <http://b> 1 }")
        >>> [(commit.position, len(commit.added)) for commit in db.subscribe()]
        [(1, 1)]
        """
        while True:
            for position, micros, key, changes in self._commits(from_position):
                from_position = position + 1
                when = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)
                yield Commit(position, when, key, changes)
            if not follow:
                return
            time.sleep(poll)

    def paths(self, start, end=None, **options):
        """Returns paths between nodes; see `pythiadb.paths.paths`."""
        return _paths(self, start, end, **options)

    @property
    def stats(self):
        """Figures of the store: quads, distinct subjects and objects, named graphs, and the quads of each predicate."""
        return self._stats()

    def optimize(self, *, reachability=(), attributes=(), degrees=False, drop=False):
        """Builds optional indexes, or drops them; docs/optimize.md says what they are for.

        `attributes` are predicates, or pairs of a predicate and the predicates of the edges along which it is cached.
        """
        pairs = [(each, []) if isinstance(each, str) else (each[0], list(each[1])) for each in attributes]
        return self._optimize(list(reachability), pairs, degrees, drop)

    def backup(self, folder):
        """Backs the store up into a folder. A folder that has an older backup gets what is new."""
        return self._backup(os.fspath(folder))

    def __reduce__(self):
        raise TypeError("a database cannot be pickled: open it in the other process, with read_only=True")


def _is_file(source):
    return isinstance(source, (str, bytes, os.PathLike)) or hasattr(source, "read")


def _quads_of(source):
    """Returns the quads of a table, a graph of rdflib, or an iterable."""
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "to_dict") and hasattr(source, "columns"):
        return _quads_of_table(source)
    if hasattr(source, "quads") and hasattr(source, "triples"):
        return source.quads((None, None, None, None))
    if hasattr(source, "triples") and hasattr(source, "identifier"):
        return source.triples((None, None, None))
    if hasattr(source, "__iter__"):
        return source
    raise TypeError(
        f"a {type(source).__name__} cannot be loaded: give a path, bytes, an open file, a graph of rdflib, quads, or a table"
    )


def _in_graph(quads, graph):
    for quad in quads:
        parts = tuple(quad)
        yield (*parts[:3], parts[3] if len(parts) > 3 and parts[3] is not None else graph)


def _quads_of_table(table):
    columns = _columns(table)
    missing = [name for name in ("subject", "predicate", "object") if name not in columns]
    if missing:
        raise LoadError(f"the table has no column {' and no column '.join(missing)}; it has {', '.join(columns)}")
    graphs = columns.get("graph")
    rows = zip(columns["subject"], columns["predicate"], columns["object"], graphs or iter(lambda: None, 1))
    for number, (subject, predicate, object, graph) in enumerate(rows):
        try:
            yield (_node(subject), _node(predicate), _term(object), None if graph is None else _node(graph))
        except (TypeError, ValueError) as error:
            raise LoadError(f"row {number} of the table: {error}") from error


def _columns(table):
    """Returns the columns of a table as lists, by name."""
    if hasattr(table, "to_pydict"):
        return table.to_pydict()
    if hasattr(table, "to_dict") and hasattr(table, "get_columns"):
        return table.to_dict(as_series=False)
    if hasattr(table, "to_dict"):
        absent = lambda value: None if value is None or value != value else value
        return {name: [absent(value) for value in table[name].tolist()] for name in table.columns}
    import pyarrow

    return pyarrow.table(table).to_pydict()


def _node(value):
    """Returns the node that a cell names: an IRI, `_:label`, or `<IRI>`."""
    if isinstance(value, str) and type(value) is str:
        if value.startswith("_:"):
            return _pythiadb.BlankNode(value[2:])
        return _pythiadb.NamedNode(value[1:-1] if value.startswith("<") else value)
    return value


def _term(value):
    """Returns the term of a cell: a text in the syntax of N-Triples, or a value."""
    if type(value) is str and value.startswith("_:"):
        return _pythiadb.BlankNode(value[2:])
    if type(value) is str and value.startswith("<") and value.endswith(">"):
        return _pythiadb.NamedNode(value[1:-1])
    return value


def parse(source, *, format=None, base=None, graph=None, lenient=False):
    """Returns the quads of a path, bytes or an open file, without a database.

    >>> [quad.object.value for quad in parse(b"<http://a> <http://b> 'c' .", format='ttl')]
    ['c']
    """
    graph = None if graph is None else getattr(graph, "value", None) or str(graph)
    return _pythiadb.parse({"source": source, "format": format, "base": base, "graph": graph}, lenient)


def serialize(quads, *, format="nq", prefixes=None):
    """Returns quads or triples as bytes in a format.

    >>> serialize([(NamedNode('http://a'), NamedNode('http://b'), Literal(1))], format='nt')
    b'<http://a> <http://b> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\\n'
    """
    return _pythiadb.serialize(quads, format, list((prefixes or {}).items()))


def verify(path):
    """Checks the whole store in a folder; returns the problems that were found, none for a sound store."""
    return _pythiadb.verify(os.fspath(path))


# For the examples above.
Literal, NamedNode = _pythiadb.Literal, _pythiadb.NamedNode
