// Theme of the editor. It uses the colours of the page, which are custom properties of the page's style sheet.

import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import type { Extension } from "@codemirror/state";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: tags.variableName, color: "var(--code-variable)" },
  { tag: tags.propertyName, color: "var(--code-name)" },
  { tag: tags.url, color: "var(--code-iri)" },
  { tag: [tags.string, tags.modifier], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool], color: "var(--code-number)" },
  { tag: tags.function(tags.variableName), color: "var(--code-function)" },
  { tag: tags.labelName, color: "var(--code-name)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
  { tag: [tags.operator, tags.bracket, tags.punctuation], color: "var(--text)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "14px", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { padding: "10px 0", caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--soft)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "none" },
  ".cm-placeholder": { color: "var(--soft)" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)", border: "1px solid var(--line)", borderRadius: "6px",
    boxShadow: "var(--shadow)", color: "var(--text)", overflow: "hidden",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px", maxHeight: "18em", maxWidth: "min(92vw, 640px)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "4px 10px", display: "flex", gap: "1.5em", justifyContent: "space-between" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionLabel": { overflow: "hidden", textOverflow: "ellipsis" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "1", fontFamily: "var(--sans)", fontSize: "12px", marginLeft: "0" },
  ".cm-diagnostic": { padding: "6px 10px", whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--bad)" },
  ".cm-lintRange-error": {
    backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textDecorationSkipInk: "none",
    textUnderlineOffset: "3px",
  },
});

export function editorTheme(): Extension {
  return [look, syntaxHighlighting(colours)];
}
