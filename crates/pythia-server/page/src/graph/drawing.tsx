// Drawing of a graph. The nodes are one stop in the keyboard's tab order: arrow keys move to the nearest node in a
// direction, and Enter opens the node.

import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { Prefixes } from "../rdf/prefixes.ts";
import { localName, termText } from "../rdf/term.ts";
import { Layout, NODE_HEIGHT, nodeName, type Placed } from "./layout.ts";
import { edgesOf, type Graph, type GraphEdge, type GraphNode } from "./model.ts";
import { usePanZoom, ZoomButtons } from "./pan-zoom.tsx";

export interface Actions {
  choose: (key: string) => void;
  open: (key: string) => void;
  pin?: (key: string, pinned: boolean) => void;
  remove?: (key: string) => void;
}

/** A pointer that moved less than this is a click. */
const CLICK_PIXELS = 4;

export function GraphDrawing(props: {
  graph: Graph;
  chosen: string | null;
  prefixes: Prefixes;
  actions: Actions;
  label: string;
}) {
  const { graph, chosen, prefixes, actions } = props;
  const [, redraw] = useReducer((frame: number) => frame + 1, 0);
  const layout = useMemo(() => new Layout(() => redraw(undefined as never)), []);
  const svg = useRef<SVGSVGElement>(null);
  const [focused, setFocused] = useState<string | null>(null);
  useEffect(() => () => layout.stop(), []);
  useEffect(() => layout.show(graph), [graph]);

  const { box, zoom, place, handlers, fit } = usePanZoom(svg, layout.bounds(sizeOf(svg.current)), 120, 20_000);
  const stop = focused !== null && graph.nodes.has(focused) ? focused : chosen ?? graph.nodes.keys().next().value ?? null;
  const drag = useDrag(layout, place, actions);
  const nearby = chosen === null ? null : new Set(edgesOf(graph, chosen).map(({ key }) => key));
  const keys = (event: KeyboardEvent, key: string) => {
    const next = directionOf(event.key);
    if (next) {
      const other = nearest(layout, graph, key, next);
      if (other) focusNode(svg.current, other);
    } else if (event.key === "Enter" || event.key === " ") actions.open(key);
    else if (event.key === "Delete" && actions.remove) actions.remove(key);
    else if (event.key === "p" && actions.pin) actions.pin(key, !graph.nodes.get(key)?.pinned);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="graph">
      <svg
        ref={svg} class="graph-drawing" viewBox={`${box.x} ${box.y} ${box.width} ${box.height}`}
        role="group" aria-label={props.label} {...handlers}
        onPointerMove={(event) => { if (!drag.move(event)) handlers.onPointerMove(event); }}
        onPointerUp={(event) => { drag.up(event); handlers.onPointerUp(event); }}
      >
        <defs>
          {["arrow", "arrow-path"].map((id) => (
            <marker key={id} id={id} class={id} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
              <path d="M0 0 8 4 0 8Z" />
            </marker>
          ))}
        </defs>
        {[...bundles(graph)].map(([pair, edges]) => edges.map((edge, at) => (
          <EdgeLine
            key={edge.key} edge={edge} layout={layout} bend={(at - (edges.length - 1) / 2) * 34 * (pair.startsWith(edge.source) ? 1 : -1)}
            faint={nearby !== null && nearby.size > 0 && !nearby.has(edge.key) && !edge.onPath}
          />
        )))}
        {[...graph.nodes.values()].map((node) => (
          <NodeBox
            key={node.key} node={node} placed={layout.get(node.key)} chosen={node.key === chosen}
            name={termText(node.term, prefixes)} edges={edgesOf(graph, node.key).length} stop={node.key === stop}
            onFocus={() => setFocused(node.key)} onKeyDown={(event) => keys(event, node.key)}
            onPointerDown={(event) => { event.stopPropagation(); drag.down(event, node.key); }}
            onClick={() => { if (!drag.dragged()) actions.choose(node.key); }}
            onDblClick={() => actions.open(node.key)}
          />
        ))}
      </svg>
      <ZoomButtons zoom={zoom} fit={fit} />
    </div>
  );
}

function sizeOf(svg: SVGSVGElement | null): { width: number; height: number } {
  return { width: svg?.clientWidth || 640, height: svg?.clientHeight || 400 };
}

function NodeBox(props: {
  node: GraphNode;
  placed: Placed | undefined;
  chosen: boolean;
  name: string;
  edges: number;
  stop: boolean;
  onFocus: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
  onPointerDown: (event: PointerEvent) => void;
  onClick: () => void;
  onDblClick: () => void;
}) {
  const { node, placed, chosen, name, edges, stop, ...handlers } = props;
  if (!placed) return null;
  const role = [node.end && `end-${node.end}`, node.depth !== null && "on-path", chosen && "chosen", node.term.type].filter(Boolean).join(" ");
  const spoken = `${nodeName(node)}${node.end ? `, ${node.end} of the paths` : ""}, ${edges} edges${node.pinned ? ", pinned" : ""}`;
  return (
    <g
      class={`node ${role}`} transform={`translate(${placed.x.toFixed(1)} ${placed.y.toFixed(1)})`} data-key={node.key}
      role="button" tabIndex={stop ? 0 : -1} aria-label={spoken} aria-pressed={chosen} {...handlers}
    >
      <title>{name}</title>
      <rect x={-placed.width / 2} y={-NODE_HEIGHT / 2} width={placed.width} height={NODE_HEIGHT} rx={NODE_HEIGHT / 2} />
      <text y={4.5} text-anchor="middle">{nodeName(node)}</text>
      {node.pinned && <circle class="pin" cx={placed.width / 2 - 8} cy={-NODE_HEIGHT / 2 + 2} r={4.5} />}
    </g>
  );
}

