// Completion from the data, and automatic prefix declarations.

import {
  autocompletion, insertCompletionText, pickedCompletion,
  type Completion, type CompletionContext, type CompletionResult,
} from "@codemirror/autocomplete";
import { syntaxTree } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import type { Extension } from "@codemirror/state";
import { complete, type Suggestion } from "../server/explore.ts";
import { declaration, wellKnown } from "../rdf/prefixes.ts";
import { shortCount } from "../components/number.ts";

const SUGGESTIONS = 40;

const TYPES: Record<Suggestion["kind"], string> = {
  predicate: "property", class: "class", node: "constant", graph: "namespace", prefix: "namespace",
  variable: "variable", keyword: "keyword", function: "function",
};

/** `dataset` returns the dataset to ask. It is called for every completion. */
export function dataCompletion(dataset: () => string | null): Extension {
  const source = (context: CompletionContext) => suggest(context, dataset());
  return [
    autocompletion({ override: [source], activateOnTypingDelay: 150, maxRenderedOptions: SUGGESTIONS, icons: false }),
    declarePrefixes,
  ];
}

async function suggest(context: CompletionContext, dataset: string | null): Promise<CompletionResult | null> {
  const before = context.matchBefore(/[^\s{}()[\];,]+/);
  if (!context.explicit && !before) return null;
  const aborted = new AbortController();
  context.addEventListener("abort", () => aborted.abort());
  try {
    const found = await complete(dataset, context.state.doc.toString(), context.pos, SUGGESTIONS, aborted.signal);
    if (found.items.length === 0) return null;
    return { from: found.from, to: found.to, options: found.items.map(option), filter: false };
  } catch {
    // On an error, typing continues without suggestions.
    return null;
  }
}

function option(item: Suggestion, at: number): Completion {
  const label = item.label && item.label !== item.insert ? item.label : "";
  return {
    label: item.insert,
    detail: [label, item.count === null ? "" : shortCount(item.count)].filter(Boolean).join(" · "),
    type: TYPES[item.kind],
    // Keeps the server's order.
    boost: -at,
    apply: (view, completion, from, to) => {
      view.dispatch({
        ...insertCompletionText(view.state, item.insert, from, to),
        annotations: pickedCompletion.of(completion),
      });
      if (item.prefix) declare(view, item.prefix.name, item.prefix.iri);
    },
  };
}

/** Declares a well-known prefix as soon as its colon is typed. */
const declarePrefixes = EditorView.inputHandler.of((view, from, to, text) => {
  if (text !== ":") return false;
  const line = view.state.doc.lineAt(from);
  const before = line.text.slice(0, from - line.from);
  const name = /(?:^|[\s{}()[\];,.|/^!+*?])([A-Za-z][\w.-]*)$/.exec(before)?.[1];
  const namespace = name === undefined ? undefined : wellKnown(name);
  const within = syntaxTree(view.state).resolveInner(from, -1).name;
  if (!name || !namespace || within === "comment" || within === "string") return false;
  if (/\bPREFIX\s+[\w.-]*$/i.test(before)) return false;
  view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + 1 }, userEvent: "input.type" });
  declare(view, name, namespace);
  return true;
});

function declare(view: EditorView, name: string, namespace: string): void {
  const missing = declaration(view.state.doc.toString(), name, namespace);
  if (missing) view.dispatch({ changes: { from: missing.at, insert: missing.text } });
}
