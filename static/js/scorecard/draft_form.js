// A form that saves itself a moment after each change, says how that stands, and never loses or overwrites anything:
// what is typed is kept in the browser until the server has it, and what was saved in another window is shown beside it.
import { announce } from "../interface/announce.js";
import { csrfToken } from "../interface/csrf.js";
import { showConflict } from "./conflict.js";
import { fromServer, read, same, toBody, write } from "./content.js";
import { forget, keep, kept } from "./kept_drafts.js";

const TYPING_PAUSE_MS = 700;
const RETRIES_MS = [2000, 4000, 8000, 15000, 30000];

const clock = (iso) => new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" }).format(new Date(iso));

export class DraftForm {
  #form;
  #key;
  #version;
  #saved;
  #timer = 0;
  #sending = null;
  #failures = 0;
  #stopped = false;
  #conflicts = false;

  constructor(form) {
    this.#form = form;
    this.#key = form.dataset.draft;
    this.#version = form.dataset.version;
    this.#saved = read(form);
    form.addEventListener("input", () => this.#changed(TYPING_PAUSE_MS));
    form.addEventListener("change", () => this.#changed(0));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.sendNow();
    });
    this.#restore();
  }

  get isClean() {
    return same(read(this.#form), this.#saved);
  }

  /** Sends what is not saved yet, at once. Resolves to whether everything is saved. */
  async sendNow() {
    clearTimeout(this.#timer);
    while (this.#sending) await this.#sending;
    if (!this.isClean && !this.#stopped && !this.#conflicts) {
      this.#sending = this.#send();
      await this.#sending;
      this.#sending = null;
    }
    return this.isClean;
  }

  #restore() {
    const draft = kept(this.#key);
    if (!draft) return;
    if (same(draft.content, this.#saved)) {
      forget(this.#key, draft.content);
      return;
    }
    write(this.#form, draft.content);
    // The draft goes off as what it is, a change of the state it was made on: the server says if that is outdated.
    this.#version = draft.version;
    this.#changed(0);
  }

  #changed(wait) {
    this.#stopped = false;
    this.#failures = 0;
    if (this.isClean) {
      forget(this.#key, kept(this.#key)?.content ?? this.#saved);
      return;
    }
    if (!keep(this.#key, this.#version, read(this.#form))) this.#say("Not saved yet");
    if (!this.#conflicts) this.#later(wait);
  }

  #later(wait) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.sendNow(), wait);
  }

  async #send() {
    const content = read(this.#form);
    this.#say("Saving…");
    let response;
    let answer = {};
    try {
      response = await fetch(this.#form.action, {
        method: "POST",
        body: toBody(content, this.#version),
        headers: { "X-CSRFToken": csrfToken(), "Accept": "application/json" },
        redirect: "manual",
        keepalive: true,
      });
      if (response.headers.get("Content-Type")?.startsWith("application/json")) answer = await response.json();
    } catch {
      response = null;
    }
    if (response?.ok) this.#accept(content, answer);
    else if (response?.status === 409) this.#conflict(answer);
    else this.#fail(response, answer);
  }

  #accept(content, answer) {
    const wasFailing = this.#failures > 0;
    this.#version = answer.saved.version;
    this.#saved = content;
    this.#failures = 0;
    forget(this.#key, content);
    this.#form.dataset.wants = answer.saved.wants;
    if (this.isClean) {
      this.#say(`Saved ${clock(answer.saved.at)}`, { wants: answer.saved.wants });
      if (wasFailing) announce("Saved");
    } else {
      keep(this.#key, this.#version, read(this.#form));
      this.#later(TYPING_PAUSE_MS);
    }
    this.#form.dispatchEvent(new CustomEvent("scorecard:saved", { bubbles: true }));
  }

  #conflict(answer) {
    this.#conflicts = true;
    const theirs = fromServer(this.#form, answer.saved);
    this.#say(`Not saved: ${answer.error}`, { failed: true });
    announce(`Not saved: ${answer.error}`);
    showConflict(this.#form, theirs, clock(answer.saved.at), (keepMine) => {
      this.#conflicts = false;
      this.#version = answer.saved.version;
      this.#saved = theirs;
      if (!keepMine) {
        forget(this.#key, kept(this.#key)?.content ?? theirs);
        write(this.#form, theirs);
        this.#say(`Saved ${clock(answer.saved.at)}`, { wants: answer.saved.wants });
        this.#form.dataset.wants = answer.saved.wants;
        this.#form.dispatchEvent(new CustomEvent("scorecard:saved", { bubbles: true }));
      } else if (this.isClean) {
        this.#say(`Saved ${clock(answer.saved.at)}`, { wants: answer.saved.wants });
      } else {
        this.#changed(0);
      }
    });
  }

  #fail(response, answer) {
    const { words, again } = reason(response, answer);
    this.#say(`Not saved: ${words}`, { failed: true });
    if (this.#failures === 0) announce(`Not saved: ${words}`);
    this.#stopped = !again;
    if (again) this.#later(RETRIES_MS[Math.min(this.#failures, RETRIES_MS.length - 1)]);
    this.#failures += 1;
  }

  #say(words, { failed = false, wants = "" } = {}) {
    const state = this.#form.querySelector("[data-state]");
    const said = Object.assign(document.createElement("span"), { textContent: words });
    said.className = failed ? "rating__failed" : "muted";
    state.replaceChildren(said);
    if (wants) {
      const needed = Object.assign(document.createElement("span"), { textContent: `needs ${wants}` });
      needed.className = "rating__wants";
      state.append(" · ", needed);
    }
  }
}

/** Why something was not saved, in words, and whether to try again unasked. */
function reason(response, answer) {
  const kept = "It is kept in this browser";
  if (response === null) return { words: `no connection. ${kept} and sent again.`, again: true };
  if (response.type === "opaqueredirect") {
    return { words: `you are signed out. ${kept}; sign in and reload the page.`, again: false };
  }
  if (answer.error) return { words: answer.error, again: false };
  if (response.status === 403) return { words: `this page is too old. ${kept}; reload the page.`, again: false };
  if (response.status === 404) return { words: "you are no longer on the panel.", again: false };
  return { words: `the server has a fault. ${kept} and sent again.`, again: true };
}
