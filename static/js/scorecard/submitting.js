// The dialog that names what is missing, or asks once more. What is still unsaved goes off first.

function goTo(place) {
  const target = document.getElementById(place);
  if (!target) return;
  target.scrollIntoView({ block: "start" });
  const field = target.querySelector("input:checked, input[type=radio]") ?? target;
  field.focus({ preventScroll: true });
}

function show(dialog, content) {
  dialog.replaceChildren(content);
  dialog.showModal();
}

function notice(words) {
  const paragraph = Object.assign(document.createElement("p"), { textContent: words });
  paragraph.className = "notice notice--bad";
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
  close.className = "button";
  close.dataset.dialogClose = "";
  const actions = document.createElement("div");
  actions.className = "dialog__actions";
  actions.append(close);
  const content = document.createDocumentFragment();
  content.append(paragraph, actions);
  return content;
}

async function open(link, dialog, drafts) {
  const saved = await Promise.all(drafts.map((draft) => draft.sendNow()));
  if (saved.includes(false)) {
    show(dialog, notice("Something you wrote is not saved yet. Where it says “Not saved”, it says why."));
    return;
  }
  try {
    const response = await fetch(link.href, { headers: { "HX-Request": "true" }, redirect: "manual" });
    if (!response.ok) throw new Error(response.status);
    show(dialog, document.createRange().createContextualFragment(await response.text()));
  } catch {
    show(dialog, notice("The server cannot be reached at the moment. Nothing you wrote is lost; try again."));
  }
}

/** `drafts()` gives the forms of the page. */
export function setUpSubmitting(drafts) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-submit]");
    const dialog = document.querySelector("[data-submit-dialog]");
    if (link && dialog) {
      event.preventDefault();
      open(link, dialog, drafts());
      return;
    }
    const missing = event.target.closest("[data-missing]");
    if (missing && dialog?.contains(missing)) {
      event.preventDefault();
      dialog.close();
      goTo(missing.dataset.missing);
    }
  });
}
