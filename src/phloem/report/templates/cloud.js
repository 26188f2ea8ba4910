(function () {
  const data = phloem.data("cloud-data"), canvas = document.getElementById("cloud-canvas");
  if (!data || !canvas) return;
  const taxonCount = data.order.length, row = new Float64Array(taxonCount), apartBit = 32768, largestCanvas = 16384, largestArea = 16e6;
  data.order.forEach((taxon, place) => { row[taxon] = place + 0.5; });

  const shapes = data.topologies.map(function (text) {
    const numbers = phloem.unpack(text), parent = numbers.map((number) => number & (apartBit - 1));
    const { children, order } = phloem.walk(parent), y = new Float64Array(parent.length);
    for (let i = order.length - 1; i >= 0; i--) {
      const node = order[i], below = children[node];
      y[node] = node < taxonCount ? row[node] : below.reduce((sum, child) => sum + y[child], 0) / below.length;
    }
    return { parent, order, y, apart: numbers.map((number) => number >= apartBit ? 1 : 0) };
  });
  let largest = 0;

  /* To scale: the distance from the root. Aligned: of what is left to the right edge, a branch takes its share of the
     mean way down from its upper end, so that every tip comes to stand at 1 and nothing runs backwards. */
  const trees = data.trees.map(function ([number, text]) {
    const shape = shapes[number], lengths = phloem.unpack(text), count = lengths.length;
    const scaled = new Float64Array(count), aligned = new Float64Array(count), below = new Float64Array(count), tips = new Float64Array(count);
    for (let i = count - 1; i > 0; i--) {
      const node = shape.order[i], above = shape.parent[node];
      if (node < taxonCount) tips[node] = 1; else below[node] /= tips[node];
      tips[above] += tips[node];
      below[above] += tips[node] * (below[node] + lengths[node]);
    }
    for (let i = 1; i < count; i++) {
      const node = shape.order[i], above = shape.parent[node], way = lengths[node] + below[node];
      scaled[node] = scaled[above] + lengths[node];
      aligned[node] = node < taxonCount ? 1 : aligned[above] + (1 - aligned[above]) * (way > 0 ? lengths[node] / way : 0);
      largest = Math.max(largest, scaled[node]);
    }
    return { shape, scaled, aligned };
  });

  function draw() {
    const width = canvas.clientWidth, height = taxonCount * data.rowHeight;
    if (!width) return;
    const ratio = Math.min(Math.max(devicePixelRatio || 1, 1.5), largestCanvas / height, Math.sqrt(largestArea / (width * height)));
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d"), style = getComputedStyle(canvas);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.lineWidth = 1.1;
    context.globalAlpha = Math.max(0.035, Math.min(0.8, 5 / trees.length));
    const isAligned = document.getElementById("tips-aligned").checked, across = (width - 2) / (isAligned ? 1 : largest);
    for (const { shape, scaled, aligned } of trees) for (const kind of [0, 1]) {
      const x = isAligned ? aligned : scaled;
      context.strokeStyle = style.getPropertyValue(kind ? "--cloud-apart" : "--cloud");
      for (let i = 1; i < shape.order.length; i++) {
        const node = shape.order[i], above = shape.parent[node];
        if (shape.apart[node] !== kind) continue;
        context.beginPath();  /* a path a line: browsers fill one of a whole tree, as large as the canvas, slowly */
        context.moveTo(1 + x[above] * across, shape.y[above] * data.rowHeight);
        context.lineTo(1 + x[node] * across, shape.y[node] * data.rowHeight);
        context.stroke();
      }
    }
  }
  phloem.drawScale(document.getElementById("cloud-scale"), largest * data.unit);
  let waiting;
  new ResizeObserver(function () { clearTimeout(waiting); waiting = setTimeout(draw, 20); }).observe(canvas);  /* the page comes first */
  document.getElementsByName("cloud-drawing").forEach((choice) => choice.addEventListener("change", draw));
  document.addEventListener("themechange", draw);
})();
