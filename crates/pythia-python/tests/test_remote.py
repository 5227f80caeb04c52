"""Databases on a server: what they share with those of this process, and what is their own."""

import bz2
import gc
import gzip
import http.server
import io
import os
import pickle
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path

import pythiadb
from pythiadb import BlankNode, Database, DefaultGraph, Literal, NamedNode, Quad, Triple, Variable
from pythiadb.bindings import bind
from server import Server

EX = "http://ex.org/"
A, B, C, P, Q, G = (NamedNode(EX + name) for name in "abcpqg")
TURTLE = (
    b"@prefix ex: <http://ex.org/> . ex:a ex:p ex:b . ex:b ex:p ex:c , 'x\\ty\\n\"\\\\\\r\\u00e9'@en , 5 , 1.5 , 1e0 , true ; "
    b"ex:q '5'^^ex:t , 'a'@en--ltr ."
)
# Computing its answer takes longer than any test.
ENDLESS = "SELECT (COUNT(*) AS ?n) {" + " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(20)) + "}"


def setUpModule():
    global SERVER
    SERVER = Server()


def tearDownModule():
    SERVER.stop()


class Both:
    """What holds for both kinds of databases."""

    def setUp(self):
        self.db = self.opened()
        self.addCleanup(self.db.close)
        self.db.update("DROP ALL")
        self.db.load(TURTLE, format="ttl")

    def test_rows(self):
        found = self.db.query("SELECT ?s ?o ?none { ?s <http://ex.org/p> ?o OPTIONAL { ?o <http://no> ?none } } ORDER BY ?s ?o")
        self.assertEqual(found.columns, ["s", "o", "none"])
        self.assertEqual(found.variables, [Variable("s"), Variable("o"), Variable("none")])
        row = found.fetchone()
        self.assertEqual((row["s"], row[0], row[-2], row.o, row[Variable("s")], row["?s"]), (A, A, B, B, A, A))
        self.assertEqual((row["none"], row.asdict()), (None, {"s": A, "o": B}))
        self.assertEqual((row.get("none", 1), row.get("other", 2), len(row), list(row)), (1, 2, 3, [A, B, None]))
        self.assertEqual((row.keys(), row.values()), (["s", "o", "none"], (A, B, None)))
        for key, error in (("other", KeyError), (3, IndexError), (1.5, TypeError)):
            with self.assertRaises(error):
                row[key]
        with self.assertRaises(AttributeError):
            row.other
        self.assertEqual((len(found.fetchmany(2)), len(found.fetchall()), found.fetchone(), list(found)), (2, 4, None, []))

    def test_every_kind_of_term_comes_as_it_is(self):
        objects = {row.o for row in self.db.query("SELECT ?o { <http://ex.org/b> ?p ?o }")}
        xsd = "http://www.w3.org/2001/XMLSchema#"
        literals = [Literal('x\ty\n"\\\ré', language="en"), Literal("a", language="en", direction=pythiadb.BaseDirection.LTR)]
        typed = [("5", "integer"), ("1.5", "decimal"), ("1e0", "double"), ("true", "boolean")]
        literals += [Literal(value, datatype=NamedNode(xsd + name)) for value, name in typed]
        self.assertEqual(objects, {C, *literals, Literal("5", datatype=NamedNode(EX + "t"))})
        [row] = self.db.query("SELECT ?t { BIND(<<( <http://a> <http://b> 5 )>> AS ?t) }")
        self.assertEqual(row.t, Triple(NamedNode("http://a"), NamedNode("http://b"), 5))
        [row] = self.db.query("SELECT * {}")
        self.assertEqual(len(row), 0)
        [row] = self.db.query("SELECT ?x { BIND('a\tb' AS ?x) }")
        self.assertEqual(row.x, Literal("a\tb"))

    def test_native_values(self):
        text = "SELECT ?o { <http://ex.org/b> <http://ex.org/p> ?o FILTER(isNumeric(?o) || ?o = true) }"
        found = {row.o for row in self.db.query(text, native=True)}
        self.assertEqual(found, {5, 1.5, 1.0, True})

    def test_bindings(self):
        text = "SELECT ?s ?o { ?s <http://ex.org/p> ?o }"
        self.assertEqual([row.o for row in self.db.query(text, {"s": A})], [B])
        self.assertEqual([row.s for row in self.db.query(text, {Variable("s"): A, "?o": B, "unused": 1})], [A])
        self.assertEqual(list(self.db.query(text, {"s": B, "o": "> } DROP ALL"})), [])
        self.assertTrue(self.db.query("ASK { ?s ?p ?x }", {"x": 5}))
        [count] = self.db.query("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", {"s": A}, native=True)
        self.assertEqual(count.n, 1)
        self.assertEqual(list(self.db.query("CONSTRUCT { ?s ?p ?s } WHERE { ?s ?p ?o }", {"s": A})), [Triple(A, P, A)])
        self.assertEqual(list(self.db.query("CONSTRUCT WHERE { ?s ?p ?o }", {"s": A})), [Triple(A, P, B)])
        for bindings, error in (({"s": object()}, TypeError), ({"s s": A}, ValueError)):
            with self.assertRaises(error):
                self.db.query(text, bindings)
        # Over HTTP, SPARQL's text has no name for a blank node of the store.
        if isinstance(self.db, pythiadb.RemoteDatabase):
            with self.assertRaises(pythiadb.QueryError):
                self.db.query(text, {"s": BlankNode("x")})
        else:
            self.assertEqual(list(self.db.query(text, {"s": BlankNode("x")})), [])

    def test_other_forms(self):
        self.assertIs(self.db.query("ASK { ?s ?p 6 }"), False)
        self.assertEqual(set(self.db.query("CONSTRUCT { ?o ?p ?s } { ?s ?p ?o FILTER(isIRI(?o)) }")), {Triple(B, P, A), Triple(C, P, B)})
        self.assertEqual(self.db.query("CONSTRUCT WHERE { ?s ?p 5 }").fetchall(), [Triple(B, P, 5)])
        self.assertIn("Pattern", self.db.explain("SELECT * { ?s ?p ?o }", analyze=True))
        self.assertTrue(self.db.explain("SELECT * { ?s ?p ?o }", json=True).startswith("{"))

    def test_results_are_written(self):
        text = "SELECT ?s { ?s ?p 5 }"
        self.assertEqual(self.db.query(text).write(format="csv"), b"s\r\nhttp://ex.org/b\r\n")
        file = io.BytesIO()
        self.db.query("CONSTRUCT WHERE { ?s ?p 5 }").write(file, "nt")
        self.assertIn(b"<http://ex.org/b>", file.getvalue())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            self.db.query(text).write(path)
            self.assertIn("http://ex.org/b", path.read_text())
        with self.assertRaises(ValueError):
            self.db.query(text).write(format="docx")
        begun = self.db.query(text)
        next(begun)
        with self.assertRaises(pythiadb.PythiaError):
            begun.write(format="csv")

    def test_arrow(self):
        try:
            import pyarrow
        except ImportError:
            self.skipTest("pyarrow is missing")
        found = self.db.query("SELECT ?o { ?s ?p ?o FILTER(?o = 5) }")
        self.assertEqual(pyarrow.table(found).to_pydict(), {"o": [5]})

    def test_errors_say_where(self):
        for bindings in (None, {"s": A}):
            with self.assertRaises(pythiadb.QuerySyntaxError) as wrong:
                self.db.query("SELECT *\n{ ?s ?p oops }", bindings)
            error = wrong.exception
            self.assertEqual((error.lineno, error.offset, error.text), (2, 9, "{ ?s ?p oops }"))
        with self.assertRaises(pythiadb.QuerySyntaxError):
            self.db.update("INSERT DATA { oops }")
        with self.assertRaises(pythiadb.TimeoutError):
            list(self.db.query(ENDLESS, timeout=0.05))
        with self.assertRaises(pythiadb.LimitError):
            list(self.db.query("SELECT * { ?s ?p ?o }", max_rows=1))
        with self.assertRaises(TypeError):
            self.db.query("ASK {}", oops=1)

    def test_updates(self):
        changes = self.db.update("INSERT DATA { <http://a> <http://b> 1 GRAPH <http://ex.org/g> { <http://a> <http://b> 2 } }")
        self.assertEqual((changes.added, changes.removed), (2, 0))
        self.assertEqual(self.db.update("DELETE WHERE { <http://a> ?p 1 }").removed, 1)
        self.assertIsNone(self.db.update("DELETE WHERE { <http://a> ?p 1 }").position)
        key = f"key {time.time_ns()}"
        first, again = (self.db.update("INSERT DATA { <http://a> <http://b> 3 }", key=key) for _ in range(2))
        self.assertEqual(first.position, again.position)

    def test_loads(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("a.ttl.gz", "b.nt.bz2", "c.nq")]
            paths[0].write_bytes(gzip.compress(b"<http://l> <http://l> 1 ."))
            paths[1].write_bytes(bz2.compress(b'<http://l> <http://l> "2" .\n') * 2)
            paths[2].write_text("<http://l> <http://l> <http://c> <http://ex.org/g> .\n")
            self.db.load(paths)
        with io.BytesIO(b"<http://l> <http://l> 'file' .") as file:
            self.db.load(file, format="ttl")
            self.assertFalse(file.closed)
        self.db.load(io.StringIO('<http://l> <http://l> "text é" .'), graph=G)
        self.db.load(((NamedNode("http://l"), P, number) for number in range(9000)), graph=G)
        self.db.load([(A, Q, 1), Quad(A, Q, B, G), Triple(B, Q, C)])
        self.db.load(b"<x> <y> <z> .", format="ttl", base="http://base/")
        count = lambda *pattern, **named: len(list(self.db.quads(*pattern, **named)))
        self.assertEqual((count(NamedNode("http://l")), count(NamedNode("http://l"), P)), (9005, 9000))
        self.assertEqual((count(None, Q), count(graph_name=G), count(NamedNode("http://base/x"))), (5, 9003, 1))
        self.assertIn((A, Q, 1), self.db)
        self.assertIn((A, Q, B, G), self.db)
        self.assertNotIn((A, Q, B), self.db)

    def test_data_with_errors_changes_nothing(self):
        before = len(self.db)
        with self.assertRaises(pythiadb.ParseError) as wrong:
            self.db.load(b"<http://a> <http://b> 1 .\n<http://a> oops 2 .", format="ttl")
        self.assertEqual(wrong.exception.lineno, 2)
        for source, error in ((5, TypeError), ([5], TypeError), ([("a", P, 1)], TypeError), ("missing.ttl", FileNotFoundError)):
            with self.assertRaises(error):
                self.db.load(source)
        with self.assertRaises(ValueError):
            self.db.load(TURTLE, format="xyz")

        def broken():
            yield (A, Q, 77)
            raise OSError("broken")

        with self.assertRaisesRegex(OSError, "broken"):
            self.db.load(broken())
        self.assertEqual(len(self.db), before)

    def test_quads_of_patterns(self):
        self.db.update("DROP ALL")
        self.db.load(TURTLE, format="ttl")
        node = BlankNode("n")
        self.db.load([Quad(node, P, "z", G), Quad(node, P, node), Quad(A, P, "z", node)])
        count = lambda *pattern, **named: len(list(self.db.quads(*pattern, **named)))
        self.assertEqual([count(), count(A), count(None, P), count(None, None, "z")], [12, 2, 10, 2])
        self.assertEqual([count(graph_name=G), count(graph_name=DefaultGraph()), count(NamedNode("http://no"))], [1, 10, 0])
        [own] = self.db.quads(None, None, "z", G)
        stored = own.subject
        self.assertEqual((count(stored), count(stored, P, stored), count(None, None, None, stored)), (2, 1, 1))
        self.assertIn(own, self.db)
        self.assertEqual((len(self.db), len(list(self.db))), (12, 12))
        self.assertEqual(len(self.db.graphs()), 2)
        self.assertIn(G, self.db.graphs())
        self.assertEqual(list(self.db.quads(5)), [])

    def test_dumps(self):
        self.db.load([Quad(A, P, B, G)])
        self.assertEqual(len(self.db.dump().splitlines()), 10)
        self.assertEqual(self.db.dump(format="nt", graph=G), b"<http://ex.org/a> <http://ex.org/p> <http://ex.org/b> .\n")
        self.assertEqual(self.db.dump(format="nt", graph=NamedNode("http://no")), b"")
        with tempfile.TemporaryDirectory() as folder:
            self.db.dump(Path(folder) / "out.trig")
            self.assertIn("<http://ex.org/g>", (Path(folder) / "out.trig").read_text())
            with self.assertRaises(ValueError):
                self.db.dump(Path(folder) / "out.csv")

    def test_stats(self):
        stats = self.db.stats
        self.assertEqual((stats["quads"], stats["predicates"][P], stats["named_graphs"]), (9, 7, 0))

    def test_paths(self):
        [path] = self.db.paths(A, C)
        self.assertEqual((path.nodes, path.cost, repr(path)), ([A, B, C], 2.0, "<Path a ─p→ b ─p→ c>"))

    def test_union_of_graphs(self):
        self.db.load([Quad(A, P, B, G), Quad(A, P, C, G)])
        text = "SELECT ?o { <http://ex.org/a> ?p ?o }"
        self.assertEqual({row.o for row in self.db.query(text, union_default_graph=True)}, {B, C})
        self.assertEqual({row.o for row in self.db.query(text, default_graphs=[G])}, {B, C})
        self.assertEqual(len(list(self.db.query("SELECT * { GRAPH ?g { ?s ?p ?o } }", union_default_graph=True))), 2)

    def test_nothing_of_a_closed_database_is_used(self):
        found = self.db.query("SELECT * { ?s ?p ?o }")
        next(found)
        quads = self.db.quads(A)
        next(quads)
        with self.db.query("SELECT * { ?s ?p ?o }") as ended:
            next(ended)
        self.assertEqual(list(ended), [])
        with self.assertRaises(pythiadb.ClosedError):
            ended.write(format="csv")
        self.db.close()
        self.db.close()
        self.assertTrue(self.db.closed)
        for use in (lambda: self.db.query("ASK {}"), lambda: len(self.db), lambda: self.db.update("DROP ALL"), lambda: A in found):
            with self.assertRaises(pythiadb.ClosedError):
                use()
        with self.assertRaises(TypeError):
            pickle.dumps(self.db)

    def test_threads(self):
        found = []

        def work():
            for _ in range(20):
                found.append(len(self.db.query("SELECT * { ?s ?p ?o }").fetchall()))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [9] * 80)


