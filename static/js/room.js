// The room, from both sides. What is in it comes over the WebSocket; this file puts the parts together.
import { announce } from "./interface/announce.js";
import { icon } from "./interface/icons.js";
import { Bar } from "./room/bar.js";
import { CLOSE_REMOVED, Connection } from "./room/connection.js";
import { Console, modeWord, toneIcon } from "./room/console.js";
import { el, fill, fillWithServerHtml } from "./room/dom.js";
import { CodeEditor } from "./room/editor.js";
import { Notes } from "./room/notes.js";
import { Panes } from "./room/panes.js";
import { PrivateSide } from "./room/private_side.js";
import { RunsApi } from "./room/runs.js";
import { SharedDocument } from "./room/shared_document.js";

const SHOWN_RUNS = 20;
const time = new Intl.DateTimeFormat(undefined, { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" });

class Room {
  constructor(root) {
    this.root = root;
    this.isInterviewer = root.dataset.role === "interviewer";
    this.state = null;
    this.documents = new Map();
    this.question = null;
    this.runs = [];
    this.follower = null;
    this.candidateSessions = [];

    const { interview } = root.dataset;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const query = this.isInterviewer ? "" : "?as=candidate";
    this.connection = new Connection(`${scheme}://${location.host}/ws/rooms/${interview}/${query}`);
    this.api = new RunsApi(interview, !this.isInterviewer);
    this.bar = new Bar(root, { openQuestion: (position) => this.connection.say("open_question", { position }) });
    this.panes = new Panes(root);
    this.editor = new CodeEditor(this.part("editor"), root.dataset.nonce, {
      run: () => this.start("program"),
      check: () => this.start("checks"),
      tooLarge: () => this.console.refuse("That is more text than a document may have. It was not put in."),
    });
    this.console = new Console(this.part("console"));
    if (this.isInterviewer) {
      this.privateSide = new PrivateSide(root);
      this.notes = new Notes(root, this.connection, interview, () => this.state?.current_position ?? 1);
    }
    this.listen();
    this.setUpControls();
    this.connection.connect();
  }

  part(name) {
    return this.root.querySelector(`[data-part="${name}"]`);
  }

  listen() {
    const { connection } = this;
    connection.on("message:lobby", ({ state }) => this.showLobby(state));
    connection.on("message:admitted", () => announce("You are in. The interview begins."));
    connection.on("message:hello", (hello) => this.greet(hello));
    connection.on("message:state", ({ state }) => this.update(state));
    connection.on("message:presence", ({ people }) => this.showPeople(people));
    connection.on("message:waiting", ({ waiting }) => this.showWaiting(waiting));
    connection.on("message:saved", ({ position, epoch, count }) => this.documents.get(position)?.markSaved(epoch, count));
    connection.on("message:document", ({ position }) => {
      this.documents.get(position)?.startAnew("The document was started anew.");
    });
    connection.on("message:error", (error) => this.takeError(error));
    connection.on("message:run", ({ position }) => {
      if (position === this.question?.position) this.loadRuns();
    });
    connection.on("frame", (frame) => this.documents.get(frame.position)?.take(frame));
    connection.on("lost", () => {
      for (const shared of this.documents.values()) shared.connectionLost();
      this.showSync();
    });
    connection.on("refused", (code) => this.showRefused(code));
    window.addEventListener("beforeunload", (event) => {
      if ([...this.documents.values()].some((shared) => shared.hasUnsaved)) event.preventDefault();
    });
  }

  setUpControls() {
    this.part("run").addEventListener("click", () => this.start("program"));
    this.part("check").addEventListener("click", () => this.start("checks"));
    this.part("stop").addEventListener("click", () => this.stop());
    this.part("ranks").addEventListener("change", () => {
      localStorage.setItem(this.ranksKey(), this.part("ranks").value);
    });
    this.root.addEventListener("run:finished", ({ detail: run }) => this.runFinished(run));
    if (!this.isInterviewer) return;
    this.part("begin").addEventListener("click", (event) => {
      event.currentTarget.closest("details").open = false;
      this.connection.say("start");
    });
    this.confirm("end", () => this.connection.say("end"));
    this.confirm("show-out", () => {
      for (const session of this.candidateSessions) this.connection.say("remove", { session });
    });
  }

  confirm(name, action) {
    this.root.querySelector(`[data-confirm=${name}]`).addEventListener("click", (event) => {
      action();
      event.currentTarget.closest("dialog").close();
    });
  }

  // The room's state ---------------------------------------------------------------------------------------------------

  showLobby(state) {
    this.root.dataset.stage = "lobby";
    this.part("lobby-words").textContent =
      state.status === "ended" ? "This interview is over." : "Your interviewer will let you in.";
  }

  greet({ you, state }) {
    this.you = you;
    this.root.dataset.stage = "room";
    this.update(state);
    for (const shared of this.documents.values()) shared.greet();
    this.notes?.synchronise(state.notes);
    if (this.question) this.loadRuns();
  }

  update(state) {
    const before = this.state;
    this.state = state;
    this.bar.update(state, this.isInterviewer);
    this.editor.setReadOnly(state.read_only);
    this.part("read-only").hidden = !state.read_only;
    if (this.isInterviewer) {
      this.part("end").hidden = state.read_only;
      this.part("begin").hidden = state.status !== "scheduled";
    }
    if (before && !before.read_only && state.read_only) announce("The interview has ended. The code can only be read now.");
    this.notes?.take(state.notes);
    this.showQuestion(before);
    this.updateRunControls();
  }

  showQuestion(before) {
    const question = this.state.questions.find(({ position }) => position === this.state.current_position);
    this.part("no-question").hidden = Boolean(question);
    if (!question) return;
    const isOther = this.question?.position !== question.position;
    this.question = question;
    const prompt = this.part("prompt");
    if (prompt.dataset.shown !== question.prompt_html) {
      prompt.dataset.shown = "";
      fillWithServerHtml(prompt, question.prompt_html);
      this.part("prompt-title").textContent = question.title;
    }
    this.privateSide?.show(question);
    if (!isOther) return;
    if (before) announce(`Question ${question.position}: ${question.title}`);
    prompt.parentElement.scrollTop = 0;
    this.console.knownChecks = question.checks;
    this.showRanks(question);
    this.openDocument(question);
    this.follower?.close();
    this.follower = null;
    this.runs = [];
    this.console.clear();
    this.drawRuns();
    this.loadRuns();
  }

  openDocument({ position, title }) {
    let shared = this.documents.get(position);
    if (!shared) {
      shared = new SharedDocument(this.connection, this.root.dataset.interview, position);
      this.documents.set(position, shared);
      shared.addEventListener("status", () => this.showSync());
      shared.addEventListener("ready", () => this.showDocument(shared, title));
      shared.addEventListener("restarted", () => this.editor.shared === shared && this.editor.clear());
      shared.addEventListener("replaced", ({ detail }) => this.offerBack(detail));
      if (this.connection.isOpen) shared.greet();
    }
    this.editor.clear();
    this.showDocument(shared, title);
  }

  showDocument(shared, title) {
    if (shared.position !== this.question.position || !shared.isReady) return;
    this.editor.show(shared, `Code for ${title}`);
    this.showSync();
  }

  showSync() {
    const shared = this.documents.get(this.question?.position);
    if (shared) this.bar.showSync(shared.status);
  }

  takeError({ code, message, position }) {
    const shared = this.documents.get(position);
    if (shared && ["malformed", "update_too_large", "document_full", "read_only", "outdated"].includes(code)) {
      // The server's document is the truth; what it did not take is offered back as text.
      shared.startAnew(message);
    } else {
      this.console.refuse(message);
    }
  }

  offerBack({ text, reason }) {
    const dialog = this.root.querySelector("#rescue-dialog");
    dialog.querySelector("[data-rescue=reason]").textContent = reason;
    dialog.querySelector("[data-rescue=text]").value = text;
    if (!dialog.open) dialog.showModal();
  }

  showPeople(people) {
    this.bar.showPeople(people, this.you?.key);
    if (!this.isInterviewer) return;
    this.candidateSessions = people.flatMap(({ key }) => key.match(/^candidate-(\d+)$/)?.[1] ?? []).map(Number);
    this.part("show-out").hidden = !this.candidateSessions.length;
  }

  showWaiting(waiting) {
    const place = this.part("waiting");
    this.pageTitle ??= document.title;
    document.title = waiting.length ? `Waiting: ${waiting[0].name} · Rendezvous` : this.pageTitle;
    const known = place.childElementCount;
    fill(
      place,
      ...waiting.map(({ session, name }) =>
        el(
          "div",
          { class: "knock" },
          icon("door-open"),
          el("span", { class: "grow" }, el("strong", { text: name }), " is waiting in the lobby"),
          el("button", { class: "button button--primary button--small", type: "button", text: "Let in", on: { click: () => this.connection.say("admit", { session }) } }),
          el("button", { class: "button button--small", type: "button", text: "Decline", on: { click: () => this.connection.say("remove", { session }) } }),
        ),
      ),
    );
    if (waiting.length > known) announce(`${waiting.at(-1).name} is waiting in the lobby`);
  }

  showRefused(code) {
    this.root.dataset.stage = "refused";
    this.part("refused-words").textContent =
      code === CLOSE_REMOVED && !this.isInterviewer
        ? "You are no longer in this room. If that is a mistake, ask your interviewer for a link."
        : "You have no access to this room any more.";
  }

  // Runs ---------------------------------------------------------------------------------------------------------------

  ranksKey() {
    return `rendezvous:ranks:${this.root.dataset.interview}:${this.question.position}`;
  }

  showRanks(question) {
    const select = this.part("ranks");
    const chosen = Number(localStorage.getItem(this.ranksKey())) || question.ranks;
    const options = Array.from({ length: question.max_ranks }, (_, at) => at + 1);
    fill(select, ...options.map((number) => el("option", { value: String(number), text: number === 1 ? "1 rank" : `${number} ranks` })));
    select.value = String(Math.min(chosen, question.max_ranks));
    select.hidden = question.max_ranks < 2;
  }

  get openRun() {
    return this.runs.find((run) => run.state !== "finished") ?? null;
  }

  async loadRuns() {
    const { position } = this.question;
    let runs;
    try {
      runs = await this.api.list(position);
    } catch (error) {
      this.console.refuse(error.message);
      return;
    }
    if (position !== this.question.position) return;
    this.takeRuns(runs);
    const target = this.openRun ?? (this.console.run ? null : runs[0]);
    if (!target || this.console.run?.id === target.id) return;
    this.followRun(target);
    if (target.state !== "finished") this.panes.markNews("console");
  }

  takeRuns(runs) {
    this.runs = runs;
    this.drawRuns();
    this.updateRunControls();
    const checked = runs.find((run) => run.mode === "checks" && run.state === "finished" && run.checks.length);
    if (checked) this.privateSide?.showResults(checked);
  }

  followRun(run) {
    this.follower?.close();
    this.follower = this.api.follow(run, this.console);
    this.drawRuns();
  }

  runFinished(run) {
    this.takeRuns(this.runs.map((known) => (known.id === run.id ? { ...known, ...run } : known)));
  }

  async start(mode) {
    if (!this.question || this.openRun || this.starting || this.state.read_only) return;
    this.starting = true;
    this.updateRunControls();
    // What is run is what is on the screen; it is saved first, so that the timeline has it before the run.
    this.documents.get(this.question.position)?.flush();
    const ranks = Number(this.part("ranks").value) || 1;
    try {
      const run = await this.api.start(this.question.position, mode, ranks, this.editor.text);
      if (!this.runs.some((known) => known.id === run.id)) this.takeRuns([run, ...this.runs]);
      if (this.console.run?.id !== run.id) this.followRun(run);
      if (this.root.dataset.pane === "code") this.panes.show("console");
    } catch (error) {
      this.console.refuse(error.message);
      this.panes.markNews("console");
      if (error.status === 409) this.loadRuns();
    } finally {
      this.starting = false;
      this.updateRunControls();
    }
  }

  async stop() {
    const run = this.openRun;
    if (!run) return;
    this.part("stop").setAttribute("aria-busy", "true");
    try {
      await this.api.stop(run.id);
    } catch (error) {
      this.console.refuse(error.message);
      this.part("stop").removeAttribute("aria-busy");
    }
  }

  updateRunControls() {
    const isRunning = Boolean(this.openRun);
    const isBlocked = isRunning || this.starting || !this.question || Boolean(this.state?.read_only);
    for (const name of ["run", "check"]) this.part(name).disabled = isBlocked;
    const stop = this.part("stop");
    stop.hidden = !isRunning;
    if (!isRunning) stop.removeAttribute("aria-busy");
  }

  drawRuns() {
    const current = this.console.run;
    const menu = this.part("runs-menu");
    menu.hidden = !this.runs.length;
    fill(this.part("runs-title"), current ? `Run ${current.number}` : "Runs");
    fill(
      this.part("runs"),
      ...this.runs.slice(0, SHOWN_RUNS).map((run) =>
        el(
          "button",
          {
            class: "menu__item",
            type: "button",
            "aria-current": current?.id === run.id ? "true" : null,
            on: {
              click: () => {
                menu.open = false;
                this.followRun(run);
              },
            },
          },
          toneIcon(run),
          el("span", { class: "grow truncate", text: `Run ${run.number} · ${modeWord(run)} · ${run.requested_by}` }),
          el("span", { class: "muted small numbers", text: time.format(new Date(run.requested_at)) }),
        ),
      ),
    );
  }
}

const root = document.getElementById("room");
if (root) new Room(root);
