// Terms, places and graphs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Draft, EMPTY, MOST_NODES } from "../../src/graph/model.ts";
import { iri, localName, numberOf, termKey, timeOf, WKT, XSD, type Literal } from "../../src/rdf/term.ts";
import { placesOf } from "../../src/results/places.ts";

const literal = (value: string, datatype: string): Literal => ({ type: "literal", value, datatype });
const wkt = (value: string) => placesOf(["x"], [{ x: literal(value, WKT) }])[0];

test("things are named by the last part of their IRI", () => {
  assert.equal(localName("http://e/resource/Nicolas_Sarkozy"), "Nicolas Sarkozy");
  assert.equal(localName("http://e/ns#caf%C3%A9"), "café");
  assert.equal(localName("http://e/bad%"), "bad%");
  assert.equal(localName("http://e/"), "e");
});

test("numbers and times are read by their datatypes", () => {
  assert.equal(numberOf(literal("1.5", `${XSD}decimal`)), 1.5);
  assert.equal(numberOf(literal("1.5", `${XSD}string`)), null);
  assert.equal(numberOf(literal("NaN", `${XSD}double`)), null);
  assert.equal(timeOf(literal("1969-12-31", `${XSD}date`)), -86_400_000);
  assert.ok((timeOf(literal("0099", `${XSD}gYear`)) ?? 0) < -5e13);
});

test("places are read from WKT and from two columns", () => {
  assert.deepEqual(wkt("POINT(2.35 48.85)"), { row: 0, shape: "point", parts: [[[2.35, 48.85]]] });
  assert.deepEqual(wkt("<http://www.opengis.net/def/crs/EPSG/0/4326> POINT(48.85 2.35)")?.parts, [[[2.35, 48.85]]]);
  assert.equal(wkt("<http://www.opengis.net/def/crs/EPSG/0/3857> POINT(1 2)"), undefined);
  assert.equal(wkt("POLYGON((0 0, 1 0, 1 1, 0 0),(0.2 0.2, 0.4 0.2, 0.3 0.3, 0.2 0.2))")?.parts.length, 2);
  const row = { lat: literal("10", `${XSD}double`), long: literal("20", `${XSD}double`) };
  assert.deepEqual(placesOf(["lat", "long"], [row, {}])[0]?.parts, [[[20, 10]]]);
});

test("collapsing a node takes what hangs on it alone", () => {
  const draft = new Draft(EMPTY);
  const [a, b, c, d] = ["a", "b", "c", "d"].map((name) => draft.node(iri(`http://e/${name}`)));
  draft.edge(a ?? null, "http://e/p", b ?? null);
  draft.edge(a ?? null, "http://e/p", c ?? null);
  draft.edge(c ?? null, "http://e/p", d ?? null);
  draft.collapse(a ?? "");
  const { nodes, edges } = draft.done();
  assert.deepEqual([...nodes.keys()], [a, c, d]);
  assert.equal(edges.size, 2);
});

test("paths share nodes, and inverse edges point back", () => {
  const draft = new Draft();
  const nodes = ["a", "b", "c"].map((name) => iri(`http://e/${name}`));
  draft.path({ nodes, edges: [{ inverse: false, predicate: iri("http://e/p") }, { inverse: true, predicate: iri("http://e/q") }] });
  const graph = draft.done();
  assert.equal(graph.nodes.get(termKey(iri("http://e/c")))?.end, "end");
  assert.ok(graph.edges.has("<http://e/c> http://e/q <http://e/b>"));
});

test("a drawing holds a limited number of nodes", () => {
  const draft = new Draft();
  for (let at = 0; at < MOST_NODES + 5; at++) draft.node(iri(`http://e/${at}`));
  assert.equal(draft.done().nodes.size, MOST_NODES);
  assert.equal(draft.refused, 5);
});
