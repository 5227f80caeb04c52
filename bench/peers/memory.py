"""bench/memory: peaks of memory.

Each case gets a server of its own, with a small cache and little memory, and is answered or refused with
the memory error. Its peak must stay within cache and memory and what a process needs besides.
"""

import argparse
import http.client
import shutil
import threading
import urllib.parse

from . import command, data, engines, processes

# Code, threads, connections, and what the allocator keeps.
FIXED_BYTES = 128 << 20
ANSWERED = range(200, 300)
# 507: the query needs more memory than it has; 413 and 503: the request does, by itself or beside the others.
REFUSED = (413, 503, 507)
WINDOW_LOG = 23


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/memory", description="Measures the most memory that Pythia's server takes for wide "
        "patterns, texts that grow, large updates and many uploads, against what it was given.")
    parser.add_argument("--subjects", type=int, default=50_000, metavar="N",
                        help="subjects of the data, with three links each (default: %(default)s)")
    parser.add_argument("--arms", type=int, default=1000, metavar="N",
                        help="patterns of the star (default: %(default)s)")
    parser.add_argument("--uploads", type=int, default=64, metavar="N",
                        help="uploads at once (default: %(default)s)")
    parser.add_argument("--cache", default="32M", metavar="SIZE", help="(default: %(default)s)")
    parser.add_argument("--memory", default="128M", metavar="SIZE", help="(default: %(default)s)")
    parser.add_argument("--only", metavar="NAME,…", help="only these cases")
    parser.add_argument("--json", metavar="FILE", help="where all figures go (default: bench/results)")
    chosen = parser.parse_args(given)
    chosen.cache, chosen.memory = command.size(chosen.cache), command.size(chosen.memory)
    return chosen


def main(given=None):
    """Gives the exit code: 0 if every peak was within the mark."""
    chosen = arguments(given)
    return command.guarded(measure, chosen)


def measure(chosen):
    """Runs all cases."""
    machine = command.describe_machine()
    work = data.CACHE / "work" / "memory"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "data.nt").write_text(triples(chosen.subjects), encoding="utf-8")
    budget = chosen.cache + chosen.memory + FIXED_BYTES
    only = chosen.only.split(",") if chosen.only else CASES
    found = []
    try:
        for name in only:
            statuses, peak = run(chosen, work, CASES[name](chosen))
            holds = peak <= budget and all(s in ANSWERED or s in REFUSED for s in statuses)
            told = ", ".join(f"{statuses.count(s)} × {s}" for s in sorted(set(statuses)))
            print(f"  {'ok' if holds else 'FAILED'}: {name} peaks at {peak >> 20} MiB of "
                  f"{budget >> 20} ({told})", flush=True)
            found.append({"case": name, "peak_bytes": peak, "statuses": statuses, "holds": holds})
    finally:
        shutil.rmtree(work, ignore_errors=True)
    record = {
        **command.occasion(machine),
        "version": processes.output([engines.program(), "--version"]),
        "settings": {key: value for key, value in vars(chosen).items() if key != "json"},
        "budget_bytes": budget, "cases": found,
    }
    print(f"all figures: {command.write_record(record, 'memory', chosen.json)}")
    return 0 if all(case["holds"] for case in found) else 1


def run(chosen, work, requests):
    """Serves a new store, and sends all requests at once. Gives the statuses and the peak."""
    store, log, port = work / "store", work / "log.txt", processes.free_port()
    shutil.rmtree(store, ignore_errors=True)
    processes.run([engines.program(), "load", "-l", store, "--quiet", work / "data.nt"], log)
    child = processes.Child(
        [engines.program(), "serve", "-l", store, "--bind", f"127.0.0.1:{port}",
         "--cache", chosen.cache, "--memory", chosen.memory], log)
    endpoint = engines.Endpoint(port, "/query", 10)
    endpoint.wait(child, engines.READY_SECONDS)
    endpoint.close()
    statuses = []
    threads = [threading.Thread(target=lambda r=r: statuses.append(send(port, *r))) for r in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    child.check()
    peak = child.peak_now()
    child.stop()
    return statuses, peak


def send(port, path, media_type, body, encoding=None):
    """Sends a POST and reads the answer. Gives its status; 503 for one that breaks off."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"Content-Type": media_type}
    if encoding:
        headers["Content-Encoding"] = encoding
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        while answer.read(1 << 16):
            pass
        return answer.status
    except (http.client.IncompleteRead, ConnectionError):
        return 503
    finally:
        connection.close()


def triples(subjects):
    """The data: each subject with a link, a group and a name."""
    lines = []
    for n in range(subjects):
        subject = f"<http://example.org/n{n}>"
        lines.append(f"{subject} <http://example.org/next> <http://example.org/n{n * 7 % subjects}> .\n"
                     f"{subject} <http://example.org/group> <http://example.org/g{n % 97}> .\n"
                     f'{subject} <http://example.org/name> "the name of number {n}" .\n')
    return "".join(lines)


def query(text):
    """A query as a request."""
    return "/query", "application/sparql-query", text.encode()


def update(text):
    """An update as a request."""
    return "/update", "application/sparql-update", text.encode()


def star(chosen):
    """A star of many patterns, all of whose variables are asked for."""
    predicates = ("next", "group", "name")
    arms = " . ".join(f"?s <http://example.org/{predicates[n % 3]}> ?o{n}" for n in range(chosen.arms))
    return [query(f"SELECT * {{ {arms} }}")]


def replace(_):
    """A text that is replaced by itself again and again."""
    growing = " ".join(f'BIND(REPLACE(?t{n}, "[a-z]", ?t{n}) AS ?t{n + 1})' for n in range(6))
    return [query(f'SELECT (STRLEN(?t6) AS ?n) {{ VALUES ?t0 {{ "abcdefghijklmnop" }} {growing} }}')]


def insert_data(_):
    """As many quads as fit into the text of an update."""
    quads = " ".join(f"<http://example.org/new{n}> <http://example.org/p> <http://example.org/o{n}> ."
                     for n in range(190_000))
    return [update(f"INSERT DATA {{ {quads} }}")]


def insert_where(_):
    """Many more quads than there were."""
    return [update("INSERT { ?a <http://example.org/beside> ?b } WHERE { "
                   "?a <http://example.org/group> ?g . ?b <http://example.org/group> ?g }")]


def uploads(chosen):
    """Uploads packed with a window of 8 MiB each, and some that ask for one of 128 MiB."""
    requests = []
    for n in range(chosen.uploads):
        text = "".join(f"<http://example.org/u{n}/{m}> <http://example.org/p> {m} .\n" for m in range(400))
        graph = urllib.parse.quote(f"http://example.org/graph{n}", safe="")
        log = WINDOW_LOG if n % 4 else 27
        requests.append((f"/store?graph={graph}", "text/turtle", zstd_frame(log, text.encode()), "zstd"))
    return requests


def zstd_frame(window_log, text):
    """A zstd frame of blocks that are not compressed, whose decoder must hold a window of 2^n bytes."""
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3])
    blocks = [text[start:start + (100 << 10)] for start in range(0, len(text), 100 << 10)]
    for number, block in enumerate(blocks):
        is_last = number + 1 == len(blocks)
        frame += (len(block) << 3 | is_last).to_bytes(3, "little") + block
    return frame


CASES = {"star": star, "replace": replace, "insert-data": insert_data, "insert-where": insert_where,
         "uploads": uploads}
