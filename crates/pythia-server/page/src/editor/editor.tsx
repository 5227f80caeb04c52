// The query editor. CodeMirror runs in a shadow root, where it adds its styles as style sheets created by script.
// The content security policy allows these, but forbids <style> elements.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { defaultKeymap, history, historyField, historyKeymap, indentWithTab, toggleComment } from "@codemirror/commands";
import { acceptCompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap } from "@codemirror/autocomplete";
import { bracketMatching, indentOnInput, indentUnit } from "@codemirror/language";
import { lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, type Extension } from "@codemirror/state";
import {
  drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers, placeholder,
} from "@codemirror/view";
import { dataCompletion } from "./completion.ts";
import { editorTheme } from "./theme.ts";
import { sparql } from "./sparql-mode.ts";

/** Position and message of an error in a query. Line and column are counted from 1. */
export interface Mistake { line: number; column: number; message: string }

/** Functions of the surrounding page. Each call uses the page's current state, not the state at the time a text was kept. */
export interface Surroundings {
  change: (text: string) => void;
  run: () => void;
  /** Returns the dataset that completion asks. */
  dataset: () => string | null;
}

/**
 * Text, selection and history of the tabs that were open last, as long as the page is open. They are kept as data,
 * because an EditorState also contains the key bindings and listeners of the page that created it, and these must
 * not outlive that page.
 */
const states = new Map<string, { doc: string }>();
const STATES = 30;
const FIELDS = { history: historyField };

function keep(tab: string, state: EditorState): void {
  states.delete(tab);
  states.set(tab, state.toJSON(FIELDS) as { doc: string });
  const [oldest] = states.keys();
  if (states.size > STATES && oldest !== undefined) states.delete(oldest);
}

/** `text` is the initial text of a tab. After that, the editor reports every change. */
export function Editor(props: Surroundings & { tab: string; text: string; mistake: Mistake | null }) {
  const { tab, mistake } = props;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;

  // Runs before anything is drawn, so that no key can be pressed while the tab's name is shown without its text.
  useLayoutEffect(() => {
    if (!host.current) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const editor = new EditorView({ root, parent: root, state: stateOf(tab, props.text, () => latest.current) });
    view.current = editor;
    return () => {
      keep(tab, editor.state);
      editor.destroy();
      view.current = null;
    };
  }, [tab]);

  useEffect(() => {
    if (view.current) showMistake(view.current, mistake);
  }, [tab, mistake?.line, mistake?.column, mistake?.message]);

  return <div class="editor" ref={host} />;
}

function stateOf(tab: string, text: string, page: () => Surroundings): EditorState {
  const kept = states.get(tab);
  const extensions = extensionsOf(page);
  return kept?.doc === text
    ? EditorState.fromJSON(kept, { extensions }, FIELDS)
    : EditorState.create({ doc: text, extensions });
}

function extensionsOf(page: () => Surroundings): Extension {
  // Otherwise, suggestions for the last typed text could cover the results.
  const run = (view: EditorView) => { closeCompletion(view); page().run(); return true; };
  return [
    keymap.of([{ key: "Mod-Enter", run }, { key: "Mod-/", run: toggleComment }, { key: "Tab", run: acceptCompletion }]),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap]),
    // Tab indents only selected or started text. Escape, then Tab leaves the editor.
    keymap.of([indentWithTab]),
    lineNumbers(), highlightSpecialChars(), history(), drawSelection(), highlightActiveLine(),
    bracketMatching(), closeBrackets(), indentOnInput(), indentUnit.of("  "), EditorView.lineWrapping,
    sparql(), editorTheme(), dataCompletion(() => page().dataset()),
    placeholder("SELECT * { ?s ?p ?o } LIMIT 10"),
    EditorView.contentAttributes.of({
      "aria-label": "SPARQL query. Control and Enter run it. Escape, then Tab leaves the editor.",
      tabindex: "0", autocapitalize: "off", autocorrect: "off", spellcheck: "false",
    }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) page().change(update.state.doc.toString());
    }),
  ];
}

function showMistake(editor: EditorView, mistake: Mistake | null): void {
  const { state } = editor;
  if (!mistake || mistake.line > state.doc.lines) {
    editor.dispatch(setDiagnostics(state, []));
    return;
  }
  const line = state.doc.line(mistake.line);
  // The server counts characters, CodeMirror counts UTF-16 units.
  const before = [...line.text].slice(0, mistake.column - 1).join("").length;
  const word = /^(?:[^\s{}()[\];,]+|.)/u.exec(line.text.slice(before))?.[0].length ?? 0;
  const from = Math.min(line.from + before, line.to);
  const range = word > 0 ? { from, to: from + word } : { from: Math.max(line.from, from - 1), to: line.to };
  editor.dispatch(setDiagnostics(state, [{ ...range, severity: "error", message: mistake.message }]));
  editor.dispatch({ selection: { anchor: from }, scrollIntoView: true });
}
