"""Requests to a server, over connections that are kept open.

`Endpoint` is the address of a dataset and its idle connections, `Answer` a body that is read in pieces. An answer is either
read to its end, which is checked, or it fails: a server cuts an answer when it cannot finish it.
"""

import base64
import contextvars
import http.client
import io
import json
import os
import re
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request
import warnings
import weakref
import zlib

from . import errors

_PIECE = 1 << 16
_CONNECT_SECONDS = 10
# The server stops a query at its timeout; its answer takes a moment longer.
_GRACE_SECONDS = 5
_SERVICES = ("query", "update", "sparql", "data", "store", "get")
_PROBLEM = "application/problem+json"
_TUNNEL = "tunnel"


class Cancellation:
    """Stops the request that a thread waits for, when another thread calls `cancel`."""

    def __init__(self):
        self._lock = threading.Lock()
        self._socket = None
        self.is_cancelled = False

    def watch(self, sock):
        """Names the socket that the thread waits for."""
        with self._lock:
            if self.is_cancelled:
                raise errors.CancelledError("the request was cancelled")
            self._socket = sock

    def release(self):
        """Ends the wait."""
        with self._lock:
            self._socket = None

    def cancel(self):
        """Ends the connection that is waited for, if there is one. The server then stops the query."""
        with self._lock:
            self.is_cancelled = True
            if self._socket is not None:
                _shut_down(self._socket)


# The cancellation of the work that runs now.
cancellation = contextvars.ContextVar("pythiadb_cancellation", default=None)


def _shut_down(sock):
    try:
        # Not the method of an SSLSocket, which would take the encryption away from the thread that reads.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        pass


class Endpoint:
    """The address of a dataset, the credentials for it, and idle connections. Threads share it."""

    def __init__(self, url, *, token=None, user=None, password=None, timeout=None, tls=None):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{_without_credentials(parts)!r} is no address of a server: write http://host:port/dataset")
        if parts.query or parts.fragment:
            raise ValueError("the address of a dataset has no ? and no #")
        if user is None and token is None and parts.username:
            user = urllib.parse.unquote(parts.username)
            password = urllib.parse.unquote(parts.password or "")
        if token is not None and user is not None:
            raise ValueError("give a token, or a user and a password")
        self.timeout = timeout
        self._is_encrypted = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._is_encrypted else 80)
        self._authority = parts.netloc.rpartition("@")[2]
        path = parts.path.rstrip("/")
        if path.rpartition("/")[2] in _SERVICES:
            path = path.rpartition("/")[0]
        self._path = path
        self._is_local = _is_loopback(self._host)
        self._headers = _credentials(token, user, password)
        if self._headers and not self._is_encrypted and not self._is_local:
            warnings.warn("credentials are sent without encryption: use https", stacklevel=4)
        self._tls = tls or (ssl.create_default_context() if self._is_encrypted else None)
        self._proxy = None if self._is_local else _proxy(parts.scheme, self._host)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._idle = []
        self._answers = weakref.WeakSet()
        self.is_closed = False

    @property
    def url(self):
        """The address of the dataset, without credentials."""
        return f"{'https' if self._is_encrypted else 'http'}://{self._authority}{self._path}"

    def administration(self, what):
        """Returns the path of an administrative request about this dataset."""
        before, _, name = self._path.rpartition("/")
        return f"{before}/$/{what}/{name}" if name else f"/$/{what}"

    def close(self):
        """Closes all connections. Answers that are being read fail."""
        with self._lock:
            self.is_closed = True
            idle, self._idle = self._idle, []
            answers = list(self._answers)
        for connection in idle:
            connection.close()
        for answer in answers:
            answer.stop()

    def check(self):
        """Fails if the endpoint is closed."""
        if self.is_closed:
            raise errors.ClosedError("the database is closed")

    def send(self, method, path, parameters=(), *, accept, body=None, headers=None, timeout=None, repeatable=False):
        """Sends a request and returns its Answer, whatever its status.

        `path` is a service of the dataset, or starts with a slash. `body` is bytes, or an iterator of them. A request
        that is `repeatable` is sent again if the connection was closed meanwhile.
        """
        target = path if path.startswith("/") else f"{self._path}/{path}"
        if parameters:
            target += "?" + urllib.parse.urlencode(parameters)
        sent = {"Host": self._authority, "Accept": f"{accept}, {_PROBLEM}", **self._headers, **(headers or {})}
        if not self._is_local:
            sent["Accept-Encoding"] = "gzip"
        if body is not None and not isinstance(body, bytes):
            if "Content-Length" not in sent:
                sent["Transfer-Encoding"] = "chunked"
            body = _Body(body)
        while True:
            connection, is_reused = self._take()
            begun = time.monotonic()
            try:
                return self._exchange(connection, method, target, body, sent, timeout)
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                if isinstance(body, _Body) and body.error is error:
                    raise
                if is_reused and repeatable and isinstance(error, (http.client.RemoteDisconnected, ConnectionError)):
                    continue
                raise self._failed(error, time.monotonic() - begun, timeout) from error
            except BaseException:
                connection.close()
                raise

    def _exchange(self, connection, method, target, body, headers, timeout):
        if connection.sock is None:
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = connection.sock
        sock.settimeout(None if timeout is None else timeout + _GRACE_SECONDS)
        token = cancellation.get()
        if token is not None:
            token.watch(sock)
        try:
            if self._proxy and self._proxy[0] != _TUNNEL:
                target = f"http://{self._authority}{target}"
            chunked = headers.get("Transfer-Encoding") == "chunked"
            try:
                connection.request(method, target, body, headers, encode_chunked=chunked)
                is_sent = True
            except (BrokenPipeError, ConnectionResetError):
                # A server that refuses a body answers before it has read all of it.
                if body is None:
                    raise
                is_sent = False
            response = connection.getresponse()
            response.will_close |= not is_sent
        finally:
            if token is not None:
                token.release()
        answer = Answer(self, connection, sock, response, timeout)
        with self._lock:
            self._answers.add(answer)
        return answer

    def _failed(self, error, seconds, timeout):
        """Returns the exception of a request without an answer."""
        token = cancellation.get()
        if token is not None and token.is_cancelled:
            return errors.CancelledError("the request was cancelled")
        if isinstance(error, TimeoutError) and timeout is not None and seconds >= timeout:
            return errors.TimeoutError("the server did not answer within the timeout; raise timeout")
        self.check()
        return errors.ServerError(f"{self.url}: {error or type(error).__name__}")

    def _take(self):
        """Returns a connection, and whether it was used before."""
        self.check()
        with self._lock:
            if self._process != os.getpid():
                # The connections belong to the process that this one was forked from.
                self._process, self._idle = os.getpid(), []
            while self._idle:
                connection = self._idle.pop()
                if _is_alive(connection):
                    return connection, True
                connection.close()
        host, port = self._host, self._port
        if self._proxy:
            kind, host, port, headers = self._proxy
        if self._is_encrypted:
            connection = http.client.HTTPSConnection(host, port, timeout=_CONNECT_SECONDS, context=self._tls)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
        if self._proxy and kind == _TUNNEL:
            connection.set_tunnel(self._host, self._port, headers)
        return connection, False

    def give_back(self, connection):
        """Keeps a connection for the next request."""
        with self._lock:
            if not self.is_closed and self._process == os.getpid():
                self._idle.append(connection)
                return
        connection.close()


