"""Tests of bench/compare's own logic; no database is started.

    python3 -m unittest discover -s bench/tests
"""

import contextlib
import gzip
import http.server
import io
import json
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

from peers import (command, compare, data, engines, experiments, instructions, operators, page, points, processes, report,  # noqa: E402
                   sparql_http, threads)


def latency(median):
    return {"count": 3, "mean_us": median, "p50_us": median, "p95_us": 2 * median, "p99_us": median, "max_us": median}


def figures(times, left_out, unit="queries_per_second"):
    """What `pythia bench endpoints` gives, of medians by engine and template."""
    names = list(times)
    templates = list(dict.fromkeys(template for of in times.values() for template in of))
    systems = [{unit: [10.0, 30.0, 20.0], "ratio": 1.0,
                "templates": {template: {"latency": latency(us)} for template, us in of.items()}}
               for of in times.values()]
    return {"systems": [{"name": name, "url": "http://x"} for name in names], "templates": templates,
            "tests": [{"clients": 1, "systems": systems}], "left_out": [left_out.get(name, {}) for name in names],
            "found": {template: {"queries": 2, "empty": 1, "rows": 3} for template in templates},
            "peak_bytes": {names[0]: 5_000_000}}


class Threads(unittest.TestCase):
    def test_a_small_run(self):
        with tempfile.TemporaryDirectory() as folder:
            program, queries, record = (Path(folder) / name for name in ("pythia", "queries.jsonl", "record.json"))
            # 100 ms with one thread, 50 with two.
            program.write_text(textwrap.dedent("""\
                #!/usr/bin/env python3
                import json, sys
                given = dict(zip(sys.argv, sys.argv[1:]))
                if "--json" in given:
                    latency = {"p50_us": 100_000 // int(given["--threads"])}
                    open(given["--json"], "w").write(json.dumps({"queries": [{"latency": latency}]}))
                """))
            program.chmod(0o755)
            queries.write_text("".join(json.dumps({"id": name, "template": name, "query": "ASK {}"}) + "\n" for name in "ab"))
            given = ["-l", "store", "--queries", str(queries), "--rounds", "2", "--json", str(record)]
            with mock.patch.object(engines, "program", lambda: program), contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(threads.main(given), 0)
                self.assertIn("2 of 2 ratios are at least 1.5", said.getvalue())
                with contextlib.redirect_stderr(io.StringIO()) as error:
                    self.assertEqual(threads.main([*given, "--templates", "c"]), 1)
                self.assertIn("has none of these templates", error.getvalue())
            found = json.loads(record.read_text())["queries"]
            self.assertEqual([(of["query"], of["ratio"], of["possible"]) for of in found], [("a", 2, 2), ("b", 2, 2)])


