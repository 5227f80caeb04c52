// Results as a graph: the triples of a CONSTRUCT query or the paths of a PATHS query.

import { useMemo, useState } from "preact/hooks";
import { GraphDrawing } from "../graph/drawing.tsx";
import { GraphList } from "../graph/list.tsx";
import { Draft } from "../graph/model.ts";
import { plural } from "../components/number.ts";
import { nodeLink } from "../route.ts";
import { termText } from "../rdf/term.ts";
import type { Outcome, Run } from "../query/run.ts";

export function ResultGraph({ run }: { run: Run }) {
  const { outcome } = run;
  const length = outcome.kind === "graph" ? outcome.triples.length : outcome.kind === "table" ? outcome.rows.length : 0;
  const { graph, refused } = useMemo(() => draw(outcome), [run.id, length]);
  const [chosen, setChosen] = useState<string | null>(null);
  const node = chosen === null ? undefined : graph.nodes.get(chosen);
  const open = (key: string) => {
    const term = graph.nodes.get(key)?.term;
    if (term?.type === "uri") location.hash = nodeLink(run.dataset, term.value);
    else setChosen(key);
  };
  return (
    <>
      {refused > 0 && <p class="note">Only the first {plural(graph.nodes.size, "node")} are shown, because a larger drawing is not readable. The table contains everything.</p>}
      <GraphDrawing
        graph={graph} chosen={chosen} prefixes={run.prefixes} actions={{ choose: setChosen, open }}
        label={`Graph of ${plural(graph.nodes.size, "node")}. Arrow keys move between nodes. Enter explores a node.`}
      />
      {node && (
        <p class="chosen-node">
          {node.term.type === "uri"
            ? <><a href={nodeLink(run.dataset, node.term.value)}>Explore</a> <code>{node.term.value}</code></>
            : termText(node.term, run.prefixes)}
        </p>
      )}
      <GraphList graph={graph} chosen={chosen} choose={setChosen} />
    </>
  );
}

function draw(outcome: Outcome) {
  const draft = new Draft();
  if (outcome.kind === "graph") for (const triple of outcome.triples) draft.triple(triple);
  if (outcome.kind === "table") {
    for (const row of outcome.rows) {
      for (const term of Object.values(row)) if (term.type === "literal" && term.path) draft.path(term.path);
    }
  }
  return { graph: draft.done(), refused: draft.refused };
}
