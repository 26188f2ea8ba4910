"use strict";
(function () {
  const root = document.documentElement;
  root.classList.add("scripted");
  const remembered = { get() { try { return localStorage.getItem("phloem-theme"); } catch { return null; } },
    set(value) { try { localStorage.setItem("phloem-theme", value); } catch { /* private windows may not remember */ } } };
  const asked = matchMedia("(prefers-color-scheme: dark)");
  const chosen = remembered.get();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  const isDark = () => (root.dataset.theme || (asked.matches ? "dark" : "light")) === "dark";
  const press = () => document.getElementById("theme").setAttribute("aria-pressed", String(isDark()));
  function tell() {
    press();
    document.dispatchEvent(new Event("themechange"));
  }
  asked.addEventListener("change", tell);
  /* Paper is white: what is drawn by script must be drawn for it, too. */
  let before;
  addEventListener("beforeprint", function () { before = root.dataset.theme; root.dataset.theme = "light"; tell(); });
  addEventListener("afterprint", function () { if (before) root.dataset.theme = before; else delete root.dataset.theme; tell(); });
  document.addEventListener("DOMContentLoaded", function () {
    document.getElementById("theme").addEventListener("click", function () {
      root.dataset.theme = isDark() ? "light" : "dark";
      remembered.set(root.dataset.theme);
      tell();
    });
    press();
  });
})();
