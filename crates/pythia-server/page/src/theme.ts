// Light or dark theme. It follows the system until the user chooses a theme.

import { signal } from "@preact/signals";

type Theme = "light" | "dark";

const KEY = "pythia.theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
let chosen = localStorage.getItem(KEY) as Theme | null;

export const theme = signal<Theme>("light");

apply();
systemDark.addEventListener("change", apply);

export function setTheme(value: Theme): void {
  // Choosing the system's theme means to follow the system again.
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
