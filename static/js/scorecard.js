// A scorecard: forms that save themselves, citing runs and notes, and the dialog that submits. On its own page, and in the
// room, where htmx brings in one question at a time.
import { setUpCiting } from "./scorecard/citing.js";
import { DraftForm } from "./scorecard/draft_form.js";
import { setUpSubmitting } from "./scorecard/submitting.js";

const drafts = new Map();

function setUp(root) {
  const forms = [...root.querySelectorAll("form[data-autosave]")];
  if (root.matches?.("form[data-autosave]")) forms.push(root);
  for (const form of forms) {
    if (drafts.has(form) || form.querySelector("fieldset:disabled")) continue;
    drafts.set(form, new DraftForm(form));
  }
  for (const form of drafts.keys()) if (!form.isConnected && drafts.get(form).isClean) drafts.delete(form);
}

function showProgress() {
  let rated = 0;
  let total = 0;
  for (const count of document.querySelectorAll("[data-count]")) {
    const forms = document.querySelectorAll(`#${count.dataset.count} form[data-autosave=rating]`);
    const done = [...forms].filter((form) => form.dataset.wants === "").length;
    count.textContent = done;
    rated += done;
    total += forms.length;
  }
  for (const words of document.querySelectorAll("[data-progress]")) {
    words.textContent = `${rated} of ${total} criteria rated`;
  }
}

setUp(document);
setUpCiting();
setUpSubmitting(() => [...drafts.values()]);
document.addEventListener("htmx:load", (event) => setUp(event.detail.elt));
document.addEventListener("scorecard:saved", showProgress);

// Leaving or hiding the page: what waits for a pause in typing goes off now, and would be kept in the browser anyway.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") for (const draft of drafts.values()) draft.sendNow();
});
window.addEventListener("online", () => {
  for (const draft of drafts.values()) draft.sendNow();
});
