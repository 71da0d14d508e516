// What was typed and is not yet acknowledged by the server, kept in this browser so that nothing typed is lost.
import { same } from "./content.js";

const PREFIX = "scorecard.";

/** Whether it could be kept: a browser may refuse to store anything. */
export function keep(key, version, content) {
  try {
    localStorage.setItem(PREFIX + key, JSON.stringify({ version, content }));
    return true;
  } catch {
    return false;
  }
}

export function kept(key) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + key));
  } catch {
    return null;
  }
}

/** Forgets a draft that the server has, unless something newer was typed meanwhile in another window. */
export function forget(key, content) {
  const draft = kept(key);
  if (draft && same(draft.content, content)) localStorage.removeItem(PREFIX + key);
}
