"use strict";
// Asks a model and shows its answer. Texts reach the page as textContent only.

const byId = (id) => document.getElementById(id);
let inputs = []; // names of the model's inputs
const LABELS = {
  text: "Text", text_a: "First text", text_b: "Second text", question: "Question",
  context: "Context", tokens: "Sentence, its words separated by blanks",
  sent1: "Context", sent2: "Beginning of the next sentence", choices: "Endings, one a line",
};
const ORDER = Object.keys(LABELS);

function element(tag, className, ...children) {
  const node = document.createElement(tag);
  node.className = className;
  node.append(...children); // strings become text nodes
  return node;
}

function bars(names, values) {
  const best = Math.max(...values);
  return names.map((name, i) => {
    const meter = document.createElement("meter");
    meter.value = values[i];
    const percent = `${(100 * values[i]).toFixed(1)} %`;
    const className = values[i] === best ? "bar best" : "bar";
    return element("div", className, element("span", "", name), meter, element("span", "", percent));
  });
}

function marked(text, start, end) {
  const characters = Array.from(text); // positions count code points
  const part = (from, to) => characters.slice(from, to).join("");
  if (start < 0) return element("p", "text", text);
  return element("p", "text", part(0, start), element("mark", "", part(start, end)), part(end));
}

const VIEWS = [
  ["labels probabilities label", (a) => bars(a.labels, a.probabilities)],
  ["answer start end", (a, q) => {
    const nodes = [marked(q.context, a.start, a.end)];
    if (a.answer === "") nodes.unshift(element("p", "best", "No answer in this context."));
    else if (a.start < 0) nodes.unshift(element("p", "best", a.answer));
    const count = a.num_answers || 0;
    const names = count ? a.answers.slice(0, count) : [a.answer];
    const values = count ? a.probabilities.slice(0, count) : [a.probability];
    return [...nodes, ...bars(names.map((n) => n || "(no answer)"), values)];
  }],
  ["words tags num_words", (a) => {
    const words = a.words.slice(0, a.num_words).map((word, i) => {
      const tag = a.tags[i];
      return element("ruby", tag === "O" ? "" : "entity", word, element("rt", "", tag === "O" ? "" : tag));
    });
    return [element("p", "words", ...words)];
  }],
  ["tokens num_masks", (a) => {
    if (!a.num_masks) return [element("p", "", "There is no [MASK] in the text.")];
    return a.tokens.slice(0, a.num_masks).flatMap((tokens, i) =>
      [element("h2", "", `[MASK] ${i + 1}`), ...bars(tokens, a.probabilities[i])]);
  }],
  ["choice probabilities", (a, q) => bars(q.choices, a.probabilities)],
  ["score", (a) => [element("p", "best", a.score.toPrecision(4))]],
  ["", (a) => [element("pre", "", JSON.stringify(a, null, 1).slice(0, 20000))]],
];

function show(answer, question) {
  const named = typeof answer === "object" ? answer : { score: answer };
  const view = VIEWS.find(([keys]) => keys.split(" ").every((key) => !key || key in named))[1];
  byId("answer").replaceChildren(...view(named, question));
}

function say(text, isError = false) {
  byId("status").textContent = text;
  byId("status").className = isError ? "error" : "";
}

async function fetchJson(url, options) {
  const response = await fetch(url, options);
  const value = await response.json();
  if (!response.ok) throw new Error(value.error);
  return value;
}

const modelUrl = () => `v1/models/${encodeURIComponent(byId("model").value)}`;

async function chooseModel() {
  byId("answer").replaceChildren();
  byId("inputs").replaceChildren();
  const { metadata } = await fetchJson(`${modelUrl()}/metadata`);
  const names = Object.keys(metadata.signature_def.signature_def.serving_default.inputs);
  inputs = names.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  for (const name of inputs) {
    const area = document.createElement("textarea");
    area.id = `input-${name}`;
    area.rows = { context: 5, choices: 4, question: 1 }[name] || 3;
    byId("inputs").append(element("label", "", LABELS[name] || name, area));
  }
  say("");
}

async function ask() {
  const row = {};
  for (const name of inputs) {
    const text = byId(`input-${name}`).value;
    row[name] = name === "choices" ? text.split("\n").filter((line) => line.trim()) : text;
  }
  if (row.choices && !row.choices.length) return say("Give at least one ending.", true);
  say("...");
  byId("ask").disabled = true;
  const begin = performance.now();
  const body = JSON.stringify({ instances: [row] });
  const value = await fetchJson(`${modelUrl()}:predict`, { method: "POST", body });
  show(value.predictions[0], row);
  say(`${Math.round(performance.now() - begin)} ms`);
}

const guarded = (action) => (event) => {
  event?.preventDefault();
  return action().catch((error) => {
    byId("answer").replaceChildren();
    say(error.message, true);
  }).finally(() => { byId("ask").disabled = false; });
};

byId("form").addEventListener("submit", guarded(ask));
byId("model").addEventListener("change", guarded(chooseModel));
byId("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
});
guarded(async () => {
  const { models } = await fetchJson("models");
  byId("model").replaceChildren(...models.map((name) => element("option", "", name)));
  await chooseModel();
})();
