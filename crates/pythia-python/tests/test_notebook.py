"""Magics of IPython, and what notebooks show."""

import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from html.parser import HTMLParser

import pythiadb
from pythiadb import Database, Literal, NamedNode, Triple
from pythiadb.drawing import NODES_MAX, bar_svg, graph_svg, paths_svg, prefixed, short

try:
    from IPython.core.error import UsageError
    from IPython.core.interactiveshell import InteractiveShell
except ImportError:
    InteractiveShell = None
    print("test_notebook: IPython is missing, so the magics are not tested", file=sys.stderr)

EX = "http://ex.org/"
A, B, C, P, Q = (NamedNode(EX + name) for name in "abcpq")
EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>"
TURTLE = b"""@prefix ex: <http://ex.org/> . ex:a ex:p ex:b ; ex:n 3 . ex:b ex:p ex:c , 'x'@en ; ex:n -1.5 .
<javascript:alert(1)> ex:n 2 ."""


class Tags(HTMLParser):
    """Collects the elements and attributes of HTML, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.names, self.links, self.text = set(), set(), [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.names.update(name for name, _ in attributes)
        self.links += [value for name, value in attributes if name == "href"]

    def handle_data(self, data):
        self.text += data


class Drawings(unittest.TestCase):
    def test_names_are_short(self):
        self.assertEqual(short(A, {"ex": EX}), "ex:a")
        self.assertEqual(prefixed(EX + "a/b", {"ex": EX, "e": EX + "a/"}), "e:b")
        self.assertIsNone(prefixed("http://no/x", {"": "http://other/"}))
        self.assertEqual((short(A), short(Literal("x" * 50), None, 10), short(None)), ("a", "x" * 9 + "…", ""))

    def test_drawings_are_the_same_each_time_and_well_formed(self):
        triples = [Triple(A, P, B), Triple(B, P, C), Triple(B, Q, A), Triple(A, Q, B), Triple(C, P, C), Triple(A, P, Literal(EVIL))]
        drawn = graph_svg(triples, {"ex": EX})
        self.assertEqual(drawn, graph_svg(triples, {"ex": EX}))
        tree = xml.fromstring(drawn)
        name = "{http://www.w3.org/2000/svg}"
        self.assertEqual(len(list(tree.iter(f"{name}circle"))), 4)
        self.assertEqual({element.tag for element in tree.iter()}, {name + tag for tag in ("svg", "defs", "marker", "path", "g", "title", "text", "circle")})
        self.assertIn(EVIL, "".join(tree.itertext()).replace("\\\"", "\""))
        # Edges between the same nodes do not lie on each other.
        lines = [path.get("d") for path in tree.iter(f"{name}path") if path.get("marker-end")]
        self.assertEqual(len(lines), len(set(lines)))
        self.assertEqual(len(list(xml.fromstring(graph_svg([])).iter(f"{name}circle"))), 0)
        with self.assertRaises(ValueError):
            graph_svg(Triple(A, P, Literal(number)) for number in range(NODES_MAX + 1))

    def test_paths_go_from_left_to_right(self):
        with Database.in_memory() as database:
            database.load(TURTLE)
            [path] = database.paths(A, C)
            both = list(database.paths(A, via=P))
        self.assertEqual(path._repr_svg_(), paths_svg([path]))
        circles = [circle for circle in xml.fromstring(path._repr_svg_()).iter("{http://www.w3.org/2000/svg}circle")]
        places = [float(circle.get("cx")) for circle in circles]
        self.assertEqual((len(places), places), (3, sorted(places)))
        self.assertEqual(len(list(xml.fromstring(paths_svg(both)).iter("{http://www.w3.org/2000/svg}circle"))), 4)

    def test_charts(self):
        drawn = xml.fromstring(bar_svg(["a", EVIL, "c"], [1, -2.5, 0], EVIL))
        widths = [float(bar.get("width")) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")]
        self.assertAlmostEqual(widths[1] / widths[0], 2.5, places=1)
        xml.fromstring(bar_svg([], [], ""))


@unittest.skipIf(InteractiveShell is None, "IPython is missing")
class Magics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from traitlets.config import Config

        # Nothing of this user's own IPython is read or written.
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        config = Config()
        config.HistoryManager.enabled = False
        cls.shell = InteractiveShell(config=config, ipython_dir=folder.name)
        cls.shell.run_line_magic("load_ext", "pythiadb")

    def setUp(self):
        self.database = Database.in_memory()
        self.addCleanup(self.database.close)
        self.database.load(TURTLE)
        self.shell.user_ns.clear()
        self.shell.user_ns["db"] = self.database

    def sparql(self, cell, line=""):
        return self.shell.run_cell_magic("sparql", line, cell)

    def test_tables(self):
        table = self.sparql("PREFIX ex: <http://ex.org/>\nSELECT * { ?s ?p ?o } ORDER BY ?s ?p ?o")
        self.assertEqual((table.columns, len(table), len(list(table))), (["s", "p", "o"], 6, 6))
        html = Tags(table._repr_html_())
        self.assertIn("ex:a", html.text)
        self.assertIn("x @en", html.text)
        self.assertIn("6 rows in", html.text)
        self.assertIn(EX + "a", html.links)
        self.assertFalse([link for link in html.links if not link.startswith("http")])
        self.assertIn("<javascript:alert(1)>", html.text)
        self.assertIn("6 rows", repr(table))

    def test_text_of_data_is_no_html(self):
        with self.database.transaction() as transaction:
            transaction.add((A, Q, EVIL))
            transaction.add((A, Q, Literal(EVIL, datatype=NamedNode("http://x/'onmouseover='alert(1)"))))
        for cell, tags in (
            ("SELECT * { ?s <http://ex.org/q> ?o }", {"div", "table", "thead", "tbody", "tr", "th", "td", "a", "small", "p"}),
            ("CONSTRUCT WHERE { ?s <http://ex.org/q> ?o }", {"div", "svg", "defs", "marker", "path", "g", "title", "text", "circle", "p", "small"}),
        ):
            html = Tags(self.sparql(cell)._repr_html_())
            self.assertLessEqual(html.tags, tags)
            self.assertFalse([name for name in html.names if name.startswith("on")])
            self.assertIn("<script>", html.text)

    def test_limit_and_variables(self):
        self.assertIsNone(self.sparql("SELECT * { ?s ?p ?o }", "db --to found --limit 2"))
        found = self.shell.user_ns["found"]
        self.assertEqual((len(found), found.is_cut), (2, True))
        self.assertIn("the first 2 rows", repr(found))
        self.assertEqual(len(self.sparql("SELECT * { ?s ?p ?o }", "--limit all")), 6)
        try:
            self.assertEqual(sorted(self.sparql("SELECT ?o { ?s <http://ex.org/n> ?o }").to_pandas()["o"].map(float)), [-1.5, 2, 3])
        except ImportError:
            pass

    def test_other_answers(self):
        self.assertTrue(self.sparql("ASK { ?s ?p 3 }").value)
        self.assertIn("no", self.sparql("ASK { ?s ?p 4 }")._repr_html_())
        changed = self.sparql("PREFIX : <http://ex.org/> # INSERT\nINSERT DATA { :a :p :d }")
        self.assertEqual(changed.value.added, 1)
        self.assertIn("1 quads added", changed._repr_html_())
        drawing = self.sparql("CONSTRUCT WHERE { ?s <http://ex.org/p> ?o }")
        self.assertEqual((len(drawing), len(drawing.triples)), (4, 4))
        xml.fromstring(drawing._repr_svg_())
        with self.assertRaises(pythiadb.QuerySyntaxError):
            self.sparql("SELECT oops")

    def test_graphs_that_are_too_large_are_tables(self):
        with self.database.transaction() as transaction:
            transaction.extend((A, Q, number) for number in range(NODES_MAX))
        html = self.sparql("CONSTRUCT WHERE { ?s <http://ex.org/q> ?o }")._repr_html_()
        self.assertIn("too many", html)
        self.assertIn("<table>", html)

    def test_charts(self):
        table = self.sparql("SELECT ?s ?n { ?s <http://ex.org/n> ?n }", "--chart bar s n")
        self.assertEqual(table._repr_html_().count("<rect"), 3)
        for line in ("--chart pie s n", "--chart bar s other"):
            with self.assertRaises(UsageError):
                self.sparql("SELECT ?s ?n { ?s <http://ex.org/n> ?n }", line)

    def test_paths(self):
        query = "PREFIX ex: <http://ex.org/>\nPREFIX : <http://ex.org/>\n%sSTART ?start = ex:a END ?end = :c VIA :p+"
        for word in ("", "PATHS ANY SHORTEST "):
            drawing = self.shell.run_cell_magic("paths", "", query % word)
            self.assertEqual([path.nodes for path in drawing.paths], [[A, B, C]])
            self.assertIn("<svg", drawing._repr_html_())
        table = self.sparql("SELECT ?x { BIND('<a> <b> <c>'^^<urn:pythia:path#path> AS ?x) }")
        table._repr_html_()

    def test_the_database_is_found_or_named(self):
        with Database.in_memory() as other:
            self.shell.user_ns["other"] = other
            with self.assertRaisesRegex(UsageError, "db, other"):
                self.sparql("ASK {}")
            self.assertFalse(self.sparql("ASK { ?s ?p ?o }", "other"))
        self.assertTrue(self.sparql("ASK { ?s ?p ?o }"))
        self.shell.user_ns["same"] = self.database
        self.assertTrue(self.sparql("ASK { ?s ?p ?o }"))
        for line in ("nothing", "--limit x", "--to a.b"):
            with self.assertRaises(UsageError):
                self.sparql("ASK {}", line)
        self.shell.user_ns.clear()
        with self.assertRaises(UsageError):
            self.sparql("ASK {}")


if __name__ == "__main__":
    unittest.main()
