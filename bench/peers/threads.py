"""bench/threads: how much faster queries are with several threads, beside what the machine allows.

Two processes with one thread each, side by side, show what the second core adds at most: they share the memory and the
caches of the processor as the threads of one query do, and wait for nothing.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from . import command, engines, processes

QUERIES = Path(__file__).resolve().parents[1] / "queries" / "threads.jsonl"
# Ways to run a query: the number of threads, and of processes side by side.
WAYS = {"alone": (1, 1), "side by side": (1, 2), "two threads": (2, 1)}


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/threads", description="Runs each query with one thread, with one thread in two processes side by side, and "
        "with two threads, by turns.")
    parser.add_argument("-l", "--location", required=True, metavar="STORE", help="a store of BSBM")
    parser.add_argument("--queries", default=QUERIES, metavar="FILE", help="(default: %(default)s)")
    parser.add_argument("--templates", metavar="NAME,…", help="only these")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--runs", type=int, default=7, metavar="N", help="runs of each query in a round (default: %(default)s)")
    parser.add_argument("--cache", default="1500M", metavar="SIZE", help="(default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="where all figures go (default: bench/results)")
    return parser.parse_args(given)


def main(given=None):
    """Gives the exit code."""
    return command.guarded(measure, arguments(given))


def measure(chosen):
    """Measures, prints and records."""
    machine = command.describe_machine()
    lines = Path(chosen.queries).read_text(encoding="utf-8").splitlines()
    queries = [json.loads(line) for line in lines if line.strip()]
    only = chosen.templates.split(",") if chosen.templates else None
    queries = [query for query in queries if only is None or query["template"] in only]
    if not queries:
        raise ValueError(f"{chosen.queries} has none of these templates")
    program = engines.program()
    times = {query["id"]: {way: [] for way in WAYS} for query in queries}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(chosen.rounds):
            ways = list(WAYS) if number % 2 == 0 else list(reversed(WAYS))
            for query in queries:
                for way in ways:
                    times[query["id"]][way].append(timed(chosen, program, Path(folder), query, *WAYS[way]))
    found = compared(times)
    for line in table(found):
        print(line)
    record = {**command.occasion(machine), "version": processes.output([program, "--version"]),
              "settings": {key: str(value) for key, value in vars(chosen).items() if key != "json"}, "queries": found}
    print(f"all figures: {command.write_record(record, 'threads', chosen.json)}")
    return 0


def timed(chosen, program, folder, query, threads, copies):
    """The median time of a query, in ms: the mean of the copies that run side by side."""
    file = folder / "query.jsonl"
    file.write_text(json.dumps(query) + "\n", encoding="utf-8")
    children = []
    for copy in range(copies):
        asked = [program, "bench", "queries", "-l", chosen.location, "--cache", chosen.cache, "--threads", threads,
                 "--runs", chosen.runs, "--json", folder / f"{copy}.json", file]
        children.append(processes.Child(asked, folder / f"{copy}.log"))
    for child in children:
        child.wait()
    answers = [json.loads((folder / f"{copy}.json").read_text(encoding="utf-8")) for copy in range(copies)]
    return statistics.mean(answer["queries"][0]["latency"]["p50_us"] for answer in answers) / 1000


def compared(times):
    """For each query the median times, the ratio of one thread to two, and the ratio of two processes to one after the other."""
    found = []
    for query, ways in times.items():
        medians = {way: statistics.median(of) for way, of in ways.items()}
        found.append({"query": query, **medians, "ratio": medians["alone"] / medians["two threads"],
                      "possible": 2 * medians["alone"] / medians["side by side"]})
    return found


def table(found):
    """The lines that are printed."""
    yield f"{'query':20} {'1 thread':>9} {'2 threads':>9} {'ratio':>6} {'possible':>8}"
    for of in found:
        yield f"{of['query']:20} {of['alone']:9.1f} {of['two threads']:9.1f} {of['ratio']:6.2f} {of['possible']:8.2f}"
    ratio, possible = (statistics.median(of[name] for of in found) for name in ("ratio", "possible"))
    yield f"{'median':20} {'':9} {'':9} {ratio:6.2f} {possible:8.2f}"
    yield f"{sum(of['ratio'] >= 1.5 for of in found)} of {len(found)} ratios are at least 1.5; times in ms"
