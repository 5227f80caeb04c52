"""Tables of what was measured."""

import statistics


def percentile(values, share):
    """Nearest rank."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * share // 1))
    return ordered[int(rank) - 1]


def table(title, header, rows, notes=()):
    """Aligned text: the first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [title]
    for number, row in enumerate(cells):
        if number == 1:
            lines.append("  " + "  ".join("─" * width for width in widths))
        texts = [row[0].ljust(widths[0])]
        texts += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append(("  " + "  ".join(texts)).rstrip())
    lines += [f"  {note}" for note in notes]
    return "\n".join(lines) + "\n"


def milliseconds(seconds):
    """With three digits that count."""
    value = seconds * 1e3
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


class Test:
    """The figures of one number of clients, as `pythia bench bsbm` and `pythia bench endpoints` give them."""

    def __init__(self, figures, test):
        self.clients = test["clients"]
        self.engines = [system["name"] for system in figures["systems"]]
        self.rates, self.ratios, self.times, self.all = {}, {}, {}, set()
        for name, system in zip(self.engines, test["systems"]):
            per_hour = system.get("mixes_per_hour")
            self.unit = "mixes/h" if per_hour else "queries/s"
            self.rates[name] = per_hour or system["queries_per_second"]
            self.ratios[name] = system["ratio"]
            templates = system["templates"]
            named = templates.items() if isinstance(templates, dict) else ((t["template"], t) for t in templates)
            self.times[name] = {template: times["latency"] for template, times in named}
            self.all.update(self.times[name])
        found = figures["found"]
        order = figures.get("templates") or sorted(found, key=lambda name: (len(name), name))
        self.templates = [name for name in order if name in self.all]


def tests(figures):
    """The tests of a section that asks queries."""
    return [Test(figures, test) for test in figures["tests"]]


class Link(str):
    """The name of a file beside the page, which a cell of the page links to."""


def comparison(record):
    """All tables of a record of bench/compare."""
    texts = []
    for dataset, measured in record["data"].items():
        texts.append(data_title(dataset, measured) + "\n")
        for name, figures in measured["sections"].items():
            texts += [table(*parts) for parts in section_tables(dataset, name, figures)]
    if record.get("experiments"):
        texts.append(table(*experiments_table(record["experiments"])))
    if record["trouble"]:
        texts.append("\n".join(["Not measured", *(f"  {key}: {why}" for key, why in record["trouble"].items())]))
    return "\n".join(texts)


def data_title(dataset, measured):
    """The data set and its size."""
    kind = "compressed N-Triples" if measured.get("compressed") else "N-Triples"
    return f"{dataset}: {measured['bytes'] / 1e6:,.0f} MB of {kind}"


def section_tables(dataset, name, figures):
    """Title, header, rows and notes of each table of a section."""
    if name == "load":
        return [load_table(dataset, figures)]
    if name == "updates":
        return [updates_table(dataset, figures)]
    if name == "cold":
        return [cold_table(dataset, figures)]
    if name == "operators":
        return [operators_table(dataset, figures), *checked_tables(dataset, name, figures)]
    found = [rates_table(dataset, name, figures)]
    found += [times_table(dataset, name, test) for test in tests(figures)]
    return found + checked_tables(dataset, name, figures)


def load_table(dataset, costs):
    """Loading and size, one row per engine: medians of its loads."""
    rows = []
    for name, loads in costs.items():
        middle = {key: statistics.median(load[key] for load in loads) for key in loads[0]}
        walls = [load["wall_s"] for load in loads]
        rows.append([name, len(loads), f"{middle['wall_s']:.2f}", f"{min(walls):.2f} – {max(walls):.2f}",
                     f"{middle['cpu_s']:.2f}", f"{middle['peak_bytes'] / 1e6:,.0f}", f"{middle['disk_bytes'] / 1e6:,.1f}"])
    return (f"{dataset}: load", ["engine", "loads", "s", "from – to", "CPU s", "peak MB", "disk MB"], rows, [
        "Medians. CPU s: of all threads and processes. peak MB: most memory while loading, mapped files included.",
        "disk MB: blocks on the device after the engine has stopped."])


def rates_table(dataset, name, figures):
    """Rates by engine and number of clients."""
    rows, unit = [], ""
    for test in tests(figures):
        unit = test.unit
        for engine in test.engines:
            rates = [rate for rate in test.rates[engine] if rate]
            if not rates:
                continue
            ratio = test.ratios[engine]
            rows.append([engine, test.clients, f"{statistics.median(rates):,.1f}",
                         f"{min(rates):,.1f} – {max(rates):,.1f}", f"{ratio:.2f}" if ratio else "–",
                         f"{figures['peak_bytes'].get(engine, 0) / 1e6:,.0f}"])
    return (f"{dataset}: {name}, rates", ["engine", "clients", unit, "from – to", "times", "peak MB"], rows, [
        "Of the templates that every engine answers right; 0: there is none. times: geometric mean of its times divided by the first's.",
        "peak MB: most memory of the server up to the end of this section."])


