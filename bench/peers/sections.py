"""What bench/compare measures: loads, queries of all engines in turn, queries of servers that have just started, updates.

`pythia bench bsbm` and `pythia bench endpoints` ask the queries: they compare the answers by content first, and leave out
and name what an engine does not answer or answers differently.
"""

import json
import shutil
import time

from . import data, engines, operators, processes
from .sparql_http import Refused

UPDATE_GRAPH = "urn:bench:updates"
UPDATE_ROUNDS = 30
# How many clients ask points at once, and how many mixes of BSBM each round has.
POINT_CLIENTS = "1,8"
MIXES = {"explore": 20, "bi": 5}
COLD_RUNS = 3


def load(chosen, name, work, path):
    """Loads an empty store. Gives what it cost."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    data.warm(path)
    engine = engines.ENGINES[name](work, chosen)
    cost = engine.load(path)
    return {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "peak_bytes": cost.peak_bytes,
            "disk_bytes": processes.folder_bytes(engine.store)}


class Servers:
    """The servers of all engines on one data set. They start when they are first needed."""

    def __init__(self, chosen, dataset, work, names):
        self.engines = {name: engines.ENGINES[name](work / name, chosen) for name in names}
        self.others = [(name, url) for of, name, url in chosen.endpoints if of == dataset]
        self.running = {}
        self.limit_time = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, limit_time=True):
        """Starts what does not run. A server that has ended starts again."""
        if self.limit_time != limit_time:
            self.stop()
        self.limit_time = limit_time
        for name, engine in self.engines.items():
            if name in self.running and self.running[name][0].is_alive():
                continue
            engine.limit_time = limit_time
            child, endpoint = engine.serve()
            self.running[name] = (child, endpoint)
            endpoint.wait(child, engines.READY_SECONDS)
        return self.running

    def stop(self):
        """Stops all servers."""
        for child, endpoint in self.running.values():
            endpoint.close()
            child.stop()
        self.running = {}

    def arguments(self):
        """The options that name the endpoints to `pythia bench`."""
        given = [(name, endpoint.url) for name, (_, endpoint) in self.running.items()] + self.others
        options = ["--endpoints-only"]
        for name, url in given:
            options += ["--endpoint", f"{name}={url}"]
        return options

    def memory(self):
        """The most memory that each server has held since it started."""
        return {name: child.peak_now() for name, (child, _) in self.running.items()}


def bench(chosen, work, name, arguments, servers):
    """One `pythia bench` command on all endpoints. Gives its figures and the memory of the servers."""
    figures, log = work / f"{name}.json", work / f"{name}.log"
    log.unlink(missing_ok=True)
    processes.run(
        [engines.program(), "bench", *arguments, "-l", work / "reference" / "store", "--cache", chosen.memory,
         "--rounds", chosen.rounds, "--timeout", chosen.timeout, "--seconds", chosen.seconds,
         "--json", figures, *servers.arguments()], log)
    return {**json.loads(figures.read_text(encoding="utf-8")), "peak_bytes": servers.memory()}


def bsbm(chosen, use_case, work, servers):
    """Mixes of BSBM. Explore has too many queries for the time limit of Oxigraph's server, which costs a thread for each
    query, which sleeps that long; its queries are short."""
    servers.start(limit_time=use_case == "bi")
    arguments = ["bsbm", "--use-case", use_case, "--mixes", MIXES[use_case], "--seed", chosen.seed,
                 "--clients", chosen.clients,
                 "--warm-up", 5 if use_case == "explore" else 1]
    return bench(chosen, work, use_case, arguments, servers)


def queries(chosen, name, work, asked, servers):
    """A list of queries. Points are too many for Oxigraph's time limit, too."""
    is_points = name == "points"
    servers.start(limit_time=not is_points)
    file = work / f"{name}.jsonl"
    file.write_text("".join(json.dumps(query) + "\n" for query in asked), encoding="utf-8")
    return bench(chosen, work, name,
                 ["endpoints", file, "--clients", POINT_CLIENTS if is_points else "1"], servers)


