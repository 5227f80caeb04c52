// The query view: tabs of queries, the editor, the buttons that run a query, and its outcome.

import { useEffect, useLayoutEffect } from "preact/hooks";
import { Editor } from "../editor/editor.tsx";
import { CopyButton } from "../components/copy.tsx";
import { link, replaceAddress, route } from "../route.ts";
import { Outcomes } from "../results/outcomes.tsx";
import { isUpdate } from "../rdf/first-word.ts";
import { addressed, dataset, datasets, isServed } from "../server/datasets.ts";
import { Progress } from "./progress.tsx";
import { cancel, runOf, start, summary, type Run, type Way } from "./run.ts";
import { chosen, close, edit, open, show, showDataset, tab, tabs, type QueryTab } from "./tabs.ts";

export function QueryView() {
  useLayoutEffect(follow, [route.value]);
  useEffect(() => {
    addEventListener("keydown", escape);
    return () => removeEventListener("keydown", escape);
  }, []);

  const current = tab();
  const run = runOf(current.id).value;
  const running = run?.state === "running";
  return (
    <div class="query-view">
      <h1 class="unseen">Query</h1>
      <QueryTabs current={current} />
      <Editor
        tab={current.id} text={current.text} mistake={mistakeOf(run, current.text)}
        change={(text) => edit(current.id, { text })} run={() => begin("run")} dataset={() => tab().dataset}
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
        <CopyButton label="Copy link" text={sharedLink} />
        {run && <span class="summary" data-state={run.state}>{run.state === "failed" ? "" : summary(run)}{elsewhere(run, current)}</span>}
      </div>
      {run && <RunView key={current.id} run={run} />}
    </div>
  );
}

// Keys and buttons act on the tab that is chosen at that moment.

/** Runs the text of the editor in the dataset of its tab. */
function begin(way: Way): void {
  void start(tab(), way);
}

function escape(event: KeyboardEvent): void {
  const { id } = tab();
  if (event.key === "Escape" && !event.defaultPrevented && runOf(id).value?.state === "running") cancel(id);
}

function sharedLink(): string {
  const { dataset, text } = tab();
  return new URL(link("query", addressed(dataset), { query: text }), document.baseURI).href;
}

/** Shows the content that the address names, and updates the address to match. */
function follow(): void {
  const { view, dataset: named, parameters } = route.value;
  if (view !== "query") return;
  const kept = addressed(tab().dataset);
  const wanted = named === null && isServed(kept) ? kept : dataset.value;
  const query = parameters.get("query");
  if (query === null) showDataset(wanted);
  else show(query, wanted);
  // The link has been followed. Later edits no longer match its query, so the address drops it.
  tell();
}

/** Puts the dataset of the chosen tab into the address. */
function tell(): void {
  replaceAddress(link("query", addressed(tab().dataset)));
}

/** Moves the chosen tab to another dataset. */
export function move(dataset: string): void {
  edit(tab().id, { dataset });
  tell();
}

/** Returns the dataset of a run, as text, if its tab has moved to another dataset. */
function elsewhere(run: Run, { dataset }: QueryTab): string {
  return run.dataset === dataset || run.dataset === null ? "" : ` in ${run.dataset}`;
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
  const several = datasets.value.length > 1;
  return (
    <nav class="query-tabs" aria-label="Queries">
      <ul>
        {tabs.value.map((one) => (
          <li key={one.id} class={one.id === current.id ? "chosen" : undefined}>
            <button
              type="button" aria-current={one.id === current.id ? "true" : undefined}
              title={one.id === current.id ? "Rename with a double click or F2" : undefined}
              onClick={() => { chosen.value = one.id; tell(); }} onDblClick={rename}
              onKeyDown={(event) => { if (event.key === "F2") rename(); }}
            >{one.name}{several && one.dataset !== null && <> <span class="note">{one.dataset}</span></>}</button>
            <button type="button" class="close" aria-label={`Close ${one.name}`} onClick={() => { close(one.id); tell(); }}>×</button>
          </li>
        ))}
      </ul>
      <button type="button" class="quiet icon" aria-label="New query" title="New query" onClick={() => open("", current.dataset)}>+</button>
    </nav>
  );
}

/** Returns the position of an error, as long as the text is the one that was run. */
function mistakeOf(run: Run | null, text: string) {
  const problem = run?.text === text ? run.problem : null;
  if (!problem?.line || !problem.column) return null;
  return { line: problem.line, column: problem.column, message: problem.message };
}