class Local(Both, unittest.TestCase):
    def opened(self):
        return Database.in_memory()


class Remote(Both, unittest.TestCase):
    def opened(self):
        return Database.connect(SERVER.url)

    def test_results_are_streamed_and_can_be_left(self):
        self.db.load(((A, NamedNode(f"{EX}p{number % 7}"), number) for number in range(20_000)), graph=G)
        text = "SELECT * { GRAPH ?g { ?s ?p ?o . ?s2 ?p2 ?o2 } }"
        found = self.db.query(text)
        for _ in range(3000):
            next(found)
        self.assertTrue(self.db.query("ASK { ?s ?p 5 }"))
        self.assertEqual(self.running(), [text])
        # One is closed, and of another one nobody keeps anything.
        found.close()
        forgotten = self.db.query(text)
        next(forgotten)
        gc.disable()
        try:
            del forgotten
            until = time.monotonic() + 20
            while time.monotonic() < until and self.running():
                time.sleep(0.05)
        finally:
            gc.enable()
        self.assertEqual(self.running(), [])
        with self.assertRaises(pythiadb.TimeoutError):
            for _ in self.db.query(text, timeout=0.5):
                pass

    def running(self):
        import json
        import urllib.request

        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(SERVER.url.removesuffix("/ds") + "/$/queries") as answer:
            told = json.load(answer)
        queries = told if isinstance(told, list) else told.get("queries", [])
        return [query["text"] for query in queries]

    def test_idle_connections_are_used_again_and_replaced(self):
        self.assertTrue(self.db.query("ASK {}"))
        [connection] = self.db._endpoint._idle
        self.assertEqual(len(self.db.query("SELECT * { ?s ?p ?o }").fetchall()), 9)
        self.assertEqual(self.db._endpoint._idle, [connection])
        connection.sock.shutdown(socket.SHUT_RDWR)
        self.assertTrue(self.db.query("ASK {}"))
        self.assertNotEqual(self.db._endpoint._idle, [connection])

    def test_transactions_are_refused(self):
        with self.assertRaisesRegex(pythiadb.PythiaError, "one update"):
            self.db.transaction()

    def test_addresses(self):
        for url in ("127.0.0.1:1", "ftp://a/b", "http:///x", "http://a/b?c", "http://u:secret@/x"):
            with self.assertRaises(ValueError) as wrong:
                Database.connect(url)
            self.assertNotIn("secret", str(wrong.exception))
        for end in ("", "/", "/query", "/sparql"):
            with Database.connect(SERVER.url + end) as database:
                self.assertEqual(database.url, SERVER.url)
        with Database.connect(SERVER.url.removesuffix("/ds")) as database:
            self.assertEqual(len(database), 9)
        with Database.connect(SERVER.url + "x") as database, self.assertRaises(pythiadb.ServerError) as missing:
            database.query("ASK {}")
        self.assertEqual(missing.exception.status, 404)
        with Database.connect("http://127.0.0.1:1/ds") as database, self.assertRaises(pythiadb.ServerError) as missing:
            database.query("ASK {}")
        self.assertIsNone(missing.exception.status)

    def test_proxies_are_not_asked_about_this_machine(self):
        before = dict(os.environ)
        os.environ["http_proxy"] = "http://127.0.0.1:1"
        try:
            with Database.connect(SERVER.url) as database:
                self.assertTrue(database.query("ASK {}"))
        finally:
            os.environ.clear()
            os.environ.update(before)

    def test_progress(self):
        told = []
        self.db.load(TURTLE, format="ttl", progress=lambda *progress: told.append(progress))
        self.assertEqual(told[-1], ("send", len(TURTLE), len(TURTLE), 0))
        with self.assertRaises(ValueError):
            self.db.load(TURTLE, lenient=True)


