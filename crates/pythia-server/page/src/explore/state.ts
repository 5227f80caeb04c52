// State of the explorer and the steps that change it. It outlives its view, so that the user can go to the query
// view and come back.

import { effect, signal } from "@preact/signals";
import { Draft, EMPTY, neighboursOf, type Graph } from "../graph/model.ts";
import { announce } from "../components/status.ts";
import { plural } from "../components/number.ts";
import { RDF_TYPE, termKey, type PathParts } from "../rdf/term.ts";
import { Problem } from "../server/connection.ts";
import { dataset } from "../server/datasets.ts";
import { neighbourhood, neighbours, type Group, type Neighbourhood, type Node } from "../server/explore.ts";
import { cancelQuery, labelsOf, newQueryId, rowsOf } from "../server/queries.ts";
import { CHOICES, pathQuery, type PathChoices } from "./path-query.ts";

/** A node of the graph with its neighbourhood. */
export interface Details extends Neighbourhood { key: string; node: Node }

export interface FoundPath { path: PathParts; length: number; cost: number }

const FIRST_CHOICES: PathChoices = { ...CHOICES, predicates: "not", listed: [RDF_TYPE] };

export const choices = signal<PathChoices>(FIRST_CHOICES);
export const graph = signal<Graph>(EMPTY);
export const chosen = signal<string | null>(null);
/** Neighbourhood of the chosen node, once it is known. */
export const details = signal<Details | null>(null);
export const paths = signal<FoundPath[] | null>(null);
/** The query of the paths that are shown. */
export const pathText = signal<string | null>(null);
export const searching = signal(false);
export const trouble = signal<string | null>(null);
export const canUndo = signal(false);

/** Number of neighbours that one click adds, over all predicates. */
const OPENED = 14;
/** Number of neighbours of each predicate in the first request, and number in each further page of one predicate. */
const FIRST = 8;
const PAGE = 25;
const STEPS = 100;

let past: Graph[] = [];
let search: { id: string; abort: AbortController } | null = null;

/** The dataset on which steps that wait for the server work. An answer is dropped if this has changed meanwhile. */
let ground = { dataset: dataset.peek() };

// Nodes of one dataset mean nothing in another.
effect(() => {
  if (dataset.value === ground.dataset) return;
  clear();
  choices.value = FIRST_CHOICES;
});

export function clear(): void {
  stopSearch();
  ground = { dataset: dataset.peek() };
  past = [];
  canUndo.value = false;
  graph.value = EMPTY;
  chosen.value = details.value = paths.value = pathText.value = trouble.value = null;
}

export function undo(): void {
  const before = past.pop();
  if (!before) return;
  graph.value = before;
  canUndo.value = past.length > 0;
  if (chosen.value !== null && !before.nodes.has(chosen.value)) unchoose();
  announce("Undone");
}

/** Shows a node. It is added to the graph if it is not there. */
export async function visit(node: Node): Promise<void> {
  const key = termKey(node);
  if (!graph.value.nodes.has(key)) change((draft) => draft.node(node));
  await open(key);
}

/** Chooses a node and shows its details. */
export async function choose(key: string): Promise<Details | null> {
  chosen.value = key;
  trouble.value = null;
  if (details.value?.key === key) return details.value;
  details.value = null;
  const node = graph.value.nodes.get(key)?.term;
  if (node?.type !== "uri" && node?.type !== "bnode") return null;
  const here = ground;
  try {
    const found = { ...await neighbourhood(here.dataset, node, FIRST), key, node };
    if (here !== ground) return null;
    if (chosen.value === key) details.value = found;
    return found;
  } catch (error) {
    if (here === ground) trouble.value = messageOf(error);
    return null;
  }
}

export function unchoose(): void {
  chosen.value = details.value = null;
}

/** Adds some neighbours of a node, a few of each predicate that are not yet in the graph. */
export async function open(key: string): Promise<void> {
  const found = await choose(key);
  if (!found) return;
  const before = graph.value;
  const more = change((draft) => {
    draft.node(found.node, { label: found.label });
    for (const [group, items] of share(found.groups, before, key)) {
      draft.neighbours(key, group.predicate, group.direction, items);
    }
  });
  const added = graph.value.nodes.size - before.nodes.size;
  if (more === 0) announce(`${plural(added, "node")} added`);
}

export function collapse(key: string): void {
  change((draft) => draft.collapse(key));
}

