"""Magics for IPython and Jupyter: `%load_ext pythiadb`, then `%%sparql` and `%%paths`.

A cell's result is shown as a table, a drawing or a chart. Everything that comes from data is escaped.
"""

import time
from html import escape

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from . import _pythiadb
from .aio import AsyncDatabase
from .bindings import words
from .database import Database
from .drawing import bar_svg, graph_svg, paths_svg, prefixed, short
from .paths import Edge, Path
from .remote import RemoteDatabase
from .rows import RemoteSolutions, native

_SHOWN = 200
_CELL_MAX = 300
_UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH")
_QUERIES = ("SELECT", "CONSTRUCT", "ASK", "DESCRIBE", "PATHS")
_DATABASES = (Database, RemoteDatabase, AsyncDatabase)
_CELL_STYLE = "text-align:left;white-space:pre-wrap;max-width:40em;overflow-wrap:anywhere"


class _Shown:
    """What a cell has given, with the time that it took."""

    def __init__(self, prefixes, seconds, is_cut):
        self.prefixes = prefixes
        self.seconds = seconds
        self.is_cut = is_cut

    def _caption(self, count, noun):
        more = "the first " if self.is_cut else ""
        return f"{more}{count} {noun}{'' if count == 1 else 's'} in {_time(self.seconds)}"

    def _repr_html_(self):
        return f"<div>{self._content()}<p><small>{escape(self._told())}</small></p></div>"

    def __repr__(self):
        return f"<{self._told()}>"


class Table(_Shown):
    """Solutions: `columns`, and `rows` of terms. It is shown as a table, or as a chart if `chart` says so."""

    def __init__(self, columns, rows, prefixes=None, seconds=0.0, is_cut=False, chart=None):
        super().__init__(prefixes or {}, seconds, is_cut)
        self.columns = columns
        self.rows = rows
        self.chart = chart

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows)

    def __getitem__(self, place):
        return self.rows[place]

    def to_pandas(self):
        """Returns the table as a DataFrame of pandas, with values of Python's own classes where there are any."""
        import pandas

        values = [[_plain(native(term)) for term in row] for row in self.rows]
        return pandas.DataFrame(values, columns=self.columns)

    def _told(self):
        return self._caption(len(self.rows), "row")

    def _content(self):
        if self.chart:
            return self._chart_svg(*self.chart)
        head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f'<td style="{_CELL_STYLE}">{_cell(term, self.prefixes)}</td>' for term in row) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _chart_svg(self, kind, label, value):
        if kind != "bar":
            raise ValueError(f"{kind} is no chart: bar")
        places = []
        for name in (label, value):
            name = name.lstrip("?")
            if name not in self.columns:
                raise ValueError(f"there is no column {name} for the chart; there are {', '.join(self.columns)}")
            places.append(self.columns.index(name))
        labels, values = [], []
        for row in self.rows:
            try:
                number = float(native(row[places[1]]))
            except (TypeError, ValueError):
                continue
            if number - number == 0:
                labels.append(short(row[places[0]], self.prefixes))
                values.append(number)
        return bar_svg(labels, values, f"{value.lstrip('?')} by {label.lstrip('?')}")


class Drawing(_Shown):
    """Triples or paths, drawn as a graph. `triples` or `paths` has them."""

    def __init__(self, triples=None, paths=None, prefixes=None, seconds=0.0, is_cut=False):
        super().__init__(prefixes or {}, seconds, is_cut)
        self.triples = triples
        self.paths = paths

    def __len__(self):
        return len(self.triples if self.paths is None else self.paths)

    def __iter__(self):
        return iter(self.triples if self.paths is None else self.paths)

    def _told(self):
        return self._caption(len(self), "triple" if self.paths is None else "path")

    def _repr_svg_(self):
        """Returns the drawing alone."""
        return graph_svg(self.triples, self.prefixes) if self.paths is None else paths_svg(self.paths, self.prefixes)

    def _content(self):
        try:
            return f'<div style="overflow:auto">{self._repr_svg_()}</div>'
        except ValueError as error:
            triples = self.triples
            if triples is None:
                triples = list(dict.fromkeys(triple for path in self.paths for triple in path.triples))
            table = Table(["subject", "predicate", "object"], [tuple(triple) for triple in triples], self.prefixes)
            return f"<p>{escape(str(error))}</p>{table._content()}"


