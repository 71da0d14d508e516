const YEAR_S = 365 * 24 * 3600;

export function readCookie(name) {
  const entry = document.cookie.split("; ").find((each) => each.startsWith(`${name}=`));
  return entry?.slice(name.length + 1);
}

/** Keeps a preference for a year; an empty value forgets it. The server reads it when it makes the next page. */
export function writeCookie(name, value) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${name}=${value}; Path=/; Max-Age=${value ? YEAR_S : 0}; SameSite=Lax${secure}`;
}