export function remove(key: string): void {
  change((draft) => draft.remove(key));
  if (chosen.value === key) unchoose();
}

/** Pinning cannot be undone as a step, because it changes only the position. */
export function pin(key: string, pinned: boolean): void {
  const draft = new Draft(graph.value);
  draft.pin(key, pinned);
  graph.value = draft.done();
}

/** Adds neighbours from the list in the details. */
export function add(of: string, group: Group, items = group.items): void {
  change((draft) => draft.neighbours(of, group.predicate, group.direction, items));
}

/** Adds the next page of a predicate's neighbours to the details. */
export async function more(of: Details, group: Group): Promise<void> {
  const here = ground;
  try {
    const page = await neighbours(here.dataset, of.node, group, group.items.length, PAGE);
    if (!page || here !== ground || details.value?.key !== of.key) return;
    const longer = { ...group, items: [...group.items, ...page.items], more: page.more };
    details.value = { ...details.value, groups: details.value.groups.map((one) => (one === group ? longer : one)) };
    announce(`${plural(page.items.length, "neighbour")} more`);
  } catch (error) {
    if (here === ground) trouble.value = messageOf(error);
  }
}

export async function findPaths(): Promise<void> {
  stopSearch();
  const here = ground;
  const text = pathQuery(choices.value);
  const mine = search = { id: newQueryId(), abort: new AbortController() };
  searching.value = true;
  trouble.value = null;
  announce("Searching paths");
  try {
    const rows = await rowsOf({ text, dataset: here.dataset }, mine.abort.signal, mine.id);
    if (mine.abort.signal.aborted) return;
    const found = rows.flatMap(({ path, length, cost }) =>
      path?.type === "literal" && path.path
        ? [{ path: path.path, length: Number(length?.value), cost: Number(cost?.value) }]
        : []);
    paths.value = found;
    pathText.value = text;
    announce(found.length === 0 ? "No path found" : `${plural(found.length, "path")} found`);
    if (found.length > 0) draw(found);
  } catch (error) {
    if (!mine.abort.signal.aborted) trouble.value = messageOf(error);
  } finally {
    if (search === mine) {
      search = null;
      searching.value = false;
    }
  }
}

export function stopSearch(): void {
  if (!search) return;
  void cancelQuery(search.id).catch(() => {});
  search.abort.abort();
}

/** Replaces the drawing by the paths. Undo restores the previous drawing. */
function draw(found: FoundPath[]): void {
  remember();
  const draft = new Draft();
  for (const { path } of found) draft.path(path);
  graph.value = draft.done();
  unchoose();
  const terms = [...graph.value.nodes.values()].map(({ term }) => term);
  // Names from the IRIs are shown until the labels arrive.
  const here = ground;
  void labelsOf(here.dataset, terms, new AbortController().signal).then((labels) => {
    if (here !== ground) return;
    const labelled = new Draft(graph.value);
    labelled.labels(labels);
    graph.value = labelled.done();
  }).catch(() => {});
}

function change(step: (draft: Draft) => void): number {
  const draft = new Draft(graph.value);
  step(draft);
  remember();
  graph.value = draft.done();
  if (draft.refused > 0) {
    trouble.value = `${plural(draft.refused, "node")} left out, because a larger drawing is not readable. Remove or collapse some nodes.`;
  }
  return draft.refused;
}

function remember(): void {
  past = [...past, graph.value].slice(-STEPS);
  canUndo.value = true;
}

/** Takes some neighbours of each predicate, starting with the rarest predicates, because they are the most specific. */
function share(groups: Group[], shown: Graph, key: string): [Group, Group["items"]][] {
  const there = neighboursOf(shown, key);
  const left = groups
    .filter(({ predicate }) => predicate !== RDF_TYPE)
    .sort((a, b) => a.count - b.count)
    .map((group) => ({ group, items: group.items.filter(({ term }) => term.type !== "literal" && !there.has(termKey(term))) }))
    .filter(({ items }) => items.length > 0);
  const each = Math.max(1, Math.floor(OPENED / Math.max(1, left.length)));
  let room = OPENED;
  return left.flatMap(({ group, items }) => {
    const some = items.slice(0, Math.min(each, room));
    room -= some.length;
    return some.length > 0 ? [[group, some] as [Group, Group["items"]]] : [];
  });
}

function messageOf(error: unknown): string {
  return error instanceof Problem ? error.message : String(error);
}
