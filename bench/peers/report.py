"""Counts compared, tables printed."""

import statistics

from .sparql_http import query_form


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


def same_value(left, right):
    """Whether two lexical forms mean the same: numbers by value."""
    if left == right:
        return True
    try:
        return abs(float(left) - float(right)) <= 1e-9 * max(1.0, abs(float(left)))
    except (TypeError, ValueError):
        return False


def differences(queries, results):
    """Queries whose engines do not agree, as (id, {engine: count or value}, explanation)."""
    found = []
    for query in queries:
        answers = {}
        for name, outcomes in results.items():
            outcome = outcomes.get(query["id"])
            if outcome is not None and outcome.error is None and outcome.rows is not None:
                answers[name] = outcome
        if len(answers) < 2:
            continue
        first = next(iter(answers.values()))
        if all(other.rows == first.rows and
               (first.value is None or same_value(other.value, first.value))
               for other in answers.values()):
            continue
        told = {name: outcome.rows if outcome.rows != 1 or outcome.value is None else outcome.value
                for name, outcome in answers.items()}
        found.append((query["id"], told, explanation(query["query"], answers)))
    return found


def explanation(text, answers):
    """What is known about a difference; empty if nothing is."""
    if "DESCRIBE" in text.upper():
        return "each engine describes in its own way"
    others = {outcome.rows for name, outcome in answers.items() if name != "virtuoso"}
    is_path = any(f">{mark}" in text or f"){mark}" in text for mark in "+*")
    if len(others) == 1 and "virtuoso" in answers and is_path:
        return "Virtuoso gives a row for each route"
    return ""


def emptiness(queries, outcomes):
    """How many of the queries that an engine answered found nothing: of all, and by template. ASK
    always finds an answer."""
    templates = {}
    for query in queries:
        outcome = outcomes.get(query["id"])
        if outcome is None or outcome.error is not None or outcome.rows is None:
            continue
        found = templates.setdefault(query["template"], {"answered": 0, "empty": 0})
        found["answered"] += 1
        if outcome.rows == 0 and query_form(query["query"]) != "ASK":
            found["empty"] += 1
    answered, empty = (sum(found[what] for found in templates.values())
                       for what in ("answered", "empty"))
    return {"answered": answered, "empty": empty, "share": empty / answered if answered else 0.0,
            "templates": templates}


def emptiness_text(queries, results):
    """What share of the queries found nothing, which is faster than to find something."""
    lines = []
    for name, outcomes in results.items():
        found = emptiness(queries, outcomes)
        parts = [f"{template} {counts['empty']} of {counts['answered']}"
                 for template, counts in found["templates"].items() if counts["empty"]]
        among = f" ({', '.join(parts)})" if parts else ""
        lines.append(f"  {name}: {found['empty']} of {found['answered']} queries, "
                     f"{found['share']:.1%}{among}")
    return "\n".join(["Queries that found nothing", *lines]) + "\n"


def failures(queries, results):
    """(engine, template, how many, first message) of queries that were not answered."""
    found = {}
    for name, outcomes in results.items():
        for query in queries:
            outcome = outcomes.get(query["id"])
            if outcome is not None and outcome.error is not None:
                entry = found.setdefault((name, query["template"]), [0, outcome.error])
                entry[0] += 1
    return [(name, template, count, message) for (name, template), (count, message)
            in found.items()]


