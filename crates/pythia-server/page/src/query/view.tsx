// The query view: tabs of queries, the editor, what runs it, and what comes of it.

import { useEffect } from "preact/hooks";
import { Editor } from "../editor/editor.tsx";
import { CopyButton } from "../parts/copy.tsx";
import { link, replaceAddress, route } from "../route.ts";
import { Outcomes } from "../results/outcomes.tsx";
import { isUpdate } from "../rdf/first-word.ts";
import { Progress } from "./progress.tsx";
import { cancel, runOf, start, summary, type Run, type Way } from "./run.ts";
import { chosen, close, edit, open, show, tab, tabs, type QueryTab } from "./tabs.ts";

export function QueryView() {
  const shared = route.value.parameters.get("query");
  useEffect(() => {
    if (shared === null) return;
    show(shared);
    // The link has done its work; what is edited now is no longer what it says.
    replaceAddress(link("query"));
  }, [shared]);

  const current = tab();
  const run = runOf(current.id).value;
  const running = run?.state === "running";
  const begin = (way: Way) => void start(current.id, current.text, way);
  useEffect(() => {
    const escape = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !event.defaultPrevented && runOf(current.id).value?.state === "running") cancel(current.id);
    };
    addEventListener("keydown", escape);
    return () => removeEventListener("keydown", escape);
  }, [current.id]);

  return (
    <div class="query-view">
      <h1 class="unseen">Query</h1>
      <QueryTabs current={current} />
      <Editor
        tab={current.id} text={current.text} mistake={mistakeOf(run, current.text)}
        change={(text) => edit(current.id, { text })} run={() => begin("run")}
      />
      <div class="toolbar" role="group" aria-label="Run">
        {running
          ? <button type="button" class="main stop" onClick={() => cancel(current.id)}>Cancel <kbd>Esc</kbd></button>
          : <button type="button" class="main" onClick={() => begin("run")}>Run <kbd>Ctrl ⏎</kbd></button>}
        <button type="button" disabled={running || isUpdate(current.text)} onClick={() => begin("plan")}>Plan</button>
        <button
          type="button" disabled={running || isUpdate(current.text)} onClick={() => begin("analyze")}
          title="Run the query and measure each part of its plan"
        >Measure</button>
        <CopyButton label="Copy link" text={() => new URL(link("query", { query: current.text }), document.baseURI).href} />
        {run && <span class="summary" data-state={run.state}>{run.state === "failed" ? "" : summary(run)}</span>}
      </div>
      {run && <RunView run={run} />}
    </div>
  );
}

function RunView({ run }: { run: Run }) {
  return (
    <section class="outcome" aria-label="Results">
      {run.problem && <pre class="problem" role="alert">{run.problem.message}</pre>}
      {run.state === "running" && <Progress run={run} />}
      <Outcomes run={run} />
    </section>
  );
}

function QueryTabs({ current }: { current: QueryTab }) {
  const rename = () => {
    const name = prompt("Name of this query", current.name)?.trim();
    if (name) edit(current.id, { name });
  };
  return (
    <nav class="query-tabs" aria-label="Queries">
      <ul>
        {tabs.value.map((one) => (
          <li key={one.id} class={one.id === current.id ? "chosen" : undefined}>
            <button
              type="button" aria-current={one.id === current.id ? "true" : undefined}
              title={one.id === current.id ? "Rename with a double click or F2" : undefined}
              onClick={() => { chosen.value = one.id; }} onDblClick={rename}
              onKeyDown={(event) => { if (event.key === "F2") rename(); }}
            >{one.name}</button>
            <button type="button" class="close" aria-label={`Close ${one.name}`} onClick={() => close(one.id)}>×</button>
          </li>
        ))}
      </ul>
      <button type="button" class="quiet icon" aria-label="New query" title="New query" onClick={() => open("")}>+</button>
    </nav>
  );
}

/** The place of a mistake, as long as the text is the one that had it. */
function mistakeOf(run: Run | null, text: string) {
  const problem = run?.text === text ? run.problem : null;
  if (!problem?.line || !problem.column) return null;
  return { line: problem.line, column: problem.column, message: problem.message };
}