class _Body:
    """A body in pieces. It keeps the exception that the source of the pieces has raised."""

    def __init__(self, pieces):
        self._pieces = pieces
        self.error = None

    def __iter__(self):
        try:
            yield from self._pieces
        except Exception as error:
            self.error = error
            raise


class Answer(io.RawIOBase):
    """The answer to a request: a file of bytes, which is read once. At its end the connection is used again."""

    def __init__(self, endpoint, connection, sock, response, timeout):
        self.status = response.status
        self.headers = response.headers
        self._endpoint = endpoint
        self._connection = connection
        self._socket = sock
        self._response = response
        self._timeout = timeout
        self._begun = time.monotonic()
        length = response.headers.get("Content-Length")
        self._left = None if response.chunked or length is None else int(length)
        coding = response.headers.get("Content-Encoding", "identity")
        self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS) if coding == "gzip" else None
        self._deflated = b""
        if response.status == 204:
            self._finish()

    @property
    def media_type(self):
        """The media type, without parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self.some(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def some(self, size=_PIECE):
        """Returns the next bytes as soon as there are any; none at the end."""
        if self._inflate is None:
            return self._receive(size)
        while True:
            if not self._deflated:
                self._deflated = self._receive(size)
                if not self._deflated:
                    if not self._inflate.eof:
                        raise self._cut()
                    return b""
            try:
                piece = self._inflate.decompress(self._deflated, size)
            except zlib.error as error:
                self.stop()
                raise errors.ServerError(f"{self._endpoint.url}: {error}") from error
            self._deflated = self._inflate.unconsumed_tail
            if piece:
                return piece

    def whole(self, most=1 << 26):
        """Returns the whole body, which must not be longer than `most`."""
        pieces, size = [], 0
        while piece := self.some():
            size += len(piece)
            if size > most:
                self.stop()
                raise errors.ServerError(f"{self._endpoint.url}: the answer is too long", self.status)
            pieces.append(piece)
        return b"".join(pieces)

    def _receive(self, size):
        if self._connection is None:
            self._endpoint.check()
            return b""
        if self._left is not None:
            size = min(size, self._left)
        token = cancellation.get()
        try:
            if token is not None:
                token.watch(self._socket)
            try:
                piece = self._response.read1(size) if size else b""
            finally:
                if token is not None:
                    token.release()
        except (http.client.HTTPException, OSError, ValueError, AttributeError) as error:
            # Another thread that closes the connection takes the file away: ValueError or AttributeError.
            raise self._cut() from error
        except BaseException:
            self.stop()
            raise
        if self._left is not None:
            self._left -= len(piece)
            if not piece and self._left:
                raise self._cut()
        if not piece:
            self._finish()
        return piece

    def _cut(self):
        """Returns the exception of an answer that ended too early."""
        self.stop()
        self._endpoint.check()
        token = cancellation.get()
        if token is not None and token.is_cancelled:
            return errors.CancelledError("the request was cancelled")
        if self._timeout is not None and time.monotonic() - self._begun >= self._timeout:
            return errors.TimeoutError("the query took longer than its timeout; raise timeout or make the query cheaper")
        message = "the server cut the answer: the query failed, or the server stopped; its log says why"
        return errors.ServerError(f"{self._endpoint.url}: {message}")

    def _finish(self):
        connection, self._connection = self._connection, None
        if connection is not None:
            self._response.close()
            if self._response.will_close:
                connection.close()
            else:
                self._endpoint.give_back(connection)

    def stop(self):
        """Ends the answer where it is. The server stops the query when it sees that."""
        connection, self._connection = self._connection, None
        if connection is not None:
            _shut_down(self._socket)
            connection.close()

    def close(self):
        if not self.closed:
            self.stop()
        super().close()

    def check(self, failure):
        """Returns the answer if it is a success; raises what `failure` makes of its status, message and place if not."""
        if 200 <= self.status < 300:
            return self
        if 300 <= self.status < 400:
            place = self.headers.get("Location", "another place")
            self.stop()
            raise errors.ServerError(f"{self._endpoint.url}: the dataset has moved to {place}", self.status)
        message, place = _problem(self.whole(), self.media_type)
        error = failure(self.status, message or self._response.reason, place)
        if isinstance(error, errors.ServerError):
            error.retry_after = self.headers.get("Retry-After")
        raise error


def _problem(body, media_type):
    """Returns the message of an error, and its line and column."""
    if media_type == _PROBLEM:
        try:
            problem = json.loads(body)
            line, column = problem.get("line"), problem.get("column")
            message = re.sub(r"^(body:\d+:\d+: |line \d+, column \d+: )", "", problem.get("detail") or "")
            return message, (line, column) if line and column else None
        except (ValueError, AttributeError):
            pass
    return body[:1000].decode(errors="replace").strip(), None


def of_query(status, message, place, text=""):
    """Returns the exception of a query or update that a server has refused."""
    if status == 400 and place:
        line = text.split("\n")[place[0] - 1 : place[0]]
        return errors.QuerySyntaxError(message, (None, *place, line[0] if line else ""))
    if status == 504:
        return errors.TimeoutError("the query took longer than its timeout; raise timeout or make the query cheaper")
    if status == 503 and "cancelled" in message:
        return errors.CancelledError(message)
    if status in (413, 507):
        return errors.LimitError(message)
    if status in (400, 502):
        return errors.QueryError(message)
    return of_any(status, message)


def of_change(status, message, place, text=""):
    """Returns the exception of an update that a server has refused."""
    return errors.ReadOnlyError(message) if status == 403 else of_query(status, message, place, text)


def of_load(status, message, place, source):
    """Returns the exception of data that a server has refused."""
    if status == 400 and place:
        return errors.ParseError(message, (source, *place, None))
    if status == 403:
        return errors.ReadOnlyError(message)
    if status in (400, 413, 415, 507):
        return errors.LoadError(message)
    return of_any(status, message)


def of_any(status, message, place=None):
    """Returns the exception of another request."""
    if status == 409:
        return errors.ConflictError(message)
    if status == 504:
        return errors.TimeoutError(message)
    return errors.ServerError(message, status)


def _credentials(token, user, password):
    if token is not None:
        value = f"Bearer {token}"
    elif user is not None:
        if ":" in user:
            raise ValueError("the name of a user has no colon")
        value = "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()
    else:
        return {}
    if not value.isascii() or not value.isprintable():
        raise ValueError("a token has only printable characters of ASCII")
    return {"Authorization": value}


def _without_credentials(parts):
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _is_loopback(host):
    return host in ("localhost", "::1") or host.endswith(".localhost") or re.fullmatch(r"127(\.\d+){3}", host) is not None


def _proxy(scheme, host):
    """Returns the proxy that the environment names for a host: how it is used, its address, and headers for it."""
    address = urllib.request.getproxies().get(scheme)
    if not address or urllib.request.proxy_bypass(host):
        return None
    parts = urllib.parse.urlsplit(address if "//" in address else f"//{address}")
    headers = {}
    if parts.username:
        headers = _credentials(None, urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or ""))
        headers = {"Proxy-Authorization": headers["Authorization"]}
    kind = _TUNNEL if scheme == "https" or headers else "plain"
    return kind, parts.hostname, parts.port or 80, headers


def _is_alive(connection):
    """Returns whether nothing has come on an idle connection: neither its end, nor bytes that nobody asked for."""
    if connection.sock is None:
        return False
    try:
        connection.sock.settimeout(0)
        connection.sock.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False
    return False
