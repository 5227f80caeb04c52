// Comunica: query forms, updates, and the federation of two datasets of one server.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { beforeEach, test } from 'node:test';

// The packages are in the cache, beside no file of this repository.
const require = createRequire(`${process.env.PYTHIA_CLIENTS_MODULES}/`);
const { QueryEngine } = require('@comunica/query-sparql');

const url = process.env.PYTHIA_URL;
const other = process.env.PYTHIA_OTHER_URL;
const source = { type: 'sparql', value: `${url}/query` };
const otherSource = { type: 'sparql', value: `${other}/query` };
const ex = 'http://example.org/';
const awkward = ['plain', 'Ünïcödé', '日本語', '🙂', 'a "quoted" part', 'two\nlines', 'tab\tand', 'back\\slash', '<tag> &', ''];

async function update(base, text) {
  const response = await fetch(`${base}/update`, {
    method: 'POST', headers: { 'content-type': 'application/sparql-update' }, body: text,
  });
  assert.ok(response.ok, `${response.status} ${await response.text()}`);
}

async function rows(text, context = { sources: [source] }) {
  const bindings = await (await new QueryEngine().queryBindings(text, context)).toArray();
  return bindings.map((binding) => Object.fromEntries([...binding].map(([name, term]) => [name.value, term.value])));
}

beforeEach(async () => {
  await update(url, `PREFIX ex: <${ex}> DROP ALL ; INSERT DATA {
    ex:ann ex:name "Ann" ; ex:knows ex:bob , ex:cid . ex:bob ex:name "Bob"@en ; ex:age 42 .
    GRAPH ex:g { ex:cid ex:name "Cid" } }`);
  await update(other, `PREFIX ex: <${ex}> DROP ALL ; INSERT DATA {
    ex:bob ex:city "Bonn" . ex:cid ex:city "Graz" . ex:dan ex:city "Oslo" }`);
});

test('SELECT with filters, optionals and order', async () => {
  assert.deepEqual(
    await rows(`SELECT ?name ?age { ?s <${ex}name> ?name OPTIONAL { ?s <${ex}age> ?age } } ORDER BY ?name`),
    [{ name: 'Ann' }, { name: 'Bob', age: '42' }]);
  assert.deepEqual(await rows(`SELECT (COUNT(*) AS ?n) { ?s ?p ?o FILTER(?p != <${ex}age>) }`), [{ n: '4' }]);
  assert.deepEqual(await rows(`SELECT ?g ?name { GRAPH ?g { ?s <${ex}name> ?name } }`), [{ g: `${ex}g`, name: 'Cid' }]);
  assert.deepEqual(await rows(`SELECT ?x { <${ex}ann> <${ex}knows>/<${ex}name> ?x }`), [{ x: 'Bob' }]);
});

test('terms keep language and datatype', async () => {
  const stream = await new QueryEngine().queryBindings(
    `SELECT ?name ?age { <${ex}bob> <${ex}name> ?name ; <${ex}age> ?age }`, { sources: [source] });
  const [binding] = await stream.toArray();
  assert.equal(binding.get('name').language, 'en');
  assert.equal(binding.get('age').datatype.value, 'http://www.w3.org/2001/XMLSchema#integer');
});

test('ASK, CONSTRUCT and DESCRIBE', async () => {
  const engine = new QueryEngine();
  assert.equal(await engine.queryBoolean(`ASK { ?s <${ex}age> 42 }`, { sources: [source] }), true);
  assert.equal(await engine.queryBoolean(`ASK { ?s <${ex}age> 43 }`, { sources: [source] }), false);
  const made = await (await engine.queryQuads(
    `CONSTRUCT { ?o <${ex}knownBy> ?s } WHERE { ?s <${ex}knows> ?o }`, { sources: [source] })).toArray();
  assert.deepEqual(made.map((quad) => quad.subject.value).sort(), [`${ex}bob`, `${ex}cid`]);
  const described = await (await engine.queryQuads(`DESCRIBE <${ex}bob>`, { sources: [source] })).toArray();
  assert.equal(described.length, 2);
});

test('an endpoint is recognised by its service description', async () => {
  assert.deepEqual(await rows(`SELECT ?age { ?s <${ex}age> ?age }`, { sources: [`${url}/sparql`] }), [{ age: '42' }]);
});

