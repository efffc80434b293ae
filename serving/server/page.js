"use strict";
// Asks a model and shows its answer. Texts reach the page as textContent only.

let inputs = []; // names of the model's inputs
let newest = 0; // number of the newest action
const LABELS = {
  text: "Text", text_pair: "Second text, if there is one", text_a: "First text", text_b: "Second text", question: "Question",
  context: "Context", tokens: "Text",
  sent1: "Context", sent2: "Beginning of the next sentence", choices: "Endings, one a line",
};
const ORDER = Object.keys(LABELS);
// Two examples by task. A classifier of single texts has none, because only its users know what its texts are about.
const EXAMPLES = {
  squad: [{ question: "Where was Ada born?", context: "Ada was born in London. She later moved to a house in Surrey." },
    { question: "When does the museum open?", context: "The museum opens at nine and closes at five. On Mondays nobody works there." }],
  ner: [{ tokens: "Ada Lovelace, the mathematician, lived in London." },
    { tokens: "In 1903 Marie Curie of the University of Paris travelled to Stockholm." }],
  "multiple choice": [{ sent1: "She opens the door.", sent2: "She", choices: "goes inside.\nis a door." },
    { sent1: "A man sits at a piano.", sent2: "He", choices: "plays a slow song.\nswims to the shore.\nis eaten by the keys." }],
  pretraining: [{ text: "The capital of France is [MASK]." },
    { text: "She opened the [MASK] and went out.", text_pair: "It was [MASK] outside." }],
  classification: [{ text_a: "He said so.", text_b: "So he said." },
    { text_a: "The shop is open.", text_b: "Nobody can buy anything today." }],
  features: [{ text: "She sat by the river." }, { text: "The bank of the river was steep." }],
};

function say(text, isError = false) {
  byId("status").textContent = text;
  byId("status").className = isError ? "error" : "";
}

async function fetchJson(url, options) {
  const response = await fetch(new URL(url, location.href), options).catch(() => {
    throw new Error("The server does not answer: is it still running?");
  });
  const value = await response.json().catch(() => null); // HTML is from a proxy
  if (response.ok && value) return value;
  const ofProxy = `Not the server but a proxy answers: ${response.status} ${response.statusText}`;
  throw new Error(typeof value?.error === "string" ? value.error : ofProxy);
}

const modelUrl = () => `v1/models/${encodeURIComponent(byId("model").value)}`;

async function chooseModel(isNewest, given) {
  byId("ask").disabled = true; // until the model's inputs are there
  inputs = [];
  byId("answer").replaceChildren();
  byId("inputs").replaceChildren();
  document.title = `${byId("model").value} - BERT`;
  const url = modelUrl();
  const [{ metadata }, { facts }] = await Promise.all([fetchJson(`${url}/metadata`), fetchJson("models")]);
  if (!isNewest()) return; // another was chosen meanwhile
  byId("inputs").replaceChildren();
  const names = Object.keys(metadata.signature_def.signature_def.serving_default.inputs);
  inputs = names.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  for (const name of inputs) {
    const area = document.createElement("textarea");
    area.id = `input-${name}`;
    area.rows = { context: 5, choices: 4, question: 1 }[name] || 3;
    area.placeholder = name === "text" ? "A text like those that the model has learned from" : "";
    byId("inputs").append(element("label", "", LABELS[name] || name, area));
  }
  const [example] = showFacts(facts[byId("model").value] || {});
  fill(inputs.some((name) => given?.[name]) ? given : example || {});
  say("");
}

function showFacts({ labels, ...others }) {
  const shown = Object.entries({ ...others, labels: labels && labels.slice(0, 20).join(", ") + (labels.length > 20 ? ", ..." : "") });
  const known = shown.filter(([, value]) => value).map(([name, value]) => [name.replaceAll("_", " "), value]);
  byId("facts").replaceChildren(...terms(known));
  const examples = (EXAMPLES[others.task] || []).filter((example) => example[inputs[0]]);
  byId("examples").replaceChildren(...examples.map((example, i) => {
    const button = element("button", "", `Example ${i + 1}`);
    button.addEventListener("click", () => fill(example));
    return button;
  }));
  return examples;
}

function fill(texts) {
  for (const name of inputs) byId(`input-${name}`).value = texts[name] || "";
  showLinks();
}

function readRow() {
  const row = {};
  for (const name of inputs) {
    const text = byId(`input-${name}`).value;
    row[name] = name === "choices" ? text.split("\n").filter((line) => line.trim()) : text;
    if (name === "text_pair" && !text) delete row[name];
  }
  return row;
}

function showLinks() {
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const body = JSON.stringify({ instances: [readRow()] });
  byId("curl").textContent = `curl -d ${quote(body)} ${quote(`${new URL(modelUrl(), location)}:predict`)}`;
  const texts = inputs.map((name) => [name, byId(`input-${name}`).value]);
  const hash = `#${new URLSearchParams([["model", byId("model").value], ...texts])}`;
  byId("link").href = new URL(hash, location); // without the password of the page's own URL
}

async function openLink(isNewest) {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  byId("model").value = given.model ?? byId("model").value;
  if (!byId("model").value) throw new Error(`The link asks the model ${given.model}, which this server does not have.`);
  await chooseModel(isNewest, given);
  if (isNewest() && inputs.some((name) => given[name])) await ask(isNewest);
}

async function ask(isNewest) {
  const row = readRow();
  if (row.choices && !row.choices.length) return say("Give at least one ending.", true);
  if (!Object.values(row).flat().join("").trim()) return say("Write a text first.", true);
  say("...");
  byId("ask").disabled = true;
  showLinks();
  history.replaceState(null, "", byId("link").hash);
  const begin = performance.now();
  const body = JSON.stringify({ instances: [row] });
  let [answer] = (await fetchJson(`${modelUrl()}:predict`, { method: "POST", body })).predictions;
  if (!isNewest()) return; // the user has asked again, or chosen another model
  if (Array.isArray(answer)) answer = { sentence: answer }; // a single output has no name
  if (typeof answer === "number") answer = { score: answer };
  byId("answer").replaceChildren(...answerNodes(answer, row));
  say(`${Math.round(performance.now() - begin)} ms`);
}

const guarded = (action) => (event) => {
  event?.preventDefault();
  const number = ++newest;
  const isNewest = () => number === newest;
  return action(isNewest).catch((error) => {
    if (!isNewest()) return;
    byId("answer").replaceChildren();
    say(error.message, true);
    if (error.message.includes(" is loading")) setTimeout(() => isNewest() && guarded(action)(), 1000);
  }).finally(() => { byId("ask").disabled &&= !isNewest() || !inputs.length; });
};

byId("form").addEventListener("submit", guarded(ask));
byId("model").addEventListener("change", guarded(chooseModel));
byId("form").addEventListener("input", showLinks);
addEventListener("hashchange", guarded(openLink));
byId("copy").addEventListener("click", () => {
  getSelection().selectAllChildren(byId("curl"));
  navigator.clipboard?.writeText(byId("curl").textContent); // a secure page has one
});
byId("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
});
guarded(async (isNewest) => {
  const { models } = await fetchJson("models");
  byId("model").replaceChildren(...models.map((name) => element("option", "", name)));
  await openLink(isNewest);
})();