function EdgeLine({ edge, layout, bend, faint }: { edge: GraphEdge; layout: Layout; bend: number; faint: boolean }) {
  const [source, target] = [layout.get(edge.source), layout.get(edge.target)];
  if (!source || !target) return null;
  const loop = source === target;
  const [dx, dy] = [target.x - source.x, target.y - source.y];
  const length = Math.hypot(dx, dy) || 1;
  const middle = loop
    ? { x: source.x, y: source.y - 62 }
    : { x: (source.x + target.x) / 2 - (dy / length) * bend, y: (source.y + target.y) / 2 + (dx / length) * bend };
  const from = border(source, middle);
  const to = border(target, middle);
  // A quadratic curve passes half-way between its ends' middle and its control point, so the control point is
  // twice as far out.
  const control = { x: 2 * middle.x - (from.x + to.x) / 2, y: 2 * middle.y - (from.y + to.y) / 2 };
  const d = loop
    ? `M${source.x - 12} ${source.y - 15}C${source.x - 50} ${source.y - 75} ${source.x + 50} ${source.y - 75} ${source.x + 12} ${source.y - 15}`
    : `M${from.x} ${from.y}Q${control.x} ${control.y} ${to.x} ${to.y}`;
  return (
    <g class={`edge${edge.onPath ? " on-path" : ""}${faint ? " faint" : ""}`}>
      <path d={d} marker-end={`url(#${edge.onPath ? "arrow-path" : "arrow"})`} />
      {edge.predicate && <text x={middle.x} y={middle.y + 4} text-anchor="middle">{localName(edge.predicate)}<title>{edge.predicate}</title></text>}
    </g>
  );
}

/** Returns the point at which the line from a node's middle towards a point leaves the node's box. */
function border(node: Placed, towards: { x: number; y: number }): { x: number; y: number } {
  const [dx, dy] = [towards.x - node.x, towards.y - node.y];
  const scale = Math.min(
    (node.width / 2 + 3) / Math.max(Math.abs(dx), 0.01),
    (NODE_HEIGHT / 2 + 3) / Math.max(Math.abs(dy), 0.01),
    1,
  );
  return { x: node.x + dx * scale, y: node.y + dy * scale };
}

/** Groups edges between the same two nodes, in either direction, so that they can be drawn next to each other. */
function bundles(graph: Graph): Map<string, GraphEdge[]> {
  const found = new Map<string, GraphEdge[]>();
  for (const edge of graph.edges.values()) {
    const pair = [edge.source, edge.target].sort().join("\n");
    found.set(pair, [...(found.get(pair) ?? []), edge]);
  }
  return found;
}

/** Handles dragging. A dragged node is pinned where it is released. */
function useDrag(layout: Layout, place: (event: PointerEvent) => { x: number; y: number }, actions: Actions) {
  const state = useRef<{ key: string; x: number; y: number; moved: boolean } | null>(null);
  const last = useRef(false);
  return {
    down(event: PointerEvent, key: string) {
      state.current = { key, x: event.clientX, y: event.clientY, moved: false };
      last.current = false;
    },
    move(event: PointerEvent): boolean {
      const now = state.current;
      if (!now) return false;
      now.moved ||= Math.hypot(event.clientX - now.x, event.clientY - now.y) > CLICK_PIXELS;
      const at = place(event);
      if (now.moved) layout.drag(now.key, at.x, at.y);
      return true;
    },
    up(_event: PointerEvent) {
      const now = state.current;
      state.current = null;
      last.current = now?.moved ?? false;
      if (now?.moved) actions.pin?.(now.key, true);
    },
    dragged: () => last.current,
  };
}

type Direction = { x: number; y: number };

function directionOf(key: string): Direction | null {
  switch (key) {
    case "ArrowLeft": return { x: -1, y: 0 };
    case "ArrowRight": return { x: 1, y: 0 };
    case "ArrowUp": return { x: 0, y: -1 };
    case "ArrowDown": return { x: 0, y: 1 };
    default: return null;
  }
}

function nearest(layout: Layout, graph: Graph, key: string, direction: Direction): string | null {
  const from = layout.get(key);
  if (!from) return null;
  let best: { key: string; far: number } | null = null;
  for (const other of graph.nodes.keys()) {
    const to = layout.get(other);
    if (!to || other === key) continue;
    const along = (to.x - from.x) * direction.x + (to.y - from.y) * direction.y;
    const aside = Math.abs((to.x - from.x) * direction.y) + Math.abs((to.y - from.y) * direction.x);
    if (along <= 0) continue;
    const far = along + 2 * aside;
    if (!best || far < best.far) best = { key: other, far };
  }
  return best?.key ?? null;
}

export function focusNode(root: ParentNode | null, key: string): void {
  root?.querySelector<SVGGElement>(`[data-key="${CSS.escape(key)}"]`)?.focus();
}
