// A server that wants to know who is there.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import { assertAccessible, type Bench, finished, needed, open, picture, run } from "./support.ts";

const TOKEN = "sesame-open-for-the-page-of-this-test";

let bench: Bench;
before(async () => {
  const sha256 = createHash("sha256").update(TOKEN).digest("hex");
  const hash = execFileSync(needed("PYTHIA"), ["password"], { input: "enchantress\n", encoding: "utf8" }).trim();
  bench = await open({ configuration: `
[[security.roles]]
name = "reader"
datasets = ["*"]
read = ["*"]

[[security.tokens]]
name = "robot"
sha256 = "${sha256}"
roles = ["reader"]

[[security.users]]
name = "ada"
password_hash = "${hash}"
roles = ["reader"]
` });
});
after(() => bench.close());

test("a name and a password are asked for, and kept as long as the tab", async () => {
  const page = await bench.page();
  const dialog = page.getByRole("dialog", { name: "Sign in" });
  await dialog.waitFor();
  await assertAccessible(page, "the dialog");
  await picture(page, "sign-in");
  await dialog.getByLabel("Name", { exact: true }).fill("ada");
  await dialog.getByLabel("Password", { exact: true }).fill("wrong");
  await page.keyboard.press("Enter");
  await dialog.getByText("The server rejected these credentials").waitFor();
  await dialog.getByLabel("Name", { exact: true }).fill("ada");
  await dialog.getByLabel("Password", { exact: true }).fill("enchantress");
  await page.keyboard.press("Enter");
  await run(page, "ASK { ?s ?p ?o }");
  await finished(page, /^Yes/);
  await page.reload();
  await run(page, "ASK { ?s ?p ?o }");
  await finished(page, /^Yes/);
  assert.equal(await dialog.isVisible(), false);
  await page.getByRole("button", { name: "Sign out" }).click();
  await dialog.waitFor();
});

test("a token will do", async () => {
  const page = await bench.page();
  const dialog = page.getByRole("dialog", { name: "Sign in" });
  await dialog.getByLabel("Token").check();
  await dialog.getByRole("textbox", { name: "Token" }).fill(TOKEN);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await run(page, "ASK { ?s ?p ?o }");
  await finished(page, /^Yes/);
});
