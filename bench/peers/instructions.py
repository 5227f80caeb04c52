"""bench/instructions: instruction counts of queries, a load and updates, compared with those on record.

Times of a few per cent cannot be told apart on a busy machine; instructions can. Valgrind's callgrind counts them on a
simulated processor without the extensions that differ between machines.
"""

import argparse
import json
import os
import platform
import re
import sys
import tempfile
from pathlib import Path

from . import command, data, processes, report

BENCH = Path(__file__).resolve().parents[1]
QUERIES = BENCH / "queries" / "instructions.jsonl"
RECORD = BENCH / "instructions.json"
# A count that grows by more is too much.
GROWTH = 0.02
# Hash seeds differ from run to run: a count that grew is taken again, and the least counts.
ATTEMPTS = 3
PRODUCTS, PRODUCTS_LOADED = 200, 60
# One call of it runs one query: parsing, planning, and writing the results to memory.
FUNCTION = "pythia_bench::timed::run"
INSERTED = 500
UPDATES = {
    "insert one": 'INSERT DATA { <http://e/a> <http://e/b> "c" }',
    f"insert {INSERTED}": "INSERT DATA { %s }" % " . ".join(
        f'<http://e/{n}> <http://e/p{n % 5}> "{n}"' for n in range(INSERTED)),
    "delete where": "DELETE WHERE { ?s <http://e/p1> ?o }",
}


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/instructions", description="Counts the instructions of a fixed set of queries, a load and updates, on "
        "one thread and little data, with the profile that tests are built with. Fails if one grew by more than "
        f"{GROWTH:.0%} since it was recorded.")
    parser.add_argument("--record", action="store_true", help="write the counts to bench/instructions.json")
    return parser.parse_args(given)


def main(given=None):
    """Gives the exit code: 0 if no count grew too much, or if the counts were recorded."""
    return command.guarded(measure, arguments(given))


def measure(chosen):
    """Counts, prints, and compares or records."""
    data.ensure_tool("valgrind", "valgrind")
    program = tested_program()
    before = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"built_with": None, "counts": {}}
    built_with = built_with_what()
    counts = count_all(program)
    if chosen.record:
        RECORD.write_text(json.dumps({"built_with": built_with, "counts": counts}, indent=1) + "\n", encoding="utf-8")
        print(table(counts, before["counts"]))
        print(f"recorded in {RECORD.relative_to(data.REPOSITORY)}: say in the commit why a count grew")
        return 0
    if before["built_with"] != built_with:
        print(table(counts, {}))
        print(f"NOT COMPARED: the counts on record are of {describe(before['built_with'])}; these are of "
              f"{describe(built_with)}", file=sys.stderr)
        return 0
    for _ in range(1, ATTEMPTS):
        if not grown(counts, before["counts"]):
            break
        again = count_all(program)
        counts = {name: min(count, again[name]) for name, count in counts.items()}
    print(table(counts, before["counts"]))
    wrong = complaints(counts, before["counts"])
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    if wrong:
        print("If that must be so, run `bench/instructions --record` and say in the commit why.", file=sys.stderr)
    return 1 if wrong else 0


