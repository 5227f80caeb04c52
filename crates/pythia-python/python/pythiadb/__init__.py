"""Pythia, an RDF database for solid-state storage.

>>> db = Database.in_memory()
>>> _ = db.load(b"<http://ex.org/Zeus> <http://ex.org/hasChild> <http://ex.org/Apollo> .", format="nt")
>>> for row in db.query("SELECT ?child { <http://ex.org/Zeus> <http://ex.org/hasChild> ?child }"):
...     print(row["child"].value)
http://ex.org/Apollo
"""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from .aio import AsyncDatabase
    from .remote import RemoteDatabase

# Loaded when they are used: a program that opens a store has no use for HTTP.
_LAZY = {"AsyncDatabase": "aio", "RemoteDatabase": "remote"}

__all__ = [
    "ArrowStream",
    "AsyncDatabase",
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
    "RemoteDatabase",
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


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)


def load_ipython_extension(shell):
    """Adds the magics `%%sparql` and `%%paths` to IPython: `%load_ext pythiadb`."""
    from .notebook import load_ipython_extension as load

    load(shell)
