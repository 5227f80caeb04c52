// The query view, as somebody uses it.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { assertAccessible, type Bench, finished, open, picture, run, write, YAGO } from "./support.ts";

const PREDICATES = "SELECT ?predicate (COUNT(*) AS ?triples) { ?s ?predicate ?o } GROUP BY ?predicate ORDER BY DESC(?triples)";
/** It would take days. */
const ENDLESS = "SELECT (COUNT(*) AS ?n) { ?a ?p ?b . ?c ?q ?d . ?e ?r ?f FILTER(STR(?b) < STR(?d) && STR(?d) < STR(?f)) }";

let bench: Bench;
before(async () => { bench = await open(); });
after(() => bench.close());

test("a query is written with completion from the data, and run", async () => {
  const page = await bench.page();
  await write(page, "SELECT ?child { <" + YAGO + "Nicolas_Sarkozy> ");
  await page.keyboard.type("hasCh");
  // While suggestions for more letters are on their way, the list of fewer letters stays, disabled: clicks do nothing.
  const list = page.locator(".cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled)");
  const option = list.getByRole("option", { name: /hasChild/ }).first();
  await option.waitFor();
  await picture(page, "query-completion");
  await option.click();
  await page.locator(".cm-content").filter({ hasText: "hasChild" }).waitFor();
  await page.keyboard.type(" ?child }");
  await page.keyboard.press("ControlOrMeta+Enter");
  await finished(page, /^2 results in/);
  await page.getByRole("link", { name: /Hollande/ }).waitFor();
  await picture(page, "query-table");
});

test("a well-known prefix declares itself", async () => {
  const page = await bench.page();
  await write(page, "");
  await page.keyboard.type("SELECT * { ?s rdfs:");
  await page.getByText("PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>").waitFor();
});

test("results are sorted, filtered, charted and downloaded", async () => {
  const page = await bench.page();
  await run(page, PREDICATES);
  await finished(page, /^43 results in/);
  const first = () => page.locator("tbody tr td:nth-child(2)").first().innerText();
  assert.equal(await first(), "rdf:type");
  await page.getByRole("button", { name: "triples" }).click();
  assert.notEqual(await first(), "rdf:type");
  await page.getByPlaceholder("Filter").fill("hasCh");
  await page.getByText("1 row of 43").waitFor();
  assert.match(await first(), /hasChild/);
  await page.getByRole("tab", { name: "Chart" }).click();
  await page.getByRole("img", { name: "Bars of triples by predicate, 43 values" }).waitFor();
  await picture(page, "query-chart");
  for (const kind of ["line", "scatter", "share"]) await page.getByRole("combobox", { name: /^Chart/ }).selectOption(kind);
  await picture(page, "query-shares");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
  assert.match(await readFile(await file.path(), "utf8"), /^predicate,triples\r\n/);
});

test("places are drawn on a map", async () => {
  const page = await bench.page();
  await run(page, `PREFIX y: <${YAGO}> SELECT ?place ?latitude ?longitude { ?place y:hasLatitude ?latitude ; y:hasLongitude ?longitude } LIMIT 400`);
  await page.getByRole("tab", { name: "Map" }).click();
  await page.getByRole("group", { name: /^Map of 400 places/ }).waitFor();
  await page.locator("path.land").waitFor({ state: "attached" });
  await picture(page, "query-map");
  await assertAccessible(page, "the map");
});

test("a long query shows its progress and is cancelled, here and on the server", async () => {
  const page = await bench.page();
  await run(page, ENDLESS);
  await page.locator(".progress .plan").waitFor();
  await picture(page, "query-progress");
  await page.keyboard.press("Escape");
  await finished(page, /^Cancelled after/);
  const running = async () => (await (await fetch(`${bench.url}/$/queries`)).json() as { queries: unknown[] }).queries.length;
  const end = Date.now() + 10_000;
  while (await running() > 0) assert.ok(Date.now() < end, "the server works on");
});

test("a mistake is shown where it is", async () => {
  const page = await bench.page();
  await run(page, "SELECT * {\n  ?s nowhere:name ?o\n}");
  const problem = page.getByRole("alert");
  await problem.waitFor();
  assert.match(await problem.innerText(), /nowhere/);
  await page.locator(".cm-lintRange-error").waitFor();
});

test("a plan is shown, and measured", async () => {
  const page = await bench.page();
  await write(page, `PREFIX y: <${YAGO}> SELECT ?a ?b { ?a y:hasChild ?b . ?b y:wasBornIn y:Paris }`);
  await page.getByRole("button", { name: "Plan" }).click();
  await finished(page, "Planned in");
  assert.ok(await page.locator(".plan .part").count() > 1);
  await page.getByRole("button", { name: "Measure" }).click();
  await finished(page, "Measured in");
  await page.locator(".plan meter").first().waitFor();
  await picture(page, "query-plan");
});

test("triples and paths are drawn as graphs", async () => {
  const page = await bench.page();
  await run(page, `CONSTRUCT WHERE { <${YAGO}Nicolas_Sarkozy> <${YAGO}hasChild> ?child }`);
  await finished(page, /^2 triples in/);
  await page.getByRole("group", { name: /^Graph of 3 nodes/ }).waitFor();
  await picture(page, "query-graph");
  await run(page, `PATHS START ?a = <${YAGO}Nicolas_Sarkozy> END ?b = <${YAGO}Athens> VIA ?p MAX LENGTH 6`);
  await finished(page, /^1 result in/);
  await page.getByRole("tab", { name: "Graph" }).click();
  await page.getByRole("button", { name: /^Athens, end of the paths/ }).waitFor();
});

test("queries are kept in tabs, and shared by links", async () => {
  const page = await bench.page();
  await page.getByRole("button", { name: "New query" }).click();
  await write(page, "ASK {}");
  await page.getByRole("button", { name: "Copy link" }).click();
  const shared = await page.evaluate(() => navigator.clipboard.readText());
  await page.reload();
  await page.getByText("ASK {}").waitFor();
  const other = await bench.page();
  await other.goto(shared);
  await other.getByText("ASK {}").waitFor();
  await other.keyboard.press("Escape");
  await other.getByRole("button", { name: /^Run/ }).click();
  await other.locator(".answer", { hasText: "Yes" }).waitFor();
});

test("a link that is opened while the page writes its own address is followed", async () => {
  const page = await bench.page();
  await page.getByRole("button", { name: "Query 1", exact: true }).waitFor();
  await page.evaluate(() => {
    location.hash = "#/query?query=ASK+%7B%7D";
    // Writes the address of the chosen tab, before the browser tells of the other one.
    document.querySelector<HTMLButtonElement>(".query-tabs li button")?.click();
  });
  await page.getByText("ASK {}").waitFor();
});

test("a huge result is cut to what the page keeps, and says so", async () => {
  const page = await bench.page();
  await run(page, "SELECT * { ?s ?p ?o }");
  await finished(page, /^The first 20,000 results in/);
  await page.locator(".table-scroll").evaluate((table) => { table.scrollTop = table.scrollHeight; });
  await page.getByRole("cell", { name: "20000", exact: true }).waitFor();
});
