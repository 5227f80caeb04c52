"""A store of rdflib over a database: `rdflib.Graph(store="Pythia")`, or with a database that is open already.

>>> import rdflib
>>> from pythiadb import Database
>>> graph = rdflib.Dataset(PythiaStore(Database.in_memory()))
>>> _ = graph.add((rdflib.URIRef("http://a"), rdflib.URIRef("http://b"), rdflib.Literal(1)))
>>> len(graph)
1
"""

import itertools
import os
import shutil
import threading
from urllib.parse import quote, unquote

import rdflib
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.query import Result
from rdflib.store import NO_STORE, VALID_STORE, Store

from . import _pythiadb
from .database import Database

# rdflib has IRIs that are none of RDF: relative ones, and ones with spaces. They are kept as names of this namespace.
_IRREGULAR = "urn:x-pythia:rdflib:"
_STRING = "http://www.w3.org/2001/XMLSchema#string"
_DEFAULT = _pythiadb.DefaultGraph()


def to_rdflib(term):
    """Returns the term of rdflib for a term of Pythia."""
    if isinstance(term, _pythiadb.NamedNode):
        if term.value.startswith(_IRREGULAR):
            return rdflib.URIRef(unquote(term.value[len(_IRREGULAR):]))
        return rdflib.URIRef(term.value)
    if isinstance(term, _pythiadb.Literal):
        datatype = term.datatype.value
        if term.language:
            return rdflib.Literal(term.value, lang=term.language)
        return rdflib.Literal(term.value, datatype=None if datatype == _STRING else datatype)
    if isinstance(term, _pythiadb.BlankNode):
        return rdflib.BNode(term.value)
    if isinstance(term, _pythiadb.DefaultGraph):
        return DATASET_DEFAULT_GRAPH_ID
    if term is None:
        return None
    raise TypeError(f"rdflib has no term for {term}")


def from_rdflib(term):
    """Returns the term of Pythia for a term of rdflib."""
    if isinstance(term, rdflib.Literal):
        if term.language:
            return _pythiadb.Literal(str(term), language=term.language)
        if term.datatype:
            return _pythiadb.Literal(str(term), datatype=_pythiadb.NamedNode(str(term.datatype)))
        return _pythiadb.Literal(str(term))
    if isinstance(term, rdflib.URIRef):
        try:
            return _pythiadb.NamedNode(str(term))
        except ValueError:
            return _pythiadb.NamedNode(_IRREGULAR + quote(str(term), safe=""))
    if isinstance(term, rdflib.BNode):
        return _pythiadb.BlankNode(str(term))
    raise TypeError(f"a {type(term).__name__} of rdflib cannot be stored: {term!r}")


def _graph(context):
    """Returns the name of the graph of a context of rdflib."""
    identifier = getattr(context, "identifier", context)
    if identifier is None or identifier == DATASET_DEFAULT_GRAPH_ID:
        return _DEFAULT
    return from_rdflib(identifier)


def _pattern(triple):
    return tuple(None if term is None else from_rdflib(term) for term in triple)


