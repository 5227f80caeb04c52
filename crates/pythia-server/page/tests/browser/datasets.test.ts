// Several datasets, several tabs: what runs is what is shown, where it is shown.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import type { Page } from "playwright-core";
import { assertAccessible, assertFits, type Bench, finished, open, picture, run, write, YAGO } from "./support.ts";

const SHIRE = `
<http://shire/Bilbo> <http://shire/uncleOf> <http://shire/Frodo> .
<http://shire/Drogo> <http://shire/fatherOf> <http://shire/Frodo> .
`;
/** Each run of it adds a solution of RUNS. */
const COUNT_RUN = `INSERT { <http://ran/it> <http://ran/times> ?n } WHERE {
  SELECT (COUNT(*) AS ?n) { <http://ran/it> <http://ran/times> ?before }
}`;
const RUNS = "SELECT ?n { <http://ran/it> <http://ran/times> ?n }";
const ALL = "SELECT * { ?s ?p ?o }";

let bench: Bench;
before(async () => { bench = await open({ datasets: { shire: SHIRE } }); });
after(() => bench.close());

/** How many updates ran in a dataset. */
async function runs(dataset: string): Promise<number> {
  const answer = await fetch(`${bench.url}/${dataset}/query?query=${encodeURIComponent(RUNS)}`);
  const { results } = await answer.json() as { results: { bindings: unknown[] } };
  return results.bindings.length;
}

const selector = (page: Page) => page.getByRole("combobox", { name: "Dataset" });
const view = (page: Page, name: string) => page.getByRole("navigation", { name: "Views" }).getByRole("link", { name }).click();
const tabNamed = (page: Page, name: string) =>
  page.getByRole("navigation", { name: "Queries" }).getByRole("button", { name, exact: true }).click();

/** The dataset that the address names. */
const inAddress = (page: Page) => new URLSearchParams(new URL(page.url()).hash.split("?")[1]).get("dataset");

test("after another view, Control and Enter run what the editor shows then", async () => {
  const page = await bench.page({ at: "#/query?dataset=yago" });
  const before = await runs("yago");
  await run(page, COUNT_RUN);
  await finished(page, /^Updated in/);
  await view(page, "Statistics");
  await page.getByRole("heading", { name: "Running queries" }).waitFor();
  await view(page, "Query");
  await run(page, "ASK { ?s ?p ?o }");
  await finished(page, /^Yes in/);
  assert.equal(await runs("yago"), before + 1, "the update ran again where a query was shown");
});

test("after another tab, Control and Enter run what the editor shows then", async () => {
  const page = await bench.page({ at: "#/query?dataset=yago" });
  const before = await runs("yago");
  await run(page, COUNT_RUN);
  await finished(page, /^Updated in/);
  await page.getByRole("button", { name: "New query" }).click();
  await run(page, "ASK {}");
  await finished(page, /^Yes in/);
  await view(page, "Explore");
  await page.getByRole("heading", { name: "Explore" }).waitFor();
  await view(page, "Query");
  await tabNamed(page, "Query 1 yago");
  await run(page, "SELECT * {}");
  await finished(page, /^1 result in/);
  await tabNamed(page, "Query 2 yago");
  await page.getByRole("textbox", { name: /SPARQL query/ }).click();
  await page.keyboard.press("ControlOrMeta+Enter");
  await finished(page, /^Yes in/);
  assert.equal(await runs("yago"), before + 1);
});

test("after another dataset was chosen, Control and Enter run what is shown, there", async () => {
  const page = await bench.page({ at: "#/query?dataset=yago" });
  const before = [await runs("yago"), await runs("shire")];
  await run(page, COUNT_RUN);
  await finished(page, /^Updated in/);
  await selector(page).selectOption("shire");
  await run(page, ALL);
  await finished(page, /^2 results in/);
  assert.deepEqual([await runs("yago"), await runs("shire")], [before[0]! + 1, before[1]]);
});

test("what was typed can be undone after another view", async () => {
  const page = await bench.page();
  await write(page, "ASK {}");
  await write(page, "ASK { ?s ?p ?o }");
  await view(page, "Statistics");
  await page.getByRole("heading", { name: "Running queries" }).waitFor();
  await view(page, "Query");
  await page.getByRole("textbox", { name: /SPARQL query/ }).click();
  await page.keyboard.press("ControlOrMeta+z");
  await page.keyboard.press("ControlOrMeta+Enter");
  await page.getByText("ASK {}").waitFor();
  await finished(page, /^Yes in/);
});

test("completion comes from the dataset that is shown", async () => {
  const page = await bench.page({ at: "#/query?dataset=yago" });
  await write(page, "SELECT * { ?s ");
  await selector(page).selectOption("shire");
  await page.getByRole("textbox", { name: /SPARQL query/ }).click();
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.type("uncle");
  await page.getByRole("option", { name: /uncleOf/ }).first().waitFor();
});

test("the address names the dataset, and a reload stays in it", async () => {
  const page = await bench.page();
  await selector(page).waitFor();
  assert.equal(inAddress(page), "shire", "the first by name");
  await selector(page).selectOption("yago");
  assert.equal(inAddress(page), "yago");
  assert.equal(await page.title(), "Query · yago · Pythia");
  await page.reload();
  assert.equal(await selector(page).inputValue(), "yago");
  await run(page, `ASK { <${YAGO}Nicolas_Sarkozy> ?p ?o }`);
  await finished(page, /^Yes in/);
  await view(page, "Statistics");
  await page.getByRole("heading", { name: "yago" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "yago" }).waitFor();
  assert.equal(await page.title(), "Statistics · yago · Pythia");
  const description = await page.getByRole("link", { name: /VoID/ }).getAttribute("href");
  assert.ok((await fetch(description ?? "")).ok, description ?? "no link");
  // Without a name in the address, the page goes on where it was.
  await page.goto(`${bench.url}/#/query`);
  await page.reload();
  await selector(page).waitFor();
  assert.equal(inAddress(page), "yago");
});

