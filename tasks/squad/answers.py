"""Answers to SQuAD's questions: the choice among spans of tokens, `Answers`.

Texts, order and numbers equal the results of write_predictions and
get_final_text in the original's run_squad.py. `decode` lists the exceptions.

Legend: T tokens, K n_best_size, C candidate spans, M models of an ensemble.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from data.vocab import Tokenizer
from serving import answers
from serving.answers import Encoded, TextConfig, Texts, to_list
from storage.processes import Chunk
from tasks.squad import records
from tasks.squad.examples import WORD, SquadExample
from tasks.squad.records import AnswerText, Span, Window

# Null odds of a question without a candidate text: above any threshold.
NO_ANSWER_ODDS = 1_000_000.0
# Least probability of a text in an ensemble, because log(0) is undefined.
LEAST_PROBABILITY = 1e-300
# Start and end logits of a window: [T] each, or [T, M] for an ensemble.
Logits = tuple[np.ndarray, np.ndarray]
# Fields of the best answer, and fields that list the n best answers.
_NAMES = ("answer", "score", "probability", "start", "end")
_PLURALS = ("answers", "scores", "probabilities", "starts", "ends")


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

  `logits` are in the windows' order; ValueError if their numbers differ.
  """
  predictions, answer_text = Predictions(), AnswerText(tokenizer)
  by_example: list[list] = [[] for _ in examples]
  for window, values in zip(windows, logits, strict=True):
    by_example[window.example_index].append((window, values))
  for example, group in zip(examples, by_example, strict=True):
    parts = [window for window, _ in group]
    # [2, T] for each model, in float64, so that sums equal the original's
    by_window = [
      np.moveaxis(np.atleast_3d(np.asarray(values, np.float64)), 2, 0)
      for _, values in group
    ]
    ranked = [  # by model
      _n_best(parts, values, example.doc_tokens, answer_text, config)
      for values in list(zip(*by_window, strict=True)) or [()]
    ]
    entries = ranked[0] if len(ranked) == 1 else _combine(ranked, config)
    _add_prediction(predictions, example.qas_id, entries, config)
  return predictions


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
  null = _Entry("", 0.0, 0.0)
  if logits:
    # "No answer" is the span of [CLS] alone, in the window with the least score
    of_cls = [start[0] + end[0] for start, end in logits]
    start, end = logits[np.argmin(of_cls)]
    null = _Entry("", float(start[0]), float(end[0]))
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


def _candidates(windows, logits, null, config) -> list[tuple[int, int, int]]:
  """Lists window, start and end of spans, the best first.

  Spans of equal score come in the order of the windows. Start and end are
  positions in the window. Both are tokens of the paragraph, and among the
  window's K best. No other window gives the start token more context. SQuAD 2.0
  adds the empty answer (0 to 0), after spans of equal score.
  """
  spans: list[tuple[int, int, int]] = []
  scores: list[float] = []
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
    spans += zip(repeat(number), starts.tolist(), ends.tolist())
    scores += (start[starts] + end[ends]).tolist()
  if config.version_2_with_negative:
    spans.append((0, 0, 0))
    scores.append(null.score)
  order = np.argsort(np.negative(scores), kind="stable")
  return [spans[i] for i in order]


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
  scores = [entry.score for entry in entries]
  best = max(scores, default=0.0)
  weights = [math.exp(score - best) for score in scores]
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


class Answers(answers.Answers):
  """Implements serving.answers.Answers for models of run_squad.py.

  `windows` and `decoding` are fields of a WindowConfig and a DecodingConfig.
  Without `dynamic_padding`, windows are padded to full length. Positions of
  padding may then be among the n best starts and ends, as in the original.
  """

  task = "squad"
  outputs = ("start_logits", "end_logits")

  def __init__(
    self,
    config: TextConfig,
    windows: Mapping,
    decoding: Mapping,
    dynamic_padding: bool = False,
  ):
    self.config = config
    self._windows = records.WindowConfig(**windows)
    self._decoding = DecodingConfig(**decoding)
    self._window_maker = records.WindowMaker(config.tokenizer, self._windows)
    self._dynamic_padding = dynamic_padding
    self.settings = {"windows": {**windows}, "decoding": {**decoding}}
    self.settings |= {"dynamic_padding": dynamic_padding}
    self.inputs = {"question": 0, "context": 0}

  def encode(self, texts: Texts) -> Encoded:
    words = list(WORD.finditer(texts["context"]))
    example = SquadExample("", texts["question"], [word[0] for word in words])
    windows = self._window_maker(Chunk(0, [example], "questions"))
    rows = []
    for window in windows:
      row = answers.row(window.ids, window.segments)
      if not self._dynamic_padding:
        padding = (0, self._windows.max_seq_length - len(window.ids))
        row = {name: np.pad(values, padding) for name, values in row.items()}
      rows.append(row)
    return Encoded(rows, (example, windows, words))

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """Returns the best answer, with scores and position in the context.

    `score` is start logit plus end logit, `probability` the softmax over the n
    best. `start` and `end` count characters, -1 if the answer is not in the
    context. Without a candidate text, the answer is "empty" with score 0, or ""
    for SQuAD 2.0. Models of SQuAD 2.0 also return `best_answer` etc. for the
    best text other than "", and `null_odds`: the score of "" minus the score of
    this text. If the odds exceed the threshold, the answer is "". `answers`
    etc. list the `export_top_k` best texts.
    """
    example, windows, words = encoded.context
    logits = [(out["start_logits"], out["end_logits"]) for out in outputs]
    rules = self.config.tokenizer, self._decoding
    predictions = decode([example], windows, logits, *rules)
    entries = predictions.nbest[""]

    def named(index):
      entry = entries[index]
      score = entry["start_logit"] + entry["end_logit"]
      numbers = to_list(np.array([score, entry["probability"]]))  # None for NaN
      span = position(entry["text"], predictions.spans[""][index], words)
      values = entry["text"], *numbers, *span
      return dict(zip(_NAMES, values, strict=True))

    texts = [entry["text"] for entry in entries]
    result = named(texts.index(predictions.answers[""]))
    if self._decoding.version_2_with_negative:
      best = named(texts.index(predictions.texts[""]))
      if not best["answer"]:  # no candidate text
        best |= {"score": 0.0, "probability": 0.0}
      result |= {f"best_{name}": value for name, value in best.items()}
      result["null_odds"] = to_list(np.array(predictions.null_odds[""]))
    top = [named(i) for i in range(len(texts))[: self._decoding.export_top_k]]
    if top:
      for name, plural in zip(_NAMES, _PLURALS, strict=True):
        result[plural] = [answer[name] for answer in top]
      result["num_answers"] = len(top)
    return result


def position(
  text: str, span: Span | None, words: Sequence[re.Match]
) -> tuple[int, int]:
  """Start and end of a text in the context of `words`; -1, -1 without span."""
  if span is None:
    return -1, -1
  spanned = words[span.first : span.last + 1]
  # The blank after a word gets the index of the word's end.
  index = [i for word in spanned for i in range(word.start(), word.end() + 1)]
  return index[span.begin], index[span.begin + len(text) - 1] + 1
