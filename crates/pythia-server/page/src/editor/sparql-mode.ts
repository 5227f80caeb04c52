// Colours for SPARQL 1.2 and PATHS: a tokenizer for CodeMirror that works line by line.

import { LanguageSupport, StreamLanguage, type StreamParser, type StringStream } from "@codemirror/language";

const words = (text: string) => new Set(text.split(/\s+/));

export const KEYWORDS = words(`add all any as asc ask base by clear construct copy create data default
  delete desc describe distinct drop exists filter from graph group having in insert into limit load
  minus move named not offset optional order prefix reduced select separator service silent to undef
  union using values version where with bind lateral
  paths shortest walk trail acyclic simple start end via weight min max length`);

export const FUNCTIONS = words(`abs avg bnode bound ceil coalesce concat contains count datatype day
  encode_for_uri floor group_concat hours if iri isblank isiri isliteral isnumeric istriple isuri
  lang langdir langmatches lcase max md5 min minutes month now object predicate rand regex replace round
  sameterm sample seconds sha1 sha256 sha384 sha512 str strafter strbefore strdt strends strlang
  strlangdir strlen strstarts struuid subject substr sum timezone triple tz ucase uri uuid year haslang
  haslangdir pathfilter containsonly containsany length`);

interface State {
  /** The quotes that end the current string, or null outside a string. */
  quotes: string | null;
  depth: number;
}

const parser: StreamParser<State> = {
  name: "sparql",
  startState: () => ({ quotes: null, depth: 0 }),
  token(stream, state) {
    if (state.quotes) return rest(stream, state);
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^<[^<>"{}|^`\\\s]*>/)) return "url";
    if (stream.match(/^\?\?[\p{L}\p{N}_]+/u) || stream.match(/^[?$][\p{L}\p{N}_]+/u)) return "variableName";
    if (stream.match(/^(?:"""|''')/) || stream.match(/^["']/)) {
      state.quotes = stream.current();
      return rest(stream, state);
    }
    if (stream.match(/^@[A-Za-z]+(?:-[A-Za-z0-9]+)*/)) return "modifier";
    if (stream.match(/^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/)) return "number";
    if (stream.match(/^_:[\p{L}\p{N}_.-]*[\p{L}\p{N}_-]/u)) return "labelName";
    if (stream.match(/^(?:[\p{L}][\p{L}\p{N}_.-]*)?:(?:[\p{L}\p{N}_:]|%[0-9A-Fa-f]{2}|\\.)?(?:[\p{L}\p{N}_:-]|%[0-9A-Fa-f]{2}|\\.|\.(?=[\p{L}\p{N}_:-]))*/u)) {
      return "propertyName";
    }
    const word = stream.match(/^[A-Za-z_][A-Za-z0-9_]*/);
    if (word) return wordStyle(stream.current().toLowerCase(), stream);
    const char = stream.next() ?? "";
    if ("{[(".includes(char)) state.depth += 1;
    if ("}])".includes(char)) state.depth = Math.max(0, state.depth - 1);
    return "{}[]()".includes(char) ? "bracket" : ".;,".includes(char) ? "punctuation" : "operator";
  },
  indent(state, after, context) {
    const closing = /^\s*[}\])]/.test(after) ? 1 : 0;
    return Math.max(0, state.depth - closing) * context.unit;
  },
  languageData: {
    commentTokens: { line: "#" },
    closeBrackets: { brackets: ["(", "[", "{", '"', "'"] },
    indentOnInput: /^\s*[}\])]$/,
  },
};

function rest(stream: StringStream, state: State): string {
  const quotes = state.quotes ?? "";
  while (!stream.eol()) {
    if (stream.match(quotes)) {
      state.quotes = null;
      return "string";
    }
    if (stream.next() === "\\") stream.next();
  }
  // Only long strings continue in the next line.
  if (quotes.length === 1) state.quotes = null;
  return "string";
}

function wordStyle(word: string, stream: StringStream): string | null {
  if (word === "a") return "keyword";
  if (word === "true" || word === "false") return "bool";
  const called = /^\s*\(/.test(stream.string.slice(stream.pos));
  if (called && FUNCTIONS.has(word)) return "variableName.function";
  return KEYWORDS.has(word) ? "keyword" : FUNCTIONS.has(word) ? "variableName.function" : null;
}

export function sparql(): LanguageSupport {
  return new LanguageSupport(StreamLanguage.define(parser));
}
