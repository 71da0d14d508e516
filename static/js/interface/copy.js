// <button data-copy="text"> or <button data-copy-from="id of an input">.
import { announce } from "./announce.js";
import { icon } from "./icons.js";

const SHOWN_MS = 1600;

async function copy(button) {
  const source = document.getElementById(button.dataset.copyFrom);
  const text = button.dataset.copy ?? source?.value ?? source?.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // No clipboard outside a secure context: select the text so that the person can copy it.
    source?.select?.();
    announce("Press Control C to copy");
    return;
  }
  announce("Copied");
  if (button.dataset.copied) return;
  button.dataset.copied = "true";
  const before = [...button.childNodes];
  const label = button.textContent.trim() && !button.classList.contains("button--icon") ? "Copied" : "";
  button.replaceChildren(icon("check"), label);
  setTimeout(() => {
    button.replaceChildren(...before);
    delete button.dataset.copied;
  }, SHOWN_MS);
}

export function setUpCopyButtons() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-from]");
    if (button) copy(button);
  });
}
