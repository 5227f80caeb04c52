"""The classes and functions of pyoxigraph 0.5, over Pythia: code that was written for it changes its import.

>>> import pythiadb.oxigraph as pyoxigraph
>>> store = pyoxigraph.Store()
>>> store.add(Quad(NamedNode('http://a'), NamedNode('http://b'), Literal('c')))
>>> [row['o'].value for row in store.query('SELECT ?o { ?s ?p ?o }')]
['c']

What differs: Pythia keeps literals as they were written, has no empty named graphs (see `Store.add_graph`), and does not have
N3, GeoSPARQL and the canonical labels of `Dataset.canonicalize`. `lenient` leaves statements with errors out, because Pythia
does not store invalid terms.
"""

import contextlib
import os
import re
import shutil
import tempfile

from . import _pythiadb
from ._oxigraph_dataset import CanonicalizationAlgorithm, Dataset
from ._oxigraph_formats import QueryResultsFormat, RdfFormat, format_of, source_of, write_bytes
from ._oxigraph_results import (
    QueryBoolean,
    QuerySolution,
    QuerySolutions,
    QueryTriples,
    parse_query_results,
    results_of,
)
from ._pythiadb import (
    BaseDirection,
    BlankNode,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    Triple,
    Variable,
    __version__,
)
from .database import Database
from .errors import ConflictError, QuerySyntaxError

__all__ = [
    "BaseDirection",
    "BlankNode",
    "CanonicalizationAlgorithm",
    "Dataset",
    "DefaultGraph",
    "Literal",
    "NamedNode",
    "Quad",
    "QuadParser",
    "QueryBoolean",
    "QueryResultsFormat",
    "QuerySolution",
    "QuerySolutions",
    "QueryTriples",
    "RdfFormat",
    "Store",
    "Triple",
    "Variable",
    "__version__",
    "parse",
    "parse_query_results",
    "serialize",
]

_DEFAULT = DefaultGraph()
_PREFIX = re.compile(r"(?:[^\W\d_](?:[\w.·-]*[\w·-])?)?")