class Answer(_Shown):
    """A boolean, or what an update has changed: `value`."""

    def __init__(self, value, text, seconds):
        super().__init__({}, seconds, False)
        self.value = value
        self._text = text

    def __bool__(self):
        return bool(self.value)

    def _told(self):
        return f"{self._text} in {_time(self.seconds)}"

    def _repr_html_(self):
        return f"<p>{escape(self._text)} <small>in {_time(self.seconds)}</small></p>"


def _time(seconds):
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.{1 if seconds < 0.01 else 0}f} ms"


def _plain(value):
    """Returns the text of a term that has no value of Python's own classes."""
    return getattr(value, "value", None) or str(value) if type(value).__module__.startswith("pythiadb") else value


def _cell(term, prefixes):
    """Returns a term as HTML: an IRI short and as a link, a literal with its language or datatype."""
    if term is None:
        return ""
    if isinstance(term, _pythiadb.NamedNode):
        shown = escape(prefixed(term.value, prefixes) or f"<{term.value}>")
        address = escape(term.value)
        # Only these are links: javascript: is an IRI too.
        if term.value.startswith(("http://", "https://")):
            return f'<a href="{address}" title="{address}" target="_blank" rel="noopener noreferrer">{shown}</a>'
        return f'<span title="{address}">{shown}</span>'
    if isinstance(term, _pythiadb.Triple):
        return f"&lt;&lt;( {' '.join(_cell(part, prefixes) for part in term)} )&gt;&gt;"
    if not isinstance(term, _pythiadb.Literal):
        return escape(str(term))
    if (path := _path(term)) is not None:
        return escape(repr(path)[len("<Path ") : -1])
    text = escape(term.value if len(term.value) <= _CELL_MAX else term.value[: _CELL_MAX - 1] + "…")
    if term.language:
        return f"{text} <small>@{escape(term.language)}</small>"
    if isinstance(native(term), _pythiadb.Literal):
        return f"{text} <small>{escape(short(term.datatype, prefixes))}</small>"
    return text


def _path(term):
    parts = _pythiadb.path_parts(term) if isinstance(term, _pythiadb.Literal) else None
    return parts and Path(parts[0], [Edge(*edge) for edge in parts[1]])


def run(database, text, limit=_SHOWN, chart=None):
    """Runs a query or an update; returns a Table, a Drawing or an Answer. `limit` is how much is read, or None."""
    if isinstance(database, AsyncDatabase):
        database = database.database
    prefixes, form = _described(text)
    begun = time.perf_counter()
    if form in _UPDATES:
        changes = database.update(text)
        told = f"{changes.added} quads added, {changes.removed} removed"
        return Answer(changes, told, time.perf_counter() - begun)
    found = database.query(text)
    if isinstance(found, bool):
        return Answer(found, "yes" if found else "no", time.perf_counter() - begun)
    with found:
        items, is_cut = [], False
        for item in found:
            if len(items) == limit:
                is_cut = True
                break
            items.append(item)
    seconds = time.perf_counter() - begun
    if not isinstance(found, (_pythiadb.Solutions, RemoteSolutions)):
        return Drawing(triples=items, prefixes=prefixes, seconds=seconds, is_cut=is_cut)
    columns = found.columns
    if form == "PATHS" and "path" in columns and chart is None:
        paths = [_path(row["path"]) for row in items]
        return Drawing(paths=paths, prefixes=prefixes, seconds=seconds, is_cut=is_cut)
    return Table(columns, [tuple(row) for row in items], prefixes, seconds, is_cut, chart)


