// N-Triples as written by the server, read line by line.

import type { Literal, Term, Triple } from "./term.ts";

const TOKEN = /\s*(?:<<\(|\)>>|<([^>]*)>|_:([^\s<>"]+)|"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^<([^>]*)>)?|(\.))/y;

/** Returns the triple of a line, or null for an empty line or a comment. */
export function parseLine(line: string): Triple | null {
  if (/^\s*(?:#|$)/.test(line)) return null;
  const reader = new LineReader(line);
  return reader.triple();
}

class LineReader {
  private at = 0;

  constructor(private readonly line: string) {}

  triple(): Triple {
    return { subject: this.term(), predicate: this.term(), object: this.term() };
  }

  private term(): Term {
    const token = this.next();
    const [text, iri, blank, lexical, language, datatype] = token;
    if (text.trim() === "<<(") {
      const value = this.triple();
      this.next();
      return { type: "triple", value };
    }
    if (iri !== undefined) return { type: "uri", value: unescaped(iri) };
    if (blank !== undefined) return { type: "bnode", value: blank };
    if (lexical === undefined) throw new SyntaxError(`not a term: ${this.line.slice(0, 200)}`);
    const literal: Literal = { type: "literal", value: unescaped(lexical) };
    if (language) literal["xml:lang"] = language;
    if (datatype) literal.datatype = unescaped(datatype);
    return literal;
  }

  private next(): RegExpExecArray {
    TOKEN.lastIndex = this.at;
    const found = TOKEN.exec(this.line);
    if (!found) throw new SyntaxError(`not N-Triples: ${this.line.slice(0, 200)}`);
    this.at = TOKEN.lastIndex;
    return found;
  }
}

const ESCAPES: Record<string, string> = { t: "\t", b: "\b", n: "\n", r: "\r", f: "\f" };

function unescaped(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))/g, (_, short, long, char: string) =>
    char === undefined ? String.fromCodePoint(parseInt(short ?? long, 16)) : ESCAPES[char] ?? char);
}
