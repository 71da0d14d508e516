// The checks of a run: one row each, with what it found. Hidden ones exist on the interviewer's page alone.
import { icon } from "../interface/icons.js";
import { durationText, el, fill } from "./dom.js";
import { OutputLog } from "./output_log.js";

const STATUS = {
  waiting: { words: "Not run yet", icon: () => icon("circle-dashed") },
  running: { words: "Running", icon: () => icon("loader-circle") },
  passed: { words: "Passed", icon: () => icon("circle-check") },
  failed: { words: "Failed", icon: () => icon("circle-x") },
  crashed: { words: "Crashed", icon: () => icon("bomb") },
  timed_out: { words: "Timed out", icon: () => icon("timer-off") },
  not_reported: { words: "Did not report", icon: () => icon("circle-help") },
};

/** What the detail says beyond the message, which it often begins with. */
export function furtherDetail({ message = "", detail = "" }) {
  return (detail.startsWith(message) ? detail.slice(message.length) : detail).trim();
}

export class CheckList {
  constructor(element) {
    this.element = element;
    this.rows = new Map();
  }

  reset() {
    this.rows.clear();
    fill(this.element);
  }

  row(name, { title = name, hidden = false } = {}) {
    if (!this.rows.has(name)) {
      const row = {
        item: el("li", { class: "check" }),
        status: el("span", { class: "check__status" }),
        message: el("p", { class: "check__message", hidden: true }),
        detail: el("pre", { class: "check__detail", hidden: true, tabindex: "0" }),
        time: el("span", { class: "check__time numbers" }),
        output: el("div", { class: "output check__output", role: "log", "aria-live": "off", "aria-label": `Output of ${title}`, tabindex: "0" }),
      };
      row.log = new OutputLog(row.output);
      row.more = el("details", { class: "check__more", hidden: true }, el("summary", { text: "Output" }), row.output);
      row.item.append(
        row.status,
        el(
          "div",
          { class: "check__body" },
          el(
            "div",
            { class: "check__head" },
            el("span", { class: "check__title", text: title }),
            hidden && el("span", { class: "badge badge--neutral" }, icon("eye-off"), "hidden"),
            row.time,
          ),
          row.message,
          row.detail,
          row.more,
        ),
      );
      this.rows.set(name, row);
      this.element.append(row.item);
      this.mark(row, "waiting");
    }
    return this.rows.get(name);
  }

  mark(row, status) {
    const { words, icon: image } = STATUS[status] ?? STATUS.not_reported;
    row.item.dataset.status = status;
    fill(row.status, image(), el("span", { class: "visually-hidden", text: words }));
    row.status.title = words;
  }

  started({ name, hidden, title }) {
    this.mark(this.row(name, { title: title || name, hidden }), "running");
  }

  output(name, rank, stream, text) {
    const row = this.row(name);
    row.log.append(rank, stream, text);
    row.more.hidden = false;
  }

  done(check) {
    const row = this.row(check.name, { title: check.title || check.name, hidden: check.hidden });
    this.mark(row, check.status);
    row.time.textContent = durationText(check.duration_s);
    row.message.textContent = check.message ?? "";
    row.message.hidden = !check.message;
    const detail = furtherDetail(check);
    row.detail.textContent = detail;
    row.detail.hidden = !detail;
    if (check.output && row.log.isEmpty) this.output(check.name, 0, "stdout", check.output);
  }
}
