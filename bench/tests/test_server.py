"""Tests of bench/server and bench/overload: their logic, and a small run of each on a server.

    python3 -m unittest discover -s bench/tests

The binary is $PYTHIA, or what was built last. Speed is not tested: the machine may be busy.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

from peers import compare, engines, graphs, hostile, memory, overload, points, processes, server_rate  # noqa: E402

INSTANCES = "<http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/{}>"


def setUpModule():
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache" / "pythia" / "target"))
    if "PYTHIA" not in os.environ:
        built = [target / kind / "pythia" for kind in ("debug", "release")]
        built = sorted((path for path in built if path.exists()), key=lambda path: path.stat().st_mtime)
        if built:
            os.environ["PYTHIA"] = str(built[-1])


class Points(unittest.TestCase):
    def test_queries_are_of_all_templates_about_many_products(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.nt"
            products = [INSTANCES.format(f"dataFromProducer1/Product{n}") for n in range(300)]
            path.write_text("".join(f"{product} <p> <o> .\n" for product in products))
            made = points.queries(path, 1000)
        self.assertEqual(len({query["id"] for query in made}), 1000)
        self.assertEqual({query["template"] for query in made}, set(points.TEMPLATES))
        self.assertGreater(len({query["query"] for query in made}), 900)
        target = points.target({"query": "ASK { <a> <b#> ?é }"}, "/ds/query")
        self.assertEqual(target, "/ds/query?query=ASK%20%7B%20%3Ca%3E%20%3Cb%23%3E%20%3F%C3%A9%20%7D")


class Figures(unittest.TestCase):
    def test_rates_are_compared_run_by_run(self):
        def run(rate):
            return {"per_second": rate, "p50_ms": 1, "p95_ms": 2, "p99_ms": 3}
        entries = server_rate.summaries({"pythia": [run(100), run(10), run(100)],
                                         "oxigraph": [run(50), run(5), run(40)]})
        self.assertEqual(entries["pythia"]["per_second"], 100)
        self.assertEqual(entries["pythia"]["by_first"], 1)
        self.assertEqual(entries["oxigraph"]["by_first"], 2)

    def test_what_must_hold_is_checked(self):
        def figures(**changed):
            return {"per_second": 90, "statuses": {"200": 90, "503": 800}, "failed": {},
                    "without_retry_after": 0, "sent": 890, "timeline": [10, 85, 90, 200],
                    "seconds_asked": 3, **changed}

        def failing(during, after=None, peak=10):
            found = overload.checks({"per_second": 100}, during, after or figures(), peak, 100)
            return [text.split()[0] for holds, text in found if not holds]
        self.assertEqual(failing(figures()), [])
        self.assertEqual(failing(figures(failed={"timed out": 1})), ["every"])
        self.assertEqual(failing(figures(statuses={"200": 1, "500": 1, "429": 1})), ["what"])
        self.assertEqual(failing(figures(statuses={"200": 1})), ["more"])
        self.assertEqual(failing(figures(without_retry_after=1)), ["who"])
        self.assertEqual(failing(figures(timeline=[100, 79, 80, 500])), ["goodput"])
        self.assertEqual(failing(figures(), peak=101), ["memory"])
        self.assertEqual(failing(figures(), figures(timeline=[1, 2, 3])), ["80"])

    def test_recovery_is_the_first_good_second(self):
        self.assertEqual(overload.recovery_seconds([100], 100), 1)
        self.assertEqual(overload.recovery_seconds([0, 79, 81], 100), 3)
        self.assertIsNone(overload.recovery_seconds([], 100))


class SmallRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.data = Path(cls.folder.name) / "small.nt"
        processes.run([engines.program(), "generate", "bsbm", "--products", 200, "-o", cls.data],
                      Path(cls.folder.name) / "log")

    def run_command(self, main, *given):
        figures = Path(self.folder.name) / "figures.json"
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = main([*given, "--data", str(self.data), "--json", str(figures)])
        return code, said.getvalue(), json.loads(figures.read_text(encoding="utf-8"))

    def test_a_rate_is_measured(self):
        code, said, record = self.run_command(
            server_rate.main, "--peers", "pythia", "--pairs", "1", "--seconds", "1", "--queries",
            "40", "--check", "40")
        self.assertEqual(code, 0, said)
        self.assertIn("At half of its own rate", said)
        server = record["servers"]["pythia"]
        self.assertEqual(server["runs"][0]["refused"], 0)
        self.assertGreater(server["runs"][0]["requests"], 0)
        self.assertEqual(set(server["half_load"]["statuses"]), {"200"})

    def test_engines_are_compared_and_a_stopped_run_goes_on(self):
        output = Path(self.folder.name) / "compared"
        asked = Path(self.folder.name) / "asked.jsonl"
        asked.write_text('{"id": "all", "query": "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"}\n')
        both = (["--data", "bsbm", "--scale", "100", "--clients", "1,2"], ["--data", str(self.data), "--queries", str(asked)])
        for given in both:
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = compare.main([*given, "--peers", "pythia", "--rounds", "1", "--loads", "1", "--again",
                                     "-o", str(output)])
            self.assertEqual(code, 0, said.getvalue())
            record = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))
            name, measured = next(iter(record["data"].items()))
            self.assertEqual(list(measured["sections"]), list(compare.SECTIONS[name]), said.getvalue())
            self.assertEqual(record["trouble"], {})
            self.assertIn("<svg", output.with_suffix(".html").read_text(encoding="utf-8"))
            if name == "bsbm":
                self.assertEqual(measured["sections"]["explore"]["left_out"], [{}])
                self.assertEqual(measured["sections"]["updates"]["failed"], {})

    def test_a_server_is_overloaded(self):
        code, said, record = self.run_command(
            overload.main, "--seconds", "3", "--measure", "1", "--connections", "400")
        self.assertIn(code, (0, 1), said)
        held = {check["text"].split()[0]: check["holds"] for check in record["checks"]}
        # Goodput and recovery are speed, and may suffer from what else the machine does.
        for what in ("every", "what", "who", "memory"):
            self.assertTrue(held[what], said)

    def test_peaks_of_memory_are_measured(self):
        figures = Path(self.folder.name) / "memory.json"
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = memory.main(["--subjects", "3000", "--arms", "300", "--uploads", "16",
                                "--only", "star,replace,uploads", "--json", str(figures)])
        self.assertEqual(code, 0, said.getvalue())
        cases = json.loads(figures.read_text(encoding="utf-8"))["cases"]
        self.assertEqual([case["case"] for case in cases], ["star", "replace", "uploads"])

    def test_requests_about_graphs_are_measured(self):
        figures = Path(self.folder.name) / "graphs.json"
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = graphs.main(["--peers", "pythia", "--graphs", "120", "--rounds", "1", "--json", str(figures)])
        self.assertEqual(code, 0, said.getvalue())
        record = json.loads(figures.read_text(encoding="utf-8"))
        self.assertEqual(set(record["seconds"]), set(graphs.REQUESTS))
        self.assertEqual({len(found["pythia"]) for found in record["seconds"].values()}, {1})

    def test_nonsense_is_sent(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = hostile.main(["--seconds", "3", "--seed", "7", "--threads", "4"])
        self.assertEqual(code, 0, said.getvalue())
        self.assertIn("seed 7", said.getvalue())


if __name__ == "__main__":
    unittest.main()
