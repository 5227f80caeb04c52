// The outcome of a query and the views of it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { TabList, TabPanel } from "../components/tabs.tsx";
import { PlanTree } from "../query/plan.tsx";
import { CopyButton } from "../components/copy.tsx";
import { KEPT, type Run } from "../query/run.ts";
import { count } from "../components/number.ts";
import type { Row } from "../server/result-stream.ts";
import { Chart } from "./chart.tsx";
import { Download } from "./download.tsx";
import { GeoMap } from "./map.tsx";
import { placesOf } from "./places.ts";
import { ResultGraph } from "./result-graph.tsx";
import { Table } from "./table.tsx";

type Way = "table" | "chart" | "map" | "graph" | "raw";

const LABELS: Record<Way, string> = { table: "Table", chart: "Chart", map: "Map", graph: "Graph", raw: "JSON" };
const PANEL = "outcome";
/** Maximum number of rows shown as JSON. */
const RAW = 500;

/** The last chosen view. The next run starts with it. */
let preferred: Way | null = null;

export function Outcomes({ run }: { run: Run }) {
  const { outcome } = run;
  switch (outcome.kind) {
    case "none": return null;
    case "updated": return <p class="answer">The update is done.</p>;
    case "boolean": return <p class="answer">{outcome.value ? "Yes" : "No"}</p>;
    case "plan": return <PlanOutcome run={run} />;
    case "table": return <Rows run={run} columns={outcome.columns} rows={outcome.rows} ways={waysOf(outcome.columns, outcome.rows)} />;
    case "graph": {
      const rows = outcome.triples as unknown as Row[];
      return <Rows run={run} columns={["subject", "predicate", "object"]} rows={rows} ways={["graph", "table", "raw"]} />;
    }
  }
}

function PlanOutcome({ run }: { run: Run }) {
  if (run.outcome.kind !== "plan") return null;
  const { plan } = run.outcome;
  return (
    <>
      <PlanTree plan={plan} />
      <p><CopyButton label="Copy as JSON" text={() => JSON.stringify(plan, null, 2)} /></p>
    </>
  );
}

function Rows(props: { run: Run; columns: string[]; rows: Row[]; ways: Way[] }) {
  const { run, columns, rows, ways } = props;
  const [wanted, setWanted] = useState(preferred);
  const chosen = wanted !== null && ways.includes(wanted) ? wanted : ways[0] ?? "table";
  useEffect(() => { preferred = wanted; }, [wanted]);
  if (columns.length === 0 && rows.length === 0 && run.state !== "running") return <p class="answer">No results.</p>;
  return (
    <>
      <div class="outcome-head">
        <TabList
          label="Views of the results" panel={PANEL} chosen={chosen} choose={setWanted}
          tabs={ways.map((key) => ({ key, label: LABELS[key] }))}
        />
        {run.state !== "running" && <Download run={run} />}
      </div>
      {run.cut && <p class="note">Only the first {count(KEPT)} are shown. A download contains all of them.</p>}
      <TabPanel panel={PANEL} chosen={chosen}>
        {chosen === "table" && <Table columns={columns} rows={rows} length={rows.length} prefixes={run.prefixes} dataset={run.dataset} />}
        {chosen === "chart" && <Chart columns={columns} rows={rows} prefixes={run.prefixes} />}
        {chosen === "map" && <GeoMap columns={columns} rows={rows} prefixes={run.prefixes} dataset={run.dataset} />}
        {chosen === "graph" && <ResultGraph run={run} />}
        {chosen === "raw" && <Raw columns={columns} rows={rows} />}
      </TabPanel>
    </>
  );
}

function Raw({ columns, rows }: { columns: string[]; rows: Row[] }) {
  const text = useMemo(
    () => JSON.stringify({ head: { vars: columns }, results: { bindings: rows.slice(0, RAW) } }, null, 2),
    [columns, rows, rows.length],
  );
  return (
    <>
      {rows.length > RAW && <p class="note">Only the first {count(RAW)} of {count(rows.length)} are shown.</p>}
      <pre class="raw" tabIndex={0} aria-label="Results as JSON">{text}</pre>
    </>
  );
}

function waysOf(columns: string[], rows: Row[]): Way[] {
  const ways: Way[] = ["table", "chart"];
  const first = rows.slice(0, 50);
  if (placesOf(columns, first).length > 0) ways.push("map");
  if (first.some((row) => Object.values(row).some((term) => term.type === "literal" && term.path))) ways.push("graph");
  return [...ways, "raw"];
}
