// What a dataset holds, from Fuseki's statistics with what Pythia adds to them.

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

/** Of the dataset of a name; null for the one at the root. */
export async function statistics(name: string | null): Promise<Statistics> {
  const answer = await requestJson<{ pythia: Statistics }>(address(`$/stats/${name === null ? "" : encodeURIComponent(name)}`));
  return answer.pythia;
}

/** All predicates, the most used first. */
export async function predicatesOf(name: string | null): Promise<{ iri: string; quads: number }[]> {
  const { predicates } = await statistics(name);
  return predicates.toSorted((a, b) => b.quads - a.quads);
}
