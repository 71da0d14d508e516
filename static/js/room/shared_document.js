// One question's shared text: what was typed here goes to the server, what others typed comes in, and it is known which of
// our own changes are in the database. Nothing typed is lost: while away, changes stay in the document and on this device.
import * as Y from "yjs";
import { Awareness, applyAwarenessUpdate, encodeAwarenessUpdate, removeAwarenessStates } from "y-protocols/awareness";
import {
  KIND_AWARENESS,
  SYNC_STEP_1,
  SYNC_STEP_2,
  SYNC_UPDATE,
  awarenessFrame,
  syncFrame,
} from "./frames.js";
import { forgetUnsaved, keepUnsaved, takeUnsaved } from "./unsaved.js";

/** What is typed within this time goes out as one update: one row in the database instead of ten. */
const GATHER_MS = 50;
const CURSOR_EVERY_MS = 60;

/** Events: `status` (see there), `ready` (the text may be shown), `replaced` (detail: {text, reason}; a fresh document). */
export class SharedDocument extends EventTarget {
  constructor(connection, interview, position) {
    super();
    this.connection = connection;
    this.interview = interview;
    this.position = position;
    this.epoch = 0;
    this.rescue = null;
    this.begin();
  }

  begin() {
    this.doc = new Y.Doc();
    this.text = this.doc.getText("text");
    this.awareness = new Awareness(this.doc);
    this.undo = new Y.UndoManager(this.text, { trackedOrigins: new Set() });
    this.gathered = [];
    this.sent = 0;
    this.saved = 0;
    //: Whether the state vectors were exchanged on this connection.
    this.inStep = false;
    this.isReady = false;
    this.everUnsaved = false;
    this.doc.on("update", (update, origin) => {
      if (origin !== this) this.gather(update);
    });
    this.awareness.on("update", ({ added, updated, removed }, origin) => {
      const own = this.doc.clientID;
      if (origin !== this && [...added, ...updated, ...removed].includes(own)) this.sendCursorSoon();
    });
  }

  /** "synced", "saving", or "offline": nothing else is ever claimed. */
  get status() {
    if (!this.connection.isOpen || !this.inStep) return "offline";
    return this.hasUnsaved ? "saving" : "synced";
  }

  get hasUnsaved() {
    return this.gathered.length > 0 || this.sent > this.saved || (!this.inStep && this.everUnsaved);
  }

  statusChanged() {
    if (this.hasUnsaved) {
      this.everUnsaved = true;
      keepUnsaved(this);
    } else if (this.inStep) {
      this.everUnsaved = false;
      forgetUnsaved(this);
    }
    this.dispatchEvent(new Event("status"));
  }

  // To the server ----------------------------------------------------------------------------------------------------

  /** Asks for what is lacking here; the answer brings the question what is lacking there. */
  greet() {
    this.inStep = false;
    this.sent = 0;
    this.saved = 0;
    this.sendSync(SYNC_STEP_1, Y.encodeStateVector(this.doc));
    this.statusChanged();
  }

  connectionLost() {
    this.inStep = false;
    const others = [...this.awareness.getStates().keys()].filter((client) => client !== this.doc.clientID);
    removeAwarenessStates(this.awareness, others, this);
    this.statusChanged();
  }

  gather(update) {
    this.gathered.push(update);
    this.gatherTimer ??= setTimeout(() => this.flush(), GATHER_MS);
    this.statusChanged();
  }

  /** Sends what was gathered. While away it waits: the exchange of state vectors will carry it. */
  flush() {
    clearTimeout(this.gatherTimer);
    this.gatherTimer = null;
    if (!this.inStep || !this.gathered.length) return;
    const update = this.gathered.length === 1 ? this.gathered[0] : Y.mergeUpdates(this.gathered);
    this.gathered = [];
    this.sendSync(SYNC_UPDATE, update);
    this.sent += 1;
    this.statusChanged();
  }

  sendSync(type, content) {
    this.connection.sendBytes(syncFrame(this.position, this.epoch, type, content));
  }

  sendCursorSoon() {
    this.cursorTimer ??= setTimeout(() => {
      this.cursorTimer = null;
      if (!this.inStep) return;
      const update = encodeAwarenessUpdate(this.awareness, [this.doc.clientID]);
      this.connection.sendBytes(awarenessFrame(this.position, this.epoch, update));
    }, CURSOR_EVERY_MS);
  }

  // From the server --------------------------------------------------------------------------------------------------

  take(frame) {
    if (this.epoch && frame.epoch !== this.epoch) return;
    if (frame.kind === KIND_AWARENESS) {
      applyAwarenessUpdate(this.awareness, frame.payload, this);
    } else if (frame.type === SYNC_STEP_1) {
      this.answer(frame.content);
    } else {
      if (!this.epoch) this.adopt(frame.epoch);
      Y.applyUpdate(this.doc, frame.content, this);
      if (frame.type === SYNC_STEP_2) this.becomeReady();
    }
  }

  /** The first answer names the epoch; what an earlier visit could not save belongs to it, or is offered back as text. */
  adopt(epoch) {
    this.epoch = epoch;
    const kept = takeUnsaved(this);
    if (!kept) return;
    if (kept.epoch === epoch) Y.applyUpdate(this.doc, kept.update);
    else this.rescue ??= { text: kept.text, reason: "The document was started anew while you were away." };
  }

  answer(vector) {
    this.inStep = true;
    this.gathered = [];
    clearTimeout(this.gatherTimer);
    this.gatherTimer = null;
    this.sendSync(SYNC_STEP_2, Y.encodeStateAsUpdate(this.doc, vector));
    this.sent += 1;
    this.sendCursorSoon();
    this.statusChanged();
  }

  becomeReady() {
    if (this.isReady) return;
    this.isReady = true;
    this.dispatchEvent(new Event("ready"));
    if (this.rescue && this.rescue.text !== this.text.toString()) {
      this.dispatchEvent(new CustomEvent("replaced", { detail: this.rescue }));
    }
    this.rescue = null;
  }

  /** The server has the first `count` of the updates sent on this connection in its database. */
  markSaved(epoch, count) {
    if (epoch !== this.epoch) return;
    this.saved = Math.max(this.saved, count);
    this.statusChanged();
  }

  /** Drops this document for the server's. What was not saved is offered back, never thrown away. */
  startAnew(reason) {
    const lost = this.hasUnsaved || this.everUnsaved;
    this.rescue = lost ? { text: this.text.toString(), reason } : null;
    forgetUnsaved(this);
    clearTimeout(this.gatherTimer);
    this.gatherTimer = null;
    this.awareness.destroy();
    this.undo.destroy();
    this.doc.destroy();
    this.epoch = 0;
    this.begin();
    this.dispatchEvent(new Event("restarted"));
    if (this.connection.isOpen) this.greet();
  }
}
