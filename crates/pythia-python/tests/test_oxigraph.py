"""`pythiadb.oxigraph`: what pyoxigraph's own tests do not cover. Where pyoxigraph is installed, both do the same work."""

import copy
import gc
import io
import pickle
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import pythiadb
from pythiadb import oxigraph
from pythiadb.oxigraph import (
    BlankNode,
    Dataset,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    QueryBoolean,
    QueryResultsFormat,
    RdfFormat,
    Store,
    Triple,
    Variable,
)

try:
    import pyoxigraph
except ImportError:
    pyoxigraph = None
    print("test_oxigraph: PYOXIGRAPH IS NOT INSTALLED, so that nothing is compared with it", file=sys.stderr)

EX = "http://ex.org/"
A, B, C, P, G, H = (NamedNode(EX + name) for name in "abcpgh")
DATA = """
@prefix ex: <http://ex.org/> .
ex:a ex:p ex:b , "x \\"y\\", <&> 'z'"@en , 5 , true , "tab\\tline\\n" , "d"^^ex:d , "1.5"^^ex:d .
ex:b ex:p ex:c .
ex:g { ex:c ex:p ex:a , "é" . }
"""


def stored(*quads):
    store = Store()
    store.extend(quads)
    return store


def example(module=oxigraph):
    store = module.Store()
    store.load(DATA, module.RdfFormat.TRIG)
    return store


