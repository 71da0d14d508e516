// The interviewer's side: outline, reference, follow-ups, checks with their last results, notes, scorecard.
import htmx from "htmx.org";
import { icon } from "../interface/icons.js";
import { furtherDetail } from "./check_list.js";
import { el, fill, fillWithServerHtml } from "./dom.js";

const RESULT = {
  passed: { words: "passed", badge: "ok", icon: () => icon("circle-check") },
  failed: { words: "failed", badge: "bad", icon: () => icon("circle-x") },
  crashed: { words: "crashed", badge: "bad", icon: () => icon("bomb") },
  timed_out: { words: "timed out", badge: "bad", icon: () => icon("timer-off") },
  not_reported: { words: "did not report", badge: "bad", icon: () => icon("circle-help") },
};

export class PrivateSide {
  constructor(root) {
    this.panel = (name) => root.querySelector(`[data-private="${name}"]`);
    this.scorecard = this.panel("scorecard");
    this.position = null;
    this.shown = "";
    this.results = new Map();
    this.scorecardPosition = null;
    root.addEventListener("tabs:change", () => this.showScorecard());
    for (const failure of ["htmx:sendError", "htmx:responseError"]) {
      this.scorecard.addEventListener(failure, (event) => {
        // A field of the scorecard that could not be saved says so itself.
        if (event.target === this.scorecard) this.offerScorecardAgain();
      });
    }
  }

  show(question) {
    this.question = question;
    if (this.position !== question.position) {
      this.position = question.position;
      this.results = new Map();
      this.showScorecard();
    }
    const wire = JSON.stringify(question.private);
    if (wire !== this.shown) {
      this.shown = wire;
      const { outline_html: outline, reference_html: reference, follow_ups: followUps } = question.private;
      fillWithServerHtml(this.panel("outline"), outline);
      fillWithServerHtml(this.panel("reference"), reference);
      fill(this.panel("follow-ups"), ...followUps.map((followUp, at) => this.followUp(followUp, at)));
    }
    this.drawChecks();
  }

  followUp({ title, html }, at) {
    const answer = el("div", { class: "prose" });
    fillWithServerHtml(answer, html);
    return el(
      "details",
      { class: "follow-up" },
      el("summary", {}, el("span", { class: "step", text: String(at + 1) }), el("span", { text: title })),
      answer,
    );
  }

  /** Fetches the scorecard of the question when it is first looked at. */
  showScorecard() {
    const { source } = this.scorecard.dataset;
    const isHidden = this.scorecard.closest("[role=tabpanel]").hidden;
    if (!source || isHidden || !this.position || this.scorecardPosition === this.position) return;
    this.scorecardPosition = this.position;
    htmx.ajax("GET", `${source}?position=${this.position}`, { source: this.scorecard, target: this.scorecard, swap: "innerHTML" });
  }

  offerScorecardAgain() {
    this.scorecardPosition = null;
    const again = el("button", { class: "button button--small", type: "button", text: "Try again", on: { click: () => this.showScorecard() } });
    const words = el("p", { text: "The scorecard could not be fetched." });
    fill(this.scorecard, el("div", { class: "empty-state empty-state--small" }, icon("cloud-off"), words, again));
  }

  /** The newest finished check run of the question. */
  showResults(run) {
    this.results = new Map(run.checks.map((check) => [check.name, { ...check, run: run.number }]));
    this.drawChecks();
  }

  drawChecks() {
    fill(
      this.panel("checks"),
      ...this.question.checks.map((check) => {
        const result = this.results.get(check.name);
        const look = result && (RESULT[result.status] ?? RESULT.not_reported);
        return el(
          "li",
          { class: "known-check" },
          el(
            "div",
            { class: "known-check__head" },
            el("span", { class: "strong", text: check.title }),
            check.hidden && el("span", { class: "badge badge--neutral" }, icon("eye-off"), "hidden"),
            look
              ? el("span", { class: `badge badge--${look.badge}` }, look.icon(), `${look.words} in run ${result.run}`)
              : el("span", { class: "badge badge--neutral", text: "not run yet" }),
          ),
          result?.message && el("p", { class: "muted small", text: result.message }),
          result && furtherDetail(result) && el("pre", { class: "check__detail", tabindex: "0", text: furtherDetail(result) }),
        );
      }),
    );
  }
}