class Store:
    """A database with the methods of pyoxigraph's Store: in memory, or in a folder, which is made if it is not there.

    `database` is the `pythiadb.Database` below, which can do more: transactions, paths, limits of queries. A database that is
    open already can be given instead of a path.
    """

    def __init__(self, path=None):
        if isinstance(path, Database):
            self.database = path
        else:
            self.database = Database(path, create=path is not None)
        # Names of graphs that may be empty, which the database does not know.
        self._kept = set()

    @staticmethod
    def read_only(path):
        """Opens the store in a folder for reading. Other processes may have it open too."""
        return Store(Database(path, read_only=True))

    # Quads

    def add(self, quad):
        """Adds a quad, durably."""
        self._change(lambda transaction: transaction.add(quad))

    def extend(self, quads):
        """Adds quads, all of them or none."""
        quads = list(quads)
        self._change(lambda transaction: transaction.extend(quads))

    def bulk_extend(self, quads):
        """Adds quads, all of them or none, and reads them one after the other."""
        with self.database.transaction() as transaction:
            transaction.extend(quads)

    def remove(self, quad):
        """Removes a quad, if the store has it."""
        existed = self._change(lambda transaction: transaction.remove(quad))
        if existed and isinstance(quad, Quad) and quad.graph_name != _DEFAULT:
            # The graph may be empty now.
            self._kept.add(quad.graph_name)

    def _change(self, work):
        """Commits work, and repeats it if others have changed the same quads meanwhile."""
        while True:
            try:
                with self.database.transaction() as transaction:
                    return work(transaction)
            except ConflictError:
                continue

    def quads_for_pattern(self, subject, predicate, object, graph_name=None):
        """Returns the quads with these terms; None stands for any term, and for any graph."""
        return self.database.quads(subject, predicate, object, graph_name)

    def __iter__(self):
        return self.database.quads()

    def __len__(self):
        return len(self.database)

    def __bool__(self):
        return len(self.database) > 0

    def __contains__(self, quad):
        return quad in self.database

    def __str__(self):
        return self.database.dump(format="nq").decode()

    def __repr__(self):
        return f"<Store of {self.database!r}>"

    # SPARQL

    def query(
        self,
        query,
        *,
        base_iri=None,
        prefixes=None,
        use_default_graph_as_union=False,
        default_graph=None,
        named_graphs=None,
        substitutions=None,
        custom_functions=None,
        custom_aggregate_functions=None,
    ):
        """Runs a query: returns QuerySolutions, QueryTriples or a QueryBoolean.

        `prefixes` are declared before the query. `substitutions` give terms to variables. Aggregate functions of
        Python are not supported yet.

        >>> store = Store()
        >>> store.query('ASK { ex:a ?p ?o }', prefixes={'ex': 'http://ex.org/'})
        <QueryBoolean false>
        """
        _refuse_aggregates(custom_aggregate_functions)
        dataset = self._dataset(use_default_graph_as_union, default_graph, named_graphs)
        declared = _declarations(prefixes)
        with _places_in(query, declared):
            found = self.database.query(
                declared + query,
                substitutions,
                base=_base(base_iri),
                service=True,
                functions=custom_functions,
                **dataset,
            )
        return results_of(found)

    def _dataset(self, is_union, default, named):
        """Returns the settings of Pythia for a dataset."""
        if is_union and default is not None:
            raise ValueError("give either use_default_graph_as_union or default_graph")
        if default is not None:
            try:
                default = [default] if _is_graph(default) else list(default)
            except TypeError:
                raise ValueError(f"default_graph is a graph or several, and not a {type(default).__name__}") from None
            for graph in default:
                if not _is_graph(graph):
                    raise TypeError(f"a graph is a NamedNode, BlankNode or DefaultGraph, and not a {type(graph).__name__}")
            if default == [_DEFAULT]:
                default = None
        if named is not None:
            named = list(named)
        if default is None and named is None:
            return {"union_default_graph": bool(is_union)}
        if default is None:
            default = [_DEFAULT, *self.database.graphs()] if is_union else [_DEFAULT]
        if named is None:
            # Without clauses for them, all named graphs can be queried.
            named = self.database.graphs()
        return {"default_graphs": default, "named_graphs": named}

    def update(
        self, update, *, base_iri=None, prefixes=None, custom_functions=None, custom_aggregate_functions=None
    ):
        """Runs an update: all of its operations, or none. LOAD reads from servers, and from no files.

        >>> store = Store()
        >>> store.update('INSERT DATA { ex:a ex:b 1 }', prefixes={'ex': 'http://ex.org/'})
        >>> len(store)
        1
        """
        _refuse_aggregates(custom_aggregate_functions)
        declared, base = _declarations(prefixes), _base(base_iri)
        text = declared + update
        with _places_in(update, declared):
            self.database.update(text, base=base, service=True, load_http=True, functions=custom_functions)

    # Files

    def load(self, input=None, format=None, *, path=None, base_iri=None, to_graph=None, lenient=False):
        """Loads a text, bytes, an open file or a path in one step: all of it, or nothing.

        The format is that of the path's extension, unless it is given. `to_graph` takes the triples. `lenient` leaves out
        statements with errors. Blank nodes are new, except for those of the first load, which keep their labels.
        """
        source, base = source_of(input, path), _base(base_iri)
        format = format_of(format, path, RdfFormat)
        graph = _DEFAULT if to_graph is None else to_graph
        if not isinstance(graph, BlankNode):
            named = None if graph == _DEFAULT else graph
            self.database.load(source, format=format.code, base=base, graph=named, lenient=lenient)
            return
        # The core names graphs by IRI only. The labels of the document may be those of other nodes in the store.
        names = {}
        self.extend(_moved(_renamed(quad, names), graph) for quad in _parse(source, format, base, lenient))

    def bulk_load(self, input=None, format=None, *, path=None, base_iri=None, to_graph=None, lenient=False):
        """Does what `load` does."""
        self.load(input, format, path=path, base_iri=base_iri, to_graph=to_graph, lenient=lenient)

    def dump(self, output=None, format=None, *, from_graph=None, prefixes=None, base_iri=None):
        """Writes the quads, or the triples of one graph, to a path or an open file, or returns them as bytes.

        A format without named graphs needs `from_graph`. IRIs are written in full: `base_iri` does not shorten them.
        """
        format = format_of(format, output, RdfFormat)
        if from_graph is None and not format.supports_datasets:
            raise ValueError(f"{format} has no named graphs: give from_graph, for example DefaultGraph()")
        _base(base_iri)
        if prefixes:
            return serialize(self._sorted(from_graph), output, format, prefixes=prefixes)
        code = "jsonld" if format is RdfFormat.STREAMING_JSON_LD else format.code
        return self.database.dump(output, format=code, graph=from_graph)

    def _sorted(self, graph):
        """Returns the triples of a graph, or the quads of all graphs, one graph after the other."""
        if graph is not None:
            return (quad.triple for quad in self.database.quads(graph_name=graph))
        graphs = [_DEFAULT, *self.database.graphs()]
        return (quad for graph in graphs for quad in self.database.quads(graph_name=graph))

    # Graphs

    def named_graphs(self):
        """Returns the names of the named graphs: those with quads, and those that this object knows to be empty."""
        names = self.database.graphs()
        return iter([*names, *self._kept.difference(names)])

    def contains_named_graph(self, graph_name):
        """Returns whether there is a graph of this name. There always is a default graph."""
        if graph_name == _DEFAULT or graph_name in self._kept:
            return True
        return next(self.database.quads(graph_name=graph_name), None) is not None

    def add_graph(self, graph_name):
        """Adds a named graph.

        Pythia has no empty graphs. This object remembers the name, for `named_graphs` and `contains_named_graph`; SPARQL does
        not see it, and it is gone when the store is opened again. So it is with the graphs that `clear_graph` and `remove`
        leave empty.
        """
        if graph_name != _DEFAULT:
            self._kept.add(_checked_name(graph_name))

    def clear_graph(self, graph_name):
        """Removes the quads of a graph, and keeps its name (see `add_graph`)."""
        if self.contains_named_graph(graph_name):
            self.add_graph(graph_name)
            self._empty(graph_name)

    def remove_graph(self, graph_name):
        """Removes a graph with its quads. The default graph is then empty."""
        self._kept.discard(graph_name)
        self._empty(graph_name)

    def _empty(self, graph):
        if graph == _DEFAULT:
            self.database.update("CLEAR SILENT DEFAULT")
        elif isinstance(graph, NamedNode):
            self.database.update(f"CLEAR SILENT GRAPH {graph}")
        else:
            # SPARQL has no name for such a graph.
            _checked_name(graph)
            self._change(
                lambda transaction: transaction.remove_all(list(transaction.quads(None, None, None, graph)))
            )

    def clear(self):
        """Removes all quads and all graphs."""
        self._kept.clear()
        self.database.update("CLEAR SILENT ALL")

    # Upkeep

    def flush(self):
        """Does nothing: each change is durable when its call returns."""

    def optimize(self):
        """Writes the changes and what was loaded into one new base, which queries read fastest."""
        self.database.compact()

    def backup(self, target_directory):
        """Copies the quads to a new store in a folder, which must not exist yet.

        `database.backup` is made for large stores: it copies files, and later only the new ones; `pythia restore` makes a
        store from them.
        """
        target = os.path.abspath(os.fspath(target_directory))
        os.mkdir(target)
        try:
            with tempfile.NamedTemporaryFile(suffix=".nq", dir=os.path.dirname(target)) as file:
                self.database.dump(file.name, format="nq")
                with Database.create(target) as copy:
                    copy.load(file.name, format="nq")
        except BaseException:
            # What is there is no backup.
            shutil.rmtree(target)
            raise


