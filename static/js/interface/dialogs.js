// <button data-dialog-open="id"> opens the <dialog>; <button data-dialog-close> inside, Escape or the backdrop closes it.

export function setUpDialogs() {
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog-open]");
    if (opener) {
      document.getElementById(opener.dataset.dialogOpen)?.showModal();
      return;
    }
    if (event.target.closest("[data-dialog-close]")) {
      event.target.closest("dialog")?.close();
      return;
    }
    // A click on the backdrop has the dialog itself as its target, and lies outside its box.
    if (event.target instanceof HTMLDialogElement) {
      const box = event.target.getBoundingClientRect();
      const inside =
        event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
      if (!inside) event.target.close();
    }
  });
}
