// Light or dark: the system's choice until the reader makes one.

import { signal } from "@preact/signals";

type Theme = "light" | "dark";

const KEY = "pythia.theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
let chosen = localStorage.getItem(KEY) as Theme | null;

export const theme = signal<Theme>("light");

apply();
systemDark.addEventListener("change", apply);

export function setTheme(value: Theme): void {
  // Back to what the system says is back to following it.
  chosen = value === system() ? null : value;
  if (chosen) localStorage.setItem(KEY, chosen);
  else localStorage.removeItem(KEY);
  apply();
}

function system(): Theme {
  return systemDark.matches ? "dark" : "light";
}

function apply(): void {
  theme.value = chosen ?? system();
  document.documentElement.style.colorScheme = chosen ?? "";
}
