"""Graphs, paths and charts as SVG, with nothing but Python.

A drawing depends only on what is drawn: the same triples give the same text. Everything that comes from data is escaped.
"""

import hashlib
import math
import re
from html import escape

from . import _pythiadb

USUAL_PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "schema": "http://schema.org/",
}
NODES_MAX = 150
_LABEL_MAX = 24
_LOCAL = re.compile(r"[\w.%-]*", re.ASCII)
_RADIUS = 7
_MARGIN = 60
_COLORS = {"iri": "#2a6fbb", "blank": "#8a8a8a", "literal": "#3d8b4f", "end": "#c2571a"}
_STYLE = "font:11px sans-serif;background:#fff"
# Lines do not run through texts.
_HALO = 'style="paint-order:stroke" stroke="#fff" stroke-width="3"'


def short(term, prefixes=None, most=None):
    """Returns a term as people read it: an IRI with a prefix or as its last part, or the text of a literal.

    >>> short(NamedNode('http://www.w3.org/2000/01/rdf-schema#label'))
    'rdfs:label'
    >>> short(NamedNode('http://ex.org/people/Ada'), {'ex': 'http://ex.org/people/'})
    'ex:Ada'
    """
    if isinstance(term, _pythiadb.NamedNode):
        text = prefixed(term.value, prefixes) or term.value.rstrip("/#").rpartition("/")[2].rpartition("#")[2] or term.value
    elif isinstance(term, _pythiadb.BlankNode):
        text = str(term)
    elif isinstance(term, _pythiadb.Triple):
        text = f"<<( {' '.join(short(part, prefixes) for part in term)} )>>"
    else:
        text = "" if term is None else str(getattr(term, "value", term))
    return text if most is None or len(text) <= most else text[: most - 1] + "…"


def prefixed(iri, prefixes=None):
    """Returns an IRI with the longest prefix that fits, or None."""
    best = None
    for name, start in {**USUAL_PREFIXES, **(prefixes or {})}.items():
        if start and iri.startswith(start) and _LOCAL.fullmatch(iri, len(start)) and (best is None or len(start) > len(best[1])):
            best = name, start
    return best and f"{best[0]}:{iri[len(best[1]) :]}"


def graph_svg(triples, prefixes=None):
    """Returns triples as a drawing: nodes that are joined attract each other, and all others repel each other."""
    edges = list(dict.fromkeys((triple.subject, triple.predicate, triple.object) for triple in triples))
    nodes = list(dict.fromkeys(node for edge in edges for node in (edge[0], edge[2])))
    _check(nodes)
    return _svg(nodes, edges, _by_force(nodes, edges), prefixes, frozenset())


def paths_svg(paths, prefixes=None):
    """Returns paths as one drawing, from left to right; what paths share is drawn once."""
    layers, edges, ends = {}, {}, set()
    for path in paths:
        for at, node in enumerate(path.nodes):
            layers[node] = min(at, layers.get(node, at))
        for source, edge, target in zip(path.nodes, path.edges, path.nodes[1:]):
            edges[(target, edge.predicate, source) if edge.inverse else (source, edge.predicate, target)] = None
        ends.update((path.start, path.end))
    _check(layers)
    edges = list(edges)
    return _svg(list(layers), edges, _by_layers(layers, edges), prefixes, ends)


def bar_svg(labels, values, title):
    """Returns numbers as horizontal bars. Negative ones go to the left."""
    label_width = min(30, max(map(len, labels), default=0)) * 6.5 + 12
    width, height, step = 420, 16, 22
    low, high = min([0, *values]), max([0, *values])
    scale = width / ((high - low) or 1)
    zero = label_width - low * scale
    parts = []
    for row, (label, value) in enumerate(zip(labels, values)):
        y = 24 + row * step
        x = zero + min(value, 0) * scale
        shown = label if len(label) <= 30 else label[:29] + "…"
        parts.append(
            f'<g><title>{escape(label)}: {value:g}</title>'
            f'<text x="{label_width - 6:.1f}" y="{y + 12}" text-anchor="end">{escape(shown)}</text>'
            f'<rect x="{x:.1f}" y="{y}" width="{max(abs(value) * scale, 0.5):.1f}" height="{height}" fill="{_COLORS["iri"]}"/>'
            f'<text x="{zero + max(value, 0) * scale + 4:.1f}" y="{y + 12}">{value:g}</text></g>'
        )
    parts.append(f'<line x1="{zero:.1f}" y1="20" x2="{zero:.1f}" y2="{24 + len(values) * step}" stroke="#666"/>')
    head = f'<text x="{label_width:.1f}" y="13" font-weight="bold">{escape(title)}</text>'
    return _frame(label_width + width + 80, 32 + len(values) * step, head + "".join(parts))


def _check(nodes):
    if len(nodes) > NODES_MAX:
        raise ValueError(f"{len(nodes)} nodes are too many for a drawing, which has at most {NODES_MAX}")


def _by_layers(layers, edges):
    """Returns the places of nodes, each in the column of its layer, near the nodes that it is joined with."""
    columns = {}
    for node, layer in layers.items():
        columns.setdefault(layer, []).append(node)
    joined = {node: [] for node in layers}
    for source, _, target in edges:
        joined[source].append(target)
        joined[target].append(source)
    height = {}
    for _ in range(8):
        for column in columns.values():
            for at, node in enumerate(column):
                height[node] = at - (len(column) - 1) / 2
        for layer in sorted(columns):
            near = {
                node: [height[other] for other in joined[node] if layers[other] < layer] or [height[node]]
                for node in columns[layer]
            }
            columns[layer].sort(key=lambda node: sum(near[node]) / len(near[node]))
    return {
        node: (layer * 170.0, (at - (len(column) - 1) / 2) * 64.0)
        for layer, column in columns.items()
        for at, node in enumerate(column)
    }


