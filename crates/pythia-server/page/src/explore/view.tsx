// The explorer: the paths between two things, or the neighbourhood of one thing.

import { useEffect } from "preact/hooks";
import { GraphDrawing } from "../graph/drawing.tsx";
import { GraphList } from "../graph/list.tsx";
import { CopyButton } from "../components/copy.tsx";
import { plural } from "../components/number.ts";
import { Prefixes } from "../rdf/prefixes.ts";
import { iri as named, localName, termKey, termName, type PathParts } from "../rdf/term.ts";
import { link, route } from "../route.ts";
import { dataset } from "../server/datasets.ts";
import { Details } from "./details.tsx";
import { PathForm } from "./path-form.tsx";
import {
  canUndo, choices, choose, chosen, clear, findPaths, graph, open, paths, pathText, pin, remove, trouble, undo, visit,
} from "./state.ts";

const prefixes = Prefixes.of("");

export function ExploreView() {
  const { parameters } = route.value;
  const [node, from, to] = ["node", "from", "to"].map((name) => parameters.get(name));
  useEffect(() => {
    if (from && to) {
      choices.value = { ...choices.value, from, to };
      void findPaths();
    } else if (node) {
      choices.value = { ...choices.value, from: node };
      void visit(named(node));
    }
  }, [node, from, to]);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const typing = (event.target as Element).closest?.("input, textarea, select");
      if (event.key === "z" && (event.ctrlKey || event.metaKey) && !typing) { event.preventDefault(); undo(); }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);

  const shown = graph.value;
  const detailed = chosen.value !== null;
  return (
    <div class={detailed ? "explore-view detailed" : "explore-view"}>
      <h1 class="unseen">Explore</h1>
      <section class="explore-side" aria-label="Search">
        <PathForm />
        <Found />
      </section>
      <section class="explore-main" aria-label="Graph">
        {trouble.value && <pre class="problem" role="alert">{trouble.value}</pre>}
        {shown.nodes.size === 0
          ? <Welcome />
          : <>
              <GraphDrawing
                graph={shown} chosen={chosen.value} prefixes={prefixes}
                actions={{ choose: (key) => void choose(key), open: (key) => void open(key), pin, remove }}
                label="Graph. Arrow keys move between nodes. Enter expands a node, P pins it, Delete removes it."
              />
              <div class="graph-tools" role="group" aria-label="Graph">
                <button type="button" class="quiet" disabled={!canUndo.value} onClick={undo}>Undo</button>
                <button type="button" class="quiet" onClick={clear}>Clear</button>
                <span class="note">{plural(shown.nodes.size, "node")}, {plural(shown.edges.size, "edge")}</span>
              </div>
              <GraphList graph={shown} chosen={chosen.value} choose={(key) => void choose(key)} />
            </>}
      </section>
      <Details />
    </div>
  );
}

function Welcome() {
  return (
    <div class="welcome">
      <p>Choose a thing to see its neighbours. Choose two things to draw the shortest paths between them.</p>
    </div>
  );
}

function Found() {
  const found = paths.value;
  const text = pathText.value;
  if (!found || text === null) return null;
  const weighed = found.some(({ cost, length }) => cost !== length);
  return (
    <div class="found">
      <h2>{found.length === 0 ? "No path" : plural(found.length, "path")}</h2>
      {found.length === 0 && <p class="note">No path matches these options. Longer paths or both directions may give some.</p>}
      <ol>
        {found.slice(0, 20).map(({ path, length, cost }, at) => (
          <li key={at}><span class="note numbers">{weighed ? `${cost} · ` : ""}{plural(length, "edge")}</span> <Chain path={path} /></li>
        ))}
      </ol>
      {found.length > 20 && <p class="note">and {found.length - 20} more</p>}
      <details class="query-text">
        <summary>The query</summary>
        <pre tabIndex={0} aria-label="Query of the paths">{text}</pre>
        <CopyButton label="Copy" text={() => text} />
        <a href={link("query", dataset.value, { query: text })}>Open in the editor</a>
      </details>
    </div>
  );
}

/** A path as text. Each node is a button that shows it. */
function Chain({ path }: { path: PathParts }) {
  return (
    <>
      {path.nodes.map((node, at) => {
        const key = termKey(node);
        const edge = path.edges[at];
        const predicate = edge?.predicate?.type === "uri" ? localName(edge.predicate.value) : "";
        return (
          <>
            <button type="button" class="link" onClick={() => { if (graph.value.nodes.has(key)) void choose(key); }}>
              {graph.value.nodes.get(key)?.label ?? termName(node)}
            </button>
            {edge && <span class="note">{edge.inverse ? ` ← ${predicate} ─ ` : ` ─ ${predicate} → `}</span>}
          </>
        );
      })}
    </>
  );
}
