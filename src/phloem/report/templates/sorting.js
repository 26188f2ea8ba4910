/* A click on a heading sorts its table by that column; numbers are in data-value, and come largest first. */
(function () {
  for (const table of document.querySelectorAll("table.sortable")) {
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
})();
