"""SPARQLWrapper: methods, formats, parameters, updates, errors."""

import unittest
import warnings

import rdflib
from SPARQLWrapper import (
    CSV, GET, JSON, JSONLD, N3, POST, POSTDIRECTLY, RDFXML, TSV, TURTLE, URLENCODED, XML,
    SPARQLWrapper, SPARQLWrapper2)
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

import endpoint

NAMES = "SELECT ?s ?name { ?s <http://example.org/name> ?name } ORDER BY ?name"


def ask(text, returned=JSON, method=GET, how=URLENCODED):
    """The answer, as the wrapper converts it."""
    wrapper = SPARQLWrapper(endpoint.QUERY)
    wrapper.setQuery(text)
    wrapper.setMethod(method)
    wrapper.setRequestMethod(how)
    wrapper.setReturnFormat(returned)
    return wrapper.query()


class Reading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        endpoint.fill('ex:ann ex:name "Ann" ; ex:knows ex:bob . ex:bob ex:name "Bob"@en . '
                      'GRAPH ex:g { ex:cid ex:name "Cid" }')

    def test_select_in_every_format_by_every_method(self):
        for method, how in ((GET, URLENCODED), (POST, URLENCODED), (POST, POSTDIRECTLY)):
            with self.subTest(method=method, how=how):
                rows = ask(NAMES, JSON, method, how).convert()["results"]["bindings"]
                self.assertEqual([row["name"]["value"] for row in rows], ["Ann", "Bob"])
                self.assertEqual(rows[1]["name"]["xml:lang"], "en")
                document = ask(NAMES, XML, method, how).convert()
                self.assertEqual(len(document.getElementsByTagName("result")), 2)
                lines = ask(NAMES, CSV, method, how).convert().decode().split("\r\n")
                self.assertEqual(lines, ["s,name", f"{endpoint.EX}ann,Ann", f"{endpoint.EX}bob,Bob", ""])
                lines = ask(NAMES, TSV, method, how).convert().decode().splitlines()
                self.assertEqual(lines[0], "?s\t?name")

    def test_ask(self):
        for returned in (JSON, XML):
            answer = ask("ASK { ?s ?p ?o }", returned).convert()
            if returned == JSON:
                self.assertIs(answer["boolean"], True)
            else:
                self.assertIn("true", answer.toxml())

    def test_graphs_in_every_format(self):
        text = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"
        for returned in (RDFXML, XML):
            self.assertEqual(len(ask(text, returned).convert()), 3)
        for returned, name in ((TURTLE, "turtle"), (N3, "n3")):
            got = ask(text, returned).convert()
            self.assertEqual(len(rdflib.Graph().parse(data=got, format=name)), 3)
        self.assertEqual(len(ask(text, JSONLD).convert()), 3)
        self.assertEqual(len(ask("DESCRIBE <http://example.org/ann>", RDFXML).convert()), 2)

    def test_the_second_wrapper_binds_by_name(self):
        wrapper = SPARQLWrapper2(endpoint.QUERY)
        wrapper.setQuery(NAMES)
        result = wrapper.query()
        self.assertEqual(result.variables, ["s", "name"])
        self.assertEqual([row["name"].value for row in result.bindings], ["Ann", "Bob"])

    def test_default_and_named_graphs_as_parameters(self):
        wrapper = SPARQLWrapper(endpoint.QUERY)
        wrapper.setReturnFormat(JSON)
        wrapper.addParameter("default-graph-uri", "http://example.org/g")
        wrapper.setQuery(NAMES)
        rows = wrapper.queryAndConvert()["results"]["bindings"]
        self.assertEqual([row["name"]["value"] for row in rows], ["Cid"])

    def test_the_wrapper_s_own_parameters_do_no_harm(self):
        # SPARQLWrapper sends format=, output= and results= along, as some servers want them.
        wrapper = SPARQLWrapper(endpoint.QUERY, returnFormat=JSON)
        wrapper.addParameter("infer", "false")
        wrapper.addCustomHttpHeader("X-Whatever", "yes")
        wrapper.setQuery(NAMES)
        self.assertEqual(len(wrapper.queryAndConvert()["results"]["bindings"]), 2)

    def test_a_long_query_is_posted(self):
        values = " ".join(f'"{"long" * 20}{n}"' for n in range(2000))
        text = f'SELECT (COUNT(*) AS ?n) {{ VALUES ?v {{ {values} }} }}'
        rows = ask(text, JSON, POST).convert()["results"]["bindings"]
        self.assertEqual(rows[0]["n"]["value"], "2000")

    def test_errors_tell_what_is_wrong(self):
        for method, how in ((GET, URLENCODED), (POST, URLENCODED), (POST, POSTDIRECTLY)):
            with self.assertRaises(QueryBadFormed) as raised:
                ask("SELECT * { ?s ?p ?o", JSON, method, how)
            self.assertIn("Response", str(raised.exception))

    def test_large_results(self):
        self.addCleanup(self.setUpClass)
        endpoint.numbers(30_000)
        rows = ask("SELECT ?v { ?s ?p ?v }").convert()["results"]["bindings"]
        self.assertEqual(len({row["v"]["value"] for row in rows}), 30_000)


class Writing(unittest.TestCase):
    def test_updates_by_both_posts(self):
        for how in (URLENCODED, POSTDIRECTLY):
            endpoint.fill("")
            wrapper = SPARQLWrapper(endpoint.QUERY, endpoint.UPDATE)
            wrapper.setMethod(POST)
            wrapper.setRequestMethod(how)
            for number, text in enumerate(endpoint.AWKWARD):
                literal = rdflib.Literal(text).n3()
                wrapper.setQuery(f"INSERT DATA {{ <http://example.org/{number}> <http://example.org/p> {literal} }}")
                wrapper.query()
            rows = ask("SELECT ?o { ?s ?p ?o }").convert()["results"]["bindings"]
            self.assertEqual({row["o"]["value"] for row in rows}, set(endpoint.AWKWARD), how)

    def test_errors_tell_what_is_wrong(self):
        wrapper = SPARQLWrapper(endpoint.UPDATE)
        wrapper.setMethod(POST)
        wrapper.setQuery("INSERT DATA { ?variable <http://example.org/p> 1 }")
        with self.assertRaises(QueryBadFormed):
            wrapper.query()


def setUpModule():
    # The wrapper warns of formats that do not fit a query's form before it sends anything.
    warnings.simplefilter("ignore")


if __name__ == "__main__":
    unittest.main()
