"""bench/graphs: what reading, writing and dropping a graph costs in a store of many graphs, over HTTP.

All servers get the same quads, keep their stores over all rounds, and get the same requests by turns: each round asks
about other graphs. What they hold afterwards is compared.
"""

import argparse
import http.client
import random
import shutil
import statistics
import sys
import time
import urllib.parse

from . import command, data, engines, processes, report

BASE = "http://example.org/"
# Predicates of a subject; subjects of a graph.
PREDICATES = 5
SUBJECTS = 20
TRIPLES = PREDICATES * SUBJECTS
# Graphs named in a query's FROM clauses.
FROM_GRAPHS = 100
# Servers may close a connection that is idle for longer.
IDLE_SECONDS = 2
SPARQL_FORM = "application/x-www-form-urlencoded"
PATHS = {"pythia": "", "oxigraph": "", "jena": "/bench"}


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/graphs", description="Measures requests about one graph, or some, in a store of many named "
        "graphs of 100 triples each.")
    parser.add_argument("--peers", default="pythia,oxigraph,jena", metavar="NAME,…",
                        help="which servers (default: %(default)s)")
    parser.add_argument("--graphs", type=int, default=10_000, metavar="N",
                        help="named graphs of 100 triples (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, metavar="N",
                        help="requests of each kind (default: %(default)s)")
    parser.add_argument("--only", metavar="NAME,…", help="only these kinds of requests")
    parser.add_argument("--cold", action="store_true",
                        help="start the servers again before each kind of request, with nothing in memory")
    parser.add_argument("--memory", default="2G", metavar="SIZE",
                        help="memory each server may use, where it can be told (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="where all figures go (default: bench/results)")
    chosen = parser.parse_args(given)
    chosen.peers = [name for name in chosen.peers.split(",") if name]
    unknown = [name for name in chosen.peers if name not in PATHS]
    if unknown or not chosen.peers:
        parser.error(f"--peers: choose from {', '.join(PATHS)}")
    # Each round uses graphs that no other changes, and 100 more.
    least = max(FROM_GRAPHS, 2 * (len(REQUESTS) + 1) * (chosen.rounds + 2))
    if chosen.graphs < least:
        parser.error(f"--graphs: {chosen.rounds} rounds need at least {least}")
    chosen.memory, chosen.timeout = command.size(chosen.memory), 600
    return chosen


def main(given=None):
    """Gives the exit code: 0 if all servers gave the same answers."""
    chosen = arguments(given)
    return command.guarded(measure, chosen)


def measure(chosen):
    """Loads, asks by turns, compares, and prints."""
    machine = command.describe_machine()
    work = data.CACHE / "work" / "graphs"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    path = work / "graphs.nq"
    write_quads(path, chosen.graphs)
    print(f"{chosen.graphs * TRIPLES:,} quads in {chosen.graphs:,} graphs, load average "
          f"{machine['load_average']:.1f} before", flush=True)
    servers, versions = {}, {}
    try:
        for peer in chosen.peers:
            engine, versions[peer] = load(peer, work / peer, chosen, path)
            servers[peer] = Server(engine)
        times, differing = by_turns(chosen, servers)
    finally:
        for server in servers.values():
            server.stop()
        shutil.rmtree(work, ignore_errors=True)
    print(table(chosen, times))
    for line in differing:
        print(f"  answers differ: {line}", file=sys.stderr)
    record = {**command.occasion(machine), "versions": versions, "graphs": chosen.graphs,
              "seconds": times, "differing": differing}
    print(f"all figures: {command.write_record(record, 'graphs', chosen.json)}")
    return 1 if differing else 0


def write_quads(path, graphs):
    """Quads whose subjects belong to one graph, and whose objects belong to many."""
    with open(path, "w", encoding="utf-8") as out:
        for graph in range(graphs):
            out.write(quads(graph, graph_iri(graph)))


def graph_iri(number):
    return f"{BASE}graph/{number}"


def triples(number, version=0):
    """The triples of a graph: one title, and values that other graphs have, too."""
    rng = random.Random(number * 1000 + version)
    lines = []
    for subject in range(SUBJECTS):
        name = f"<{BASE}s/{number}/{subject}>"
        lines.append(f'{name} <{BASE}p/0> "title {number} {subject} {version}"')
        for predicate in range(1, PREDICATES):
            lines.append(f"{name} <{BASE}p/{predicate}> <{BASE}o/{rng.randrange(10_000)}>")
    return lines


def quads(number, graph):
    return "".join(f"{line} <{graph}> .\n" for line in triples(number))


def ntriples(number, version):
    return "".join(f"{line} .\n" for line in triples(number, version))


class Server:
    """A running server and its connection."""

    def __init__(self, engine):
        self.name, self.engine = engine.name, engine
        self.start()

    def start(self):
        """Starts the server, and waits until it answers."""
        self.child, endpoint = self.engine.serve()
        self.connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=600)
        self.used = time.monotonic()
        deadline = self.used + engines.READY_SECONDS
        while True:
            self.child.check()
            try:
                self.query("ASK {}", "application/sparql-results+json")
                return
            except OSError:
                self.connection.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def send(self, method, path, body=None, media_type=None, accept="*/*"):
        """One request, from its first byte to the last one of the answer. Gives seconds and the answer."""
        headers = {"Accept": accept}
        if media_type:
            headers["Content-Type"] = media_type
        path = PATHS[self.name] + path
        if time.monotonic() - self.used > IDLE_SECONDS:
            self.connection.close()
        started = time.perf_counter()
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        answer = response.read()
        seconds = time.perf_counter() - started
        self.used = time.monotonic()
        if response.status >= 300:
            text = answer[:300].decode("utf-8", "replace").strip()
            raise processes.Failed(f"{self.name}: {method} {path}: HTTP {response.status}: {text}")
        return seconds, answer

    def query(self, text, accept="text/csv"):
        return self.send("POST", "/query", urllib.parse.urlencode({"query": text}), SPARQL_FORM, accept)

    def update(self, text):
        return self.send("POST", "/update", urllib.parse.urlencode({"update": text}), SPARQL_FORM)

    def graph_store(self, method, graph, body=None):
        store = "/data" if self.name == "jena" else "/store"
        path = f"{store}?{urllib.parse.urlencode({'graph': graph})}"
        kind = "application/n-triples"
        return self.send(method, path, body, kind if body else None, kind if method == "GET" else "*/*")

    def stop(self):
        self.connection.close()
        self.child.stop()


