// Builds the PATHS query for the choices in the form. See docs/paths.md.

export interface PathChoices {
  from: string;
  to: string;
  which: "shortest" | "all-shortest";
  /** Number of paths, for "shortest". */
  count: number;
  longest: number;
  direction: "any" | "forward" | "backward";
  predicates: "any" | "only" | "not";
  listed: string[];
  /** A predicate whose values are the weights of the nodes that edges lead to. */
  weight: string;
  /** A class of all nodes between the ends. */
  type: string;
  /** A pattern over ?from, ?predicate and ?to that must match for each edge. */
  condition: string;
}

export const CHOICES: PathChoices = {
  from: "", to: "", which: "shortest", count: 3, longest: 6, direction: "any", predicates: "any", listed: [],
  weight: "", type: "", condition: "",
};

/** A predicate that no data uses. Excluding only this predicate allows all others. */
const NONE = "<urn:pythia:path#none>";

export function pathQuery(choices: PathChoices): string {
  const { from, to, which, count, longest } = choices;
  const mode = which === "shortest" ? `SHORTEST ${count} ACYCLIC` : "ALL SHORTEST";
  const where = conditions(choices);
  return [
    `PATHS ${mode}`,
    `START ?start = <${from}>`,
    `END ?end = <${to}>`,
    `VIA ${via(choices)}`,
    choices.weight && `WEIGHT OPTIONAL <${choices.weight}>`,
    where && `WHERE ${where}`,
    `MAX LENGTH ${longest}`,
    "LIMIT 100",
  ].filter(Boolean).join("\n");
}

function via({ direction, predicates, listed }: PathChoices): string {
  const iris = listed.map((iri) => `<${iri}>`);
  if (predicates === "only" && iris.length > 0) {
    const steps = iris.flatMap((iri) => [direction !== "backward" && iri, direction !== "forward" && `^${iri}`].filter(Boolean));
    return `(${steps.join("|")})+`;
  }
  const not = predicates === "not" && iris.length > 0 ? iris : [NONE];
  const excluded = not.flatMap((iri) => [direction !== "backward" && iri, direction !== "forward" && `^${iri}`].filter(Boolean));
  return `!(${excluded.join("|")})+`;
}

function conditions({ to, type, condition }: PathChoices): string {
  const pattern = condition.trim().replace(/^\{(.*)\}$/s, "$1").trim();
  const between = type && `(?to = <${to}> || EXISTS { ?to a <${type}> })`;
  if (pattern && between) return `{ ${pattern} FILTER${between} }`;
  return pattern ? `{ ${pattern} }` : between;
}

/** Returns an IRI from typed or pasted text, or null. */
export function typedIri(text: string): string | null {
  const inner = /^<?([A-Za-z][A-Za-z0-9+.-]*:[^\s<>"{}|^`\\]+)>?$/.exec(text.trim())?.[1];
  return inner ?? null;
}
