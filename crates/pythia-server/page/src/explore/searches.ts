// Searches of the search boxes: things by name, and predicates by use.

import { localName } from "../rdf/term.ts";
import { shortCount } from "../components/number.ts";
import { dataset, datasetName } from "../server/datasets.ts";
import { find } from "../server/explore.ts";
import { predicatesOf } from "../server/statistics.ts";
import type { Option } from "./search-box.tsx";

const SUGGESTIONS = 10;

export async function findThings(text: string, signal: AbortSignal): Promise<Option[]> {
  const found = await find(dataset.value, text, SUGGESTIONS, signal);
  return found.map(({ iri, label, types }) => ({ iri, label, note: types[0] ? localName(types[0]) : iri }));
}

let known: { dataset: string | null; predicates: { iri: string; quads: number }[] } | null = null;

export async function findPredicates(text: string): Promise<Option[]> {
  const name = datasetName();
  if (known?.dataset !== name) known = { dataset: name, predicates: await predicatesOf(name) };
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (iri: string) => words.every((word) => iri.toLowerCase().includes(word));
  return known.predicates
    .filter(({ iri }) => fits(iri))
    .slice(0, 4 * SUGGESTIONS)
    .map(({ iri, quads }) => ({ iri, label: null, note: shortCount(quads) }));
}
