// Draws what a model computed for a text, from the data of `render`.

const SPECIAL = ["[CLS]", "[SEP]", "[MASK]"];
let current; // sequence that is shown, its attention as bytes
let [layer, head] = [0, 0]; // head that is shown
let token = null; // token whose attention is shown
let chosen = null; // token that is shown while the pointer is elsewhere

const percent = (value) => `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`;
const show = (piece) => piece.normalize(); // an uncased vocabulary has the letters of Hangul
const side = (i) => (i >= current.length ? "padding" : current.segments[i] ? "second" : "first");
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
const cell = (className, text, small) => element("td", className, text, element("small", "", small));
const row = (name, cells) => element("tr", "", element("th", "", name), ...cells);

// --- The answer, and the way to it -------------------------------------------

function showAnswer() {
  byId("facts").append(...terms(Object.entries(data.facts)));
  byId("texts").append(...terms(Object.entries(data.texts).map(([name, text]) => [name.replace("_", " "), [text].flat().join(" | ")])));
  document.title = `${data.facts.model} - BERT`;
  byId("decision").textContent = data.decided;
  if (Object.keys(data.answer).length) byId("answer").append(...answerNodes(data.answer, data.texts));
  const layers = Object.entries(data.filled);
  const masks = data.answer.num_masks || 0;
  for (let mask = 0; mask < masks; mask++) {
    const rows = layers.map(([name, answer]) => row(name, answer.tokens[mask].map((piece, i) => {
      const value = answer.probabilities[mask][i];
      const node = cell("", show(piece), percent(value));
      node.style.background = `color-mix(in srgb, var(--first) ${50 * value ** 0.5}%, var(--panel))`;
      return node;
    })));
    if (masks > 1) byId("filled").append(element("h3", "", `[MASK] ${mask + 1}`));
    byId("filled").append(element("table", "", ...rows));
  }
}

function showDecided() {
  const shares = (current.decided || []).slice(0, current.length);
  const most = Math.max(...shares.map(Math.abs));
  byId("decided").replaceChildren(...shares.map((share, i) => {
    const node = element("span", "", show(current.tokens[i]));
    const color = share > 0 ? "--first" : "--second";
    node.style.background = `color-mix(in srgb, var(${color}) ${55 * Math.abs(share) / most}%, var(--panel))`;
    node.title = `${share > 0 ? "for" : "against"}, ${percent(Math.abs(share))}`;
    return node;
  }));
}

function showCurves() {
  const [sequence, first, last] = data.span || [];
  byId("curves").replaceChildren(...current.tokens.map((piece, i) => {
    const bars = ["start", "end"].map((name) => element("i", name));
    bars.forEach((bar) => { bar.style.height = `${100 * current[bar.className][i]}%`; });
    const isAnswer = data.sequences[sequence] === current && first <= i && i <= last;
    const node = element("span", isAnswer ? "answer" : "", element("span", "bars", ...bars), show(piece));
    node.title = `start ${percent(current.start[i])}, end ${percent(current.end[i])}`;
    return node;
  }));
  const answer = document.querySelector("#curves .answer");
  if (answer) byId("curves").scrollLeft = answer.offsetLeft - byId("curves").clientWidth / 2;
}

function showInput() {
  const cells = (name, text, color = () => "") =>
    current[name].map((value, i) => cell(i < current.length ? color(i) : "padding", text(i), value.toPrecision(3)));
  byId("input").replaceChildren(
    row("id", current.ids.map((id) => element("td", "id", id))),
    row("piece", cells("token", (i) => show(current.tokens[i]), side)),
    row("+ segment", cells("segment", (i) => "AB"[current.segments[i]] ?? current.segments[i], side)),
    row("+ position", cells("position", (i) => i)),
    row("= sum", cells("sum", () => "")),
  );
}

// --- All heads ---------------------------------------------------------------

// First probability of a query, as an index of bytes.
const offset = (query) => ((layer * current.heads + head) * current.tokens.length + query) * current.tokens.length;
const headName = (number) => (number === current.heads - 1 ? "mean" : number); // the last one is the mean of all heads
const probability = (query, key) => current.bytes[offset(query) + key] / 255;

function mayAttend(query, key) {
  const direction = data.layers[layer][1];
  return key < current.length && !(direction === "left_to_right" && key > query) && !(direction === "right_to_left" && key < query);
}

// The head's probabilities, a pixel each, as opacity of the theme's color.
function picture() {
  const size = current.tokens.length;
  const canvas = element("canvas", size > 40 ? "" : "crisp");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  for (let i = 0; i < size * size; i++) image.data[4 * i + 3] = 255 * (current.bytes[offset(0) + i] / 255) ** 0.6;
  context.putImageData(image, 0, 0);
  context.globalCompositeOperation = "source-in";
  context.fillStyle = style("--first");
  context.fillRect(0, 0, size, size);
  return canvas;
}

