"""bench/compare: the arguments, the data sets and their sections, and the order of things."""

import argparse
import datetime
import hashlib
import json
import shutil
import sys
from pathlib import Path

from . import command, data, engines, experiments, page, points, processes, report, sections

RUNS = Path(__file__).resolve().parents[1] / "runs"
SCALES = ("1m", "10m", "100m")
LARGE_SCALES = ("10m", "100m")
# What is measured on each data set, in this order: updates change the data and come last.
SECTIONS = {
    "bsbm": ("load", "explore", "bi", "operators", "points", "updates"),
    "yago": ("load", "paths", "patterns", "operators", "points"),
    "file": ("load", "queries", "operators", "points"),
}
# The step that tells that updates may have changed the data.
UPDATES_BEGIN = "updates begin"
ALL_SECTIONS = ("load", "explore", "bi", "paths", "patterns", "queries", "operators", "points", "cold", "updates")


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/compare", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measures Pythia, Oxigraph, Virtuoso and Jena TDB2 on the same data: load, size, memory, BSBM, "
        "paths, graph patterns, points and updates, all over HTTP.\nSets up what is missing under "
        "~/.cache/pythia/peers. A run that was stopped continues where it was when the same command is given again.")
    parser.add_argument("--peers", default=",".join(engines.ENGINES), metavar="NAME,…",
                        help="which engines; ratios are to the first one (default: %(default)s)")
    parser.add_argument("--endpoint", action="append", default=[], metavar="DATA:NAME=URL",
                        help="another SPARQL endpoint that holds the same data set (bsbm, yago or file): it is asked "
                        "the queries, not loaded or updated; may be repeated")
    parser.add_argument("--scale", default="1m", metavar="1m|10m|100m|N",
                        help="size of BSBM: 1, 10 or 100 million triples, or N products (default: %(default)s)")
    parser.add_argument("--data", default="bsbm,yago", metavar="NAME,…|FILE",
                        help="bsbm, yago, or a file of N-Triples or a folder of files .nt.gz with --queries (default: "
                        "%(default)s)")
    parser.add_argument("--queries", metavar="FILE.jsonl",
                        help='queries of a file of data, one {"id", "template", "query"} a line')
    parser.add_argument("--each", action="store_true",
                        help="measures each query of --queries by itself, not each template")
    parser.add_argument("--sections", metavar="NAME,…",
                        help=f"only these: {', '.join(ALL_SECTIONS)} (default: all but cold)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N",
                        help="rounds; in each, the engines are asked everything in turn (default: %(default)s)")
    parser.add_argument("--loads", type=int, metavar="N",
                        help="loads of each engine (default: 3, with --scale 10m or 100m and of a file 1)")
    parser.add_argument("--clients", default="1,4,16", metavar="N,…",
                        help="numbers of clients of the BSBM mixes (default: %(default)s)")
    parser.add_argument("--points", type=int, default=2000, metavar="N",
                        help="number of point queries (default: %(default)s)")
    parser.add_argument("--timeout", type=float, metavar="S",
                        help="gives up a query (default: 30, with --scale 10m or 100m and of a file 60)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S",
                        help="an engine has no further turn in a test after this time (default: %(default)s)")
    parser.add_argument("--experiments", default=",".join(experiments.EXPERIMENTS), metavar="NAME,…|none",
                        help="the papers' experiments that the section operators runs, without peers (default: %(default)s; "
                        "yago only if that data is measured)")
    parser.add_argument("--full", action="store_true",
                        help="runs the papers' experiments in full, which takes an hour; by default, small ones in a minute")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of all parameters (default: %(default)s)")
    parser.add_argument("--memory", default="2G", metavar="SIZE",
                        help="memory each engine may use, if it has such a setting (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="forgets what a stopped run has measured")
    parser.add_argument("--keep", action="store_true", help="keeps the stores; later runs with --keep use them")
    parser.add_argument("-o", "--output", metavar="PATH",
                        help="where the record goes, without .json and .html (default: bench/runs/DATE-compare-…)")
    chosen = parser.parse_args(given)
    check(parser, chosen)
    return chosen


def check(parser, chosen):
    """Checks the arguments and fills in those that depend on others."""
    chosen.peers = [name for name in chosen.peers.split(",") if name]
    unknown = [name for name in chosen.peers if name not in engines.ENGINES]
    if unknown or not chosen.peers:
        parser.error(f"--peers: choose from {', '.join(engines.ENGINES)}")
    wanted = chosen.sections.split(",") if chosen.sections else [name for name in ALL_SECTIONS if name != "cold"]
    names = chosen.data.split(",")
    if all(name in ("bsbm", "yago") for name in names):
        chosen.datasets = names
        if chosen.queries:
            parser.error("--queries belongs to a file of data: --data FILE")
    else:
        chosen.datasets = ["file"]
        if "queries" in wanted and not chosen.queries:
            parser.error(f"--data {chosen.data}: a file needs --queries; other data sets are bsbm and yago")
    unknown = [name for name in wanted if name not in ALL_SECTIONS]
    if unknown:
        parser.error(f"--sections: choose from {', '.join(ALL_SECTIONS)}")
    chosen.sections = wanted
    chosen.experiments = [name for name in chosen.experiments.split(",") if name and name != "none"]
    unknown = [name for name in chosen.experiments if name not in experiments.EXPERIMENTS]
    if unknown:
        parser.error(f"--experiments: choose from {', '.join(experiments.EXPERIMENTS)}, or none")
    if chosen.scale not in SCALES and not (chosen.scale.isdigit() and int(chosen.scale) > 0):
        parser.error("--scale is 1m, 10m, 100m or a number of products")
    is_large = chosen.scale in LARGE_SCALES or chosen.datasets == ["file"]
    chosen.loads = chosen.loads or (1 if is_large else 3)
    chosen.timeout = chosen.timeout or (60 if is_large else 30)
    if min(chosen.rounds, chosen.loads, chosen.points) < 1:
        parser.error("--rounds, --loads and --points are at least 1")
    try:
        chosen.memory = command.size(chosen.memory)
        chosen.endpoints = [endpoint(text) for text in chosen.endpoint]
    except ValueError as error:
        parser.error(str(error))


def endpoint(text):
    """Data set, name and URL of an endpoint."""
    name, _, url = text.partition("=")
    dataset, _, name = name.partition(":")
    if dataset not in SECTIONS or not name or not url.startswith("http://"):
        raise ValueError(f"--endpoint {text}: write DATA:NAME=http://…, where DATA is bsbm, yago or file")
    return dataset, name, url


def main(given=None):
    """Returns the exit code: 0 if all requested engines were measured, 1 if one was not."""
    return command.guarded(compare, arguments(given))


class Progress:
    """What has been measured so far, in a file. A step stands beside what it depends on, and is measured again if that differs:
    a load depends on little, the other steps on the whole `identity` of a run."""

    def __init__(self, folder, identity, again):
        self.path = folder / "steps.json"
        self.identity = identity
        self.done = {}
        if again or not self.path.exists():
            return
        self.done = json.loads(self.path.read_text(encoding="utf-8"))
        self.forget_changed(lambda updates: updates["of"] != identity)

    def step(self, key, measure, of=None):
        """The saved result of a step, or what `measure` gives. `of` is what it depends on."""
        of = of or self.identity
        if key in self.done and self.done[key]["of"] == of:
            print(f"{key}: is there already", flush=True)
            return self.done[key]["result"]
        print(f"{datetime.datetime.now():%H:%M:%S} {key}", flush=True)
        # A load that is stopped leaves no store, not even the one of before.
        if self.done.pop(key, None):
            self.save()
        self.done[key] = {"of": of, "result": measure()}
        self.save()
        return self.done[key]["result"]

    def keep_stores(self):
        """After a whole run: forgets all but the loads of data without updates. The next run measures everything else again."""
        self.forget_changed(lambda updates: True)
        self.done = {key: step for key, step in self.done.items() if key.split()[1] in ("load", "reference")}
        self.save()

    def forget_changed(self, is_over):
        """Forgets data sets that updates have changed, if these are over."""
        for key, step in list(self.done.items()):
            if key.endswith(UPDATES_BEGIN) and is_over(step):
                dataset = key.split()[0]
                self.done = {other: step for other, step in self.done.items() if other.split()[0] != dataset}

    def save(self):
        """Writes the file."""
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.done), encoding="utf-8")
        part.replace(self.path)


