// Light or dark as Airflow is, and links that lead out of its frame.
(() => {
  "use strict";
  const KEY = "theme"; // where Airflow's UI keeps the user's choice

  function followTheme() {
    let chosen = null;
    try {
      chosen = localStorage.getItem(KEY);
    } catch {
      // a browser that keeps nothing: as the system is
    }
    if (chosen === "dark" || chosen === "light") {
      document.documentElement.dataset.theme = chosen;
    } else {
      delete document.documentElement.dataset.theme;
    }
  }

  // The frame may not navigate Airflow's window; a link of that window's own document may.
  function leave(event) {
    const link = event.target.closest("a[data-airflow]");
    if (!link || window.parent === window || event.ctrlKey || event.metaKey || event.shiftKey || event.button) {
      return;
    }
    event.preventDefault();
    const outside = window.parent.document.createElement("a");
    outside.href = link.href;
    outside.hidden = true;
    window.parent.document.body.append(outside);
    outside.click();
    outside.remove();
  }

  followTheme();
  window.addEventListener("storage", (event) => event.key === KEY && followTheme());
  document.addEventListener("click", leave);
})();
