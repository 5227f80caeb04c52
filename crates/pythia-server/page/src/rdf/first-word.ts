// Kind of a SPARQL text.

const UPDATES = new Set(["INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH"]);

/** Returns the first word after the prologue, in capitals. */
export function firstWord(text: string): string {
  const words = text
    .replace(/<[^<>"{}|^`\\\s]*>|#[^\n]*/g, (part) => (part.startsWith("#") ? " " : "<>"))
    .replace(/\b(?:PREFIX\s+\S*\s*<>|BASE\s*<>|VERSION\s*(["']).*?\1)/giu, " ");
  return /[A-Za-z]+/.exec(words)?.[0]?.toUpperCase() ?? "";
}

/** Returns whether a text is an update. */
export function isUpdate(text: string): boolean {
  return UPDATES.has(firstWord(text));
}
