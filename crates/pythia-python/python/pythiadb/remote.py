"""A database on a server, `pythia serve`, with the methods of a database of this process."""

import functools
import json

from . import _pythiadb, exchange, upload
from .bindings import Text, bind, term_of
from .database import Changes, LoadReport, _in_graph, _is_file, _name, _quads_of, seconds, size
from .errors import PythiaError, QueryError, ServerError
from .paths import paths as _paths
from .rows import GRAPH_FORMATS, QUADS, SOLUTIONS, TRIPLES, RemoteTriples, format_of, quads, solutions, write

_DEFAULT = _pythiadb.DefaultGraph()
# The store's own default graph, also where queries see the union of all graphs.
_OWN_DEFAULT = "urn:x-arq:DefaultGraph"
_UNION = (_OWN_DEFAULT, "urn:x-arq:UnionGraph")
_KEY = "Idempotency-Key"
_EXPLAINED = ("operator", "detail", "inputs", "steps", "subplans", "rejected", "warnings", "order")


class RemoteDatabase:
    """A dataset on a server. `Database.connect` returns one. It has the methods of Database, with these differences:

    - Every request reads the state at its time. Updates and loads are atomic, each by itself; there are no transactions.
    - Limits, SERVICE and LOAD are what the server allows; `timeout`, `memory` and `max_rows` can only lower its limits.
    - The server does not tell how many quads of a load are new: the report of a load has None.

    Threads can share it. Connections are kept open and used again.
    """

    def __init__(self, url, *, token=None, user=None, password=None, timeout=None, tls=None):
        timeout = seconds(timeout)
        self._endpoint = exchange.Endpoint(url, token=token, user=user, password=password, timeout=timeout, tls=tls)

    @property
    def url(self):
        """The address of the dataset."""
        return self._endpoint.url

    @property
    def closed(self):
        """True once the database is closed."""
        return self._endpoint.is_closed

    def close(self):
        """Closes all connections. Results cannot be used afterwards."""
        self._endpoint.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
        return False

    def __repr__(self):
        return f"<RemoteDatabase {self.url}{', closed' if self.closed else ''}>"

    def __iter__(self):
        return self.quads()

    def __bool__(self):
        return True

    def __reduce__(self):
        raise TypeError("a connection cannot be pickled: connect in the other process")

    def query(self, text, bindings=None, **settings):
        """Runs a query: returns RemoteSolutions, RemoteTriples or a boolean.

        Settings are those of `Database.query`. Rows come while the server computes them; if the query fails in the
        middle, reading raises an error.

        `bindings` become a VALUES block at the start of the query's outermost group, while a database of this process
        replaces the variables everywhere. So a subquery or a FILTER inside a nested group does not see them, a literal
        in the place of a subject matches nothing instead of being an error, and a PATHS query has no bindings.
        """
        use_native = settings.pop("native", False)
        # Rows are counted here: a server that meets its limit cuts the answer, and the reason is lost.
        max_rows = settings.pop("max_rows", None)
        text, parameters, timeout = self._asked(text, bindings, settings)
        answer = self._ask(text, parameters, timeout, f"{SOLUTIONS}, {TRIPLES}")
        ask = functools.partial(self._ask, text, parameters + _given(rows=max_rows), timeout)
        if answer.media_type == SOLUTIONS:
            return solutions(answer, ask, use_native, max_rows)
        return RemoteTriples(answer, ask, max_rows)

    def explain(self, text, bindings=None, *, analyze=False, json=False, **settings):
        """Returns the plan of a query as text or JSON. With `analyze` the query runs, and the plan shows what each part
        cost."""
        settings.pop("native", None)
        text, parameters, timeout = self._asked(text, bindings, settings)
        parameters = [*parameters, ("explain", "analyze" if analyze else "plan")]
        plan = self._ask(text, parameters, timeout, "application/json").whole().decode()
        return plan if json else _plan_text(plan)

    def update(self, text, *, key=None, load_folder=None, load_http=False, **settings):
        """Runs an update: all of its operations, or none.

        With a key, an update that may have been done can be repeated: of those with one key only the first counts.
        The server's settings say what LOAD may read; `load_folder` and `load_http` have no effect.
        """
        settings.pop("native", None)
        text, parameters, timeout = self._asked(text, None, settings, "using-graph-uri", "using-named-graph-uri")
        headers = {"Content-Type": "application/sparql-update"}
        if key is not None:
            headers[_KEY] = key
        answer = self._endpoint.send(
            "POST", "update", parameters, accept="application/json", body=text.sent.encode(), headers=headers,
            timeout=timeout, repeatable=key is not None,
        )  # fmt: skip
        answer.check(_failure(exchange.of_change, text))
        changes = json.loads(answer.whole())
        return Changes(changes.get("position"), changes["added"], changes["removed"])

    def transaction(self, *, serializable=False):
        """Raises an error: a transaction cannot span several requests."""
        raise PythiaError(
            "a server has no transactions over several requests: put the operations into one update, which is atomic"
        )

    def load(self, source, *, format=None, base=None, graph=None, lenient=False, memory=None, progress=None):
        """Loads data: a path or several, bytes, an open file, a graph of rdflib, an iterable of quads, or a table.

        Each file is one step of its own. Files compressed with gzip or zstd are sent as they are. `base` can be given for
        Turtle and TriG. `progress` is called with 'send', the bytes that were sent, their total or 0, and 0. The fields
        `quads` and `known_quads` of the report are None.
        """
        if lenient:
            raise ValueError("a server loads all of the data or none: leave out what is wrong with parse(…, lenient=True)")
        several = isinstance(source, (list, tuple)) and source and all(_is_file(each) for each in source)
        if several or _is_file(source):
            for each in source if several else [source]:
                self._upload(upload.of_source(each, format, base, graph is not None), graph, progress)
        else:
            given = _quads_of(source)
            if graph is not None:
                given = _in_graph(given, term_of(graph) if not isinstance(graph, str) else _pythiadb.NamedNode(graph))
            self._upload(upload.of_quads(given), None, progress)
        return LoadReport(None, None, 0, [])

    def _upload(self, sent, graph, progress):
        if progress is not None:
            sent = upload.with_progress(sent, progress)
        parameters = [] if graph is None else [("graph", _name(graph))]
        answer = self._endpoint.send("POST", "data", parameters, accept="*/*", body=sent.pieces, headers=sent.headers)
        answer.check(lambda *failure: exchange.of_load(*failure, sent.name)).whole()

    def quads(self, subject=None, predicate=None, object=None, graph_name=None):
        """Returns the quads that match a pattern, as an iterator. None matches every term and every graph.

        A query cannot name a blank node: for a pattern with one, all quads that match the rest are sent.
        """
        pattern = [None if term is None else term_of(term) for term in (subject, predicate, object)]
        graph = graph_name if graph_name is None or isinstance(graph_name, _pythiadb.DefaultGraph) else term_of(graph_name)
        return self._matching(pattern, graph)

    def _matching(self, pattern, graph):
        is_blank = lambda term: isinstance(term, (_pythiadb.BlankNode, _pythiadb.Triple))
        if pattern == [None, None, None] and not is_blank(graph):
            yield from self._all(graph)
            return
        if isinstance(pattern[0], (_pythiadb.Literal, _pythiadb.Triple)) or not isinstance(
            pattern[1], (_pythiadb.NamedNode, type(None))
        ):
            return
        triple = " ".join(f"?{name}" if term is None or is_blank(term) else str(term) for name, term in zip("spo", pattern))
        # The default graph of a dataset may be the union of all graphs, so the store's own one is asked for by its name.
        asked = [(triple, [("default-graph-uri", _OWN_DEFAULT)])] if graph is None or graph == _DEFAULT else []
        if graph != _DEFAULT:
            asked.append((f"GRAPH {'?g' if graph is None or is_blank(graph) else graph} {{ {triple} }}", []))
        wanted = [*pattern, graph]
        for group, parameters in asked:
            with self._solutions(f"SELECT * {{ {group} }}", parameters) as found:
                for row in found:
                    parts = [row.get(name, term) for name, term in zip("spog", wanted)]
                    if all(not is_blank(term) or term == part for term, part in zip(wanted, parts)):
                        yield _pythiadb.Quad(*parts[:3], _DEFAULT if parts[3] is None else parts[3])

    def _solutions(self, text, parameters=()):
        text = Text(text, text, ())
        parameters = [*parameters, *_given(timeout=self._endpoint.timeout)]
        ask = functools.partial(self._ask, text, parameters, self._endpoint.timeout)
        return solutions(ask(SOLUTIONS), ask, False, None)

    def _all(self, graph):
        answer = self._graph(graph, QUADS if graph is None else TRIPLES)
        if answer is not None:
            with answer:
                yield from quads(answer, graph)

    def _graph(self, graph, accept):
        """Returns the answer with all quads, or the triples of a graph; None if there is no such graph."""
        parameters = _given(timeout=self._endpoint.timeout)
        if graph is not None:
            parameters.append(("default", "") if isinstance(graph, _pythiadb.DefaultGraph) else ("graph", _name(graph)))
        answer = self._endpoint.send(
            "GET", "data", parameters, accept=accept, timeout=self._endpoint.timeout, repeatable=True
        )
        if answer.status == 404 and graph is not None:
            message = answer.whole().decode(errors="replace")
            if "there is no graph" in message:
                return None
            raise ServerError(message, 404)
        return answer.check(exchange.of_query)

    def __contains__(self, quad):
        parts = tuple(quad)
        if len(parts) not in (3, 4):
            raise TypeError("a quad is a Quad, a Triple, or a tuple of 3 or 4 terms")
        # Checks the classes of the terms too.
        quad = _pythiadb.Quad(*parts[:3], *(part for part in parts[3:] if part is not None))
        found = self.quads(quad.subject, quad.predicate, quad.object, quad.graph_name)
        return next(found, None) is not None

    def __len__(self):
        try:
            return self.stats["quads"]
        except ServerError as error:
            if error.status not in (401, 403):
                raise
        # Only those who may read all graphs may read the statistics.
        count = "SELECT (COUNT(*) AS ?n) { %s }"
        default = self._solutions(count % "?s ?p ?o", [("default-graph-uri", _OWN_DEFAULT)])
        named = self._solutions(count % "GRAPH ?g { ?s ?p ?o }")
        return sum(int(row.n.value) for found in (default, named) for row in found)

    def graphs(self):
        """Returns the names of the named graphs."""
        return [row.g for row in self._solutions("SELECT DISTINCT ?g { GRAPH ?g {} }")]

    def dump(self, output=None, *, format=None, graph=None):
        """Writes all quads to a path or file, or returns them as bytes. `graph` writes the triples of one graph."""
        name = format_of(output, format if format or output is not None else "nq", GRAPH_FORMATS)
        accept = GRAPH_FORMATS[name]
        if graph is None and name in ("nt", "ttl"):
            # Graphs are lost in these formats, which the server writes for one graph only.
            graph = _DEFAULT if not self.graphs() else graph
        answer = self._graph(graph, accept)
        return write(_Nothing() if answer is None else answer, output)

    @property
    def stats(self):
        """Figures of the dataset, as those of Database; users who may read all graphs can see them."""
        path = self._endpoint.administration("stats")
        answer = self._endpoint.send("GET", path, accept="application/json", repeatable=True).check(exchange.of_any)
        told = json.loads(answer.whole()).get("pythia")
        if told is None:
            raise ServerError(f"{self.url}: there is no default dataset, or you may not read all of its graphs", answer.status)
        return {
            "quads": told["quads"],
            "subjects": told["nodes"],
            "objects": told["objects"],
            "named_graphs": told["named_graphs"],
            "predicates": {_pythiadb.NamedNode(each["iri"]): each["quads"] for each in told["predicates"]},
            "position": told["commits"],
        }

    def paths(self, start, end=None, **options):
        """Returns paths between nodes; see `pythiadb.paths.paths`."""
        return _paths(self, start, end, **options)

    def _ask(self, text, parameters, timeout, accept):
        """Sends a query; returns the answer if it is a success."""
        headers = {"Content-Type": "application/sparql-query"}
        answer = self._endpoint.send(
            "POST", "query", parameters, accept=accept, body=text.sent.encode(), headers=headers, timeout=timeout,
            repeatable=True,
        )  # fmt: skip
        return answer.check(_failure(exchange.of_query, text))

    def _asked(self, text, bindings, settings, default="default-graph-uri", named="named-graph-uri"):
        """Returns the text to send, its parameters and its timeout."""
        unknown = settings.keys() - {
            "timeout", "memory", "max_rows", "union_default_graph", "base", "service", "default_graphs", "named_graphs",
        }  # fmt: skip
        if unknown:
            raise TypeError(f"there is no setting {', '.join(sorted(unknown))}")
        graphs = [_name(graph) for graph in settings.get("default_graphs", ())]
        names = [_name(graph) for graph in settings.get("named_graphs", ())]
        if settings.get("union_default_graph"):
            if graphs or names:
                raise QueryError("the union of all graphs and a dataset exclude each other")
            graphs = list(_UNION)
            if "GRAPH" in text.upper():
                # A dataset without named graphs would have none for GRAPH.
                names = [graph.value for graph in self.graphs() if isinstance(graph, _pythiadb.NamedNode)]
        parameters = [(default, graph) for graph in graphs] + [(named, graph) for graph in names]
        timeout = settings.get("timeout")
        timeout = self._endpoint.timeout if timeout is None else seconds(timeout)
        parameters += _given(timeout=timeout, memory=size(settings.get("memory")), rows=settings.get("max_rows"))
        return bind(text, bindings, settings.get("base")), parameters, timeout


