// The code editor on one question's shared document.
import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit } from "@codemirror/language";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import {
  EditorView,
  drawSelection,
  dropCursor,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  rectangularSelection,
} from "@codemirror/view";
import { yCollab, yUndoManagerKeymap } from "y-codemirror.next";
import { remoteCursors } from "./cursors.js";
import { editorTheme } from "./editor_theme.js";

/** Somewhat below what the server takes, so that the editor says no before the server must. */
const INSERT_LIMIT = 200 * 1024;
const DOCUMENT_LIMIT = 900 * 1024;

const utf8 = new TextEncoder();

/** Refuses what the server would refuse, at the moment it is pasted. */
function limitSize(onTooLarge) {
  return EditorState.transactionFilter.of((transaction) => {
    if (!transaction.docChanged || !transaction.isUserEvent("input")) return transaction;
    let inserted = 0;
    transaction.changes.iterChanges((_fromA, _toA, _fromB, _toB, text) => {
      inserted += text.length > INSERT_LIMIT / 4 ? utf8.encode(text.toString()).length : text.length;
    });
    if (inserted <= INSERT_LIMIT && transaction.newDoc.length <= DOCUMENT_LIMIT) return transaction;
    onTooLarge();
    return [];
  });
}

export class CodeEditor {
  /** `actions` has `run`, `check` and `tooLarge`. */
  constructor(parent, nonce, actions) {
    this.parent = parent;
    this.nonce = nonce;
    this.actions = actions;
    this.readOnly = new Compartment();
    this.isReadOnly = false;
    this.view = null;
    this.shared = null;
  }

  get text() {
    return this.shared?.text.toString() ?? "";
  }

  /** Shows the text of `shared`, which is ready. */
  show(shared, label) {
    this.clear();
    this.shared = shared;
    const keys = [
      { key: "Mod-Enter", run: () => this.command("run") },
      { key: "Mod-Shift-Enter", run: () => this.command("check") },
      // Undo goes past CodeMirror's own check of read-only, straight to the shared text.
      ...["Mod-z", "Mod-y", "Mod-Shift-z"].map((key) => ({ key, run: (view) => view.state.readOnly })),
      ...closeBracketsKeymap,
      ...yUndoManagerKeymap,
      ...searchKeymap,
      ...defaultKeymap,
      // Escape, then Tab leaves the editor: CodeMirror lets the next Tab through after Escape.
      indentWithTab,
    ];
    this.view = new EditorView({
      parent: this.parent,
      state: EditorState.create({
        doc: shared.text.toString(),
        extensions: [
          EditorView.cspNonce.of(this.nonce),
          this.readOnly.of(EditorState.readOnly.of(this.isReadOnly)),
          keymap.of(keys),
          lineNumbers(),
          highlightActiveLineGutter(),
          highlightSpecialChars(),
          drawSelection(),
          dropCursor(),
          rectangularSelection(),
          indentOnInput(),
          indentUnit.of("    "),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          highlightSelectionMatches(),
          python(),
          editorTheme,
          EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": "editor-hint", tabindex: "0" }),
          limitSize(() => this.actions.tooLarge()),
          yCollab(shared.text, null, { undoManager: shared.undo }),
          remoteCursors(shared),
        ],
      }),
    });
  }

  command(name) {
    this.actions[name]();
    return true;
  }

  setReadOnly(readOnly) {
    if (readOnly === this.isReadOnly) return;
    this.isReadOnly = readOnly;
    this.view?.dispatch({ effects: this.readOnly.reconfigure(EditorState.readOnly.of(readOnly)) });
  }

  clear() {
    this.view?.destroy();
    this.view = null;
    this.shared = null;
  }

  focus() {
    this.view?.focus();
  }
}
