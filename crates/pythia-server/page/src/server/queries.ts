// Queries and updates: sending them, reading their answers while they arrive, watching and cancelling them.

import type { Term, Triple } from "../rdf/term.ts";
import { parseLine } from "../rdf/ntriples.ts";
import { address, datasetAddress, Problem, request, requestJson } from "./connection.ts";
import { ResultReader, type Row } from "./result-stream.ts";

/** A part of a plan. See crates/pythia-exec/src/explain.rs. */
export interface PlanNode {
  operator: string;
  detail?: string;
  estimated_rows?: number;
  rows?: number;
  batches?: number;
  time_us?: number;
  pages_from_cache?: number;
  pages_from_device?: number;
  nodes_visited?: number;
  steps?: PlanNode[];
  inputs?: PlanNode[];
}

/** A query that is queued or running on the server. */
export interface RunningQuery {
  id: string;
  dataset: string;
  client?: string;
  text: string;
  started_ms_ago: number;
  state: "queued" | "running";
  /** Number of results so far, or null if they are not counted. */
  rows: number | null;
  plan: PlanNode | null;
}

/** Receiver of an answer while it arrives. */
export interface Sink {
  columns(names: string[]): void;
  /** Takes more rows. Returns false if it needs no more. */
  rows(rows: Row[]): boolean;
  boolean(value: boolean): void;
  /** Takes more triples of a graph. Returns false if it needs no more. */
  triples(triples: Triple[]): boolean;
}

const TABLE = "application/sparql-results+json";
const GRAPH = "application/n-triples";
const ID_HEADER = "Pythia-Query-Id";

export function newQueryId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return `page-${[...bytes].map((byte) => byte.toString(36).padStart(2, "0")).join("")}`;
}

/** The text of a query or an update, and its dataset. */
export interface Operation { text: string; dataset: string | null }

/** Runs a query to its end, or until the sink needs no more. */
export async function runQuery({ text, dataset }: Operation, id: string, signal: AbortSignal, sink: Sink): Promise<void> {
  const response = await post(datasetAddress(dataset, "query", { profile: true }), text, {
    "Content-Type": "application/sparql-query",
    Accept: `${TABLE}, ${GRAPH};q=0.9, application/problem+json;q=0.1`,
    [ID_HEADER]: id,
  }, signal);
  const isGraph = response.headers.get("Content-Type")?.startsWith(GRAPH) ?? false;
  await (isGraph ? readGraph(response, sink) : readTable(response, sink));
}

export async function runUpdate({ text, dataset }: Operation, id: string, signal: AbortSignal): Promise<void> {
  const type = { "Content-Type": "application/sparql-update", Accept: "application/problem+json", [ID_HEADER]: id };
  await post(datasetAddress(dataset, "update"), text, type, signal);
}

/** Returns the plan of a query. With "analyze", the query is run and the plan is measured. */
export async function explain(
  { text, dataset }: Operation, how: "plan" | "analyze", id: string, signal: AbortSignal,
): Promise<PlanNode> {
  const headers = { "Content-Type": "application/sparql-query", Accept: "application/json", [ID_HEADER]: id };
  const response = await post(datasetAddress(dataset, "query", { explain: how }), text, headers, signal);
  return await response.json() as PlanNode;
}

/** Returns all rows of a small query that the page itself needs. */
export async function rowsOf(query: Operation, signal: AbortSignal, id = newQueryId()): Promise<Row[]> {
  const rows: Row[] = [];
  await runQuery(query, id, signal, {
    columns: () => {},
    boolean: () => {},
    rows: (more) => { rows.push(...more); return true; },
    triples: () => false,
  });
  return rows;
}

export async function runningQueries(): Promise<RunningQuery[]> {
  return (await requestJson<{ queries: RunningQuery[] }>(address("$/queries"))).queries;
}

/** Returns a running query, or null if it has ended or the user may not see it. */
export async function runningQuery(id: string): Promise<RunningQuery | null> {
  try {
    return await requestJson<RunningQuery>(address(`$/queries/${id}`));
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}

export async function cancelQuery(id: string): Promise<void> {
  await request(address(`$/queries/${id}`), { method: "DELETE" });
}

/** Returns the whole result in a format, as a file. */
export async function download({ text, dataset }: Operation, mediaType: string, signal: AbortSignal): Promise<Blob> {
  const headers = { "Content-Type": "application/sparql-query", Accept: mediaType };
  return await (await post(datasetAddress(dataset, "query"), text, headers, signal)).blob();
}

function post(url: string, body: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
  return request(url, { method: "POST", body, headers, signal });
}

async function readTable(response: Response, sink: Sink): Promise<void> {
  const reader = new ResultReader();
  let announced = false;
  await readText(response, (text) => {
    const rows = reader.push(text);
    if (!announced && reader.columns) {
      announced = true;
      sink.columns(reader.columns);
    }
    return rows.length === 0 || sink.rows(rows);
  }, () => {
    reader.end();
    if (reader.boolean !== null) sink.boolean(reader.boolean);
    else if (!announced) sink.columns(reader.columns ?? []);
  });
}

async function readGraph(response: Response, sink: Sink): Promise<void> {
  let rest = "";
  const lines = (text: string): boolean => {
    const whole = (rest + text).split("\n");
    rest = whole.pop() ?? "";
    return sink.triples(whole.map(parseLine).filter((triple) => triple !== null));
  };
  await readText(response, lines, () => { lines("\n"); });
}

/** Passes a body on piece by piece. `end` is called if every piece was accepted. */
async function readText(response: Response, piece: (text: string) => boolean, end: () => void): Promise<void> {
  const reader = response.body?.getReader();
  if (!reader) throw new Problem("The server's answer has no body.", response.status);
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read().catch(brokenOff);
    const goOn = piece(done ? decoder.decode() : decoder.decode(value, { stream: true }));
    if (!goOn) return await reader.cancel();
    if (done) return end();
  }
}

function brokenOff(error: unknown): never {
  if (error instanceof DOMException && error.name === "AbortError") throw error;
  throw new Problem("The query failed while its result was being sent. The result shown is incomplete.", 0);
}

/** Returns the label of each node that has one, in the user's language if possible. */
export async function labelsOf(dataset: string | null, nodes: Term[], signal: AbortSignal): Promise<Map<string, string>> {
  const iris = nodes.filter((node) => node.type === "uri").map((node) => `<${node.value}>`);
  const labels = new Map<string, string>();
  if (iris.length === 0) return labels;
  const language = navigator.language.split("-")[0] ?? "en";
  const text = `PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX skos: <http://www.w3.org/2004/02/skos/core#>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX schema: <http://schema.org/>
SELECT ?node ?label {
  VALUES ?node { ${iris.join(" ")} }
  ?node rdfs:label|skos:prefLabel|foaf:name|schema:name ?label
}`;
  const rows = await rowsOf({ text, dataset }, signal);
  const rank = (term: Term | undefined) => {
    const tag = term?.type === "literal" ? term["xml:lang"]?.split("-")[0] : undefined;
    return tag === language ? 3 : tag === "en" ? 2 : tag === undefined ? 1 : 0;
  };
  rows.sort((a, b) => rank(a.label) - rank(b.label));
  for (const { node, label } of rows) {
    if (node?.type === "uri" && label?.type === "literal") labels.set(node.value, label.value);
  }
  return labels;
}
