// Model of the drawn graph: nodes and edges are added, collapsed and removed in single steps.

import { termKey, type PathParts, type Term, type Triple } from "../rdf/term.ts";
import type { Direction, Neighbour } from "../server/explore.ts";

export interface GraphNode {
  key: string;
  term: Term;
  label: string | null;
  /** The node's column in the layout of paths, or null if it is not on a path. */
  depth: number | null;
  end: "start" | "end" | null;
  pinned: boolean;
}

export interface GraphEdge {
  key: string;
  source: string;
  target: string;
  /** Null for a step of a path that is not a triple. */
  predicate: string | null;
  onPath: boolean;
}

/** A graph is immutable. Every operation creates a new graph, and undo returns to the previous one. */
export interface Graph {
  nodes: ReadonlyMap<string, GraphNode>;
  edges: ReadonlyMap<string, GraphEdge>;
}

export const EMPTY: Graph = { nodes: new Map(), edges: new Map() };

/** Maximum number of nodes. A drawing with more is not readable. */
export const MOST_NODES = 400;

export class Draft {
  private readonly nodes: Map<string, GraphNode>;
  private readonly edges: Map<string, GraphEdge>;
  /** Number of nodes left out because there were too many. */
  refused = 0;

  constructor(graph: Graph = EMPTY) {
    this.nodes = new Map(graph.nodes);
    this.edges = new Map(graph.edges);
  }

  node(term: Term, more: Partial<Pick<GraphNode, "label" | "depth" | "end">> = {}): string | null {
    const key = termKey(term);
    const before = this.nodes.get(key);
    if (!before && this.nodes.size >= MOST_NODES) {
      this.refused += 1;
      return null;
    }
    const base = before ?? { key, term, label: null, depth: null, end: null, pinned: false };
    this.nodes.set(key, {
      ...base,
      label: more.label ?? base.label,
      depth: least(base.depth, more.depth ?? null),
      end: more.end ?? base.end,
    });
    return key;
  }

  edge(source: string | null, predicate: string | null, target: string | null, onPath = false): void {
    if (source === null || target === null) return;
    const key = `${source} ${predicate ?? "-"} ${target}`;
    this.edges.set(key, { key, source, target, predicate, onPath: onPath || (this.edges.get(key)?.onPath ?? false) });
  }

  path(path: PathParts): void {
    const last = path.nodes.length - 1;
    const keys = path.nodes.map((term, depth) => this.node(term, {
      depth, ...(depth === 0 ? { end: "start" } : depth === last ? { end: "end" } : {}),
    }));
    path.edges.forEach(({ predicate, inverse }, at) => {
      const [from = null, to = null] = [keys[at], keys[at + 1]];
      const iri = predicate?.type === "uri" ? predicate.value : null;
      this.edge(inverse ? to : from, iri, inverse ? from : to, true);
    });
  }

  triple({ subject, predicate, object }: Triple): void {
    this.edge(this.node(subject), predicate.type === "uri" ? predicate.value : null, this.node(object));
  }

  neighbours(of: string, predicate: string, direction: Direction, items: Neighbour[]): void {
    for (const { term, label } of items) {
      if (term.type === "literal") continue;
      const other = this.node(term, { label });
      this.edge(direction === "out" ? of : other, predicate, direction === "out" ? other : of);
    }
  }

  labels(labels: Map<string, string>): void {
    for (const node of this.nodes.values()) {
      const label = node.term.type === "uri" ? labels.get(node.term.value) : undefined;
      if (label !== undefined) this.nodes.set(node.key, { ...node, label });
    }
  }

  pin(key: string, pinned: boolean): void {
    const node = this.nodes.get(key);
    if (node) this.nodes.set(key, { ...node, pinned });
  }

  remove(key: string): void {
    this.nodes.delete(key);
    for (const edge of this.edges.values()) {
      if (edge.source === key || edge.target === key) this.edges.delete(edge.key);
    }
  }

  /** Removes the neighbours that are connected only to this node. */
  collapse(key: string): void {
    const graph = this.done();
    for (const other of neighboursOf(graph, key)) {
      const node = this.nodes.get(other);
      const alone = [...neighboursOf(graph, other)].every((next) => next === key);
      if (node && alone && !node.pinned && !node.end) this.remove(other);
    }
  }

  done(): Graph {
    return { nodes: this.nodes, edges: this.edges };
  }
}

export function neighboursOf(graph: Graph, key: string): Set<string> {
  const found = new Set<string>();
  for (const { source, target } of graph.edges.values()) {
    if (source === key && target !== key) found.add(target);
    if (target === key && source !== key) found.add(source);
  }
  return found;
}

export function edgesOf(graph: Graph, key: string): GraphEdge[] {
  return [...graph.edges.values()].filter(({ source, target }) => source === key || target === key);
}

function least(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.min(a, b);
}
