(function () {
  const table = document.getElementById("clade-table");
  if (table) {
    const body = table.tBodies[0], headings = Array.from(table.tHead.rows[0].cells);
    const value = (row, column) => { const cell = row.cells[column]; return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent; };
    headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", function () {
      const before = heading.getAttribute("aria-sort"), isText = !body.rows.length || typeof value(body.rows[0], column) === "string";
      const rising = before ? before === "descending" : isText;
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const compare = (a, b) => typeof a === "string" ? a.localeCompare(b) : a - b;
      body.append(...Array.from(body.rows).sort((a, b) => (rising ? 1 : -1) * compare(value(a, column), value(b, column))));
    }));
  }

  const copy = document.getElementById("copy"), text = document.getElementById("bibtex");
  copy.addEventListener("click", async function () {
    let done = true;
    try { await navigator.clipboard.writeText(text.textContent); } catch {
      getSelection().selectAllChildren(text);
      done = document.execCommand("copy");
    }
    copy.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { copy.textContent = "Copy BibTeX"; }, 2000);
  });

  /* The section that is being read is marked in the list of sections. */
  const links = new Map(Array.from(document.querySelectorAll(".contents a"), (link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => entries.forEach(function (entry) {
    if (!entry.isIntersecting) return;
    links.forEach((link) => link.removeAttribute("aria-current"));
    links.get(entry.target.id).setAttribute("aria-current", "true");
  }), { rootMargin: "-20% 0px -70% 0px" });
  links.forEach((_, id) => seen.observe(document.getElementById(id)));
})();