class _Opened:
    """The databases that stores of this process have open, by folder: each is open once, however many stores use it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._databases = {}

    def open(self, path, create, read_only):
        key = (os.path.realpath(path), read_only)
        with self._lock:
            database, users = self._databases.get(key, (None, 0))
            if database is None:
                database = Database(path, create=create, read_only=read_only)
            self._databases[key] = (database, users + 1)
        return database

    def close(self, database):
        with self._lock:
            for key, (known, users) in list(self._databases.items()):
                if known is database:
                    if users > 1:
                        self._databases[key] = (database, users - 1)
                        return
                    del self._databases[key]
        database.close()


_OPENED = _Opened()


class PythiaStore(Store):
    """A store of rdflib. Its SPARQL queries and updates are run by Pythia.

    Changes are made at once, each durably; between `begin()` and `commit()` or `rollback()` of a store they are one
    transaction of the thread. `open` takes the folder of a store.
    """

    context_aware = True
    formula_aware = False
    transaction_aware = True
    graph_aware = True

    def __init__(self, configuration=None, identifier=None, *, read_only=False):
        self._database = None
        self._owns = False
        self._read_only = read_only
        self._local = threading.local()
        self._prefixes = {}
        self._namespaces = {}
        self._empty_graphs = set()
        if isinstance(configuration, Database):
            self._database, configuration = configuration, None
        super().__init__(configuration, identifier)

    @property
    def database(self):
        """The database. A store that was not opened has one in memory."""
        if self._database is None:
            self._database, self._owns = Database.in_memory(), True
        return self._database

    def open(self, configuration, create=True):
        if self._database is not None:
            raise ValueError("the store is open already")
        try:
            self._database = _OPENED.open(configuration, create, self._read_only)
        except FileNotFoundError:
            return NO_STORE
        self._owns = True
        return VALID_STORE

    def close(self, commit_pending_transaction=False):
        transaction = getattr(self._local, "transaction", None)
        if transaction is not None:
            self.commit() if commit_pending_transaction else self.rollback()
        if self._owns and self._database is not None:
            _OPENED.close(self._database)
        self._database = None

    def destroy(self, configuration):
        """Removes the folder of a store, which nobody may have open."""
        if os.path.exists(configuration):
            # Fails for what is no store, and for one that is open.
            Database(configuration).close()
            shutil.rmtree(configuration)

    # Transactions

    def begin(self):
        """Begins a transaction of this thread."""
        self._local.transaction = self.database.transaction()

    def commit(self):
        transaction = self._take()
        if transaction is not None:
            transaction.commit()

    def rollback(self):
        transaction = self._take()
        if transaction is not None:
            transaction.rollback()

    def _take(self):
        transaction = getattr(self._local, "transaction", None)
        self._local.transaction = None
        return transaction

    @property
    def _view(self):
        """The transaction of this thread, or the database."""
        return getattr(self._local, "transaction", None) or self.database

    def _change(self, work):
        transaction = getattr(self._local, "transaction", None)
        if transaction is not None:
            return work(transaction)
        with self.database.transaction() as transaction:
            return work(transaction)

    # Triples

    def add(self, triple, context=None, quoted=False):
        if quoted:
            raise ValueError("Pythia has no quoted statements of N3")
        quad = (*map(from_rdflib, triple), _graph(context))
        self._change(lambda transaction: transaction.add(quad))
        super().add(triple, context, quoted)

    def addN(self, quads):
        quads = ((from_rdflib(s), from_rdflib(p), from_rdflib(o), _graph(c)) for s, p, o, c in quads)
        self._change(lambda transaction: transaction.extend(quads))

    def remove(self, triple, context=None):
        graph = None if context is None else _graph(context)
        pattern = _pattern(triple)
        self._change(lambda transaction: transaction.remove_all(list(transaction.quads(*pattern, graph))))
        super().remove(triple, context)

    def triples(self, triple_pattern, context=None):
        graph = None if context is None else _graph(context)
        try:
            pattern = _pattern(triple_pattern)
        except (TypeError, ValueError):
            return
        # The quads of one triple follow each other.
        for triple, quads in itertools.groupby(self._view.quads(*pattern, graph), lambda quad: quad.triple):
            yield tuple(map(to_rdflib, triple)), iter([self._context(quad.graph_name) for quad in quads])

    def _context(self, graph):
        return rdflib.Graph(store=self, identifier=to_rdflib(graph))

    def __len__(self, context=None):
        if context is None:
            return sum(1 for _ in self.triples((None, None, None)))
        return sum(1 for _ in self._view.quads(graph_name=_graph(context)))

    def contexts(self, triple=None):
        if triple is None or triple == (None, None, None):
            view = self._view
            graphs = view.graphs() if view is self.database else {quad.graph_name for quad in view.quads()}
            names = [to_rdflib(graph) for graph in graphs if graph != _DEFAULT]
            return iter([*names, *(graph for graph in self._empty_graphs if graph not in names)])
        quads = self._view.quads(*_pattern(triple))
        return iter({to_rdflib(quad.graph_name) for quad in quads})

    def add_graph(self, graph):
        if graph.identifier != DATASET_DEFAULT_GRAPH_ID:
            self._empty_graphs.add(graph.identifier)

    def remove_graph(self, graph):
        self._empty_graphs.discard(graph.identifier)
        self.remove((None, None, None), graph)

    # SPARQL

    def query(self, query, initNs, initBindings, queryGraph, **settings):
        if not isinstance(query, str):
            # A prepared query of rdflib, which has no text.
            raise NotImplementedError
        text = _prefixed(query, initNs)
        bindings = {str(name).lstrip("?"): from_rdflib(term) for name, term in initBindings.items()}
        if any(isinstance(term, _pythiadb.BlankNode) for term in bindings.values()):
            raise NotImplementedError
        view = self._view
        if view is not self.database:
            if bindings or queryGraph not in (None, DATASET_DEFAULT_GRAPH_ID):
                raise NotImplementedError
            return _result(view.query(text))
        return _result(view.query(text, bindings, **_dataset(queryGraph), **settings))

    def update(self, update, initNs, initBindings, queryGraph, **settings):
        if initBindings:
            raise NotImplementedError
        text = _prefixed(update, initNs)
        view = self._view
        if queryGraph not in (None, "__UNION__", DATASET_DEFAULT_GRAPH_ID):
            raise NotImplementedError
        view.update(text, **settings)

    # Namespaces, which are those of this object

    def bind(self, prefix, namespace, override=True):
        known = self._prefixes.get(prefix)
        if not override and (known is not None or namespace in self._namespaces):
            return
        if known is not None:
            self._namespaces.pop(known, None)
        before = self._namespaces.pop(namespace, None)
        if before is not None:
            self._prefixes.pop(before, None)
        self._prefixes[prefix] = namespace
        self._namespaces[namespace] = prefix

    def namespace(self, prefix):
        return self._prefixes.get(prefix)

    def prefix(self, namespace):
        return self._namespaces.get(namespace)

    def namespaces(self):
        return iter(list(self._prefixes.items()))


def _prefixed(text, namespaces):
    """Returns a text with declarations of prefixes before it, in the same line."""
    declared = " ".join(f"PREFIX {prefix}: <{iri}>" for prefix, iri in namespaces.items())
    return f"{declared} {text}" if declared else text


def _dataset(graph):
    """Returns the dataset of a query on a graph of rdflib."""
    if graph is None or graph == DATASET_DEFAULT_GRAPH_ID:
        return {}
    if graph == "__UNION__":
        return {"union_default_graph": True}
    if isinstance(graph, rdflib.BNode):
        raise NotImplementedError
    return {"default_graphs": [str(graph)]}


def _result(found):
    if isinstance(found, bool):
        result = Result("ASK")
        result.askAnswer = found
    elif isinstance(found, _pythiadb.Triples):
        result = Result("CONSTRUCT")
        result.graph = rdflib.Graph()
        for triple in found:
            result.graph.add(tuple(map(to_rdflib, triple)))
    else:
        result = Result("SELECT")
        result.vars = [rdflib.Variable(name) for name in found.columns]
        result.bindings = (
            {name: to_rdflib(term) for name, term in zip(result.vars, row) if term is not None} for row in found
        )
    return result
