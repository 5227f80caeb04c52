"""The papers' experiments that need no peer: the commands of `pythia bench` that repeat them, small or in full, and their
figures beside the papers'.

Each leaves a record (.json) and a report (.html) of its own. The papers' figures are those of the texts that the commands'
reports cite (`crates/pythia-bench/src/*/paper.rs` has the places).
"""

import json
import shutil
import time

from . import engines, page, processes

# What ours is: read from a clock of this machine, or computed for a device of the paper.
MEASURED, MODELLED = "measured", "modelled"
# The queries of Clustered TDB, and the milliseconds of the better of the paper's two systems, for one user without terms.
CTDB_MS = {"subject": 361, "predicate": 1733, "object": 483, "join1": 297, "join2": 131_273, "join3": 1579, "join4": 297,
           "join5": 696}
CTDB_TRIPLES_PER_SECOND = 6946
YAGO_CLIENTS = 4
YAGO_RATES = {"flash": 4500, "pcm": 7000}
DEVICES = {"flash": "flash", "pcm": "PCM"}
YAGO_PCM_GAIN = 1.56
# Triples of the sample for which RDF-3X's time of Q1 is known.
YAGO_SAMPLE_TRIPLES = 600_000
# Appends of 4 KiB that a flash chip of Hyder takes in a second.
CHIP_APPENDS = 5000
FEW_ROWS = 100  # of a million


class Experiment:
    """A command of `pythia bench`. `small` are the options of a quick run, those of a full one are the command's own
    defaults. `always` are options of both: {folder} is a folder on the device, {store} the store. `dataset` names the data
    set whose store it needs: None if none, "" if any."""

    def __init__(self, name, title, small, figures, always=(), dataset=None, has_report=False):
        self.name = name
        self.title = title
        self.small = small
        self.figures = figures
        self.always = always
        self.dataset = dataset
        self.has_report = has_report

    def store(self, stores):
        """The store to measure, of those by data set; None if there is none that fits."""
        return next(iter(stores.values()), None) if self.dataset == "" else stores.get(self.dataset)

    def arguments(self, full, folder, store):
        """The command's arguments."""
        given = [*self.always, *(() if full else self.small)]
        return ["bench", self.name, *(part.format(folder=folder, store=store) for part in given)]


def row(figure, paper, ours, ratio=None, kind=MEASURED):
    """A figure as text, the paper's and ours. The ratio is above 1 if ours is better, or larger than what the paper claims."""
    return {"figure": figure, "paper": paper, "ours": ours, "ratio": ratio, "kind": kind}


def times(gain):
    """How many times as fast."""
    return f"{gain:.3g}x"


def operators(found):
    """FlashScan, FlashJoin, Buffered Bloom filter (IEEE Data Engineering Bulletin, December 2010)."""
    rows = []
    shares = (found.get("scan") or {}).get("shares", [])
    for scan in shares:
        if scan["projected"] == 1 and scan["selected"] == 1_000_000:
            gain = gain_of(scan, "whole_pages", "minipages")
            rows.append(row("FlashScan of 4 % of the attributes, all rows", "up to 3x", times(gain), gain / 3))
    few = [gain_of(scan, "whole_pages", "predicate_first") for scan in shares if scan["selected"] == FEW_ROWS]
    for name, paper, pick in (("least", 3, min), ("most", 4, max)) if few else ():
        rows.append(row(f"FlashScan of 0.01 % of the rows, {name}", f"{paper}x", times(pick(few)), pick(few) / paper))
    joins = (found.get("join") or {}).get("joins", [])
    for name, early in (("rows", "whole_pages"), ("PAX", "minipages")) if joins else ():
        gains = [gain_of(join, early, "late") for join in joins]
        rows.append(row(f"FlashJoin over a hash join of {name}, least", "at least 2x", times(min(gains)), min(gains) / 2))
        rows.append(row(f"FlashJoin over a hash join of {name}, most", "up to 6x", times(max(gains)), max(gains) / 6))
    return rows + bloom_filters((found.get("bloom") or {}).get("filters", []))


def gain_of(measured, slow, fast):
    """How many times as fast one method is as another."""
    ms = {method["method"]: method["ms"] for method in measured["methods"]}
    return ms[slow] / ms[fast]


