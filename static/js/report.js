// The report: a button that prints it, with every folded part open on paper.
const folds = () => document.querySelectorAll(".report details");

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-print]")) window.print();
});

window.addEventListener("beforeprint", () => {
  for (const fold of folds()) {
    fold.dataset.wasOpen = fold.open;
    fold.open = true;
  }
});
window.addEventListener("afterprint", () => {
  for (const fold of folds()) fold.open = fold.dataset.wasOpen === "true";
});
