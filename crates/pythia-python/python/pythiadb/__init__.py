"""Pythia, an RDF database for solid-state storage.

>>> db = Database.in_memory()
>>> _ = db.load(b"<http://ex.org/Zeus> <http://ex.org/hasChild> <http://ex.org/Apollo> .", format="nt")
>>> for row in db.query("SELECT ?child { <http://ex.org/Zeus> <http://ex.org/hasChild> ?child }"):
...     print(row["child"].value)
http://ex.org/Apollo
"""

from . import errors
from ._pythiadb import (
    ArrowStream,
    BaseDirection,
    BlankNode,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    Quads,
    Solution,
    Solutions,
    Triple,
    Triples,
    Variable,
    __version__,
)
from .database import Changes, Commit, Database, LoadReport, Transaction, parse, serialize, verify
from .errors import (
    CancelledError,
    ClosedError,
    ConflictError,
    CorruptionError,
    LimitError,
    LoadError,
    LockedError,
    NotAStoreError,
    ParseError,
    PythiaError,
    QueryError,
    QuerySyntaxError,
    ReadOnlyError,
    ServerError,
    StoreError,
    TimeoutError,
)
from .paths import Edge, Path

__all__ = [
    "ArrowStream",
    "BaseDirection",
    "BlankNode",
    "CancelledError",
    "Changes",
    "ClosedError",
    "Commit",
    "ConflictError",
    "CorruptionError",
    "Database",
    "DefaultGraph",
    "Edge",
    "LimitError",
    "Literal",
    "LoadError",
    "LoadReport",
    "LockedError",
    "NamedNode",
    "NotAStoreError",
    "ParseError",
    "Path",
    "PythiaError",
    "Quad",
    "Quads",
    "QueryError",
    "QuerySyntaxError",
    "ReadOnlyError",
    "ServerError",
    "Solution",
    "Solutions",
    "StoreError",
    "TimeoutError",
    "Transaction",
    "Triple",
    "Triples",
    "Variable",
    "__version__",
    "errors",
    "parse",
    "serialize",
    "verify",
]
