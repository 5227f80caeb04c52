// The graph as a list, for users who do not see the drawing.

import { localName } from "../rdf/term.ts";
import { plural } from "../components/number.ts";
import { nodeName } from "./layout.ts";
import { edgesOf, type Graph } from "./model.ts";

export function GraphList({ graph, chosen, choose }: { graph: Graph; chosen: string | null; choose: (key: string) => void }) {
  return (
    <details class="graph-list">
      <summary>As a list: {plural(graph.nodes.size, "node")}, {plural(graph.edges.size, "edge")}</summary>
      <ul>
        {[...graph.nodes.values()].map((node) => (
          <li key={node.key}>
            <button type="button" class="link" aria-pressed={node.key === chosen} onClick={() => choose(node.key)}>{nodeName(node)}</button>
            {node.end && <span class="note"> {node.end}</span>}
            <ul>
              {edgesOf(graph, node.key).map((edge) => {
                const out = edge.source === node.key;
                const other = graph.nodes.get(out ? edge.target : edge.source);
                return (
                  <li key={edge.key}>
                    {out ? "" : "← "}{edge.predicate ? localName(edge.predicate) : "step"}{out ? " → " : " ─ "}
                    {other ? nodeName(other) : ""}
                  </li>
                );
              })}
            </ul>
          </li>
        ))}
      </ul>
    </details>
  );
}
