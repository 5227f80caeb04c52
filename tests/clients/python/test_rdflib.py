"""rdflib's SPARQLStore and SPARQLUpdateStore as applications use them."""

import unittest
from urllib.error import HTTPError

from rdflib import RDF, BNode, Dataset, Graph, Literal, Namespace, URIRef, Variable
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.namespace import XSD
from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore

import endpoint

EX = Namespace(endpoint.EX)
PEOPLE = """ex:ann a ex:Person ; ex:name "Ann" ; ex:age 42 ; ex:knows ex:bob , ex:cid .
            ex:bob a ex:Person ; ex:name "Bob"@en ; ex:knows ex:cid .
            ex:cid a ex:Person ; ex:name "Cid" ; ex:born "1980-02-29"^^<http://www.w3.org/2001/XMLSchema#date> .
            GRAPH ex:g1 { ex:ann ex:likes ex:tea } GRAPH ex:g2 { ex:bob ex:likes ex:coffee }"""


class Reading(unittest.TestCase):
    """SPARQLStore: every method and format, the forms of query, and graphs as Python containers."""

    @classmethod
    def setUpClass(cls):
        endpoint.fill(PEOPLE)

    def store(self, **options):
        return SPARQLStore(endpoint.QUERY, **options)

    def test_select_by_every_method_and_format(self):
        text = "SELECT ?s ?name { ?s <http://example.org/name> ?name } ORDER BY ?s"
        expected = [(EX.ann, Literal("Ann")), (EX.bob, Literal("Bob", lang="en")),
                    (EX.cid, Literal("Cid"))]
        for method in ("GET", "POST", "POST_FORM"):
            for returned in ("xml", "json"):
                with self.subTest(method=method, format=returned):
                    graph = Graph(self.store(method=method, returnFormat=returned))
                    self.assertEqual([tuple(row) for row in graph.query(text)], expected)
            # CSV has no kinds of terms: rdflib takes what looks like an IRI for one.
            rows = Graph(self.store(method=method, returnFormat="csv")).query(text)
            self.assertEqual([str(row.name) for row in rows], ["Ann", "Bob", "Cid"])

    def test_ask(self):
        for returned in ("xml", "json"):
            graph = Graph(self.store(returnFormat=returned))
            self.assertTrue(graph.query("ASK { ?s <http://example.org/age> 42 }").askAnswer)
            self.assertFalse(graph.query("ASK { ?s <http://example.org/age> 43 }").askAnswer)

    def test_construct_and_describe(self):
        store = self.store()
        made = store.query("CONSTRUCT { ?o <http://example.org/knownBy> ?s } "
                           "WHERE { ?s <http://example.org/knows> ?o }").graph
        self.assertEqual(set(made), {(EX.bob, EX.knownBy, EX.ann), (EX.cid, EX.knownBy, EX.ann),
                                     (EX.cid, EX.knownBy, EX.bob)})
        described = store.query("DESCRIBE <http://example.org/bob>").graph
        self.assertIn((EX.bob, EX.name, Literal("Bob", lang="en")), described)

    def test_a_graph_is_a_python_container(self):
        graph = Graph(self.store())
        self.assertEqual(len(graph), 11)
        self.assertIn((EX.ann, EX.knows, EX.bob), graph)
        self.assertNotIn((EX.bob, EX.knows, EX.ann), graph)
        self.assertEqual(set(graph.objects(EX.ann, EX.knows)), {EX.bob, EX.cid})
        self.assertEqual(set(graph.subjects(RDF.type, EX.Person)), {EX.ann, EX.bob, EX.cid})
        self.assertEqual(graph.value(EX.ann, EX.age), Literal(42))
        self.assertEqual(graph.value(EX.cid, EX.born).datatype, XSD.date)

    def test_bindings_and_prefixes_are_given_beside_the_query(self):
        graph = Graph(self.store())
        rows = graph.query("SELECT ?o { ?s ex:knows ?o } ORDER BY ?o", initNs={"ex": EX},
                           initBindings={"s": EX.ann})
        self.assertEqual([row.o for row in rows], [EX.bob, EX.cid])

    def test_named_graphs(self):
        store = self.store()
        self.assertEqual({str(name) for name in store.contexts()}, {str(EX.g1), str(EX.g2)})
        self.assertEqual(list(Graph(store, identifier=EX.g1)), [(EX.ann, EX.likes, EX.tea)])
        dataset = Dataset(store=store, default_union=True)
        self.assertIn((EX.bob, EX.likes, EX.coffee), dataset.get_context(EX.g2))

    def test_paging(self):
        graph = Graph(self.store())
        setattr(graph, "LIMIT", 2)
        setattr(graph, "ORDERBY", "?s")
        self.assertEqual(len(list(graph.triples((None, RDF.type, None)))), 2)

    def test_unbound_is_none(self):
        rows = Graph(self.store()).query(
            "SELECT ?s ?age { ?s a <http://example.org/Person> "
            "OPTIONAL { ?s <http://example.org/age> ?age } } ORDER BY ?s")
        self.assertEqual([row.age for row in rows], [Literal(42), None, None])
        self.assertEqual(rows.vars, [Variable("s"), Variable("age")])

    def test_errors_tell_what_is_wrong(self):
        for text in ("SELECT * { ?s ?p", "SELECT * { ?s undeclared:p ?o }"):
            # rdflib answers a 400 with advice of its own, and keeps the server's words behind it.
            with self.assertRaisesRegex(ValueError, "your SPARQL query") as raised:
                list(Graph(self.store()).query(text))
            with raised.exception.__context__ as response:
                self.assertEqual(response.code, 400)
                self.assertRegex(response.read().decode(), r"\d+:\d+|line \d+")

    def test_large_results(self):
        count = 30_000
        self.addCleanup(endpoint.fill, PEOPLE)
        endpoint.numbers(count)
        for returned in ("xml", "json"):
            rows = Graph(self.store(returnFormat=returned)).query("SELECT * { ?s ?p ?value }")
            self.assertEqual(sum(int(row.value) for row in rows), count * (count - 1) // 2)


class Writing(unittest.TestCase):
    """SPARQLUpdateStore: graphs that are changed as if they were in memory."""

    def setUp(self):
        endpoint.fill("")

    def store(self, **options):
        return SPARQLUpdateStore(endpoint.QUERY, endpoint.UPDATE, **options)

    def test_add_and_remove(self):
        graph = Graph(self.store(), identifier=EX.g)
        graph.add((EX.a, EX.p, Literal(1)))
        graph.add((EX.a, EX.p, Literal(2)))
        graph.add((EX.b, EX.q, EX.a))
        self.assertEqual(len(graph), 3)
        graph.remove((EX.a, EX.p, Literal(1)))
        self.assertEqual(list(graph.objects(EX.a, EX.p)), [Literal(2)])
        graph.set((EX.b, EX.q, EX.c))
        self.assertEqual(list(graph.triples((EX.b, None, None))), [(EX.b, EX.q, EX.c)])
        graph.remove((None, None, None))
        self.assertEqual(len(graph), 0)

    def test_the_default_graph(self):
        store = self.store()
        graph = Graph(store, identifier=DATASET_DEFAULT_GRAPH_ID)
        graph.add((EX.a, EX.p, EX.b))
        self.assertEqual(list(graph), [(EX.a, EX.p, EX.b)])
        self.assertTrue(store.query("ASK { <http://example.org/a> ?p ?o }").askAnswer)

    def test_every_kind_of_text_comes_back(self):
        for method in ("GET", "POST", "POST_FORM"):
            graph = Graph(self.store(method=method), identifier=EX.g)
            graph.addN((EX[f"s{n}"], EX.text, Literal(text), graph)
                       for n, text in enumerate(endpoint.AWKWARD))
            got = {str(text) for text in graph.objects(None, EX.text)}
            # XML 1.0, rdflib's default, cannot tell a carriage return from a line feed.
            self.assertEqual({text.replace("\r", "\n") for text in got},
                             {text.replace("\r", "\n") for text in endpoint.AWKWARD})
            for text in endpoint.AWKWARD:
                self.assertIn((None, EX.text, Literal(text)), graph)
            graph.remove((None, None, None))

    def test_iris_of_other_scripts(self):
        graph = Graph(self.store(), identifier=URIRef("http://example.org/graphe-é"))
        triple = (URIRef("http://example.org/日本"), EX["ñ"], URIRef("http://example.org/%E2%82%AC"))
        graph.add(triple)
        self.assertEqual(list(graph), [triple])

    def test_typed_and_tagged_literals(self):
        graph = Graph(self.store(), identifier=EX.g)
        values = {Literal(7), Literal(1.5), Literal(True), Literal("fr", lang="fr"),
                  Literal("2020-01-01T00:00:00Z", datatype=XSD.dateTime),
                  Literal("own", datatype=EX.type), Literal("1.10", datatype=XSD.decimal)}
        for value in values:
            graph.add((EX.s, EX.p, value))
        self.assertEqual(set(graph.objects(EX.s, EX.p)), values)

    def test_update_with_bindings_and_prefixes(self):
        graph = Graph(self.store(), identifier=EX.g)
        graph.add((EX.a, EX.p, Literal("old")))
        graph.update("DELETE { ?s ex:p ?old } INSERT { ?s ex:p ?new } WHERE { ?s ex:p ?old }",
                     initNs={"ex": EX}, initBindings={"new": Literal("new")})
        self.assertEqual(graph.value(EX.a, EX.p), Literal("new"))

    def test_changes_wait_for_commit(self):
        store = self.store(autocommit=False)
        graph, beside = Graph(store, identifier=EX.g), Graph(self.store(), identifier=EX.g)
        graph.add((EX.a, EX.p, EX.b))
        self.assertEqual(len(beside), 0)
        store.commit()
        self.assertEqual(len(beside), 1)
        graph.add((EX.a, EX.p, EX.c))
        store.rollback()
        self.assertEqual(len(beside), 1)

    def test_graphs_come_and_go(self):
        dataset = Dataset(store=self.store())
        one, two = dataset.graph(EX.one), dataset.graph(EX.two)
        one.add((EX.a, EX.p, EX.b))
        two.add((EX.a, EX.p, EX.c))
        names = {str(name) for name in dataset.store.contexts()}
        self.assertEqual(names, {str(EX.one), str(EX.two)})
        dataset.remove_graph(two)
        self.assertEqual((len(one), len(two)), (1, 0))

    def test_blank_nodes_by_a_name_of_ones_own(self):
        def named(node):
            return f"<bnode:b{node}>" if isinstance(node, BNode) else node.n3()
        graph = Graph(self.store(node_to_sparql=named), identifier=EX.g)
        node = BNode()
        graph.add((node, EX.p, Literal("blank")))
        self.assertEqual(len(graph), 1)

    def test_a_parsed_file_is_sent_at_once(self):
        graph = Graph(self.store(), identifier=EX.g)
        lines = "".join(f"<{EX}s{n}> <{EX}p> {n} .\n" for n in range(2000))
        graph.addN((*triple, graph) for triple in Graph().parse(data=lines, format="turtle"))
        self.assertEqual(len(graph), 2000)

    def test_errors_tell_what_is_wrong(self):
        for text in ("INSERT DATA { <a> }", "DROP GRAPH <http://example.org/not-there>"):
            with self.assertRaises(HTTPError) as raised:
                Graph(self.store(), identifier=EX.g).update(text)
            self.assertTrue(400 <= raised.exception.code < 500, raised.exception)
            with raised.exception as response:
                self.assertTrue(response.read().strip())


if __name__ == "__main__":
    unittest.main()