def _by_force(nodes, edges):
    """Returns the places of nodes (Fruchterman and Reingold, 1991), from a spiral in the order of the nodes."""
    count, ideal = len(nodes), 110.0
    index = {node: at for at, node in enumerate(nodes)}
    xs = [ideal * 0.6 * math.sqrt(at) * math.cos(at * 2.399963) for at in range(count)]
    ys = [ideal * 0.6 * math.sqrt(at) * math.sin(at * 2.399963) for at in range(count)]
    pairs = sorted({(index[source], index[target]) for source, _, target in edges if source != target})
    rounds = max(40, min(250, 400_000 // (count * count + 1)))
    for step in range(rounds):
        forces = [[-xs[at] * 0.02, -ys[at] * 0.02] for at in range(count)]
        for a in range(count):
            for b in range(a):
                dx, dy = xs[a] - xs[b], ys[a] - ys[b]
                push = ideal * ideal / (dx * dx + dy * dy + 0.01)
                forces[a][0] += dx * push
                forces[a][1] += dy * push
                forces[b][0] -= dx * push
                forces[b][1] -= dy * push
        for a, b in pairs:
            dx, dy = xs[a] - xs[b], ys[a] - ys[b]
            pull = math.sqrt(dx * dx + dy * dy) / ideal
            forces[a][0] -= dx * pull
            forces[a][1] -= dy * pull
            forces[b][0] += dx * pull
            forces[b][1] += dy * pull
        heat = ideal * 0.5 * (1 - step / rounds) + 0.5
        for at, (fx, fy) in enumerate(forces):
            length = math.sqrt(fx * fx + fy * fy) or 1
            xs[at] += fx / length * min(length, heat)
            ys[at] += fy / length * min(length, heat)
    return {node: (xs[at], ys[at]) for at, node in enumerate(nodes)}


def _svg(nodes, edges, places, prefixes, ends):
    if not nodes:
        return _frame(80, 30, '<text x="8" y="19">nothing</text>')
    left = min(x for x, _ in places.values()) - _MARGIN
    top = min(y for _, y in places.values()) - _MARGIN
    width = max(x for x, _ in places.values()) - left + _MARGIN
    height = max(y for _, y in places.values()) - top + _MARGIN
    places = {node: (x - left, y - top) for node, (x, y) in places.items()}
    name = "arrow-" + hashlib.sha256(repr([list(map(str, edge)) for edge in edges]).encode()).hexdigest()[:12]
    parts = [
        f'<defs><marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="#888"/></marker></defs>'
    ]
    between = {}
    for source, predicate, target in edges:
        number = between.setdefault(frozenset((source, target)), [])
        # Edges between the same nodes bend away from each other. The side is that of the pair, not of the direction.
        bend = ((len(number) + 1) // 2) * (28 if len(number) % 2 else -28)
        first = number[0] if number else source
        number.append(first)
        parts.append(_edge(places[source], places[target], bend if first == source else -bend, len(number), predicate, prefixes, name))
    for node in nodes:
        x, y = places[node]
        kind = "end" if node in ends else _kind(node)
        parts.append(
            f'<g><title>{escape(str(node))}</title>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" fill="{_COLORS[kind]}"/>'
            f'<text x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle" {_HALO}>{escape(short(node, prefixes, _LABEL_MAX))}</text></g>'
        )
    return _frame(width, height, "".join(parts))


def _edge(start, end, bend, number, predicate, prefixes, arrow):
    (x1, y1), (x2, y2) = start, end
    label = escape(short(predicate, prefixes, _LABEL_MAX))
    title = f"<title>{escape(str(predicate or ''))}</title>"
    line = f'fill="none" stroke="#888" marker-end="url(#{arrow})"'
    text = f'text-anchor="middle" fill="#555" font-size="10" {_HALO}'
    if start == end:
        up = 26 + 12 * number
        return (
            f'<g>{title}<path d="M{x1 - 5:.1f},{y1 - 6:.1f} C{x1 - up:.1f},{y1 - up:.1f} {x1 + up:.1f},{y1 - up:.1f} '
            f'{x1 + 5:.1f},{y1 - 7:.1f}" {line}/><text x="{x1:.1f}" y="{y1 - up * 0.8:.1f}" {text}>{label}</text></g>'
        )
    length = math.hypot(x2 - x1, y2 - y1) or 1
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    mx, my = (x1 + x2) / 2 - uy * bend * 2, (y1 + y2) / 2 + ux * bend * 2
    # The curve begins and ends at the rims of the nodes, in the direction of its control point.
    back = math.hypot(x2 - mx, y2 - my) or 1
    x3, y3 = x2 - (x2 - mx) / back * (_RADIUS + 1), y2 - (y2 - my) / back * (_RADIUS + 1)
    lx, ly = (x1 + 2 * mx + x2) / 4, (y1 + 2 * my + y2) / 4
    return (
        f'<g>{title}<path d="M{x1:.1f},{y1:.1f} Q{mx:.1f},{my:.1f} {x3:.1f},{y3:.1f}" {line}/>'
        f'<text x="{lx:.1f}" y="{ly - 4:.1f}" {text}>{label}</text></g>'
    )


def _kind(node):
    if isinstance(node, _pythiadb.NamedNode):
        return "iri"
    return "blank" if isinstance(node, _pythiadb.BlankNode) else "literal"


def _frame(width, height, content):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" style="{_STYLE}">{content}</svg>'
    )


# For the examples above.
NamedNode = _pythiadb.NamedNode
