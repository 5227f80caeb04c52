"""bench/server: the rate of point queries over HTTP, and latencies at half of it."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import urllib.request
from pathlib import Path

from . import command, data, engines, points, processes, report

SERVERS = ("pythia", "oxigraph")
SCRIPT = Path(__file__).resolve().parents[1] / "points.lua"


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/server", description="Measures point queries over HTTP with wrk, Pythia's "
        "server and Oxigraph's by turns, and latencies at half of each one's rate.")
    parser.add_argument("--peers", default="pythia,oxigraph", metavar="NAME,…",
                        help="which servers (default: %(default)s)")
    parser.add_argument("--data", default="bsbm-1m", metavar="NAME|FILE",
                        help="bsbm-1m, bsbm-10m or a file of BSBM (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=2000, metavar="N",
                        help="different queries (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=8, metavar="N",
                        help="connections that ask at once (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=5, metavar="N",
                        help="runs of each server (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10, metavar="S",
                        help="how long a run is (default: %(default)s)")
    parser.add_argument("--memory", default="1G", metavar="SIZE",
                        help="Pythia's page cache (default: %(default)s)")
    parser.add_argument("--check", type=int, default=400, metavar="N",
                        help="queries whose answers are compared first (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="where all figures go (default: bench/results)")
    chosen = parser.parse_args(given)
    chosen.peers = [name for name in chosen.peers.split(",") if name]
    unknown = [name for name in chosen.peers if name not in SERVERS]
    if unknown or not chosen.peers:
        parser.error(f"--peers: choose from {', '.join(SERVERS)}")
    chosen.memory, chosen.timeout = command.size(chosen.memory), 60
    return chosen


def main(given=None):
    """Gives the exit code: 0 if all servers were measured and none failed a request."""
    chosen = arguments(given)
    return command.guarded(measure, chosen)


def measure(chosen):
    """Loads, compares, measures by turns, and prints."""
    data.ensure_tool("wrk", "wrk")
    name, path = data.bsbm(chosen.data, engines.program)
    queries = points.queries(path, chosen.queries)
    machine = command.describe_machine()
    print(f"{name}: {len(queries)} queries, {chosen.connections} connections, "
          f"{machine['cores']} cores, load average {machine['load_average']:.1f} before", flush=True)
    works, servers = [], {}
    try:
        for peer in chosen.peers:
            works.append(data.CACHE / "work" / f"server-{peer}-{name}")
            servers[peer] = start(peer, works[-1], chosen, path)
        different = differences(queries[:chosen.check], servers)
        for line in different:
            print(f"  answers differ: {line}")
        runs = by_turns(chosen, queries, servers, works[0])
        entries = summaries(runs)
        for peer, (_, child, endpoint) in servers.items():
            rate = entries[peer]["per_second"] / 2
            entries[peer]["half_load"] = half_load(chosen, queries, endpoint, rate, works[0])
            entries[peer]["peak_bytes"] = child.peak_now()
        versions = {peer: version for peer, (version, _, _) in servers.items()}
    finally:
        for _, child, endpoint in servers.values():
            endpoint.close()
            child.stop()
        for work in works:
            shutil.rmtree(work, ignore_errors=True)
    print(tables(entries))
    write(chosen, name, machine, versions, entries, different)
    failed = sum(run["failed"] + run["refused"] for of in runs.values() for run in of)
    if failed:
        print(f"{failed} requests failed", file=sys.stderr)
    return 1 if failed or different else 0


def start(name, work, chosen, path):
    """Loads a store of its own, and serves it. Gives version, child and endpoint."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    engine = engines.ENGINES[name](work, chosen)
    engine.limit_time = False
    version = engine.setup()
    print(f"{name}: {version}: load", flush=True)
    engine.load(path)
    child, endpoint = engine.serve()
    endpoint.wait(child, engines.READY_SECONDS)
    return version, child, endpoint


def differences(queries, servers):
    """Queries on which the servers do not agree."""
    found = []
    for query in queries:
        answers = {name: answer(endpoint, query) for name, (_, _, endpoint) in servers.items()}
        if len({json.dumps(given) for given in answers.values()}) > 1:
            found.append(query["id"])
    return found


