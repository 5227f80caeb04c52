"""Tests of bench/compare's own logic; no database is started.

    python3 -m unittest discover -s bench/tests
"""

import http.server
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

from peers import command, data, engines, processes, report, sparql_http  # noqa: E402


def outcome(rows, value=None, seconds=(0.001,), error=None):
    made = engines.Outcome()
    made.rows, made.value, made.seconds, made.error = rows, value, list(seconds), error
    return made


class Report(unittest.TestCase):
    queries = [
        {"id": "a-0", "template": "a", "query": "SELECT * { ?s <p>+ <o> }"},
        {"id": "b-0", "template": "b", "query": "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"},
    ]

    def test_differences_are_found_and_known_ones_explained(self):
        results = {
            "pythia": {"a-0": outcome(3), "b-0": outcome(1, "7")},
            "oxigraph": {"a-0": outcome(3), "b-0": outcome(1, "7.0")},
            "virtuoso": {"a-0": outcome(5), "b-0": outcome(1, "8")},
        }
        found = report.differences(self.queries, results)
        self.assertEqual([entry[0] for entry in found], ["a-0", "b-0"])
        self.assertEqual(found[0][1], {"pythia": 3, "oxigraph": 3, "virtuoso": 5})
        self.assertIn("route", found[0][2])
        self.assertEqual((found[1][1]["virtuoso"], found[1][2]), ("8", ""))
        text = report.difference_text(self.queries, found, list(results))
        self.assertRegex(text, r"a-0 +3 +3 +5 +Virtuoso")
        self.assertRegex(text, r"b-0 +7 +7.0 +8 +no: look")
        del results["virtuoso"]
        self.assertEqual(report.differences(self.queries, results), [])

    def test_failures_are_told_and_compared_with_nothing(self):
        results = {
            "pythia": {"a-0": outcome(None, seconds=(), error="not yet"), "b-0": outcome(1, "7")},
            "oxigraph": {"a-0": outcome(3), "b-0": outcome(1, "7")},
        }
        self.assertEqual(report.differences(self.queries, results), [])
        self.assertEqual(report.failures(self.queries, results), [("pythia", "a", 1, "not yet")])
        rows = report.template_rows(self.queries, results)
        self.assertEqual(rows[0], ["a", 1, "failed", "1.00 / 1.00", ""])
        self.assertEqual(rows[1][-1], "1.0x")

    def test_queries_that_find_nothing_are_counted(self):
        queries = [*self.queries, {"id": "a-1", "template": "a", "query": "SELECT * { }"},
                   {"id": "c-0", "template": "c", "query": "ASK { ?s ?p ?o }"}]
        outcomes = {"a-0": outcome(0), "a-1": outcome(2), "b-0": outcome(None, error="no"),
                    "c-0": outcome(0)}
        found = report.emptiness(queries, outcomes)
        self.assertEqual((found["answered"], found["empty"]), (3, 1))
        self.assertAlmostEqual(found["share"], 1 / 3)
        self.assertEqual(found["templates"], {"a": {"answered": 2, "empty": 1},
                                              "c": {"answered": 1, "empty": 0}})
        text = report.emptiness_text(queries, {"pythia": outcomes})
        self.assertIn("pythia: 1 of 3 queries, 33.3% (a 1 of 2)", text)

    def test_tables_are_aligned_and_percentiles_are_ranks(self):
        text = report.table("T", ["name", "n"], [["pear", 3], ["fig", 20]], ["seen"])
        self.assertEqual(text, "T\n  name   n\n  ────  ──\n  pear   3\n  fig   20\n  seen\n")
        values = list(range(1, 101))
        self.assertEqual(report.percentile(values, 0.95), 95)
        self.assertEqual(report.percentile([4], 0.95), 4)


class Data(unittest.TestCase):
    instance = "<http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/dataFrom{}>"

    def test_parameters_are_drawn_from_the_data_once(self):
        """A stand-in for the program says what it was asked."""
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(
                data, "CACHE", Path(folder)):
            path, log = Path(folder) / "small.nt", Path(folder) / "log"
            path.write_text("<a> <b> <c> .\n")
            program = Path(folder) / "pythia"
            program.write_text(f"""#!/bin/sh
echo "$*" >> {log}
if [ "$1" = generate ]; then
    while [ "$1" != -o ]; do shift; done
    echo '{{"id": "BI1-0", "template": "BI1", "query": "ASK {{}}"}}' > "$2"
fi
""")
            program.chmod(0o755)
            for _ in range(2):
                found = data.drawn_queries(path, "bi", 7, lambda: program)
                self.assertEqual([query["id"] for query in data.read_queries(found)], ["BI1-0"])
            load, draw = log.read_text().splitlines()
            self.assertTrue(load.startswith("load -l ") and load.endswith(str(path)), load)
            self.assertRegex(draw, r"generate queries -l \S+ --use-case bi --each 3 --seed 7 -o ")
            self.assertEqual([entry.name for entry in (Path(folder) / "data").iterdir()],
                             ["small-bi-7.jsonl"])

    def test_instances_are_sampled_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.nt"
            name = self.instance.format("Vendor1/Offer12")
            path.write_text(f"{name} <p> <o> .\n" * 100)
            self.assertEqual(data.sample_instances(path, places=3), {"Offer": [name]})

    def test_files_are_cut_at_line_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.nt"
            lines = [f"line {n}\n" for n in range(1000)]
            path.write_text("".join(lines))
            parts = engines.split_lines(path, Path(folder) / "parts", 3)
            texts = [part.read_text() for part in sorted(parts.iterdir())]
            self.assertEqual("".join(texts), "".join(lines))
            self.assertTrue(all(text.endswith("\n") for text in texts))

    def test_bundled_queries_are_read(self):
        queries = data.read_queries(BENCH / "queries" / "yago-paths.jsonl")
        self.assertEqual(len({query["id"] for query in queries}), len(queries))
        self.assertTrue(all(sparql_http.query_form(q["query"]) == "SELECT" for q in queries))


