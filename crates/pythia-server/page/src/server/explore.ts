// The server's services for finding things, for their neighbourhood and for completion.

import type { Blank, Iri, Term } from "../rdf/term.ts";
import { datasetAddress, request, requestJson } from "./connection.ts";

export interface Found { iri: string; label: string | null; types: string[]; matched: "label" | "iri" }

export type Direction = "out" | "in";

export interface Neighbour { term: Term; label: string | null }
export interface Group { predicate: string; direction: Direction; count: number; items: Neighbour[]; more: boolean }
/** A node whose neighbourhood can be requested. */
export type Node = Iri | Blank;
export interface Neighbourhood { label: string | null; types: string[]; groups: Group[] }

export interface Suggestion {
  insert: string;
  iri: string | null;
  label: string | null;
  kind: "predicate" | "class" | "node" | "graph" | "prefix" | "variable" | "keyword" | "function";
  count: number | null;
  prefix: { name: string; iri: string } | null;
}
export interface Completions { from: number; to: number; items: Suggestion[] }

export async function find(dataset: string | null, text: string, limit: number, signal: AbortSignal): Promise<Found[]> {
  return (await requestJson<{ items: Found[] }>(datasetAddress(dataset, "find", { text, limit }), { signal })).items;
}

/** Requests a node with the first few neighbours of each predicate. */
export function neighbourhood(dataset: string | null, node: Node, limit: number): Promise<Neighbourhood> {
  return requestJson(datasetAddress(dataset, "node", { ...naming(node), direction: "both", limit }));
}

/** Requests a page of the neighbours of one predicate. */
export async function neighbours(
  dataset: string | null, node: Node, group: Pick<Group, "predicate" | "direction">, offset: number, limit: number,
): Promise<Group | undefined> {
  const { predicate, direction } = group;
  const url = datasetAddress(dataset, "node", { ...naming(node), direction, predicate, limit, offset });
  return (await requestJson<Neighbourhood>(url)).groups[0];
}

/** Requests the completions at the cursor, an offset in UTF-16 units. */
export async function complete(
  dataset: string | null, query: string, cursor: number, limit: number, signal: AbortSignal,
): Promise<Completions> {
  const response = await request(datasetAddress(dataset, "complete"), {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({ query, cursor, limit }),
    signal,
  });
  return await response.json() as Completions;
}

function naming(node: Node): Record<string, string> {
  return node.type === "uri" ? { iri: node.value } : { bnode: node.value };
}