def answer(endpoint, query):
    """The rows in an order of their own, or the truth value."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{endpoint.port}{points.target(query, endpoint.path)}",
        headers={"Accept": "application/sparql-results+json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        given = json.load(response)
    if "boolean" in given:
        return given["boolean"]
    rows = [sorted((name, value["type"], value["value"], value.get("xml:lang"), value.get("datatype"))
                   for name, value in row.items()) for row in given["results"]["bindings"]]
    return sorted(rows, key=json.dumps)


def by_turns(chosen, queries, servers, work):
    """Runs of wrk, the servers by turns: what disturbs one disturbs the others too."""
    runs = {name: [] for name in servers}
    for name, (_, _, endpoint) in servers.items():
        wrk(chosen, queries, endpoint, work, seconds=min(chosen.seconds, 3))
    for number in range(chosen.pairs):
        order = list(servers) if number % 2 == 0 else list(reversed(servers))
        for name in order:
            _, child, endpoint = servers[name]
            try:
                run = wrk(chosen, queries, endpoint, work, chosen.seconds)
            except processes.Failed:
                child.check()
                raise
            runs[name].append(run)
            print(f"  {name}: {run['per_second']:,.0f}/s, p50 {run['p50_ms']:.2f} ms, "
                  f"p99 {run['p99_ms']:.2f} ms", flush=True)
    return runs


def wrk(chosen, queries, endpoint, work, seconds):
    """One run."""
    file = work / "targets.txt"
    file.write_text("".join(points.target(query, endpoint.path) + "\n" for query in queries))
    done = subprocess.run(
        ["wrk", "-t", str(min(2, chosen.connections)), "-c", str(chosen.connections),
         "-d", f"{max(1, round(seconds))}s", "--timeout", "30s", "-s", str(SCRIPT),
         f"http://127.0.0.1:{endpoint.port}", "--", str(file)],
        capture_output=True, text=True, timeout=seconds + 60, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise processes.Failed(f"wrk: {(done.stderr or done.stdout).strip()[-300:]}")
    run = json.loads(lines[-1])
    run["per_second"] = (run["requests"] - run["refused"]) / run["seconds"]
    return run


def half_load(chosen, queries, endpoint, rate, work):
    """Latencies when requests come at random times at this rate: an open loop."""
    file, figures = work / "requests.jsonl", work / "half.json"
    file.write_text("".join(json.dumps(query) + "\n" for query in queries), encoding="utf-8")
    base = endpoint.path.removesuffix("/query")
    processes.run(
        [engines.program(), "bench", "http", file, "--url", f"http://127.0.0.1:{endpoint.port}{base}",
         "--connections", chosen.connections, "--rate", rate, "--seconds", chosen.seconds,
         "--json", figures], work / "half.log")
    return json.loads(figures.read_text(encoding="utf-8"))


def summaries(runs):
    """Medians over the runs of each server."""
    entries = {}
    for name, of in runs.items():
        entries[name] = {key: statistics.median(run[key] for run in of)
                         for key in ("per_second", "p50_ms", "p95_ms", "p99_ms")}
        entries[name]["runs"] = of
    first = next(iter(runs))
    for name, of in runs.items():
        pairs = zip(runs[first], of)
        entries[name]["by_first"] = statistics.median(
            mine["per_second"] / theirs["per_second"] for mine, theirs in pairs)
    return entries


def tables(entries):
    """For people."""
    first = next(iter(entries))
    rows = [[name, f"{entry['per_second']:,.0f}", f"{entry['p50_ms']:.2f}", f"{entry['p99_ms']:.2f}",
             f"{entry['by_first']:.2f}x"] for name, entry in entries.items()]
    text = report.table("As many queries as can be answered (medians of runs by turns)",
                        ["server", "queries/s", "p50 ms", "p99 ms", f"{first} is faster"], rows)
    rows = []
    for name, entry in entries.items():
        half = entry["half_load"]
        latency = half["latency"]
        rows.append([name, f"{half['offered_per_second']:,.0f}", f"{half['per_second']:,.0f}",
                     f"{latency['p50_us'] / 1e3:.2f}", f"{latency['p99_us'] / 1e3:.2f}",
                     f"{latency['max_us'] / 1e3:.1f}", f"{entry['peak_bytes'] / 1e6:,.0f}"])
    return text + "\n" + report.table(
        "At half of its own rate, at random times (latency from when a query was due)",
        ["server", "offered/s", "answered/s", "p50 ms", "p99 ms", "max ms", "peak MB"], rows)


def write(chosen, name, machine, versions, entries, different):
    """All figures, with the machine and the command."""
    record = {
        **command.occasion(machine),
        "data": name,
        "versions": versions,
        "settings": {"queries": chosen.queries, "connections": chosen.connections,
                     "seconds": chosen.seconds, "pairs": chosen.pairs, "memory": chosen.memory},
        "servers": entries,
        "differences": different,
    }
    path = command.write_record(record, f"server-{name}", chosen.json)
    print(f"all figures: {path}")


