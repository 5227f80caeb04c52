"""How each database is set up, loaded, served and asked.

An engine is loaded into an empty folder, stopped, measured on disk, then served, open for queries and updates. All get the
same plain file of N-Triples, or the same folder of compressed parts, and, where they can be told, the same memory.
"""

import functools
import os
import shutil
import sys
import time
from pathlib import Path

from . import processes
from .data import CACHE, REPOSITORY, ensure_tool, files
from .sparql_http import Endpoint

CORES = len(os.sched_getaffinity(0))
READY_SECONDS = 180


class Engine:
    """A database with a server of its own. `work` is a folder of its own; the options are `memory`, the bytes it may use
    where it can be told, and `timeout`, the seconds after which it gives up a query."""

    name = ""
    # Whether an acknowledged update is on the device.
    syncs = True
    # Whether the server gives up queries.
    limit_time = True

    def __init__(self, work, options):
        self.store = work / "store"
        self.work = work
        self.memory = self.cache = options.memory
        self.timeout_s = options.timeout
        self.log = work / "log.txt"

    def setup(self):
        """Installs what is missing. Gives the version."""
        raise NotImplementedError

    def load(self, path):
        """Loads a file or a folder of parts into an empty store, and stops. Gives what it cost."""
        raise NotImplementedError

    def serve(self):
        """Starts the server. Gives the child and its endpoint."""
        raise NotImplementedError


class Oxigraph(Engine):
    """The command of the PyPI package `oxigraph`, in an environment of its own."""

    name = "oxigraph"
    version = "0.5.13"
    syncs = False
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
        return processes.run([self.program, "load", "-l", self.store, "-f", *files(path)], self.log)

    def serve(self):
        port = processes.free_port()
        # Its time limit costs a thread for each query, which sleeps that long: at some thousand queries a second there
        # are soon as many as there may be, and it ends.
        limit = ["--timeout-s", int(self.timeout_s)] if self.limit_time else []
        child = processes.Child(
            [self.program, "serve", "-l", self.store, "-b", f"127.0.0.1:{port}", *limit], self.log)
        return child, Endpoint(port, "/query", self.timeout_s + 5, update_path="/update")


class Jena(Engine):
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
            self._java("tdb2.tdbloader", "--loader=parallel", f"--loc={self.store}", *files(path)),
            self.log, cwd=self.work)

    def serve(self):
        port = processes.free_port()
        child = processes.Child(
            self._java("org.apache.jena.fuseki.main.cmds.FusekiMainCmd", "--localhost",
                       f"--port={port}", f"--timeout={int(self.timeout_s * 1000)}", "--update",
                       f"--loc={self.store}", "/bench"),
            self.log, cwd=self.work)
        return child, Endpoint(port, "/bench/query", self.timeout_s + 5, update_path="/bench/update")

    def _java(self, *arguments):
        return ["java", f"-Xmx{self.memory >> 20}m", "-cp", self.jar, *arguments]


class Virtuoso(Engine):
    """Debian's server, without its service. Data goes into one named graph, which queries name as
    their default graph: Virtuoso's own default graph also holds its system's triples."""

    name = "virtuoso"
    graph = "urn:bench"

    def __init__(self, work, options):
        super().__init__(work, options)
        # The folder that the loaders read.
        self.parts = work / "parts"

    def setup(self):
        ensure_tool("virtuoso-t", "virtuoso-opensource-7-bin")
        ensure_tool("isql-vt", "virtuoso-opensource-7-bin")
        lines = processes.output(["virtuoso-t", "-?"]).splitlines()
        version = next((line for line in lines if line.startswith("Version")), "")
        return "Virtuoso " + version.removeprefix("Version").split("-")[0].strip()

    def load(self, path):
        if path.is_dir():
            self.parts, names = path, "%.nt.gz"
        else:
            split_lines(path, self.parts, CORES)
            names = "%.nt"
        child, endpoint = self.serve()
        try:
            endpoint.wait(child, READY_SECONDS)
            self._sql(f"ld_dir('{self.parts}', '{names}', '{self.graph}');")
            cpu_s, started = child.cpu_s(), time.monotonic()
            loaders = [self._isql("rdf_loader_run();") for _ in range(CORES)]
            for loader in loaders:
                loader.wait()
            self._sql("checkpoint;")
            cost = processes.Measured(time.monotonic() - started, child.cpu_s() - cpu_s,
                                      child.peak_now())
            # Updates over HTTP are for everybody then; the server listens on this machine alone.
            self._sql('grant SPARQL_UPDATE to "SPARQL";')
            # What went wrong stands in the log; that it did, the count of triples tells.
            self._sql("select ll_file || ': ' || ll_error from DB.DBA.load_list "
                      "where ll_error is not null;")
            self._shut_down(child)
        finally:
            child.stop()
            shutil.rmtree(self.work / "parts", ignore_errors=True)
        return cost

    def serve(self):
        self.store.mkdir(exist_ok=True)
        self.sql_port, port = processes.free_port(), processes.free_port()
        ini = self.store / "virtuoso.ini"
        ini.write_text(self._settings(port), encoding="utf-8")
        child = processes.Child(["virtuoso-t", "+foreground", "+configfile", ini], self.log,
                                cwd=self.store)
        endpoint = Endpoint(port, "/sparql", self.timeout_s + 5,
                            {"default-graph-uri": self.graph}, update_path="/sparql", update_name="query")
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
DirsAllowed = {self.parts}
NumberOfBuffers = {buffers}
MaxDirtyBuffers = {buffers * 3 // 4}
MaxQueryMem = {self.memory // 2}
ThreadsPerQuery = {CORES}
AsyncQueueMaxThreads = {CORES * 2}
CheckpointInterval = 0
[HTTPServer]
ServerPort = 127.0.0.1:{port}
ServerRoot = {store}
MaxClientConnections = 32
ServerThreads = 32
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
    """This repository's binary as a server."""

    name = "pythia"

    def setup(self):
        return processes.output([program(), "--version"])

    def load(self, path):
        return processes.run([program(), "load", "-l", self.store, "--quiet",
                              "--memory", self.memory, *files(path)], self.log)

    def serve(self):
        port = processes.free_port()
        child = processes.Child(
            [program(), "serve", "-l", self.store, "--bind", f"127.0.0.1:{port}",
             "--cache", self.cache, "--timeout", f"{int(self.timeout_s)}s"], self.log)
        return child, Endpoint(port, "/query", self.timeout_s + 5, update_path="/update")


@functools.cache
def program():
    """The `pythia` binary: $PYTHIA, or this repository as it is now, built as it is published."""
    given = os.environ.get("PYTHIA")
    if given:
        return Path(given)
    target = Path(os.environ.get("CARGO_TARGET_DIR", CACHE.parent / "target"))
    print("build pythia", flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    processes.run(["cargo", "build", "--profile", "dist", "--locked", "-p", "pythiadb-cli"],
                  CACHE / "build.log", cwd=REPOSITORY,
                  env={**os.environ, "CARGO_TARGET_DIR": str(target)})
    return target / "dist" / "pythia"


ENGINES = {engine.name: engine for engine in (Pythia, Oxigraph, Virtuoso, Jena)}
