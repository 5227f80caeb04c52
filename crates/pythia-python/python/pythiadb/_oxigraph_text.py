"""The SPARQL results formats, read and written in Python.

Pythia's own writers take the solutions of a query from its start. These take any rows: those that are left of a query, and
those that were read from a file. A row is a list of terms, with None for unbound variables.
"""

import json
import re
import xml.etree.ElementTree as ElementTree

from . import _pythiadb
from ._pythiadb import BaseDirection, BlankNode, Literal, NamedNode, Triple
from .errors import PythiaError

_XSD = "http://www.w3.org/2001/XMLSchema#"
_RESULTS = "http://www.w3.org/2005/sparql-results#"
_ITS = "http://www.w3.org/2005/11/its"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

# The literals that TSV writes as Turtle does, without a datatype.
_SHORT = {
    _XSD + "boolean": re.compile(r"true|false"),
    _XSD + "integer": re.compile(r"[+-]?\d+", re.ASCII),
    _XSD + "decimal": re.compile(r"[+-]?\d*\.\d+", re.ASCII),
    _XSD + "double": re.compile(r"[+-]?(\d+\.\d*|\.?\d+)[eE][+-]?\d+", re.ASCII),
}
_QUOTED = re.compile(
    r'"(?P<value>[^"\\]*)"(?:@(?P<language>[A-Za-z0-9-]+?)(?:--(?P<direction>ltr|rtl))?|\^\^<(?P<datatype>[^<>\\]*)>)?'
)


def syntax_error(message, path, line=None, column=None, end=None):
    """Returns the exception of results that cannot be read, with its place if it is known."""
    if line is None:
        return SyntaxError(message)
    return SyntaxError(message, (path, line, column, None, line, end or column + 1))


# Writing


def boolean_text(value, code):
    """Returns the answer of an ASK as text."""
    word = "true" if value else "false"
    if code == "json":
        return f'{{"head":{{}},"boolean":{word}}}'
    if code == "xml":
        return f'<?xml version="1.0"?><sparql xmlns="{_RESULTS}"><head></head><boolean>{word}</boolean></sparql>'
    return word


def solutions_text(names, rows, code):
    """Returns solutions as text; `names` are those of the variables."""
    return _WRITERS[code](names, rows)


def _json_text(names, rows):
    bindings = [
        {name: _json_of(term) for name, term in zip(names, row) if term is not None} for row in rows
    ]
    document = {"head": {"vars": list(names)}, "results": {"bindings": bindings}}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _json_of(term):
    if isinstance(term, NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, Triple):
        parts = ("subject", "predicate", "object")
        return {"type": "triple", "value": {part: _json_of(each) for part, each in zip(parts, term)}}
    written = {"type": "literal", "value": term.value}
    if term.language is not None:
        written["xml:lang"] = term.language
        if term.direction is not None:
            written["its:dir"] = term.direction.value
    elif term.datatype.value != _XSD + "string":
        written["datatype"] = term.datatype.value
    return written


_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", "\r": "&#13;"})
# White space that readers of XML trim or replace: at the ends of a text, and in attributes.
_SPACES = str.maketrans({"\t": "&#9;", "\n": "&#10;", "\r": "&#13;", " ": "&#32;"})


def _xml_text(names, rows):
    parts = [f'<?xml version="1.0"?><sparql xmlns="{_RESULTS}"><head>']
    parts += (f'<variable name="{name}"/>' for name in names)
    parts.append("</head><results>")
    for row in rows:
        parts.append("<result>")
        for name, term in zip(names, row):
            if term is not None:
                parts.append(f'<binding name="{name}">{_xml_of(term)}</binding>')
        parts.append("</result>")
    parts.append("</results></sparql>")
    return "".join(parts)


