// Current place in the page. It is kept in the address after "#", so that links can be shared.

import { signal } from "@preact/signals";

export type View = "query" | "explore" | "statistics";

/** `dataset` is null if the address names none. */
export interface Route { view: View; dataset: string | null; parameters: URLSearchParams }

/** The part of the address from which `route` was read. */
let seen = "";

export const route = signal<Route>(read());

addEventListener("hashchange", () => { route.value = read(); });

/** Returns the address of a view of a dataset. `dataset` is null for the dataset at the server's root. */
export function link(view: View, dataset: string | null, parameters: Record<string, string> = {}): string {
  const search = new URLSearchParams({ ...(dataset === null ? {} : { dataset }), ...parameters }).toString();
  return `#/${view}${search ? `?${search}` : ""}`;
}

/** Returns the link that shows a node of a dataset in the explorer. */
export function nodeLink(dataset: string | null, iri: string): string {
  return link("explore", dataset, { node: iri });
}

/**
 * Changes the address without an entry in the history. If the user has opened another address meanwhile and the
 * browser has not yet reported it, that address has priority.
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
