// The server prints times in the zone of this cookie. On a first visit it does not know it: the times are put right here.
import { readCookie, writeCookie } from "./cookies.js";

const COOKIE = "time_zone";
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const DAY = { day: "numeric", month: "short" };
const STYLES = {
  full: { ...DAY, year: "numeric", ...CLOCK },
  short: { weekday: "short", ...DAY, ...CLOCK },
  date: { weekday: "short", ...DAY, year: "numeric" },
  time: CLOCK,
};

const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

export function rememberTimeZone() {
  if (zone() && readCookie(COOKIE) !== zone()) writeCookie(COOKIE, zone());
}

/** Rewrites <time data-local="full|short|date|time"> where the page was made for another zone. */
export function refineTimes(root) {
  if (!zone() || document.documentElement.dataset.timeZone === zone()) return;
  const times = [...root.querySelectorAll("time[data-local]")];
  if (root.matches?.("time[data-local]")) times.push(root);
  for (const time of times) {
    const at = new Date(time.dateTime);
    const words = new Intl.DateTimeFormat("en-GB", STYLES[time.dataset.local]).format(at);
    // "Tue, 1 Dec" in some versions of the locale's data; the server prints no comma there.
    time.textContent = words.replace(/^(\p{L}+),/u, "$1");
    time.title = `${at.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "short" })} (${zone()})`;
  }
}
