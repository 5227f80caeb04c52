// Where in the page one is, kept in the address behind "#", so that links can be shared.

import { signal } from "@preact/signals";

export type View = "query" | "explore" | "statistics";

export interface Route { view: View; parameters: URLSearchParams }

export const route = signal<Route>(read());

addEventListener("hashchange", () => { route.value = read(); });

export function link(view: View, parameters: Record<string, string> = {}): string {
  const search = new URLSearchParams(parameters).toString();
  return `#/${view}${search ? `?${search}` : ""}`;
}

/** The link that shows a node in the explorer. */
export function nodeLink(iri: string): string {
  return link("explore", { node: iri });
}

/** Changes the address without an entry in the history and without showing anything else. */
export function replaceAddress(hash: string): void {
  history.replaceState(null, "", hash);
}

function read(): Route {
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const view = path === "explore" || path === "statistics" ? path : "query";
  return { view, parameters: new URLSearchParams(search) };
}