class Secured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import hashlib

        digest = lambda token: hashlib.sha256(token.encode()).hexdigest()
        cls.server = Server(f"""
[[security.roles]]
name = "reader"
datasets = ["*"]
read = ["default"]
[[security.roles]]
name = "writer"
datasets = ["*"]
read = ["*"]
write = ["*"]
[[security.tokens]]
name = "r"
sha256 = "{digest('rrr')}"
roles = ["reader"]
[[security.tokens]]
name = "w"
sha256 = "{digest('www')}"
roles = ["writer"]
""")
        cls.addClassCleanup(cls.server.stop)

    def test_tokens(self):
        with Database.connect(self.server.url, token="www") as writer, Database.connect(self.server.url, token="rrr") as reader:
            writer.load(TURTLE, format="ttl")
            writer.load(TURTLE, format="ttl", graph=G)
            self.assertEqual((len(writer), len(reader)), (18, 9))
            for change in (lambda: reader.update("DROP ALL"), lambda: reader.load(TURTLE, format="ttl")):
                with self.assertRaises(pythiadb.ReadOnlyError):
                    change()
            self.assertNotIn("rrr", repr(reader))
        for credentials in ({}, {"token": "xxx"}, {"user": "a", "password": "b"}):
            with Database.connect(self.server.url, **credentials) as database:
                with self.assertRaises(pythiadb.ServerError) as refused:
                    database.query("ASK {}")
                self.assertEqual(refused.exception.status, 401)
        for credentials in ({"token": "a\r\nb"}, {"token": "a", "user": "b"}):
            with self.assertRaises(ValueError):
                Database.connect(self.server.url, **credentials)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            Database.connect("http://db.example.org/ds", token="www").close()
        self.assertEqual(len(warned), 1)


