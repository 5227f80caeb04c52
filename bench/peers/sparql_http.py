"""One SPARQL query over one kept HTTP connection, timed from its first byte out to its last byte in.

What the answer holds is counted after the clock has stopped.
"""

import http.client
import json
import re
import socket
import time
from urllib.parse import urlencode

_FORM = re.compile(r"\b(SELECT|ASK|CONSTRUCT|DESCRIBE)\b", re.IGNORECASE)
_IRIS_COMMENTS_STRINGS = re.compile(r'<[^>\s]*>|"(?:[^"\\]|\\.)*"|#[^\n]*')


class Refused(Exception):
    """The endpoint did not answer the query."""


class Answer:
    """Rows of an answer: solutions, triples, or 1 and 0 for yes and no.

    `value` is the answer itself where it is one single value: it tells counts apart.
    """

    def __init__(self, seconds, rows, value):
        self.seconds = seconds
        self.rows = rows
        self.value = value


class Endpoint:
    """A SPARQL endpoint on this machine."""

    def __init__(self, port, path, timeout_s, parameters=None, update_path=None, update_name="update"):
        self.port = port
        self.path = path
        self.timeout_s = timeout_s
        self.parameters = parameters or {}
        self.update_path, self.update_name = update_path, update_name
        self._connection = None

    @property
    def url(self):
        """The address of queries, with the parameters of each."""
        query = f"?{urlencode(self.parameters)}" if self.parameters else ""
        return f"http://127.0.0.1:{self.port}{self.path}{query}"

    def ask(self, text):
        """Runs one query; raises `Refused` if there is no whole answer."""
        form = query_form(text)
        table = form in ("SELECT", "ASK")
        accept = "application/sparql-results+json" if table else "application/n-triples"
        started = time.perf_counter()
        data = self._post(self.path, {"query": text, **self.parameters}, accept)
        seconds = time.perf_counter() - started
        try:
            rows, value = count_table(data) if table else (count_triples(data), None)
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"an answer cut short or wrong: {error}") from error
        return Answer(seconds, rows, value)

    def update(self, text):
        """Runs one update; raises `Refused` if it is not acknowledged."""
        self._post(self.update_path, {self.update_name: text}, "*/*")

    def _post(self, path, form, accept):
        """Sends a form. Gives the answer's body."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": accept}
        try:
            connection = self._connect()
            connection.request("POST", path, urlencode(form), headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Refused(f"{type(error).__name__}: {error}") from error
        if response.will_close:
            self.close()
        if not 200 <= response.status < 300:
            text = data[:300].decode("utf-8", "replace").strip()
            raise Refused(f"HTTP {response.status}: {text}")
        return data

    def wait(self, child, seconds):
        """Waits until the endpoint answers."""
        deadline = time.monotonic() + seconds
        while True:
            child.check()
            try:
                self.ask("ASK {}")
                return
            except Refused as error:
                if time.monotonic() > deadline:
                    raise Refused(f"no answer within {seconds} s: {error}") from error
            time.sleep(0.05)

    def close(self):
        """Drops the connection; the next query makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self):
        if self._connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout_s)
            connection.connect()
            plain = connection.sock
            connection.sock = _PromptSocket(fileno=plain.detach())
            connection.sock.settimeout(self.timeout_s)
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection = connection
        return self._connection


class _PromptSocket(socket.socket):
    """Acknowledges at once: a server that sends header and body apart would else wait 40 ms for
    our delayed acknowledgement, which is the client's doing and not the database's."""

    def recv_into(self, *arguments):
        if hasattr(socket, "TCP_QUICKACK"):
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return super().recv_into(*arguments)


def query_form(text):
    """SELECT, ASK, CONSTRUCT or DESCRIBE."""
    found = _FORM.search(_IRIS_COMMENTS_STRINGS.sub(" ", text))
    return found.group(1).upper() if found else "SELECT"


def count_table(data):
    """Rows of SPARQL JSON, and the value if there is just one."""
    answer = json.loads(data)
    if "boolean" in answer:
        return int(answer["boolean"]), None
    bindings = answer["results"]["bindings"]
    value = None
    if len(bindings) == 1 and len(answer["head"]["vars"]) == 1 and bindings[0]:
        value = next(iter(bindings[0].values()))["value"]
    return len(bindings), value


def count_triples(data):
    """Distinct triples of N-Triples, or of what an endpoint sends in its place."""
    lines = {line.strip() for line in data.decode("utf-8").splitlines()}
    return sum(1 for line in lines if line and not line.startswith("#"))