def compare(chosen):
    """Measures everything, prints it, and writes the record and the page."""
    machine = command.describe_machine()
    name = "-".join([*chosen.datasets, *([chosen.scale] if "bsbm" in chosen.datasets else [])])
    work = data.CACHE / "compare" / name
    work.mkdir(parents=True, exist_ok=True)
    versions, trouble = set_up(chosen, work)
    progress = Progress(work, identity(chosen, versions), chosen.again)
    if not progress.done:
        for dataset in chosen.datasets:
            shutil.rmtree(work / dataset, ignore_errors=True)
    print(f"{machine['cores']} cores, {machine['processor']}, load average {machine['load_average']:.1f} before",
          flush=True)
    measured = {}
    for dataset in chosen.datasets:
        measured[dataset] = measure(chosen, dataset, work / dataset, list(versions), progress, trouble)
    path = output_path(chosen, name)
    found = experiment_all(chosen, work, path, progress, trouble)
    record = {
        **command.occasion(machine), "versions": versions, "trouble": trouble,
        "settings": {key: value for key, value in vars(chosen).items() if key not in ("output", "again", "keep")},
        "data": measured, "experiments": found,
    }
    print(report.comparison(record))
    write(record, path)
    if chosen.keep:
        progress.keep_stores()
    else:
        shutil.rmtree(work, ignore_errors=True)
    print(f"the record: {path}.json\nthe page: {path}.html")
    return 1 if trouble else 0