def _xml_of(term):
    if isinstance(term, Triple):
        parts = zip(("subject", "predicate", "object"), term)
        return f"<triple>{''.join(f'<{part}>{_xml_of(each)}</{part}>' for part, each in parts)}</triple>"
    value = _xml_escaped(term.value)
    if isinstance(term, NamedNode):
        return f"<uri>{value}</uri>"
    if isinstance(term, BlankNode):
        return f"<bnode>{value}</bnode>"
    attributes = ""
    if term.language is not None:
        attributes = f' xml:lang="{term.language}"'
        if term.direction is not None:
            attributes += f' its:dir="{term.direction.value}" xmlns:its="{_ITS}" its:version="2.0"'
    elif term.datatype.value != _XSD + "string":
        attributes = f' datatype="{_xml_escaped(term.datatype.value)}"'
    return f"<literal{attributes}>{value}</literal>"


def _xml_escaped(text):
    inner = text.strip("\t\n\r ")
    if not inner:
        return text.translate(_SPACES)
    start, end = text.split(inner, 1)
    return start.translate(_SPACES) + inner.translate(_ESCAPES) + end.translate(_SPACES)


def _csv_text(names, rows):
    lines = [",".join(names)]
    lines += (",".join(map(_csv_of, row)) for row in rows)
    return "".join(f"{line}\r\n" for line in lines)


def _csv_of(term):
    if term is None:
        return ""
    if isinstance(term, BlankNode):
        return str(term)
    if isinstance(term, Triple):
        return " ".join(map(_csv_of, term))
    value = term.value
    if any(sign in value for sign in ',"\r\n'):
        return '"' + value.replace('"', '""') + '"'
    return value


