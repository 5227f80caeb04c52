// Reading results while they arrive.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseLine } from "../../src/rdf/ntriples.ts";
import { ResultReader, type Row } from "../../src/server/result-stream.ts";

const TABLE = `{"head":{"vars":["a","b"]},"results":{"bindings":[{"a":{"type":"uri","value":"http://e/[{"}},
{"a":{"type":"literal","value":"quote \\" and } and ]"},"b":{"type":"literal","value":"x","path":{"nodes":[{"type":"uri","value":"u"}],"edges":[]}}},{}]}}`;

function read(text: string, size: number): { reader: ResultReader; rows: Row[]; early: boolean } {
  const reader = new ResultReader();
  const rows: Row[] = [];
  let early = false;
  for (let at = 0; at < text.length; at += size) {
    rows.push(...reader.push(text.slice(at, at + size)));
    early ||= rows.length > 0 && rows.length < 3 && reader.columns !== null;
  }
  return { reader, rows, early };
}

test("rows are the same in whatever pieces they arrive", () => {
  const { results } = JSON.parse(TABLE) as { results: { bindings: Row[] } };
  for (const size of [1, 2, 3, 7, 50, 10_000]) {
    const { reader, rows, early } = read(TABLE, size);
    reader.end();
    assert.deepEqual(rows, results.bindings, `pieces of ${size}`);
    assert.deepEqual(reader.columns, ["a", "b"]);
    if (size < 50) assert.ok(early, "columns and rows are there before the end");
  }
});

test("an empty table has its columns", () => {
  const { reader, rows } = read('{"head":{"vars":["x"]},"results":{"bindings":[ ]}}', 4);
  reader.end();
  assert.deepEqual([reader.columns, rows], [["x"], []]);
});

test("the answer of an ASK is read", () => {
  const { reader } = read('{"head":{},"boolean":true}', 5);
  reader.end();
  assert.equal(reader.boolean, true);
});

test("a result that is cut is not taken for a whole one", () => {
  for (const length of [TABLE.length - 1, TABLE.length - 3, 80, 0]) {
    const { reader } = read(TABLE.slice(0, length), 11);
    assert.throws(() => reader.end(), SyntaxError, `cut at ${length}`);
  }
});

test("N-Triples have all kinds of terms", () => {
  assert.deepEqual(parseLine('<http://e/s> <http://e/p> "a\\"b\\u00e9\\n"@en .'), {
    subject: { type: "uri", value: "http://e/s" },
    predicate: { type: "uri", value: "http://e/p" },
    object: { type: "literal", value: 'a"bé\n', "xml:lang": "en" },
  });
  const nested = parseLine('_:b <http://e/p> <<( <http://e/s> <http://e/p> "1"^^<http://e/t> )>> .');
  assert.equal(nested?.subject.type, "bnode");
  assert.deepEqual(nested?.object.type === "triple" ? nested.object.value.object : null, {
    type: "literal", value: "1", datatype: "http://e/t",
  });
  assert.equal(parseLine("# nothing"), null);
  assert.throws(() => parseLine("<http://e/s> nonsense"), SyntaxError);
});
