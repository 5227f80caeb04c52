"""bench/hostile: mutated requests, sent to a running server until the time is over.

Requests of every kind are cut, repeated, spliced and sprinkled with bytes, in their heads, their bodies
and their SPARQL, and written in pieces at odd moments. Whatever comes, an answer is 2xx to 4xx, or the
connection is closed; the server lives, keeps to its memory, and goes on answering good requests. The
seed that is printed makes the same requests again.
"""

import argparse
import os
import random
import shutil
import socket
import threading
import time
import urllib.request

from . import command, data, engines, processes
from .overload import Memory

# The server closes what stalls after its own limits, which are set below this.
PATIENCE_SECONDS = 20
MEMORY_MAX_BYTES = 1 << 30
TOKENS = [b"{", b"}", b"(", b")", b'"', b"'''", b"<", b">", b"\\u12", b"?x", b" . ", b";", b"\0", b"\xff",
          b"\r\n", b"\r\n\r\n", b"%", b"%00", b"&", b"=", b"0\r\n\r\n", b"ffffffff", b"99999999999",
          b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Encoding: gzip\r\n",
          b"Expect: 100-continue\r\n", b"UNION", b"SERVICE <http://127.0.0.1:1/>", b"VALUES ?x {1}",
          b"<a:b>+", b"LIMIT 9999999999999999999", b"OFFSET -1", b"../..", b"HTTP/1.1", b"\xc3\x28"]
QUERIES = [
    "SELECT ?s (COUNT(?o) AS ?n) { ?s ?p ?o } GROUP BY ?s HAVING (?n > 1) ORDER BY DESC(?n) LIMIT 5",
    "SELECT * { ?s <http://ex.org/p>+ ?o OPTIONAL { ?o <http://ex.org/name> ?n FILTER(LANG(?n) = 'en') } }",
    "CONSTRUCT { ?o ?p ?s } WHERE { GRAPH ?g { ?s ?p ?o } MINUS { ?s a ?o } }",
    "ASK { VALUES (?a ?b) { (1 'x'@en) (UNDEF 2.5e0) } FILTER (?a IN (1, 2) || EXISTS { ?s ?p ?a }) }",
    "DESCRIBE <http://ex.org/a>",
]
UPDATES = [
    "INSERT DATA { <http://ex.org/x> <http://ex.org/p> 'x', 7, _:b . GRAPH <a:g> { <a:b> <c:d> true } }",
    "DELETE { ?s ?p ?o } INSERT { ?o ?p ?s } WHERE { ?s ?p ?o FILTER (isIRI(?o)) } ; CLEAR SILENT GRAPH <a:n>",
]
GOOD = "ASK { VALUES ?x { 1 } FILTER (?x = 1) }"


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="bench/hostile", description="Sends nonsense to Pythia's server.")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="makes the same requests again")
    parser.add_argument("--threads", type=int, default=8, metavar="N", help="senders at once (default: %(default)s)")
    return parser.parse_args(given)


def main(given=None):
    """Gives the exit code: 0 if the server never did what it must not."""
    chosen = arguments(given)
    if chosen.seed is None:
        chosen.seed = random.SystemRandom().randrange(1 << 32)
    return command.guarded(bombard, chosen)


def bombard(chosen):
    """Starts a server, sends, and tells."""
    work = data.CACHE / "work" / "hostile"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    print(f"seed {chosen.seed}", flush=True)
    port = processes.free_port()
    environment = {"PYTHIA_SERVE_LIMITS__HEADER_TIME": "2s", "PYTHIA_SERVE_LIMITS__STALL_TIME": "2s",
                   "PYTHIA_SERVE_LIMITS__TIMEOUT": "5s"}
    child = processes.Child(
        [engines.program(), "serve", "-l", work / "store", "--bind", f"127.0.0.1:{port}", "--cache", "64M",
         "--memory", "128M"], work / "log.txt", env={**os.environ, **environment})
    endpoint = engines.Endpoint(port, "/query", PATIENCE_SECONDS)
    endpoint.wait(child, engines.READY_SECONDS)
    endpoint.close()
    memory, sender = Memory(child.pid), Sender(port, chosen)
    sender.run()
    child.check()
    memory.stop()
    child.stop()
    said = (work / "log.txt").read_text(errors="replace")
    problems = list(sender.problems)
    if "panicked" in said:
        problems.append(f"the server panicked: see {work / 'log.txt'}")
    if memory.peak_bytes > MEMORY_MAX_BYTES:
        problems.append(f"{memory.peak_bytes / 1e6:,.0f} MB of memory")
    counts = ", ".join(f"{status}: {count}" for status, count in sorted(sender.counts.items()))
    print(f"{sum(sender.counts.values()):,} requests ({counts}), {memory.peak_bytes / 1e6:,.0f} MB")
    for problem in problems[:20]:
        print(f"  FAILED: {problem}")
    if not problems:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if problems else 0


