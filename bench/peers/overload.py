"""bench/overload: a server asked for ten times what it can do.

Points, joins, aggregates over much of the data and updates, as a mixture. What the server can do is
measured first, with as few connections as keep it busy. Then requests come at ten times that rate over
many connections, whatever became of those before. Then it is measured again, second by second.
"""

import argparse
import json
import random
import shutil
import threading
from pathlib import Path

from . import command, data, engines, points, processes, report

REVIEW = "<http://purl.org/stuff/rev#{}>".format
BSBM = f"<{points.VOCABULARY}{{}}>".format

# Shares of the requests, in hundredths. With points alone the machine would be busy with sending ten
# times as many, not with answering: client and server share it.
SHARES = {"point": 50, "join": 20, "aggregate": 20, "update": 10}

SAMPLE_SECONDS = 0.1
GOODPUT_MIN = 0.8
RECOVERY_SECONDS_MAX = 5
# What a process needs that serves and neither caches nor computes: code, threads, connections, the
# changes that wait to be merged (64 MB), and what the allocator keeps.
FIXED_BYTES = 256 << 20


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/overload", description="Asks Pythia's server for ten times what it can do, and "
        "checks that it sheds what is too much, keeps to its memory, and recovers.")
    parser.add_argument("--data", default="bsbm-1m", metavar="NAME|FILE",
                        help="bsbm-1m, bsbm-10m or a file of BSBM (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S",
                        help="how long the overload is (default: %(default)s)")
    parser.add_argument("--measure", type=float, default=10, metavar="S",
                        help="how long capacity is measured, before and after (default: %(default)s)")
    parser.add_argument("--times", type=float, default=10, metavar="N",
                        help="of its capacity (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=1000, metavar="N",
                        help="connections of the overload (default: %(default)s)")
    parser.add_argument("--cache", default="256M", metavar="SIZE",
                        help="the server's page cache (default: %(default)s)")
    parser.add_argument("--memory", default="256M", metavar="SIZE",
                        help="what its queries may hold (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="where all figures go (default: bench/results)")
    chosen = parser.parse_args(given)
    chosen.cache, chosen.memory = command.size(chosen.cache), command.size(chosen.memory)
    return chosen


def main(given=None):
    """Gives the exit code: 0 if the server kept all that is asked of it."""
    chosen = arguments(given)
    return command.guarded(overload, chosen)


def overload(chosen):
    """Measures, overloads, measures again, and checks."""
    name, path = data.bsbm(chosen.data, engines.program)
    machine = command.describe_machine()
    work = data.CACHE / "work" / f"overload-{name}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    requests = work / "requests.jsonl"
    requests.write_text("".join(json.dumps(line) + "\n" for line in mixture(path)), encoding="utf-8")
    print(f"{name}: {machine['cores']} cores, load average {machine['load_average']:.1f} before", flush=True)
    try:
        child, url = serve(chosen, path, work)
        memory = Memory(child.pid)
        before = load(url, requests, work, 8, chosen.measure)
        capacity = before["per_second"]
        print(f"  {capacity:,.0f}/s can be answered; now {chosen.times:g} times that is asked", flush=True)
        during = load(url, requests, work, chosen.connections, chosen.seconds, chosen.times * capacity)
        after = load(url, requests, work, 8, chosen.measure)
        child.check()
        memory.stop()
        child.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    budget = chosen.cache + chosen.memory + FIXED_BYTES
    during["seconds_asked"] = chosen.seconds
    found = checks(before, during, after, memory.peak_bytes, budget)
    print(table(before, during, after))
    for holds, text in found:
        print(f"  {'ok' if holds else 'FAILED'}: {text}")
    record = {
        **command.occasion(machine),
        "version": processes.output([engines.program(), "--version"]),
        "data": name,
        "settings": {key: value for key, value in vars(chosen).items() if key != "json"},
        "before": before, "during": during, "after": after,
        "peak_bytes": memory.peak_bytes, "budget_bytes": budget, "memory_bytes": memory.samples,
        "checks": [{"holds": holds, "text": text} for holds, text in found],
    }
    print(f"all figures: {command.write_record(record, f'overload-{name}', chosen.json)}")
    return 0 if all(holds for holds, _ in found) else 1


def serve(chosen, path, work):
    """Loads a store, and serves it for queries and updates."""
    store, log, port = work / "store", work / "log.txt", processes.free_port()
    processes.run([engines.program(), "load", "-l", store, "--quiet", path], log)
    child = processes.Child(
        [engines.program(), "serve", "-l", store, "--bind", f"127.0.0.1:{port}",
         "--cache", chosen.cache, "--memory", chosen.memory], log)
    endpoint = engines.Endpoint(port, "/query", 10)
    endpoint.wait(child, engines.READY_SECONDS)
    endpoint.close()
    return child, f"http://127.0.0.1:{port}"


def mixture(path, count=4000, seed=1):
    """Requests in the shares above, in no order."""
    rng = random.Random(seed)
    names = data.sample_instances(path, places=200, seed=seed)
    products = names.get("Product")
    if not products:
        raise data.Missing(f"no products of BSBM in {path}")
    makers = {"point": point, "join": join, "aggregate": aggregate, "update": update}
    lines = []
    for template, share in SHARES.items():
        for number in range(count * share // 100):
            kind = "update" if template == "update" else "query"
            text = makers[template](rng.choice(products), number)
            lines.append({"template": template, kind: text})
    rng.shuffle(lines)
    return lines


def point(product, number):
    """One of the point queries."""
    return list(points.TEMPLATES.values())[number % len(points.TEMPLATES)](product)


def join(product, _number):
    """Products that share features with this one."""
    return (f"SELECT ?other (COUNT(?feature) AS ?shared) WHERE {{ {product} {BSBM('productFeature')} ?feature . "
            f"?other {BSBM('productFeature')} ?feature }} GROUP BY ?other ORDER BY DESC(?shared) ?other LIMIT 10")


def aggregate(_product, _number):
    """How reviewers of each country rate, over all reviews."""
    return (f"SELECT ?country (COUNT(?review) AS ?reviews) (AVG(?rating) AS ?mean) WHERE {{ "
            f"?review {REVIEW('reviewer')} ?reviewer ; {BSBM('rating1')} ?rating . "
            f"?reviewer {BSBM('country')} ?country }} GROUP BY ?country ORDER BY ?country")


def update(product, number):
    """A note on a product."""
    return f'INSERT DATA {{ {product} <http://example.org/note> "note {number} on it" }}'


def load(url, requests, work, connections, seconds, rate=None):
    """What became of a load."""
    figures = work / "load.json"
    # Nice, so that a thousand connections here do not keep the server from running: other machines'
    # would not.
    processes.run(
        ["nice", "-n", "10", engines.program(), "bench", "http", requests, "--url", url, "--connections", connections,
         "--seconds", seconds, *(["--rate", rate] if rate else []), "--json", figures],
        work / "load.log")
    return json.loads(figures.read_text(encoding="utf-8"))


class Memory:
    """Resident memory of a process, sampled while it runs."""

    def __init__(self, pid):
        self.samples = []
        self._status = Path(f"/proc/{pid}/status")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    @property
    def peak_bytes(self):
        """The most there was."""
        return max(self.samples, default=0)

    def stop(self):
        """Samples no more."""
        self._ended.set()
        self._thread.join()

    def _sample(self):
        while not self._ended.wait(SAMPLE_SECONDS):
            try:
                text = self._status.read_text(encoding="ascii")
            except OSError:
                return
            resident = [line for line in text.splitlines() if line.startswith("VmRSS:")]
            self.samples.append(int(resident[0].split()[1]) << 10 if resident else 0)


def checks(before, during, after, peak_bytes, budget):
    """What must hold, and whether it does."""
    capacity = before["per_second"]
    goodput = steady(during["timeline"], during["seconds_asked"])
    wrong = {status: count for status, count in during["statuses"].items()
             if not status.startswith("2") and status not in ("429", "503")}
    shed = sum(during["statuses"].get(status, 0) for status in ("429", "503"))
    recovery = recovery_seconds(after["timeline"], capacity)
    return [
        (not during["failed"], f"every request was answered (without an answer: {during['failed'] or 'none'})"),
        (not wrong, f"what was not done was shed with 429 or 503 ({shed:,} times; others: {wrong or 'none'})"),
        (shed > 0, f"more was asked than could be done ({during['sent']:,} requests)"),
        (during["without_retry_after"] == 0,
         f"who was shed was told when to try again (not told: {during['without_retry_after']})"),
        (goodput >= GOODPUT_MIN * capacity,
         f"goodput {goodput:,.0f}/s is {100 * goodput / capacity:.0f} % of capacity (at least {100 * GOODPUT_MIN:.0f} %)"),
        (peak_bytes <= budget, f"memory {peak_bytes / 1e6:,.0f} MB of {budget / 1e6:,.0f} MB"),
        (recovery is not None and recovery <= RECOVERY_SECONDS_MAX,
         f"{100 * GOODPUT_MIN:.0f} % of capacity again after {recovery} s (at most {RECOVERY_SECONDS_MAX})"),
    ]


def steady(timeline, seconds):
    """Answers a second while it lasted: without the first second, when queues fill, and without what
    was still answered after the last request was sent."""
    whole = timeline[1:max(2, int(seconds))]
    return sum(whole) / len(whole) if whole else 0


def recovery_seconds(timeline, capacity):
    """Seconds until a second in which nearly as much was answered as before."""
    for second, answered in enumerate(timeline):
        if answered >= GOODPUT_MIN * capacity:
            return second + 1
    return None


def table(before, during, after):
    """For people."""
    rows = []
    for name, load_ in (("before", before), ("overload", during), ("after", after)):
        offered = load_["offered_per_second"]
        for template, latency in [("all", load_["latency"]), *load_["templates"].items()]:
            rows.append([name, template, f"{offered:,.0f}" if offered and template == "all" else "",
                         f"{latency['count'] / load_['seconds']:,.1f}", f"{latency['p50_us'] / 1e3:,.1f}",
                         f"{latency['p99_us'] / 1e3:,.1f}"])
    return report.table("Requests answered", ["when", "what", "offered/s", "answered/s", "p50 ms", "p99 ms"], rows)
