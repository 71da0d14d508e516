// What every page has: htmx, tabs, menus, dialogs, copy buttons, the theme, and times in the reader's zone.
import htmx from "htmx.org";
import { csrfToken } from "./interface/csrf.js";
import { setUpCopyButtons } from "./interface/copy.js";
import { setUpDialogs } from "./interface/dialogs.js";
import { setUpForms } from "./interface/forms.js";
import { setUpMenus } from "./interface/menus.js";
import { setUpTabs } from "./interface/tabs.js";
import { setUpTheme } from "./interface/theme.js";
import { refineTimes, rememberTimeZone } from "./interface/time_zone.js";

// The style sheet of the page forbids inline styles and evaluated code; our own style sheet has the indicator's rules.
htmx.config.includeIndicatorStyles = false;
htmx.config.allowEval = false;
htmx.config.selfRequestsOnly = true;

document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-CSRFToken"] = csrfToken();
});

rememberTimeZone();
setUpTheme();
setUpMenus();
setUpDialogs();
setUpCopyButtons();
setUpForms();
setUpTabs(document);
refineTimes(document);

// What htmx brings in is set up like what came with the page.
document.addEventListener("htmx:load", (event) => {
  setUpTabs(event.detail.elt);
  refineTimes(event.detail.elt);
});
