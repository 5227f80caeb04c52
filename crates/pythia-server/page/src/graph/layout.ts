// Positions of nodes. Forces keep connected nodes close and labels apart. Nodes of paths are placed in columns by
// their distance from the start.

import { forceLink, forceManyBody, forceSimulation, forceX, forceY, type Simulation, type SimulationNodeDatum } from "d3-force";
import { termName } from "../rdf/term.ts";
import type { Box } from "./pan-zoom.tsx";
import type { Graph, GraphNode } from "./model.ts";

export interface Placed extends SimulationNodeDatum {
  key: string;
  x: number;
  y: number;
  width: number;
  column: number | null;
}

export const NODE_HEIGHT = 30;
const COLUMN = 200;
const CHARACTER = 7.1;
const LONGEST_NAME = 26;
const GAP = 14;
/** Steps of the simulation per frame. Fewer frames make the movement calmer. */
const TICKS_A_FRAME = 6;

export function nodeName(node: GraphNode): string {
  const name = node.label ?? termName(node.term);
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;
}

export class Layout {
  private readonly placed = new Map<string, Placed>();
  private readonly simulation: Simulation<Placed, { source: Placed; target: Placed }>;
  private frame = 0;

  /** `moved` is called after every step. */
  constructor(private readonly moved: () => void) {
    this.simulation = forceSimulation<Placed>().stop().alphaDecay(0.03)
      .force("charge", forceManyBody<Placed>().strength(-600).distanceMax(600))
      .force("x", forceX<Placed>((node) => (node.column ?? 0) * COLUMN).strength((node) => (node.column === null ? 0.02 : 0.5)))
      .force("y", forceY<Placed>(0).strength(0.025))
      .force("apart", apart(() => this.simulation.nodes()));
  }

  show(graph: Graph): void {
    let changed = this.placed.size !== graph.nodes.size;
    for (const key of this.placed.keys()) if (!graph.nodes.has(key)) this.placed.delete(key);
    for (const node of graph.nodes.values()) changed = this.take(node, graph) || changed;
    const links = [...graph.edges.values()].flatMap(({ source, target }) => {
      const [from, to] = [this.placed.get(source), this.placed.get(target)];
      return from && to && from !== to ? [{ source: from, target: to }] : [];
    });
    this.simulation.nodes([...this.placed.values()]);
    this.simulation.force("link", forceLink<Placed, { source: Placed; target: Placed }>(links)
      .distance(({ source, target }) => (source.width + target.width) / 2 + 84).strength(0.3));
    if (changed) this.run();
    else this.moved();
  }

  get(key: string): Placed | undefined {
    return this.placed.get(key);
  }

  drag(key: string, x: number, y: number): void {
    const node = this.placed.get(key);
    if (!node) return;
    [node.fx, node.fy] = [x, y];
    this.run(0.25);
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
  }

  /** Returns the area of the drawing with a margin. It is at least `size`, so that a few nodes are not enlarged to fill it. */
  bounds(size: { width: number; height: number }): Box {
    const nodes = [...this.placed.values()];
    if (nodes.length === 0) return { x: -size.width / 2, y: -size.height / 2, ...size };
    const margin = 24;
    const left = Math.min(...nodes.map((node) => node.x - node.width / 2)) - margin;
    const right = Math.max(...nodes.map((node) => node.x + node.width / 2)) + margin;
    const top = Math.min(...nodes.map((node) => node.y)) - NODE_HEIGHT - margin;
    const bottom = Math.max(...nodes.map((node) => node.y)) + NODE_HEIGHT + margin;
    const width = Math.max(right - left, size.width);
    const height = Math.max(bottom - top, size.height);
    return { x: (left + right - width) / 2, y: (top + bottom - height) / 2, width, height };
  }

  private take(node: GraphNode, graph: Graph): boolean {
    const width = nodeName(node).length * CHARACTER + 30;
    const before = this.placed.get(node.key);
    if (before) {
      before.width = width;
      before.column = node.depth;
      if (!node.pinned) before.fx = before.fy = null;
      else [before.fx, before.fy] = [before.fx ?? before.x, before.fy ?? before.y];
      return false;
    }
    const near = this.neighbourPlace(node.key, graph);
    const angle = this.placed.size * 2.4;
    this.placed.set(node.key, {
      key: node.key, width, column: node.depth,
      x: node.depth !== null ? node.depth * COLUMN : near.x + Math.cos(angle) * 120,
      y: near.y + Math.sin(angle) * 90,
    });
    return true;
  }

  private neighbourPlace(key: string, graph: Graph): { x: number; y: number } {
    for (const { source, target } of graph.edges.values()) {
      const other = source === key ? this.placed.get(target) : target === key ? this.placed.get(source) : undefined;
      if (other) return other;
    }
    return { x: 0, y: 0 };
  }

  private run(alpha = 1): void {
    this.simulation.alpha(Math.max(alpha, this.simulation.alpha()));
    cancelAnimationFrame(this.frame);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      while (this.simulation.alpha() > this.simulation.alphaMin()) this.simulation.tick();
      this.moved();
      return;
    }
    const step = () => {
      this.simulation.tick(TICKS_A_FRAME);
      this.moved();
      if (this.simulation.alpha() > this.simulation.alphaMin()) this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }
}

/** Returns a force that keeps the boxes of nodes from overlapping. */
function apart(nodes: () => Placed[]) {
  return (alpha: number) => {
    const all = nodes();
    for (const [at, a] of all.entries()) {
      for (const b of all.slice(at + 1)) {
        const across = (a.width + b.width) / 2 + GAP - Math.abs(a.x - b.x);
        const down = NODE_HEIGHT + GAP - Math.abs(a.y - b.y);
        if (across <= 0 || down <= 0) continue;
        // Boxes move sideways only where that is shorter, because labels are wide.
        const strength = 0.5 * Math.max(alpha, 0.2);
        if (down < across) {
          const push = down * strength * (a.y <= b.y ? 1 : -1);
          a.y -= push;
          b.y += push;
        } else {
          const push = across * strength * (a.x <= b.x ? 1 : -1);
          a.x -= push;
          b.x += push;
        }
      }
    }
  };
}
