// RDF terms as in SPARQL Query Results JSON, with their names and texts.

import type { Prefixes } from "./prefixes.ts";

export interface Iri { type: "uri"; value: string }
export interface Blank { type: "bnode"; value: string }
export interface Literal {
  type: "literal";
  value: string;
  datatype?: string;
  "xml:lang"?: string;
  /** The parts of a path; see docs/paths.md. */
  path?: PathParts;
}
export interface TripleTerm { type: "triple"; value: Triple }
export type Term = Iri | Blank | Literal | TripleTerm;

export interface Triple { subject: Term; predicate: Term; object: Term }

export interface PathParts {
  nodes: Term[];
  edges: { inverse: boolean; predicate?: Term | null }[];
}

export const XSD = "http://www.w3.org/2001/XMLSchema#";
export const RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
export const WKT = "http://www.opengis.net/ont/geosparql#wktLiteral";

const NUMERIC = new Set(
  ("integer decimal double float int long short byte nonNegativeInteger positiveInteger " +
    "nonPositiveInteger negativeInteger unsignedInt unsignedLong unsignedShort unsignedByte")
    .split(" ").map((name) => XSD + name),
);

export function iri(value: string): Iri {
  return { type: "uri", value };
}

/** Returns the term in N-Triples syntax. Equal terms have equal keys. */
export function termKey(term: Term): string {
  switch (term.type) {
    case "uri": return `<${term.value}>`;
    case "bnode": return `_:${term.value}`;
    case "literal": return quoted(term.value) + suffix(term, (datatype) => `<${datatype}>`);
    case "triple": {
      const { subject, predicate, object } = term.value;
      return `<<( ${termKey(subject)} ${termKey(predicate)} ${termKey(object)} )>>`;
    }
  }
}

/** Returns the text of the term in a table: IRIs with prefixes, literals without quotes. */
export function termText(term: Term, prefixes: Prefixes): string {
  switch (term.type) {
    case "uri": return prefixes.shorten(term.value) ?? term.value;
    case "bnode": return `_:${term.value}`;
    case "literal": return term.value;
    case "triple": {
      const { subject, predicate, object } = term.value;
      return `<<( ${[subject, predicate, object].map((part) => termText(part, prefixes)).join(" ")} )>>`;
    }
  }
}

/** Returns the language of a literal, or the short name of its datatype, to be shown next to its text. */
export function literalNote(literal: Literal, prefixes: Prefixes): string {
  if (literal["xml:lang"]) return literal["xml:lang"];
  const { datatype } = literal;
  if (!datatype || datatype === `${XSD}string` || NUMERIC.has(datatype)) return "";
  return prefixes.shorten(datatype) ?? localName(datatype);
}

/** Returns a readable name for an IRI: its last part, decoded, with spaces. */
export function localName(value: string): string {
  const trimmed = value.replace(/[/#]+$/, "");
  const last = trimmed.slice(Math.max(trimmed.lastIndexOf("/"), trimmed.lastIndexOf("#"), trimmed.lastIndexOf(":")) + 1);
  const name = decoded(last || value).replaceAll("_", " ").trim();
  return name || value;
}

/** Returns a short name for any term, for drawings. */
export function termName(term: Term): string {
  switch (term.type) {
    case "uri": return localName(term.value);
    case "bnode": return `_:${term.value.slice(0, 8)}`;
    case "literal": return term.value;
    case "triple": return "triple";
  }
}

/** Returns the value of a numeric literal, or null. */
export function numberOf(term: Term | undefined): number | null {
  if (term?.type !== "literal" || !term.datatype || !NUMERIC.has(term.datatype)) return null;
  const number = Number(term.value === "INF" ? "Infinity" : term.value === "-INF" ? "-Infinity" : term.value);
  return Number.isFinite(number) ? number : null;
}

/** Returns the time of a date literal in milliseconds since 1970, or null. */
export function timeOf(term: Term | undefined): number | null {
  if (term?.type !== "literal" || !term.datatype?.startsWith(XSD)) return null;
  switch (term.datatype.slice(XSD.length)) {
    case "date": case "dateTime": case "dateTimeStamp": case "gYear": case "gYearMonth": {
      const parts = /^(-?\d{4,})(?:-(\d\d))?(?:-(\d\d))?(?:T(\d\d):(\d\d):(\d\d))?/.exec(term.value);
      if (!parts) return null;
      const [year, month, day, hour, minute, second] = parts.slice(1).map((part) => Number(part ?? 0));
      const date = new Date(Date.UTC(2000, (month || 1) - 1, day || 1, hour, minute, second));
      return date.setUTCFullYear(year ?? 0);
    }
    default: return null;
  }
}

function suffix(literal: Literal, datatype: (iri: string) => string): string {
  if (literal["xml:lang"]) return `@${literal["xml:lang"]}`;
  if (!literal.datatype || literal.datatype === `${XSD}string`) return "";
  return `^^${datatype(literal.datatype)}`;
}

function quoted(text: string): string {
  return `"${text.replace(/[\\"\n\r]/g, (char) => ({ "\\": "\\\\", '"': '\\"', "\n": "\\n" })[char] ?? "\\r")}"`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
