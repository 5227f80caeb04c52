"""Formats of `pythiadb.oxigraph`, and where its functions read from and write to.

A format is given, or it is that of a path's extension. `.gz`, `.bz2` and `.zst` after the extension are compressions, which
Pythia reads by itself.
"""

import os
import warnings
from dataclasses import dataclass

_REGISTRY = "http://www.w3.org/ns/formats/"
_JSON_LD = "https://www.w3.org/ns/formats/data/JSON-LD"
_STREAMING = "http://www.w3.org/ns/json-ld#streaming"
_COMPRESSIONS = {".gz", ".bz2", ".zst"}


@dataclass(frozen=True, repr=False)
class _Format:
    name: str
    """The name for people."""
    iri: str
    """The IRI in W3C's registry of formats."""
    media_type: str
    file_extension: str
    code: str
    """The name of the format in Pythia; empty if Pythia does not have it."""

    def __str__(self):
        return self.name

    def __repr__(self):
        return f"<{type(self).__name__} {self.name}>"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @classmethod
    def from_extension(cls, extension):
        """Returns the format of a file extension, without its dot; None for an unknown one."""
        return cls._EXTENSIONS.get(extension.lower())

    @classmethod
    def from_media_type(cls, media_type):
        """Returns the format of a media type, which may be a common alias; None for an unknown one."""
        main, *parameters = media_type.split(";")
        kind, slash, subtype = main.strip().lower().partition("/")
        if not slash or kind.strip() not in ("application", "text"):
            return None
        format = cls._SUBTYPES.get(subtype.strip().removeprefix("x-"))
        return format and cls._with_parameters(format, parameters)

    @classmethod
    def _with_parameters(cls, format, parameters):
        return format


@dataclass(frozen=True, repr=False)
class RdfFormat(_Format):
    """A format of RDF: `TURTLE`, `TRIG`, `N_TRIPLES`, `N_QUADS`, `RDF_XML`, `JSON_LD` or `STREAMING_JSON_LD`.

    `N3` is there for its name; Pythia neither reads nor writes it.

    >>> RdfFormat.from_extension('ttl')
    <RdfFormat Turtle>
    """

    supports_datasets: bool = False
    """True if the format has named graphs."""

    @property
    def supports_rdf_star(self):
        """True if the format has triples as terms. Deprecated, as in pyoxigraph."""
        warnings.warn("supports_rdf_star is deprecated", DeprecationWarning, stacklevel=2)
        return self.code in ("nt", "nq", "ttl", "trig")

    @classmethod
    def _with_parameters(cls, format, parameters):
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            key, value = key.strip().lower(), value.strip().strip('"')
            if key == "charset" and value.lower() not in ("utf-8", "utf8", "ascii"):
                return None
            if key == "profile" and format is cls.JSON_LD and _STREAMING in value.split():
                format = cls.STREAMING_JSON_LD
        return format


@dataclass(frozen=True, repr=False)
class QueryResultsFormat(_Format):
    """A format of the results of SPARQL queries: `JSON`, `XML`, `CSV` or `TSV`.

    >>> QueryResultsFormat.from_media_type('application/sparql-results+json')
    <QueryResultsFormat SPARQL Results in JSON>
    """


def _rdf(name, media_type, extension, code, datasets=False, iri=None):
    return RdfFormat(name, iri or _REGISTRY + name.replace("/", "_"), media_type, extension, code, datasets)


def _results(word, media_type, extension):
    iri = f"{_REGISTRY}SPARQL_Results_{word}"
    return QueryResultsFormat(f"SPARQL Results in {word}", iri, media_type, extension, word.lower())


RdfFormat.JSON_LD = _rdf("JSON-LD", "application/ld+json", "jsonld", "jsonld", True, _JSON_LD)
RdfFormat.STREAMING_JSON_LD = _rdf(
    "Streaming JSON-LD", f"application/ld+json;profile={_STREAMING}", "jsonld", "streaming-json-ld", True, _JSON_LD
)
RdfFormat.N3 = _rdf("N3", "text/n3", "n3", "")
RdfFormat.N_QUADS = _rdf("N-Quads", "application/n-quads", "nq", "nq", True)
RdfFormat.N_TRIPLES = _rdf("N-Triples", "application/n-triples", "nt", "nt")
RdfFormat.RDF_XML = _rdf("RDF/XML", "application/rdf+xml", "rdf", "rdf")
RdfFormat.TRIG = _rdf("TriG", "application/trig", "trig", "trig", True)
RdfFormat.TURTLE = _rdf("Turtle", "text/turtle", "ttl", "ttl")