def milliseconds(seconds):
    """With three digits that count."""
    value = seconds * 1e3
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def template_rows(queries, results):
    """One row per template: results, then median and p95 per engine, then ratios to ours."""
    templates = {}
    for query in queries:
        templates.setdefault(query["template"], []).append(query["id"])
    rows = []
    for template, ids in templates.items():
        row, medians = [template, len(ids)], {}
        for name, outcomes in results.items():
            seconds = [second for id_ in ids for second in outcomes[id_].seconds
                       if outcomes[id_].error is None]
            failed = sum(1 for id_ in ids if outcomes[id_].error is not None)
            if not seconds:
                row.append("failed")
                continue
            medians[name] = statistics.median(seconds)
            cell = f"{milliseconds(medians[name])} / {milliseconds(percentile(seconds, 0.95))}"
            row.append(cell + (f" ({failed} failed)" if failed else ""))
        for name in results:
            if name == "pythia":
                continue
            both = "pythia" in medians and name in medians
            row.append(f"{medians[name] / medians['pythia']:.1f}x" if both else "")
        rows.append(row)
    return rows


def load_table(reports):
    """Loading and size, one row per engine."""
    rows = []
    for name, report in reports.items():
        if "load_wall_s" not in report:
            continue
        triples = report.get("triples")
        rows.append([
            name,
            f"{triples:,}" if triples else "?",
            f"{report['load_wall_s']:.2f}",
            f"{report['load_cpu_s']:.2f}",
            f"{report['load_peak_bytes'] / 1e6:,.0f}",
            f"{report['disk_bytes'] / 1e6:,.1f}",
            f"{report['disk_bytes'] / triples:.1f}" if triples else "?",
            f"{report['query_peak_bytes'] / 1e6:,.0f}",
        ])
    header = ["engine", "triples", "load s", "CPU s", "peak MB", "disk MB", "bytes/triple",
              "querying MB"]
    return table("Loading one file of N-Triples", header, rows, [
        "load s: wall clock. CPU s: of all its threads and processes. peak MB: most memory while",
        "loading, mapped files included. disk MB: blocks on the device. querying MB: the same peak",
        "of the process that answered the queries.",
    ])


def query_table(queries, results, reports, temperature="warm"):
    """Latencies, one row per template."""
    names = list(results)
    peers = [name for name in names if name != "pythia"]
    header = ["template", "queries", *(f"{name} ms" for name in names)]
    header += [f"{name}/pythia" for name in peers]
    rows = template_rows(queries, results)
    if "pythia" not in names:
        header = header[:2 + len(names)]
        rows = [row[:2 + len(names)] for row in rows]
    empty = ", ".join(f"{name} {milliseconds(reports[name]['empty_s'])}" for name in names
                      if reports[name].get("empty_s") is not None)
    return table(f"Latency per query, median / p95, {temperature}, one client", header, rows, [
        "Peers are asked over HTTP on loopback; Pythia in process, with its",
        "results written as SPARQL JSON to memory. Nothing is subtracted from either.",
        f"What a query that asks nothing, ASK {{}}, takes in the same way (ms): {empty}.",
    ])


def difference_text(queries, found, names):
    """Where engines do not agree: one row for each query, one for each template where it is known
    why."""
    if len(names) < 2:
        return "Results: nothing to compare with, one engine ran.\n"
    if not found:
        return "Results: all engines that answered agree on every query.\n"
    templates = {query["id"]: query["template"] for query in queries}
    rows, known = [], {}
    for id_, told, why in found:
        answers = [told.get(name, "–") for name in names]
        if not why:
            rows.append([id_, *answers, "no: look into it"])
            continue
        key = (templates[id_], why)
        if key in known:
            known[key][2] += 1
        else:
            known[key] = [id_, answers, 1]
    for (template, why), (id_, answers, count) in known.items():
        name = id_ if count == 1 else f"{id_} and {count - 1} more of {template}"
        rows.append([name, *answers, why])
    agree = len(queries) - len(found)
    note = f"All engines that answered agree on the other {agree} of {len(queries)} queries."
    return table("Results that differ", ["query", *names, "known why"], rows, [note])


def failure_text(found):
    """What was not answered."""
    if not found:
        return ""
    lines = ["Not answered"]
    for name, template, count, message in found:
        lines.append(f"  {name}: {count} of {template}: {message[:160]}")
    return "\n".join(lines) + "\n"