def load(name, work, chosen, path):
    """Loads a store of its own. Gives the engine and its version."""
    work.mkdir(parents=True)
    engine = engines.ENGINES[name](work, chosen)
    engine.limit_time = False
    version = engine.setup()
    cost = engine.load(path)
    print(f"{name}: {version}: loaded in {cost.wall_s:.1f} s", flush=True)
    return engine, version


def start_cold(servers):
    """Starts all servers again, after the system has forgotten the pages of their files."""
    for server in servers.values():
        server.stop()
    processes.drop_page_cache()
    for server in servers.values():
        server.start()


def rows(answer):
    """Lines of an answer, which has one for each row, and perhaps a header."""
    return sum(1 for line in answer.splitlines() if line.strip())


def of_answer(kind):
    """A request whose answer is compared."""
    def asked(server, graphs, number):
        seconds, answer = kind(server, graphs, number)
        return seconds, rows(answer)
    return asked


def of_graphs(kind):
    """A request that changes graphs: what they hold afterwards is compared."""
    def asked(server, graphs, number):
        seconds, _ = kind(server, graphs, number)
        counted = []
        for graph in graphs[:2]:
            query = f"SELECT (COUNT(*) AS ?n) {{ GRAPH <{graph}> {{ ?s ?p ?o }} }}"
            counted.append(int(server.query(query)[1].split()[-1]))
        return seconds, counted
    return asked


def pattern(server, graphs, _number):
    return server.query(f"SELECT * {{ GRAPH <{graphs[0]}> {{ ?s ?p ?o }} }}")


def predicate(server, graphs, _number):
    return server.query(f"SELECT * {{ GRAPH <{graphs[0]}> {{ ?s <{BASE}p/1> ?o }} }}")


def get(server, graphs, _number):
    return server.graph_store("GET", graphs[0])


def put(server, graphs, number):
    return server.graph_store("PUT", graphs[0], ntriples(number, 1))


def put_new(server, graphs, number):
    return server.graph_store("PUT", graphs[0] + "/new", ntriples(number, 1))


def post(server, graphs, number):
    return server.graph_store("POST", graphs[0], ntriples(number, 2))


def drop(server, graphs, _number):
    return server.update(f"DROP GRAPH <{graphs[0]}>")


def copy(server, graphs, _number):
    return server.update(f"COPY <{graphs[0]}> TO <{graphs[1]}>")


