// Download of the whole result as a file, in the formats that the server writes. The query is run again for it.

import { useState } from "preact/hooks";
import { announce } from "../components/status.ts";
import { download } from "../server/queries.ts";
import type { Run } from "../query/run.ts";

type Format = [label: string, extension: string, mediaType: string];

const TABLES: Format[] = [
  ["CSV", "csv", "text/csv"],
  ["TSV", "tsv", "text/tab-separated-values"],
  ["JSON", "srj", "application/sparql-results+json"],
  ["XML", "srx", "application/sparql-results+xml"],
];
const GRAPHS: Format[] = [
  ["Turtle", "ttl", "text/turtle"],
  ["N-Triples", "nt", "application/n-triples"],
  ["RDF/XML", "rdf", "application/rdf+xml"],
  ["JSON-LD", "jsonld", "application/ld+json"],
];

export function Download({ run }: { run: Run }) {
  const [state, setState] = useState<string | null>(null);
  const formats = run.outcome.kind === "graph" ? GRAPHS : TABLES;
  const save = async ([label, extension, mediaType]: Format) => {
    setState(`${label}…`);
    try {
      const file = await download(run, mediaType, new AbortController().signal);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(file);
      link.download = `results.${extension}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      announce(`${label} downloaded`);
      setState(null);
    } catch (error) {
      setState(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <div class="download" role="group" aria-label="Download all results">
      <span class="note">{state ?? "Download"}</span>
      {formats.map((format) => (
        <button key={format[1]} type="button" class="quiet" onClick={() => void save(format)}>{format[0]}</button>
      ))}
    </div>
  );
}
