"""What a network makes of a text with [MASK] in it, and pictures of that.

Legend: N layers, A heads, T tokens, V vocabulary.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops
from matplotlib.figure import Figure

from data.tokenization import FullTokenizer
from data.vocab import CLS, MASK, SEP
from modeling import models
from modeling.bert import make_attention_mask
from modeling.config import BertConfig
from training import checkpoint

_TOP = 5  # words shown
_MOST = 16  # pictures of single heads; of more, each layer's mean is shown


class Reading(NamedTuple):
  """What a network makes of a text.

  Attributes:
    tokens: of the text, [CLS] and [SEP] included.
    attention: [N, A, T, T], attention probabilities.
    guesses: [N, V], probabilities of words for the first [MASK], from the
      output of each layer.
  """

  tokens: list[str]
  attention: np.ndarray
  guesses: np.ndarray


def read(
  text: str, config: BertConfig, tokenizer: FullTokenizer, path: str
) -> Reading:
  """Reads a text with the network of a checkpoint.

  Args:
    text: with [MASK] in it, or two texts with ||| between them.
    config: of the network.
    tokenizer: of its vocabulary.
    path: of the checkpoint; see run_record.find_checkpoint.

  Raises:
    ValueError: there is no [MASK], or the text is too long.
  """
  if MASK not in text:
    raise ValueError(f"there is no {MASK} in {text!r}")
  tokens, segment_ids = [CLS], [0]
  for segment, part in enumerate(text.split("|||", 1)):
    first, *others = map(tokenizer.tokenize, part.split(MASK))
    after = [token for pieces in others for token in (MASK, *pieces)]
    tokens += [*first, *after, SEP]
    segment_ids += [segment] * (len(tokens) - len(segment_ids))
  config.check_length(len(tokens))
  model = models.pretrainer(config, next_sentence=False)
  checkpoint.restore_strict(model, path)
  ids = tf.constant([tokenizer.convert_tokens_to_ids(tokens)])
  bert, heads = model.get_layer("bert"), model.get_layer("cls")
  outputs = bert(ids, segment_ids=tf.constant([segment_ids]))
  layers = outputs["encoder_layers"]
  attention_mask = make_attention_mask(tf.ones_like(ids), config.attention)
  attention = [
    block.attention.self_attention.attention_probs(
      hidden, hidden, attention_mask
    )[0]
    for block, hidden in zip(
      bert.encoder.blocks,
      [outputs["embedding_output"], *layers[:-1]],  # inputs
      strict=True,
    )
  ]
  place, table = tokens.index(MASK), outputs["embedding_table"]
  guesses = [
    ops.softmax(heads.predictions(hidden[:, place][:, None], table)[0, 0])
    for hidden in layers
  ]
  return Reading(tokens, np.stack(attention), np.stack(guesses))


def attention_table(readings: Sequence[Reading]) -> str:
  """Mean attention of each head to some tokens, in percent, a line a head.

  These are the token itself, the one before, the one after, special tokens,
  and, of words that are in a text twice, the same word. The means are of texts,
  and of a text's tokens.
  """
  names = ["itself", "before", "after", CLS, SEP, MASK]
  means = np.mean([_attended(reading) for reading in readings], axis=0)
  same = np.concatenate([_to_same_word(reading) for reading in readings], -1)
  if same.shape[-1]:
    names.append("same")
    means = np.append(means, same.mean(-1, keepdims=True), axis=-1)
  lines = ["layer head " + "".join(f"{name:>8}" for name in names)]
  for (layer, head), _ in np.ndenumerate(means[..., 0]):
    values = "".join(f"{100 * value:8.1f}" for value in means[layer, head])
    lines.append(f"{layer:5} {head:4} {values}")
  return "\n".join(lines)


def _attended(reading):
  """[N, A, 6], as the columns of `attention_table` but the last."""
  probs, number = reading.attention, len(reading.tokens)
  offsets = [
    np.trace(probs, offset, 2, 3) / (number - abs(offset))
    for offset in (0, -1, 1)
  ]
  special = [
    probs[..., np.array(reading.tokens) == token].sum(-1).mean(-1)
    for token in (CLS, SEP, MASK)
  ]
  return np.stack(offsets + special, axis=-1)


def _to_same_word(reading):
  """[N, A, R], attention of R words that occur twice to their equals."""
  words = np.array(reading.tokens)
  same = (words[:, None] == words) & ~np.eye(len(words), dtype=bool)
  same &= ~np.isin(words, (CLS, SEP, MASK))
  return (reading.attention * same).sum(-1)[..., same.any(-1)]


def attention_figure(reading: Reading) -> Figure:
  """A picture of each head, or of each layer's mean where there are many."""
  layers, heads = reading.attention.shape[:2]
  shown, what = reading.attention, "head"
  if layers * heads > _MOST:
    shown, what = shown.mean(axis=1, keepdims=True), "mean of heads"
    columns = min(4, layers)
  else:
    columns = heads
  pictures = shown.reshape(-1, *shown.shape[2:])
  rows = -(-len(pictures) // columns)
  figure = Figure(figsize=(2.6 * columns, 2.6 * rows), layout="tight")
  axes = figure.subplots(rows, columns, squeeze=False).flat
  for number, ax in enumerate(axes):
    if number >= len(pictures):
      ax.remove()
      continue
    layer, head = divmod(number, shown.shape[1])
    ax.imshow(pictures[number], cmap="Blues", vmin=0, vmax=1)
    ax.set_title(f"layer {layer}, {what} {head if what == 'head' else ''}")
    ax.title.set_size(8)
    places = range(len(reading.tokens))
    ax.set_xticks(places, reading.tokens, rotation=90, size=6)
    ax.set_yticks(places, reading.tokens, size=6)
  return figure


def fill_figure(reading: Reading, words: dict[int, str]) -> Figure:
  """The likeliest words for [MASK] after each layer."""
  layers = len(reading.guesses)
  figure = Figure(figsize=(6, 0.4 + 0.9 * layers), layout="tight")
  axes = figure.subplots(layers, 1, squeeze=False, sharex=True).flat
  for layer, (ax, attention_probs) in enumerate(
    zip(axes, reading.guesses, strict=True)
  ):
    best = np.argsort(-attention_probs)[:_TOP]
    ax.barh([words[i] for i in best], attention_probs[best])
    ax.invert_yaxis()
    ax.tick_params(labelsize=7)
    ax.set_ylabel(f"layer {layer}", size=7)
  return figure