test('a whole query is handed over, or cut into pieces', async () => {
  const text = `SELECT ?name ?city { ?s <${ex}name> ?name } ORDER BY ?name`;
  const whole = await rows(text, { sources: [source] });
  const pieces = await rows(text, { sources: [source, otherSource] });
  assert.deepEqual(whole, pieces);
});

test('two datasets of one server are joined', async () => {
  const expected = [{ name: 'Bob', city: 'Bonn' }];
  const text = `SELECT ?name ?city { ?s <${ex}name> ?name . ?s <${ex}city> ?city } ORDER BY ?name`;
  assert.deepEqual(await rows(text, { sources: [source, otherSource] }), expected);
  const service = `SELECT ?name ?city { ?s <${ex}name> ?name SERVICE <${other}/query> { ?s <${ex}city> ?city } }`;
  const federated = await rows(service, { sources: [{ type: 'sparql', value: `${url}/query` }, otherSource] });
  assert.deepEqual(federated, expected);
});

test('a federation over many bindings', async () => {
  const triples = (p) => Array.from({ length: 300 }, (_, n) => `<${ex}n${n}> <${ex}${p}> ${n} .`).join('\n');
  await update(url, `DROP ALL ; INSERT DATA { ${triples('left')} }`);
  await update(other, `DROP ALL ; INSERT DATA { ${triples('right')} }`);
  const found = await rows(`SELECT ?s ?l ?r { ?s <${ex}left> ?l . ?s <${ex}right> ?r }`,
    { sources: [source, otherSource] });
  assert.equal(found.length, 300);
  assert.ok(found.every((row) => row.l === row.r));
});

test('updates of every kind', async () => {
  const destination = { type: 'sparql', value: `${url}/update` };
  const change = (text) => new QueryEngine().queryVoid(text, { sources: [source], destination });
  await change(`INSERT DATA { <${ex}new> <${ex}name> "Neu" }`);
  assert.deepEqual(await rows(`SELECT ?n { <${ex}new> <${ex}name> ?n }`), [{ n: 'Neu' }]);
  await change(`DELETE DATA { <${ex}new> <${ex}name> "Neu" }`);
  assert.deepEqual(await rows(`SELECT ?n { <${ex}new> <${ex}name> ?n }`), []);
  await change(`DELETE { ?s <${ex}age> ?a } INSERT { ?s <${ex}age> ?b } WHERE { ?s <${ex}age> ?a BIND(?a + 1 AS ?b) }`);
  assert.deepEqual(await rows(`SELECT ?a { ?s <${ex}age> ?a }`), [{ a: '43' }]);
  await change(`DROP GRAPH <${ex}g>`);
  assert.deepEqual(await rows('SELECT ?g { GRAPH ?g { ?s ?p ?o } }'), []);
});

test('every kind of text comes back', async () => {
  const destination = { type: 'sparql', value: `${url}/update` };
  const literals = awkward.map((text, n) => `<${ex}t${n}> <${ex}text> ${JSON.stringify(text)} .`).join('\n');
  await new QueryEngine().queryVoid(`INSERT DATA { ${literals} }`, { sources: [source], destination });
  const found = await rows(`SELECT ?t { ?s <${ex}text> ?t }`);
  assert.deepEqual(new Set(found.map((row) => row.t)), new Set(awkward));
});

test('large results', async () => {
  const triples = Array.from({ length: 20000 }, (_, n) => `<${ex}n${n}> <${ex}value> ${n} .`).join('\n');
  await update(url, `DROP ALL ; INSERT DATA { ${triples} }`);
  const found = await rows(`SELECT ?v { ?s <${ex}value> ?v }`);
  assert.equal(new Set(found.map((row) => row.v)).size, 20000);
});

test('errors tell what is wrong', async () => {
  const raw = { type: 'sparql', value: `${url}/nothing-here` };
  await assert.rejects(rows('SELECT * { ?s ?p ?o }', { sources: [raw] }), /404/);
  const destination = { type: 'sparql', value: `${url}/update` };
  await assert.rejects(new QueryEngine().queryVoid(`CREATE GRAPH <${ex}g>`, { sources: [source], destination }), /HTTP status 4\d\d/);
});
