"""One HTML file that shows how a model reads the texts of an example.

The page loads nothing, and shows texts as plain text.
"""

import base64
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from modeling.bert import make_attention_mask
from modeling.encoder_variants import TextWindows
from modeling.models import ENCODER_INPUTS, members
from serving import savedmodel
from serving.answers import Encoded
from serving.export import ServedModel
from serving.run_page import fill
from storage import UserError

_MAX_PADDING = 3  # positions of padding on the page
_TOLERANCE = 1e-5  # of a score, which is a sum of two logits


class Sequence(NamedTuple):
  """One input of the encoder, with at most three positions of padding.

  `length` excludes padding. `attention`, [N layers, A heads, T, T], is from
  queries to keys. `values`, [T] each, has norms of vectors ("token", "segment",
  "position", their "sum") and probabilities of an answer's span ("start",
  "end"). Only one sequence has "decided", the result of `_contributions`.
  """

  ids: np.ndarray
  segments: np.ndarray
  length: int
  attention: np.ndarray
  values: dict[str, np.ndarray]


class Internals(NamedTuple):
  """The `answer` from Answers.decode, and inner values of the model.

  `layers` has (name, direction of attention) of each layer, `sequences` an item
  for each window or choice. `filled` maps a layer to the answer of a network
  that ends there. `span` is (sequence, first, last token). `decided` names the
  label, word or text that the values "decided" of a Sequence explain.
  """

  answer: dict
  layers: list[tuple[str, str]]
  sequences: list[Sequence]
  filled: dict[str, dict]
  span: tuple[int, int, int] | None
  decided: str = ""


def encode(served: ServedModel, texts: Mapping) -> Encoded:
  """Encodes texts; UserError if they have no word, or the model no page."""
  if members(served.model):
    raise UserError("an ensemble has no page: name one of its models")
  encoded = served.answers.encode(texts)
  if not encoded.rows:
    raise UserError("there is no word in the text")
  tokens = encoded.rows[0]["input_ids"].shape[-1]
  for layer in served.model.layers:
    if isinstance(layer, TextWindows) and tokens > layer.size:
      raise UserError(
        f"the model would read the text's {tokens} tokens in windows of "
        f"{layer.size}: shorten it to one window"
      )
  return encoded


def compute(served: ServedModel, encoded: Encoded) -> Internals:
  """Runs the model, then the encoder again for the inner values."""
  outputs = list(savedmodel.text_model(served).engine.run(encoded.rows))
  answer = served.answers.decode(encoded, outputs)
  bert = served.model.get_layer("bert")
  encoders = getattr(bert, "encoders", [bert])
  configs = [encoder.config for encoder in encoders]
  layers = [
    (f"{i}", c.attention) for c in configs for i in range(c.num_hidden_layers)
  ]
  sequences = [
    _compute_sequence(encoders, inputs, output)
    for row, output in zip(encoded.rows, outputs, strict=True)
    for inputs in _inputs(row)
  ]
  filled, span = {}, None
  if "masked_lm_logits" in outputs[0] and answer["num_masks"]:
    [row] = encoded.rows
    inner = bert(*next(_inputs(row)).values())
    head = served.model.get_layer("cls").predictions
    hidden_states = [inner["embedding_output"], *inner["encoder_layers"]]
    # sequence_output follows the BiLSTM, if the model has one.
    hidden_states[-1] = inner["sequence_output"]
    for number, hidden in enumerate(hidden_states):
      masked = ops.take(hidden, row["masked_lm_positions"], axis=1)
      logits = np.asarray(head(masked, inner["embedding_table"])[0])
      name = f"layer {number - 1}" if number else "embeddings"
      values = [{"masked_lm_logits": logits}]
      filled[name] = served.answers.decode(encoded, values)
  seen = served.answers, encoded.rows, outputs, answer
  if "start_logits" in outputs[0]:
    span = _find_span(outputs, answer["score"])
  decided, number, row, logits = _decide(*seen, span)
  if logits and len(encoders) == 1:  # two encoders have no common input
    values = _contributions(served.model, encoded.rows[row], logits)
    sequences[number].values["decided"] = values[: len(sequences[number].ids)]
  return Internals(answer, layers, sequences, filled, span, decided)


def _inputs(row) -> Iterator[dict[str, np.ndarray]]:
  columns = [np.atleast_2d(row[name])[:, None] for name in ENCODER_INPUTS]
  for values in zip(*columns, strict=True):
    yield dict(zip(ENCODER_INPUTS, values, strict=True))


