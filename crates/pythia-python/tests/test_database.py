"""Databases: open, load, query, change, close."""

import gc
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pythiadb
from pythiadb import BlankNode, Database, DefaultGraph, Literal, NamedNode, Quad, Triple, Variable

EX = "http://ex.org/"
A, B, C, P, G = (NamedNode(EX + name) for name in "abcpg")
TURTLE = b"@prefix ex: <http://ex.org/> . ex:a ex:p ex:b . ex:b ex:p ex:c , 'x'@en , 5 ."


def loaded():
    database = Database.in_memory()
    database.load(TURTLE)
    return database


class Opening(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "store"

    def test_a_store_is_made_opened_and_read_by_others(self):
        with Database.create(self.path) as database:
            self.assertEqual((len(database), database.path, database.read_only), (0, self.path, False))
            database.load(TURTLE)
            with self.assertRaises(pythiadb.LockedError):
                Database.open(self.path)
        self.assertTrue(database.closed)
        with Database.open(self.path, read_only=True) as one, Database.open(self.path, read_only=True) as two:
            self.assertEqual((len(one), len(two)), (4, 4))
            with self.assertRaises(pythiadb.ReadOnlyError) as refused:
                one.update("INSERT DATA { <http://a> <http://b> 1 }")
            self.assertIn("read_only=False", str(refused.exception))
            with self.assertRaises(pythiadb.ReadOnlyError):
                one.load(TURTLE)
        self.assertEqual(pythiadb.verify(self.path), [])

    def test_what_is_no_store_is_refused(self):
        for path in (self.path, Path(__file__)):
            with self.assertRaises(pythiadb.NotAStoreError):
                Database.open(path)
        self.path.mkdir()
        (self.path / "other").write_text("x")
        with self.assertRaises(pythiadb.PythiaError):
            Database.create(self.path)
        with self.assertRaises(ValueError):
            Database.in_memory(cache="much")

    def test_commits_survive_and_can_be_read_in_order(self):
        with Database.create(self.path) as database:
            first = database.update("INSERT DATA { <http://a> <http://b> 1 }", key="k")
            again = database.update("INSERT DATA { <http://a> <http://b> 1 }", key="k")
            self.assertEqual((first.position, first.added), (again.position, 1))
            database.update("DELETE WHERE { ?s ?p 1 }")
        with Database.open(self.path) as database:
            commits = list(database.subscribe())
            self.assertEqual([commit.key for commit in commits], ["k", None])
            self.assertEqual((len(commits[0].added), len(commits[1].removed)), (1, 1))
            self.assertLess(abs(commits[0].time.timestamp() - time.time()), 60)
            self.assertEqual(list(database.subscribe(commits[-1].position + 1)), [])

    def test_backups_and_dumps(self):
        with Database.create(self.path) as database:
            database.load(TURTLE)
            database.backup(self.path.with_name("backup"))
            self.assertEqual(len(database.dump().splitlines()), 4)
            database.dump(self.path.with_name("out.ttl"))
            self.assertIn("<http://ex.org/a>", self.path.with_name("out.ttl").read_text())
            with self.assertRaises(ValueError):
                database.dump(self.path.with_name("out.csv"))
            database.compact()
            database.optimize(degrees=True)
            database.optimize(degrees=True, drop=True)

    def test_ten_thousand_rounds_do_not_leak(self):
        with Database.create(self.path) as database:
            database.load(TURTLE)

        def memory():
            gc.collect()
            with open("/proc/self/statm") as figures:
                return int(figures.read().split()[1]) * 4096

        def rounds(count):
            for _ in range(count):
                with Database.open(self.path, read_only=True, cache="1M", memory="1M") as database:
                    next(database.query("SELECT * { ?s ?p ?o }"))

        # The small number of rounds here is for the usual run of the tests.
        count = int(os.environ.get("PYTHIA_LEAK_ROUNDS", "300"))
        rounds(count // 3)
        before = memory()
        rounds(count)
        self.assertLess(memory() - before, 8 << 20)


class Queries(unittest.TestCase):
    def test_rows_by_name_and_place(self):
        solutions = loaded().query("SELECT ?s ?o ?none { ?s ex:p ?o OPTIONAL { ?o ex:q ?none } }".replace("ex:", "ex:").join(
            ["PREFIX ex: <http://ex.org/> ", " ORDER BY ?s ?o"]))
        self.assertEqual(solutions.columns, ["s", "o", "none"])
        self.assertEqual(solutions.variables, [Variable("s"), Variable("o"), Variable("none")])
        row = solutions.fetchone()
        self.assertEqual((row["s"], row[0], row[-2], row.o, row[Variable("s")], row["?s"]), (A, A, B, B, A, A))
        self.assertIsNone(row["none"])
        self.assertEqual(row.asdict(), {"s": A, "o": B})
        self.assertEqual((row.get("none", 1), row.get("other", 2), len(row), list(row)), (1, 2, 3, [A, B, None]))
        for key, error in (("other", KeyError), (3, IndexError), (1.5, TypeError)):
            with self.assertRaises(error):
                row[key]
        with self.assertRaises(AttributeError):
            row.other
        self.assertEqual(len(solutions.fetchmany(2)), 2)
        self.assertEqual(len(solutions.fetchall()), 1)
        self.assertIsNone(solutions.fetchone())
        self.assertEqual(list(solutions), [])

    def test_native_values(self):
        database = Database.in_memory()
        values = [1, 10**30, True, 1.5, Decimal("1.50"), date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 600, timezone.utc), "x"]
        with database.transaction() as transaction:
            transaction.extend((A, P, value) for value in values)
        found = [row.o for row in database.query("SELECT ?o { ?s ?p ?o }", native=True)]
        self.assertCountEqual([(type(value), value) for value in found], [(type(value), value) for value in values])
        database.update("INSERT DATA { <http://a> <http://b> 'x'@en, '-44-01-01'^^<http://www.w3.org/2001/XMLSchema#date> }")
        rest = [row.o for row in database.query("SELECT ?o { <http://a> ?p ?o }", native=True)]
        self.assertTrue(all(isinstance(value, Literal) for value in rest))

    def test_bindings_are_terms(self):
        database = loaded()
        text = "SELECT ?o { ?s <http://ex.org/p> ?o }"
        self.assertEqual([row.o for row in database.query(text, {"s": A})], [B])
        self.assertEqual([row.o for row in database.query(text, {Variable("s"): A, "?o": B})], [B])
        self.assertEqual(list(database.query(text, {"s": B, "o": "> } DROP ALL"})), [])
        self.assertTrue(database.query("ASK { ?s ?p ?x }", {"x": 5}))
        for bindings, error in (({"s": 5}, pythiadb.QueryError), ({"s": Triple(A, P, B)}, pythiadb.QueryError), ({"s": object()}, TypeError), ({"s s": A}, ValueError)):
            with self.assertRaises(error):
                database.query(text, bindings)

    def test_blank_nodes_are_addressed(self):
        database = Database.in_memory()
        node, other = BlankNode("n"), BlankNode("o")
        database.load([Quad(node, P, "x"), Quad(other, P, "y"), Quad(A, P, node, node), Quad(A, P, "d")])
        text = "SELECT ?s ?o { ?s <http://ex.org/p> ?o }"
        rows = list(database.query(text, {"s": node}))
        self.assertEqual([(row.s, row.o) for row in rows], [(node, Literal("x"))])
        self.assertTrue(database.query("ASK { GRAPH ?g { ?s ?p ?g } }", {"g": node}))
        self.assertTrue(database.query("ASK { ?s ?p 'y' FILTER(?s = ?x && isBlank(?x)) }", {"x": other}))
        self.assertFalse(database.query("ASK { ?x ?p ?o }", {"x": BlankNode("none")}))
        found = database.query("SELECT ?x { FILTER(!isIRI(?x)) }", {"x": BlankNode("none")}).fetchone()
        self.assertEqual(found.x, BlankNode("none"))

    def test_datasets(self):
        database = Database.in_memory()
        node = BlankNode("n")
        database.load([(A, P, 1), (A, P, 2, G), (A, P, 3, node), (A, P, 4, B)])
        found = lambda text="SELECT ?o { ?s ?p ?o }", **dataset: sorted(
            row.o for row in database.query(text, native=True, **dataset))
        self.assertEqual(found(), [1])
        self.assertEqual(found(default_graphs=[G]), [2])
        self.assertEqual(found(default_graphs=[DefaultGraph(), G, node]), [1, 2, 3])
        self.assertEqual(found("SELECT ?o { GRAPH ?g { ?s ?p ?o } }", named_graphs=[G, node]), [2, 3])
        self.assertEqual(found(union_default_graph=True), [1, 2, 3, 4])
        with self.assertRaises(ValueError):
            found(default_graphs=["no iri"])

    def test_functions_of_python_are_called(self):
        database = loaded()
        functions = {
            NamedNode(EX + "double"): lambda term: Literal(int(term.value) * 2),
            EX + "fails": lambda term: 1 / 0,
            EX + "nothing": lambda: None,
        }
        text = ("PREFIX ex: <http://ex.org/> SELECT (ex:double(?o) AS ?d) (ex:fails(?o) AS ?f) (ex:nothing() AS ?n) "
                "{ ?s ?p ?o FILTER(isNumeric(?o)) }")
        row = database.query(text, functions=functions).fetchone()
        self.assertEqual((row.d, row.f, row.n), (Literal(10), None, None))
        with self.assertRaises(ValueError):
            database.query("ASK {}", functions={"no iri": len})

    def test_a_query_is_stopped_by_another_thread(self):
        database = Database.in_memory()
        with database.transaction() as transaction:
            transaction.extend((NamedNode(f"http://{n}"), P, n) for n in range(300))
        endless = "SELECT * {" + " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(20)) + " FILTER(?c1 + ?c2 + ?c3 < 0) }"
        solutions = database.query(endless)
        threading.Timer(0.2, solutions.cancel).start()
        with self.assertRaises(pythiadb.CancelledError):
            solutions.fetchone()

    def test_other_forms(self):
        database = loaded()
        triples = database.query("CONSTRUCT { ?o ?p ?s } { ?s ?p ?o FILTER(isIRI(?o)) }")
        self.assertEqual(set(triples), {Triple(B, P, A), Triple(C, P, B)})
        self.assertIs(database.query("ASK { ?s ?p 6 }"), False)
        plan = database.explain("SELECT * { ?s ?p ?o }", analyze=True)
        self.assertIn("Pattern", plan)
        self.assertTrue(database.explain("SELECT * { ?s ?p ?o }", json=True).startswith("{"))

    def test_results_are_written(self):
        database = loaded()
        text = "SELECT ?s { ?s ?p 5 }"
        self.assertEqual(database.query(text).write(format="csv"), b"s\r\nhttp://ex.org/b\r\n")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            database.query(text).write(path)
            self.assertIn("http://ex.org/b", path.read_text())
        file = io.BytesIO()
        database.query("CONSTRUCT WHERE { ?s ?p 5 }").write(file, "nt")
        self.assertIn(b"<http://ex.org/b>", file.getvalue())
        with self.assertRaises(ValueError):
            database.query(text).write(format="docx")

        class Full:
            def write(self, data):
                raise OSError("full")

        with self.assertRaisesRegex(OSError, "full"):
            database.query(text).write(Full(), "csv")

    def test_errors_say_where(self):
        database = loaded()
        with self.assertRaises(pythiadb.QuerySyntaxError) as wrong:
            database.query("SELECT *\n{ ?s ?p oops }")
        error = wrong.exception
        self.assertEqual((error.lineno, error.offset, error.text), (2, 9, "{ ?s ?p oops }"))
        self.assertIsInstance(error, SyntaxError)
        endless = "SELECT (COUNT(*) AS ?n) {" + " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(20)) + "}"
        with self.assertRaises(pythiadb.TimeoutError):
            list(database.query(endless, timeout=0.05))
        with self.assertRaises(pythiadb.LimitError):
            list(database.query("SELECT * { ?s ?p ?o }", max_rows=1))
        with self.assertRaises(TypeError):
            database.query("ASK {}", oops=1)

    @unittest.skipIf(os.name == "nt", "signals")
    def test_ctrl_c_stops_a_query(self):
        program = """
import os, signal, threading, time
from pythiadb import Database
database = Database.in_memory()
with database.transaction() as t:
    from pythiadb import NamedNode
    t.extend((NamedNode(f'http://{n}'), NamedNode('http://p'), n) for n in range(300))
endless = "SELECT (COUNT(*) AS ?n) {" + " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(20)) + "}"
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begun = time.time()
try:
    list(database.query(endless))
except KeyboardInterrupt:
    print("stopped", time.time() - begun < 5, database.query("ASK {}"))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "stopped True True\n", done.stderr)

    def test_threads_query_at_once(self):
        database = loaded()
        found = []

        def work():
            for _ in range(50):
                found.append(len(database.query("SELECT * { ?s ?p ?o }").fetchall()))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [4] * 200)


class Closed(unittest.TestCase):
    def test_nothing_of_a_closed_database_is_used(self):
        database = loaded()
        solutions, quads = database.query("SELECT * { ?s ?p ?o }"), database.quads()
        transaction = database.transaction()
        next(solutions), next(quads)
        database.close()
        database.close()
        uses = [
            lambda: next(solutions),
            lambda: solutions.fetchall(),
            lambda: next(quads),
            lambda: transaction.add((A, P, B)),
            lambda: transaction.commit(),
            lambda: database.query("ASK {}"),
            lambda: len(database),
            lambda: database.transaction(),
            lambda: (A, P, B) in database,
        ]
        for use in uses:
            with self.assertRaises(pythiadb.ClosedError):
                use()

    def test_ended_results_and_transactions(self):
        database = loaded()
        with database.query("SELECT * { ?s ?p ?o }") as solutions:
            next(solutions)
        self.assertEqual(list(solutions), [])
        with self.assertRaises(pythiadb.ClosedError):
            solutions.write(format="csv")
        transaction = database.transaction()
        transaction.rollback()
        with self.assertRaises(pythiadb.ClosedError):
            transaction.add((A, P, B))

    @unittest.skipUnless(hasattr(os, "fork"), "fork")
    def test_a_forked_process_is_told_to_open_it_again(self):
        database = loaded()
        child = os.fork()
        if child == 0:
            try:
                database.query("ASK {}")
                os._exit(1)
            except pythiadb.ClosedError:
                os._exit(0)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_a_database_is_not_pickled(self):
        with self.assertRaisesRegex(TypeError, "open it in the other process"):
            pickle.dumps(loaded())


class Loading(unittest.TestCase):
    def test_formats_are_guessed(self):
        line = b"<http://ex.org/a> <http://ex.org/p> <http://ex.org/b> ."
        xml = (b"<?xml version='1.0'?><rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://ex.org/'>"
               b"<rdf:Description rdf:about='http://ex.org/a'><e:p rdf:resource='http://ex.org/b'/></rdf:Description></rdf:RDF>")
        json = b'{"@id": "http://ex.org/a", "http://ex.org/p": {"@id": "http://ex.org/b"}}'
        turtle = b"@prefix e: <http://ex.org/> .\ne:a e:p e:b ."
        trig = b"GRAPH <http://g> { }\n { <http://ex.org/a> <http://ex.org/p> <http://ex.org/b> }"
        several = b"<http://ex.org/a>\n  <http://ex.org/p> <http://ex.org/b> ."
        for data in (line, xml, json, turtle, trig, several, line + b"\n" + line):
            with self.subTest(data=data):
                database = Database.in_memory()
                database.load(data)
                self.assertEqual(list(database), [Quad(A, P, B)])

    def test_sources(self):
        import gzip

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.ttl.gz"
            path.write_bytes(gzip.compress(TURTLE))
            other = Path(folder) / "b.nt"
            other.write_text("_:x <http://ex.org/p> \"y\" .\n")
            with open(path, "rb") as file:
                for source in (path, str(path), file, io.BytesIO(TURTLE), io.StringIO(TURTLE.decode())):
                    self.assertEqual(Database.in_memory().load(source).quads, 4)
            self.assertEqual(Database.in_memory().load([path, other]).quads, 5)
            database = Database.in_memory()
            database.load(path, graph=G)
            self.assertEqual(database.graphs(), [G])
            told = []
            database.load(other, progress=lambda *progress: told.append(progress))
            again = database.load(path, graph=G)
            self.assertEqual((again.quads, again.known_quads), (0, 4))

    def test_blank_nodes_of_loads_are_new(self):
        database = Database.in_memory()
        for text in ("1", "2"):
            database.load(f'_:x <http://ex.org/p> "{text}" .'.encode(), format="nt")
        self.assertEqual(len({quad.subject for quad in database}), 2)

    def test_load_reads_what_is_allowed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.ttl"
            path.write_bytes(TURTLE)
            text = f"LOAD <{path.as_uri()}>"
            for allowed in ({}, {"load_folder": Path(__file__).parent}, {"load_http": True}):
                with self.assertRaises(pythiadb.QueryError):
                    Database.in_memory().update(text, **allowed)
            self.assertEqual(Database.in_memory().update(text, load_folder=folder).added, 4)

    def test_quads_of_iterables_and_tables(self):
        database = Database.in_memory()
        report = database.load([(A, P, 1), (A, P, 1), Quad(A, P, B, G), Triple(B, P, C)])
        self.assertEqual((report.quads, report.known_quads), (3, 1))
        self.assertEqual(database.load(((A, P, n) for n in range(3)), graph=G).quads, 3)

        class Table:
            columns = ["subject", "predicate", "object"]

            def to_pydict(self):
                return {"subject": ["http://ex.org/a", "_:x"], "predicate": ["http://ex.org/p"] * 2, "object": ["<http://o>", 7]}

            def to_dict(self):
                return self.to_pydict()

        database = Database.in_memory()
        database.load(Table())
        self.assertEqual({quad.object for quad in database}, {NamedNode("http://o"), Literal(7)})

    def test_errors_name_file_line_and_column(self):
        database = Database.in_memory()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.ttl"
            path.write_bytes(TURTLE + b"\nex:a oops .")
            with self.assertRaises(pythiadb.ParseError) as wrong:
                database.load(path)
            self.assertEqual((wrong.exception.filename, wrong.exception.lineno), (str(path), 2))
            with self.assertRaises(FileNotFoundError):
                database.load(path.with_name("missing.ttl"))
            strange = path.with_name("a.xyz")
            strange.write_bytes(TURTLE)
            with self.assertRaisesRegex(pythiadb.LoadError, "format="):
                database.load(strange)
        self.assertEqual(len(database), 0)
        report = database.load(b"<http://a> <http://b> 1 .\noops\n", format="ttl", lenient=True)
        self.assertGreaterEqual(report.skipped, 1)
        for source, error in ((5, TypeError), ([5], TypeError), ([("a", P, 1)], TypeError), (TURTLE, ValueError)):
            with self.assertRaises(error):
                database.load(source, format="xyz" if source is TURTLE else None)

        class Broken:
            def read(self, size):
                raise RuntimeError("broken")

        with self.assertRaisesRegex(RuntimeError, "broken"):
            database.load(Broken(), format="nt")


class Changing(unittest.TestCase):
    def test_transactions(self):
        database = loaded()
        with database.transaction() as transaction:
            self.assertTrue(transaction.add((A, P, 6)))
            self.assertFalse(transaction.add(Quad(A, P, Literal(6))))
            self.assertIn((A, P, 6), transaction)
            self.assertNotIn((A, P, 6), database)
            self.assertEqual(transaction.update("DELETE WHERE { ?s ?p 5 }").removed, 1)
            self.assertFalse(transaction.query("ASK { ?s ?p 5 }"))
            self.assertEqual(len(list(transaction.quads(A))), 2)
            self.assertEqual(transaction.remove_all([(A, P, B), (A, P, 99)]), 1)
        self.assertEqual(len(database), 3)
        with self.assertRaises(ZeroDivisionError):
            with database.transaction() as transaction:
                transaction.add((A, P, 7))
                1 / 0
        self.assertNotIn((A, P, 7), database)

    def test_conflicts_are_told_to_retry(self):
        database = loaded()
        one, two = database.transaction(), database.transaction()
        one.add((A, P, 1)), two.add((A, P, 1))
        self.assertEqual(one.commit().added, 1)
        with self.assertRaises(pythiadb.ConflictError):
            two.commit()

    def test_quads_of_patterns(self):
        database = loaded()
        node = BlankNode("n")
        database.load([Quad(node, P, "z", G), Quad(A, P, "z", node)])
        count = lambda *pattern, **named: len(list(database.quads(*pattern, **named)))
        self.assertEqual([count(), count(A), count(None, P), count(None, None, "z"), count(graph_name=G)], [6, 2, 6, 2, 1])
        self.assertEqual([count(graph_name=DefaultGraph()), count(node), count(NamedNode("http://no"))], [4, 1, 0])
        self.assertEqual(set(database.graphs()), {G, node})
        self.assertEqual(list(database.quads(node))[0], Quad(node, P, Literal("z"), G))

    def test_stats(self):
        stats = loaded().stats
        self.assertEqual((stats["quads"], stats["predicates"][P], stats["named_graphs"]), (4, 4, 0))


class Paths(unittest.TestCase):
    def test_paths_are_objects(self):
        database = loaded()
        [path] = database.paths(A, C)
        self.assertEqual((path.nodes, len(path), path.cost, path.start, path.end), ([A, B, C], 2, 2.0, A, C))
        self.assertEqual(path.triples, [Triple(A, P, B), Triple(B, P, C)])
        self.assertEqual(repr(path), "<Path a ─p→ b ─p→ c>")
        [back] = database.paths(C, A, via="(^ex:p)+", prefixes={"ex": EX})
        self.assertTrue(all(edge.inverse for edge in back.edges))
        self.assertEqual(len(list(database.paths(A, via=P, mode="all", restrictor="acyclic", max_length=1))), 1)
        self.assertEqual(len(list(database.paths(A, C, k=3, restrictor="simple"))), 1)
        for options in ({"mode": "best"}, {"restrictor": "odd"}, {"k": 2, "mode": "all"}):
            with self.assertRaises(ValueError):
                database.paths(A, C, **options)
        with self.assertRaises(TypeError):
            database.paths("x", C)


if __name__ == "__main__":
    unittest.main()