def times_table(dataset, name, test):
    """Median and p95 by template and engine."""
    rows = []
    for template in test.templates:
        row, medians = [template], {}
        for engine in test.engines:
            times = test.times[engine].get(template)
            if times is None:
                row.append("–")
                continue
            medians[engine] = times["p50_us"]
            row.append(f"{milliseconds(times['p50_us'] / 1e6)} / {milliseconds(times['p95_us'] / 1e6)}")
        first = test.engines[0]
        for engine in test.engines[1:]:
            both = first in medians and engine in medians
            row.append(f"{medians[engine] / medians[first]:.1f}" if both else "–")
        rows.append(row)
    header = ["template", *(f"{engine} ms" for engine in test.engines),
              *(f"{engine}/{test.engines[0]}" for engine in test.engines[1:])]
    return (f"{dataset}: {name}, median / p95, clients: {test.clients}", header, rows, [])


def operators_table(dataset, figures):
    """Medians by operator and engine, with the queries, those that find nothing, and the mean number of rows."""
    test, rows = tests(figures)[0], []
    for operator in test.templates:
        found, first = figures["found"][operator], test.engines[0]
        medians = {engine: test.times[engine][operator]["p50_us"] for engine in test.engines if operator in test.times[engine]}
        row = [operator, found["queries"], found["empty"], f"{found['rows'] / found['queries']:,.0f}"]
        row += [milliseconds(medians[engine] / 1e6) if engine in medians else "–" for engine in test.engines]
        row += [f"{medians[engine] / medians[first]:.1f}" if first in medians and engine in medians else "–"
                for engine in test.engines[1:]]
        rows.append(row)
    header = ["operator", "queries", "empty", "rows", *(f"{engine} ms" for engine in test.engines),
              *(f"{engine}/{test.engines[0]}" for engine in test.engines[1:])]
    return (f"{dataset}: operators of the engines, medians of 1 client", header, rows, [
        "Parameters are drawn at random from the data. empty: queries that find nothing. rows: of a query, on average."])


def experiments_table(experiments):
    """The papers' figures beside ours, one row for each, with links to the experiments' own reports."""
    rows, notes = [], []
    for experiment in experiments:
        for figure in experiment["figures"]:
            rows.append([f"{experiment['name']}: {figure['figure']}", figure["paper"] or "–", figure["ours"],
                         ratio_text(figure["ratio"]), figure["kind"], Link(experiment["report"])])
        size = "" if experiment["full"] else ", a small run"
        notes.append(f"{experiment['title']}: {experiment['command']} ({experiment['seconds']:.0f} s{size})")
    notes.append("ratio: ours over the paper's, of times the paper's over ours: above 1 is better or more.")
    if any(experiment["name"] == "ctdb" for experiment in experiments):
        notes.append("The ratios of ctdb's times are upper bounds: the paper does not say how many queries a test has.")
    return "the papers' experiments", ["experiment", "paper", "ours", "ratio", "kind", "report"], rows, notes


def ratio_text(ratio):
    """With three digits, or as many as the number has before its point."""
    if ratio is None:
        return "–"
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def checked_tables(dataset, name, figures):
    """What the queries find, and what an engine does not answer or answers differently."""
    total = sum(found["queries"] for found in figures["found"].values())
    empty = {template: found["empty"] for template, found in figures["found"].items() if found["empty"]}
    among = ", ".join(f"{template} {count}" for template, count in empty.items())
    note = f"{total} different queries; {sum(empty.values())} find nothing{f': {among}' if among else ''}."
    rows = []
    for system, reasons in zip(figures["systems"], figures["left_out"]):
        rows += [[system["name"], template, reason] for template, reason in reasons.items()]
    return [(f"{dataset}: {name}, left out", ["engine", "template", "why"], rows, [note])]


def updates_table(dataset, figures):
    """Median milliseconds of updates."""
    engines = list(figures["syncs"])
    rows = []
    for kind, times in figures["kinds"].items():
        cells = [f"{statistics.median(times[name]):.2f}" if times.get(name) else "–" for name in engines]
        rows.append([kind, *cells])
    notes = [f"{name}: {why}" for name, why in figures["failed"].items()]
    lazy = [name for name, syncs in figures["syncs"].items() if not syncs]
    if lazy:
        notes.append(f"Acknowledged before they are on the device: {', '.join(lazy)}.")
    return (f"{dataset}: updates, median ms", ["update", *engines], rows, notes)


def cold_table(dataset, figures):
    """Median milliseconds of the first query of a server."""
    engines = list(figures)
    ids = list(dict.fromkeys(id_ for times in figures.values() for id_ in times))
    rows = [[id_, *(f"{statistics.median(figures[name][id_]):.2f}" if id_ in figures[name] else "–"
                    for name in engines)] for id_ in ids]
    return (f"{dataset}: first query of a server, median ms", ["query", *engines], rows, [])
