"""Precision, recall and F1 of entities, as in conlleval; files of predictions.

An entity is correct if type, begin and end are. Legend: W words, L tags.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from absl import logging

from serving.answers import softmax
from storage import files
from tasks import metrics
from tasks.ner.examples import Sentence
from tasks.ner.schemes import Scheme, recognize


class Score(NamedTuple):
  """Numbers of entities or words; precision, recall and F1, 0 if undefined."""

  labels: int
  predicted: int
  correct: int  # predicted and correct

  @property
  def precision(self) -> float:
    return self.correct / self.predicted if self.predicted else 0.0

  @property
  def recall(self) -> float:
    return self.correct / self.labels if self.labels else 0.0

  @property
  def f1(self) -> float:
    total = self.labels + self.predicted
    return 2 * self.correct / total if total else 0.0


@dataclass(frozen=True)
class Scores:
  """Scores of all types together and of each type."""

  overall: Score
  by_type: dict[str, Score]
  words: int  # number of words
  accuracy: float  # fraction of words with the correct tag, "O" included
  of_entities: bool  # True: the scores count entities; False: single words


def evaluate(
  labels: Sequence[Sequence[str]],
  predicted: Sequence[Sequence[str]],
  scheme: Scheme,
) -> Scores:
  """Scores predicted tags: counts entities, or words if tags have no scheme."""
  find = scheme.entities
  labelled: Counter[str] = Counter()  # numbers by type
  answered: Counter[str] = Counter()
  correct: Counter[str] = Counter()
  num_words = num_correct = 0
  for label_tags, tags in zip(labels, predicted, strict=True):
    num_correct += sum(a == b for a, b in zip(label_tags, tags, strict=True))
    num_words += len(tags)
    label_set, predicted_set = set(find(label_tags)), set(find(tags))
    labelled.update(e.entity_type for e in label_set)
    answered.update(e.entity_type for e in predicted_set)
    correct.update(e.entity_type for e in label_set & predicted_set)
  return Scores(
    Score(labelled.total(), answered.total(), correct.total()),
    {
      name: Score(labelled[name], answered[name], correct[name])
      for name in sorted(labelled | answered)
    },
    num_words,
    num_correct / num_words if num_words else 0.0,
    bool(scheme.name),
  )


def report(scores: Scores) -> str:
  """Formats scores, in percent, in the layout of conlleval."""

  def percent(score):
    ratios = f"precision: {score.precision:7.2%}; recall: {score.recall:7.2%}"
    return f"{ratios}; FB1: {100 * score.f1:6.2f}"

  overall = scores.overall
  tokens = f"processed {scores.words} tokens"
  accuracy = f"accuracy: {scores.accuracy:7.2%}"
  if scores.of_entities:
    phrases = f"{overall.labels} phrases; found: {overall.predicted} phrases"
    tokens += f" with {phrases}"
    accuracy += f"; {percent(overall)}"
  lines = [f"{tokens}; correct: {overall.correct}.", accuracy]
  for name, score in scores.by_type.items():
    lines.append(f"{name:>17}: {percent(score)}  {score.predicted}")
  return "\n".join(lines)


def score(
  logits: np.ndarray, tags: Sequence[str], sentences: Sequence[Sentence]
) -> Scores:
  """Computes and logs the scores of predictions for sentences with tags."""
  known = [sentence.tags or [] for sentence in sentences]
  predicted = best_tags(logits, tags, sentences)
  scores = evaluate(known, predicted, recognize(tags))
  logging.info("\n%s", report(scores))
  if scores.overall.labels and not scores.overall.predicted:
    logging.warning("the model predicts no entity, %s", metrics.UNTRAINED)
  return scores


def write_predictions(
  output_dir: str,
  split: str,
  logits: np.ndarray,
  tags: Sequence[str],
  sentences: Sequence[Sentence],
) -> None:
  """Writes <split>_predictions.tsv and <split>_predictions.conll.

  White space within a word becomes "_", for example in words of JSON lines.
  The .conll file has tags in the scheme of the file that was read.
  """
  path = os.path.join(output_dir, f"{split}_predictions")
  predicted = best_tags(logits, tags, sentences)
  table = [("line", "word", "prediction", *tags)]
  probs = iter(softmax(logits).astype(np.float32))
  for sentence, names in zip(sentences, predicted, strict=True):
    words = zip(sentence.lines, sentence.words, names, strict=True)
    for line, word, tag in words:
      word = re.sub(r"\s", "_", word)
      table.append((str(line), word, tag, *map(str, next(probs))))
  if scheme := sentences[0].scheme:
    convert = partial(recognize(tags).convert, target=scheme)
    predicted = [*map(convert, predicted)]
    sentences = [s._replace(tags=convert(s.tags or [])) for s in sentences]
  write_conll(f"{path}.conll", sentences, predicted)
  metrics.write_table(f"{path}.tsv", table)


def write_conll(
  path: str, sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]
) -> None:
  """Writes words, known tags and predicted tags, as conlleval reads them."""
  lines: list[str] = []
  for sentence, tags in zip(sentences, predicted, strict=True):
    known = [] if sentence.tags is None else [sentence.tags]
    columns = sentence.words, *known, tags
    for cells in zip(*columns, strict=True):
      lines.append(" ".join(re.sub(r"\s", "_", cell) for cell in cells))
    lines.append("")
  files.write_text(path, "\n".join([*lines, ""]))
  logging.info("wrote %s", path)


def best_tags(
  logits: np.ndarray, tags: Sequence[str], sentences: Sequence[Sentence]
) -> list[list[str]]:
  """The most probable tag of each word, in a list per sentence."""
  names = iter([tags[i] for i in np.argmax(logits, axis=-1)])
  return [[*islice(names, len(sentence.words))] for sentence in sentences]
