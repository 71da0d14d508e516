/** The token that every request which changes something carries as X-CSRFToken. */
export function csrfToken() {
  return document.querySelector("meta[name=csrf-token]")?.content ?? "";
}
