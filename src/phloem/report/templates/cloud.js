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
  const trees = data.trees.map(function ([number, text]) {
    const shape = shapes[number], lengths = phloem.unpack(text), x = new Float64Array(lengths.length);
    for (let i = 1; i < shape.order.length; i++) {
      const node = shape.order[i];
      x[node] = x[shape.parent[node]] + lengths[node];
      largest = Math.max(largest, x[node]);
    }
    return { shape, x };
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
    const across = (width - 2) / largest;
    for (const { shape, x } of trees) for (const kind of [0, 1]) {
      context.strokeStyle = style.getPropertyValue(kind ? "--cloud-apart" : "--cloud");
      context.beginPath();
      for (let i = 1; i < shape.order.length; i++) {
        const node = shape.order[i], above = shape.parent[node];
        if (shape.apart[node] !== kind) continue;
        context.moveTo(1 + x[above] * across, shape.y[above] * data.rowHeight);
        context.lineTo(1 + x[node] * across, shape.y[node] * data.rowHeight);
      }
      context.stroke();
    }
  }
  phloem.drawScale(document.getElementById("cloud-scale"), largest * data.unit);
  new ResizeObserver(draw).observe(canvas);
  document.addEventListener("themechange", draw);
  addEventListener("beforeprint", draw);
  addEventListener("afterprint", draw);
})();
