// Draws a run, from the data of `write` in run_page.py.

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [320, 170, 54, 20]; // of a panel
const FIRST_CARDS = 12; // errors that are shown at once
const IN_ANSWER = ["tokens", "context", "choices"]; // texts that an answer shows
const percent = (value) => `${(100 * value).toFixed(1)} %`;
function short(value) {
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return value && Math.abs(value) < 0.001 ? value.toExponential(1) : Number(value.toPrecision(3));
}

// Round numbers in equal steps, from below `low` to above `high`.
function ticks(low, high) {
  const size = (high - low || Math.abs(high) || 1) / 3;
  const power = 10 ** Math.floor(Math.log10(size));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= size);
  const [first, last] = [Math.floor(low / step + 1e-6), Math.ceil(high / step - 1e-6)];
  return Array.from({ length: Math.max(last - first, 1) + 1 }, (_, n) => Number(((first + n) * step).toPrecision(12)));
}

// A panel with curves, {class: [[x, y], ...]}, of x from x0 to x1.
function panel(title, curves, axis, [x0, x1]) {
  const heights = Object.values(curves).flat().map(([, value]) => value);
  const numbers = ticks(heights.reduce((a, b) => Math.min(a, b)), heights.reduce((a, b) => Math.max(a, b)));
  const [y0, y1] = [numbers[0], numbers.at(-1)];
  const x = (value) => LEFT + ((value - x0) / (x1 - x0 || 1)) * (WIDTH - LEFT - 12);
  const y = (value) => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0 || 1)) * (HEIGHT - BOTTOM - 26);
  const nodes = [svg("text", { x: 8, y: 16, "font-weight": 600 }, title)];
  for (const value of numbers) {
    nodes.push(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - 12, y1: y(value), y2: y(value) }));
    nodes.push(svg("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, Math.abs(value) < 0.001 ? short(value) : value.toLocaleString("en")));
  }
  nodes.push(svg("text", { x: x((x0 + x1) / 2), y: HEIGHT - 5, "text-anchor": "middle" }, axis));
  for (const value of [x0, x1]) {
    nodes.push(svg("text", { x: x(value), y: HEIGHT - 5, "text-anchor": value === x0 ? "start" : "end" }, short(value)));
  }
  for (const [name, points] of Object.entries(curves)) {
    nodes.push(svg("polyline", { class: name, points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" ") }));
    if (points.length > 30) continue;
    nodes.push(...points.map(([a, b]) => svg("circle", { class: name, cx: x(a), cy: y(b), r: 2.5 },
      svg("title", {}, `${short(a)}: ${short(b)}`))));
  }
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title }, ...nodes);
}

function showCurves() {
  const panels = {};
  for (const { step, ...values } of data.curves) {
    for (const [name, value] of Object.entries(values)) {
      const title = name.replace(/^eval_/, "");
      const kind = name === title ? "training" : "evaluation";
      panels[title] ??= {};
      (panels[title][kind] ??= []).push([step, value]);
    }
  }
  const last = data.curves.reduce((most, { step }) => Math.max(most, step), 0);
  for (const [title, curves] of Object.entries(panels)) {
    if (Object.values(curves).flat().length < 2) continue; // a score, not a curve
    byId("panels").append(panel(title.replaceAll("_", " "), curves, "step", [0, last]));
  }
}

function showConfusion({ labels, counts }) {
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const row = (name, cells) => element("tr", "", element("th", "", name), ...cells);
  const heads = (names) => row("", names.map((name) => element("th", "", name)));
  const scores = labels.map((label, i) => {
    const [total, answered] = [sum(counts[i]), sum(counts.map((row) => row[i]))];
    const recall = total ? counts[i][i] / total : 0;
    const precision = answered ? counts[i][i] / answered : 0;
    const f1 = precision + recall ? (2 * precision * recall) / (precision + recall) : 0;
    return row(label, [total, percent(precision), percent(recall), percent(f1)].map((text) => element("td", "id", text)));
  });
  const matrix = labels.map((label, i) => row(label, counts[i].map((count, j) => {
    const cell = element("td", i === j ? "true" : "", count || "");
    const color = i === j ? "--first" : "--second";
    cell.style.background = `color-mix(in srgb, var(${color}) ${Math.round(60 * (count / (sum(counts[i]) || 1)) ** 0.5)}%, var(--panel))`;
    return cell;
  })));
  const isWide = labels.join("").length > 24; // names of columns are written upwards
  const tables = [element("table", isWide ? "upwards" : "", heads(labels), ...matrix),
    element("table", "", heads(["examples", "precision", "recall", "F1"]), ...scores)];
  byId("confusion").append(...tables.map((table) => {
    const box = element("div", "scroll", table);
    box.tabIndex = 0;
    return box;
  }));
}

function showCalibration({ bins, error, temperature, fitted_error }) {
  const points = bins.map(([probability, accuracy]) => [probability, accuracy]);
  const fit = temperature === undefined ? "" :
    ` Logits divided by ${temperature.toFixed(2)} (temperature scaling) would be off by ${percent(fitted_error)}; this model is not scaled.`;
  byId("temperature").textContent = "How far can you trust a probability? Answers are grouped by their probability, in ten groups. " +
    `On the diagonal, 80 % means that 8 of 10 answers are right. The mean distance from it is ${percent(error)}.${fit}`;
  byId("calibration").append(panel("right answers by probability", { training: [[0, 0], [1, 1]], evaluation: points }, "probability", [0, 1]));
}

// The true answer of a question in its context.
function around({ texts: { context = "" }, label }) {
  const start = label && context.indexOf(label);
  if (!context || !label || start < 0) return [];
  const end = start + label.length;
  return [element("p", "text", `... ${context.slice(Math.max(0, start - 60), start)}`, element("mark", "", label), `${context.slice(end, end + 60)} ...`)];
}

// The right answer: a text, or the tagged words of a sentence.
function truth({ texts, label, answer }) {
  if (!("words" in answer)) return label;
  const words = label.split(" ").map((tag, i) => (tag === answer.outside ? "" : `${texts.tokens[i]} (${tag})`));
  return words.filter(Boolean).join(", ");
}

function showErrors() {
  const [shown, examples] = [data.errors.length, data.examples.toLocaleString("en")];
  byId("number").textContent = data.wrong
    ? `${data.wrong} of ${examples} answers are wrong, the most certain first${shown < data.wrong ? `; here are ${shown}` : ""}.`
    : `The largest of ${examples} differences.`;
  const cards = data.errors.map((one) => element("article", "",
    ...terms(Object.entries(one.texts).filter(([name]) => !IN_ANSWER.includes(name)).map(([name, text]) =>
      [name.replaceAll("_", " "), [text].flat().join(" | ")])),
    element("p", "truth", `right answer: ${truth(one) || "(none)"}`, ...around(one)),
    ...answerNodes(one.answer, one.texts)));
  const others = cards.splice(FIRST_CARDS);
  const rest = element("details", "", element("summary", "", `${others.length} more`), ...others);
  byId("errors").append(...cards, ...(others.length ? [rest] : []));
}

document.title = `${data.facts.folder} - BERT`;
byId("facts").append(...terms(Object.entries(data.facts)));
byId("scores").append(...terms(Object.entries(data.scores).map(([name, value]) => [name, short(value)])));
byId("flags").append(...terms(Object.entries(data.flags)));
if (data.curves.length) showCurves();
if (data.confusion) showConfusion(data.confusion);
if (data.calibration) showCalibration(data.calibration);
if (data.errors.length) showErrors();
