let region;

/** Says something to screen readers without moving the focus. */
export function announce(words) {
  if (!region) {
    region = document.createElement("div");
    region.className = "visually-hidden";
    region.setAttribute("role", "status");
    document.body.append(region);
  }
  region.textContent = "";
  // A region that was just made, or says the same again, is read only when its text comes later.
  setTimeout(() => {
    region.textContent = words;
  }, 50);
}