test("a copied link opens its query in its dataset", async () => {
  const page = await bench.page({ at: "#/query?dataset=shire" });
  await write(page, ALL);
  await page.getByRole("button", { name: "Copy link" }).click();
  const shared = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(new URLSearchParams(new URL(shared).hash.split("?")[1]).get("dataset"), "shire");
  const other = await bench.page();
  await selector(other).waitFor();
  await other.goto(shared);
  await other.getByText(ALL).waitFor();
  assert.equal(await selector(other).inputValue(), "shire");
  await other.getByRole("button", { name: /^Run/ }).click();
  await finished(other, /^2 results in/);
});

test("each tab stays in its dataset", async () => {
  const page = await bench.page({ at: "#/query?dataset=yago" });
  await write(page, "SELECT ?child { <" + YAGO + "Nicolas_Sarkozy> <" + YAGO + "hasChild> ?child }");
  await page.getByRole("button", { name: "New query" }).click();
  await selector(page).selectOption("shire");
  await run(page, ALL);
  await finished(page, /^2 results in/);
  await tabNamed(page, "Query 1 yago");
  assert.equal(await selector(page).inputValue(), "yago");
  assert.equal(inAddress(page), "yago");
  await page.getByRole("textbox", { name: /SPARQL query/ }).click();
  await page.keyboard.press("ControlOrMeta+Enter");
  await finished(page, /^2 results in/);
  await page.getByRole("link", { name: /Hollande|Sarkozy/ }).first().waitFor();
  await assertAccessible(page, "tabs of two datasets");
  await page.reload();
  assert.equal(await selector(page).inputValue(), "yago");
  await tabNamed(page, "Query 2 shire");
  assert.equal(await selector(page).inputValue(), "shire");
  await page.getByRole("button", { name: /^Run/ }).click();
  await finished(page, /^2 results in/);
  // What is opened beside it, too, and what is left when it is closed.
  await page.getByRole("button", { name: "New query" }).click();
  assert.equal(inAddress(page), "shire");
  await page.getByRole("button", { name: "Close Query 3" }).click();
  await page.getByRole("button", { name: "Close Query 2" }).click();
  assert.equal(inAddress(page), "yago");
  await picture(page, "datasets");
});

test("results lead to the dataset they came from", async () => {
  const page = await bench.page({ at: "#/query?dataset=shire" });
  await run(page, ALL);
  await finished(page, /^2 results in/);
  await selector(page).selectOption("yago");
  await page.locator(".summary", { hasText: "in shire" }).waitFor();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
  assert.match(await readFile(await file.path(), "utf8"), /uncleOf/);
  await page.getByRole("link", { name: /Bilbo/ }).click();
  await page.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "uncleOf" }).waitFor();
  assert.equal(await selector(page).inputValue(), "shire");
});

test("the explorer begins again in another dataset", async () => {
  const page = await bench.page({ at: `#/explore?dataset=shire&node=${encodeURIComponent("http://shire/Bilbo")}` });
  await page.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "uncleOf" }).waitFor();
  await selector(page).selectOption("yago");
  await page.getByText("Choose a thing to see its neighbours.").waitFor();
  assert.equal(inAddress(page), "yago");
  assert.equal(await page.getByRole("combobox", { name: "From" }).inputValue(), "");
  await page.goBack();
  await page.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "uncleOf" }).waitFor();
  assert.equal(await selector(page).inputValue(), "shire");
});

test("an answer that comes late is not drawn into another dataset", async () => {
  const page = await bench.page({ at: "#/explore?dataset=yago" });
  let answer = () => {};
  const asked = new Promise<void>((resolve) => {
    void page.route("**/shire/node?**", async (route) => {
      resolve();
      await new Promise<void>((now) => { answer = now; });
      await route.continue();
    });
  });
  await page.goto(`${bench.url}/#/explore?dataset=shire&node=${encodeURIComponent("http://shire/Bilbo")}`);
  await asked;
  await selector(page).selectOption("yago");
  await page.getByText("Choose a thing to see its neighbours.").waitFor();
  const answered = page.waitForResponse(/shire\/node/);
  answer();
  await (await answered).finished();
  // A drawing would be made in the next task.
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 0)));
  assert.equal(await page.locator("g.node").count(), 0);
});

test("a dataset that is not there is named, and another can be chosen", async () => {
  const page = await bench.page({ at: "#/statistics?dataset=mordor" });
  const problem = page.getByRole("alert");
  await problem.waitFor();
  assert.match(await problem.innerText(), /This server has no dataset mordor/);
  await assertAccessible(page, "no such dataset");
  await selector(page).selectOption("shire");
  await page.getByRole("heading", { name: "shire" }).waitFor();
  assert.equal(await problem.count(), 0);
});

test("datasets fit on a phone", async () => {
  const page = await bench.page({ phone: true, at: "#/query?dataset=shire" });
  await run(page, ALL);
  await finished(page, /^2 results in/);
  await assertFits(page);
  await picture(page, "phone-datasets");
});
