// The console: one run at a time, its state, its checks, and its output, a column for each rank.
import { announce } from "../interface/announce.js";
import { icon } from "../interface/icons.js";
import { CheckList } from "./check_list.js";
import { durationText, el, fill, ordinal } from "./dom.js";
import { OutputLog } from "./output_log.js";

const REFUSAL_SHOWN_MS = 15_000;

const OUTCOME_ICONS = {
  good: () => icon("circle-check"),
  bad: () => icon("circle-x"),
  stopped: () => icon("circle-stop"),
  ours: () => icon("triangle-alert"),
};

/** How a finished run is coloured: in words it is said by the server. */
export function tone(run) {
  if (run.outcome === "cancelled") return "stopped";
  if (run.outcome === "runner_error") return "ours";
  if (run.outcome !== "exited" || typeof run.first_failed_rank === "number") return "bad";
  if (run.mode === "checks") return run.checks.every((check) => check.status === "passed") ? "good" : "bad";
  return run.rank_exits.every((exit) => exit.exit_code === 0) ? "good" : "bad";
}

export function modeWord(run) {
  if (run.mode === "checks") return "Check";
  return run.ranks > 1 ? `Run, ${run.ranks} ranks` : "Run";
}

export function toneIcon(run) {
  if (run.state === "queued") return icon("hourglass");
  if (run.state === "running") return icon("loader-circle");
  return OUTCOME_ICONS[tone(run)]();
}

export class Console {
  constructor(root) {
    this.root = root;
    this.find = (name) => root.querySelector(`[data-console="${name}"]`);
    this.empty = this.find("empty");
    this.stateLine = this.find("state");
    this.report = this.find("report");
    this.outputs = this.find("outputs");
    this.view = this.find("view");
    this.checks = new CheckList(this.find("checks"));
    /** The checks of the question, as this page may know them. */
    this.knownChecks = [];
    this.isMerged = localStorage.getItem("rendezvous:merged") === "true";
    this.view.addEventListener("click", (event) => {
      const button = event.target.closest("[data-merged]");
      if (button) this.setMerged(button.dataset.merged === "true");
    });
    this.setMerged(this.isMerged);
    setInterval(() => this.tick(), 100);
    this.clear();
  }

  setMerged(isMerged) {
    this.isMerged = isMerged;
    localStorage.setItem("rendezvous:merged", String(isMerged));
    this.outputs.dataset.merged = String(isMerged);
    for (const button of this.view.querySelectorAll("[data-merged]")) {
      button.setAttribute("aria-pressed", String((button.dataset.merged === "true") === isMerged));
    }
    if (isMerged) this.merged?.showEnd();
    else for (const { log } of this.columns ?? []) log.showEnd();
  }

  clear() {
    this.run = null;
    this.empty.hidden = false;
    this.view.hidden = true;
    this.checks.reset();
    fill(this.stateLine);
    fill(this.report);
    fill(this.outputs);
  }

  /** Words about a wish that was not granted. */
  refuse(words) {
    fill(this.find("refusal"), el("div", { class: "notice notice--warn" }, icon("triangle-alert"), el("div", { text: words })));
    announce(words);
    clearTimeout(this.refusalTimer);
    this.refusalTimer = setTimeout(() => fill(this.find("refusal")), REFUSAL_SHOWN_MS);
  }

  // A run from its start: called by the follower -----------------------------------------------------------------------

  reset(run) {
    this.run = run;
    this.startedAt = run.started_at ? Date.parse(run.started_at) : null;
    this.place = run.place;
    this.empty.hidden = true;
    fill(this.find("refusal"));
    fill(this.report);
    this.checks.reset();
    this.makeColumns(run.mode === "checks" ? 0 : run.ranks);
    if (run.mode === "checks") for (const check of this.knownChecks) this.checks.row(check.name, check);
    this.tick();
  }

  makeColumns(ranks) {
    this.columns = Array.from({ length: ranks }, (_, rank) => {
      const output = el("div", {
        class: "output",
        role: "log",
        "aria-live": "off",
        "aria-label": ranks > 1 ? `Output of rank ${rank}` : "Output",
        tabindex: "0",
      });
      const state = el("span", { class: "rank__state" });
      const head = el("div", { class: "rank__head" }, el("span", { class: "rank__name", text: ranks > 1 ? `rank ${rank}` : "Output" }), state);
      const column = el("section", { class: "rank", data: { rank: String(rank) } }, head, output);
      return { column, state, log: new OutputLog(output) };
    });
    const merged = el("div", { class: "output output--merged", role: "log", "aria-live": "off", "aria-label": "Output of all ranks", tabindex: "0" });
    this.merged = new OutputLog(merged, { prefixed: true });
    this.view.hidden = ranks < 2;
    this.outputs.dataset.ranks = String(ranks);
    fill(this.outputs, ...this.columns.map(({ column }) => column), ranks > 1 && merged);
  }

