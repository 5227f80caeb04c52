// A plan as a tree whose parts can be folded, with estimated and actual numbers next to each other.

import { count, duration, shortCount } from "../components/number.ts";
import type { PlanNode } from "../server/queries.ts";

/** Factor by which an estimate must be wrong to be highlighted. */
const OFF = 10;

/** With `running`, a low number of rows is not highlighted, because more rows may still come. */
export function PlanTree({ plan, running = false }: { plan: PlanNode; running?: boolean }) {
  const longest = Math.max(1, ...parts(plan).map((part) => part.time_us ?? 0));
  return (
    <div class="plan">
      <ul><Part node={plan} longest={longest} step={false} running={running} /></ul>
    </div>
  );
}

interface PartProps { node: PlanNode; longest: number; step: boolean; running: boolean }

function Part({ node, longest, step, running }: PartProps) {
  const steps = node.steps ?? [];
  const inputs = node.inputs ?? [];
  const line = <Line node={node} longest={longest} step={step} running={running} />;
  if (steps.length + inputs.length === 0) return <li class="leaf">{line}</li>;
  return (
    <li>
      <details open>
        <summary>{line}</summary>
        <ul>
          {steps.map((below, at) => <Part key={`step${at}`} node={below} longest={longest} step running={running} />)}
          {inputs.map((below, at) => <Part key={`input${at}`} node={below} longest={longest} step={false} running={running} />)}
        </ul>
      </details>
    </li>
  );
}

function Line({ node, longest, step, running }: PartProps) {
  return (
    <span class={step ? "part step" : "part"}>
      <span class="part-name"><b>{node.operator}</b> <span class="part-detail">{node.detail}</span></span>
      <span class="part-numbers numbers">
        <Rows node={node} running={running} />
        {node.time_us !== undefined && (
          <span class="part-time" title={timeTitle(node)}>
            <meter class="bar" aria-label={`Time of ${node.operator}`} min={0} max={longest} value={node.time_us} />
            {duration(node.time_us / 1000)}
          </span>
        )}
      </span>
    </span>
  );
}

function Rows({ node, running }: { node: PlanNode; running: boolean }) {
  const { rows, estimated_rows: estimated } = node;
  if (rows === undefined) {
    return estimated === undefined ? null : <span title={`${count(estimated)} rows expected`}>~{shortCount(estimated)} rows</span>;
  }
  const ratio = estimated === undefined ? 1 : Math.max(rows, 1) / Math.max(estimated, 1);
  const off = ratio > OFF || (!running && ratio < 1 / OFF);
  return (
    <span>
      {count(rows)} {rows === 1 ? "row" : "rows"}
      {estimated !== undefined && (
        <span class={off ? "estimate off" : "estimate"} title={`${count(estimated)} rows expected`}>
          {off ? " ≠ " : running ? " of " : " ≈ "}{shortCount(estimated)} expected
        </span>
      )}
    </span>
  );
}

function timeTitle(node: PlanNode): string {
  const lines = [`${duration((node.time_us ?? 0) / 1000)}, without the operators below`];
  if (node.batches) lines.push(`${count(node.batches)} batches`);
  if (node.pages_from_cache) lines.push(`${count(node.pages_from_cache)} pages from cache`);
  if (node.pages_from_device) lines.push(`${count(node.pages_from_device)} pages from the device`);
  if (node.nodes_visited) lines.push(`${count(node.nodes_visited)} nodes visited`);
  return lines.join("\n");
}

function parts(node: PlanNode): PlanNode[] {
  return [node, ...(node.steps ?? []).flatMap(parts), ...(node.inputs ?? []).flatMap(parts)];
}
