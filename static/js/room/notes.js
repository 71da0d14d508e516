// Private notes: kept on this device until the server says that they are in the timeline.
import { icon } from "../interface/icons.js";
import { el, fill } from "./dom.js";

const time = new Intl.DateTimeFormat(undefined, { hourCycle: "h23", hour: "2-digit", minute: "2-digit" });

export class Notes {
  /** `position()` is the question of a new note. */
  constructor(root, connection, interview, position) {
    this.connection = connection;
    this.position = position;
    this.list = root.querySelector("[data-notes=list]");
    this.empty = root.querySelector("[data-notes=empty]");
    this.form = root.querySelector("[data-notes=form]");
    this.field = this.form.elements.text;
    this.draftKey = `rendezvous:note-draft:${interview}`;
    this.waitingKey = `rendezvous:notes:${interview}`;
    this.saved = new Map();
    this.waiting = new Map(JSON.parse(localStorage.getItem(this.waitingKey) ?? "[]").map((note) => [note.id, note]));
    this.field.value = localStorage.getItem(this.draftKey) ?? "";
    this.field.addEventListener("input", () => localStorage.setItem(this.draftKey, this.field.value));
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.add();
    });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.add();
    });
    connection.on("message:note", ({ note }) => this.take([note]));
    connection.on("message:note_saved", ({ id }) => this.markSaved(id));
    this.draw();
  }

  add() {
    const text = this.field.value.trim();
    if (!text) return;
    const note = { id: crypto.randomUUID(), text, position: this.position(), at: new Date().toISOString() };
    this.waiting.set(note.id, note);
    this.keep();
    this.field.value = "";
    localStorage.removeItem(this.draftKey);
    this.send(note);
    this.draw();
  }

  keep() {
    localStorage.setItem(this.waitingKey, JSON.stringify([...this.waiting.values()]));
  }

  send({ id, text, position }) {
    this.connection.say("note", { id, text, position });
  }

  /** After a greeting of the server: what it has, and again what it does not have yet. The ids keep it from doubling. */
  synchronise(notes) {
    this.saved = new Map(notes.map((note) => [note.id, note]));
    for (const note of [...this.waiting.values()]) {
      if (this.saved.has(note.id)) this.waiting.delete(note.id);
      else this.send(note);
    }
    this.keep();
    this.draw();
  }

  take(notes) {
    for (const note of notes) {
      this.saved.set(note.id, note);
      this.waiting.delete(note.id);
    }
    this.keep();
    this.draw();
  }

  markSaved(id) {
    const note = this.waiting.get(id);
    if (!note) return;
    this.waiting.delete(id);
    if (!this.saved.has(id)) this.saved.set(id, note);
    this.keep();
    this.draw();
  }

  draw() {
    const rows = [...this.saved.values(), ...this.waiting.values()].sort((a, b) => (a.at < b.at ? -1 : 1));
    this.empty.hidden = rows.length > 0;
    fill(
      this.list,
      ...rows.map((note) =>
        el(
          "li",
          { class: "note" },
          el(
            "div",
            { class: "note__head" },
            el("time", { datetime: note.at, class: "numbers", text: time.format(new Date(note.at)) }),
            note.author && el("span", { text: note.author }),
            note.position && el("span", { text: `Question ${note.position}` }),
            this.waiting.has(note.id) && el("span", { class: "badge badge--warn" }, icon("cloud-upload"), "not saved yet"),
          ),
          el("p", { class: "note__text", text: note.text }),
        ),
      ),
    );
    this.list.scrollTop = this.list.scrollHeight;
  }
}
