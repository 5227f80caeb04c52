// Form for two things and the paths wanted between them.

import { iri as named, localName } from "../rdf/term.ts";
import { choices, findPaths, searching, stopSearch, visit } from "./state.ts";
import { SearchBox } from "./search-box.tsx";
import { findPredicates, findThings } from "./searches.ts";
import type { PathChoices } from "./path-query.ts";

function set(change: Partial<PathChoices>): void {
  choices.value = { ...choices.value, ...change };
}

export function PathForm() {
  const { from, to } = choices.value;
  const ready = from !== "" && to !== "";
  const submit = (event: Event) => {
    event.preventDefault();
    if (ready) void findPaths();
  };
  const start = (iri: string) => {
    set({ from: iri });
    if (iri && !to) void visit(named(iri));
  };
  return (
    <form class="path-form" onSubmit={submit}>
      <SearchBox label="From" value={from} placeholder="A name or an IRI" search={findThings} choose={start} />
      <button type="button" class="quiet icon swap" aria-label="Swap" title="Swap" onClick={() => set({ from: to, to: from })}>⇅</button>
      <SearchBox label="To" value={to} placeholder="Another thing, for paths" search={findThings} choose={(iri) => set({ to: iri })} />
      <PathOptions />
      {searching.value
        ? <button type="button" class="main stop" onClick={stopSearch}>Cancel</button>
        : <button type="submit" class="main" disabled={!ready}>Find paths</button>}
    </form>
  );
}

function PathOptions() {
  const { which, count, longest, direction, weight, type, condition } = choices.value;
  return (
    <details class="path-options">
      <summary>Path options</summary>
      <div class="option-row">
        <label class="field">Paths
          <select value={which} onChange={(event) => set({ which: event.currentTarget.value as PathChoices["which"] })}>
            <option value="shortest">several shortest</option>
            <option value="all-shortest">all of minimum length</option>
          </select>
        </label>
        {which === "shortest" && <NumberField label="Number" value={count} most={50} change={(value) => set({ count: value })} />}
        <NumberField label="Max. length" value={longest} most={30} change={(value) => set({ longest: value })} />
      </div>
      <label class="field">Direction of edges
        <select value={direction} onChange={(event) => set({ direction: event.currentTarget.value as PathChoices["direction"] })}>
          <option value="any">in both directions</option>
          <option value="forward">from subject to object</option>
          <option value="backward">from object to subject</option>
        </select>
      </label>
      <Predicates />
      <SearchBox
        label="Weight of nodes" value={weight} placeholder="A predicate with numbers" always search={findPredicates}
        choose={(iri) => set({ weight: iri })}
      />
      <SearchBox
        label="Type of the nodes between" value={type} placeholder="A class" search={findThings}
        choose={(iri) => set({ type: iri })}
      />
      <label class="field">Condition for each edge
        <input
          class="code" value={condition} placeholder="?to ?p ?o FILTER(…)" spellcheck={false} autocapitalize="off"
          onChange={(event) => set({ condition: event.currentTarget.value })}
        />
      </label>
    </details>
  );
}

function NumberField({ label, value, most, change }: { label: string; value: number; most: number; change: (value: number) => void }) {
  return (
    <label class="field">{label}
      <input
        type="number" min={1} max={most} value={value}
        onChange={(event) => change(Math.min(most, Math.max(1, Math.round(event.currentTarget.valueAsNumber) || 1)))}
      />
    </label>
  );
}

function Predicates() {
  const { predicates, listed } = choices.value;
  return (
    <fieldset class="predicates">
      <legend>Predicates</legend>
      <select
        aria-label="Allowed predicates" value={predicates}
        onChange={(event) => set({ predicates: event.currentTarget.value as PathChoices["predicates"] })}
      >
        <option value="any">any</option>
        <option value="only">only these</option>
        <option value="not">all except these</option>
      </select>
      {predicates !== "any" && (
        <>
          {listed.length > 0 && (
            <ul class="chips">
              {listed.map((iri) => (
                <li key={iri} title={iri}>
                  {localName(iri)}
                  <button type="button" aria-label={`Remove ${localName(iri)} from the list`} onClick={() => set({ listed: listed.filter((one) => one !== iri) })}>×</button>
                </li>
              ))}
            </ul>
          )}
          <SearchBox
            label="Add a predicate" value="" always search={findPredicates}
            choose={(iri) => { if (iri && !listed.includes(iri)) set({ listed: [...listed, iri] }); }}
          />
        </>
      )}
    </fieldset>
  );
}
