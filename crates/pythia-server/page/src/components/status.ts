// Status line for screen readers. It is spoken when it changes.

import { signal } from "@preact/signals";

export const status = signal("");

export function announce(text: string): void {
  status.value = text;
}