def _is_graph(value):
    return isinstance(value, (NamedNode, BlankNode, DefaultGraph))


def _checked_name(graph):
    if not isinstance(graph, (NamedNode, BlankNode)):
        raise TypeError(f"the name of a graph is a NamedNode or BlankNode, and not a {type(graph).__name__}")
    return graph


def _refuse_aggregates(functions):
    if functions:
        raise NotImplementedError("Pythia does not yet call aggregate functions of Python from SPARQL")


def _base(iri):
    """Returns a base, if it is an IRI."""
    if iri is not None:
        NamedNode(iri)
    return iri


def _declarations(prefixes):
    """Returns declarations of prefixes, which go before a text in its first line."""
    declared = []
    for name, iri in (prefixes or {}).items():
        if not _PREFIX.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a prefix")
        declared.append(f"PREFIX {name}: {NamedNode(iri)} ")
    return "".join(declared)


@contextlib.contextmanager
def _places_in(text, declared):
    """Gives the place of a syntax error in a text, without the declarations that were put before it."""
    try:
        yield
    except QuerySyntaxError as error:
        if not declared or error.lineno != 1:
            raise
        place = (error.filename, 1, max(1, error.offset - len(declared)), text.split("\n")[0])
        raise QuerySyntaxError(error.msg, place) from None


