"use strict";
// Asks a model and shows its answer. Texts reach the page as textContent only.

let inputs = []; // names of the model's inputs
const LABELS = {
  text: "Text", text_pair: "Second text, if there is one", text_a: "First text", text_b: "Second text", question: "Question",
  context: "Context", tokens: "Text",
  sent1: "Context", sent2: "Beginning of the next sentence", choices: "Endings, one a line",
};
const ORDER = Object.keys(LABELS);
// By the model's inputs: something to ask at once.
const EXAMPLES = {
  "context question": {
    question: "Where was Ada born?",
    context: "Ada was born in London. She later moved to a house in Surrey.",
  },
  "tokens": { tokens: "Ada Lovelace, the mathematician, lived in London." },
  "choices sent1 sent2": {
    sent1: "She opens the door.", sent2: "She", choices: "goes inside.\nis a door.",
  },
  "text text_pair": { text: "The capital of France is [MASK]." },
  "text_a text_b": { text_a: "He said so.", text_b: "So he said." },
  "text": { text: "A film that is good." },
};

function show(answer, question) {
  const named = typeof answer === "object" ? answer : { score: answer };
  byId("answer").replaceChildren(...answerNodes(named, question));
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
  const url = modelUrl();
  const { metadata } = await fetchJson(`${url}/metadata`);
  if (url !== modelUrl()) return; // another was chosen meanwhile
  byId("inputs").replaceChildren();
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
