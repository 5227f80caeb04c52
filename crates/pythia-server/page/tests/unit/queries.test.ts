// What the page reads in queries, and the queries it writes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CHOICES, pathQuery, typedIri } from "../../src/explore/path-query.ts";
import { declaration, Prefixes } from "../../src/rdf/prefixes.ts";
import { firstWord } from "../../src/rdf/first-word.ts";

test("updates are told from queries by their first word", () => {
  assert.equal(firstWord("PREFIX insert: <http://delete/#x>\n# INSERT\nselect * {}"), "SELECT");
  assert.equal(firstWord("BASE <http://e/> PREFIX : <> INSERT DATA {}"), "INSERT");
  assert.equal(firstWord('VERSION "1.2"\nPATHS START ?a END ?b VIA ?p'), "PATHS");
  assert.equal(firstWord(""), "");
});

test("IRIs are shortened by what a query declares, then by what everybody knows", () => {
  const prefixes = Prefixes.of("PREFIX ex: <http://e/> prefix : <http://e/deep/>");
  assert.equal(prefixes.shorten("http://e/deep/x"), ":x");
  assert.equal(prefixes.shorten("http://e/x"), "ex:x");
  assert.equal(prefixes.shorten("http://e/x/y"), null);
  assert.equal(prefixes.shorten("http://xmlns.com/foaf/0.1/name"), "foaf:name");
});

test("a declaration goes behind those there are, once", () => {
  const query = "# a comment\nPREFIX a: <http://a/>\nSELECT * {}";
  const added = declaration(query, "b", "http://b/");
  assert.ok(added);
  assert.equal(
    query.slice(0, added.at) + added.text + query.slice(added.at),
    "# a comment\nPREFIX a: <http://a/>\nPREFIX b: <http://b/>\nSELECT * {}",
  );
  assert.equal(declaration(query, "a", "http://a/"), null);
  assert.equal(declaration("SELECT * {}", "b", "http://b/")?.at, 0);
});

test("a form of paths is a PATHS query", () => {
  const ends = { ...CHOICES, from: "http://e/a", to: "http://e/b" };
  assert.equal(
    pathQuery(ends),
    "PATHS SHORTEST 3 ACYCLIC\nSTART ?start = <http://e/a>\nEND ?end = <http://e/b>\n" +
      "VIA !(<urn:pythia:path#none>|^<urn:pythia:path#none>)+\nMAX LENGTH 6\nLIMIT 100",
  );
  const chosen = pathQuery({
    ...ends, which: "all-shortest", direction: "forward", predicates: "only", listed: ["http://e/p", "http://e/q"],
    weight: "http://e/w", type: "http://e/T", condition: "{ ?to <http://e/x> ?x }",
  });
  assert.match(chosen, /^PATHS ALL SHORTEST$/m);
  assert.match(chosen, /^VIA \(<http:\/\/e\/p>\|<http:\/\/e\/q>\)\+$/m);
  assert.match(chosen, /^WEIGHT OPTIONAL <http:\/\/e\/w>$/m);
  assert.match(chosen, /^WHERE \{ \?to <http:\/\/e\/x> \?x FILTER\(\?to = <http:\/\/e\/b> \|\| EXISTS/m);
  const without = pathQuery({ ...ends, direction: "backward", predicates: "not", listed: ["http://e/p"] });
  assert.match(without, /^VIA !\(\^<http:\/\/e\/p>\)\+$/m);
});

test("only whole IRIs count as typed", () => {
  assert.equal(typedIri(" <http://e/a> "), "http://e/a");
  assert.equal(typedIri("urn:x:y"), "urn:x:y");
  assert.equal(typedIri("Nicolas Sarkozy"), null);
  assert.equal(typedIri('http://e/">'), null);
});
