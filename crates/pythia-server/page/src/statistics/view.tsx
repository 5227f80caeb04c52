// Statistics of the dataset, and the queries that the server is running.

import { useEffect, useState } from "preact/hooks";
import { bytes, count, duration, plural } from "../components/number.ts";
import { link, nodeLink } from "../route.ts";
import { localName } from "../rdf/term.ts";
import { PlanTree } from "../query/plan.tsx";
import { datasetAddress, Problem } from "../server/connection.ts";
import { addressed, dataset, datasetName } from "../server/datasets.ts";
import { cancelQuery, runningQueries, type RunningQuery } from "../server/queries.ts";
import { statistics, type Statistics } from "../server/statistics.ts";

const LOOK_MS = 2000;
const FIRST_PREDICATES = 30;

export function StatisticsView() {
  const [held, setHeld] = useState<Statistics | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  useEffect(() => {
    statistics(datasetName()).then(setHeld, (error: unknown) => setTrouble(error instanceof Problem ? error.message : String(error)));
  }, []);
  return (
    <div class="statistics-view">
      <h1>{datasetName() ?? "Statistics"}</h1>
      {trouble && <pre class="problem" role="alert">{trouble}</pre>}
      {held && <Figures held={held} />}
      <Running />
      {held && <Predicates held={held} />}
      <p class="note"><a href={datasetAddress(dataset.value, "void")}>Description of the data (VoID)</a></p>
    </div>
  );
}

function Figures({ held }: { held: Statistics }) {
  const figures: [string, string][] = [
    ["Quads", count(held.quads)],
    ["Nodes", count(held.nodes)],
    ["Named graphs", count(held.named_graphs)],
    ["Predicates", count(held.predicates.length)],
    ["Size on the device", bytes(held.bytes)],
    ...measures("Cache", held.cache),
    ...measures("Memory", held.memory),
  ];
  return (
    <dl class="figures">
      {figures.map(([name, value]) => <div key={name}><dt>{name}</dt><dd class="numbers">{value}</dd></div>)}
    </dl>
  );
}

/** Returns the server's figures by their names there. Names that end with `bytes` are bytes, all others are counts. */
function measures(what: string, values: Record<string, number> | undefined): [string, string][] {
  return Object.entries(values ?? {}).filter(([, value]) => typeof value === "number").map(([name, value]) => {
    const isBytes = name === "bytes" || name.endsWith("_bytes");
    const words = name.replace(/_?bytes$/, "").replaceAll("_", " ");
    return [`${what} ${words}`.trim(), isBytes ? bytes(value) : count(value)];
  });
}

function Predicates({ held }: { held: Statistics }) {
  const [all, setAll] = useState(false);
  const sorted = held.predicates.toSorted((a, b) => b.quads - a.quads);
  const most = sorted[0]?.quads ?? 1;
  const shown = all ? sorted : sorted.slice(0, FIRST_PREDICATES);
  return (
    <section aria-labelledby="predicates-title">
      <h2 id="predicates-title">Predicates</h2>
      <table class="plain">
        <thead><tr><th scope="col">Predicate</th><th scope="col" class="number">Quads</th><th scope="col"><span class="unseen">Share</span></th></tr></thead>
        <tbody>
          {shown.map(({ iri, quads }) => (
            <tr key={iri}>
              <td><a href={nodeLink(dataset.value, iri)} title={iri}>{localName(iri)}</a></td>
              <td class="number numbers">{count(quads)}</td>
              <td class="share-cell"><meter class="bar" aria-label={`Share of ${localName(iri)}`} min={0} max={most} value={quads} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > shown.length && <button type="button" onClick={() => setAll(true)}>All {count(sorted.length)}</button>}
    </section>
  );
}

function Running() {
  const [queries, setQueries] = useState<RunningQuery[] | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  useEffect(() => {
    let over = false;
    const look = async () => {
      while (!over) {
        try {
          setQueries(await runningQueries());
        } catch (error) {
          // A user who may not see the queries is not asked repeatedly.
          setTrouble(error instanceof Problem ? error.message : String(error));
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    };
    void look();
    return () => { over = true; };
  }, []);
  const cancel = (id: string) => void cancelQuery(id).then(
    () => setQueries((before) => before?.filter((query) => query.id !== id) ?? null),
    (error: unknown) => setTrouble(String(error)),
  );
  return (
    <section aria-labelledby="running-title">
      <h2 id="running-title">Running queries</h2>
      {trouble && <p class="note">{trouble}</p>}
      {queries?.length === 0 && <p class="note">None.</p>}
      <ul class="running">
        {queries?.map((query) => (
          <li key={query.id}>
            <div class="running-head">
              <span class="numbers">
                {query.state === "queued" ? "queued" : duration(query.started_ms_ago)}
                {query.rows !== null && ` · ${plural(query.rows, "row")}`}
              </span>
              {query.client && <span class="note">{query.client}</span>}
              <a href={link("query", addressed(query.dataset), { query: query.text })}>Open</a>
              <button type="button" class="stop" aria-label={`Cancel query ${query.id}`} onClick={() => cancel(query.id)}>Cancel</button>
            </div>
            <pre tabIndex={0} aria-label={`Text of query ${query.id}`}>{query.text}</pre>
            {query.plan && <details><summary>Plan</summary><PlanTree plan={query.plan} running /></details>}
          </li>
        ))}
      </ul>
    </section>
  );
}