def _tsv_text(names, rows):
    lines = ["\t".join(f"?{name}" for name in names)]
    lines += ("\t".join(map(_tsv_of, row)) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _tsv_of(term):
    if term is None:
        return ""
    if isinstance(term, Triple):
        return f"<<( {' '.join(map(_tsv_of, term))} )>>"
    if isinstance(term, Literal):
        short = _SHORT.get(term.datatype.value)
        if short and short.fullmatch(term.value):
            return term.value
    # A tab would end the cell.
    return str(term).replace("\t", "\\t")


_WRITERS = {"json": _json_text, "xml": _xml_text, "csv": _csv_text, "tsv": _tsv_text}


# Reading


def read(data, code, path):
    """Reads results: returns a boolean, or the names of the variables and an iterator of rows."""
    if code == "csv":
        raise syntax_error("CSV does not tell IRIs from literals, so it cannot be read; use TSV, JSON or XML", path)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise syntax_error(f"the results are not UTF-8: {error}", path) from error
    return _READERS[code](text, path)


def _read_json(text, path):
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise syntax_error(error.msg, path, error.lineno, error.colno) from error
    try:
        if "boolean" in document:
            return bool(document["boolean"])
        names = list(document["head"].get("vars", ()))
        bindings = document["results"]["bindings"]
        return names, iter([_row(names, binding.items(), _term_of_json) for binding in bindings])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise syntax_error(f"these are no SPARQL results: {error}", path) from error


def _row(names, bindings, term_of):
    row = [None] * len(names)
    for name, value in bindings:
        if name not in names:
            raise ValueError(f"?{name} is not among the variables")
        row[names.index(name)] = term_of(value)
    return row


def _term_of_json(value):
    kind, content = value["type"], value["value"]
    if kind == "uri":
        return NamedNode(content)
    if kind == "bnode":
        return BlankNode(content)
    if kind == "triple":
        return Triple(*(_term_of_json(content[part]) for part in ("subject", "predicate", "object")))
    if kind in ("literal", "typed-literal"):
        return _literal(content, value.get("datatype"), value.get("xml:lang"), value.get("its:dir"))
    raise ValueError(f"{kind!r} is no type of terms")


def _literal(value, datatype, language, direction):
    if language:
        direction = BaseDirection(direction) if direction else None
        return Literal(value, language=language, direction=direction)
    if direction:
        raise ValueError("a direction needs a language")
    return Literal(value, datatype=NamedNode(datatype) if datatype else None)


def _read_xml(text, path):
    try:
        root = ElementTree.fromstring(text.encode())
    except ElementTree.ParseError as error:
        line, column = error.position
        raise syntax_error(str(error), path, line, column + 1) from error
    try:
        answer = root.find(f"{{{_RESULTS}}}boolean")
        if answer is not None:
            return {"true": True, "false": False}[answer.text.strip()]
        names = [variable.attrib["name"] for variable in root.iter(f"{{{_RESULTS}}}variable")]
        results = root.find(f"{{{_RESULTS}}}results")
        if results is None:
            raise ValueError("there is neither <results> nor <boolean>")
        rows = [
            _row(names, ((binding.attrib["name"], binding[0]) for binding in result), _term_of_xml)
            for result in results
        ]
        return names, iter(rows)
    except (KeyError, IndexError, AttributeError, ValueError, TypeError) as error:
        raise syntax_error(f"these are no SPARQL results: {error}", path) from error


def _term_of_xml(element):
    kind, text = element.tag.removeprefix(f"{{{_RESULTS}}}"), element.text or ""
    if kind == "uri":
        return NamedNode(text.strip())
    if kind == "bnode":
        return BlankNode(text.strip())
    if kind == "literal":
        attributes = element.attrib
        return _literal(
            text, attributes.get("datatype"), attributes.get(_LANGUAGE), attributes.get(f"{{{_ITS}}}dir")
        )
    if kind == "triple":
        parts = {part.tag.removeprefix(f"{{{_RESULTS}}}"): part[0] for part in element}
        return Triple(*(_term_of_xml(parts[part]) for part in ("subject", "predicate", "object")))
    raise ValueError(f"<{kind}> is no term")


def _read_tsv(text, path):
    if text.strip() in ("true", "false"):
        return text.strip() == "true"
    lines = text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    if not lines:
        raise syntax_error("the line with the variables is missing", path, 1, 1)
    header = lines[0].split("\t") if lines[0] else []
    column = 1
    for name in header:
        if not re.fullmatch(r"[?$]\w+", name):
            raise syntax_error(f"{name!r} is no variable", path, 1, column, column + max(len(name), 1))
        column += len(name) + 1
    return [name[1:] for name in header], _tsv_rows(lines, len(header), path)


def _tsv_rows(lines, width, path):
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("\t") if width else [line] if line else []
        if len(cells) != width:
            message = f"the line has {len(cells)} cells, and there are {width} variables"
            raise syntax_error(message, path, number, 1, len(line) + 1)
        row, column = [], 1
        for cell in cells:
            try:
                row.append(_term_of_tsv(cell))
            except (ValueError, SyntaxError, PythiaError) as error:
                raise syntax_error(f"{cell} is no term: {error}", path, number, column, column + len(cell)) from error
            column += len(cell) + 1
        yield row


def _term_of_tsv(cell):
    if not cell:
        return None
    if cell.startswith("<") and cell.endswith(">") and not cell.startswith("<<") and "\\" not in cell:
        return NamedNode(cell[1:-1])
    if cell.startswith("_:"):
        return BlankNode(cell[2:])
    quoted = _QUOTED.fullmatch(cell)
    if quoted:
        return _literal(quoted["value"], quoted["datatype"], quoted["language"], quoted["direction"])
    for datatype, short in _SHORT.items():
        if short.fullmatch(cell):
            return Literal(cell, datatype=NamedNode(datatype))
    # What is left has escapes, or is a triple: the rest of the syntax of Turtle.
    statement = f"<urn:s> <urn:p> {cell} .".encode()
    quads = _pythiadb.parse({"source": statement, "format": "ttl", "base": None, "graph": None}, False)
    if len(quads) != 1:
        raise ValueError("it is more than one term")
    return quads[0].object


_READERS = {"json": _read_json, "xml": _read_xml, "tsv": _read_tsv}
