// Requests to the server of this page, with the credentials of this browser tab.

import { signal } from "@preact/signals";

/** An error of the server or the network. */
export class Problem extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly line?: number,
    readonly column?: number,
  ) {
    super(message);
  }
}

const KEY = "pythia.authorization";

/** The value of the Authorization header. It is kept until the browser tab is closed. */
export const authorization = signal<string | null>(sessionStorage.getItem(KEY));

/** Set while a request waits for the user to sign in. */
export const signingIn = signal<{ refused: boolean; answer: (header: string | null) => void } | null>(null);

/** Returns the full address of a path on the server, also behind a proxy. */
export function address(path: string): string {
  return new URL(path, document.baseURI.replace(/#.*$/, "")).href;
}

/** Returns the address of a dataset's service. `dataset` is null for the dataset at the root. */
export function datasetAddress(
  dataset: string | null, service: string, parameters: Record<string, string | number | boolean> = {},
): string {
  const url = new URL(address(dataset === null ? service : `${encodeURIComponent(dataset)}/${service}`));
  for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, String(value));
  return url.href;
}

/** Returns the response, or throws a Problem if it is not successful. Asks the user to sign in if that is required. */
export async function request(url: string, init: RequestInit = {}): Promise<Response> {
  for (let attempt = 0; ; attempt++) {
    const used = authorization.value;
    const response = await send(url, init);
    // The user may have signed in for another request meanwhile.
    const signedIn = response.status === 401 && (authorization.value !== used || await signIn(attempt > 0 || used !== null));
    if (signedIn) continue;
    if (!response.ok) throw await problemOf(response);
    return response;
  }
}

export async function requestJson<T>(url: string, init: RequestInit = {}): Promise<T> {
  const response = await request(url, { ...init, headers: { Accept: "application/json", ...init.headers } });
  return await response.json() as T;
}

/** Removes the user's credentials. */
export function signOut(): void {
  sessionStorage.removeItem(KEY);
  authorization.value = null;
}

async function send(url: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  if (authorization.value) headers.set("Authorization", authorization.value);
  // With this header, the server does not cause the browser's own sign-in dialog.
  headers.set("X-Requested-With", "XMLHttpRequest");
  try {
    return await fetch(url, { ...init, headers, credentials: "same-origin" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem("The server does not answer. Is it running?", 0);
  }
}

let asking: Promise<string | null> | null = null;

async function signIn(refused: boolean): Promise<boolean> {
  // All waiting requests share one dialog.
  asking ??= new Promise<string | null>((resolve) => {
    signingIn.value = { refused, answer: resolve };
  });
  const header = await asking;
  asking = null;
  signingIn.value = null;
  if (header === null) return false;
  sessionStorage.setItem(KEY, header);
  authorization.value = header;
  return true;
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  if (response.headers.get("Content-Type")?.includes("json")) {
    try {
      const { title, detail, line, column } = JSON.parse(text) as Record<string, never>;
      return new Problem(detail ?? title ?? response.statusText, response.status, line, column);
    } catch {
      // A body that is not JSON is shown unchanged.
    }
  }
  return new Problem(text.trim() || `The server answered ${response.status} ${response.statusText}.`, response.status);
}
