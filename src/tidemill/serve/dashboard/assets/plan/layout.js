/* Places the steps of a plan: rows flow downwards, and each superstep has a band of its own.

   Layers are the longest paths from the scans; all layers of a superstep come before those of the next. Edges over
   several layers go through points in between. The order within a layer follows the means of the neighbours' places
   (Sugiyama's method), in a fixed number of sweeps. */

const SWEEPS = 12;

/** `{nodes: Map(step → {x, y}), edges: [{from, to, input, points}], bands: [{superstep, y, height}], width, height}`;
    x and y are of the middle of a node's top. */
export function layout(steps, { width, height, gapX, gapY, top }) {
  const layer = layersOf(steps);
  const layers = [];
  const put = (item) => (layers[item.layer] ??= []).push(item);
  const items = new Map(steps.map((s) => [s.step, { step: s.step, layer: layer.get(s.step), size: width, up: [], down: [] }]));
  items.forEach(put);
  const edges = [];
  for (const step of steps) {
    for (const input of step.inputs) {
      if (!items.has(input.step)) continue;
      const chain = [items.get(input.step)];
      for (let at = layer.get(input.step) + 1; at < layer.get(step.step); at += 1) {
        const point = { step: null, layer: at, size: 14, up: [], down: [] };
        put(point);
        chain.push(point);
      }
      chain.push(items.get(step.step));
      for (let i = 1; i < chain.length; i += 1) {
        chain[i - 1].down.push(chain[i]);
        chain[i].up.push(chain[i - 1]);
      }
      edges.push({ from: input.step, to: step.step, input, chain });
    }
  }
  order(layers);
  place(layers, gapX);
  const all = layers.flat();
  const left = Math.min(...all.map((i) => i.x - i.size / 2));
  const right = Math.max(...all.map((i) => i.x + i.size / 2));
  const superstep = new Map(steps.map((s) => [layer.get(s.step), s.superstep]));
  const ys = [];
  let y = 0, last = null;
  layers.forEach((_, at) => {
    if (superstep.get(at) !== last) y += top;
    last = superstep.get(at);
    ys[at] = y;
    y += height + gapY;
  });
  for (const item of all) Object.assign(item, { x: item.x - left, y: ys[item.layer] });
  const bands = [];
  layers.forEach((_, at) => {
    if (bands.at(-1)?.superstep !== superstep.get(at)) bands.push({ superstep: superstep.get(at), y: ys[at] - top, height: top });
    bands.at(-1).height = ys[at] + height + gapY / 2 - bands.at(-1).y;
  });
  return {
    nodes: items,
    edges: edges.map((e) => ({ ...e, points: pointsOf(e.chain, height) })),
    bands,
    width: right - left,
    height: y,
  };
}

function layersOf(steps) {
  const layer = new Map();
  let first = 0, newest = 0, superstep = steps[0]?.superstep ?? 0;
  for (const step of [...steps].sort((a, b) => a.superstep - b.superstep || a.step - b.step)) {
    if (step.superstep !== superstep) [superstep, first] = [step.superstep, newest + 1];
    const above = step.inputs.filter((i) => layer.has(i.step)).map((i) => layer.get(i.step) + 1);
    const found = Math.max(first, ...above);
    layer.set(step.step, found);
    newest = Math.max(newest, found);
  }
  return layer;
}

function order(layers) {
  layers.forEach((items) => items.forEach((item, i) => { item.order = i; }));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const items of down ? layers : [...layers].reverse()) {
      for (const item of items) item.wish = mean((down ? item.up : item.down).map((o) => o.order), item.order);
      items.sort((a, b) => a.wish - b.wish).forEach((item, i) => { item.order = i; });
    }
  }
}

/** Even places first, then towards the neighbours; nodes keep their distance, as the mean of pushing from both sides. */
function place(layers, gap) {
  for (const items of layers) {
    let x = 0;
    for (const item of items) {
      item.x = x + item.size / 2;
      x += item.size + gap;
    }
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 1;  // the last one: steps stand below what they read
    for (const items of down ? layers : [...layers].reverse()) {
      const wishes = items.map((item) => mean((down ? item.up : item.down).map((o) => o.x), item.x));
      const apart = (i) => (items[i].size + items[i + 1].size) / 2 + gap;
      const right = [...wishes], left = [...wishes];
      for (let i = 1; i < items.length; i += 1) right[i] = Math.max(right[i], right[i - 1] + apart(i - 1));
      for (let i = items.length - 2; i >= 0; i -= 1) left[i] = Math.min(left[i], left[i + 1] - apart(i));
      items.forEach((item, i) => { item.x = (left[i] + right[i]) / 2; });
    }
  }
}

function mean(numbers, otherwise) {
  return numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : otherwise;
}

function pointsOf(chain, height) {
  return chain.flatMap((item, i) => {
    if (item.step === null) return [[item.x, item.y], [item.x, item.y + height]];
    return [i ? [item.x, item.y] : [item.x, item.y + height]];
  });
}