class Instructions(unittest.TestCase):
    def test_a_count_may_grow_by_two_per_cent(self):
        before = {"a": 1000, "b": 1000, "gone": 5}
        said = instructions.complaints({"a": 1020, "b": 1021, "new": 7}, before)
        self.assertEqual(said, ["b takes 1,021 instructions, 2.1% more than 1,000", "new is not on record",
                                "gone is on record and was not counted"])
        self.assertEqual(instructions.complaints({"a": 900, "b": 1000, "gone": 5}, before), [])

    def test_dumps_are_read_in_the_order_of_time(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out"
            path.write_text("events: Ir\nsummary: 7\ntotals: 7\n")
            self.assertEqual(instructions.dumped(path), [7])
            for number in (1, 2, 10):
                path.with_name(f"out.{number}").write_text(f"summary: {number}\n")
            self.assertEqual(instructions.dumped(path), [1, 2, 10])
            path.with_name("out.3").write_text("")
            with self.assertRaises(processes.Failed):
                instructions.dumped(path)


class Report(unittest.TestCase):
    record = {
        "time": "2026-01-01T00:00:00", "command": ["bench/compare"], "commit": "0123456789abcdef",
        "machine": {"cores": 2, "processor": "A <fast> one", "memory_bytes": 1 << 34, "load_average": 0.1},
        "versions": {"pythia": "pythia 1", "peer": "2"}, "trouble": {"jena": "set-up: no java"},
        "data": {"yago": {"bytes": 10_000_000, "sections": {
            "load": {name: [{"wall_s": wall, "cpu_s": 1.0, "peak_bytes": 1e6, "disk_bytes": 2e6} for wall in (1.0, 3.0, 2.0)]
                     for name in ("pythia", "peer")},
            "patterns": figures({"pythia": {"star": 1000.0, "chain": 500.0}, "peer": {"star": 2500.0}},
                                {"peer": {"chain": "3 rows, not 4"}}),
            "updates": {"kinds": {"INSERT": {"pythia": [1.0, 2.0, 3.0], "peer": [4.0]}}, "failed": {},
                        "syncs": {"pythia": True, "peer": False}},
            "cold": {"pythia": {"a-0": [5.0]}, "peer": {}},
        }}},
    }

    def test_medians_spreads_and_ratios_are_printed(self):
        text = report.comparison(self.record)
        self.assertRegex(text, r"pythia +3 +2\.00 +1\.00 – 3\.00")
        self.assertRegex(text, r"pythia +1 +20\.0 +10\.0 – 30\.0")
        self.assertRegex(text, r"star +1\.00 / 2\.00 +2\.50 / 5\.00 +2\.5")
        self.assertRegex(text, r"chain +0\.500 / 1\.00 +– +–")
        self.assertRegex(text, r"peer +chain +3 rows, not 4")
        self.assertIn("4 different queries; 2 find nothing: star 1, chain 1.", text)
        self.assertRegex(text, r"INSERT +2\.00 +4\.00")
        self.assertIn("Acknowledged before they are on the device: peer.", text)
        self.assertIn("jena: set-up: no java", text)

    def test_the_page_is_whole_and_escaped(self):
        text = page.html(self.record)
        self.assertIn("A &lt;fast&gt; one", text)
        self.assertEqual(text.count("<svg"), text.count("</svg>"))
        self.assertGreater(text.count("<rect"), 10)
        self.assertNotIn("http://www", text.replace("http://www.w3.org", ""))

    def test_tables_are_aligned_and_percentiles_are_ranks(self):
        text = report.table("T", ["name", "n"], [["pear", 3], ["fig", 20]], ["seen"])
        self.assertEqual(text, "T\n  name   n\n  ────  ──\n  pear   3\n  fig   20\n  seen\n")
        values = list(range(1, 101))
        self.assertEqual(report.percentile(values, 0.95), 95)
        self.assertEqual(report.percentile([4], 0.95), 4)


class Operators(unittest.TestCase):
    counts = {"<p>": 12_000, "<q>": 9_000, "<big>": 9_000_000, "<r>": 10}

    def ask(self, query):
        """A store in which <q> leads from the objects and subjects of every predicate, and <r> leads to itself."""
        if query.startswith("SELECT ?p"):
            return [[name, str(count)] for name, count in self.counts.items()]
        if query.startswith("SELECT ?q"):
            return [["<q>", '"8000"^^<http://www.w3.org/2001/XMLSchema#integer>'], ["<r>", "3"]]
        if query.startswith("SELECT ?y"):
            return [["<end>", "2"]] if "<r>" in query else []
        return [['"12 \\"abc\\""@en']]

    def test_queries_are_drawn_for_every_operator(self):
        made = operators.queries(self.ask, seed=1)
        by_operator = {}
        for query in made:
            by_operator.setdefault(query["template"], []).append(query["query"])
        self.assertEqual(tuple(by_operator), operators.OPERATORS)
        self.assertEqual(len({query["id"] for query in made}), len(made))
        self.assertEqual(len({query["query"] for query in made}), len(made))
        self.assertTrue(all(len(texts) <= operators.EACH for texts in by_operator.values()))
        for text in by_operator["scan"]:
            self.assertRegex(text, r'CONTAINS\(STR\(\?o\), "(12|abc)"\)')
        self.assertEqual(by_operator["path"], ["SELECT ?s { ?s <r>+ <end> }"])
        self.assertTrue(all("<q>" in text or "<r>" in text for text in by_operator["join"] + by_operator["optional"]))
        self.assertEqual(made, operators.queries(self.ask, seed=1))
        texts = {query["query"] for seed in range(20) for query in operators.queries(self.ask, seed)}
        self.assertGreater(len(texts), len(made))

    def test_predicates_with_about_the_wanted_number_of_triples_are_preferred(self):
        drawn = operators.Drawn(self.ask, 1)
        sizes = {f"<{number}>": 10 ** number for number in range(9)}
        self.assertEqual({drawn.near(sizes) for _ in range(100)}, {f"<{number}>" for number in (2, 3, 4, 5, 6)})
        self.assertIsNone(drawn.near({}))

    def test_an_operator_without_parameters_has_no_query(self):
        def ask(query):
            return self.ask(query) if query.startswith(("SELECT ?p", "SELECT ?o")) else []
        self.assertEqual({query["template"] for query in operators.queries(ask)}, {"scan", "aggregate", "sort", "distinct"})
        with self.assertRaises(data.Missing):
            operators.queries(lambda query: [])

    def test_medians_and_empty_answers_are_shown(self):
        found = figures({"pythia": {"scan": 1000.0, "sort": 500.0}, "peer": {"scan": 2500.0}}, {"peer": {"sort": "3 rows, not 4"}})
        text = "".join(report.table(*parts) for parts in report.section_tables("bsbm", "operators", found))
        self.assertRegex(text, r"operator +queries +empty +rows +pythia ms +peer ms +peer/pythia")
        self.assertRegex(text, r"scan +2 +1 +2 +1\.00 +2\.50 +2\.5")
        self.assertRegex(text, r"sort +2 +1 +2 +0\.500 +– +–")
        self.assertRegex(text, r"peer +sort +3 rows, not 4")
        self.assertEqual(len(page.plots("operators", found)), 1)


class Experiments(unittest.TestCase):
    def figures(self, name, run):
        record = json.loads((BENCH / "runs" / f"{run}.json").read_text())
        return {of["figure"]: of for of in experiments.EXPERIMENTS[name].figures(record)}

    def test_figures_of_recorded_runs_are_those_of_their_reports(self):
        found = self.figures("operators", "2026-11-30-operators")
        self.assertEqual(found["FlashScan of 4 % of the attributes, all rows"]["ours"], "3.15x")
        self.assertEqual(found["FlashJoin over a hash join of rows, most"]["ours"], "5.27x")
        self.assertEqual(found["its false positives"]["ours"], "0.214 %")
        self.assertAlmostEqual(found["its false positives"]["ratio"], 0.25 / 0.213832)
        self.assertTrue(all(of["kind"] == "measured" and of["ratio"] for of in found.values()))
        found = self.figures("ipl", "2026-12-01-ipl")
        self.assertEqual(found["insertion: % that a log in PCRAM saves, most"]["ours"], "48.9")
        self.assertEqual({of["kind"] for of in found.values()}, {"modelled"})
        found = self.figures("meld", "2026-11-30-meld")
        self.assertEqual(len(found), 4)
        self.assertTrue(all(of["ratio"] > 1 for of in found.values()))
        found = self.figures("ctdb", "2026-11-30-ctdb")
        self.assertEqual(found["load, triples/s"]["ours"], "1,846,642")
        self.assertEqual(found["join2, ms of a query; paper: of a test"]["paper"], "131,273")
        self.assertEqual(len(found), 9)
        found = self.figures("yago", "2026-11-30-yago-modelled")
        self.assertEqual(found["queries/s, 4 clients, on the paper's flash"]["ours"], "10,659")
        self.assertEqual(found["PCM over flash, 4 clients"]["ours"], "1.79x")
        self.assertEqual([of["kind"] for of in found.values()], ["measured"] * 2 + ["modelled"] * 3)
        found = self.figures("search", "2026-11-30-search-1gb")
        self.assertEqual(found["Dijkstra: gain of 32 nodes a batch over 1, on the paper's flash"]["ours"], "5.27x")
        self.assertEqual(self.figures("hops", "2026-11-22-hops")["pages read by a hop"]["ours"], "0.997")

    def test_filters_of_any_size_are_compared_in_the_papers_proportions(self):
        def of(kind, size, false_positives, buffer_bytes=None):
            return {"kind": kind, "filter_bytes": size, "buffer_bytes": buffer_bytes, "build_seconds": 1.0,
                    "probe_seconds": 1.0 if kind == "classic" else 0.0, "false_positives": false_positives, "absent": 1000}
        found = experiments.bloom_filters([of("classic", 512, 2), of("classic", 256, 30), of("buffered", 1024, 9, 64),
                                           of("buffered", 1024, 2, 128)])
        self.assertEqual([(row["ours"], row["ratio"]) for row in found], [("2x", 2.0), ("0.2 %", 1.25), ("15x", 1.5)])
        self.assertEqual(experiments.bloom_filters([]), [])

    def compare_with(self, folder, script, given):
        """Runs bench/compare's experiments with a program that stands for `pythia`. Gives them, the trouble, and the calls."""
        program = Path(folder) / "pythia"
        program.write_text(textwrap.dedent(script))
        program.chmod(0o755)
        chosen = compare.arguments([*given, "--sections", "operators"])
        work, trouble = Path(folder) / "work", {}
        work.mkdir(exist_ok=True)
        progress = compare.Progress(work, {}, again=False)
        with mock.patch.object(engines, "program", lambda: program), contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            found = compare.experiment_all(chosen, work, Path(folder) / "a run", progress, trouble)
        return found, trouble

    def test_records_and_reports_are_kept_beside_the_page_and_linked(self):
        script = """\
            #!/usr/bin/env python3
            import json, os, sys
            given = dict(zip(sys.argv, sys.argv[1:]))
            median = {"hop_ratio": 1.04, "reads_per_hop": 0.99, "frontier_ratio": 0.9}
            records = {"hops": {"median": median}, "ipl": {"stores": []}}
            if sys.argv[2] == "meld":
                sys.exit("no room")
            if "--folder" in given:
                open(given["--folder"] + "/left", "w")
            print("a table < of " + sys.argv[2])
            print("progress", file=sys.stderr)
            open(given["--json"], "w").write(json.dumps(records[sys.argv[2]]))
            if "--report" in given:
                open(given["--report"], "w").write("its own page")
            """
        with tempfile.TemporaryDirectory() as folder:
            given = ["--experiments", "ipl,meld,yago,hops", "--data", "bsbm"]
            found, trouble = self.compare_with(folder, script, given)
            self.assertEqual([of["name"] for of in found], ["ipl", "hops"])
            self.assertIn("no room", trouble["experiments meld"])
            self.assertIn("--records 50000", found[0]["command"])
            self.assertEqual(found[1]["command"], "pythia bench hops -l STORE --cache 4M --rounds 3 --seconds 0.1")
            self.assertEqual(json.loads((Path(folder) / "a run-hops.json").read_text())["median"]["hop_ratio"], 1.04)
            self.assertEqual((Path(folder) / "a run-ipl.html").read_text(), "its own page")
            own = (Path(folder) / "a run-hops.html").read_text()
            self.assertIn("<pre>a table &lt; of hops\n</pre>", own)
            self.assertFalse((Path(folder) / "work" / "experiments" / "scratch").exists())
            record = {**Report.record, "experiments": found}
            self.assertRegex(report.comparison(record), r"hops: pages read by a hop +– +0\.99 +– +measured +a run-hops\.html")
            self.assertIn('<a href="a%20run-hops.html">report</a>', page.html(record))
            # A run that was stopped goes on, and finds what is measured.
            again, _ = self.compare_with(folder, "#!/bin/sh\nexit 1\n", given)
            self.assertEqual(again, found)



    def test_a_full_run_has_the_commands_own_sizes(self):
        experiment = experiments.EXPERIMENTS["meld"]
        self.assertEqual(experiment.arguments(True, "F", None), ["bench", "meld", "--folder", "F"])
        self.assertIn("5000", experiment.arguments(False, "F", None))
        self.assertIsNone(experiments.EXPERIMENTS["yago"].store({"bsbm": "S"}))
        self.assertEqual(experiments.EXPERIMENTS["hops"].store({"bsbm": "S"}), "S")


class Data(unittest.TestCase):
    instance = "<http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/dataFrom{}>"

    def test_instances_are_sampled_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.nt"
            name = self.instance.format("Vendor1/Offer12")
            path.write_text(f"{name} <p> <o> .\n" * 100)
            self.assertEqual(data.sample_instances(path, places=3), {"Offer": [name]})

    def test_a_folder_of_compressed_parts_is_a_data_set(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            names = [self.instance.format(f"Vendor1/Offer{n}") for n in range(2)]
            for number, name in enumerate(names):
                with gzip.open(path / f"part-{number}.nt.gz", "wt") as part:
                    part.write(f"{name} <p> <o> .\n" * 100)
            self.assertEqual([file.name for file in data.files(path)], ["part-0.nt.gz", "part-1.nt.gz"])
            self.assertEqual(data.size(path), sum(file.stat().st_size for file in path.iterdir()))
            self.assertEqual(data.sample_instances(path, places=3), {"Offer": names})
            self.assertEqual(set(data.sample_triples(path, places=3)), {(name, "<p>", "<o>") for name in names})
            data.warm(path)

    def test_points_are_of_triples_of_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.nt"
            path.write_text("".join(f'<http://e/{n}> <http://e/p> "a b {n}"@en .\n' for n in range(1000)))
            made = points.any_queries(path, 300)
        self.assertEqual({query["template"] for query in made}, {"star", "one-hop", "ask"})
        self.assertEqual(len({query["query"] for query in made}), 300)
        asked = next(query["query"] for query in made if query["template"] == "ask")
        self.assertRegex(asked, r'^ASK { <http://e/(\d+)> <http://e/p> "a b \1"@en }$')

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
        for name in ("paths", "closures", "patterns"):
            queries = data.read_queries(data.QUERIES / f"yago-{name}.jsonl")
            self.assertEqual(len({query["id"] for query in queries}), len(queries))
            self.assertTrue(all(sparql_http.query_form(q["query"]) in ("SELECT", "ASK") for q in queries))


class Http(unittest.TestCase):
    def test_queries_are_templates_of_their_own_if_asked(self):
        path = data.REPOSITORY / "testdata" / "corpus" / "shapes.jsonl"
        templates = [query["template"] for query in data.read_queries(path)]
        each = [query["template"] for query in data.read_queries(path, each=True)]
        self.assertEqual(len(set(each)), len(each))
        self.assertLess(len(set(templates)), len(templates))

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
        endpoint = sparql_http.Endpoint(server.server_port, "/q", 5, {"default-graph-uri": "urn:g"}, "/u")
        try:
            self.assertEqual(endpoint.ask("ASK {}").rows, 1)
            with self.assertRaisesRegex(sparql_http.Refused, "400: no such query"):
                endpoint.ask("SELECT nonsense")
            endpoint.ask("ASK {}")
            with self.assertRaisesRegex(sparql_http.Refused, "400: no such query"):
                endpoint.update("INSERT DATA {}")
            self.assertEqual(len(Handler.connections), 1)
            self.assertTrue(endpoint.url.endswith("/q?default-graph-uri=urn%3Ag"))
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
    def refuses(self, *given):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
            compare.arguments(given)
        return said.getvalue()

    def test_arguments_are_checked(self):
        self.assertEqual(command.size("1.5G"), 3 << 29)
        chosen = compare.arguments(["--peers", "pythia,jena", "--endpoint", "bsbm:x=http://h:1/q?a=b"])
        self.assertEqual(chosen.peers, ["pythia", "jena"])
        self.assertEqual(chosen.endpoints, [("bsbm", "x", "http://h:1/q?a=b")])
        self.assertEqual((chosen.loads, chosen.timeout, chosen.datasets), (3, 30, ["bsbm", "yago"]))
        for scale in ("10m", "100m"):
            chosen = compare.arguments(["--scale", scale])
            self.assertEqual((chosen.loads, chosen.timeout), (1, 60))
        self.assertIn("--peers: choose", self.refuses("--peers", "mysql"))
        self.assertIn("DATA:NAME", self.refuses("--endpoint", "x=http://h"))
        self.assertIn("--queries", self.refuses("--data", "x.nt"))
        self.assertIn("--sections: choose", self.refuses("--sections", "all"))
        self.assertIn("--scale is", self.refuses("--scale", "big"))
        self.assertIn("--experiments: choose", self.refuses("--experiments", "tpch"))
        self.assertEqual(compare.arguments(["--experiments", "none"]).experiments, [])
        self.assertEqual(compare.arguments([]).experiments, list(experiments.EXPERIMENTS))

    def test_a_stopped_run_goes_on_unless_something_has_changed(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            first = compare.Progress(Path(folder), {"program": 1}, again=False)
            self.assertEqual(first.step("a", lambda: [1]), [1])
            second = compare.Progress(Path(folder), {"program": 1}, again=False)
            self.assertEqual(second.step("a", lambda: self.fail("measured already")), [1])
            for identity, again in (({"program": 2}, False), ({"program": 1}, True)):
                other = compare.Progress(Path(folder), identity, again)
                self.assertEqual(other.step("a", lambda: 2), 2)
                other.step("b", lambda: None)
                first.step("c", lambda: 3)

    def test_stores_are_kept_as_long_as_they_fit(self):
        def progress(**changed):
            options = {"data": "bsbm", "scale": "1m", "memory": 1, "loads": 1, "seconds": 60}
            versions = {name: changed.pop(name, 1) for name in ("pythia", "jena")}
            identity = {"program": changed.pop("program", 1), "versions": versions, "options": {**options, **changed}}
            return compare.Progress(Path(folder), identity, again=False)

        def measured(run, updates=False, finish=True):
            """Which steps of a run are measured, and not taken from an earlier run."""
            made = []
            for name in ("pythia", "jena"):
                run.step(f"bsbm load 1 {name}", lambda: made.append(name), compare.load_identity(run.identity, name))
            run.step("bsbm bi", lambda: made.append("bi"))
            if updates:
                run.step(f"bsbm {compare.UPDATES_BEGIN}", lambda: None)
            if finish:
                run.keep_stores()
            return made

        everything = ["pythia", "jena", "bi"]
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(measured(progress()), everything)
            self.assertEqual(measured(progress()), ["bi"])
            self.assertEqual(measured(progress(seconds=5)), ["bi"])
            self.assertEqual(measured(progress(program=2)), ["pythia", "bi"])
            self.assertEqual(measured(progress(program=2, jena=2)), ["jena", "bi"])
            self.assertEqual(measured(progress(memory=2)), everything)
            self.assertEqual(measured(progress(memory=2), updates=True), ["bi"])
            self.assertEqual(measured(progress(memory=2), updates=True, finish=False), everything)
            self.assertEqual(measured(progress(memory=2), updates=True, finish=False), [])
            self.assertEqual(measured(progress(memory=2, seconds=5)), everything)

    def test_a_load_that_is_stopped_leaves_no_store(self):
        def stop():
            raise KeyboardInterrupt
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            compare.Progress(Path(folder), {}, again=False).step("bsbm load 1 jena", lambda: 1, {"version": 1})
            with self.assertRaises(KeyboardInterrupt):
                compare.Progress(Path(folder), {}, again=False).step("bsbm load 1 jena", stop, {"version": 2})
            again = compare.Progress(Path(folder), {}, again=False)
            self.assertEqual(again.step("bsbm load 1 jena", lambda: 3, {"version": 1}), 3)


def state(pid):
    """The process's state letter, or None if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


if __name__ == "__main__":
    unittest.main()
