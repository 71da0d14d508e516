// The others' cursors and selections, named and coloured by classes: the page's policy forbids style attributes.
import { Annotation, RangeSet } from "@codemirror/state";
import { Decoration, ViewPlugin, WidgetType } from "@codemirror/view";
import * as Y from "yjs";

const moved = Annotation.define();
/** How long a name stays beside a cursor after it moved. */
const NAME_SHOWN_MS = 2500;

class Caret extends WidgetType {
  constructor(name, colour, fresh) {
    super();
    this.name = name;
    this.colour = colour;
    this.fresh = fresh;
  }

  eq(other) {
    return other.name === this.name && other.colour === this.colour && other.fresh === this.fresh;
  }

  toDOM() {
    // Empty, with the name drawn by the style sheet: what is copied or read aloud is the code alone.
    const caret = document.createElement("span");
    caret.className = `remote-caret colour-${this.colour}${this.fresh ? " remote-caret--fresh" : ""}`;
    caret.dataset.name = this.name;
    caret.setAttribute("aria-hidden", "true");
    return caret;
  }

  ignoreEvent() {
    return true;
  }
}

/** Shows the others' cursors in the editor of `shared`, and tells them of ours. */
export function remoteCursors(shared) {
  return ViewPlugin.fromClass(
    class {
      constructor(view) {
        this.view = view;
        this.awareness = shared.awareness;
        this.decorations = RangeSet.empty;
        this.lastMoves = new Map();
        this.listener = ({ added, updated, removed }, origin) => {
          if (origin !== shared) return;
          for (const client of [...added, ...updated]) this.lastMoves.set(client, Date.now());
          for (const client of removed) this.lastMoves.delete(client);
          view.dispatch({ annotations: moved.of(true) });
          clearTimeout(this.fading);
          this.fading = setTimeout(() => view.dispatch({ annotations: moved.of(true) }), NAME_SHOWN_MS);
        };
        this.awareness.on("change", this.listener);
        this.decorations = this.draw(view.state);
      }

      update(update) {
        if (update.selectionSet || update.docChanged || update.focusChanged) this.tell(update);
        const hasMoved = update.transactions.some((transaction) => transaction.annotation(moved));
        if (hasMoved) this.decorations = this.draw(update.state);
        else if (update.docChanged) this.decorations = this.decorations.map(update.changes);
      }

      /** Where we are, relative to the letters around: it stays right whatever the others type. */
      tell(update) {
        if (!update.view.hasFocus) return;
        const { anchor, head } = update.state.selection.main;
        const cursor = {
          anchor: Y.relativePositionToJSON(Y.createRelativePositionFromTypeIndex(shared.text, anchor)),
          head: Y.relativePositionToJSON(Y.createRelativePositionFromTypeIndex(shared.text, head)),
        };
        if (JSON.stringify(cursor) !== JSON.stringify(this.awareness.getLocalState()?.cursor)) {
          this.awareness.setLocalStateField("cursor", cursor);
        }
      }

      draw(state) {
        const ranges = [];
        const { length } = state.doc;
        for (const [client, { cursor, user }] of this.awareness.getStates()) {
          if (client === shared.doc.clientID || !cursor || !user) continue;
          const anchor = this.absolute(cursor.anchor);
          const head = this.absolute(cursor.head);
          if (anchor === null || head === null || Math.max(anchor, head) > length) continue;
          const colour = Number(user.colour) || 0;
          if (anchor !== head) {
            const mark = Decoration.mark({ class: `remote-selection colour-${colour}` });
            ranges.push(mark.range(Math.min(anchor, head), Math.max(anchor, head)));
          }
          const fresh = Date.now() - (this.lastMoves.get(client) ?? 0) < NAME_SHOWN_MS;
          const widget = new Caret(String(user.name), colour, fresh);
          ranges.push(Decoration.widget({ widget, side: head > anchor ? -1 : 1 }).range(head));
        }
        return Decoration.set(ranges, true);
      }

      absolute(position) {
        try {
          const relative = Y.createRelativePositionFromJSON(position);
          const absolute = Y.createAbsolutePositionFromRelativePosition(relative, shared.doc);
          return absolute?.type === shared.text ? absolute.index : null;
        } catch {
          // Another page may send what it likes; a position that makes no sense is no cursor.
          return null;
        }
      }

      destroy() {
        clearTimeout(this.fading);
        this.awareness.off("change", this.listener);
      }
    },
    { decorations: (plugin) => plugin.decorations },
  );
}