def bloom_filters(filters):
    """The filter on the device, with an eighth of its size as buffer, and those in memory, with a half and a quarter: the
    paper has 256, 32, 128 and 64 MiB."""
    size = max((of["filter_bytes"] for of in filters if of["kind"] == "buffered"), default=0)
    buffered = [of for of in filters if of["kind"] == "buffered" and of["buffer_bytes"] == size // 8]
    classic = {of["filter_bytes"]: of for of in filters if of["kind"] == "classic"}
    if not buffered:
        return []
    rows, first = [], buffered[0]

    def seconds(of):
        return of["build_seconds"] + of["probe_seconds"]

    def false_positives(of):
        return of["false_positives"] / of["absent"]

    if size // 2 in classic:
        gain = seconds(classic[size // 2]) / seconds(first)
        rows.append(row("Bloom filter on the device, an eighth of it as buffer, over one in memory of half its size", "above 1x",
                        times(gain), gain))
    share = 100 * false_positives(first)
    rows.append(row("its false positives", "at most 0.25 %", f"{share:.3g} %", 0.25 / share if share else None))
    if size // 4 in classic and share:
        factor = 100 * false_positives(classic[size // 4]) / share
        rows.append(row("false positives of a quarter in memory, over those", "at least 10x", times(factor), factor / 10))
    return rows


def ipl(found):
    """In-Page Logging (the same Bulletin), §4: chips, over all log areas."""
    def of_kind(log, sector_bytes):
        return [store for store in found["stores"] if store["layout"]
                and (store["layout"]["log"], store["layout"]["sector_bytes"]) == (log, sector_bytes)]

    def shares(above, below, value):
        return [value(one) / value(other) for one, other in zip(above, below)]

    def insertion(store):
        return store["insert"]["seconds"][0]

    def modelled(figure, paper, number, ours):
        rows.append(row(figure, paper, f"{ours:.3g}", ours / number, MODELLED))

    rows = []
    flash, large, small = of_kind("flash", 512), of_kind("pcram", 512), of_kind("pcram", 128)
    if flash and large:
        saved = [100 * (1 - share) for share in shares(large, flash, insertion)]
        modelled("insertion: % that a log in PCRAM saves, least", "17", 17, min(saved))
        modelled("insertion: % that a log in PCRAM saves, most", "43", 43, max(saved))
    if large and small:
        further = max(100 * (1 - share) for share in shares(small, large, insertion))
        modelled("insertion: % that sectors of 128 bytes save of 512, most", "almost 50", 50, further)
        merges = shares(large, small, lambda store: store["insert"]["counts"]["merges"])
        modelled("merges with sectors of 512 bytes over 128, least", "over 2", 2, min(merges))
    return rows


def meld(found):
    """Hyder's meld (the same Bulletin), §1: a chip takes 5,000 appends of a page a second; no rate of transactions is given."""
    least = min(of["run"]["conflicts"] for of in found["alone"])
    rows = []
    for of in found["alone"]:
        if of["run"]["conflicts"] == least:
            rate = 1e6 / of["meld_us"]
            shape = of["run"]["shape"]
            name = f"melds/s of {shape['reads']}+{shape['writes']}, {of['run']['isolation']}; paper: appends/s of a chip"
            rows.append(row(name, f"{CHIP_APPENDS:,}", f"{rate:,.0f}", rate / CHIP_APPENDS))
    return rows


def ctdb(found):
    """Clustered TDB, §6. The paper does not say how many queries a test has: ratios of times are upper bounds."""
    rows = []
    if found.get("load"):
        rate = found["load"]["triples_per_second"]
        rows.append(row("load, triples/s", f"{CTDB_TRIPLES_PER_SECOND:,}", f"{rate:,.0f}", rate / CTDB_TRIPLES_PER_SECOND))
    for test in found["tests"]:
        paper = CTDB_MS.get(test["test"])
        for of in test["measurements"]:
            if paper and of["users"] == 1 and not of["with_terms"]:
                ms = of["latency"]["mean_us"] / 1e3
                rows.append(row(f"{test['test']}, ms of a query; paper: of a test", f"{paper:,}", f"{ms:.3g}", paper / ms))
    return rows


def yago(found):
    """The Pythia paper, §4.4: 4 clients on 24 cores, with flash and with PCM."""
    rows = []
    for series in found["series"]:
        for step in series["steps"]:
            if step["clients"] == YAGO_CLIENTS:
                rate = step["queries_per_second"]
                rows += [row(f"queries/s, 4 clients, {series['name']}; paper: {DEVICES[device]}", f"{paper:,}", f"{rate:,.0f}",
                             rate / paper) for device, paper in YAGO_RATES.items()]
    steps = (found.get("modelled") or {}).get("steps", [])
    rates = {step["device"]: step["queries_per_second"] for step in steps if step["clients"] == YAGO_CLIENTS}
    for device, rate in rates.items():
        paper = YAGO_RATES[device]
        rows.append(row(f"queries/s, 4 clients, on the paper's {DEVICES[device]}", f"{paper:,}", f"{rate:,.0f}", rate / paper,
                        MODELLED))
    if len(rates) == 2:
        gain = rates["pcm"] / rates["flash"]
        rows.append(row("PCM over flash, 4 clients", times(YAGO_PCM_GAIN), times(gain), gain / YAGO_PCM_GAIN, MODELLED))
    for query in found["fixed"]:
        if query["rdf_3x_ms"] and found["store"]["triples"] >= YAGO_SAMPLE_TRIPLES:
            gain, paper = query["rdf_3x_ms"] * 1e3 / query["end_to_end"]["p50_us"], query["paper_speed_up"]
            rows.append(row(f"{query['name']} over RDF-3X", times(paper), times(gain), gain / paper))
    return rows


def search(found):
    """The Pythia paper, §5.1, proposes batches of the search and has no figures."""
    rows, runs = [], {}
    for run in found["searches"]:
        runs.setdefault(run["search"], {})[run["batch_nodes"]] = run
    for name, of in runs.items():
        one, many = of[min(of)], of[max(of)]
        for kind, key, where in ((MEASURED, "measured_ms", ""), (MODELLED, "modelled_flash_ms", ", on the paper's flash")):
            if one is not many and many[key]:
                rows.append(row(f"{name}: gain of {max(of)} nodes a batch over {min(of)}{where}", None,
                                times(one[key] / many[key]), kind=kind))
    return rows


def hops(found):
    """The Pythia paper says that a hop is one page read; it has no figure for that."""
    median = found["median"]
    return [row("time of a cold hop over that of a device's read", None, f"{median['hop_ratio']:.3g}"),
            row("pages read by a hop", None, f"{median['reads_per_hop']:.3g}"),
            row("reads/s of a frontier over the device's", None, f"{median['frontier_ratio']:.3g}")]


EXPERIMENTS = {experiment.name: experiment for experiment in (
    Experiment("operators", "FlashScan, FlashJoin, Buffered Bloom filter",
               ("--rounds", "3", "--device-seconds", "0.02", "--scan-size", "32M", "--products", "1000", "--join-rows", "131072",
                "--join-memory", "13M", "--keys", "1000000", "--filter-size", "8M"),
               operators, ("--folder", "{folder}"), has_report=True),
    Experiment("ipl", "In-Page Logging", ("--records", "50000"), ipl, has_report=True),
    Experiment("meld", "Hyder's meld",
               ("--items", "100000", "--transactions", "5000", "--shapes", "8+2", "--conflicts", "0,10", "--executors", "1,2",
                "--seconds", "0.2"),
               meld, ("--folder", "{folder}")),
    Experiment("yago", "Pythia, YAGO", ("--seconds", "0.5", "--clients", "1,4", "--runs", "50"),
               yago, ("-l", "{store}", "--device", "flash,pcm"), dataset="yago", has_report=True),
    Experiment("ctdb", "Clustered TDB", ("--triples", "500000", "--queries", "20"), ctdb, ("--folder", "{folder}"),
               has_report=True),
    Experiment("search", "Pythia, best-first search",
               ("--side", "100", "--batches", "1,32", "--paths", "100", "--runs", "3"), search, ("--folder", "{folder}")),
    Experiment("hops", "Pythia, hops", ("--rounds", "3", "--seconds", "0.1"), hops, ("-l", "{store}", "--cache", "4M"),
               dataset=""),
)}


def run(experiment, full, folder, store):
    """Runs one experiment. Its record and report stay in the folder, as NAME.json and NAME.html."""
    scratch = folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    record, html, log = (folder / f"{experiment.name}.{end}" for end in ("json", "html", "log"))
    said = folder / f"{experiment.name}.txt"
    log.unlink(missing_ok=True)
    arguments = experiment.arguments(full, scratch, store)
    report = ["--report", html] if experiment.has_report else []
    started = time.monotonic()
    processes.run([engines.program(), *arguments, "--json", record, *report], log, output=said)
    seconds = time.monotonic() - started
    shutil.rmtree(scratch, ignore_errors=True)
    command = " ".join(["pythia", *experiment.arguments(full, "FOLDER", "STORE")])
    if not experiment.has_report:
        html.write_text(page.of_text(experiment.title, command, said.read_text(encoding="utf-8")), encoding="utf-8")
    figures = experiment.figures(json.loads(record.read_text(encoding="utf-8")))
    return {"title": experiment.title, "command": command, "full": full, "seconds": seconds, "figures": figures}