@unittest.skipIf(shutil.which("openssl") is None, "openssl is missing")
class Encrypted(unittest.TestCase):
    def test_certificates_are_checked(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        key, certificate = (f"{folder.name}/{name}.pem" for name in ("key", "certificate"))
        command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext".split()
        command += ["subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
        subprocess.run(command, check=True, capture_output=True)
        server = Server(f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n')
        self.addCleanup(server.stop)
        url = server.url.replace("http:", "https:")
        with Database.connect(url) as database, self.assertRaisesRegex(pythiadb.ServerError, "certificate"):
            database.query("ASK {}")
        with Database.connect(url, token=None, tls=ssl.create_default_context(cafile=certificate)) as database:
            database.load(TURTLE, format="ttl")
            self.assertEqual(len(list(database.query("SELECT * { ?s ?p ?o }"))), 9)
            self.assertEqual(len(database), 9)
            self.assertEqual(len(database._endpoint._idle), 1)


class Strange(unittest.TestCase):
    """Answers that Pythia does not give, or that come through a proxy."""

    def answering(self, head, body):
        self.asked = asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                asked.append(self.path)
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(head.get("status", 200))
                for name, value in head.items():
                    if name != "status":
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

            def log_message(self, *ignored):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        database = Database.connect(f"http://127.0.0.1:{server.server_port}/ds")
        self.addCleanup(database.close)
        return database

    def test_cut_and_wrong_answers_are_errors(self):
        tsv = {"Content-Type": "text/tab-separated-values"}
        whole = self.answering({**tsv, "Content-Length": "10"}, b"?a\n1\n2\n_:x")
        self.assertEqual([row.a for row in whole.query("SELECT")], [Literal(1), Literal(2), BlankNode("x")])
        packed = gzip.compress(b"?a\n1\n2\n")
        zipped = self.answering({**tsv, "Content-Encoding": "gzip", "Content-Length": str(len(packed))}, packed)
        self.assertEqual(len(zipped.query("SELECT").fetchall()), 2)
        for head, body in (
            ({"Content-Length": "20"}, b"?a\n1\n2\n"),
            ({"Transfer-Encoding": "chunked"}, b"3\r\n?a\n\r\n2\r\n1\n\r\n"),
            ({"Content-Encoding": "gzip", "Content-Length": str(len(packed) - 9)}, packed[:-9]),
            ({"Content-Length": "7"}, b"?a\n1\t2\n"),
            ({"Content-Length": "8"}, b"?a\noops\n"),
            ({"Content-Length": "13"}, b"?a\n1 . <x:x>\n"),
            ({"Content-Length": "5"}, b"hello"),
            ({"status": 302, "Location": "http://elsewhere/", "Content-Length": "0"}, b""),
            ({"status": 500, "Content-Length": "5"}, b"<oops"),
        ):
            with self.subTest(head=head, body=body), self.assertRaises(pythiadb.ServerError):
                list(self.answering({**tsv, **head}, body).query("SELECT"))

    def test_a_proxy_is_asked_about_other_machines(self):
        tsv = {"Content-Type": "text/tab-separated-values", "Content-Length": "4"}
        proxy = self.answering(tsv, b"true")
        before = dict(os.environ)
        os.environ.pop("no_proxy", None)
        os.environ.pop("NO_PROXY", None)
        os.environ["http_proxy"] = proxy.url.removesuffix("/ds")
        try:
            with Database.connect("http://db.example.org/ds") as database:
                self.assertTrue(database.query("ASK {}"))
        finally:
            os.environ.clear()
            os.environ.update(before)
        self.assertEqual(self.asked, ["http://db.example.org/ds/query"])

    def test_retry_after_is_told(self):
        database = self.answering({"status": 503, "Retry-After": "7", "Content-Length": "0"}, b"")
        with self.assertRaises(pythiadb.ServerError) as busy:
            database.query("ASK {}")
        self.assertEqual((busy.exception.status, busy.exception.retry_after), (503, "7"))


class Bindings(unittest.TestCase):
    def test_the_block_is_put_into_the_outermost_group(self):
        values = 'VALUES (?s) { (<http://ex.org/a>) }'
        for text, place in (
            ("SELECT ?s WHERE { ?s ?p ?o }", "SELECT ?s WHERE {@ ?s ?p ?o }"),
            ("PREFIX select: <http://x/#> # {\nSELECT ('{' AS ?x) (EXISTS { ?s ?p 1 } AS ?y) { ?s ?p '''{'{''' }", None),
            ("SELECT * { { ?s ?p ?o } UNION { ?o ?p ?s } }", "SELECT * {@ { ?s ?p ?o } UNION { ?o ?p ?s } }"),
            ("SELECT * { SELECT ?s { ?s ?p ?o } }", "SELECT * {@ { SELECT ?s { ?s ?p ?o } }}"),
            ("CONSTRUCT { ?s ?p 1 } WHERE { ?s ?p ?o }", "CONSTRUCT { ?s ?p 1 } WHERE {@ ?s ?p ?o }"),
            ("DESCRIBE ?s # {", "DESCRIBE ?s # {\n{@ }"),
            ("ASK { ?x ?p $o }", "ASK { ?x ?p $o }"),
        ):
            with self.subTest(text=text):
                sent = bind(text, {"s": A}).sent
                if place is None:
                    self.assertTrue(sent.endswith(f" {{ {values} ?s ?p '''{{'{{''' }}"), sent)
                else:
                    self.assertEqual(sent, place.replace("@", f" {values}"))
                with Database.in_memory() as database:
                    database.query(sent)
        with self.assertRaises(pythiadb.QueryError):
            bind("PATHS START ?s END ?e VIA ?p", {"s": A})

    def test_places_are_those_of_the_given_text(self):
        text = bind("SELECT * {\n ?s ?p ?o } oops", {"s": A}, base="http://b/")
        at = text.sent.index("oops")
        line, column = text.sent[:at].count("\n") + 1, at - text.sent.rindex("\n", 0, at)
        self.assertEqual(text.place(line, column), (2, 13))
        self.assertEqual(text.place(1, 5), (1, 1))


if __name__ == "__main__":
    unittest.main()
