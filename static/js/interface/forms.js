// A form that is on its way is not sent twice.

export function setUpForms() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method === "dialog" || form.hasAttribute("hx-post")) return;
    const button = event.submitter;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    if (form.method !== "post") return;
    form.dataset.sent = "true";
    button?.setAttribute("aria-busy", "true");
  });

  // A page that comes back from the browser's cache shows its form as new.
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    for (const form of document.querySelectorAll("form[data-sent]")) {
      delete form.dataset.sent;
      form.querySelector("[aria-busy]")?.removeAttribute("aria-busy");
    }
  });
}