def _described(text):
    """Returns the prefixes that a text declares, and the word that says what it is."""
    prefixes = {}
    tokens = words(text)
    for at, token in enumerate(tokens):
        if token.upper() == "PREFIX" and len(tokens) > at + 2 and tokens[at + 2].startswith("<"):
            prefixes[tokens[at + 1].removesuffix(":")] = tokens[at + 2][1:-1]
        elif token.upper() in _QUERIES + _UPDATES:
            return prefixes, token.upper()
    return prefixes, None


@magics_class
class PythiaMagics(Magics):
    """The magics."""

    @magic_arguments()
    @argument("database", nargs="?", help="variable with a database; needed if there are several")
    @argument("--to", metavar="VARIABLE", help="variable for the result, which is then not shown")
    @argument("--chart", nargs=3, metavar=("bar", "X", "Y"), help="chart of two columns: labels and numbers")
    @argument("--limit", default=str(_SHOWN), metavar="N", help=f"rows that are read, or all; default {_SHOWN}")
    @cell_magic
    def sparql(self, line, cell):
        """Runs a query or an update, and shows its result."""
        return self._run(parse_argstring(self.sparql, line), cell)

    @magic_arguments()
    @argument("database", nargs="?", help="variable with a database; needed if there are several")
    @argument("--to", metavar="VARIABLE", help="variable for the result, which is then not shown")
    @argument("--limit", default=str(_SHOWN), metavar="N", help=f"paths that are read, or all; default {_SHOWN}")
    @cell_magic
    def paths(self, line, cell):
        """Runs a PATHS query, whose first word may be left out, and draws the paths."""
        arguments = parse_argstring(self.paths, line)
        arguments.chart = None
        return self._run(arguments, _with_form(cell))

    def _run(self, arguments, text):
        if arguments.limit != "all" and not arguments.limit.isdecimal():
            raise UsageError(f"--limit {arguments.limit}: a number, or all")
        if arguments.chart and arguments.chart[0] != "bar":
            raise UsageError(f"--chart {arguments.chart[0]}: bar")
        if arguments.to and not arguments.to.isidentifier():
            raise UsageError(f"--to {arguments.to}: the name of a variable")
        limit = None if arguments.limit == "all" else int(arguments.limit)
        shown = run(self._database(arguments.database), text, limit, arguments.chart)
        if arguments.chart and isinstance(shown, Table):
            try:
                shown._content()
            except ValueError as error:
                raise UsageError(str(error)) from error
        if arguments.to:
            self.shell.user_ns[arguments.to] = shown
            return None
        return shown

    def _database(self, name):
        variables = self.shell.user_ns
        if name is not None:
            if not isinstance(variables.get(name), _DATABASES):
                raise UsageError(f"{name} is no variable with a database")
            return variables[name]
        open_ones = {
            id(value): key
            for key, value in variables.items()
            if isinstance(value, _DATABASES) and not key.startswith("_") and not getattr(value, "closed", False)
        }
        if len(open_ones) != 1:
            names = ", ".join(sorted(open_ones.values()))
            message = f"name one of the databases {names}" if names else "there is no variable with an open database"
            raise UsageError(message)
        return variables[next(iter(open_ones.values()))]


def _with_form(text):
    """Returns a PATHS query, to which its first word is added if it is missing."""
    tokens = words(text, places=True)
    at = 0
    while at < len(tokens) and tokens[at][0].upper() in ("PREFIX", "BASE"):
        at += 3 if tokens[at][0].upper() == "PREFIX" else 2
    if at >= len(tokens) or tokens[at][0].upper() == "PATHS":
        return text
    place = tokens[at][1]
    return f"{text[:place]}PATHS {text[place:]}"


def load_ipython_extension(shell):
    """Adds the magics to a shell."""
    shell.register_magics(PythiaMagics)
