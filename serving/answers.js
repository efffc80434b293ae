"use strict";
// Nodes that the pages share. Texts become text nodes, never HTML.

const byId = (id) => document.getElementById(id);

function element(tag, className, ...children) {
  const node = document.createElement(tag);
  node.className = className;
  if (tag === "p") node.dir = "auto"; // Arabic and Hebrew begin on the right
  node.append(...children); // strings become text nodes
  return node;
}

// Names and values for a <dl>.
function terms(pairs) {
  return pairs.map(([name, value]) => element("div", "", element("dt", "", name), element("dd", "", value)));
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
  ["answer start end", (a, q) => {
    const nodes = [marked(q.context, a.start, a.end)];
    if (a.answer === "") nodes.unshift(element("p", "best", "No answer in this context."));
    else if (a.start < 0) nodes.unshift(element("p", "best", a.answer));
    const count = a.num_answers || 0;
    const names = count ? a.answers.slice(0, count) : [a.answer];
    const values = count ? a.probabilities.slice(0, count) : [a.probability];
    return [...nodes, ...bars(names.map((n) => n || "(no answer)"), values)];
  }],
  ["words tags entities", (a) => {
    const box = element("p", "words");
    a.words.forEach((word, i) => {
      const entity = a.entities.find(({ start, end }) => start <= a.start[i] && a.start[i] < end);
      const gap = i && a.start[i] > a.end[i - 1] ? " " : "";
      const pieces = a.pieces?.[i] || [word]; // the first one has the tag
      const parts = pieces.map((piece, j) => element("span", j ? "later" : "", piece));
      if (entity?.start < a.start[i]) return box.lastChild.lastChild.before(gap, ...parts);
      const label = entity?.label || (a.tags[i] === a.outside ? "" : a.tags[i]);
      const node = element("ruby", label ? "entity" : "", ...parts, element("rt", "", label));
      node.classList.toggle("long", word.length > 30);
      node.style.setProperty("--type", a.labels.findIndex((tag) => tag.startsWith(label) || tag.endsWith(label)));
      if (entity) node.title = `${(100 * entity.probability).toFixed(1)} %`;
      box.append(gap, node);
    });
    return a.tags.every((tag) => tag === a.outside) ? [element("p", "best", "No entity in this text."), box] : [box];
  }],
  ["labels probabilities", (a) => {
    const several = a.predicted ? [element("p", "best", a.predicted.join(", ") || "(no label)")] : [];
    return [...several, ...bars(a.labels, a.probabilities)];
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

// Nodes for an answer to a question, both by name.
function answerNodes(answer, question) {
  return VIEWS.find(([keys]) => keys.split(" ").every((key) => !key || key in answer))[1](answer, question);
}