class Http(unittest.TestCase):
    def test_answers_are_counted(self):
        table = b'{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"value":"7"}}]}}'
        self.assertEqual(sparql_http.count_table(table), (1, "7"))
        self.assertEqual(sparql_http.count_table(b'{"head":{},"boolean":true}'), (1, None))
        with self.assertRaises(ValueError):
            sparql_http.count_table(table[:-5])
        self.assertEqual(sparql_http.count_triples(b"<a> <b> <c> .\n<a> <b> <c> .\n# end\n"), 1)

    def test_forms_are_told_apart(self):
        self.assertEqual(sparql_http.query_form("PREFIX a: <http://ask/SELECT> ask { }"), "ASK")
        self.assertEqual(sparql_http.query_form("# ASK\nDESCRIBE <x>"), "DESCRIBE")

    def test_an_endpoint_is_asked_over_one_connection(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            connections = set()

            def do_POST(self):
                self.connections.add(self.client_address)
                text = self.rfile.read(int(self.headers["Content-Length"]))
                body = b'{"head":{},"boolean":true}' if b"ASK" in text else b"no such query"
                self.send_response(200 if b"ASK" in text else 400)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        endpoint = sparql_http.Endpoint(server.server_port, "/q", 5)
        try:
            self.assertEqual(endpoint.ask("ASK {}").rows, 1)
            with self.assertRaisesRegex(sparql_http.Refused, "400: no such query"):
                endpoint.ask("SELECT nonsense")
            endpoint.ask("ASK {}")
            self.assertEqual(len(Handler.connections), 1)
        finally:
            endpoint.close()
            server.shutdown()
            server.server_close()


class Processes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.log = Path(self.folder.name) / "log"

    def test_costs_are_measured_with_children(self):
        hog = "x = bytearray(60_000_000); import time; time.sleep(0.3); sum(range(10**6))"
        cost = processes.run(["sh", "-c", f"{sys.executable} -c '{hog}'; true"], self.log)
        self.assertGreater(cost.peak_bytes, 60_000_000)
        self.assertGreater(cost.wall_s, 0.3)
        self.assertGreater(cost.cpu_s, 0.0)

    def test_a_failure_tells_what_the_child_said(self):
        with self.assertRaisesRegex(processes.Failed, "code 3.*no store"):
            processes.run(["sh", "-c", "echo no store; exit 3"], self.log)

    def test_stopping_ends_children_of_children(self):
        child = processes.Child(["sh", "-c", "sleep 1000 & echo $!; wait"], self.log)
        deadline = time.monotonic() + 10
        while not self.log.read_text().strip() and time.monotonic() < deadline:
            time.sleep(0.01)
        grandchild = int(self.log.read_text())
        child.stop()
        for _ in range(500):
            if state(grandchild) in ("Z", None):
                break
            time.sleep(0.01)
        self.assertIn(state(grandchild), ("Z", None))

    def test_a_signal_to_the_script_ends_its_children(self):
        script = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from peers import processes\n"
            "processes.raise_on_signals()\n"
            "child = processes.Child(['sleep', '1000'], sys.argv[2])\n"
            "print(child.pid, flush=True)\n"
            "try:\n    child.wait()\nexcept KeyboardInterrupt:\n    pass\n"
        )
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            parent = subprocess.Popen([sys.executable, "-c", script, BENCH, self.log],
                                      stdout=subprocess.PIPE, text=True)
            pid = int(parent.stdout.readline())
            parent.send_signal(sign)
            parent.wait(20)
            parent.stdout.close()
            for _ in range(500):
                if state(pid) in ("Z", None):
                    break
                time.sleep(0.01)
            self.assertIn(state(pid), ("Z", None), sign)


class Command(unittest.TestCase):
    def test_sizes_and_engines_are_checked(self):
        self.assertEqual(command.size("1.5G"), 3 << 29)
        self.assertEqual(command.arguments(["--peers", "pythia,jena"]).peers, ["pythia", "jena"])
        with open(os.devnull, "w") as nowhere:
            stderr, sys.stderr = sys.stderr, nowhere
            try:
                with self.assertRaises(SystemExit):
                    command.arguments(["--peers", "mysql"])
            finally:
                sys.stderr = stderr

    def test_terms_lose_their_syntax(self):
        typed = '"a\\"b"^^<http://www.w3.org/2001/XMLSchema#string>'
        self.assertEqual(engines.lexical_form(typed), 'a"b')
        self.assertEqual(engines.lexical_form("<http://a>"), "http://a")
        self.assertIsNone(engines.lexical_form(None))


def state(pid):
    """The process's state letter, or None if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


if __name__ == "__main__":
    unittest.main()
