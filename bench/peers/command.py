"""bench/compare: the arguments, and the order of things."""

import argparse
import datetime
import json
import os
import platform
import shutil
import sys
from pathlib import Path

from . import data, engines, processes, report
from .sparql_http import Refused

RESULTS = Path(__file__).resolve().parents[1] / "results"
# An engine that fails in one of these ways is left out; the others go on.
TROUBLE = (processes.Failed, data.Missing, Refused, OSError, ValueError, KeyError)


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/compare", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measures Oxigraph, Virtuoso and Jena TDB2 beside Pythia on the same data and "
        "queries.\nSets up what is missing under ~/.cache/pythia/peers.")
    parser.add_argument("--peers", default=",".join(engines.ENGINES), metavar="NAME,…",
                        help="which engines, in order (default: %(default)s)")
    parser.add_argument("--data", default="yago", metavar="NAME|FILE",
                        help="yago, bsbm-1m, bsbm-10m or a file (default: %(default)s)")
    parser.add_argument("--queries", metavar="FILE.jsonl",
                        help='queries, one {"id", "template", "query"} a line (default: those that '
                        "belong to the data; of BSBM, with parameters drawn from the data)")
    parser.add_argument("--use-case", choices=data.USE_CASES, default="explore",
                        help="which queries are asked of BSBM (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="what their parameters are drawn by (default: %(default)s)")
    parser.add_argument("--only", metavar="NAME,…", help="only queries of these templates")
    parser.add_argument("--runs", type=int, default=10, metavar="N",
                        help="counted rounds of all queries (default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=3, metavar="N",
                        help="rounds before, not counted (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=180, metavar="S",
                        help="begin no round after this long, per engine (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=60, metavar="S",
                        help="give up a query after this long (default: %(default)s)")
    parser.add_argument("--memory", default="2G", metavar="SIZE",
                        help="memory each engine may use, where it can be told (default: %(default)s)")
    parser.add_argument("--cold", action="store_true",
                        help="start each server anew for each query and drop the system's page "
                        "cache (as root); Pythia gets a cache of a quarter of its store, emptied "
                        "before each query")
    parser.add_argument("--keep", action="store_true", help="keep the stores")
    chosen = parser.parse_args(given)
    chosen.peers = [name for name in chosen.peers.split(",") if name]
    unknown = [name for name in chosen.peers if name not in engines.ENGINES]
    if unknown or not chosen.peers:
        parser.error(f"--peers: choose from {', '.join(engines.ENGINES)}")
    if chosen.runs < 1 or chosen.warm_up < 0:
        parser.error("--runs is at least 1, --warm-up at least 0")
    try:
        chosen.memory = size(chosen.memory)
    except ValueError:
        parser.error("--memory: write a size such as 512M or 2G")
    return chosen


def size(text):
    """Bytes of a size such as 512M."""
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    text = text.strip().upper()
    if text and text[-1] in units:
        return int(float(text[:-1]) * (1 << units[text[-1]]))
    return int(text)


def guarded(measure, chosen):
    """Measures and returns the exit code. An error becomes one line, and all started processes end."""
    processes.raise_on_signals()
    try:
        return measure(chosen)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except TROUBLE as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        processes.stop_all()


def main(given=None):
    """Returns the exit code: 0 if all engines asked for were measured, 1 if one was not."""
    return guarded(compare, arguments(given))


def compare(chosen):
    """Measures the engines one after the other and prints what was found."""
    dataset = data.find(chosen.data, chosen.queries, engines.program, chosen.use_case, chosen.seed)
    if chosen.only:
        wanted = chosen.only.split(",")
        dataset.queries = [query for query in dataset.queries if query["template"] in wanted]
        if not dataset.queries:
            raise data.Missing(f"no query of {chosen.only} in {dataset.queries_path}")
    machine = describe_machine()
    print(f"{dataset.name}: {dataset.path.stat().st_size / 1e6:,.0f} MB of N-Triples, "
          f"{len(dataset.queries)} queries of {dataset.queries_path.name}")
    print(f"{machine['cores']} cores, {machine['processor']}, "
          f"load average {machine['load_average']:.1f} before\n", flush=True)
    reports, results = {}, {}
    for name in chosen.peers:
        reports[name] = {}
        try:
            results[name] = measure(name, chosen, dataset, reports[name])
        except TROUBLE as error:
            reports[name]["error"] = str(error)
            print(f"{name}: left out: {error}", file=sys.stderr, flush=True)
    differing = report.differences(dataset.queries, results)
    print_all(dataset, reports, results, differing, "cold" if chosen.cold else "warm")
    path = write_json(chosen, dataset, machine, reports, results, differing)
    print(f"all figures: {path}")
    return 1 if any("error" in entry for entry in reports.values()) else 0


def measure(name, chosen, dataset, entry):
    """Sets up, loads and queries one engine; fills `entry` as it goes. Gives the outcomes."""
    work = data.CACHE / "work" / f"{name}-{dataset.name}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    engine = engines.ENGINES[name](work, chosen.memory, chosen.timeout, chosen.cold)
    kept = chosen.keep
    try:
        entry["version"], entry["how"] = engine.setup(), engine.how
        print(f"{name}: {entry['version']}: load", flush=True)
        dataset.warm()
        cost = engine.load(dataset.path)
        entry.update(load_wall_s=cost.wall_s, load_cpu_s=cost.cpu_s,
                     load_peak_bytes=cost.peak_bytes,
                     disk_bytes=processes.folder_bytes(engine.store))
        print(f"{name}: query", flush=True)
        outcomes, triples = engine.measure(dataset.queries, chosen.runs, chosen.warm_up,
                                           chosen.seconds)
        entry.update(triples=triples, query_peak_bytes=engine.query_peak_bytes,
                     empty_s=engine.empty_s)
        return outcomes
    except TROUBLE:
        kept = True  # its log tells why
        print(f"{name}: see {engine.log}", file=sys.stderr)
        raise
    finally:
        if not kept:
            shutil.rmtree(work, ignore_errors=True)


def print_all(dataset, reports, results, differing, temperature):
    """All tables."""
    print()
    complete = {name: entry for name, entry in reports.items() if name in results}
    print(report.load_table(complete))
    counts = {entry["triples"] for entry in complete.values()}
    if len(counts) > 1:
        told = ", ".join(f"{name} {entry['triples']:,}" for name, entry in complete.items())
        print(f"  The engines do not hold the same number of triples: {told}\n")
    if results:
        print(report.query_table(dataset.queries, results, complete, temperature))
        print(report.emptiness_text(dataset.queries, results))
        print(report.difference_text(dataset.queries, differing, list(results)))
        failed = report.failure_text(report.failures(dataset.queries, results))
        if failed:
            print(failed)


def write_json(chosen, dataset, machine, reports, results, differing):
    """Everything that was measured, with the machine and the command."""
    for name, outcomes in results.items():
        reports[name]["empty"] = report.emptiness(dataset.queries, outcomes)
        reports[name]["queries"] = {
            id_: {"rows": outcome.rows, "value": outcome.value, "error": outcome.error,
                  "runs_ms": [round(second * 1e3, 4) for second in outcome.seconds]}
            for id_, outcome in outcomes.items()
        }
    record = {
        **occasion(machine),
        "data": {"name": dataset.name, "bytes": dataset.path.stat().st_size},
        "queries": [{"id": query["id"], "template": query["template"], "query": query["query"]}
                    for query in dataset.queries],
        "settings": {"use_case": chosen.use_case, "seed": chosen.seed, "runs": chosen.runs, "warm_up": chosen.warm_up, "memory": chosen.memory,
                     "cold": chosen.cold, "timeout_s": chosen.timeout},
        "engines": reports,
        "differences": [{"id": id_, "answers": told, "known": why}
                        for id_, told, why in differing],
    }
    return write_record(record, dataset.name)


def occasion(machine):
    """When, how and on what something was measured."""
    return {
        "time": datetime.datetime.now().isoformat(timespec="seconds"),
        "command": sys.argv,
        "commit": processes.output(["git", "-C", data.REPOSITORY, "rev-parse", "HEAD"]),
        "machine": machine,
    }


def write_record(record, name, path=None):
    """Writes a record where it is wanted, or to bench/results under the time."""
    if path is None:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{datetime.datetime.now():%Y-%m-%d-%H%M%S}-{name}.json"
    Path(path).write_text(json.dumps(record, indent=1, ensure_ascii=False), encoding="utf-8")
    return path


def describe_machine():
    """Where the figures come from."""
    processor = platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    return {
        "cores": engines.CORES,
        "processor": processor,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "load_average": os.getloadavg()[0],
    }