def set_up(chosen, work):
    """Installs what is missing. Gives the version of each engine that can be measured, and what went wrong."""
    versions, trouble = {}, {}
    for name in chosen.peers:
        try:
            versions[name] = engines.ENGINES[name](work, chosen).setup()
        except command.TROUBLE as error:
            trouble[name] = f"set-up: {error}"
            print(f"{name}: left out: {error}", file=sys.stderr, flush=True)
    if not versions:
        raise data.Missing("no engine can be measured")
    return versions, trouble


def identity(chosen, versions):
    """What must be the same for a stopped run to go on. The sections may differ, and the loads depend on less."""
    program = hashlib.sha256(engines.program().read_bytes()).hexdigest()
    options = {key: value for key, value in vars(chosen).items()
               if key not in ("output", "again", "keep", "sections", "endpoint")}
    return json.loads(json.dumps({"program": program, "versions": versions, "options": options}))


def load_identity(whole, name):
    """What the store of an engine depends on."""
    options = {key: whole["options"][key] for key in ("data", "scale", "memory", "loads")}
    return {"version": whole["versions"].get(name), "options": options,
            "program": whole["program"] if name == "pythia" else None}


def measure(chosen, dataset, work, peers, progress, trouble):
    """All sections of one data set."""
    work.mkdir(parents=True, exist_ok=True)
    path = find(chosen, dataset)
    measured = {"file": path.name, "bytes": data.size(path), "compressed": path.is_dir(), "sections": {}}
    wanted = [name for name in (*SECTIONS[dataset], "cold") if name in chosen.sections]
    measured["sections"]["load"] = load_all(chosen, dataset, path, work, peers, progress, trouble)
    peers = [name for name in peers if name in measured["sections"]["load"]]
    with sections.Servers(chosen, dataset, work, peers) as servers:
        for name in wanted:
            key = f"{dataset} {name}"
            if name == "load" or name == "cold" and dataset == "bsbm":
                continue
            if name == "updates":
                progress.step(f"{dataset} {UPDATES_BEGIN}", lambda: None)
            try:
                measured["sections"][name] = progress.step(
                    key, lambda: section(chosen, name, dataset, path, work, servers))
            except command.TROUBLE as error:
                trouble[key] = str(error)
                print(f"{key}: left out: {error}", file=sys.stderr, flush=True)
                servers.stop()
    return measured


