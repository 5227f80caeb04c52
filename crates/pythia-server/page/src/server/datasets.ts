// The datasets of the server, as Fuseki's administration protocol lists them, and the one that is shown.

import { computed, signal } from "@preact/signals";
import { route } from "../route.ts";
import { address, datasetAddress, request, requestJson } from "./connection.ts";

/** Those that the reader may see, by name. */
export const datasets = signal<string[]>([]);

/** The dataset that is shown: the one that the address names, else the first; null for the only one, at the root. */
export const dataset = computed<string | null>(() =>
  addressed(route.value.dataset) ?? (datasets.value.length > 1 ? datasets.value[0] ?? null : null));

interface Listing { datasets: { "ds.name": string; "ds.state"?: boolean }[] }

export async function loadDatasets(): Promise<void> {
  const listing = await requestJson<Listing>(address("$/datasets")).catch(() => null);
  const all = listing?.datasets ?? [];
  // Who may see none is asked who they are now, not in the middle of the first query.
  if (all.length === 0) await request(datasetAddress(dataset.value, "query", { query: "ASK {}" })).catch(() => null);
  datasets.value = all.filter((one) => one["ds.state"] !== false).map((one) => one["ds.name"].replace(/^\//, ""));
}

/** Says whether the server has a dataset; where it lists none, any name may be right. */
export function isServed(name: string | null): boolean {
  if (name === null) return datasets.value.length <= 1;
  return datasets.value.length === 0 || datasets.value.includes(name);
}

/** A dataset as addresses have it: the only one needs no name. */
export function addressed(name: string | null): string | null {
  return datasets.value.length === 1 && datasets.value[0] === name ? null : name;
}

/** The name of the dataset that is shown, also where it is the only one. */
export function datasetName(): string | null {
  return dataset.value ?? datasets.value[0] ?? null;
}
