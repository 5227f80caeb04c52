// One term in a table. IRIs are links to the explorer, paths are shown as chains, and long texts are cut.

import { nodeLink } from "../route.ts";
import type { Prefixes } from "../rdf/prefixes.ts";
import { literalNote, numberOf, termText, type PathParts, type Term } from "../rdf/term.ts";

const LONG = 160;

export function Cell(props: {
  term: Term | undefined;
  prefixes: Prefixes;
  dataset: string | null;
  show: (text: string) => void;
}) {
  const { term, prefixes, dataset, show } = props;
  if (!term) return null;
  switch (term.type) {
    case "uri": return <Link dataset={dataset} iri={term.value} prefixes={prefixes} />;
    case "bnode": return <span class="blank">_:{term.value}</span>;
    case "triple": return <span class="triple">{termText(term, prefixes)}</span>;
    case "literal": {
      if (term.path) return <Path dataset={dataset} path={term.path} prefixes={prefixes} />;
      const note = literalNote(term, prefixes);
      return (
        <>
          <span class={numberOf(term) === null ? "literal" : "literal numbers"}>
            {term.value.length > LONG ? `${term.value.slice(0, LONG)}…` : term.value}
          </span>
          {note && <span class="literal-note">{note}</span>}
          {term.value.length > LONG && (
            <button type="button" class="more" onClick={() => show(term.value)}>All</button>
          )}
        </>
      );
    }
  }
}

function Link({ dataset, iri, prefixes }: { dataset: string | null; iri: string; prefixes: Prefixes }) {
  return <a href={nodeLink(dataset, iri)} title={iri}>{prefixes.shorten(iri) ?? iri}</a>;
}

function Path({ dataset, path, prefixes }: { dataset: string | null; path: PathParts; prefixes: Prefixes }) {
  return (
    <span class="path">
      {path.nodes.map((node, at) => {
        const edge = path.edges[at];
        return (
          <>
            {node.type === "uri" ? <Link dataset={dataset} iri={node.value} prefixes={prefixes} /> : <span>{termText(node, prefixes)}</span>}
            {edge && (
              <span class="path-edge">
                {edge.inverse ? "← " : "─ "}
                {edge.predicate ? termText(edge.predicate, prefixes) : ""}
                {edge.inverse ? " ─" : " →"}
              </span>
            )}
          </>
        );
      })}
    </span>
  );
}
