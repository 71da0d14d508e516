// <div data-tabs> with a role=tablist of role=tab buttons, each with aria-controls naming its role=tabpanel.
// The selected tab is the one with aria-selected="true"; with data-tabs="address" it is kept in the
// address: the tab of id "tab-rubric" as #rubric. No element has that id, so the page does not jump.

function select(tabs, chosen, { focus = false } = {}) {
  for (const tab of tabs) {
    const selected = tab === chosen;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    const panel = document.getElementById(tab.getAttribute("aria-controls"));
    if (panel) panel.hidden = !selected;
  }
  if (focus) chosen.focus();
  chosen.dispatchEvent(new CustomEvent("tabs:change", { bubbles: true, detail: { tab: chosen } }));
}

function setUp(container) {
  const list = container.querySelector("[role=tablist]");
  if (!list || container.dataset.tabsReady) return;
  container.dataset.tabsReady = "true";
  const tabs = [...list.querySelectorAll("[role=tab]")];
  if (!tabs.length) return;
  const inAddress = container.dataset.tabs === "address";
  const address = (tab) => `#${tab.id.replace(/^tab-/, "")}`;

  const choose = (tab, options) => {
    select(tabs, tab, options);
    if (inAddress) history.replaceState(history.state, "", address(tab));
  };

  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab);
  });
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(event.target.closest("[role=tab]"));
    const next = {
      ArrowRight: (at + 1) % tabs.length,
      ArrowLeft: (at - 1 + tabs.length) % tabs.length,
      Home: 0,
      End: tabs.length - 1,
    }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    choose(tabs[next], { focus: true });
    reveal(tabs[next]);
  });

  // Brings a tab into the visible part of its list, and leaves the page where it is.
  const reveal = (tab) => {
    list.scrollLeft = tab.offsetLeft - list.offsetLeft - (list.clientWidth - tab.offsetWidth) / 2;
  };

  const named = inAddress && tabs.find((tab) => address(tab) === location.hash);
  const first = named || tabs.find((tab) => tab.getAttribute("aria-selected") === "true") || tabs[0];
  select(tabs, first);
  reveal(first);
}

export function setUpTabs(root) {
  if (root.matches?.("[data-tabs]")) setUp(root);
  for (const container of root.querySelectorAll("[data-tabs]")) setUp(container);
}
