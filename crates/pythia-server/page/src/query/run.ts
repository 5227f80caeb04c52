// A single run of a query: its results as they arrive, its progress and its end.

import { signal, type Signal } from "@preact/signals";
import { isUpdate } from "../rdf/first-word.ts";
import { Prefixes } from "../rdf/prefixes.ts";
import type { Triple } from "../rdf/term.ts";
import { announce } from "../components/status.ts";
import { duration, plural } from "../components/number.ts";
import { Problem } from "../server/connection.ts";
import {
  cancelQuery, explain, newQueryId, runningQuery, runQuery, runUpdate, type Operation, type PlanNode,
  type RunningQuery,
} from "../server/queries.ts";
import type { Row } from "../server/result-stream.ts";

export type Way = "run" | "plan" | "analyze";

export type Outcome =
  | { kind: "none" }
  | { kind: "table"; columns: string[]; rows: Row[] }
  | { kind: "graph"; triples: Triple[] }
  | { kind: "boolean"; value: boolean }
  | { kind: "plan"; plan: PlanNode; measured: boolean }
  | { kind: "updated" };

export interface Run {
  id: string;
  text: string;
  /** Dataset of the run, even if the page shows another one meanwhile. Null for the dataset at the root. */
  dataset: string | null;
  way: Way;
  prefixes: Prefixes;
  state: "running" | "done" | "failed" | "cancelled";
  outcome: Outcome;
  /** True if there are more results than the page keeps. */
  cut: boolean;
  /** Start and duration in milliseconds, by performance.now(). */
  started: number;
  took: number | null;
  progress: RunningQuery | null;
  problem: Problem | null;
}

/** Maximum number of results that the page keeps. A download contains all of them. */
export const KEPT = 20_000;

const FIRST_LOOK_MS = 400;
const LOOK_MS = 500;
const SHOW_MS = 120;

const runs = new Map<string, { run: Signal<Run | null>; abort: AbortController | null }>();

/** Returns the run of a tab. */
export function runOf(tab: string): Signal<Run | null> {
  return entry(tab).run;
}

export function cancel(tab: string): void {
  const { run, abort } = entry(tab);
  const current = run.value;
  if (current?.state !== "running") return;
  // The server is told first. Otherwise the aborted request might look like a lost connection.
  void cancelQuery(current.id).catch(() => {});
  abort?.abort();
}

export function forget(tab: string): void {
  cancel(tab);
  runs.delete(tab);
}

/** Runs the text of a tab. */
export async function start(tab: Operation & { id: string }, way: Way): Promise<void> {
  cancel(tab.id);
  const slot = entry(tab.id);
  const abort = new AbortController();
  slot.abort = abort;
  const run = new Running(slot.run, tab, way);
  const looking = look(slot.run, run.id, abort.signal);
  try {
    await run.work(abort.signal);
    run.end("done");
  } catch (error) {
    if (abort.signal.aborted) run.end("cancelled");
    else run.end("failed", error instanceof Problem ? error : new Problem(String(error), 0));
  } finally {
    abort.abort();
    await looking;
  }
}

function entry(tab: string) {
  let found = runs.get(tab);
  if (!found) runs.set(tab, found = { run: signal(null), abort: null });
  return found;
}

/** Polls the query's progress as long as it runs. */
async function look(run: Signal<Run | null>, id: string, ended: AbortSignal): Promise<void> {
  await pause(FIRST_LOOK_MS, ended);
  while (!ended.aborted) {
    const progress = await runningQuery(id).catch(() => null);
    const current = run.value;
    if (ended.aborted || current?.id !== id || current.state !== "running") return;
    if (progress) run.value = { ...current, progress };
    await pause(LOOK_MS, ended);
  }
}

function pause(milliseconds: number, ended: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    ended.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

class Running {
  readonly id = newQueryId();
  private shown = 0;
  private current: Run;

  constructor(private readonly run: Signal<Run | null>, { text, dataset }: Operation, way: Way) {
    this.current = {
      id: this.id, text, dataset, way, prefixes: Prefixes.of(text), state: "running", outcome: { kind: "none" }, cut: false,
      started: performance.now(), took: null, progress: null, problem: null,
    };
    run.value = this.current;
    announce("Running");
  }

  async work(signal: AbortSignal): Promise<void> {
    const { way } = this.current;
    if (way !== "run") {
      const plan = await explain(this.current, way, this.id, signal);
      this.current.outcome = { kind: "plan", plan, measured: way === "analyze" };
    } else if (isUpdate(this.current.text)) {
      await runUpdate(this.current, this.id, signal);
      this.current.outcome = { kind: "updated" };
    } else {
      await runQuery(this.current, this.id, signal, this);
    }
  }

  columns(columns: string[]): void {
    this.current.outcome = { kind: "table", columns, rows: [] };
    this.show(true);
  }

  boolean(value: boolean): void {
    this.current.outcome = { kind: "boolean", value };
  }

  rows(rows: Row[]): boolean {
    const { outcome } = this.current;
    return outcome.kind === "table" && this.keep(outcome.rows, rows);
  }

  triples(triples: Triple[]): boolean {
    const { outcome } = this.current;
    const kept = outcome.kind === "graph" ? outcome : { kind: "graph" as const, triples: [] };
    this.current.outcome = kept;
    return this.keep(kept.triples, triples);
  }

  end(state: Run["state"], problem: Problem | null = null): void {
    this.current = { ...this.current, state, problem, took: performance.now() - this.current.started };
    this.show(true);
    announce(summary(this.current));
  }

  private keep<T>(kept: T[], more: T[]): boolean {
    const room = KEPT - kept.length;
    kept.push(...more.slice(0, room));
    this.current.cut = more.length > room;
    this.show(false);
    return !this.current.cut;
  }

  /** Shows the current state, but not more often than is useful to the user. */
  private show(now: boolean): void {
    const time = performance.now();
    const before = this.run.value;
    if ((!now && time - this.shown < SHOW_MS) || before?.id !== this.id) return;
    this.shown = time;
    this.run.value = { ...this.current, progress: before.progress };
  }
}

/** Describes the outcome of a run in one sentence. */
export function summary(run: Run): string {
  const took = run.took === null ? "" : ` in ${duration(run.took)}`;
  switch (run.state) {
    case "running": return "Running";
    case "cancelled": return `Cancelled after ${duration(run.took ?? 0)}`;
    case "failed": return `Failed: ${run.problem?.message ?? ""}`;
    case "done": return `${outcomeText(run)}${took}`;
  }
}

function outcomeText({ outcome, cut }: Run): string {
  const first = cut ? "The first " : "";
  switch (outcome.kind) {
    case "table": return `${first}${plural(outcome.rows.length, "result")}`;
    case "graph": return `${first}${plural(outcome.triples.length, "triple")}`;
    case "boolean": return outcome.value ? "Yes" : "No";
    case "plan": return outcome.measured ? "Measured" : "Planned";
    case "updated": return "Updated";
    case "none": return "Done";
  }
}
