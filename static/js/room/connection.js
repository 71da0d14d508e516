// The room's WebSocket: comes back by itself, with growing pauses, at once when the network or the reader returns.
import { decodeFrame } from "./frames.js";

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5000;
const PING_EVERY_MS = 10_000;
const ANSWER_WITHIN_MS = 4000;
const CONNECT_WITHIN_MS = 8000;

/** Codes by which the server says that trying again is of no use. */
export const CLOSE_STRANGER = 4404;
export const CLOSE_REMOVED = 4403;

/**
 * Events: `open`, `lost`, `refused` (detail: code), `frame` (detail: a decoded binary frame), and for every JSON frame one
 * named `message:<type>` (detail: the frame).
 */
export class Connection extends EventTarget {
  constructor(address) {
    super();
    this.address = address;
    this.isOpen = false;
    this.pauseMs = FIRST_PAUSE_MS;
    this.socket = null;
    this.retry = null;
    this.refused = false;
    window.addEventListener("online", () => {
      // An attempt from before the network came back may hang for long.
      if (!this.isOpen) this.abandon();
      this.tryNow();
    });
    window.addEventListener("offline", () => this.probe());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.tryNow();
    });
    setInterval(() => this.probe(), PING_EVERY_MS);
  }

  connect() {
    clearTimeout(this.retry);
    if (this.refused) return;
    const socket = new WebSocket(this.address);
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    const patience = setTimeout(() => {
      if (socket !== this.socket || this.isOpen) return;
      this.abandon();
      this.lost(0);
    }, CONNECT_WITHIN_MS);
    socket.addEventListener("open", () => {
      clearTimeout(patience);
      if (socket !== this.socket) return;
      this.isOpen = true;
      this.dispatchEvent(new Event("open"));
    });
    socket.addEventListener("message", ({ data }) => {
      if (socket !== this.socket) return;
      this.heard();
      if (typeof data === "string") this.takeJson(JSON.parse(data));
      else this.dispatchEvent(new CustomEvent("frame", { detail: decodeFrame(data) }));
    });
    socket.addEventListener("close", ({ code }) => {
      clearTimeout(patience);
      if (socket === this.socket) this.lost(code);
    });
  }

  takeJson(message) {
    // A server that greets and then fails is not back yet: only a greeting resets the pause.
    if (message.type === "hello" || message.type === "lobby") this.pauseMs = FIRST_PAUSE_MS;
    this.dispatchEvent(new CustomEvent(`message:${message.type}`, { detail: message }));
  }

  lost(code) {
    const wasOpen = this.isOpen;
    this.isOpen = false;
    this.socket = null;
    this.heard();
    if (code === CLOSE_STRANGER || code === CLOSE_REMOVED) {
      this.refused = true;
      this.dispatchEvent(new CustomEvent("refused", { detail: code }));
      return;
    }
    if (wasOpen) this.dispatchEvent(new Event("lost"));
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.connect(), this.pauseMs * (0.5 + Math.random()));
    this.pauseMs = Math.min(this.pauseMs * 2, LONGEST_PAUSE_MS);
  }

  /** Forgets the present attempt, whatever becomes of it. */
  abandon() {
    const { socket } = this;
    this.socket = null;
    socket?.close();
  }

  tryNow() {
    if (this.isOpen) this.probe();
    else if (!this.socket) this.connect();
  }

  /** Asks whether the other end is still there; without an answer the connection counts as lost. */
  probe() {
    if (!this.isOpen || this.waiting) return;
    this.say("ping");
    const { socket } = this;
    this.waiting = setTimeout(() => {
      this.waiting = null;
      if (socket !== this.socket) return;
      // A dead connection answers close() as little as anything else, so don't wait for it.
      this.abandon();
      this.lost(0);
    }, ANSWER_WITHIN_MS);
  }

  heard() {
    clearTimeout(this.waiting);
    this.waiting = null;
  }

  /** Whether the message went out. */
  say(type, fields = {}) {
    if (!this.isOpen) return false;
    this.socket.send(JSON.stringify({ type, ...fields }));
    return true;
  }

  sendBytes(bytes) {
    if (!this.isOpen) return false;
    this.socket.send(bytes);
    return true;
  }

  on(type, listener) {
    this.addEventListener(type, (event) => listener(event.detail));
  }
}