def _given(**parameters):
    """Returns the parameters that have a value."""
    return [(name, value) for name, value in parameters.items() if value is not None]


class _Nothing:
    """The answer about a graph that does not exist, which has no triples."""

    def some(self):
        return b""

    def read(self, size=-1):
        return b""

    def close(self):
        pass


def _failure(failure, text):
    """Returns the function that makes an exception, whose place is that in the text as it was given."""

    def made(status, message, place):
        return failure(status, message, text.place(*place) if place else None, text.original)

    return made


def _plan_text(plan):
    """Returns a plan as lines, from its JSON."""
    lines = []

    def add(node, depth, mark=""):
        line = f"{'  ' * depth}{mark}{node.get('operator', '')} {node.get('detail', '')}".rstrip()
        figures = [
            f"{name.replace('_', ' ')} {value:.4g}" if isinstance(value, float) else f"{name.replace('_', ' ')} {value}"
            for name, value in node.items()
            if name not in _EXPLAINED and isinstance(value, (int, float, str)) and not isinstance(value, bool)
        ]
        lines.append(f"{line} [{', '.join(figures)}]" if figures else line)
        for name, value in node.items():
            if isinstance(value, list):
                for each in value:
                    if isinstance(each, dict) and "operator" in each:
                        add(each, depth + 1, {"steps": "- ", "rejected": "rejected: "}.get(name, ""))
                    elif name == "warnings":
                        lines.append(f"warning: {each}")

    add(json.loads(plan), 0)
    return "\n".join(lines) + "\n"
