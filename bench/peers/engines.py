"""How each database is set up, loaded, served and asked.

An engine is loaded into an empty folder, stopped, measured on disk, then served for the queries.
All get the same plain file of N-Triples and, where they can be told, the same memory.
"""

import contextlib
import functools
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from . import processes
from .data import CACHE, REPOSITORY, ensure_tool
from .sparql_http import Endpoint, Refused

CORES = len(os.sched_getaffinity(0))
READY_SECONDS = 180
EMPTY, EMPTY_RUNS = "ASK {}", 200
COUNT_ALL = "SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }"


class Outcome:
    """What became of one query on one engine."""

    def __init__(self):
        self.rows = None
        self.value = None
        self.seconds = []
        self.error = None


class Engine:
    """A database. `work` is a folder of its own, `memory` the bytes it may use where it can be told.

    After `measure`, `query_peak_bytes` is the most memory its process held, and `empty_s` the median
    time of a query that asks nothing: how long its protocol takes."""

    name = ""
    how = "over HTTP on loopback"
    query_peak_bytes = 0
    empty_s = None

    def __init__(self, work, memory, timeout_s, cold):
        self.store = work / "store"
        self.work = work
        self.memory = memory
        self.timeout_s = timeout_s
        self.cold = cold
        self.log = work / "log.txt"

    def setup(self):
        """Installs what is missing. Gives the version."""
        raise NotImplementedError

    def load(self, path):
        """Loads a file into an empty store, and stops. Gives what it cost."""
        raise NotImplementedError

    def measure(self, queries, runs, warm_up, budget_s):
        """Outcomes by query id: rounds of all queries, the first ones not counted."""
        raise NotImplementedError


class HttpEngine(Engine):
    """A database with a server of its own."""

    def serve(self):
        """Starts the server. Gives the child and its endpoint."""
        raise NotImplementedError

    def measure(self, queries, runs, warm_up, budget_s):
        outcomes = {query["id"]: Outcome() for query in queries}
        with self.served() as (child, endpoint):
            triples = endpoint.ask(COUNT_ALL).value
            deadline = time.monotonic() + budget_s
            for round_number in range(0 if self.cold else warm_up + runs):
                if round_number > warm_up and time.monotonic() > deadline:
                    break
                for query in queries:
                    outcome = outcomes[query["id"]]
                    if outcome.error is None:
                        ask(endpoint, child, query, outcome, counted=round_number >= warm_up)
            self.empty_s = statistics.median(
                endpoint.ask(EMPTY).seconds for _ in range(EMPTY_RUNS))
        if self.cold:
            self.measure_cold(queries, outcomes, runs)
        return outcomes, int(triples)

    def measure_cold(self, queries, outcomes, runs):
        """Each query is the first one that a server is asked, but for one that asks nothing."""
        for query in queries:
            outcome = outcomes[query["id"]]
            for _ in range(runs):
                if outcome.error is None:
                    with self.served() as (child, endpoint):
                        endpoint.ask(EMPTY)
                        processes.drop_page_cache()
                        ask(endpoint, child, query, outcome, counted=True)

    @contextlib.contextmanager
    def served(self):
        """The server's child and endpoint, while it runs."""
        child, endpoint = self.serve()
        try:
            endpoint.wait(child, READY_SECONDS)
            yield child, endpoint
        finally:
            endpoint.close()
            child.stop()
            self.query_peak_bytes = max(self.query_peak_bytes, child.peak_bytes)


def ask(endpoint, child, query, outcome, counted):
    """Runs one query and notes what came of it."""
    try:
        answer = endpoint.ask(query["query"])
    except Refused as error:
        outcome.error = " ".join(str(error).split())
        child.check()
        return
    if outcome.rows not in (None, answer.rows):
        outcome.error = f"gave {answer.rows} results after {outcome.rows} before"
    outcome.rows, outcome.value = answer.rows, answer.value
    if counted:
        outcome.seconds.append(answer.seconds)


class Oxigraph(HttpEngine):
    """The command of the PyPI package `oxigraph`, in an environment of its own."""

    name = "oxigraph"
    version = "0.5.13"
    program = CACHE / "oxigraph" / "venv" / "bin" / "oxigraph"

    def setup(self):
        if self.version not in processes.output([self.program, "--version"]):
            folder = CACHE / "oxigraph" / "venv"
            folder.parent.mkdir(parents=True, exist_ok=True)
            processes.run([sys.executable, "-m", "venv", "--clear", folder], self.log)
            processes.run([folder / "bin" / "pip", "install", "-q", f"oxigraph=={self.version}"],
                          self.log)
        return processes.output([self.program, "--version"])

    def load(self, path):
        return processes.run([self.program, "load", "-l", self.store, "-f", path], self.log)

    # Its time limit costs a thread for each query, which sleeps that long: at some thousand queries a second
    # there are soon as many as there may be, and it ends.
    limits_time = True

    def serve(self):
        port = processes.free_port()
        limit = ["--timeout-s", int(self.timeout_s)] if self.limits_time else []
        child = processes.Child(
            [self.program, "serve-read-only", "-l", self.store, "-b", f"127.0.0.1:{port}", *limit], self.log)
        return child, Endpoint(port, "/query", self.timeout_s + 5)