function showHeads() {
  const numbers = [...Array(current.heads).keys()];
  const nodes = ["", ...numbers.map(headName)].map((name) => element("span", "", name));
  data.layers.forEach(([name], i) => {
    nodes.push(element("span", "", `layer ${name}`));
    for (const number of numbers) {
      [layer, head] = [i, number];
      const button = element("button", "", picture());
      button.ariaLabel = `layer ${name}, head ${headName(number)}`;
      button.addEventListener("click", () => chooseHead(i, number));
      nodes.push(button);
    }
  });
  byId("heads").style.setProperty("--heads", current.heads);
  byId("heads").replaceChildren(...nodes);
}

function chooseHead(...numbers) {
  [layer, head] = numbers;
  document.querySelectorAll("#heads button").forEach((button, i) => {
    button.ariaPressed = i === layer * current.heads + head;
    button.tabIndex = button.ariaPressed === "true" ? 0 : -1;
  });
  const [name, direction] = data.layers[layer];
  byId("head-name").textContent = head === current.heads - 1 ? `Layer ${name}, mean of heads` : `Layer ${name}, head ${head}`;
  byId("means").replaceChildren(...terms(means()));
  const hidden = { left_to_right: ["after it"], right_to_left: ["before it"] }[direction] || [];
  if (current.length < current.tokens.length) hidden.push("of padding");
  byId("hatched").textContent = hidden.length ? `Hatched: no token may attend to those ${hidden.join(" and ")}.` : "";
  showToken(chosen);
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
byId("heads").addEventListener("keydown", (event) => {
  if (!STEPS[event.key]) return;
  event.preventDefault();
  const [down, right] = STEPS[event.key];
  const within = (value, size) => Math.max(0, Math.min(size - 1, value));
  chooseHead(within(layer + down, data.layers.length), within(head + right, current.heads));
  document.querySelector("#heads [aria-pressed=true]").focus();
});

// --- One head ----------------------------------------------------------------

// Names of kinds of keys, each with the mean attention of a query to all keys of this kind.
function means() {
  const tokens = current.tokens.slice(0, current.length);
  const isSame = (query, key) => query !== key && tokens[query] === tokens[key] && !SPECIAL.includes(tokens[key]);
  const kinds = [
    ["itself", (query, key) => key === query],
    ["token before", (query, key) => key === query - 1],
    ["token after", (query, key) => key === query + 1],
    ...SPECIAL.filter((name) => tokens.includes(name)).map((name) => [name, (_, key) => tokens[key] === name]),
    ["the same piece elsewhere", isSame],
  ];
  return kinds.flatMap(([name, isKind]) => {
    const pairs = tokens.flatMap((_, query) => tokens.map((_, key) => [query, key])).filter((pair) => isKind(...pair));
    const queries = new Set(pairs.map(([query]) => query)).size; // queries with a key of this kind
    const sum = pairs.reduce((total, pair) => total + probability(...pair), 0);
    return queries ? [[name, percent(sum / queries)]] : [];
  });
}

function showToken(query, key = null) {
  token = query;
  drawLines();
  drawMatrix();
  const name = (i) => `${show(current.tokens[i])} (${i})`;
  const keys = [...current.tokens.keys()].sort((a, b) => probability(query, b) - probability(query, a)).slice(0, 5);
  let text = `Lines show ${100 * weakest()} % and more. Choose a token to see what it attends to.`;
  if (key !== null && !mayAttend(query, key)) text = `${name(query)} may not attend to ${name(key)}`;
  else if (query !== null) {
    const best = (key === null ? keys : [key]).map((i) => `${name(i)} ${percent(probability(query, i))}`);
    text = `${name(query)} attends to ${best.join(", ")}`;
  }
  byId("token").textContent = text;
}

// Pixels of the margin with names, and of a cell. The matrix has 400 to 1600 pixels, a cell at most 22.
const margin = 90;
const cellSize = () => Math.floor(Math.min(22, Math.max(400, Math.min(12 * current.tokens.length, 1600)) / current.tokens.length));

// Smallest probability that is drawn as a line.
const weakest = () => (token !== null ? 0.004 : current.tokens.length > 80 ? 0.2 : 0.04);

function drawLines() {
  const step = Math.max(16, cellSize());
  const nodes = [];
  const y = (i) => (i + 0.5) * step;
  for (const query of token === null ? current.tokens.keys() : [token]) {
    current.tokens.forEach((_, key) => {
      const value = probability(query, key);
      if (value >= weakest()) nodes.push(svg("line", { x1: 95, y1: y(query), x2: 175, y2: y(key), "stroke-opacity": value ** 0.7 }));
    });
  }
  current.tokens.forEach((piece, i) => {
    const text = [...show(piece)].slice(0, 14).join("");
    const state = token === null ? "" : token === i ? "on" : "off";
    const query = svg("text", { x: 90, y: y(i) + 4, class: `query ${side(i)} ${state}`, tabindex: 0, role: "button" }, text);
    const choose = () => {
      chosen = chosen === i ? null : i;
      showToken(chosen);
      document.querySelectorAll("#lines .query")[i].focus();
    };
    query.addEventListener("mouseenter", () => token !== i && showToken(i));
    query.addEventListener("click", choose);
    query.addEventListener("keydown", (event) => event.key === "Enter" && choose());
    const isMasked = token !== null && !mayAttend(token, i);
    nodes.push(query, svg("text", { x: 180, y: y(i) + 4, class: isMasked ? "masked" : side(i) }, text));
    for (const name of nodes.slice(-2)) name.append(svg("title", {}, `${show(piece)} (${i})`));
  });
  byId("lines").style.marginTop = `${margin}px`;
  byId("lines").setAttribute("height", current.tokens.length * step);
  byId("lines").replaceChildren(...nodes);
}

function drawMatrix() {
  const [size, begin, tokens] = [cellSize(), margin, [...current.tokens.keys()]];
  const side = tokens.length * size;
  const canvas = byId("matrix");
  canvas.style.width = canvas.style.height = `${begin + side}px`;
  canvas.width = canvas.height = (begin + side) * devicePixelRatio;
  canvas.ariaLabel = `${byId("head-name").textContent}: rows attend to columns`;
  const context = canvas.getContext("2d");
  const stroke = (name, path) => {
    context.strokeStyle = style(name);
    context.stroke(new Path2D(path.join("")));
  };
  context.scale(devicePixelRatio, devicePixelRatio);
  context.translate(begin, begin);
  context.fillStyle = style("--panel");
  context.fillRect(0, 0, side, side);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture(), 0, 0, side, side);
  if (size > 6) stroke("--ground", tokens.map((i) => `M0,${i * size}H${side}M${i * size},0V${side}`));
  const masked = tokens.flatMap((query) => tokens.filter((key) => !mayAttend(query, key)).map((key) => [key * size, query * size]));
  stroke("--faint", masked.map(([x, y]) => `M${x},${y + size}l${size},${-size}`));
  context.lineWidth = 2;
  if (token !== null) stroke("--second", [`M0,${token * size}h${side}v${size}h${-side}z`]);
  drawNames(context, size, begin);
}

