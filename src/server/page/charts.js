// Pictures on canvases. Colours come from the style sheet, so both themes hold.

const sources = ['mtp', 'ngram', 'suffix', 'prediction', 'draft'];

/// The name of the style sheet's colour of a source.
export const colourName = (source) => (sources.includes(source) ? source : 'other');

/// The theme's colours by name.
export function palette() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(
    [...sources, 'other', 'own', 'muted', 'line', 'sunken', 'accent'].map((name) => [name, get(name)]),
  );
}

/// A context in CSS pixels, cleared; null while the canvas is not shown.
function begin(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (width === 0 || height === 0) return null;
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

/// How many rounds a strip has room for.
export const stripRoom = (canvas, step) => Math.max(1, Math.floor(canvas.clientWidth / step));

// Of a strip that has nothing to show yet: how tall its columns could be.
const outline = [1, 2, 4, 3, 1, 4, 5, 2, 3, 4, 1, 2, 5, 4, 3, 1, 2, 4, 4, 3, 5, 1, 3, 2, 4, 3, 1, 5];

/// Columns without meaning, where rounds will be.
export function drawOutline(canvas, { colours, step }) {
  const rounds = outline.slice(0, stripRoom(canvas, step));
  const tilesOf = (n) => Array(n).fill({ source: null, fate: 'none' });
  drawStrip(canvas, rounds, { tilesOf, first: 0, chosen: -1, colours, step });
}

function colourOf({ source, fate }, colours) {
  if (fate === 'none') return colours.sunken;
  return fate === 'own' ? colours.own : colours[colourName(source)];
}

/// Rounds as columns: accepted drafts from the ground up, the model's own token on them, what was
/// rejected above as outlines. `tilesOf` gives a round's tiles; `chosen`: index to mark, or -1.
export function drawStrip(canvas, rounds, { tilesOf, first, chosen, colours, step }) {
  const area = begin(canvas);
  if (!area) return;
  const { pen, width, height } = area;
  const gap = 2;
  const shown = rounds.slice(first, first + stripRoom(canvas, step));
  const columns = shown.map(tilesOf);
  const most = Math.max(6, ...columns.map((tiles) => tiles.length));
  const tile = Math.min(step - 3, (height - 4) / most - gap);
  const offset = shown.length < stripRoom(canvas, step) ? 0 : width % step;
  columns.forEach((tiles, i) => {
    const x = offset + i * step;
    if (first + i === chosen) {
      pen.fillStyle = colours.line;
      pen.beginPath();
      pen.roundRect(x - 1, 0, step - 1, height, 3);
      pen.fill();
    }
    tiles.forEach(({ source, fate }, row) => {
      const y = height - 2 - (row + 1) * (tile + gap) + gap;
      const colour = colourOf({ source, fate }, colours);
      pen.beginPath();
      if (fate === 'rejected') {
        pen.roundRect(x + 0.5, y + 0.5, step - 4, Math.max(1, tile - 1), Math.min(2, tile / 3));
        pen.strokeStyle = colour;
        pen.globalAlpha = 0.75;
        pen.stroke();
      } else {
        pen.roundRect(x, y, step - 3, tile, Math.min(2.5, tile / 3));
        pen.fillStyle = colour;
        pen.fill();
      }
      pen.globalAlpha = 1;
    });
  });
}

/// A line over all values with what lies below it tinted; `floor`: the value of the ground,
/// drawn as a dashed line with its label.
export function drawCurve(canvas, values, { floor, label, colours }) {
  const area = begin(canvas);
  if (!area) return;
  const { pen, width, height } = area;
  const top = values.reduce((most, value) => Math.max(most, value), floor + 1) * 1.08;
  const y = (value) => height - 14 - ((value - floor) / (top - floor)) * (height - 20);
  pen.strokeStyle = colours.muted;
  pen.globalAlpha = 0.5;
  pen.setLineDash([2, 4]);
  pen.beginPath();
  pen.moveTo(0, y(floor) + 0.5);
  pen.lineTo(width, y(floor) + 0.5);
  pen.stroke();
  pen.setLineDash([]);
  pen.globalAlpha = 1;
  pen.fillStyle = colours.muted;
  pen.font = `10.5px ${getComputedStyle(canvas).fontFamily}`;
  pen.fillText(label, 0, height - 2);
  if (values.length < 2) return;
  const nPoints = Math.min(values.length, Math.floor(width / 2));
  const point = (i) => values[Math.round((i * (values.length - 1)) / (nPoints - 1))];
  const trace = () => {
    pen.beginPath();
    for (let i = 0; i < nPoints; ++i) pen.lineTo((i * (width - 4)) / (nPoints - 1), y(point(i)));
  };
  trace();
  pen.lineTo(width - 4, y(floor));
  pen.lineTo(0, y(floor));
  const fill = pen.createLinearGradient(0, 0, 0, height);
  fill.addColorStop(0, colours.accent);
  fill.addColorStop(1, 'transparent');
  pen.fillStyle = fill;
  pen.globalAlpha = 0.22;
  pen.fill();
  pen.globalAlpha = 1;
  trace();
  pen.strokeStyle = colours.accent;
  pen.lineWidth = 1.75;
  pen.lineJoin = 'round';
  pen.stroke();
  pen.beginPath();
  pen.arc(width - 4, y(values.at(-1)), 3, 0, 2 * Math.PI);
  pen.fillStyle = colours.accent;
  pen.fill();
}

/// Bars from left to right, the newest at the right; nothing but the ground while all are 0.
export function drawBars(canvas, values, { n, colours }) {
  const area = begin(canvas);
  if (!area) return;
  const { pen, width, height } = area;
  const step = width / n;
  const most = Math.max(1, ...values);
  for (let i = 0; i < n; ++i) {
    const value = values[values.length - n + i] ?? 0;
    const tall = Math.max(1.5, (value / most) * (height - 2));
    pen.fillStyle = value > 0 ? colours.accent : colours.line;
    pen.beginPath();
    pen.roundRect(i * step, height - tall, Math.max(1, step - 1.5), tall, 1);
    pen.fill();
  }
}
