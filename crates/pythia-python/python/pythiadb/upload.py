"""Data for a server: its format, its compression, and its bytes in pieces."""

import bz2
import io
import itertools
import os
import re
import zlib
from typing import Any, NamedTuple

from . import _pythiadb
from .errors import LoadError
from .rows import GRAPH_FORMATS

_PIECE = 1 << 18
_START = 4096
_QUADS = 4096
_ENDINGS = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd", "bz2": "bzip2", "bzip2": "bzip2"}
_NAMES = {"xml": "rdf", "rdfxml": "rdf", "owl": "rdf", "json": "jsonld", "turtle": "ttl", "ntriples": "nt", "nquads": "nq"}
_DATASETS = {"nq": "nt", "trig": "ttl"}


class Upload(NamedTuple):
    """A body: its media type, its Content-Encoding or None, its size or None, its bytes, and its name for errors."""

    media_type: str
    encoding: str | None
    size: int | None
    pieces: Any
    name: str

    @property
    def headers(self):
        """The headers that describe the body."""
        headers = {"Content-Type": self.media_type}
        if self.encoding:
            headers["Content-Encoding"] = self.encoding
        if self.size is not None:
            headers["Content-Length"] = str(self.size)
        return headers


def of_source(source, format, base, to_graph):
    """Returns the upload of a path, bytes or an open file. `to_graph` says that the data goes to one graph."""
    size = None
    if isinstance(source, (bytes, bytearray)):
        name, file, size = "<bytes>", io.BytesIO(source), len(source)
    elif hasattr(source, "read"):
        given = getattr(source, "name", None)
        name, file = (given if isinstance(given, str) else "<file>"), source
    else:
        name = os.fspath(source)
        file = open(name, "rb")
        size = os.fstat(file.fileno()).st_size if os.path.isfile(name) else None
    try:
        return _described(name, _pieces(file, file is not source), size, format, base, to_graph)
    except BaseException:
        if file is not source:
            file.close()
        raise


def _described(name, pieces, size, format, base, to_graph):
    start = next(pieces, b"")
    while len(start) < _START and (more := next(pieces, b"")):
        start += more
    ending, encoding = _of_name(name)
    encoding = _of_start(start) or (encoding if encoding != "gzip" or start.startswith(b"\x1f\x8b") else None)
    pieces = itertools.chain([start], pieces)
    if encoding == "bzip2":
        # Servers do not take bzip2.
        encoding, size = None, None
        pieces = _decompressed(pieces)
        start = next(pieces, b"")
        pieces = itertools.chain([start], pieces)
    named = _known(format) if format is not None else ending
    if named is None:
        if name not in ("<bytes>", "<file>"):
            raise LoadError(f"{name}: the name does not tell a format; give format='nt', for example")
        if encoding == "zstd":
            raise LoadError(f"{name}: the format of compressed data is needed; give format='nt', for example")
        head = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(start, _START) if encoding == "gzip" else start
        named = guess(head)
        if to_graph:
            named = _DATASETS.get(named, named)
    if base is not None:
        if named not in ("ttl", "trig", "nt", "nq") or encoding:
            raise ValueError("a server takes a base for Turtle and TriG that are not compressed")
        if named in ("ttl", "trig"):
            directive = f"@base {_pythiadb.NamedNode(base)} . ".encode()
            pieces = itertools.chain([directive], pieces)
            size = None if size is None else size + len(directive)
    return Upload(GRAPH_FORMATS[named], encoding, size, pieces, name)


def of_quads(quads):
    """Returns the upload of quads: N-Quads, made while they are sent."""

    def pieces():
        left = iter(quads)
        while some := list(itertools.islice(left, _QUADS)):
            yield _pythiadb.serialize(some, "nq", [])

    return Upload(GRAPH_FORMATS["nq"], None, None, pieces(), "<quads>")


def with_progress(upload, progress):
    """Returns an upload that calls a function with 'send', the bytes that were sent, their total or 0, and 0."""

    def pieces():
        sent = 0
        for piece in upload.pieces:
            yield piece
            sent += len(piece)
            progress("send", sent, upload.size or 0, 0)

    return upload._replace(pieces=pieces())


def _pieces(file, is_ours):
    try:
        while piece := file.read(_PIECE):
            yield piece.encode() if isinstance(piece, str) else bytes(piece)
    finally:
        if is_ours:
            file.close()


def _decompressed(pieces):
    decompressor = bz2.BZ2Decompressor()
    for piece in pieces:
        while piece:
            if decompressor.eof:
                decompressor = bz2.BZ2Decompressor()
            text = decompressor.decompress(piece, _PIECE)
            if text:
                yield text
            while not decompressor.eof and not decompressor.needs_input:
                yield decompressor.decompress(b"", _PIECE)
            piece = decompressor.unused_data if decompressor.eof else b""
    if not decompressor.eof:
        raise LoadError("the data ends in the middle of its compression")


def _of_name(name):
    """Returns the format and the compression that the name of a file tells."""
    rest, _, ending = name.lower().rpartition(".")
    encoding = _ENDINGS.get(ending)
    if encoding:
        ending = rest.rpartition(".")[2]
    ending = _NAMES.get(ending, ending)
    return (ending if ending in GRAPH_FORMATS else None), encoding


def _of_start(start):
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    if re.match(rb"BZh[1-9]1AY&SY", start):
        return "bzip2"
    return None


def _known(format):
    name = format.lstrip(".").lower()
    name = _NAMES.get(name, name)
    if name not in GRAPH_FORMATS:
        raise ValueError(f"{format} is no format of RDF: one of nt, nq, ttl, trig, rdf, jsonld")
    return name


def guess(start):
    """Returns the format that the start of data looks like. TriG contains Turtle and N-Triples.

    >>> guess(b'<http://a> <http://b> <http://c> .')
    'nq'
    >>> guess(b'@prefix : <http://a#> . :a :b :c .')
    'trig'
    """
    text = start[:_START].decode(errors="ignore").lstrip("\ufeff").lstrip()
    if re.match(r'[{\[]\s*["{}\]]', text) and not text.startswith("[]"):
        return "jsonld"
    if text.startswith(("<?xml", "<rdf:", "<!")):
        return "rdf"
    lines = (line.strip() for line in text.splitlines())
    lines = [line for line in lines if line and not line.startswith("#")][:2]
    is_line = lambda line: line.startswith(("<", "_:")) and line.endswith(".")
    if lines and is_line(lines[0]) and (len(lines) == 1 or is_line(lines[1]) or not text.endswith("\n")):
        return "nq"
    return "trig"