function drawNames(context, size, begin) {
  const letters = size < 12 ? 8 : 11; // pixels
  const step = Math.ceil((letters + 1) / size); // cells that are as high as a name
  context.font = `${letters}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  current.tokens.forEach((piece, i) => {
    const isNear = token !== null && Math.abs(i - token) < step;
    if (isNear ? i !== token : i % step) return;
    context.fillStyle = style(side(i) === "padding" ? "--faint" : `--${side(i)}`);
    context.textAlign = "right";
    context.fillText(show(piece), -5, (i + 0.5) * size, begin - 8);
    context.save();
    context.translate((i + 0.5) * size, -5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(show(piece), 0, 0, begin - 8);
    context.restore();
  });
}

byId("matrix").addEventListener("mousemove", (event) => {
  const [key, query] = [event.offsetX, event.offsetY].map((x) => Math.floor((x - margin) / cellSize()));
  const isInside = [key, query].every((i) => current.tokens[i] !== undefined);
  showToken(...(isInside ? [query, key] : [chosen]));
  event.target.title = isInside ? byId("token").textContent : "";
});
for (const name of ["lines", "matrix"]) byId(name).addEventListener("mouseleave", () => showToken(chosen));

// --- Start -------------------------------------------------------------------

async function showSequence(number) {
  current = data.sequences[number];
  chosen = null;
  showInput();
  showDecided();
  if (current.start) showCurves();
  if (!current.bytes) {
    const deflated = new Blob([Uint8Array.from(atob(current.attention), (character) => character.charCodeAt(0))]);
    const stream = deflated.stream().pipeThrough(new DecompressionStream("deflate"));
    current.bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  const before = [layer, head];
  showHeads();
  chooseHead(...before);
}

const selector = byId("sequence");
selector.append(...data.sequences.map((_, i) => new Option(`${i + 1} of ${data.sequences.length}`, i)));
selector.value = Math.max(data.span?.[0] || 0, data.sequences.findIndex((sequence) => sequence.decided));
selector.addEventListener("change", () => showSequence(selector.value));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => showSequence(selector.value));
byId("choose").hidden = data.sequences.length === 1;
showAnswer();
showSequence(selector.value).catch((error) => {
  byId("hatched").textContent = `This browser cannot show the attention: ${error.message}`;
}).finally(() => { document.body.dataset.ready = true; });
