// Puts a run, a check or a note into the evidence note where the cursor stands, and keeps which moment it is.
import { addCite } from "./content.js";

function insert(textarea, words) {
  const before = textarea.value.slice(0, textarea.selectionStart);
  const after = textarea.value.slice(textarea.selectionEnd);
  const lead = before && !/\s$/.test(before) ? " " : "";
  const trail = after && !/^[\s.,;:)]/.test(after) ? " " : "";
  textarea.setRangeText(`${lead}(${words})${trail}`, textarea.selectionStart, textarea.selectionEnd, "end");
}

export function setUpCiting() {
  document.addEventListener("click", (event) => {
    const source = event.target.closest("[data-cite]");
    const form = event.target.closest("form[data-autosave]");
    if (source && form) {
      const textarea = form.querySelector("textarea");
      insert(textarea, source.dataset.label);
      addCite(form, { sequence: Number(source.dataset.cite), label: source.dataset.chip });
      form.querySelector("[data-citing]").open = false;
      textarea.focus();
      textarea.dispatchEvent(new Event("input", { bubbles: true }));
      return;
    }
    const remove = event.target.closest("[data-uncite]");
    if (remove && form) {
      remove.closest("li").remove();
      form.querySelector("textarea").focus();
      form.dispatchEvent(new Event("input", { bubbles: true }));
    }
  });
  document.addEventListener("keydown", (event) => {
    const list = event.key === "Escape" ? event.target.closest?.("[data-citing][open]") : null;
    if (!list) return;
    list.open = false;
    list.querySelector("summary").focus();
  });
}
