"""Paths between nodes, as objects."""

from typing import Any, NamedTuple

from . import _pythiadb
from .errors import QueryError

_PATH = "path"


class Edge(NamedTuple):
    """An edge of a path."""

    predicate: Any
    inverse: bool
    """True if the path goes from the object of the triple to its subject."""


class Path:
    """A path: nodes, and between each two the edge that joins them."""

    __slots__ = ("nodes", "edges", "cost")

    def __init__(self, nodes, edges, cost=None):
        self.nodes = nodes
        self.edges = edges
        self.cost = cost

    @property
    def start(self):
        """The first node."""
        return self.nodes[0]

    @property
    def end(self):
        """The last node."""
        return self.nodes[-1]

    @property
    def triples(self):
        """The triples that the path goes along."""
        steps = zip(self.nodes, self.edges, self.nodes[1:])
        return [
            _pythiadb.Triple(*((b, edge.predicate, a) if edge.inverse else (a, edge.predicate, b)))
            for a, edge, b in steps
        ]

    def __len__(self):
        return len(self.edges)

    def __eq__(self, other):
        return isinstance(other, Path) and (self.nodes, self.edges) == (other.nodes, other.edges)

    def __hash__(self):
        return hash((tuple(self.nodes), tuple(self.edges)))

    def __repr__(self):
        shown = [_label(self.nodes[0])]
        for edge, node in zip(self.edges, self.nodes[1:]):
            name = _label(edge.predicate)
            shown.append(f"←{name}─" if edge.inverse else f"─{name}→")
            shown.append(_label(node))
        return f"<Path {' '.join(shown)}>"

    def _repr_svg_(self):
        """Returns the path as a drawing, which notebooks show."""
        from .drawing import paths_svg

        return paths_svg([self])

    def to_networkx(self):
        """Returns the path as a directed graph of networkx."""
        return to_networkx([self])


def _label(term):
    value = getattr(term, "value", None)
    if value is None:
        return str(term)
    return value.rstrip("/#:").rpartition("/")[2].rpartition("#")[2] or value


def to_networkx(paths):
    """Returns paths as one directed multigraph of networkx: nodes are terms, and edges have their predicates."""
    import networkx

    graph = networkx.MultiDiGraph()
    for path in paths:
        for triple in path.triples:
            graph.add_edge(triple.subject, triple.object, key=triple.predicate, predicate=triple.predicate)
        graph.add_nodes_from(path.nodes)
    return graph


_MODES = {"shortest": "SHORTEST", "all": "ALL", "any shortest": "ANY SHORTEST", "all shortest": "ALL SHORTEST"}
_RESTRICTORS = ("walk", "trail", "acyclic", "simple")


def paths(database, start, end=None, *, via=None, weight=None, priority=None, where=None, mode=None, k=None,
          restrictor=None, min_length=None, max_length=None, limit=None, prefixes=None, **settings):
    """Returns the paths from a node to another one, or to any, as an iterator of Path.

    `start` and `end` are nodes, groups of SPARQL ('{ ?end a ex:Capital }') in which `?start` or `?end` stand for them,
    or None for any node. `via` says which edges a path has: a node or a list of nodes for predicates, or a text with a
    path expression ('(ex:road|^ex:road)+'); None is any edges. `weight` is a predicate or an expression, `where` a
    condition on each edge, `priority` a predicate. `mode` is 'any shortest', the default, 'all shortest' or 'all'; `k`
    asks for the k cheapest. `restrictor` is one of walk, trail, acyclic and simple. Texts may use the usual prefixes and
    those of `prefixes`.

    >>> db = Database.in_memory()
    >>> _ = db.load(b'<http://a> <http://p> <http://b> . <http://c> <http://p> <http://b> .', format='ttl')
    >>> a, c, p = (NamedNode(f'http://{name}') for name in 'acp')
    >>> list(db.paths(a, c, via='(<http://p>|^<http://p>)+'))
    [<Path a ─p→ b ←p─ c>]
    """
    lines = [f"PREFIX {name}: <{_pythiadb.NamedNode(iri).value}>" for name, iri in (prefixes or {}).items()]
    lines.append(f"PATHS {_mode(mode, k)} {_restrictor(restrictor)}")
    lines.append(f"START ?start{_ends(start)}")
    lines.append(f"END ?end{_ends(end)}")
    lines.append(f"VIA {_via(via)}")
    if weight is not None:
        lines.append(f"WEIGHT {weight if isinstance(weight, _pythiadb.NamedNode) else f'({weight})'}")
    if priority is not None:
        lines.append(f"PRIORITY {_node(priority)}")
    if where is not None:
        lines.append(f"WHERE {where if where.lstrip().startswith('{') else f'({where})'}")
    for name, value in (("MIN LENGTH", min_length), ("MAX LENGTH", max_length), ("LIMIT", limit)):
        if value is not None:
            lines.append(f"{name} {int(value)}")
    return _read(database.query("\n".join(lines), **settings))


def _read(solutions):
    for row in solutions:
        parts = _pythiadb.path_parts(row[_PATH])
        if parts is None:
            raise QueryError("the result has no path")
        nodes, edges = parts
        cost = row.get("cost")
        yield Path(nodes, [Edge(*edge) for edge in edges], None if cost is None else float(cost.value))


def _mode(mode, k):
    if k is not None:
        if mode not in (None, "shortest"):
            raise ValueError("k asks for the k cheapest paths: leave mode out")
        return f"SHORTEST {int(k)}"
    words = (mode or "any shortest").replace("_", " ").lower()
    if words not in _MODES or words == "shortest":
        raise ValueError(f"{mode!r} is no mode: 'any shortest', 'all shortest' or 'all', or k for the k cheapest")
    return _MODES[words]


def _restrictor(name):
    if name is None:
        return ""
    if name.lower() not in _RESTRICTORS:
        raise ValueError(f"{name!r} is no restrictor: one of {', '.join(_RESTRICTORS)}")
    return name.upper()


def _ends(given):
    if given is None:
        return ""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        return f" = {given}"
    return f" = {_node(given)}"


def _node(given):
    if isinstance(given, (_pythiadb.NamedNode, _pythiadb.Literal)):
        return str(given)
    if hasattr(given, "n3"):
        return given.n3()
    raise TypeError(f"a node is a NamedNode, and not a {type(given).__name__}")


def _via(given):
    if given is None:
        return "?predicate"
    if isinstance(given, _pythiadb.NamedNode):
        return f"{given}+"
    if isinstance(given, str) and not hasattr(given, "n3"):
        return given
    nodes = [given] if hasattr(given, "n3") else list(given)
    return f"({'|'.join(_node(node) for node in nodes)})+"
