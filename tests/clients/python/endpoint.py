"""The server under test, and data that is awkward to carry: other scripts, quotes, line ends."""

import os
import urllib.request

URL = os.environ["PYTHIA_URL"].rstrip("/")
QUERY, UPDATE, STORE = f"{URL}/query", f"{URL}/update", f"{URL}/store"

EX = "http://example.org/"
AWKWARD = [
    "plain", "Ünïcödé", "日本語", "Ελλάδα", "عربى", "🙂 beyond the plane", 'a "quoted" part',
    "two\nlines", "tab\tand\rreturn", "back\\slash", "<tag> & &amp; ]]>", " spaces at both ends ",
    "a+b%20c#d?e=f;g", "'apostrophes'", "\u0301combining", "",
]


def update(text):
    """Changes the store without any client."""
    request = urllib.request.Request(
        UPDATE, text.encode(), {"Content-Type": "application/sparql-update"})
    with urllib.request.urlopen(request, timeout=60) as response:
        response.read()


def fill(text):
    """Makes this the whole store; prefix `ex:` is known."""
    update(f"PREFIX ex: <{EX}> DROP ALL; INSERT DATA {{ {text} }}")


def numbers(count):
    """Makes the store hold as many subjects with a number each."""
    update("DROP ALL")
    for start in range(0, count, 10_000):
        lines = (f"<{EX}n{n}> <{EX}value> {n} ." for n in range(start, min(count, start + 10_000)))
        update("INSERT DATA { " + "\n".join(lines) + " }")
