"""The record of bench/compare as one page of HTML, with plots, that needs no other file."""

import math
import statistics
from html import escape
from urllib.parse import quote

from . import report

# Colours that are distinct with any colour vision (Okabe and Ito).
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#999999"]
BAR, GAP, LABEL, WIDTH = 11, 9, 150, 900
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
svg { max-width: 100%; height: auto; display: block; margin: 1rem 0; }
svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .2rem .7rem; text-align: right;
  border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
th:first-child, td:first-child { text-align: left; }
pre { overflow-x: auto; line-height: 1.3; }
.note { margin: .3rem 0; opacity: .75; font-size: .9em; }
"""


def html(record):
    """The whole page."""
    machine = record["machine"]
    parts = [
        "<h1>Pythia beside other RDF databases</h1>",
        f"<p>{escape(record['time'])}, commit {escape(record['commit'][:12])}, {machine['cores']} cores, "
        f"{escape(machine['processor'])}, {machine['memory_bytes'] / (1 << 30):.0f} GiB of memory, load average "
        f"{machine['load_average']:.1f} before.</p>",
        f"<p>{escape('; '.join(f'{name}: {version}' for name, version in record['versions'].items()))}</p>",
        f"<p class=note>{escape(' '.join(record['command']))}</p>",
    ]
    for dataset, measured in record["data"].items():
        parts.append(f"<h2>{escape(report.data_title(dataset, measured))}</h2>")
        for name, figures in measured["sections"].items():
            parts += plots(name, figures)
            parts += [html_table(*table) for table in report.section_tables(dataset, name, figures)]
    if record.get("experiments"):
        parts.append(html_table(*report.experiments_table(record["experiments"])))
    for key, why in record["trouble"].items():
        parts.append(f"<p class=note>Not measured: {escape(key)}: {escape(why)}</p>")
    return whole("Pythia beside other RDF databases", parts)


def of_text(title, command, text):
    """What a command has printed as a page."""
    return whole(title, [f"<h1>{escape(title)}</h1>", f"<p class=note>{escape(command)}</p>", f"<pre>{escape(text)}</pre>"])


def whole(title, parts):
    """A page with these elements."""
    body = "\n".join(parts)
    return (f"<!doctype html>\n<html lang=en>\n<head><meta charset=utf-8>\n<meta name=viewport content=width=device-width>\n"
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n")


def html_table(title, header, rows, notes):
    """A heading, a table and its notes; without rows, the notes alone."""
    lines = [f"<h3>{escape(title)}</h3>"] if rows else []
    if rows:
        lines.append("<table><tr>" + "".join(f"<th>{escape(str(cell))}</th>" for cell in header) + "</tr>")
        for row in rows:
            lines.append("<tr>" + "".join(f"<td>{html_cell(cell)}</td>" for cell in row) + "</tr>")
        lines.append("</table>")
    lines += [f"<p class=note>{escape(note)}</p>" for note in notes]
    return "\n".join(lines)


def html_cell(cell):
    """A cell's text, or a link to the file that it names."""
    if isinstance(cell, report.Link):
        return f'<a href="{quote(cell)}">report</a>'
    return escape(str(cell))


def plots(name, figures):
    """The plots of a section."""
    if name == "load":
        groups = {"seconds": {engine: statistics.median(load["wall_s"] for load in loads)
                              for engine, loads in figures.items()},
                  "peak MB": {engine: statistics.median(load["peak_bytes"] for load in loads) / 1e6
                              for engine, loads in figures.items()},
                  "disk MB": {engine: loads[-1]["disk_bytes"] / 1e6 for engine, loads in figures.items()}}
        return [bars(groups, "load")]
    if name == "updates":
        groups = {kind: {engine: statistics.median(ms) for engine, ms in times.items()}
                  for kind, times in figures["kinds"].items()}
        return [bars(groups, "updates, median ms")]
    if name == "cold":
        ids = dict.fromkeys(id_ for times in figures.values() for id_ in times)
        return [bars({id_: {engine: statistics.median(times[id_]) for engine, times in figures.items() if id_ in times}
                      for id_ in ids}, "first query of a server, median ms")]
    tests = report.tests(figures)
    rates = {f"{test.clients} clients": {engine: statistics.median(filter(None, test.rates[engine]))
                                         for engine in test.engines if any(test.rates[engine])} for test in tests}
    first = tests[0]
    medians = {template: {engine: first.times[engine][template]["p50_us"] / 1e3
                          for engine in first.engines if template in first.times[engine]}
               for template in first.templates}
    if name == "operators":
        return [bars(medians, "operators of the engines, median ms")]
    return [bars(rates, f"{name}, {first.unit}"), bars(medians, f"{name}, median ms, {first.clients} client")]


def bars(groups, title):
    """Horizontal bars on a logarithmic scale: a group of one bar per engine for each name."""
    values = [value for group in groups.values() for value in group.values() if value > 0]
    if not values:
        return ""
    low = math.floor(math.log10(min(values)) - 0.1)
    high = max(math.ceil(math.log10(max(values))), low + 1)
    engines = list(dict.fromkeys(engine for group in groups.values() for engine in group))
    span = WIDTH - LABEL - 80

    def x(value):
        return LABEL + span * (math.log10(value) - low) / (high - low)

    parts, y = [], 46
    for place, engine in enumerate(engines):
        parts.append(f'<rect x="{LABEL + place * 110}" y="24" width="10" height="10" fill="{colour(place)}"/>'
                     f'<text x="{LABEL + place * 110 + 14}" y="33">{escape(engine)}</text>')
    top = y
    for name, group in groups.items():
        middle = y + BAR * len(group) / 2 + 4
        parts.append(f'<text x="{LABEL - 8}" y="{middle:.1f}" text-anchor="end">{escape(name[:24])}</text>')
        for engine, value in group.items():
            if value > 0:
                parts.append(f'<rect x="{LABEL}" y="{y}" width="{max(x(value) - LABEL, 1):.1f}" height="{BAR - 2}" '
                             f'fill="{colour(engines.index(engine))}"/>'
                             f'<text x="{x(value) + 4:.1f}" y="{y + BAR - 2}">{number(value)}</text>')
            y += BAR
        y += GAP
    for power in range(low, high + 1):
        place = LABEL + span * (power - low) / (high - low)
        parts.append(f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{top}" y2="{y}" stroke="currentColor" '
                     f'stroke-opacity=".15"/><text x="{place:.1f}" y="{y + 14}" text-anchor="middle">{number(10.0 ** power)}'
                     '</text>')
    return (f'<svg viewBox="0 0 {WIDTH} {y + 22}" role="img" aria-label="{escape(title)}">'
            f'<text x="{LABEL}" y="14">{escape(title)} (logarithmic)</text>{"".join(parts)}</svg>')


def colour(place):
    return COLOURS[place % len(COLOURS)]


def number(value):
    """Three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
