// What screen readers are told: one line, spoken when it changes.

import { signal } from "@preact/signals";

export const status = signal("");

export function announce(text: string): void {
  status.value = text;
}
