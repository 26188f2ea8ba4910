"use strict";
const phloem = (function () {
  const space = "http://www.w3.org/2000/svg";

  function svg(name, attributes, text) {
    const element = document.createElementNS(space, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  const data = (id) => { const found = document.getElementById(id); return found ? JSON.parse(found.textContent) : null; };

  function unpack(text) {
    const bytes = atob(text), numbers = new Uint16Array(bytes.length / 2);
    for (let i = 0; i < numbers.length; i++) numbers[i] = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8);
    return numbers;
  }

  /* Nodes from the root down, and the children of each; any number that is no node marks the root. */
  function walk(parent) {
    const children = Array.from(parent, () => []);
    const order = [];
    for (let node = 0; node < parent.length; node++)
      if (parent[node] < parent.length) children[parent[node]].push(node); else order.push(node);
    for (let i = 0; i < order.length; i++) order.push(...children[order[i]]);
    return { children, order };
  }

  const percent = (share) => share > 0 && share < 0.0005 ? "<0.1\u202f%" : share >= 0.9995 && share < 1 ? ">99.9\u202f%" : (100 * share).toFixed(1).replace(/\.0$/, "") + "\u202f%";
  const number = (share) => share >= 0.9995 ? "100" : share > 0 && share < 0.005 ? "<1" : String(Math.min(99, Math.round(100 * share)));
  const length = (value) => value >= 0.001 || value === 0 ? value.toFixed(4) : value.toExponential(1).replace("-", "−");
  function niceStep(rough) {
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [5, 2, 1].find((factor) => factor * power <= rough * (1 + 1e-9));
  }

  function drawScale(element, largest) {
    element.replaceChildren();
    if (!(largest > 0)) return;
    const step = niceStep(largest / 5), end = 100 * step / largest + "%";
    element.append(svg("line", { x1: 0, x2: end, y1: 8, y2: 8 }), svg("line", { x1: 0, x2: 0, y1: 4, y2: 12 }),
      svg("line", { x1: end, x2: end, y1: 4, y2: 12 }), svg("text", { x: 0, y: 26 }, Number(step.toPrecision(1)) + " substitutions per site"));
  }

  /* A tooltip for branches: by pointer, or by keyboard, where a tree is one stop and the arrows walk it. */
  const tooltip = document.getElementById("tooltip");
  const words = new WeakMap();

  function show(branch) {
    tooltip.textContent = words.get(branch);
    tooltip.hidden = false;
    const at = branch.querySelector(".stroke").getBoundingClientRect(), box = tooltip.getBoundingClientRect();
    const left = Math.min(Math.max(8, (at.left + at.right - box.width) / 2), innerWidth - box.width - 8);
    const above = at.top - box.height - 10;
    tooltip.style.left = left + "px";
    tooltip.style.top = (above > 8 ? above : at.bottom + 12) + "px";
  }
  const hide = () => { tooltip.hidden = true; };

  function enliven(tree) {
    const branches = Array.from(tree.querySelectorAll(".branch"));
    for (const branch of branches) {
      const title = branch.querySelector("title");
      words.set(branch, title.textContent);
      branch.setAttribute("role", "img");
      branch.setAttribute("aria-label", title.textContent.replaceAll("\n", ". "));
      branch.setAttribute("tabindex", "-1");
      title.remove();
    }
    if (branches.length) branches[0].setAttribute("tabindex", "0");
    const branchOf = (event) => event.target.closest && event.target.closest(".branch");
    tree.addEventListener("pointerover", (event) => { const found = branchOf(event); if (found) show(found); });
    tree.addEventListener("pointerout", hide);
    tree.addEventListener("focusin", (event) => { const found = branchOf(event); if (found) show(found); });
    tree.addEventListener("focusout", hide);
    tree.addEventListener("keydown", function (event) {
      const here = branchOf(event);
      if (event.key === "Escape") hide();
      if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
      const place = branches.indexOf(here);
      const next = { ArrowDown: () => branches[place + 1], ArrowUp: () => branches[place - 1],
        ArrowLeft: () => branches.find((one) => one.dataset.node === here.dataset.parent),
        ArrowRight: () => branches.find((one) => one.dataset.parent === here.dataset.node) }[event.key];
      if (!next) return;
      event.preventDefault();
      event.stopPropagation();
      const found = next();
      if (!found) return;
      here.setAttribute("tabindex", "-1");
      found.setAttribute("tabindex", "0");
      found.focus({ preventScroll: true });
      found.scrollIntoView({ block: "nearest", inline: "nearest" });
      show(found);
    });
  }
  document.querySelectorAll("#consensus svg.tree").forEach(enliven);
  /* What is pointed at moves away when the page scrolls; what has the focus is still what is spoken of. */
  addEventListener("scroll", () => words.has(document.activeElement) ? show(document.activeElement) : hide(), { passive: true, capture: true });

  return { svg, data, unpack, walk, percent, number, length, drawScale, enliven };
})();