  queued({ place }) {
    this.place = place;
    this.tick();
  }

  started({ rehearsed }) {
    this.startedAt ??= Date.now();
    this.run = { ...this.run, state: "running", rehearsed };
    for (const { state } of this.columns) state.textContent = "running";
    this.tick();
  }

  output({ rank, stream, text, check }) {
    if (check) {
      this.checks.output(check, rank, stream, text);
      return;
    }
    this.columns[rank]?.log.append(rank, stream, text);
    if (this.columns.length > 1) this.merged.append(rank, stream, text);
  }

  check_started(check) {
    this.checks.started(check);
  }

  check_done({ check }) {
    this.checks.done(check);
  }

  finished(run) {
    const before = this.run;
    this.run = run;
    this.tick();
    for (const check of run.checks) this.checks.done(check);
    for (const exit of run.rank_exits) this.closeRank(exit, run);
    fill(this.report, ...this.reportOf(run));
    if (before && before.state !== "finished") {
      announce([`Run ${run.number}: ${run.outcome_title}`, run.checks_label].filter(Boolean).join(". "));
    }
    this.root.dispatchEvent(new CustomEvent("run:finished", { bubbles: true, detail: run }));
  }

  closeRank({ rank, exit_code: code, signal, cut }, run) {
    const place = this.columns[rank];
    if (!place) return;
    const hasCode = typeof code === "number";
    const failed = Boolean(signal) || (hasCode && code !== 0);
    place.state.textContent = signal || (hasCode ? `exit ${code}` : "stopped");
    place.column.dataset.ended = failed ? "bad" : "good";
    if (run.first_failed_rank === rank && run.ranks > 1) {
      place.column.dataset.first = "true";
      place.state.textContent = `first: ${place.state.textContent}`;
      place.state.title = "This rank failed first and took the others along.";
    }
    if (cut) place.log.markCut();
  }

  reportOf(run) {
    const parts = [];
    if (run.message) parts.push(el("p", { class: "report__message", text: run.message }));
    const sentence = run.diagnosis?.sentence ?? run.diagnosis?.text;
    if (sentence) parts.push(el("p", { class: "report__diagnosis" }, icon("search-code"), el("span", { text: sentence })));
    return parts;
  }

  // The line that says where the run is ---------------------------------------------------------------------------------

  tick() {
    const { run } = this;
    if (!run) return;
    if (run.state === "finished") {
      if (this.said === run) return;
      this.said = run;
      fill(this.stateLine, ...this.outcomeLine(run));
      this.stateLine.dataset.tone = tone(run);
      return;
    }
    this.said = null;
    this.stateLine.dataset.tone = "open";
    const words = run.state === "running" ? "Running" : this.queueWords();
    const since = run.state === "running" && this.startedAt ? (Date.now() - this.startedAt) / 1000 : null;
    fill(
      this.stateLine,
      toneIcon(run),
      el("strong", { text: words }),
      since !== null && el("span", { class: "numbers", text: `${Math.max(0, since).toFixed(1)} s` }),
      run.rehearsed && this.rehearsedBadge(),
    );
  }

  queueWords() {
    if (!this.place) return "Waiting for a machine";
    return this.place === 1 ? "Next in the queue" : `${ordinal(this.place)} in the queue`;
  }

  outcomeLine(run) {
    const facts = [
      typeof run.wall_s === "number" && !run.rehearsed && durationText(run.wall_s),
      typeof run.peak_memory_mb === "number" && `${Math.round(run.peak_memory_mb)} MB`,
    ].filter(Boolean);
    return [
      toneIcon(run),
      el("strong", { text: run.outcome_title }),
      run.checks_label && el("span", { text: run.checks_label }),
      facts.length && el("span", { class: "muted numbers", text: facts.join(" · ") }),
      run.rehearsed && this.rehearsedBadge(),
    ].filter(Boolean);
  }

  rehearsedBadge() {
    return el("span", { class: "badge badge--info", text: "rehearsed on CPU: no timing" });
  }
}