class Sender:
    """Threads that send, and what came back."""

    def __init__(self, port, chosen):
        self.port = port
        self.chosen = chosen
        self.counts = {}
        self.problems = []
        self._lock = threading.Lock()

    def run(self):
        """Sends until the time is over, or too much went wrong."""
        threads = [threading.Thread(target=self._send_all, args=(number,))
                   for number in range(self.chosen.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send_all(self, number):
        rng = random.Random(self.chosen.seed * 1000 + number)
        deadline = time.monotonic() + self.chosen.seconds
        sent = 0
        while time.monotonic() < deadline and len(self.problems) < 20:
            request = mutated(rng, request_of(rng, self.port))
            outcome = exchange(rng, self.port, request)
            sent += 1
            with self._lock:
                self.counts[outcome] = self.counts.get(outcome, 0) + 1
            if outcome.startswith("5") and outcome not in ("503", "504", "507"):
                self._problem(f"{outcome} for {request[:400]!r}")
            if outcome == "stuck":
                self._problem(f"no end of the connection after {PATIENCE_SECONDS} s: {request[:400]!r}")
            if sent % 20 == 0:
                self._ask_well()

    def _ask_well(self):
        target = f"http://127.0.0.1:{self.port}/query?query={urllib.request.quote(GOOD)}"
        try:
            with urllib.request.urlopen(target, timeout=PATIENCE_SECONDS) as response:
                if b"true" not in response.read():
                    self._problem("a good request has a wrong answer")
        except OSError as error:
            self._problem(f"a good request is not answered: {error}")

    def _problem(self, text):
        with self._lock:
            self.problems.append(text)


def request_of(rng, port):
    """A good request of some kind."""
    host = f"Host: 127.0.0.1:{port}\r\n"
    query, update = rng.choice(QUERIES), rng.choice(UPDATES)
    turtle = "<http://ex.org/a> <http://ex.org/p> <http://ex.org/b>, 'c'@en, 7 ."
    part = f'--b\r\nContent-Disposition: form-data; name="a"; filename="a.ttl"\r\n\r\n{turtle}\r\n--b--\r\n'
    kind = rng.randrange(8)
    if kind == 0:
        return f"GET /query?query={urllib.request.quote(query)} HTTP/1.1\r\n{host}Accept: */*\r\n\r\n".encode()
    if kind == 1:
        target = rng.choice(["/", "/store?default", "/store?graph=http://ex.org/g", "/$/ping", "/$/stats", "/$/queries",
                             "/find?q=a", "/void", "/assets/x", "/$/metrics", "/ds", "/complete"])
        method = rng.choice(["GET", "HEAD", "DELETE", "OPTIONS", "QUERY", "PATCH"])
        return f"{method} {target} HTTP/1.1\r\n{host}\r\n".encode()
    path, media_type, body = rng.choice([
        ("/query", "application/sparql-query", query),
        ("/query", "application/x-www-form-urlencoded", f"query={urllib.request.quote(query)}&timeout=2&rows=10"),
        ("/update", "application/sparql-update", update),
        ("/sparql", "application/x-www-form-urlencoded", f"update={urllib.request.quote(update)}"),
        ("/store?graph=http://ex.org/g", "text/turtle", turtle),
        ("/store?default", "multipart/form-data; boundary=b", part),
        ("/store", "application/trig", "<a:g> {" + turtle + "}"),
        ("/complete", "application/json", '{"query": "SELECT * { ?s ", "position": 12}'),
    ])
    method = rng.choice(["POST", "POST", "PUT", "QUERY", "PATCH"])
    head = f"{method} {path} HTTP/1.1\r\n{host}Content-Type: {media_type}\r\n"
    if rng.randrange(3) == 0:
        return f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body.encode()):x}\r\n{body}\r\n0\r\n\r\n".encode()
    return f"{head}Content-Length: {len(body.encode())}\r\n\r\n{body}".encode()


def mutated(rng, request):
    """The request with something wrong in most cases."""
    text = bytearray(request)
    for _ in range(rng.randrange(4)):
        start, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        kind = rng.randrange(6)
        if kind == 0 and start < len(text):
            text[start] = rng.randrange(256)
        elif kind == 1:
            del text[start:min(end, start + 12)]
        elif kind == 2:
            text[end:end] = text[start:end] * rng.choice([1, 1, 1, 50])
        elif kind == 3:
            text[start:start] = rng.choice(TOKENS)
        elif kind == 4:
            text[start:start] = rng.choice(TOKENS) * rng.choice([10, 1000, 20000])
        else:
            del text[end:]
    return bytes(text)


def exchange(rng, port, request):
    """The status that came back; `closed` without one, `stuck` if nothing ended."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
            send(rng, connection, request)
            if rng.randrange(4) == 0:
                connection.shutdown(socket.SHUT_WR)
            received = connection.recv(1 << 16)
            if rng.randrange(4) == 0:
                return status_of(received)  # goes away in the middle of an answer
            while connection.recv(1 << 16):
                pass
            return status_of(received)
    except TimeoutError:
        return "stuck"
    except OSError:
        return "closed"


def send(rng, connection, request):
    """At once, or in pieces with pauses between."""
    pieces = rng.choice([1, 1, 1, 2, 5])
    size = len(request) // pieces + 1
    for start in range(0, len(request), size):
        connection.sendall(request[start:start + size])
        if pieces > 1:
            time.sleep(rng.random() / 20)


def status_of(received):
    """The status of an answer's first line."""
    words = received[:20].split(b" ")
    if len(words) > 1 and words[0].startswith(b"HTTP/") and words[1][:3].isdigit():
        return words[1][:3].decode()
    return "closed"
