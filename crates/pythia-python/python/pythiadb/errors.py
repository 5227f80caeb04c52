"""Exceptions. All are a PythiaError; where Python has a class for the case, they are one of that too."""

import builtins


class PythiaError(Exception):
    """Something that failed in Pythia."""


class QueryError(PythiaError):
    """A query or update that cannot be run, or that failed while it ran."""


class QuerySyntaxError(QueryError, builtins.SyntaxError):
    """A query or update with a syntax error: `lineno`, `offset` and `text` say where."""

    def __init__(self, message, details=None):
        # SyntaxError takes the place apart.
        super().__init__(message, details) if details else super().__init__(message)


class TimeoutError(QueryError, builtins.TimeoutError):
    """A query that took longer than its timeout."""


class CancelledError(QueryError):
    """A query that was stopped."""


class LimitError(QueryError, MemoryError):
    """A query that needs more memory, temporary files or rows than it may have."""


class ConflictError(PythiaError):
    """A transaction that conflicts with one committed before: repeat all of it in a new transaction."""


class ReadOnlyError(PythiaError):
    """A change of a database that is open for reading."""


class ClosedError(PythiaError, ValueError):
    """A use of a database, transaction or result that is closed."""


class StoreError(PythiaError, OSError):
    """A store that cannot be opened, read or written."""


class LockedError(StoreError):
    """A store that another process has open."""


class NotAStoreError(StoreError, FileNotFoundError):
    """A folder that is missing, or is not a store."""


class CorruptionError(StoreError):
    """A store with damaged files."""


class ParseError(PythiaError, builtins.SyntaxError):
    """Data with a syntax error: `filename`, `lineno` and `offset` say where."""

    def __init__(self, message, details=None):
        super().__init__(message, details) if details else super().__init__(message)


class LoadError(PythiaError):
    """Data that cannot be loaded."""


class ServerError(PythiaError):
    """A server that cannot be reached, or that refuses a request: `status` is its answer's, if there is one.

    `retry_after` is its header Retry-After: the seconds after which to send the request again.
    """

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status
        self.retry_after = None
