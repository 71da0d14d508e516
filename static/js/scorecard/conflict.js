// What was saved elsewhere, beside what stands here, and the choice between the two.

const LEVEL_WORDS = { "": "no level", not_assessed: "not assessed" };

function words(form, { fields, cites }) {
  const lines = [];
  for (const [name, value] of Object.entries(fields)) {
    if (name === "level") lines.push(LEVEL_WORDS[value] ?? `level ${value}`);
    else if (name === "recommendation") {
      const chosen = [...form.elements.recommendation].find((radio) => radio.value === value && value);
      lines.push(chosen ? chosen.closest("label").textContent.trim() : "no recommendation");
    } else lines.push(value ? `“${value}”` : "no text");
  }
  if (cites.length) lines.push(`citing ${cites.map(({ label }) => label).join("; ")}`);
  return lines;
}

/** Calls `choose(keepMine)` once. */
export function showConflict(form, theirs, at, choose) {
  const place = form.querySelector("[data-conflict]");
  const button = (label, keepMine, classes) => {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: label });
    made.className = `button button--small ${classes}`;
    made.addEventListener("click", () => {
      place.hidden = true;
      place.replaceChildren();
      choose(keepMine);
    });
    return made;
  };
  const title = Object.assign(document.createElement("p"), { textContent: `Saved in another window at ${at}:` });
  title.className = "strong";
  const list = document.createElement("ul");
  list.className = "conflict__theirs";
  for (const line of words(form, theirs)) list.append(Object.assign(document.createElement("li"), { textContent: line }));
  const buttons = document.createElement("div");
  buttons.className = "cluster";
  buttons.append(button("Keep what stands here", true, "button--primary"), button("Take the other one", false, ""));
  const box = document.createElement("div");
  box.className = "stack stack--tight";
  box.append(title, list, buttons);
  const notice = document.createElement("div");
  notice.className = "notice notice--warn";
  notice.append(box);
  place.replaceChildren(notice);
  place.hidden = false;
}
