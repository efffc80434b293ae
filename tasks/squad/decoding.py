"""Turns logits into answers to SQuAD's questions.

Texts, order and numbers equal the results of write_predictions and
get_final_text in the original's run_squad.py. `decode` lists the exceptions.

Legend: T tokens, K n_best_size, C candidate spans, M models of an ensemble.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from data.vocab import Tokenizer
from tasks.squad.examples import SquadExample
from tasks.squad.records import Window

# Null odds of a question without a candidate text: above any threshold.
NO_ANSWER_ODDS = 1_000_000.0
# Least probability of a text in an ensemble, because log(0) is undefined.
LEAST_PROBABILITY = 1e-300
# Start and end logits of a window: [T] each, or [T, M] for an ensemble.
Logits = tuple[np.ndarray, np.ndarray]


class Span(NamedTuple):
  """Words of a paragraph that a text comes from."""

  first: int  # index of a word
  last: int
  begin: int  # of the text in these words, which blanks separate


@dataclass(frozen=True)
class DecodingConfig:
  """Rules for the choice of answers, named like the flags."""

  n_best_size: int = 20  # best starts, best ends, and best answers
  max_answer_length: int = 30  # in tokens
  version_2_with_negative: bool = False  # a question may have no answer
  # The prediction is "no answer" if the null odds exceed this.
  null_score_diff_threshold: float = 0.0
  export_top_k: int = 0  # number of the n best answers that an export lists


@dataclass
class Predictions:
  """Predictions by question id; only SQuAD 2.0 has `null_odds` and `texts`."""

  answers: dict[str, str] = field(default_factory=dict)  # "" for no answer
  # Entries of nbest_predictions.json: at most K, in SQuAD 2.0 at most K + 1.
  nbest: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
  # Score of "no answer" minus the score of the text in `texts`.
  null_odds: dict[str, float] = field(default_factory=dict)
  # The best text other than "", even if the prediction is "no answer".
  texts: dict[str, str] = field(default_factory=dict)
  # The span of each text in `nbest`; None for a text without words.
  spans: dict[str, list[Span | None]] = field(default_factory=dict)


def decode(
  examples: Sequence[SquadExample],
  windows: Sequence[Window],
  logits: Iterable[Logits],
  tokenizer: Tokenizer,
  config: DecodingConfig,
) -> Predictions:
  """Predicts an answer to each question.

  A question has no candidate text if the paragraph has no token, or if the best
  spans are not allowed. Then the answer is "empty" for SQuAD 1.1, as in the
  original; for SQuAD 2.0, where the original fails, "" with NO_ANSWER_ODDS. An
  ensemble's probability of a text is the mean over the models, and the text's
  score is the logarithm of this mean.

  Raises ValueError unless windows are in the order of the examples, and
  `logits` in the order of the windows.
  """
  predictions, answer_text = Predictions(), AnswerText(tokenizer)
  pairs = zip(windows, logits, strict=True)
  groups = groupby(pairs, lambda pair: pair[0].example_index)
  by_example = {index: list(group) for index, group in groups}
  for index, example in enumerate(examples):
    group = by_example.get(index, ())
    parts = [window for window, _ in group]
    # [2, T] for each model, in float64, so that sums equal the original's
    by_window = (
      np.moveaxis(np.atleast_3d(np.asarray(values, np.float64)), 2, 0)
      for _, values in group
    )
    ranked = [  # by model
      _n_best(parts, values, example.doc_tokens, answer_text, config)
      for values in list(zip(*by_window, strict=True)) or [()]
    ]
    entries = ranked[0] if len(ranked) == 1 else _combine(ranked, config)
    _add_prediction(predictions, example.qas_id, entries, config)
  return predictions


class AnswerText:
  """Finds the text of a span of tokens in the words of the paragraph."""

  def __init__(self, tokenizer: Tokenizer):
    self._tokenizer = tokenizer
    # A blank always ends a word, so words can be split one by one.
    self._split = lru_cache(1 << 17)(tokenizer.words)

  def text(
    self, words: Sequence[str], window: Window, start: int, end: int
  ) -> tuple[str, Span]:
    """Text of the tokens `start` to `end`, and its span.

    For the words "Steve Smith's", the tokens "steve smith" give "Steve Smith".
    Splits the words as the tokenizer does, finds the first place of the tokens
    in the result, and counts characters other than blanks to get back to the
    words. If this fails, returns the complete words.
    """
    pieces = self._tokenizer.convert_ids_to_tokens(window.ids[start : end + 1])
    first = int(window.token_word_ids[start - window.context_offset])
    last = int(window.token_word_ids[end - window.context_offset])
    tokens = self._tokenizer.join(pieces)
    words = words[first : last + 1]
    text = " ".join(words)
    split = " ".join(part for word in words for part in self._split(word))
    offsets = [i for i, char in enumerate(text) if char != " "]
    at = split.find(tokens) if tokens else -1
    if at < 0 or len(offsets) != len(split) - split.count(" "):
      return text, Span(first, last, 0)
    first_char = at - split.count(" ", 0, at)
    last_char = first_char + len(tokens) - tokens.count(" ") - 1
    begin, end = offsets[first_char], offsets[last_char] + 1
    return text[begin:end], Span(first, last, begin)


class _Entry(NamedTuple):
  """Entry of nbest_predictions.json, without the probability."""

  text: str
  start_logit: float
  end_logit: float
  span: Span | None = None

  @property
  def score(self) -> float:
    return self.start_logit + self.end_logit


def _n_best(windows, logits, words, answer_text, config) -> list[_Entry]:
  """Finds the n best distinct texts; for SQuAD 2.0, "" is always an entry."""
  entries: list[_Entry] = []
  # "No answer" is the span of [CLS] alone, in the window with the least score.
  nulls = (_Entry("", float(start[0]), float(end[0])) for start, end in logits)
  no_window = _Entry("", 0.0, 0.0)
  null = min(nulls, key=lambda entry: entry.score, default=no_window)
  seen = set()
  for number, first, last in _candidates(windows, logits, null, config):
    if len(entries) == config.n_best_size:
      break
    if not first:
      entry = null
    else:
      text, span = answer_text.text(words, windows[number], first, last)
      if text in seen:
        continue
      start, end = logits[number]
      entry = _Entry(text, float(start[first]), float(end[last]), span)
    seen.add(entry.text)
    entries.append(entry)
  if config.version_2_with_negative and "" not in seen:
    entries.append(null)
  return entries


def _candidates(
  windows, logits, null, config
) -> Iterator[tuple[int, int, int]]:
  """Yields window, start and end of spans, the best first.

  Spans of equal score come in the order of the windows. Start and end are
  positions in the window. Both are tokens of the paragraph, and among the
  window's K best. No other window gives the start token more context. SQuAD 2.0
  adds the empty answer (0 to 0), after spans of equal score.
  """
  columns: list[tuple] = []
  for number, window in enumerate(windows):
    start, end = logits[number]
    offset = window.context_offset
    behind = offset + len(window.token_word_ids)
    starts = np.argsort(-start, kind="stable")[: config.n_best_size]
    ends = np.argsort(-end, kind="stable")[: config.n_best_size]
    starts = starts[(starts >= offset) & (starts < behind)]
    starts = starts[window.is_max_context[starts - offset]]
    ends = ends[(ends >= offset) & (ends < behind)]
    distance = ends - starts[:, None]  # [starts, ends]
    allowed = (distance >= 0) & (distance < config.max_answer_length)
    i, j = allowed.nonzero()
    starts, ends = starts[i], ends[j]
    scores = start[starts] + end[ends]
    columns.append((np.full(len(starts), number), starts, ends, scores))
  if config.version_2_with_negative:
    columns.append(([0], [0], [0], [null.score]))
  if columns:
    *spans, scores = map(np.concatenate, zip(*columns, strict=True))
    order = np.argsort(-scores, kind="stable")
    yield from zip(*(column[order].tolist() for column in spans), strict=True)


def _combine(ranked, config) -> list[_Entry]:
  """Combines the entries of an ensemble's models, `ranked`, into one list."""
  probs: Counter[str] = Counter()
  spans: dict[str, Span | None] = {}
  for entries in ranked:
    for entry, named in zip(entries, _with_probabilities(entries), strict=True):
      probs[entry.text] += named["probability"] / len(ranked)
      spans.setdefault(entry.text, entry.span)
  entries = [
    _Entry(text, math.log(max(prob, LEAST_PROBABILITY)), 0.0, spans[text])
    for text, prob in probs.most_common()
  ]
  size = config.n_best_size
  return entries[:size] + [entry for entry in entries[size:] if not entry.text]


