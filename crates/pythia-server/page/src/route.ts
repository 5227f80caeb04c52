// Where in the page one is, kept in the address behind "#", so that links can be shared.

import { signal } from "@preact/signals";

export type View = "query" | "explore" | "statistics";

/** `dataset` is null where the address names none. */
export interface Route { view: View; dataset: string | null; parameters: URLSearchParams }

/** The part of the address that `route` was read from. */
let seen = "";

export const route = signal<Route>(read());

addEventListener("hashchange", () => { route.value = read(); });

/** The address of a view of a dataset; null for the one at the server's root. */
export function link(view: View, dataset: string | null, parameters: Record<string, string> = {}): string {
  const search = new URLSearchParams({ ...(dataset === null ? {} : { dataset }), ...parameters }).toString();
  return `#/${view}${search ? `?${search}` : ""}`;
}

/** The link that shows a node of a dataset in the explorer. */
export function nodeLink(dataset: string | null, iri: string): string {
  return link("explore", dataset, { node: iri });
}

/**
 * Changes the address without an entry in the history. An address that the reader has opened meanwhile, of which the
 * browser has not told yet, goes before.
 */
export function replaceAddress(hash: string): void {
  if (hash === location.hash) return;
  if (location.hash === seen) history.replaceState(null, "", hash);
  route.value = read();
}

function read(): Route {
  seen = location.hash;
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const view = path === "explore" || path === "statistics" ? path : "query";
  const parameters = new URLSearchParams(search);
  const dataset = parameters.get("dataset");
  parameters.delete("dataset");
  return { view, dataset, parameters };
}
