// The theme is a cookie, so that the server prints <html data-theme> and no page flashes in the wrong colours.
import { readCookie, writeCookie } from "./cookies.js";

const COOKIE = "theme";

function show(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme));
  }
  document.dispatchEvent(new CustomEvent("theme:change", { detail: { theme } }));
}

/** Buttons with data-theme-choice: "light", "dark", or "" for what the system wishes. */
export function setUpTheme() {
  show(readCookie(COOKIE) ?? "");
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme-choice]");
    if (!button) return;
    writeCookie(COOKIE, button.dataset.themeChoice);
    show(button.dataset.themeChoice);
  });
}
