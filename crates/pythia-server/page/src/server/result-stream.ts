// Reader for SPARQL Query Results JSON that arrives in pieces: first the columns, then row by row. So the first
// rows can be shown at once, and reading a huge result can stop in the middle.

import type { Term } from "../rdf/term.ts";

export type Row = Record<string, Term>;

const BINDINGS = /"bindings"\s*:\s*\[$/;

export class ResultReader {
  columns: string[] | null = null;
  boolean: boolean | null = null;

  /** All text outside the rows. */
  private frame = "";
  private depth = 0;
  private inText = false;
  private escaped = false;
  /** The depth of the array of rows, once it is open. */
  private rowsDepth = 0;
  /** The beginning of a row whose end has not arrived. */
  private row = "";

  /** Returns the rows that a piece of text completes. */
  push(text: string): Row[] {
    const rows: Row[] = [];
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      const char = text.charCodeAt(at);
      if (this.inText) {
        if (this.escaped) this.escaped = false;
        else if (char === 92) this.escaped = true;
        else if (char === 34) this.inText = false;
      } else if (char === 34) {
        this.inText = true;
      } else if (char === 123 || char === 91) {
        if (this.inRows() && this.depth === this.rowsDepth) from = this.take(text, from, at);
        this.depth += 1;
        if (char === 91 && !this.inRows() && this.depth === 3) from = this.open(text, from, at);
      } else if (char === 125 || char === 93) {
        this.depth -= 1;
        if (!this.inRows()) continue;
        if (this.depth === this.rowsDepth) {
          rows.push(JSON.parse(this.row + text.slice(from, at + 1)) as Row);
          this.row = "";
          from = at + 1;
        } else if (this.depth < this.rowsDepth) {
          from = this.take(text, from, at);
          this.rowsDepth = 0;
        }
      }
    }
    this.keep(text.slice(from));
    return rows;
  }

  /** Checks that the result is complete. After that, `columns` or `boolean` is set. */
  end(): void {
    if (this.depth !== 0 || this.frame === "") throw new SyntaxError("the result is incomplete");
    this.readFrame(this.frame);
  }

  private inRows(): boolean {
    return this.rowsDepth > 0;
  }

  /** Adds the text between rows to the frame, without its commas. */
  private take(text: string, from: number, to: number): number {
    if (this.row === "") this.frame += text.slice(from, to).replaceAll(",", "");
    return to;
  }

  private open(text: string, from: number, at: number): number {
    const before = this.frame + text.slice(from, at + 1);
    if (!BINDINGS.test(before)) return from;
    this.frame = before;
    this.rowsDepth = this.depth;
    this.readFrame(`${before}]}}`);
    return at + 1;
  }

  private keep(rest: string): void {
    if (this.inRows() && this.depth > this.rowsDepth) this.row += rest;
    else if (this.inRows()) this.frame += rest.replaceAll(",", "");
    else this.frame += rest;
  }

  private readFrame(text: string): void {
    const frame = JSON.parse(text) as { head?: { vars?: string[] }; boolean?: boolean };
    this.columns = frame.head?.vars ?? [];
    this.boolean = frame.boolean ?? null;
  }
}
