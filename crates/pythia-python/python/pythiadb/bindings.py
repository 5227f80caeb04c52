"""Bindings in the text of a query: a VALUES block at the start of its outermost group.

Only whole terms in the syntax of SPARQL are put in, so no value can change what the query asks.
"""

import re
from typing import NamedTuple

from . import _pythiadb
from .errors import QueryError

_TOKEN = re.compile(
    r"""
    (?P<skip> \#[^\n\r]* | \s+ )
    | (?P<term> \"\"\" (?:[^"\\]|\\.|"(?!""))* \"\"\" | ''' (?:[^'\\]|\\.|'(?!''))* '''
    | " (?:[^"\\\n\r]|\\.)* " | ' (?:[^'\\\n\r]|\\.)* '
    | <[^<>"{}|^`\\\x00-\x20]*> )
    | (?P<variable> [?$]\w+ )
    | (?P<word> [\w:@](?:[\w:.%\\-]*[\w:%-])? )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_FORMS = ("SELECT", "CONSTRUCT", "ASK", "DESCRIBE", "PATHS")
_ANY = None


class Insertion(NamedTuple):
    """Characters that were put into a text, and the place where they are in the new text."""

    at: int
    length: int


class Text(NamedTuple):
    """A text that was changed."""

    sent: str
    original: str
    insertions: tuple

    def place(self, line, column):
        """Returns the line and column of the original text for those of the text that was sent."""
        lines = self.sent.split("\n")
        at = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
        for insertion in reversed(self.insertions):
            if at >= insertion.at + insertion.length:
                at -= insertion.length
            elif at > insertion.at:
                at = insertion.at
        before = self.original[: max(at, 0)]
        return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def term_of(value):
    """Returns the term of a value: one of Python's own classes, of rdflib's, or a term."""
    global _ANY
    if _ANY is None:
        _ANY = _pythiadb.NamedNode("urn:pythia:any")
    return _pythiadb.Triple(_ANY, _ANY, value).object


def words(text, places=False):
    """Returns the tokens of a query without spaces and comments, or pairs of a token and its place.

    >>> words("PREFIX : <http://a#> # comment\\nASK { :s ?p 'o' }")
    ['PREFIX', ':', '<http://a#>', 'ASK', '{', ':s', '?p', "'o'", '}']
    """
    found = [(match[0], match.start()) for match in _TOKEN.finditer(text) if match.lastgroup != "skip"]
    return found if places else [token for token, _ in found]


def bind(text, bindings, base=None):
    """Returns a query with terms in the place of variables, as a Text. Variables that it does not have are left out.

    >>> bind("ASK { ?s ?p ?o }", {"o": 5}).sent
    'ASK { VALUES (?o) { ("5"^^<http://www.w3.org/2001/XMLSchema#integer>) } ?s ?p ?o }'
    """
    parts = []
    if base is not None:
        parts.append((0, f"BASE {_pythiadb.NamedNode(base)} "))
    given = {_name(name): term_of(value) for name, value in (bindings or {}).items()}
    for name, term in given.items():
        if _has_blank_node(term):
            raise QueryError(f"?{name}: a blank node in a query is a variable")
    if given:
        parts += _places(text, given)
    sent, insertions, shift = text, [], 0
    for at, added in sorted(parts, key=lambda part: part[0]):
        sent = sent[: at + shift] + added + sent[at + shift :]
        insertions.append(Insertion(at + shift, len(added)))
        shift += len(added)
    return Text(sent, text, tuple(insertions))


def _name(variable):
    name = variable.value if isinstance(variable, _pythiadb.Variable) else variable
    if not isinstance(name, str):
        raise TypeError("a variable is a str or a Variable")
    return _pythiadb.Variable(name[1:] if name[:1] in ("?", "$") else name).value


def _has_blank_node(term):
    if isinstance(term, _pythiadb.Triple):
        return any(map(_has_blank_node, term))
    return isinstance(term, _pythiadb.BlankNode)


def _places(text, given):
    """Returns what is put in, and where."""
    tokens = [
        (match.lastgroup, match[0], match.start(), match.end())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "skip"
    ]
    used = {token[1:] for kind, token, _, _ in tokens if kind == "variable"}
    given = {name: term for name, term in given.items() if name in used}
    if not given:
        return []
    names = " ".join(f"?{name}" for name in given)
    values = f"VALUES ({names}) {{ ({' '.join(map(str, given.values()))}) }}"
    form = next((at for at, (kind, token, _, _) in enumerate(tokens) if kind == "word" and token.upper() in _FORMS), None)
    if form is None:
        return []
    word = tokens[form][1].upper()
    if word == "PATHS":
        raise QueryError("a PATHS query on a server has no bindings: write the terms into it, or use paths()")
    at = form + 1
    if word == "CONSTRUCT":
        if at >= len(tokens) or tokens[at][1] != "{":
            # The short form, whose group has only triples.
            return [(len(text), f"\n{values}")]
        at = _closing(tokens, at) + 1
    group = _group(tokens, at)
    if group is None:
        return [(len(text), f"\n{{ {values} }}")]
    place = tokens[group][3]
    if group + 1 < len(tokens) and tokens[group + 1][1].upper() == "SELECT":
        return [(place, f" {values} {{"), (tokens[_closing(tokens, group)][2], "}")]
    return [(place, f" {values}")]


def _group(tokens, at):
    """Returns the place of the first group that is not in an expression."""
    depth = 0
    for place in range(at, len(tokens)):
        token = tokens[place][1]
        if token == "{" and depth == 0:
            return place
        depth += (token == "(") - (token == ")")
    return None


def _closing(tokens, at):
    """Returns the place of the brace that closes the one at a place, or of the last token."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place][1] == "{") - (tokens[place][1] == "}")
        if depth == 0:
            return place
    return len(tokens) - 1