class Stores(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_it_has_all_names_of_pyoxigraph(self):
        if pyoxigraph is None:
            self.skipTest("pyoxigraph is not installed: the names are not compared")
        missing = [name for name in pyoxigraph.__all__ if not hasattr(oxigraph, name)]
        self.assertEqual(missing, [])
        for name in pyoxigraph.__all__:
            ours = getattr(oxigraph, name)
            members = {*dir(ours), *getattr(ours, "__dataclass_fields__", ())}
            theirs = {member for member in dir(getattr(pyoxigraph, name)) if not member.startswith("_")}
            self.assertEqual(theirs - members, set(), name)

    def test_a_store_of_a_folder_is_opened_again_and_read_only(self):
        path = self.folder / "store"
        store = Store(path)
        store.add(Quad(A, P, B, G))
        with self.assertRaises(OSError):
            Store(path)
        del store
        gc.collect()
        store = Store.read_only(str(path))
        self.assertEqual((list(store), bool(store), len(store)), ([Quad(A, P, B, G)], True, 1))
        self.assertIn(str(path), repr(store))
        with self.assertRaises(pythiadb.ReadOnlyError):
            store.add(Quad(A, P, C))
        with self.assertRaises(pythiadb.ReadOnlyError):
            store.update("INSERT DATA { <http://a> <http://b> 1 }")
        with self.assertRaises(OSError):
            Store.read_only(str(self.folder / "nothing"))

    def test_a_database_that_is_open_can_be_given(self):
        database = pythiadb.Database.in_memory()
        Store(database).add((A, P, B))
        self.assertEqual(len(database), 1)

    def test_graphs_that_are_empty_are_remembered(self):
        store = stored(Quad(A, P, B), Quad(A, P, B, G), Quad(A, P, C, BlankNode("h")))
        store.add_graph(H)
        store.add_graph(DefaultGraph())
        self.assertEqual(set(store.named_graphs()), {G, BlankNode("h"), H})
        for graph in (G, H, BlankNode("h"), DefaultGraph()):
            self.assertTrue(store.contains_named_graph(graph))
        self.assertFalse(store.contains_named_graph(NamedNode(EX + "x")))
        store.clear_graph(G)
        store.clear_graph(BlankNode("h"))
        store.clear_graph(NamedNode(EX + "x"))
        self.assertEqual(set(store.named_graphs()), {G, BlankNode("h"), H})
        self.assertEqual(list(store), [Quad(A, P, B)])
        for graph in (G, H, BlankNode("h")):
            store.remove_graph(graph)
            self.assertFalse(store.contains_named_graph(graph))
        store.add(Quad(A, P, B, G))
        store.remove(Quad(A, P, B, G))
        store.remove(Quad(A, P, B, H))
        self.assertEqual(list(store.named_graphs()), [G])
        store.remove_graph(DefaultGraph())
        self.assertEqual(len(store), 0)
        store.add(Quad(A, P, B, G))
        store.clear()
        self.assertEqual((len(store), list(store.named_graphs()), bool(store)), (0, [], False))
        with self.assertRaises(TypeError):
            store.add_graph("http://g")

    def test_changes_of_several_threads_are_all_made(self):
        store = Store()

        def work(number):
            for value in range(20):
                store.add(Quad(A, P, Literal(value)))
                store.extend([Quad(B, P, Literal(value)), Quad(B, P, Literal(1000 * number + value))])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(store), 20 + 20 + 80)

    def test_quads_that_fail_midway_are_not_added(self):
        def quads():
            yield Quad(A, P, B)
            raise KeyError("x")

        store = Store()
        for add in (store.extend, store.bulk_extend):
            with self.assertRaises(KeyError):
                add(quads())
        self.assertEqual(len(store), 0)

    def test_a_backup_is_a_store(self):
        store = Store(self.folder / "store")
        store.extend([Quad(A, P, BlankNode("x")), Quad(A, P, B, G)])
        target = self.folder / "copy"
        store.backup(target)
        with self.assertRaises(FileExistsError):
            store.backup(str(target))
        copied = Store.read_only(str(target))
        self.assertEqual(len(copied), 2)
        self.assertIn(Quad(A, P, B, G), copied)
        store.optimize()
        store.flush()
        self.assertEqual(len(store), 2)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["copy", "store"])

    def test_formats_are_those_of_paths(self):
        store = example()
        for name in ("x.trig", "x.nq", "x.jsonld"):
            path = self.folder / name
            self.assertIsNone(store.dump(path))
            for load in ("load", "bulk_load"):
                other = Store()
                getattr(other, load)(path=path)
                self.assertEqual(set(other), set(store), name)
            self.assertEqual(set(oxigraph.parse(path=str(path))), set(store))
        for name in ("x.ttl", "x.nt", "x.rdf"):
            path = str(self.folder / name)
            store.dump(path, from_graph=G)
            other = Store()
            other.load(path=path, to_graph=H)
            self.assertEqual({quad.triple for quad in other}, {quad.triple for quad in store.quads_for_pattern(None, None, None, G)})
            self.assertEqual({quad.graph_name for quad in other}, {H})
        results = store.query("SELECT ?o { ?s ?p ?o }")
        for name in ("x.srj", "x.json", "x.srx", "x.tsv", "x.csv"):
            path = self.folder / name
            store.query("SELECT ?o { ?s ?p ?o }").serialize(path)
            if name != "x.csv":
                self.assertEqual(
                    {row["o"] for row in oxigraph.parse_query_results(path=path)},
                    {row["o"] for row in store.query("SELECT ?o { ?s ?p ?o }")},
                )
        for wrong in ("x", "x.pdf", "x.n3"):
            (self.folder / wrong).write_text("")
            with self.assertRaises(ValueError):
                store.dump(self.folder / wrong)
            with self.assertRaises(ValueError):
                store.load(path=self.folder / wrong)
        with self.assertRaises(ValueError):
            results.serialize(self.folder / "x.ttl")
        with self.assertRaises(ValueError):
            store.dump()

    def test_sources_are_checked(self):
        store = Store()
        for arguments in ({}, {"input": "", "path": __file__}):
            with self.assertRaises(ValueError):
                store.load(format=RdfFormat.TURTLE, **arguments)
        with self.assertRaises(FileNotFoundError):
            store.load(path=self.folder / "none.ttl")
        with self.assertRaises(TypeError):
            store.load(5, RdfFormat.TURTLE)
        with self.assertRaises(ValueError):
            store.load("<a> <b> <c> .", RdfFormat.TURTLE, base_iri="no iri")
        with self.assertRaises(SyntaxError) as failed:
            store.load("<http://a> <http://b>\n x .", RdfFormat.TURTLE)
        self.assertEqual(failed.exception.lineno, 2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            store.load("<http://a> <http://b> 1 .", "text/turtle")
        self.assertEqual([warning.category for warning in caught], [DeprecationWarning])
        self.assertEqual(len(store), 1)

    def test_blank_nodes_of_each_load_are_new(self):
        for load in ("load", "bulk_load"):
            store = Store()
            for _ in range(2):
                getattr(store, load)("_:x <http://p> 1 .", RdfFormat.TURTLE)
            self.assertEqual(len(store), 2)
            self.assertEqual({quad.subject.value == "x" for quad in store}, {True, False})
            for _ in range(2):
                getattr(store, load)("_:x <http://p> _:x .", RdfFormat.TURTLE, to_graph=BlankNode("g"))
            self.assertEqual(len(set(store.quads_for_pattern(None, None, None, BlankNode("g")))), 2)
        kept = list(oxigraph.parse("_:x <http://p> _:y .", RdfFormat.TURTLE))
        self.assertEqual(kept, [Quad(BlankNode("x"), NamedNode("http://p"), BlankNode("y"))])

    def test_dumps_have_prefixes(self):
        store = stored(Quad(A, P, B), Quad(A, P, C, G))
        self.assertEqual(
            store.dump(format=RdfFormat.TRIG, prefixes={"ex": EX}),
            b"@prefix ex: <http://ex.org/> .\nex:a ex:p ex:b .\nex:g {\n\tex:a ex:p ex:c .\n}\n",
        )
        self.assertEqual(
            store.dump(format=RdfFormat.TURTLE, from_graph=G, prefixes={"ex": EX}),
            b"@prefix ex: <http://ex.org/> .\nex:a ex:p ex:c .\n",
        )
        with self.assertRaises(ValueError):
            store.dump(format=RdfFormat.TURTLE)
        with self.assertRaises(ValueError):
            oxigraph.serialize([Quad(A, P, B, G)], format=RdfFormat.TURTLE)
        output = io.BytesIO()
        self.assertIsNone(store.dump(output, RdfFormat.STREAMING_JSON_LD))
        self.assertEqual(set(oxigraph.parse(output.getvalue(), RdfFormat.JSON_LD)), set(store))
        self.assertEqual(sorted(str(store).splitlines()), sorted(f"{quad} ." for quad in store))

    def test_parsing_is_lazy_and_ends_at_an_error(self):
        quads = oxigraph.parse("<http://a> <http://b> x .", RdfFormat.TURTLE)
        self.assertIs(iter(quads), quads)
        with self.assertRaises(SyntaxError):
            next(quads)
        self.assertEqual(list(quads), [])
        with self.assertRaises(FileNotFoundError):
            oxigraph.parse(path=self.folder / "none.ttl")
        with self.assertRaises(NotImplementedError):
            quads.prefixes


class Queries(unittest.TestCase):
    def test_prefixes_are_declared(self):
        store = example()
        prefixes = {"e": EX, "": EX}
        self.assertTrue(store.query("ASK { e:a :p e:b }", prefixes=prefixes))
        self.assertTrue(store.query("PREFIX e: <http://other/> ASK { :a :p :b FILTER(e:x != :x) }", prefixes=prefixes))
        store.update("INSERT DATA { e:new :p 1 }", prefixes=prefixes)
        self.assertTrue(store.query("ASK { <new> <p> 1 }", base_iri=EX))
        store.update("DELETE DATA { <new> <p> 1 }", base_iri=EX)
        self.assertFalse(store.query("ASK { e:new ?p ?o }", prefixes=prefixes))
        for wrong in ({"e f": EX}, {"e:": EX}, {"e": "relative"}, {"e": "http://x> <y"}, {"1": EX}):
            with self.assertRaises(ValueError):
                store.query("ASK {}", prefixes=wrong)

    def test_syntax_errors_have_the_place_in_the_query(self):
        for method, text, line in (("query", "ASK { ?s ?p }", 1), ("update", "INSERT DATA {\n ?x }", 2)):
            places = []
            for prefixes in (None, {"e": EX}):
                with self.assertRaises(SyntaxError) as failed:
                    getattr(Store(), method)(text, prefixes=prefixes)
                error = failed.exception
                places.append((error.lineno, error.offset, error.text, error.msg))
            self.assertEqual(places[0], places[1])
            self.assertEqual((places[0][0], places[0][2]), (line, text.split("\n")[line - 1]))

    def test_substitutions_are_terms(self):
        store = stored(Quad(A, P, Literal(1)), Quad(B, P, Literal(2)), Quad(C, P, Literal(2)))
        rows = store.query("SELECT ?s ?o { ?s ?p ?o }", substitutions={Variable("o"): Literal(2)})
        self.assertEqual({tuple(row) for row in rows}, {(B, Literal(2)), (C, Literal(2))})
        found = store.query("ASK { ?s ?p ?o }", substitutions={Variable("s"): A, Variable("o"): Literal(2)})
        self.assertEqual(found, QueryBoolean(False))
        triples = store.query("CONSTRUCT { ?s ?s ?o } { ?s ?p ?o }", substitutions={Variable("s"): B})
        self.assertEqual(list(triples), [Triple(B, B, Literal(2))])

    def test_datasets_replace_the_default_graph(self):
        store = stored(Quad(A, P, B), Quad(B, P, C, G), Quad(C, P, A, H))
        text = "SELECT ?s { ?s ?p ?o }"
        subjects = lambda **dataset: sorted(row["s"].value[-1] for row in store.query(text, **dataset))
        self.assertEqual(subjects(), ["a"])
        self.assertEqual(subjects(default_graph=DefaultGraph()), ["a"])
        self.assertEqual(subjects(default_graph=[G, H]), ["b", "c"])
        self.assertEqual(subjects(use_default_graph_as_union=True), ["a", "b", "c"])
        text = "SELECT ?s { GRAPH ?g { ?s ?p ?o } }"
        self.assertEqual(subjects(default_graph=G), ["b", "c"])
        self.assertEqual(subjects(default_graph=G, named_graphs=[H]), ["c"])
        for wrong in ({"default_graph": 5}, {"default_graph": G, "use_default_graph_as_union": True}):
            with self.assertRaises(ValueError):
                store.query(text, **wrong)
        with self.assertRaises(TypeError):
            store.query(text, default_graph=["http://g"])

    def test_aggregate_functions_of_python_are_refused(self):
        for work in (lambda **functions: Store().query("ASK {}", **functions),
                     lambda **functions: Store().update("INSERT DATA {}", **functions)):
            with self.assertRaises(NotImplementedError):
                work(custom_aggregate_functions={A: lambda: None})

    def test_updates_call_functions_of_python(self):
        store = stored(Quad(A, P, Literal(2)))
        text = f"INSERT {{ ?s ?p ?d }} WHERE {{ ?s ?p ?o BIND({B}(?o) AS ?d) }}"
        store.update(text, custom_functions={B: lambda term: Literal(int(term.value) * 2)})
        self.assertIn(Quad(A, P, Literal(4)), store)

    def test_updates_read_no_files(self):
        with tempfile.NamedTemporaryFile(suffix=".nt") as file:
            file.write(b"<http://a> <http://b> <http://c> .")
            file.flush()
            store = Store()
            hidden = f"\\u0066ile://{file.name}"
            for text, base in (
                (f"LOAD <file://{file.name}>", None),
                (f"LOAD <FILE://{file.name}>", None),
                (f"LOAD <{hidden}>", None),
                (f"PREFIX f: <file://{file.name}> LOAD f:", None),
                (f"LOAD <{file.name}>", "file:///x"),
            ):
                with self.assertRaises(pythiadb.PythiaError, msg=text):
                    store.update(text, base_iri=base)
            self.assertEqual(len(store), 0)

    def test_solutions_are_rows(self):
        store = stored(Quad(A, P, B), Quad(A, P, C))
        rows = store.query("SELECT ?s ?x ?o { ?s ?p ?o } ORDER BY ?o")
        self.assertEqual([variable.value for variable in rows.variables], ["s", "x", "o"])
        row = next(rows)
        self.assertEqual((tuple(row), len(row), row["x"], row[1]), ((A, None, B), 3, None, None))
        self.assertEqual((row["none"], row[7], row[Variable("o")]), (None, None, B))
        self.assertEqual(repr(row), f"<QuerySolution s={A!r} o={B!r}>")
        self.assertIs(copy.copy(row), row)
        self.assertNotEqual(row, next(rows))
        for wrong in (-1, 1.5, None):
            with self.assertRaises(TypeError):
                row[wrong]
        # What is left after the first row.
        rows = store.query("SELECT ?o { ?s ?p ?o } ORDER BY ?o")
        next(rows)
        self.assertEqual(rows.serialize(format=QueryResultsFormat.TSV), b"?o\n<http://ex.org/c>\n")
        self.assertEqual(list(rows), [])

    def test_answers_compare(self):
        yes, no = QueryBoolean(True), QueryBoolean(False)
        self.assertTrue(yes and not no and no < yes and yes == QueryBoolean(True) and yes != no)
        self.assertEqual((repr(yes), hash(yes)), ("<QueryBoolean true>", hash(QueryBoolean(True))))

    def test_results_that_are_wrong_have_a_place(self):
        for text, format, place in (
            ("?a\t?b\n<http://a>\n", QueryResultsFormat.TSV, (2, 1)),
            ("?a\nx\n", QueryResultsFormat.TSV, (2, 1)),
            ("?a\n1 . <http://a> <http://b> 1\n", QueryResultsFormat.TSV, (2, 1)),
            ("a\n", QueryResultsFormat.TSV, (1, 1)),
            ('{"head":\n]', QueryResultsFormat.JSON, (2, 1)),
            ("<sparql>\n<x>", QueryResultsFormat.XML, (2, 4)),
        ):
            with self.assertRaises(SyntaxError, msg=text) as failed:
                list(oxigraph.parse_query_results(text, format))
            self.assertEqual((failed.exception.lineno, failed.exception.offset), place, text)
        for text, format in (
            ("[]", QueryResultsFormat.JSON),
            ('{"head":{"vars":["x"]},"results":{"bindings":[{"y":{"type":"uri","value":"http://a"}}]}}', QueryResultsFormat.JSON),
            ('{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"uri","value":"a"}}]}}', QueryResultsFormat.JSON),
            ("<sparql/>", QueryResultsFormat.XML),
            ("x\n1\n", QueryResultsFormat.CSV),
        ):
            with self.assertRaises(SyntaxError, msg=text):
                list(oxigraph.parse_query_results(text, format))


class Formats(unittest.TestCase):
    def test_formats_are_values(self):
        for format in (RdfFormat.TURTLE, RdfFormat.STREAMING_JSON_LD, QueryResultsFormat.JSON):
            self.assertEqual(copy.deepcopy(format), format)
            self.assertEqual(pickle.loads(pickle.dumps(format)), format)
            self.assertEqual(len({format, copy.copy(format)}), 1)
        self.assertNotEqual(RdfFormat.JSON_LD, RdfFormat.STREAMING_JSON_LD)
        with self.assertRaises(AttributeError):
            RdfFormat.TURTLE.name = "x"


class Datasets(unittest.TestCase):
    def test_a_dataset_is_a_set(self):
        one, two = Quad(A, P, B), Quad(A, P, C, G)
        dataset = Dataset([one, two, one])
        self.assertEqual((len(dataset), list(dataset), bool(dataset)), (2, [one, two], True))
        self.assertEqual(list(dataset.quads_for_subject(A)), [one, two])
        self.assertEqual(list(dataset.quads_for_predicate(P)), [one, two])
        self.assertEqual(list(dataset.quads_for_object(C)), [two])
        self.assertEqual(list(dataset.quads_for_graph_name(DefaultGraph())), [one])
        self.assertEqual(list(dataset.quads_for_graph_name(H)), [])
        self.assertEqual(str(dataset), f"{one} .\n{two} .\n")
        self.assertEqual(dataset, Dataset([two, one]))
        dataset.remove(one)
        dataset.discard(one)
        self.assertEqual(list(dataset.quads_for_subject(A)), [two])
        with self.assertRaises(KeyError):
            dataset.remove(one)
        with self.assertRaises(TypeError):
            dataset.add((A, P, B))
        with self.assertRaises(NotImplementedError):
            dataset.canonicalize(oxigraph.CanonicalizationAlgorithm.RDFC_1_0)
        dataset.clear()
        self.assertFalse(dataset)


@unittest.skipIf(pyoxigraph is None, "pyoxigraph is not installed")
class AsPyoxigraph(unittest.TestCase):
    def both(self, work):
        """Does the same with both; returns what pyoxigraph gave, as text."""
        ours, theirs = work(oxigraph), work(pyoxigraph)
        self.assertEqual(ours, theirs)
        return theirs

    def test_formats(self):
        extensions = "nt nq ttl trig rdf xml json jsonld txt n3 csv tsv srj srx owl TTL pdf".split()
        media = (
            "text/turtle; charset=utf-8|application/xml|application/x-trig|text/plain|text/csv|text/n3|image/png|turtle"
            "|application/json|application/sparql-results+xml;x=y|text/turtle;charset=latin1|TEXT/Turtle"
            '|application/ld+json;profile="http://www.w3.org/ns/json-ld#streaming"|text/tab-separated-values'
        ).split("|")
        for name in ("RdfFormat", "QueryResultsFormat"):
            for extension in extensions:
                self.both(lambda module: repr(getattr(module, name).from_extension(extension)))
            for each in media:
                self.both(lambda module: repr(getattr(module, name).from_media_type(each)))
        described = lambda format: (
            repr(format), str(format), format.name, format.iri, format.media_type, format.file_extension,
            getattr(format, "supports_datasets", None),
        )
        for name in ("JSON_LD", "STREAMING_JSON_LD", "N3", "N_QUADS", "N_TRIPLES", "RDF_XML", "TRIG", "TURTLE"):
            self.both(lambda module: described(getattr(module.RdfFormat, name)))
        for name in ("CSV", "JSON", "TSV", "XML"):
            self.both(lambda module: described(getattr(module.QueryResultsFormat, name)))

    def test_results_are_written_and_read(self):
        text = "SELECT ?o ?none ?s { ?s ?p ?o } ORDER BY ?s STR(?o)"
        header = "SELECT ?x ?y { FILTER(false) }"
        for name in ("CSV", "JSON", "TSV", "XML"):
            for query in (text, header, "SELECT * {}", "ASK {}", "ASK { FILTER(false) }"):
                written = self.both(
                    lambda module: example(module).query(query).serialize(format=getattr(module.QueryResultsFormat, name))
                )
                if name == "CSV":
                    continue
                results = lambda module, data: module.parse_query_results(data, getattr(module.QueryResultsFormat, name))
                listed = lambda found: repr(found) if query.startswith("ASK") else [repr(list(row)) for row in found]
                self.both(lambda module: listed(results(module, written)))
                # What was read is written as it was.
                read = results(oxigraph, written)
                self.assertEqual(read.serialize(format=getattr(QueryResultsFormat, name)), written, (name, query))

    def test_all_kinds_of_terms_in_results(self):
        text = (
            '{"head":{"vars":["x"]},"results":{"bindings":[%s]}}' % ",".join(
                '{"x":%s}' % term
                for term in (
                    '{"type":"uri","value":"http://a/é"}',
                    '{"type":"bnode","value":"b"}',
                    '{"type":"literal","value":"tab\\t, \\"q\\" \'s\' \\\\ <&> \\r\\n"}',
                    '{"type":"literal","value":"l","xml:lang":"en-GB"}',
                    '{"type":"literal","value":"l","xml:lang":"ar","its:dir":"rtl"}',
                    '{"type":"literal","value":"007","datatype":"http://www.w3.org/2001/XMLSchema#integer"}',
                    '{"type":"literal","value":"+1.50","datatype":"http://www.w3.org/2001/XMLSchema#decimal"}',
                    '{"type":"literal","value":"1","datatype":"http://www.w3.org/2001/XMLSchema#decimal"}',
                    '{"type":"literal","value":"1e5","datatype":"http://www.w3.org/2001/XMLSchema#double"}',
                    '{"type":"literal","value":"INF","datatype":"http://www.w3.org/2001/XMLSchema#double"}',
                    '{"type":"literal","value":"true","datatype":"http://www.w3.org/2001/XMLSchema#boolean"}',
                    '{"type":"typed-literal","value":"x","datatype":"http://a/d"}',
                    '{"type":"triple","value":{"subject":{"type":"bnode","value":"b"},"predicate":{"type":"uri","value":'
                    '"http://p"},"object":{"type":"literal","value":"5","datatype":"http://www.w3.org/2001/XMLSchema#integer"}}}',
                )
            )
        )
        for name in ("JSON", "TSV", "XML", "CSV"):
            results = lambda module, data, kind: module.parse_query_results(data, getattr(module.QueryResultsFormat, kind))
            written = self.both(
                lambda module: results(module, text, "JSON").serialize(format=getattr(module.QueryResultsFormat, name)).decode()
            )
            if name != "CSV":
                self.both(lambda module: [repr(row) for row in results(module, written, name)])

    def test_data_is_parsed_and_serialized(self):
        for name in ("N_QUADS", "TRIG", "JSON_LD", "STREAMING_JSON_LD"):
            written = self.both(
                lambda module: module.serialize(
                    module.parse(DATA, module.RdfFormat.TRIG), format=getattr(module.RdfFormat, name), prefixes={"ex": EX}
                )
            )
            self.both(lambda module: [str(quad) for quad in module.parse(written, getattr(module.RdfFormat, name))])
        for name in ("N_TRIPLES", "TURTLE", "RDF_XML"):
            triples = lambda module: (
                quad.triple for quad in module.parse(DATA, module.RdfFormat.TRIG) if quad.graph_name == module.DefaultGraph()
            )
            self.both(lambda module: module.serialize(triples(module), format=getattr(module.RdfFormat, name)))

    def test_errors_have_the_same_classes(self):
        def raised(work):
            try:
                work()
            except Exception as error:
                for kind in (FileNotFoundError, FileExistsError, SyntaxError, OSError, ValueError, TypeError, KeyError):
                    if isinstance(error, kind):
                        return kind.__name__
                return type(error).__name__
            return "nothing"

        works = [
            lambda module: module.Store().query("SELECT"),
            lambda module: module.Store().update("INSERT"),
            lambda module: module.Store().query("ASK {}", base_iri="no iri"),
            lambda module: module.Store().query("ASK {}", prefixes={"a": "no iri"}),
            lambda module: module.Store().query("ASK {}", use_default_graph_as_union=True, default_graph=module.DefaultGraph()),
            lambda module: module.Store().load("x", module.RdfFormat.TURTLE),
            lambda module: module.Store().load("x"),
            lambda module: module.Store().load(path="/none.ttl"),
            lambda module: module.Store().load(path="/none.pdf"),
            lambda module: module.Store().load("<a> <b> <c> .", module.RdfFormat.TURTLE),
            lambda module: module.Store().dump(),
            lambda module: module.Store().dump(format=module.RdfFormat.N_TRIPLES),
            lambda module: module.Store().dump("/none/x.nq"),
            lambda module: module.Store().add(1),
            lambda module: module.Store().extend([1]),
            lambda module: module.Store.read_only("/none"),
            lambda module: module.Dataset().remove(module.Quad(*[module.NamedNode("http://a")] * 3)),
            lambda module: list(module.parse("<a> <b> <c> .", module.RdfFormat.TURTLE)),
            lambda module: module.parse_query_results("x", module.QueryResultsFormat.CSV),
            lambda module: module.parse_query_results("x"),
            lambda module: module.serialize([1], format=module.RdfFormat.TURTLE),
            lambda module: module.serialize([], format=5),
        ]
        for number, work in enumerate(works):
            with self.subTest(number):
                self.both(lambda module: raised(lambda: work(module)))

    def test_stores_do_the_same(self):
        def work(module):
            a, b, p, g, h = (module.NamedNode(EX + name) for name in "abpgh")
            store = example(module)
            shown = []

            def show(value):
                shown.append(sorted(map(str, value)))

            store.add_graph(h)
            show(store.named_graphs())
            show(store)
            show(store.quads_for_pattern(a, None, None))
            show(store.quads_for_pattern(None, p, a))
            show(store.quads_for_pattern(None, None, None, g))
            show(store.quads_for_pattern(None, None, module.Literal(5), module.DefaultGraph()))
            show(store.query("CONSTRUCT { ?o ?p ?s } { ?s ?p ?o }"))
            show(row["o"] for row in store.query("SELECT ?o { GRAPH ?g { ?s ?p ?o } }"))
            show(row["o"] for row in store.query("SELECT ?o { ?s ?p ?o }", use_default_graph_as_union=True))
            show(row["o"] for row in store.query("SELECT ?o { ?s ?p ?o }", default_graph=[g]))
            substitutions = {module.Variable("s"): b}
            show(row["o"] for row in store.query("SELECT ?s ?o { ?s ?p ?o }", substitutions=substitutions))
            store.update("DELETE { ?s ?p ?o } INSERT { GRAPH <h> { ?o ?p ?s } } WHERE { ?s ?p ?o FILTER(isIRI(?o)) }", base_iri=EX)
            show(store)
            store.remove(module.Quad(b, p, a, h))
            store.clear_graph(g)
            show(store.named_graphs())
            store.remove_graph(g)
            show(store.named_graphs())
            show([len(store), bool(store), store.contains_named_graph(h), store.contains_named_graph(g)])
            store.clear()
            show(store.named_graphs())
            return shown

        self.both(work)


if __name__ == "__main__":
    unittest.main()
