// Lines of output in a bounded piece of the page: the head and the tail are kept, what lies between is counted.
import { AnsiText } from "./ansi.js";
import { el } from "./dom.js";

const HEAD_LINES = 300;
const TAIL_LINES = 1200;
const LONGEST_LINE = 5000;

class OpenLine {
  constructor(element) {
    this.element = element;
    this.length = 0;
    this.rewrites = false;
  }

  write({ text, classes }) {
    if (this.rewrites) {
      this.element.replaceChildren();
      this.length = 0;
      this.rewrites = false;
    }
    const room = LONGEST_LINE - this.length;
    if (room <= 0) return;
    const shown = text.length > room ? `${text.slice(0, room)} …` : text;
    this.length += text.length;
    this.element.append(classes.length ? el("span", { class: classes.join(" "), text: shown }) : shown);
  }
}

export class OutputLog {
  /** With `prefixed`, each line names its rank. */
  constructor(element, { prefixed = false } = {}) {
    this.element = element;
    this.prefixed = prefixed;
    this.lines = [];
    this.cut = 0;
    this.cutMarker = null;
    this.streams = new Map();
    this.waiting = [];
    this.frame = null;
  }

  get isEmpty() {
    return !this.lines.length && !this.waiting.length;
  }

  append(rank, stream, text) {
    this.waiting.push({ rank, stream, text });
    // Pages in the background draw no frames, and their output must not pile up.
    this.frame ??= document.hidden ? setTimeout(() => this.draw(), 100) : requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = null;
    const box = this.element;
    const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    const waiting = this.waiting.splice(0);
    for (const { rank, stream, text } of waiting) this.write(rank, stream, text);
    if (follows) box.scrollTop = box.scrollHeight;
  }

  write(rank, stream, text) {
    const name = `${rank} ${stream}`;
    if (!this.streams.has(name)) this.streams.set(name, { ansi: new AnsiText(), open: null });
    const state = this.streams.get(name);
    for (const { text: piece, classes } of state.ansi.parse(text)) {
      for (const part of piece.split(/(\r?\n|\r)/)) {
        if (part === "") continue;
        if (part === "\r") {
          // A progress bar: what follows on this line takes the place of what stands there.
          if (state.open) state.open.rewrites = true;
        } else if (part.endsWith("\n")) {
          state.open ?? this.openLine(rank, stream);
          state.open = null;
        } else {
          state.open ??= this.openLine(rank, stream);
          state.open.write({ text: part, classes });
        }
      }
    }
  }

  openLine(rank, stream) {
    const content = el("span", { class: "line__text" });
    const prefix = this.prefixed && el("span", { class: `line__rank rank-${rank % 8}`, text: `[${rank}]` });
    const line = el("div", { class: stream === "stderr" ? "line line--stderr" : "line" }, prefix, content);
    this.lines.push(line);
    this.element.append(line);
    this.bound();
    return new OpenLine(content);
  }

  bound() {
    if (this.lines.length <= HEAD_LINES + TAIL_LINES) return;
    const [line] = this.lines.splice(HEAD_LINES, 1);
    this.cut += 1;
    if (!this.cutMarker) {
      this.cutMarker = el("div", { class: "line line--cut" });
      line.before(this.cutMarker);
    }
    line.remove();
    this.cutMarker.textContent = `… ${this.cut.toLocaleString("en")} ${this.cut === 1 ? "line" : "lines"} left out …`;
  }

  /** The newest lines; for an output that was hidden while they came. */
  showEnd() {
    this.element.scrollTop = this.element.scrollHeight;
  }

  /** Says that output was left out before it came here. */
  markCut() {
    this.element.append(el("div", { class: "line line--cut", text: "… the run printed more than is kept …" }));
  }
}
