// The Run API, and the live view of one run. The stream is a view and the row the truth: `finished` carries the row.
import { csrfToken } from "../interface/csrf.js";

const REOPEN_AFTER_MS = 1500;
const EVENTS = ["queued", "started", "output", "check_started", "check_done", "gauge", "heartbeat"];

export class RunsApi {
  /** `asCandidate`: see only what the candidate may see, also where an interviewer is signed in too. */
  constructor(interview, asCandidate) {
    this.interview = interview;
    this.suffix = asCandidate ? "as=candidate" : "";
  }

  address(path, query = "") {
    const parts = [query, this.suffix].filter(Boolean).join("&");
    return `/api/${path}${parts ? `?${parts}` : ""}`;
  }

  async ask(path, { query, body, method = "GET" } = {}) {
    let response;
    try {
      response = await fetch(this.address(path, query), {
        method,
        headers: { "X-CSRFToken": csrfToken(), ...(body && { "Content-Type": "application/json" }) },
        body: body && JSON.stringify(body),
      });
    } catch {
      throw new Error("The server cannot be reached. Your code is safe; try again in a moment.");
    }
    const answer = await response.json().catch(() => ({}));
    if (response.ok) return answer;
    const error = new Error(answer.error ?? `The server answered with an error (${response.status}).`);
    error.status = response.status;
    throw error;
  }

  async list(position) {
    return (await this.ask(`interviews/${this.interview}/runs`, { query: `position=${position}` })).runs;
  }

  start(position, mode, ranks, text) {
    const body = { position, mode, ranks, text };
    return this.ask(`interviews/${this.interview}/runs`, { method: "POST", body });
  }

  stop(id) {
    return this.ask(`runs/${id}/stop`, { method: "POST" });
  }

  /** Follows a run from its start to its end; `view` has `reset(run)`, one method per event, and `finished(run)`. */
  follow(run, view) {
    return new RunFollower(this.address(`runs/${run.id}/events`), run, view);
  }
}

class RunFollower {
  constructor(address, run, view) {
    this.address = address;
    this.run = run;
    this.view = view;
    this.open();
  }

  open() {
    this.view.reset(this.run);
    this.source = new EventSource(this.address);
    for (const name of EVENTS) {
      this.source.addEventListener(name, ({ data }) => this.view[name]?.(JSON.parse(data)));
    }
    this.source.addEventListener("finished", ({ data }) => {
      this.close();
      this.view.finished(JSON.parse(data));
    });
    this.source.addEventListener("error", () => {
      // A break is mended by the browser, which resumes where it was. A refusal is final, so start over by hand.
      if (this.source.readyState === EventSource.CLOSED) this.retry = setTimeout(() => this.open(), REOPEN_AFTER_MS);
    });
  }

  close() {
    clearTimeout(this.retry);
    this.source.close();
  }
}
