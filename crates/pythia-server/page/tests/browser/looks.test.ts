// Every view: light and dark, on a desk and on a phone, with axe content.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible, assertFits, type Bench, finished, open, picture, run, YAGO } from "./support.ts";

let bench: Bench;
before(async () => { bench = await open(); });
after(() => bench.close());

const QUERY = `SELECT ?type (COUNT(*) AS ?count) { <${YAGO}Nicolas_Sarkozy> ?type ?o } GROUP BY ?type`;
const NODE = `#/explore?node=${encodeURIComponent(`${YAGO}Nicolas_Sarkozy`)}`;

for (const phone of [false, true]) {
  for (const dark of [false, true]) {
    const look = `${phone ? "phone" : "desk"}-${dark ? "dark" : "light"}`;

    test(`${look}: the query view`, async () => {
      const page = await bench.page({ phone, dark });
      await run(page, QUERY);
      await finished(page, /^\d+ results in/);
      for (const way of ["Table", "Chart", "JSON"]) {
        await page.getByRole("tab", { name: way }).click();
        await assertAccessible(page, way);
        await assertFits(page);
        await picture(page, `${look}-${way.toLowerCase()}`);
      }
      await page.getByRole("button", { name: "Measure" }).click();
      await finished(page, "Measured in");
      await assertAccessible(page, "the plan");
      await assertFits(page);
      await picture(page, `${look}-plan`);
    });

    test(`${look}: the explorer`, async () => {
      const page = await bench.page({ phone, dark, at: "#/explore" });
      await page.getByRole("heading", { name: "Explore" }).waitFor();
      await assertAccessible(page, "the empty explorer");
      await page.getByText("Path options").click();
      await assertAccessible(page, "the choices of paths");
      await assertFits(page);
      await picture(page, `${look}-choices`);
      await page.goto(`${bench.url}/${NODE}`);
      await page.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "hasChild" }).first().waitFor();
      await assertAccessible(page, "a neighbourhood");
      await assertFits(page);
      await picture(page, `${look}-explore`);
    });

    test(`${look}: the statistics`, async () => {
      const page = await bench.page({ phone, dark, at: "#/statistics" });
      await page.getByRole("heading", { name: "Predicates" }).waitFor();
      await assertAccessible(page, "statistics");
      await assertFits(page);
      await picture(page, `${look}-statistics`);
    });
  }
}

test("colours follow the system until they are chosen", async () => {
  const page = await bench.page({ dark: true });
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const dark = await ground();
  await page.getByRole("button", { name: "Use light colours" }).click();
  const light = await ground();
  assert.notEqual(light, dark);
  await page.reload();
  assert.equal(await ground(), light);
});

test("the keyboard skips to the content", async () => {
  const page = await bench.page();
  await page.getByRole("heading", { name: "Query" }).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "main");
});
