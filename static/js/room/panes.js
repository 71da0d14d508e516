// Resizable panes: <div role="separator" data-resizes="--name"> between two panes, by pointer and by arrow keys.
// On a narrow screen one pane is shown at a time, chosen by tabs.

const STEP = 16;

function limitsOf(separator) {
  return { least: Number(separator.dataset.min), most: Number(separator.dataset.max) };
}

function setUpSeparator(room, separator) {
  const { resizes: property } = separator.dataset;
  const isColumn = separator.getAttribute("aria-orientation") === "vertical";
  // Panes at the end grow when the separator moves towards the start.
  const direction = separator.dataset.side === "end" ? -1 : 1;
  const storageKey = `rendezvous:pane:${room.dataset.role}:${property}`;
  const { least, most } = limitsOf(separator);

  const set = (pixels) => {
    const size = Math.round(Math.min(most, Math.max(least, pixels)));
    room.style.setProperty(property, `${size}px`);
    separator.setAttribute("aria-valuenow", String(size));
    localStorage.setItem(storageKey, String(size));
  };
  const current = () => {
    const pane = document.getElementById(separator.getAttribute("aria-controls"));
    return isColumn ? pane.offsetWidth : pane.offsetHeight;
  };

  separator.setAttribute("aria-valuemin", String(least));
  separator.setAttribute("aria-valuemax", String(most));
  const kept = Number(localStorage.getItem(storageKey));
  if (kept) set(kept);
  else separator.setAttribute("aria-valuenow", String(current() || least));

  separator.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    separator.setPointerCapture(event.pointerId);
    const from = isColumn ? event.clientX : event.clientY;
    const size = current();
    const move = (moved) => set(size + direction * ((isColumn ? moved.clientX : moved.clientY) - from));
    separator.dataset.moving = "true";
    separator.addEventListener("pointermove", move);
    const stop = () => {
      delete separator.dataset.moving;
      separator.removeEventListener("pointermove", move);
    };
    separator.addEventListener("pointerup", stop, { once: true });
    separator.addEventListener("pointercancel", stop, { once: true });
  });
  separator.addEventListener("keydown", (event) => {
    const grow = isColumn ? "ArrowRight" : "ArrowDown";
    const shrink = isColumn ? "ArrowLeft" : "ArrowUp";
    if (event.key === grow) set(current() + direction * STEP);
    else if (event.key === shrink) set(current() - direction * STEP);
    else if (event.key === "Home") set(least);
    else if (event.key === "End") set(most);
    else return;
    event.preventDefault();
  });
  separator.addEventListener("dblclick", () => {
    room.style.removeProperty(property);
    localStorage.removeItem(storageKey);
    separator.setAttribute("aria-valuenow", String(current()));
  });
}

export class Panes {
  constructor(room) {
    this.room = room;
    this.buttons = [...room.querySelectorAll("[data-pane-choice]")];
    for (const separator of room.querySelectorAll("[role=separator]")) setUpSeparator(room, separator);
    for (const button of this.buttons) button.addEventListener("click", () => this.show(button.dataset.paneChoice));
    this.show("code");
  }

  /** On a narrow screen: this pane in front. On a wide one all are there. */
  show(name) {
    this.room.dataset.pane = name;
    for (const button of this.buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.paneChoice === name));
      if (button.dataset.paneChoice === name) delete button.dataset.news;
    }
  }

  /** A dot on the tab of a pane that is not in front. */
  markNews(name) {
    if (this.room.dataset.pane === name) return;
    for (const button of this.buttons) if (button.dataset.paneChoice === name) button.dataset.news = "true";
  }
}
