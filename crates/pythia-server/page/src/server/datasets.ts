// The datasets of the server, as Fuseki's administration protocol lists them.

import { signal } from "@preact/signals";
import { address, dataset, datasetAddress, request, requestJson } from "./connection.ts";

export const datasets = signal<string[]>([]);

interface Listing { datasets: { "ds.name": string; "ds.state"?: boolean }[] }

export async function loadDatasets(): Promise<void> {
  const listing = await requestJson<Listing>(address("$/datasets")).catch(() => null);
  const all = listing?.datasets ?? [];
  // Who may see none is asked who they are now, not in the middle of the first query.
  if (all.length === 0) await request(datasetAddress("query", { query: "ASK {}" })).catch(() => null);
  datasets.value = all.filter((one) => one["ds.state"] !== false).map((one) => one["ds.name"].replace(/^\//, ""));
  // The one at the root needs no name.
  if (datasets.value.length > 1) dataset.value ??= datasets.value[0] ?? null;
}

/** The name of the chosen dataset, also where it is the only one. */
export function datasetName(): string | null {
  return dataset.value ?? datasets.value[0] ?? null;
}
