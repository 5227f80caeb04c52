// What a dataset holds, from Fuseki's statistics with what Pythia adds to them.

import { address, requestJson } from "./connection.ts";
import { datasetName } from "./datasets.ts";

export interface Statistics {
  quads: number;
  named_graphs: number;
  nodes: number;
  predicates: { iri: string; quads: number }[];
  bytes: number;
  cache?: Record<string, number>;
  memory?: Record<string, number>;
}

export async function statistics(): Promise<Statistics> {
  const name = datasetName();
  const answer = await requestJson<{ pythia: Statistics }>(address(`$/stats/${name === null ? "" : encodeURIComponent(name)}`));
  return answer.pythia;
}

/** All predicates, the most used first. */
export async function predicatesOf(): Promise<{ iri: string; quads: number }[]> {
  const { predicates } = await statistics();
  return predicates.toSorted((a, b) => b.quads - a.quads);
}
