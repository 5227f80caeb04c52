"""Databases for asyncio: the same methods, awaited.

The work is done by threads of the database's own, so the event loop goes on meanwhile. If a task is cancelled, it stops
waiting. A request to a server is then cancelled too, and the server stops the query. A query on a database of this process
runs on in its thread to its next rows; give it a `timeout`.
"""

import asyncio
import concurrent.futures
import contextvars
import itertools
import os

from .database import Database
from .exchange import Cancellation, cancellation
from .paths import paths as _paths

_THREADS = min(32, (os.cpu_count() or 1) + 4)
_ROWS_MAX = 1024


class AsyncDatabase:
    """A Database or RemoteDatabase whose methods are awaited.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncDatabase(Database.in_memory()) as db:
    ...         await db.update("INSERT DATA { <http://a> <http://b> 1, 2 }")
    ...         return [row.x async for row in await db.query("SELECT ?x { ?s ?p ?x } ORDER BY ?x", native=True)]
    >>> asyncio.run(main())
    [1, 2]
    """

    def __init__(self, database, *, threads=None):
        self.database = database
        self._executor = concurrent.futures.ThreadPoolExecutor(threads or _THREADS, thread_name_prefix="pythiadb")

    @classmethod
    async def open(cls, path, **options):
        """Opens the store in a folder; options are those of `Database.open`."""
        return cls(await asyncio.to_thread(Database.open, path, **options))

    @classmethod
    async def create(cls, path, **options):
        """Opens the store in a folder, and makes an empty one there if there is none."""
        return cls(await asyncio.to_thread(Database.create, path, **options))

    @classmethod
    def in_memory(cls, **options):
        """Returns an empty database that is gone when it is closed."""
        return cls(Database.in_memory(**options))

    @classmethod
    def connect(cls, url, **options):
        """Returns the dataset at an address of a server; options are those of `Database.connect`."""
        return cls(Database.connect(url, **options))

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exception):
        await self.close()
        return False

    def __repr__(self):
        return f"<AsyncDatabase of {self.database!r}>"

    async def close(self):
        """Closes the database, and waits for work that is under way."""
        await asyncio.to_thread(self._close)

    def _close(self):
        self.database.close()
        self._executor.shutdown()

    async def run(self, work, *arguments, **options):
        """Calls a function in a thread of the database, and returns what it returns."""
        token = Cancellation()
        context = contextvars.copy_context()
        context.run(cancellation.set, token)
        loop = asyncio.get_running_loop()
        call = lambda: context.run(work, *arguments, **options)
        try:
            return await loop.run_in_executor(self._executor, call)
        except asyncio.CancelledError:
            token.cancel()
            raise

    async def query(self, text, bindings=None, **settings):
        """Runs a query: returns an AsyncResult, or a boolean."""
        found = await self.run(self.database.query, text, bindings, **settings)
        return found if isinstance(found, bool) else AsyncResult(self, found)

    async def explain(self, text, bindings=None, **settings):
        """Returns the plan of a query."""
        return await self.run(self.database.explain, text, bindings, **settings)

    async def update(self, text, **settings):
        """Runs an update: all of its operations, or none."""
        return await self.run(self.database.update, text, **settings)

    async def load(self, source, **settings):
        """Loads data; an iterable of quads is read by another thread."""
        return await self.run(self.database.load, source, **settings)

    async def dump(self, output=None, **settings):
        """Writes all quads to a path or file, or returns them as bytes."""
        return await self.run(self.database.dump, output, **settings)

    def quads(self, *pattern, **named):
        """Returns the quads that match a pattern, for `async for`."""
        return AsyncResult(self, None, lambda: self.database.quads(*pattern, **named))

    def paths(self, start, end=None, **options):
        """Returns paths between nodes, for `async for`; see `pythiadb.paths.paths`."""
        return AsyncResult(self, None, lambda: _paths(self.database, start, end, **options))

    def __aiter__(self):
        return self.quads()

    async def contains(self, quad):
        """Returns whether the database has a quad."""
        return await self.run(lambda: quad in self.database)

    async def count(self):
        """Returns the number of quads."""
        return await self.run(lambda: len(self.database))

    async def graphs(self):
        """Returns the names of the named graphs."""
        return await self.run(self.database.graphs)

    async def stats(self):
        """Returns figures of the store."""
        return await self.run(lambda: self.database.stats)

    def transaction(self, *, serializable=False):
        """Begins a transaction, for `async with`. At the end its changes are committed; after an exception they are
        discarded."""
        return AsyncTransaction(self, serializable)


