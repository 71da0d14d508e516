// What stands in a form of a scorecard, as a plain value that can be compared, kept and put back.
import { icon } from "../interface/icons.js";

const citesOf = (form) => form.querySelector("[data-cites]");

/** `{fields: {name: text}, cites: [{sequence, label}]}` */
export function read(form) {
  const fields = {};
  for (const control of form.querySelectorAll("textarea, input[type=radio]")) {
    if (control.type !== "radio") fields[control.name] = control.value;
    else if (control.checked) fields[control.name] = control.value;
    else fields[control.name] ??= "";
  }
  const cites = [...form.querySelectorAll("[data-cites] > li")].map((item) => ({
    sequence: Number(item.querySelector("input").value),
    label: item.querySelector("span").textContent,
  }));
  return { fields, cites };
}

export function write(form, { fields, cites }) {
  for (const control of form.querySelectorAll("textarea, input[type=radio]")) {
    if (!(control.name in fields)) continue;
    if (control.type === "radio") control.checked = control.value === fields[control.name];
    else if (control.value !== fields[control.name]) control.value = fields[control.name];
  }
  citesOf(form)?.replaceChildren();
  for (const cite of cites) addCite(form, cite);
}

/** What the server says is saved, in the same shape. */
export function fromServer(form, saved) {
  const fields = {};
  for (const name of Object.keys(read(form).fields)) fields[name] = saved[name] ?? "";
  return { fields, cites: saved.cites ?? [] };
}

export function same(one, other) {
  const plain = ({ fields, cites }) =>
    JSON.stringify([Object.entries(fields).sort(), cites.map(({ sequence }) => sequence).sort((a, b) => a - b)]);
  return plain(one) === plain(other);
}

export function toBody(content, version) {
  const body = new URLSearchParams(content.fields);
  for (const { sequence } of content.cites) body.append("cites", sequence);
  body.append("version", version);
  return body;
}

/** Adds a moment to what the note cites, once. */
export function addCite(form, { sequence, label }) {
  const list = citesOf(form);
  if (!list || list.querySelector(`input[value="${sequence}"]`)) return;
  const item = document.createElement("li");
  item.className = "cite";
  const input = Object.assign(document.createElement("input"), { type: "hidden", name: "cites", value: sequence });
  const words = Object.assign(document.createElement("span"), { textContent: label });
  const remove = Object.assign(document.createElement("button"), { type: "button", className: "cite__remove" });
  remove.dataset.uncite = "";
  remove.setAttribute("aria-label", `Remove the citation of ${label}`);
  remove.append(icon("x"));
  item.append(input, words, remove);
  list.append(item);
}