def find(chosen, dataset):
    """The plain file of a data set, or the folder of its compressed parts."""
    if dataset == "bsbm":
        name = f"bsbm-{chosen.scale}"
        if chosen.scale not in SCALES:
            return data.generated_bsbm(engines.program, name, int(chosen.scale))
        return data.bsbm(name, engines.program)[1]
    return data.plain_file("yago" if dataset == "yago" else chosen.data)


def load_all(chosen, dataset, path, work, peers, progress, trouble):
    """Loads each engine, in turn, `--loads` times. The last store stays. Gives the costs by engine."""
    costs = {}
    for number in range(chosen.loads):
        for name in peers:
            store = work / name
            try:
                cost = progress.step(f"{dataset} load {number + 1} {name}",
                                     lambda: sections.load(chosen, name, store, path),
                                     load_identity(progress.identity, name))
            except command.TROUBLE as error:
                trouble[f"{dataset} load {name}"] = str(error)
                print(f"{name}: left out: {error}", file=sys.stderr, flush=True)
                costs.pop(name, None)
                peers = [peer for peer in peers if peer != name]
                continue
            costs.setdefault(name, []).append(cost)
    # The store that provides parameters and right answers.
    progress.step(f"{dataset} reference",
                  lambda: sections.load(chosen, "pythia", work / "reference", path),
                  load_identity(progress.identity, "pythia"))
    return costs


def experiment_all(chosen, work, path, progress, trouble):
    """The papers' experiments, after the servers have stopped. Keeps their records and reports beside the page. Gives their
    figures."""
    found, folder = [], work / "experiments"
    stores = {dataset: work / dataset / "reference" / "store" for dataset in chosen.datasets}
    for name in chosen.experiments if "operators" in chosen.sections else ():
        experiment = experiments.EXPERIMENTS[name]
        store, key = experiment.store(stores), f"experiments {name}"
        if experiment.dataset is not None and store is None:
            continue
        try:
            done = progress.step(key, lambda: experiments.run(experiment, chosen.full, folder, store))
            for end in ("json", "html"):
                shutil.copy(folder / f"{name}.{end}", f"{path}-{name}.{end}")
        except command.TROUBLE as error:
            trouble[key] = str(error)
            print(f"{key}: left out: {error}", file=sys.stderr, flush=True)
            continue
        found.append({"name": name, "report": f"{path.name}-{name}.html", "record": f"{path.name}-{name}.json", **done})
    return found


def section(chosen, name, dataset, path, work, servers):
    """One section."""
    if name in ("explore", "bi"):
        return sections.bsbm(chosen, name, work, servers)
    if name == "updates":
        return sections.updates(chosen, servers)
    if name == "operators":
        return sections.of_operators(chosen, work, servers)
    if name == "cold":
        return sections.cold(chosen, work, data.read_queries(data.QUERIES / "yago-closures.jsonl"), servers)
    if name == "points":
        make = points.queries if dataset == "bsbm" else points.any_queries
        queries = make(path, chosen.points, chosen.seed)
    elif name == "queries":
        queries = data.read_queries(chosen.queries, chosen.each)
    else:
        queries = data.read_queries(data.QUERIES / f"yago-{name}.jsonl")
        if name == "paths":
            queries += data.read_queries(data.QUERIES / "yago-closures.jsonl")
    return sections.queries(chosen, name, work, queries, servers)


def output_path(chosen, name):
    """The path of the record and the page, without extension."""
    if chosen.output:
        return Path(chosen.output)
    RUNS.mkdir(exist_ok=True)
    return RUNS / f"{datetime.date.today()}-compare-{name}"


def write(record, path):
    """Writes the record and the page."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    Path(f"{path}.json").write_text(text + "\n", encoding="utf-8")
    Path(f"{path}.html").write_text(page.html(record), encoding="utf-8")
