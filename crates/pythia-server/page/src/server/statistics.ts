// Statistics of a dataset, from Fuseki's statistics with Pythia's additions.

import { address, requestJson } from "./connection.ts";

export interface Statistics {
  quads: number;
  named_graphs: number;
  nodes: number;
  predicates: { iri: string; quads: number }[];
  bytes: number;
  cache?: Record<string, number>;
  memory?: Record<string, number>;
}

/** Returns the statistics of the dataset with a name. `name` is null for the dataset at the root. */
export async function statistics(name: string | null): Promise<Statistics> {
  const answer = await requestJson<{ pythia: Statistics }>(address(`$/stats/${name === null ? "" : encodeURIComponent(name)}`));
  return answer.pythia;
}

/** Returns all predicates, the most frequent first. */
export async function predicatesOf(name: string | null): Promise<{ iri: string; quads: number }[]> {
  const { predicates } = await statistics(name);
  return predicates.toSorted((a, b) => b.quads - a.quads);
}