def _compute_sequence(encoders, inputs, output):
  ids, mask, segments = (inputs[name][0] for name in ENCODER_INPUTS)
  embeddings = encoders[0].embeddings
  vectors = {
    "token": ops.take(embeddings.word_embeddings, ids, axis=0),
    "segment": ops.take(embeddings.token_type_embeddings, segments, axis=0),
    "position": embeddings.position_embeddings[: len(ids)],
  }
  vectors["sum"] = sum(vectors.values())
  values = {name: ops.norm(vector, axis=-1) for name, vector in vectors.items()}
  if "start_logits" in output:
    values["start"] = ops.softmax(output["start_logits"])
    values["end"] = ops.softmax(output["end_logits"])
  length = int(mask.sum())
  shown = slice(length + _MAX_PADDING)
  attention = []  # of each layer
  for encoder in encoders:
    outputs = encoder(**inputs)
    inner = outputs["embedding_output"], *outputs["encoder_layers"][:-1]
    mask = make_attention_mask(inputs["input_mask"], encoder.config.attention)
    for block, hidden in zip(encoder.encoder.blocks, inner, strict=True):
      layer = block.attention.self_attention
      probs = layer.attention_probs(hidden, hidden, mask)[0]
      attention.append(probs[..., shown, shown])
  values = {name: np.asarray(value)[shown] for name, value in values.items()}
  maps = np.stack(attention)
  return Sequence(ids[shown], segments[shown], length, maps, values)


def _find_span(outputs, score: float) -> tuple[int, int, int] | None:
  """Window, first and last token of the answer, which has this score."""
  for window, output in enumerate(outputs):
    sums = output["start_logits"][:, None] + output["end_logits"].astype(float)
    is_score = np.triu(np.abs(sums - score) < _TOLERANCE)
    for first, last in np.argwhere(is_score):
      return window, int(first), int(last)
  return None


def _decide(answers, rows, outputs, answer, span):
  """Returns the answer's name or "", its sequence, row and {output: index}."""
  if span:
    number, first, last = span
    logits = {"start_logits": first, "end_logits": last}
    text = answer["answer"]
    return f'"{text}"' if text else "no answer", number, number, logits
  if answer.get("num_masks"):
    token = answer["tokens"][0][0]
    index = answers.config.tokenizer.vocab[token]
    return f'"{token}" for [MASK] 1', 0, 0, {"masked_lm_logits": (0, index)}
  if "choice" in answer:
    row, index = divmod(answer["choice"], len(rows[0]["input_ids"]))
    return f'"{answer["text"]}"', answer["choice"], row, {"logits": index}
  if "logits" in outputs[0] and outputs[0]["logits"].ndim == 1:
    best = int(outputs[0]["logits"].argmax())
    labels = answer.get("labels")
    name = f'"{labels[best]}"' if labels else "a high score"
    return name, 0, 0, {"logits": best}
  return "", 0, 0, {}


def _contributions(model, row, logits) -> np.ndarray:
  """Gradient times input for a sum of logits, [T]; absolute values sum to 1.

  The input is `embedding_output`. Source: Shrikumar et al., arXiv:1605.01713.
  """
  bert = model.get_layer("bert")
  # Keras sorts outputs by name: `embedding_output` is the first.
  probe = keras.Model(model.input, [bert.output[0], model.output])
  with tf.GradientTape() as tape:
    tape.watch([variable.value for variable in bert.variables])
    inputs = {name: value[None] for name, value in row.items()}
    hidden, outputs = probe(inputs, training=False)
    logit = sum(outputs[name][0][index] for name, index in logits.items())
  gradient = tape.gradient(logit, hidden)
  # Only one of several choices has a gradient.
  product = np.sum(ops.cast(gradient * hidden, "float32"), (0, -1))
  return product / (np.abs(product).sum() or 1.0)


# --- The HTML file ---------------------------------------------------------


def render(
  served: ServedModel, internals: Internals, texts: Mapping, name: str
) -> str:
  """Makes the HTML page of an example; `name` is the model's name."""
  tokenizer = served.answers.config.tokenizer
  config = served.model.get_layer("bert").config
  # Nobody reads vectors.
  answer = {} if "sentence" in internals.answer else internals.answer
  if "words" in answer:
    unknown, words = tokenizer.special.unknown, answer["words"]
    pairs = zip(map(tokenizer.tokenize, words), words, strict=True)
    answer = answer | {"pieces": [[w] if unknown in p else p for p, w in pairs]}
  data = internals._asdict() | {
    "facts": {
      "model": name,
      "task": served.answers.task.replace("_", " "),
      "layers": config.num_hidden_layers,
      "heads": config.num_attention_heads,
      "hidden size": config.hidden_size,
      "vocabulary": f"{config.vocab_size:,}",
      "attention": config.attention.replace("_", " "),
    },
    "texts": texts,
    "answer": answer,
    "sequences": [_sequence(tokenizer, s) for s in internals.sequences],
  }
  return fill("page", data)


def _sequence(tokenizer, sequence):
  means = sequence.attention.mean(axis=1, keepdims=True)
  maps = np.concatenate([sequence.attention, means], axis=1)
  attention = np.rint(maps * 255).astype(np.uint8).tobytes()
  ids = sequence.ids.tolist()
  return {
    "ids": ids,
    "tokens": tokenizer.convert_ids_to_tokens(ids),
    "segments": sequence.segments.tolist(),
    "length": sequence.length,
    "heads": maps.shape[1],
    "attention": base64.b64encode(zlib.compress(attention, 9)).decode(),
  } | {
    name: [float(f"{value:.4g}") for value in values]
    for name, values in sequence.values.items()
  }