def move(server, graphs, _number):
    return server.update(f"MOVE <{graphs[0]}> TO <{graphs[1]}>")


def add(server, graphs, _number):
    return server.update(f"ADD <{graphs[0]}> TO <{graphs[1]}>")


def modify(server, graphs, _number):
    return server.update(
        f"WITH <{graphs[0]}> DELETE {{ ?s <{BASE}p/2> ?o }} INSERT {{ ?s <{BASE}p/9> ?o }} "
        f"WHERE {{ ?s <{BASE}p/2> ?o }}")


def from_graphs(server, graphs, _number):
    clauses = " ".join(f"FROM <{graph}>" for graph in graphs[:FROM_GRAPHS])
    return server.query(f"SELECT * {clauses} {{ ?s <{BASE}p/1> ?o }}")


def from_named(server, graphs, _number):
    clauses = " ".join(f"FROM NAMED <{graph}>" for graph in graphs[:FROM_GRAPHS])
    return server.query(f"SELECT * {clauses} {{ GRAPH ?g {{ ?s <{BASE}p/1> ?o }} }}")


def found_by_title(server, _graphs, number):
    title = f'"title {number} 3 0"'
    return server.query(f"SELECT * {{ GRAPH ?g {{ ?s ?p {title} }} GRAPH ?g {{ ?a ?b ?c }} }}")


def counted_by_title(server, _graphs, number):
    title = f'"title {number} 3 0"'
    return server.query(f"SELECT * {{ GRAPH ?g {{ ?s ?p {title} }} GRAPH ?g {{ "
                        "SELECT (COUNT(*) AS ?n) { ?a ?b ?c } } }")


REQUESTS = {
    "GRAPH <g> { ?s ?p ?o }": of_answer(pattern),
    "GRAPH <g> { ?s <p> ?o }": of_answer(predicate),
    "GET of a graph": of_answer(get),
    "FROM 100 graphs": of_answer(from_graphs),
    "FROM NAMED 100 graphs": of_answer(from_named),
    "GRAPH ?g { ?s ?p \"x\" } GRAPH ?g { ?a ?b ?c }": of_answer(found_by_title),
    "GRAPH ?g { ?s ?p \"x\" } GRAPH ?g { SELECT (COUNT(*) AS ?n) … }": of_answer(counted_by_title),
    "PUT of 100 triples": of_graphs(put),
    "PUT of 100 triples into a new graph": of_graphs(put_new),
    "POST of 100 triples": of_graphs(post),
    "DROP": of_graphs(drop),
    "COPY": of_graphs(copy),
    "MOVE": of_graphs(move),
    "ADD": of_graphs(add),
    "DELETE and INSERT WHERE in a graph": of_graphs(modify),
}


def by_turns(chosen, servers):
    """Each kind of request, of the servers by turns, and the first rounds not counted."""
    only = chosen.only.split(",") if chosen.only else None
    rng = random.Random(1)
    left = list(range(chosen.graphs))
    rng.shuffle(left)
    times, differing = {}, []
    for name, kind in REQUESTS.items():
        if only and name not in only:
            continue
        if chosen.cold:
            start_cold(servers)
        times[name] = {peer: [] for peer in servers}
        for round_number in range(-2, chosen.rounds):
            first, second = left.pop(), left.pop()
            others = rng.sample(left, min(len(left), FROM_GRAPHS - 2))
            graphs = [graph_iri(number) for number in (first, second, *others)]
            order = list(servers) if round_number % 2 == 0 else list(reversed(servers))
            answers = {}
            for peer in order:
                seconds, answers[peer] = kind(servers[peer], graphs, first)
                if round_number >= 0:
                    times[name][peer].append(seconds)
            if len({str(answer) for answer in answers.values()}) > 1:
                differing.append(f"{name}: {answers}")
        medians = {peer: statistics.median(found) for peer, found in times[name].items()}
        print(f"  {name}: " + ", ".join(f"{peer} {ms * 1000:.2f} ms" for peer, ms in medians.items()), flush=True)
    return times, differing


def table(chosen, times):
    """Medians."""
    lines = []
    for name, found in times.items():
        medians = [statistics.median(found[peer]) for peer in chosen.peers]
        lines.append([name, *(f"{seconds * 1000:.2f}" for seconds in medians)])
    return report.table("Median milliseconds", ["request", *chosen.peers], lines)
