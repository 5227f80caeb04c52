// A server over a slice of YAGO, a browser, and what tests of the page need of both.

import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Browser, type Page } from "playwright-core";

export const YAGO = "http://yago-knowledge.org/resource/";

/** Nothing here takes longer than this; what does is broken. */
const WAIT_MS = 15_000;
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const DESK = { width: 1280, height: 860 };
export const PHONE = { width: 360, height: 740 };

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export interface Bench {
  url: string;
  /** A page of its own, with nothing kept from others. */
  page: (options?: { dark?: boolean; phone?: boolean; at?: string }) => Promise<Page>;
  close: () => Promise<void>;
}

/** More than a server of one store has. */
export interface Additions {
  configuration?: string;
  /** N-Triples of datasets besides `yago`, by name. */
  datasets?: Record<string, string>;
}

/** A server and a browser. */
export async function open(additions: Additions = {}): Promise<Bench> {
  const server = await serve(additions);
  const browser: Browser = await chromium.launch({ executablePath: needed("CHROMIUM"), args: FLAGS });
  return {
    url: server.url,
    async page({ dark = false, phone = false, at = "" } = {}) {
      const context = await browser.newContext({
        viewport: phone ? PHONE : DESK, hasTouch: phone, colorScheme: dark ? "dark" : "light",
        reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"], acceptDownloads: true,
      });
      const page = await context.newPage();
      page.setDefaultTimeout(WAIT_MS);
      page.on("pageerror", (error) => assert.fail(`the page failed: ${error.stack}`));
      page.on("request", (request) => {
        assert.ok(/^(blob:)?http:\/\/127\.0\.0\.1:/.test(request.url()), `the page asked ${request.url()}`);
      });
      await page.goto(`${server.url}/${at}`);
      return page;
    },
    async close() {
      await browser.close();
      server.stop();
    },
  };
}

/** Fails with what axe has against the page as it is. */
export async function assertAccessible(page: Page, what: string): Promise<void> {
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const { violations } = await (window as unknown as { axe: { run: () => Promise<{ violations: Violation[] }> } }).axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n  ")}`);
  });
  assert.deepEqual(violations, [], what);
}

interface Violation { id: string; nodes: { html: string; failureSummary: string }[] }

/** Keeps a picture of the page. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = needed("PYTHIA_SCREENSHOTS");
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

/** The editor's text is what one types into it. */
export async function write(page: Page, query: string): Promise<void> {
  await page.getByRole("textbox", { name: /SPARQL query/ }).click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(query);
}

export async function run(page: Page, query: string): Promise<void> {
  await write(page, query);
  await page.keyboard.press("ControlOrMeta+Enter");
}

/** Waits until a run ended as the page says beside the button. */
export async function finished(page: Page, how: RegExp | string): Promise<void> {
  const summary = page.locator(".summary");
  await summary.filter({ hasText: how }).waitFor().catch(async () => {
    assert.fail(`the page says "${await summary.allInnerTexts()}", not ${how}`);
  });
}

/** Nothing is wider than the window. */
export async function assertFits(page: Page): Promise<void> {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok((content ?? 0) <= (window ?? 0), `${content} pixels in a window of ${window}`);
}

async function serve({ configuration = "", datasets = {} }: Additions): Promise<{ url: string; stop: () => void }> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "pythia-page-"));
  const [file, store] = [join(folder, "pythia.toml"), join(folder, "yago.pythia")];
  writeFileSync(file, configuration);
  // A store has one server.
  cpSync(needed("PYTHIA_STORE"), store, { recursive: true });
  const others = Object.entries(datasets).flatMap(([name, triples]) => {
    const path = join(folder, `${name}.pythia`);
    writeFileSync(`${path}.nt`, triples);
    execFileSync(needed("PYTHIA"), ["load", "-l", path, `${path}.nt`], { stdio: "pipe" });
    return ["-l", `${name}=${path}`];
  });
  const child: ChildProcess = spawn(
    needed("PYTHIA"),
    ["serve", "--config", file, "-l", `yago=${store}`, ...others, "--bind", `127.0.0.1:${port}`],
    { stdio: ["ignore", "inherit", "inherit"] },
  );
  const url = `http://127.0.0.1:${port}`;
  const stop = () => { child.kill(); rmSync(folder, { recursive: true }); };
  const end = Date.now() + WAIT_MS;
  while (!(await fetch(`${url}/$/ping`).then((answer) => answer.ok, () => false))) {
    if (child.exitCode !== null || Date.now() > end) {
      stop();
      assert.fail("the server does not start");
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { url, stop };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().on("error", reject).listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

/** A setting that scripts/test-page makes. */
export function needed(name: string): string {
  const value = process.env[name];
  assert.ok(value, `${name} is not set; run scripts/test-page`);
  return value;
}
