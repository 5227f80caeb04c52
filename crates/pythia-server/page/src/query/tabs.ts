// The user's queries, kept in this browser.

import { effect, signal } from "@preact/signals";
import { addressed, isServed } from "../server/datasets.ts";
import { forget } from "./run.ts";

/** `dataset` is null for the dataset at the server's root. */
export interface QueryTab { id: string; name: string; text: string; dataset: string | null }

interface Kept { tabs: QueryTab[]; chosen: string }

const KEY = "pythia.queries";
const FIRST = `SELECT ?subject ?predicate ?object {
  ?subject ?predicate ?object
}
LIMIT 100
`;

const kept = read();

export const tabs = signal<QueryTab[]>(kept.tabs);
export const chosen = signal<string>(kept.chosen);

effect(() => {
  const value: Kept = { tabs: tabs.value, chosen: chosen.value };
  try {
    localStorage.setItem(KEY, JSON.stringify(value));
  } catch {
    // If the storage is full or forbidden, nothing is kept and the page still works.
  }
});

export function tab(): QueryTab {
  return tabs.value.find(({ id }) => id === chosen.value) ?? tabs.value[0] ?? open(FIRST, null);
}

export function open(text: string, dataset: string | null): QueryTab {
  const made = fresh(text, dataset);
  tabs.value = [...tabs.value, made];
  chosen.value = made.id;
  return made;
}

/** Shows a query from a link, in its existing tab if there is one. */
export function show(text: string, dataset: string | null): void {
  const same = tabs.value.find((one) => addressed(one.dataset) === dataset && one.text.trim() === text.trim());
  if (same) chosen.value = same.id;
  else open(text, dataset);
}

/** Shows a tab of a dataset: the chosen tab, another existing tab, or a new one. */
export function showDataset(dataset: string | null): void {
  const current = tab();
  if (addressed(current.dataset) === dataset) return;
  // Text that was written when the server had one dataset may be used with any dataset.
  if (current.dataset === null && !isServed(null)) return edit(current.id, { dataset });
  const last = tabs.value.findLast((one) => addressed(one.dataset) === dataset);
  if (last) chosen.value = last.id;
  else open(FIRST, dataset);
}

export function edit(id: string, change: Partial<Omit<QueryTab, "id">>): void {
  tabs.value = tabs.value.map((one) => (one.id === id ? { ...one, ...change } : one));
}

export function close(id: string): void {
  const at = tabs.value.findIndex((one) => one.id === id);
  const dataset = tabs.value[at]?.dataset ?? null;
  const left = tabs.value.filter((one) => one.id !== id);
  forget(id);
  tabs.value = left.length > 0 ? left : [fresh(FIRST, dataset)];
  if (chosen.value === id) chosen.value = (tabs.value[Math.max(0, at - 1)] ?? tabs.value[0])?.id ?? "";
}

function fresh(text: string, dataset: string | null): QueryTab {
  const numbers = tabs.peek().map(({ name }) => Number(/^Query (\d+)$/.exec(name)?.[1] ?? 0));
  const id = crypto.getRandomValues(new Uint32Array(2)).join("-");
  return { id, name: `Query ${Math.max(0, ...numbers) + 1}`, text, dataset };
}

function read(): Kept {
  try {
    const value = JSON.parse(localStorage.getItem(KEY) ?? "") as Kept;
    const whole = value.tabs
      .filter((one) => typeof one.text === "string" && typeof one.id === "string")
      .map((one) => ({ ...one, dataset: typeof one.dataset === "string" ? one.dataset : null }));
    if (whole.length > 0) return { tabs: whole, chosen: value.chosen };
  } catch {
    // Nothing was kept, or it was kept by another version.
  }
  const first = { id: "first", name: "Query 1", text: FIRST, dataset: null };
  return { tabs: [first], chosen: first.id };
}