def tested_program():
    """The binary that the tests are built with."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache" / "pythia" / "target"))
    program = Path(os.environ.get("PYTHIA", target / "debug" / "pythia"))
    if not program.exists():
        raise data.Missing(f"{program} is not there: build it with `cargo test --locked --workspace --no-run`")
    return program


def built_with_what():
    """What counts depend on besides the code."""
    rustc = re.match(r"rustc \S+", processes.output(["rustc", "--version"]))
    # Libraries choose their code by the extensions that valgrind passes on.
    extensions = re.search(r"\bavx2\b", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    processor = platform.machine() + (" with AVX2" if extensions else "")
    return {"processor": processor, "rustc": rustc.group() if rustc else "no rustc",
            "libc": " ".join(platform.libc_ver()), "valgrind": processes.output(["valgrind", "--version"])}


def describe(built_with):
    """In one line."""
    return ", ".join(built_with.values()) if built_with else "nothing"


def count_all(program):
    """Counts of everything by name."""
    with tempfile.TemporaryDirectory(prefix="pythia-instructions-") as folder:
        folder = Path(folder)
        log = folder / "log"
        return {**of_load(program, folder, log), **of_updates(program, folder, log), **of_queries(program, folder, log)}


def of_load(program, folder, log):
    """The whole process of a load."""
    generate(program, PRODUCTS_LOADED, folder / "load.nt", log)
    counted = callgrind(folder / "load", [], [program, "load", "--quiet", "--threads", "1", "-l", folder / "loaded",
                                              folder / "load.nt"], log)
    return {"load": counted[0]}


def of_updates(program, folder, log):
    """The whole process of each update of the store that was loaded."""
    counts = {}
    for number, (name, text) in enumerate(UPDATES.items()):
        counted = callgrind(folder / f"update-{number}", [], [program, "update", "-l", folder / "loaded", "-u", text], log)
        counts[name] = counted[0]
    return counts


def of_queries(program, folder, log):
    """Each query, with all pages in the cache."""
    generate(program, PRODUCTS, folder / "queries.nt", log)
    store = folder / "store"
    processes.run([program, "load", "--quiet", "-l", store, folder / "queries.nt"], log)
    toggles = ["--collect-atstart=no", f"--toggle-collect={FUNCTION}", f"--dump-after={FUNCTION}"]
    answers = folder / "answers.json"
    counted = callgrind(folder / "queries", toggles, [program, "bench", "queries", "-l", store, "--threads", "1",
                                                      "--serialize", "--runs", "1",
                                                      "--json", answers, QUERIES], log)
    queries = json.loads(answers.read_text(encoding="utf-8"))["queries"]
    for query in queries:
        if query["error"]:
            raise processes.Failed(f"{query['id']} failed: {query['error']}")
    if len(counted) != len(queries):
        raise processes.Failed(f"{len(queries)} queries, but {len(counted)} calls of {FUNCTION}")
    return {query["id"]: count for query, count in zip(queries, counted)}


def generate(program, products, path, log):
    """Data of a seed that does not change."""
    processes.run([program, "generate", "bsbm", "--products", str(products), "-o", path], log)


def callgrind(path, options, child, log):
    """Runs a command under callgrind. Gives the instructions of each part that was dumped."""
    processes.run(["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={path}", *options, *child], log)
    return dumped(path)


def dumped(path):
    """The counts of callgrind's dumps, in the order of time; of the whole run, if there is only that."""
    parts = [part for part in path.parent.glob(f"{path.name}.*") if part.suffix[1:].isdigit()]
    parts = sorted(parts, key=lambda part: int(part.suffix[1:])) or [path]
    counts = []
    for part in parts:
        found = re.search(r"^(?:summary|totals): (\d+)", part.read_text(encoding="utf-8"), re.MULTILINE)
        if not found:
            raise processes.Failed(f"callgrind wrote no sum to {part}")
        counts.append(int(found.group(1)))
    return counts


def grown(counts, before):
    """The names of counts that grew too much."""
    return [name for name, count in counts.items() if name in before and count > before[name] * (1 + GROWTH)]


def complaints(counts, before):
    """What is wrong with the counts, a line each."""
    lines = [f"{name} takes {counts[name]:,} instructions, {counts[name] / before[name] - 1:.1%} more than {before[name]:,}"
             for name in grown(counts, before)]
    lines += [f"{name} is not on record" for name in counts if name not in before]
    lines += [f"{name} is on record and was not counted" for name in before if name not in counts]
    return lines


def table(counts, before):
    """As text."""
    rows = [[name, f"{count:,}", f"{before[name]:,}" if name in before else "–",
             f"{count / before[name] - 1:+.1%}" if name in before else "–"] for name, count in counts.items()]
    return report.table("instructions", ["what", "now", "on record", "change"], rows)
