// The bar at the top: the question, the clock, who is here, and whether what was typed is saved.
import { announce } from "../interface/announce.js";
import { icon } from "../interface/icons.js";
import { clockText, el, fill, initials } from "./dom.js";

const SYNC = {
  synced: { words: "Saved", title: "Everything typed here is in the database.", icon: () => icon("cloud-check") },
  saving: { words: "Saving", title: "The last changes are on their way.", icon: () => icon("cloud-upload") },
  offline: {
    words: "Offline",
    title: "No connection. Go on typing: it is kept on this device and merged when the connection is back.",
    icon: () => icon("cloud-off"),
  },
};
/** A change is often saved within a few frames; a sign that flickers at every key says nothing. */
const SAVING_SHOWN_AFTER_MS = 400;

export class Bar {
  /** `actions` has `openQuestion(position)`. */
  constructor(root, actions) {
    this.find = (name) => root.querySelector(`[data-bar="${name}"]`);
    this.actions = actions;
    this.shownSync = null;
    this.clockOffsetMs = 0;
    setInterval(() => this.tick(), 500);
  }

  update(state, isInterviewer) {
    this.state = state;
    this.clockOffsetMs = Date.parse(state.now) - Date.now();
    const current = state.questions.find((question) => question.position === state.current_position);
    this.find("question").textContent = current ? `${current.position}. ${current.title}` : "No question open yet";
    if (isInterviewer) this.fillSwitcher(state);
    const video = this.find("video");
    video.hidden = !state.video_url;
    if (/^https?:/.test(state.video_url)) video.href = state.video_url;
    this.tick();
  }

  fillSwitcher(state) {
    const items = state.questions.map((question) => {
      const isCurrent = question.position === state.current_position && question.opened_at;
      const note = isCurrent ? "open now" : question.opened_at ? "opened before" : `${question.minutes} min`;
      return el(
        "button",
        {
          class: "menu__item",
          type: "button",
          "aria-current": isCurrent ? "true" : null,
          disabled: state.read_only,
          on: {
            click: (event) => {
              event.currentTarget.closest("details").open = false;
              this.actions.openQuestion(question.position);
            },
          },
        },
        el("span", { class: "step", text: String(question.position) }),
        el("span", { class: "switcher__title", text: question.title }),
        el("span", { class: "muted small no-wrap", text: note }),
      );
    });
    fill(this.find("questions"), ...items);
  }

  tick() {
    const { state } = this;
    if (!state) return;
    const clock = this.find("clock");
    const now = Date.now() + this.clockOffsetMs;
    let words;
    let isOver = false;
    if (!state.started_at) words = `${state.duration_minutes} min planned`;
    else {
      const startedAt = Date.parse(state.started_at);
      const elapsed = ((state.ended_at ? Date.parse(state.ended_at) : now) - startedAt) / 1000;
      const left = state.duration_minutes * 60 - elapsed;
      isOver = !state.ended_at && left < 0;
      if (state.ended_at) words = `Ended after ${clockText(elapsed)}`;
      else words = isOver ? `${clockText(-left)} over` : `${clockText(left)} left`;
      clock.title = `${clockText(elapsed)} of ${state.duration_minutes} minutes`;
    }
    clock.dataset.over = String(isOver);
    const text = this.find("clock-text");
    if (text.textContent !== words) text.textContent = words;
  }

  showPeople(people, own) {
    fill(
      this.find("people"),
      ...people.map((person) =>
        el(
          "li",
          { class: `avatar colour-${person.colour} presence__person`, title: person.key === own ? `${person.name} (you)` : person.name },
          el("span", { "aria-hidden": "true", text: initials(person.name) }),
          el("span", { class: "visually-hidden", text: `${person.name}, ${person.role}` }),
        ),
      ),
    );
  }

  showSync(status) {
    if (status === this.shownSync) {
      clearTimeout(this.syncTimer);
      return;
    }
    clearTimeout(this.syncTimer);
    const delay = status === "saving" && this.shownSync === "synced" ? SAVING_SHOWN_AFTER_MS : 0;
    if (delay) this.syncTimer = setTimeout(() => this.drawSync(status), delay);
    else this.drawSync(status);
  }

  drawSync(status) {
    const place = this.find("sync");
    const { words, title, icon: image } = SYNC[status];
    place.dataset.sync = status;
    place.title = title;
    fill(place, image(), el("span", { class: "sync__words", text: words }));
    // Every "saving, saved" aloud would be noise; being cut off and coming back is news.
    if (status === "offline" || this.shownSync === "offline") announce(`${words}. ${title}`);
    this.shownSync = status;
  }
}