class Jena(HttpEngine):
    """TDB2 and Fuseki, from the one jar that Maven Central has of both."""

    name = "jena"
    version = "5.6.0"
    jar = CACHE / "jena" / f"jena-fuseki-server-{version}.jar"

    def setup(self):
        ensure_tool("java", "default-jre-headless")
        if not self.jar.exists():
            ensure_tool("mvn", "maven")
            self.jar.parent.mkdir(parents=True, exist_ok=True)
            artifact = f"org.apache.jena:jena-fuseki-server:{self.version}"
            processes.run(
                ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
                 f"-Dartifact={artifact}", f"-DoutputDirectory={self.jar.parent}"], self.log)
        return f"Jena TDB2 {self.version}"

    def load(self, path):
        return processes.run(
            self._java("tdb2.tdbloader", "--loader=parallel", f"--loc={self.store}", path),
            self.log, cwd=self.work)

    def serve(self):
        port = processes.free_port()
        child = processes.Child(
            self._java("org.apache.jena.fuseki.main.cmds.FusekiMainCmd", "--localhost",
                       f"--port={port}", f"--timeout={int(self.timeout_s * 1000)}",
                       f"--loc={self.store}", "/bench"),
            self.log, cwd=self.work)
        return child, Endpoint(port, "/bench/query", self.timeout_s + 5)

    def _java(self, *arguments):
        return ["java", f"-Xmx{self.memory >> 20}m", "-cp", self.jar, *arguments]


class Virtuoso(HttpEngine):
    """Debian's server, without its service. Data goes into one named graph, which queries name as
    their default graph: Virtuoso's own default graph also holds its system's triples."""

    name = "virtuoso"
    graph = "urn:bench"

    def setup(self):
        ensure_tool("virtuoso-t", "virtuoso-opensource-7-bin")
        ensure_tool("isql-vt", "virtuoso-opensource-7-bin")
        lines = processes.output(["virtuoso-t", "-?"]).splitlines()
        version = next((line for line in lines if line.startswith("Version")), "")
        return "Virtuoso " + version.removeprefix("Version").split("-")[0].strip()

    def load(self, path):
        parts = split_lines(path, self.work / "parts", CORES)
        child, endpoint = self.serve()
        try:
            endpoint.wait(child, READY_SECONDS)
            self._sql(f"ld_dir('{parts}', '%.nt', '{self.graph}');")
            cpu_s, started = child.cpu_s(), time.monotonic()
            loaders = [self._isql("rdf_loader_run();") for _ in range(CORES)]
            for loader in loaders:
                loader.wait()
            self._sql("checkpoint;")
            cost = processes.Measured(time.monotonic() - started, child.cpu_s() - cpu_s,
                                      child.peak_now())
            # What went wrong stands in the log; that it did, the count of triples tells.
            self._sql("select ll_file || ': ' || ll_error from DB.DBA.load_list "
                      "where ll_error is not null;")
            self._shut_down(child)
        finally:
            child.stop()
            shutil.rmtree(parts, ignore_errors=True)
        return cost

    def serve(self):
        self.store.mkdir(exist_ok=True)
        self.sql_port, port = processes.free_port(), processes.free_port()
        ini = self.store / "virtuoso.ini"
        ini.write_text(self._settings(port), encoding="utf-8")
        child = processes.Child(["virtuoso-t", "+foreground", "+configfile", ini], self.log,
                                cwd=self.store)
        endpoint = Endpoint(port, "/sparql", self.timeout_s + 5,
                            {"default-graph-uri": self.graph})
        return child, endpoint

    def _settings(self, port):
        # Each buffer is a page of 8 KiB and about 700 bytes around it.
        buffers = self.memory // 8900
        store = self.store
        return f"""[Database]
DatabaseFile = {store}/virtuoso.db
ErrorLogFile = {store}/virtuoso.log
LockFile = {store}/virtuoso.lck
TransactionFile = {store}/virtuoso.trx
xa_persistent_file = {store}/virtuoso.pxa
[TempDatabase]
DatabaseFile = {store}/virtuoso-temp.db
TransactionFile = {store}/virtuoso-temp.trx
[Parameters]
ServerPort = 127.0.0.1:{self.sql_port}
DirsAllowed = {self.work}
NumberOfBuffers = {buffers}
MaxDirtyBuffers = {buffers * 3 // 4}
MaxQueryMem = {self.memory // 2}
ThreadsPerQuery = {CORES}
AsyncQueueMaxThreads = {CORES * 2}
CheckpointInterval = 0
[HTTPServer]
ServerPort = 127.0.0.1:{port}
ServerRoot = {store}
MaxClientConnections = 8
ServerThreads = 8
[SPARQL]
MaxQueryExecutionTime = {int(self.timeout_s)}
"""

    def _isql(self, statement):
        return processes.Child(
            ["isql-vt", f"127.0.0.1:{self.sql_port}", "dba", "dba", "ERRORS=STDOUT",
             f"EXEC={statement}"], self.log)

    def _sql(self, statement):
        self._isql(statement).wait()

    def _shut_down(self, child):
        """By its own command: what it has in memory is on disk afterwards."""
        try:
            self._sql("shutdown;")
        except processes.Failed:
            pass  # the server may close the connection before it has answered
        child.wait()


