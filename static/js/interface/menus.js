// <details data-menu>: works without script; here it also closes by Escape, by a click elsewhere and by leaving it.

export function setUpMenus() {
  const open = () => document.querySelectorAll("details[data-menu][open]");

  document.addEventListener("click", (event) => {
    for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("focusin", (event) => {
    for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of open()) {
      const summary = menu.querySelector("summary");
      if (menu.contains(document.activeElement)) summary.focus();
      menu.open = false;
    }
  });
}