class AsyncResult:
    """Rows, triples, quads or paths, for `async for`. Several are fetched at a time: one at first, then more."""

    def __init__(self, database, result, begin=None):
        self._database = database
        self._result = result
        self._begin = begin
        self._fetched = iter(())
        self._size = 1
        # Tasks that read one result take turns.
        self._turn = asyncio.Lock()

    @property
    def columns(self):
        """The names of the columns of solutions."""
        return self._result.columns

    @property
    def variables(self):
        """The variables of solutions."""
        return self._result.variables

    def __aiter__(self):
        return self

    async def __anext__(self):
        async with self._turn:
            for item in self._fetched:
                return item
            fetched = await self._database.run(self._fetch, self._size)
            if not fetched:
                raise StopAsyncIteration
            self._size = min(self._size * 4, _ROWS_MAX)
            self._fetched = iter(fetched)
            return next(self._fetched)

    def _fetch(self, size):
        if self._result is None:
            self._result = self._begin()
        return list(itertools.islice(self._result, size))

    async def fetchone(self):
        """Returns the next item, or None at the end."""
        return await anext(self, None)

    async def fetchmany(self, size):
        """Returns a list of the next items, at most `size`."""
        async with self._turn:
            fetched = list(itertools.islice(self._fetched, size))
            return fetched + await self._database.run(self._fetch, size - len(fetched))

    async def fetchall(self):
        """Returns a list of all items that were not read yet."""
        async with self._turn:
            return [*self._fetched, *await self._database.run(self._fetch, None)]

    async def write(self, output=None, format=None):
        """Writes the whole result to a file, a path or bytes."""
        return await self._database.run(self._result.write, output, format)

    async def to_arrow(self):
        """Returns all solutions as a stream of Arrow."""
        return await self._database.run(self._result.to_arrow)

    async def close(self):
        """Frees the result."""
        if hasattr(self._result, "close"):
            await self._database.run(self._result.close)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exception):
        await self.close()
        return False

    def __repr__(self):
        return f"<AsyncResult of {self._result!r}>"


class AsyncTransaction:
    """A transaction whose methods are awaited; see `Transaction`.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncDatabase(Database.in_memory()) as db:
    ...         async with db.transaction() as t:
    ...             await t.add((NamedNode('http://a'), NamedNode('http://b'), 1))
    ...         return await db.count()
    >>> asyncio.run(main())
    1
    """

    def __init__(self, database, serializable):
        self._database = database
        self._serializable = serializable
        self.transaction = None

    async def __aenter__(self):
        self.transaction = await self._database.run(
            self._database.database.transaction, serializable=self._serializable
        )
        return self

    async def __aexit__(self, kind, error, trace):
        if kind is not None:
            await self.rollback()
        elif not self.transaction.closed:
            await self.commit()
        return False

    async def query(self, text, **settings):
        """Runs a query on the transaction's view."""
        found = await self._database.run(self.transaction.query, text, **settings)
        return found if isinstance(found, bool) else AsyncResult(self._database, found)

    async def update(self, text):
        """Runs an update in the transaction."""
        return await self._database.run(self.transaction.update, text)

    async def add(self, quad):
        """Adds a quad; returns whether it is new."""
        return await self._database.run(self.transaction.add, quad)

    async def extend(self, quads):
        """Adds quads; returns how many are new."""
        return await self._database.run(self.transaction.extend, quads)

    async def remove(self, quad):
        """Removes a quad; returns whether it was there."""
        return await self._database.run(self.transaction.remove, quad)

    async def remove_all(self, quads):
        """Removes quads; returns how many were there."""
        return await self._database.run(self.transaction.remove_all, quads)

    async def contains(self, quad):
        """Returns whether the transaction's view has a quad."""
        return await self._database.run(lambda: quad in self.transaction)

    def quads(self, *pattern, **named):
        """Returns the quads of the view that match a pattern, for `async for`."""
        return AsyncResult(self._database, None, lambda: self.transaction.quads(*pattern, **named))

    async def commit(self, key=None):
        """Makes the changes durable and visible, and ends the transaction."""
        return await self._database.run(self.transaction.commit, key)

    async def rollback(self):
        """Discards the changes."""
        # Not awaited in another thread: it must happen although the task is being cancelled.
        self.transaction.rollback()