def split_lines(path, folder, parts):
    """Cuts a file of lines into parts for parallel loaders."""
    folder.mkdir(parents=True)
    size = path.stat().st_size
    with open(path, "rb") as data:
        for number in range(parts):
            end = size * (number + 1) // parts
            with open(folder / f"part-{number}.nt", "wb") as out:
                while data.tell() < end:
                    out.write(data.read(min(1 << 22, end - data.tell())))
                out.write(data.readline())
    return folder


class Pythia(Engine):
    """This repository's binary, in process."""

    name = "pythia"
    how = "in process"

    def setup(self):
        return processes.output([program(), "--version"])

    def load(self, path):
        return processes.run([program(), "load", "-l", self.store, "--quiet",
                              "--memory", self.memory, path], self.log)

    def measure(self, queries, runs, warm_up, budget_s):
        questions, answers = self.work / "queries.jsonl", self.work / "answers.json"
        extra = [{"id": "count all", "query": COUNT_ALL}, {"id": "empty", "query": EMPTY}]
        questions.write_text("".join(json.dumps(query) + "\n" for query in [*queries, *extra]),
                             encoding="utf-8")
        # A cache of a quarter of the store, which is emptied before each query.
        quarter = max(processes.folder_bytes(self.store) // 4, 1 << 20)
        cache = ["--cache", quarter, "--cold"] if self.cold else ["--cache", self.memory]
        cost = processes.run(
            [program(), "bench", "queries", "-l", self.store, questions, "--runs", runs,
             *cache, "--timeout", self.timeout_s, "--seconds", budget_s,
             "--serialize", "--json", answers], self.log)
        self.query_peak_bytes = cost.peak_bytes
        outcomes = {}
        for report in json.loads(answers.read_text(encoding="utf-8"))["queries"]:
            outcome = Outcome()
            outcome.rows, outcome.error = report["rows"], report["error"]
            outcome.value = lexical_form(report["value"])
            outcome.seconds = [us / 1e6 for us in report["runs_us"]]
            outcomes[report["id"]] = outcome
        total, empty = outcomes.pop("count all"), outcomes.pop("empty")
        self.empty_s = statistics.median(empty.seconds) if empty.seconds else None
        return outcomes, int(total.value) if total.value else None


class PythiaServer(HttpEngine):
    """This repository's binary as a server."""

    name = "pythia"

    def setup(self):
        return processes.output([program(), "--version"])

    def load(self, path):
        return processes.run([program(), "load", "-l", self.store, "--quiet",
                              "--memory", self.memory, path], self.log)

    def serve(self):
        port = processes.free_port()
        child = processes.Child(
            [program(), "serve", "-l", self.store, "--bind", f"127.0.0.1:{port}",
             "--cache", self.memory, "--timeout", f"{int(self.timeout_s)}s"], self.log)
        return child, Endpoint(port, "/query", self.timeout_s + 5)


def lexical_form(term):
    """What SPARQL JSON calls the value of a term in N-Triples syntax."""
    if term is None:
        return None
    if term.startswith('"'):
        return json.loads(term[:term.rindex('"') + 1])
    return term.strip("<>")


@functools.cache
def program():
    """The `pythia` binary: $PYTHIA, or the release build of this repository as it is now."""
    given = os.environ.get("PYTHIA")
    if given:
        return Path(given)
    target = Path(os.environ.get("CARGO_TARGET_DIR", CACHE.parent / "target"))
    print("build pythia", flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    processes.run(["cargo", "build", "--release", "--locked", "-p", "pythia-cli"],
                  CACHE / "build.log", cwd=REPOSITORY,
                  env={**os.environ, "CARGO_TARGET_DIR": str(target)})
    return target / "release" / "pythia"


ENGINES = {engine.name: engine for engine in (Pythia, Oxigraph, Virtuoso, Jena)}
SERVERS = {engine.name: engine for engine in (PythiaServer, Oxigraph)}
