"""SQuAD with a tokenizer of transformers: windows, spans and answers."""

import math
from typing import NamedTuple

import numpy as np

N_BEST, MAX_ANSWER = 20, 30  # defaults of run_squad.py
INPUTS = ("input_ids", "token_type_ids", "attention_mask")


class Window(NamedTuple):
  """A question with a part of the context."""

  inputs: dict[str, list[int]]
  pair: int  # number of the pair of question and context
  offsets: list[tuple[int, int] | None]


def windows(tokenizer, pairs: list, length: int, overlap: int) -> list[Window]:
  questions, contexts = zip(*pairs, strict=True)
  encoded = tokenizer(
    list(questions),
    list(contexts),
    truncation="only_second",
    max_length=length,
    stride=overlap,
    return_overflowing_tokens=True,
    return_offsets_mapping=True,
  )
  result = []
  for i, pair in enumerate(encoded["overflow_to_sample_mapping"]):
    inputs = {name: encoded[name][i] for name in INPUTS}
    pieces = encoded["offset_mapping"][i], encoded.sequence_ids(i)
    offsets = [
      tuple(offset) if part == 1 else None
      for offset, part in zip(*pieces, strict=True)
    ]
    result.append(Window(inputs, pair, offsets))
  return result


def span(window: Window, answer: dict | None) -> tuple[int, int]:
  """First and last token of an answer; 0, 0 if the window cuts it off."""
  if answer is None:
    return 0, 0
  begin = answer["answer_start"]
  end = begin + len(answer["text"])
  context = [(i, *offset) for i, offset in enumerate(window.offsets) if offset]
  is_inside = context[0][1] <= begin and context[-1][2] >= end
  tokens = [i for i, start, stop in context if stop > begin and start < end]
  return (tokens[0], tokens[-1]) if tokens and is_inside else (0, 0)


def answers(windows: list[Window], logits: list, pairs: list) -> list[str]:
  best = [(-math.inf, "")] * len(pairs)
  for window, (starts, ends) in zip(windows, logits, strict=True):
    size = len(window.offsets)  # without padding
    score, i, j = best_span(starts[:size], ends[:size], window.offsets)
    if score > best[window.pair][0]:
      context = pairs[window.pair][1]
      text = context[window.offsets[i][0] : window.offsets[j][1]]
      best[window.pair] = (score, text)
  return [text for _, text in best]


def best_span(starts, ends, offsets) -> tuple[float, int, int]:
  """Score, first and last token of the best span in the context."""
  in_context = np.array([offset is not None for offset in offsets])
  starts = np.where(in_context, starts, -np.inf)
  ends = np.where(in_context, ends, -np.inf)
  firsts = np.argsort(-starts)[:N_BEST, None]
  lasts = np.argsort(-ends)[None, :N_BEST]
  is_valid = (lasts >= firsts) & (lasts < firsts + MAX_ANSWER)
  scores = np.where(is_valid, starts[firsts] + ends[lasts], -np.inf)
  i, j = np.unravel_index(np.argmax(scores), scores.shape)
  return float(scores[i, j]), int(firsts[i, 0]), int(lasts[0, j])
