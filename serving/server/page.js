"use strict";
// Asks a model and shows its answer. Texts reach the page as textContent only.

const byId = (id) => document.getElementById(id);
let inputs = []; // names of the model's inputs
const LABELS = {
  text: "Text", text_pair: "Second text, if there is one", text_a: "First text", text_b: "Second text", question: "Question",
  context: "Context", tokens: "Sentence, its words separated by blanks",
  sent1: "Context", sent2: "Beginning of the next sentence", choices: "Endings, one a line",
};
const ORDER = Object.keys(LABELS);
// By the model's inputs: something to ask at once.
const EXAMPLES = {
  "context question": {
    question: "Where was Ada born?",
    context: "Ada was born in London. She later moved to a house in Surrey.",
  },
  "tokens": { tokens: "Ada Lovelace lived in London ." },
  "choices sent1 sent2": {
    sent1: "She opens the door.", sent2: "She", choices: "goes inside.\nis a door.",
  },
  "text text_pair": { text: "The capital of France is [MASK]." },
  "text_a text_b": { text_a: "He said so.", text_b: "So he said." },
  "text": { text: "A film that is good." },
};

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
    const next = isNext(a);
    if (!a.num_masks && !next.length) return [element("p", "", "There is no [MASK] in the text.")];
    return [...next, ...a.tokens.slice(0, a.num_masks).flatMap((tokens, i) =>
      [element("h2", "", `[MASK] ${i + 1}`), ...bars(tokens, a.probabilities[i])])];
  }],
  ["choice probabilities", (a, q) => bars(q.choices, a.probabilities)],
  ["score", (a) => [element("p", "best", a.score.toPrecision(4))]],
  ["sentence", (a) => {
    const [layers, size] = [a.sentence.length, a.sentence[0].length];
    const of = a.tokens ? `, and one for each of ${a.num_tokens} tokens: ${a.tokens.join(" ")}` : "";
    const first = a.sentence[0].slice(0, 8).map((x) => x.toFixed(3)).join(", ");
    return [
      element("p", "", `A vector of ${size} numbers from each of ${layers} layer(s)${of}.`),
      element("p", "", `The text's first numbers: ${first}, ...`),
    ];
  }],
  ["", (a) => [element("pre", "", JSON.stringify(a, null, 1).slice(0, 20000))]],
];

function isNext(a) {
  if (!("is_next" in a)) return [];
  if (a.is_next === null) return [element("p", "", "The model has no head for next sentences.")];
  const p = a.is_next_probability;
  return [element("h2", "", "Is the second text next?"), ...bars(["IsNext", "NotNext"], [p, 1 - p])];
}

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
  const response = await fetch(url, options).catch(() => {
    throw new Error("The server does not answer: is it still running?");
  });
  const value = await response.json();
  if (!response.ok) throw new Error(value.error);
  return value;
}

const modelUrl = () => `v1/models/${encodeURIComponent(byId("model").value)}`;

async function chooseModel() {
  byId("answer").replaceChildren();
  byId("inputs").replaceChildren();
  document.title = `${byId("model").value} - BERT`;
  const { metadata } = await fetchJson(`${modelUrl()}/metadata`);
  const names = Object.keys(metadata.signature_def.signature_def.serving_default.inputs);
  inputs = names.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  for (const name of inputs) {
    const area = document.createElement("textarea");
    area.id = `input-${name}`;
    area.rows = { context: 5, choices: 4, question: 1 }[name] || 3;
    byId("inputs").append(element("label", "", LABELS[name] || name, area));
  }
  const example = EXAMPLES[[...names].sort().join(" ")] || {};
  for (const name of inputs) byId(`input-${name}`).value = example[name] || "";
  say("");
}

async function ask() {
  const row = {};
  for (const name of inputs) {
    const text = byId(`input-${name}`).value;
    row[name] = name === "choices" ? text.split("\n").filter((line) => line.trim()) : text;
    if (name === "text_pair" && !text) delete row[name];
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