def _add_prediction(predictions, qas_id, entries, config) -> None:
  entries = entries or [_Entry("empty", 0.0, 0.0)]
  text = entries[0].text
  if config.version_2_with_negative:
    null = next(entry for entry in entries if not entry.text)
    best = next((entry for entry in entries if entry.text), null)
    odds = null.score - best.start_logit - best.end_logit
    if best is null:
      odds = NO_ANSWER_ODDS
    predictions.texts[qas_id] = best.text
    predictions.null_odds[qas_id] = odds
    text = "" if odds > config.null_score_diff_threshold else best.text
  predictions.answers[qas_id] = text
  predictions.nbest[qas_id] = _with_probabilities(entries)
  predictions.spans[qas_id] = [entry.span for entry in entries]


def _with_probabilities(entries: list[_Entry]) -> list[dict[str, Any]]:
  """Entries of nbest_predictions.json, with a softmax over their scores."""
  best = max((entry.score for entry in entries), default=0.0)
  weights = [math.exp(entry.score - best) for entry in entries]
  total = sum(weights)
  return [
    {
      "text": entry.text,
      "probability": weight / total,
      "start_logit": entry.start_logit,
      "end_logit": entry.end_logit,
    }
    for entry, weight in zip(entries, weights, strict=True)
  ]
