// The datasets of the server, as listed by Fuseki's administration protocol, and the dataset that is shown.

import { computed, signal } from "@preact/signals";
import { route } from "../route.ts";
import { address, datasetAddress, request, requestJson } from "./connection.ts";

/** Names of the datasets that the user may see. */
export const datasets = signal<string[]>([]);

/** The dataset that is shown: the one in the address, otherwise the first. Null for a single dataset at the root. */
export const dataset = computed<string | null>(() =>
  addressed(route.value.dataset) ?? (datasets.value.length > 1 ? datasets.value[0] ?? null : null));

interface Listing { datasets: { "ds.name": string; "ds.state"?: boolean }[] }

export async function loadDatasets(): Promise<void> {
  const listing = await requestJson<Listing>(address("$/datasets")).catch(() => null);
  const all = listing?.datasets ?? [];
  // A user who may see no dataset is asked to sign in now, not during the first query.
  if (all.length === 0) await request(datasetAddress(dataset.value, "query", { query: "ASK {}" })).catch(() => null);
  datasets.value = all.filter((one) => one["ds.state"] !== false).map((one) => one["ds.name"].replace(/^\//, ""));
}

/** Returns whether the server has a dataset. If the server lists none, every name is accepted. */
export function isServed(name: string | null): boolean {
  if (name === null) return datasets.value.length <= 1;
  return datasets.value.length === 0 || datasets.value.includes(name);
}

/** Returns a dataset's name as used in addresses. A single dataset needs no name. */
export function addressed(name: string | null): string | null {
  return datasets.value.length === 1 && datasets.value[0] === name ? null : name;
}

/** Returns the name of the dataset that is shown, also if it is the only one. */
export function datasetName(): string | null {
  return dataset.value ?? datasets.value[0] ?? null;
}
