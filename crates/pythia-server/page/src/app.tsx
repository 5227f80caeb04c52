// Frame of the page: views, dataset, theme, sign-in and status messages for screen readers.

import { useEffect, useLayoutEffect } from "preact/hooks";
import { signal } from "@preact/signals";
import { authorization, signOut } from "./server/connection.ts";
import { dataset, datasetName, datasets, isServed, loadDatasets } from "./server/datasets.ts";
import { link, route, type View } from "./route.ts";
import { status } from "./components/status.ts";
import { SignIn } from "./sign-in.tsx";
import { move, QueryView } from "./query/view.tsx";
import { ExploreView } from "./explore/view.tsx";
import { StatisticsView } from "./statistics/view.tsx";
import { setTheme, theme } from "./theme.ts";

const VIEWS: [View, string][] = [["query", "Query"], ["explore", "Explore"], ["statistics", "Statistics"]];

const ready = signal(false);

export function App() {
  useEffect(() => {
    // A user who has signed in may see other datasets.
    void loadDatasets().finally(() => { ready.value = true; });
  }, [authorization.value]);
  const { view } = route.value;
  const name = datasetName();
  // The title changes together with the view, because software that reads the title reads it at that moment.
  useLayoutEffect(() => {
    document.title = [VIEWS.find(([key]) => key === view)?.[1], name, "Pythia"].filter(Boolean).join(" · ");
  }, [view, name]);
  const served = isServed(dataset.value);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to content</a>
      <header class="top">
        <span class="brand"><Mark />Pythia</span>
        <nav aria-label="Views">
          {VIEWS.map(([key, label]) => (
            <a key={key} href={link(key, dataset.value)} aria-current={key === view ? "page" : undefined}>{label}</a>
          ))}
        </nav>
        <div class="top-end">
          <DatasetChoice />
          {authorization.value && <button type="button" class="quiet" onClick={signOut}>Sign out</button>}
          <ThemeButton />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {ready.value && !served && (
          <>
            {view !== "query" && <h1 class="unseen">No such dataset</h1>}
            <p class="problem" role="alert">This server has no dataset {name}, or you may not read it. Choose another above.</p>
          </>
        )}
        {ready.value && view === "query" && <QueryView />}
        {ready.value && served && view === "explore" && <ExploreView key={name ?? ""} />}
        {ready.value && served && view === "statistics" && <StatisticsView key={name ?? ""} />}
      </main>
      <div role="status" class="unseen">{status.value}</div>
      <SignIn />
    </>
  );
}

function skip(event: Event) {
  // The views use the address after "#".
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function DatasetChoice() {
  const served = isServed(dataset.value);
  if (datasets.value.length < 2 && served) return null;
  const choose = (name: string) => {
    // A query is kept when the dataset changes. The content of the other views belongs to its dataset.
    if (route.value.view === "query") move(name);
    else location.hash = link(route.value.view, name);
  };
  return (
    <label class="dataset">
      <span class="unseen">Dataset</span>
      <select value={served ? dataset.value ?? "" : ""} onChange={(event) => choose(event.currentTarget.value)}>
        {!served && <option value="" disabled>Dataset</option>}
        {datasets.value.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

function ThemeButton() {
  const dark = theme.value === "dark";
  return (
    <button
      type="button" class="quiet icon" aria-label={dark ? "Use light colours" : "Use dark colours"}
      title={dark ? "Light" : "Dark"} onClick={() => setTheme(dark ? "light" : "dark")}
    >
      <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
        {dark
          ? <g fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round">
              <circle cx="10" cy="10" r="3.6" />
              <path d="M10 1.8v2M10 16.2v2M1.8 10h2M16.2 10h2M4.2 4.2l1.4 1.4M14.4 14.4l1.4 1.4M4.2 15.8l1.4-1.4M14.4 5.6l1.4-1.4" />
            </g>
          : <path d="M16.5 12.3A7 7 0 0 1 7.7 3.5a7 7 0 1 0 8.8 8.8Z" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round" />}
      </svg>
    </button>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true" class="mark">
      <path d="M8 23 16 9l8 14" fill="none" stroke="currentColor" stroke-width="2.6" />
      <circle cx="16" cy="8" r="4.6" fill="currentColor" />
      <circle cx="7" cy="24" r="4.6" fill="currentColor" />
      <circle cx="25" cy="24" r="4.6" fill="currentColor" />
    </svg>
  );
}