def of_operators(chosen, work, servers):
    """Queries for each operator of an engine, drawn from the data."""
    store = work / "reference" / "store"
    return queries(chosen, "operators", work, operators.queries(lambda query: rows(chosen, store, query), chosen.seed), servers)


def rows(chosen, store, query):
    """The rows of a query of a store of Pythia, each a list of terms as Turtle has them."""
    result, log = store.parent / "rows.tsv", store.parent / "rows.log"
    processes.run([engines.program(), "query", "-l", store, "--cache", chosen.memory, "--format", "tsv", "-o", result, "-q", query],
                  log)
    return [line.split("\t") for line in result.read_text(encoding="utf-8").split("\n")[1:] if line]


def cold(chosen, work, asked, servers):
    """Each query is the first one of a server that has just started, but for one that asks nothing; the system's page
    cache is empty. Pythia bypasses that cache: its own is a quarter of its store. Gives milliseconds by engine and query."""
    servers.stop()
    times = {name: {} for name in servers.engines}
    for query in asked:
        for _ in range(COLD_RUNS):
            for name, engine in servers.engines.items():
                engine.cache = max(processes.folder_bytes(engine.store) // 4, 1 << 20)
                child, endpoint = engine.serve()
                try:
                    endpoint.wait(child, engines.READY_SECONDS)
                    processes.drop_page_cache()
                    milliseconds = endpoint.ask(query["query"]).seconds * 1e3
                    times[name].setdefault(query["id"], []).append(milliseconds)
                except Refused:
                    pass
                finally:
                    endpoint.close()
                    child.stop()
                    engine.cache = engine.memory
    return times


def updates(chosen, servers):
    """Inserts and deletions, one after the other, the engines in turn; what each holds afterwards is counted. Gives
    milliseconds by kind of update and engine."""
    servers.start(limit_time=False)
    for _, endpoint in servers.running.values():
        endpoint.close()  # the server may have closed an idle connection
    times = {kind: {name: [] for name in servers.running} for kind in UPDATES}
    failed = {}
    for number in range(-2, UPDATE_ROUNDS):
        for kind, make in UPDATES.items():
            for name, (_, endpoint) in in_turn(servers.running, number):
                if name in failed:
                    continue
                started = time.perf_counter()
                try:
                    endpoint.update(make(number))
                except Refused as error:
                    failed[name] = f"{kind}: {error}"
                    continue
                if number >= 0:
                    times[kind][name].append((time.perf_counter() - started) * 1e3)
    counted = {}
    for name, (_, endpoint) in servers.running.items():
        if name not in failed:
            count = f"SELECT (COUNT(*) AS ?n) {{ GRAPH <{UPDATE_GRAPH}> {{ ?s ?p ?o }} }}"
            counted[name] = int(endpoint.ask(count).value)
    expected = (UPDATE_ROUNDS + 2) * (1 + 1000 - 1000)
    for name, count in counted.items():
        if count != expected:
            failed[name] = f"holds {count} triples afterwards, not {expected}"
    kinds = {kind: {name: ms for name, ms in of.items() if ms and name not in failed} for kind, of in times.items()}
    return {"kinds": kinds, "failed": failed, "syncs": {name: engines.ENGINES[name].syncs for name in servers.running}}


def in_turn(running, number):
    """The servers, in the other order every other time."""
    items = list(running.items())
    return items if number % 2 == 0 else reversed(items)


def batch(number):
    """A thousand triples of one round."""
    subject = f"<urn:bench:batch:{number}>"
    return "".join(f"{subject} <urn:bench:value> {value} . " for value in range(1000))


UPDATES = {
    "INSERT DATA of 1 triple": lambda number:
        f"INSERT DATA {{ GRAPH <{UPDATE_GRAPH}> {{ <urn:bench:{number}> <urn:bench:value> {number} }} }}",
    "INSERT DATA of 1,000 triples": lambda number:
        f"INSERT DATA {{ GRAPH <{UPDATE_GRAPH}> {{ {batch(number)} }} }}",
    "DELETE WHERE of 1,000 triples": lambda number:
        f"DELETE WHERE {{ GRAPH <{UPDATE_GRAPH}> {{ <urn:bench:batch:{number}> ?p ?o }} }}",
}