def _parse(source, format, base, lenient):
    return _pythiadb.parse({"source": source, "format": format.code, "base": base, "graph": None}, lenient)


def _renamed(term, names):
    """Returns a term or quad with new labels of blank nodes; `names` has the label of each node that had one before."""
    if isinstance(term, BlankNode):
        if term not in names:
            names[term] = BlankNode()
        return names[term]
    if isinstance(term, (Triple, Quad)):
        return type(term)(*(_renamed(each, names) for each in term))
    return term


def _moved(quad, graph):
    return Quad(*quad.triple, graph) if quad.graph_name == _DEFAULT else quad


class QuadParser:
    """The quads of a document: an iterator. The document is read as a whole when the first quad is asked for."""

    def __init__(self, read):
        self._read, self._quads = read, None

    @property
    def prefixes(self):
        """Raises NotImplementedError: Pythia does not keep the prefixes of a document yet."""
        raise NotImplementedError("Pythia does not keep the prefixes of a document yet")

    @property
    def base_iri(self):
        """Raises NotImplementedError: Pythia does not keep the base of a document yet."""
        raise NotImplementedError("Pythia does not keep the base of a document yet")

    def __iter__(self):
        return self

    def __next__(self):
        if self._quads is None:
            # After an error there is nothing more.
            self._quads = iter(())
            self._quads = iter(self._read())
        return next(self._quads)


def parse(
    input=None,
    format=None,
    *,
    path=None,
    base_iri=None,
    without_named_graphs=False,
    rename_blank_nodes=False,
    lenient=False,
):
    """Returns the quads of a text, bytes, an open file or a path, without a store.

    >>> [quad.object for quad in parse('<a> <b> <c> .', RdfFormat.TURTLE, base_iri='http://ex.org/')]
    [<NamedNode value=http://ex.org/c>]
    """
    source, base = source_of(input, path), _base(base_iri)
    format = format_of(format, path, RdfFormat)

    def read():
        quads = _parse(source, format, base, lenient)
        if without_named_graphs and any(quad.graph_name != _DEFAULT for quad in quads):
            raise SyntaxError("the document has a named graph, and without_named_graphs is set")
        if rename_blank_nodes:
            names = {}
            quads = [_renamed(quad, names) for quad in quads]
        return quads

    return QuadParser(read)


def serialize(input, output=None, format=None, *, prefixes=None, base_iri=None):
    """Writes quads or triples to a path or an open file, or returns them as bytes.

    IRIs are written in full: `base_iri` does not shorten them.

    >>> serialize([Triple(NamedNode('http://a'), NamedNode('http://b'), Literal(1))], format=RdfFormat.TURTLE)
    b'<http://a> <http://b> 1 .\\n'
    """
    format = format_of(format, output, RdfFormat)
    _base(base_iri)
    prefixes = sorted((prefixes or {}).items())
    return write_bytes(_pythiadb.serialize(input, format.code, prefixes), output)