RdfFormat._EXTENSIONS = {
    "json": RdfFormat.JSON_LD,
    "jsonld": RdfFormat.JSON_LD,
    "n3": RdfFormat.N3,
    "nq": RdfFormat.N_QUADS,
    "nt": RdfFormat.N_TRIPLES,
    "rdf": RdfFormat.RDF_XML,
    "trig": RdfFormat.TRIG,
    "ttl": RdfFormat.TURTLE,
    "txt": RdfFormat.N_TRIPLES,
    "xml": RdfFormat.RDF_XML,
}
RdfFormat._SUBTYPES = {
    "activity+json": RdfFormat.JSON_LD,
    "json": RdfFormat.JSON_LD,
    "ld+json": RdfFormat.JSON_LD,
    "jsonld": RdfFormat.JSON_LD,
    "n-quads": RdfFormat.N_QUADS,
    "n-triples": RdfFormat.N_TRIPLES,
    "n3": RdfFormat.N3,
    "nquads": RdfFormat.N_QUADS,
    "ntriples": RdfFormat.N_TRIPLES,
    "plain": RdfFormat.N_TRIPLES,
    "rdf+xml": RdfFormat.RDF_XML,
    "trig": RdfFormat.TRIG,
    "turtle": RdfFormat.TURTLE,
    "xml": RdfFormat.RDF_XML,
}

QueryResultsFormat.CSV = _results("CSV", "text/csv; charset=utf-8", "csv")
QueryResultsFormat.JSON = _results("JSON", "application/sparql-results+json", "srj")
QueryResultsFormat.TSV = _results("TSV", "text/tab-separated-values; charset=utf-8", "tsv")
QueryResultsFormat.XML = _results("XML", "application/sparql-results+xml", "srx")

QueryResultsFormat._EXTENSIONS = {
    "csv": QueryResultsFormat.CSV,
    "json": QueryResultsFormat.JSON,
    "srj": QueryResultsFormat.JSON,
    "srx": QueryResultsFormat.XML,
    "tsv": QueryResultsFormat.TSV,
    "txt": QueryResultsFormat.CSV,
    "xml": QueryResultsFormat.XML,
}
QueryResultsFormat._SUBTYPES = {
    "csv": QueryResultsFormat.CSV,
    "json": QueryResultsFormat.JSON,
    "plain": QueryResultsFormat.CSV,
    "sparql-results+json": QueryResultsFormat.JSON,
    "sparql-results+xml": QueryResultsFormat.XML,
    "tab-separated-values": QueryResultsFormat.TSV,
    "tsv": QueryResultsFormat.TSV,
    "xml": QueryResultsFormat.XML,
}


def format_of(given, place, formats):
    """Returns a format of a class: the one that is given, or that of the extension of a path."""
    if isinstance(given, formats):
        format = given
    elif isinstance(given, str):
        warnings.warn(
            f"a media type instead of a {formats.__name__} is deprecated", DeprecationWarning, stacklevel=3
        )
        format = formats.from_media_type(given)
        if format is None:
            raise ValueError(f"{given!r} is no media type of a {formats.__name__}")
    elif given is not None:
        raise TypeError(f"a format is a {formats.__name__}, and not a {type(given).__name__}")
    elif not is_path(place):
        raise ValueError(f"without a path, a format is needed: a {formats.__name__}")
    else:
        format = _format_of_path(os.fspath(place), formats)
    if not format.code:
        raise ValueError(f"Pythia does not have the format {format.name}")
    return format


def _format_of_path(path, formats):
    path = os.fsdecode(path)
    stem, extension = os.path.splitext(path)
    if extension.lower() in _COMPRESSIONS:
        extension = os.path.splitext(stem)[1]
    if not extension:
        raise ValueError(f"the name {path} has no extension that tells a format; give format=")
    format = formats.from_extension(extension[1:])
    if format is None:
        raise ValueError(f"the extension {extension} tells no {formats.__name__}; give format=")
    return format


def is_path(place):
    return isinstance(place, (str, os.PathLike))


def source_of(input, path):
    """Returns what Pythia reads from: a path, bytes, or an open file. A text given as `input` is data, and no path."""
    if (input is None) == (path is None):
        raise ValueError("give either input or path")
    if path is not None:
        # A file that is missing is an error now, and not when the first statement is read.
        open(path, "rb").close()
        return os.fspath(path)
    if isinstance(input, str):
        return input.encode()
    if isinstance(input, (bytearray, memoryview)):
        return bytes(input)
    if isinstance(input, bytes) or hasattr(input, "read"):
        return input
    raise TypeError(f"a {type(input).__name__} cannot be read: give a text, bytes or an open file")


def read_bytes(input, path):
    """Returns all bytes of an input or of a file."""
    if path is not None and input is None:
        with open(path, "rb") as file:
            return file.read()
    source = source_of(input, path)
    data = source if isinstance(source, bytes) else source.read()
    return data.encode() if isinstance(data, str) else data


def write_bytes(data, output):
    """Writes bytes to a path or an open file; returns them if there is no output."""
    if output is None:
        return data
    if is_path(output):
        with open(output, "wb") as file:
            file.write(data)
        return None
    output.write(data)
    if hasattr(output, "flush"):
        output.flush()
    return None
