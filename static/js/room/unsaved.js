// What could not be saved yet, kept on this device: a reload or a crash while offline loses nothing.
import * as Y from "yjs";

const KEEP_AFTER_MS = 400;
const timers = new Map();

function key(shared) {
  return `rendezvous:unsaved:${shared.interview}:${shared.position}`;
}

function toBase64(bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Soon, so that typing fast does not write the whole document at every key. */
export function keepUnsaved(shared) {
  const name = key(shared);
  if (timers.has(name) || !shared.epoch) return;
  const write = () => {
    timers.delete(name);
    if (!shared.hasUnsaved) return;
    const kept = {
      epoch: shared.epoch,
      update: toBase64(Y.encodeStateAsUpdate(shared.doc)),
      text: shared.text.toString(),
    };
    try {
      localStorage.setItem(name, JSON.stringify(kept));
    } catch (error) {
      console.warn("Unsaved changes could not be kept on this device", error);
    }
  };
  timers.set(name, setTimeout(write, KEEP_AFTER_MS));
}

export function forgetUnsaved(shared) {
  const name = key(shared);
  clearTimeout(timers.get(name));
  timers.delete(name);
  localStorage.removeItem(name);
}

/** `{epoch, update, text}` or null. */
export function takeUnsaved(shared) {
  const kept = localStorage.getItem(key(shared));
  if (!kept) return null;
  try {
    const { epoch, update, text } = JSON.parse(kept);
    return { epoch, update: fromBase64(update), text };
  } catch (error) {
    console.warn("Changes kept on this device could not be read", error);
    return null;
  }
}
