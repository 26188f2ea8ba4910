(function () {
  const data = phloem.data("browser-data");
  const byId = (id) => document.getElementById(id);
  const taxonCount = data.taxa.length, box = byId("topology-box"), slider = byId("rank"), bars = byId("ranks");
  const rowHeight = taxonCount <= 40 ? 20 : taxonCount <= 120 ? 17 : 15;
  const rank = new Float64Array(taxonCount);
  data.order.forEach((taxon, place) => { rank[taxon] = place; });
  const names = Array.from(document.querySelectorAll("#consensus .drawing:last-of-type .name"), (name) => name.firstChild.textContent);
  const shortName = (taxon) => names[rank[taxon]] || data.taxa[taxon];
  const totals = [];
  data.trees.reduce((sum, tree) => (totals.push(sum + tree[0]), sum + tree[0]), 0);
  const mostListed = 20;
  let shown = 0;

  function place(tree) {
    const parent = phloem.unpack(tree[1]), split = phloem.unpack(tree[2]);
    const { children, order } = phloem.walk(parent), count = parent.length;
    const size = new Float64Array(count), sum = new Float64Array(count), x = new Float64Array(count), y = new Float64Array(count);
    for (let i = count - 1; i >= 0; i--) {
      const node = order[i];
      if (node < taxonCount) { size[node] = 1; sum[node] = rank[node]; }
      for (const child of children[node]) { size[node] += size[child]; sum[node] += sum[child]; }
    }
    for (const below of children) below.sort((a, b) => sum[a] / size[a] - sum[b] / size[b]);
    const root = order[0], pending = [root];
    let row = 0;
    while (pending.length) {
      const node = pending.pop();
      if (node < taxonCount) y[node] = row++;
      for (let i = children[node].length - 1; i >= 0; i--) pending.push(children[node][i]);
    }
    for (let i = 0; i < count; i++) {
      const node = order[i];
      if (node !== root) x[node] = x[parent[node]] + data.length[split[node]] * (tree[3] && parent[node] === root ? 0.5 : 1);
    }
    for (let i = count - 1; i >= 0; i--) {
      const below = children[order[i]];
      if (below.length) y[order[i]] = (y[below[0]] + y[below[below.length - 1]]) / 2;
    }
    return { parent, split, children, order, x, y, root };
  }

  function clade([size, ...taxa]) {
    const some = taxa.map(shortName).join(", ");
    return size > taxa.length ? some + " and " + (size - taxa.length) + " more" : some;
  }

  function draw(at) {
    const { svg } = phloem, largest = Math.max(...at.x), across = (value) => largest > 0 ? 100 * value / largest + "%" : "0%";
    const down = (row) => (row + 0.5) * rowHeight;
    const tree = svg("svg", { class: "tree", width: "100%", height: taxonCount * rowHeight, role: "group", "aria-label": "Topology " + (shown + 1) });
    const joints = svg("g", { class: "joints" });
    tree.append(joints);
    const branches = at.order.filter((node) => node !== at.root).sort((a, b) => at.y[a] - at.y[b] || at.x[a] - at.x[b]);
    for (const node of at.order) {
      const below = at.children[node];
      if (below.length) joints.append(svg("line", { x1: across(at.x[node]), x2: across(at.x[node]), y1: down(at.y[below[0]]), y2: down(at.y[below[below.length - 1]]) }));
    }
    const room = spare(at, branches, largest);
    for (const node of branches) {
      const split = at.split[node], isTip = node < taxonCount, apart = !isTip && data.apart[split];
      const line = { x1: across(at.x[at.parent[node]]), x2: across(at.x[node]), y1: down(at.y[node]), y2: down(at.y[node]) };
      const group = svg("g", { class: "branch " + (isTip ? "tip" : apart ? "apart" : "shared"), "data-node": node, "data-parent": at.parent[node] });
      group.append(svg("title", {}, (isTip ? data.taxa[node] : "Clade probability " + phloem.percent(data.support[split]) + (apart ? "\nNot in the consensus" : "\nIn the consensus")) + "\nMean length " + phloem.length(data.length[split])),
        svg("line", { class: "hit", ...line }), svg("line", { class: "stroke", ...line }));
      if (apart) group.append(svg("circle", { cx: line.x2, cy: line.y2, r: 4 }));
      if (room.has(node)) group.append(svg("text", { class: "number", x: line.x2, y: line.y2, dx: apart ? -6 : -4, dy: -3 }, phloem.number(data.support[split])));
      tree.append(group);
    }
    for (let taxon = 0; taxon < taxonCount; taxon++) tree.append(svg("text", { class: "name", x: across(at.x[taxon]), y: down(at.y[taxon]), dx: 6, dy: ".34em" }, shortName(taxon)));
    const scale = svg("svg", { class: "scale", width: "100%", height: 30, "aria-hidden": "true" });
    phloem.drawScale(scale, largest);
    box.replaceChildren(tree, scale);
    phloem.enliven(tree);
  }

  /* The interior branches whose number does not run into another; those apart from the consensus come first. */
  function spare(at, branches, largest) {
    const width = Math.max(150, box.clientWidth - parseFloat(getComputedStyle(box).paddingRight || 0));
    const placed = [], fitting = new Set();
    const inner = branches.filter((node) => node >= taxonCount).sort((a, b) => Boolean(data.apart[at.split[b]]) - Boolean(data.apart[at.split[a]]));
    for (const node of inner) {
      const scale = largest > 0 ? width / largest : 0, wide = 6.2 * phloem.number(data.support[at.split[node]]).length;
      const right = at.x[node] * scale - 4, left = right - wide;
      const bottom = at.y[node] * rowHeight;
      if (left < at.x[at.parent[node]] * scale - 0.4 * wide || placed.some((other) => left < other[1] && other[0] < right && Math.abs(bottom - other[2]) < 10)) continue;
      placed.push([left, right, bottom]);
      fitting.add(node);
    }
    return fitting;
  }

  function step(to) {
    shown = Math.min(Math.max(0, to), data.trees.length - 1);
    const tree = data.trees[shown], at = place(tree);
    slider.value = shown + 1;
    slider.setAttribute("aria-valuetext", "Topology " + (shown + 1) + " of " + data.trees.length);
    byId("previous").disabled = shown === 0;
    byId("next").disabled = shown === data.trees.length - 1;
    byId("shown-rank").textContent = shown + 1 + " of " + data.trees.length;
    byId("shown-probability").textContent = phloem.percent(tree[0]);
    if (tree[4] > 0) {
      const error = document.createElement("small");
      error.textContent = "±\u202f" + phloem.percent(tree[4]);
      byId("shown-probability").append(" ", error);
    }
    byId("shown-cumulative").textContent = phloem.percent(Math.min(1, totals[shown]));
    const splits = new Set(Array.from(at.split).filter((split, node) => node >= taxonCount && node !== at.root && at.parent[node] < at.parent.length));
    const inner = Array.from(splits).filter((split) => !isTip(split));
    const apart = inner.filter((split) => data.apart[split]), lacking = data.consensusClades - (inner.length - apart.length);
    const some = (count, what) => count + " " + what + (count === 1 ? "" : "s");
    byId("differences").textContent = apart.length ? some(apart.length, "clade") + (apart.length === 1 ? " differs" : " differ") + " from the consensus" + (lacking ? "; " + some(lacking, "clade") + " of the consensus " + (lacking === 1 ? "is" : "are") + " not here." : ", which leaves " + (apart.length === 1 ? "it" : "them") + " open.") : "All clades are in the consensus.";
    const lines = apart.filter((split) => data.apart[split].length > 1).slice(0, mostListed)
      .map((split) => clade(data.apart[split]) + " (" + phloem.percent(data.support[split]) + ")");
    if (lines.length < apart.length) lines.push("and " + (apart.length - lines.length) + " more");
    byId("different-clades").replaceChildren(...lines.map(function (line) {
      const item = document.createElement("li");
      item.textContent = line;
      return item;
    }));
    bars.querySelectorAll("rect").forEach((bar, place) => bar.classList.toggle("current", place === shown));
    draw(at);
  }

  /* Splits of single tips have the numbers of the first tree's leaves: 0 to n-1. */
  const isTip = (split) => split < taxonCount;

  const tallest = Math.max(...data.trees.map((tree) => tree[0] + tree[4])), width = 100 / data.trees.length;
  const errors = [];
  data.trees.forEach(function (tree, place) {
    const height = Math.max(2, 42 * tree[0] / tallest), wide = Math.min(width, 12) * 0.82;
    const bar = phloem.svg("rect", { x: place * width + "%", width: wide + "%", y: 44 - height, height });
    bar.addEventListener("click", () => step(place));
    bars.append(bar);
    const middle = place * width + wide / 2 + "%", reach = 42 * tree[4] / tallest;
    if (reach > 0.5) errors.push(phloem.svg("line", { x1: middle, x2: middle, y1: 44 - height - reach, y2: Math.min(44, 44 - height + reach) }));
  });
  bars.append(...errors);
  slider.addEventListener("input", () => step(Number(slider.value) - 1));
  byId("previous").addEventListener("click", () => step(shown - 1));
  byId("next").addEventListener("click", () => step(shown + 1));
  byId("browser").addEventListener("keydown", function (event) {
    if (event.target === slider || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") step(shown - 1); else if (event.key === "ArrowRight") step(shown + 1); else return;
    event.preventDefault();
  });
  step(0);
})();
