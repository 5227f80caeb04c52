// The explorer: paths, neighbourhoods, and the keyboard.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Page } from "playwright-core";
import { assertAccessible, open, picture, YAGO, type Bench } from "./support.ts";

let bench: Bench;
before(async () => { bench = await open(); });
after(() => bench.close());

async function choose(page: Page, box: string, text: string, option: RegExp): Promise<void> {
  await page.getByRole("combobox", { name: box, exact: true }).fill(text);
  await page.getByRole("option", { name: option }).first().click();
}

async function findPaths(page: Page): Promise<void> {
  await choose(page, "From", "Nicolas Sarkozy", /^Nicolas Sarkozy/);
  await choose(page, "To", "Athens", /^Athens/);
  await page.getByRole("button", { name: "Find paths" }).click();
  await page.getByRole("heading", { name: "3 paths" }).waitFor();
}

const node = (page: Page, name: string) => page.getByRole("button", { name: new RegExp(`^${name}.*edges`) });
const nodes = (page: Page) => page.locator("g.node").count();

test("two things are found by name, and the paths between them drawn", async () => {
  const page = await bench.page({ at: "#/explore" });
  await findPaths(page);
  await node(page, "Nicolas Sarkozy, start of the paths").waitFor();
  await node(page, "Athens, end of the paths").waitFor();
  await picture(page, "explore-paths");
  await assertAccessible(page, "paths");
  await page.getByText("The query", { exact: true }).click();
  assert.match(await page.getByLabel("Query of the paths").innerText(), /^PATHS SHORTEST 3 ACYCLIC/);
});

test("paths keep to what is chosen", async () => {
  const page = await bench.page({ at: "#/explore" });
  await choose(page, "From", "Nicolas Sarkozy", /^Nicolas Sarkozy/);
  await choose(page, "To", "Athens", /^Athens/);
  await page.getByText("Path options").click();
  await page.getByRole("combobox", { name: /^Paths/ }).selectOption("all-shortest");
  await page.getByLabel("Allowed predicates").selectOption("only");
  await page.getByRole("button", { name: "Remove type from the list" }).click();
  for (const predicate of ["isPoliticianOf", "isLocatedIn"]) {
    await choose(page, "Add a predicate", predicate, new RegExp(`^${predicate}`));
  }
  await page.getByRole("button", { name: "Find paths" }).click();
  await page.getByRole("heading", { name: "1 path" }).waitFor();
  assert.match(await page.locator(".found li").first().innerText(), /isPoliticianOf.*France.*isLocatedIn.*Athens/s);
});

/** Waits until the drawing has this number of nodes. */
async function shown(page: Page, count: number): Promise<void> {
  await page.waitForFunction((wanted) => document.querySelectorAll("g.node").length === wanted, count);
}

test("a node is expanded, collapsed, removed and brought back by keyboard alone", async () => {
  const page = await bench.page({ at: "#/explore" });
  await findPaths(page);
  const before = await nodes(page);
  await node(page, "France").focus();
  await page.keyboard.press("Enter");
  await page.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "France" }).waitFor();
  await page.waitForFunction((count) => document.querySelectorAll("g.node").length > count, before);
  await picture(page, "explore-expanded");
  await assertAccessible(page, "an expanded node");
  await page.getByRole("button", { name: "Collapse" }).press("Enter");
  await shown(page, before);
  await node(page, "France").focus();
  await page.keyboard.press("ArrowRight");
  const focused = await page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
  assert.ok(focused && !focused.startsWith("France"), `the focus went to ${focused}`);
  await node(page, "France").focus();
  await page.keyboard.press("Delete");
  await shown(page, before - 1);
  await page.keyboard.press("ControlOrMeta+z");
  await shown(page, before);
});

test("a heavy node is read page by page", async () => {
  const page = await bench.page({ at: `#/explore?node=${encodeURIComponent(`${YAGO}United_States`)}` });
  const details = page.getByRole("complementary", { name: "Details" });
  await details.getByRole("heading", { name: /United States/ }).first().waitFor();
  const group = details.locator("section.group", { has: page.getByRole("button", { name: /^More/ }) }).first();
  const before = await group.locator("li").count();
  await group.getByRole("button", { name: /^More/ }).click();
  await page.waitForFunction(
    ([count, section]) => (section as Element).querySelectorAll("li").length > (count as number),
    [before, await group.elementHandle()] as const,
  );
});

test("the drawing is there as a list, too", async () => {
  const page = await bench.page({ at: "#/explore" });
  await findPaths(page);
  await page.getByText(/^As a list/).click();
  await page.locator(".graph-list").getByRole("button", { name: "France" }).press("Enter");
  await page.getByRole("complementary", { name: "Details" }).waitFor();
  await assertAccessible(page, "the list");
});
