// CodeMirror in the colours of the product; they follow the theme of the page by themselves.
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--surface-1)", fontSize: "0.875rem" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--font-mono)", lineHeight: "1.6", fontVariantLigatures: "none" },
  ".cm-content": { caretColor: "var(--text)", padding: "0.75rem 0 40vh" },
  ".cm-line": { padding: "0 1rem 0 0.5rem" },
  ".cm-gutters": { backgroundColor: "var(--surface-1)", color: "var(--text-muted)", border: "none" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 0.5rem 0 1rem", minWidth: "2.75rem", fontVariantNumeric: "tabular-nums" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--surface-2) 70%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--text)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "color-mix(in srgb, var(--accent) 24%, transparent)",
  },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--warn) 18%, transparent)" },
  ".cm-searchMatch": { backgroundColor: "color-mix(in srgb, var(--warn) 30%, transparent)" },
  ".cm-searchMatch-selected": { backgroundColor: "color-mix(in srgb, var(--warn) 55%, transparent)" },
  ".cm-panels": { backgroundColor: "var(--surface-2)", color: "var(--text)", borderColor: "var(--border)" },
  ".cm-panels.cm-panels-bottom": { borderTop: "1px solid var(--border)" },
  ".cm-textfield": {
    backgroundColor: "var(--surface-1)",
    border: "1px solid var(--border-strong)",
    borderRadius: "var(--radius-1)",
    color: "var(--text)",
    padding: "0.2em 0.5em",
  },
  ".cm-button": {
    backgroundImage: "none",
    backgroundColor: "var(--surface-1)",
    border: "1px solid var(--border-strong)",
    borderRadius: "var(--radius-1)",
    color: "var(--text)",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--surface-1)",
    border: "1px solid var(--border)",
    borderRadius: "var(--radius-1)",
    boxShadow: "var(--shadow-2)",
  },
});

const words = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier, tags.self], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName)), tags.definition(tags.className), tags.className, tags.meta],
    color: "var(--code-name)",
  },
  { tag: [tags.comment, tags.docString], color: "var(--code-comment)", fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

export const editorTheme = [look, syntaxHighlighting(words)];
