"""Names found in texts: precision, recall and F1, as conlleval counts them.

A name is right if its type and both its ends are. Tags may be IOB1, IOB2 or
BIOES, also mixed: a name begins with B- or S-, with any tag after O or after
another type, and after E- or S-.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from data import files
from data.tasks.conll import DOCUMENT_START, OUTSIDE, Sentence, parts


class Name(NamedTuple):
  """A name in a sentence: its type, its first word, and the word behind it."""

  kind: str
  begin: int
  end: int


@dataclass(frozen=True)
class Score:
  """How well names were found.

  Attributes:
    gold: how many there are.
    found: how many were predicted.
    right: how many of these are right.
  """

  gold: int
  found: int
  right: int

  @property
  def precision(self) -> float:
    """Share of the predicted names that are right; 0 if there are none."""
    return self.right / self.found if self.found else 0.0

  @property
  def recall(self) -> float:
    """Share of the names that were predicted; 0 if there are none."""
    return self.right / self.gold if self.gold else 0.0

  @property
  def f1(self) -> float:
    """Harmonic mean of precision and recall."""
    both = self.gold + self.found
    return 2 * self.right / both if both else 0.0


@dataclass(frozen=True)
class Scores:
  """Scores of a text.

  Attributes:
    overall: of all types together.
    by_type: of each type, sorted.
    words: how many there are.
    accuracy: share of the words whose tag is right, "O" among them.
  """

  overall: Score
  by_type: dict[str, Score] = field(default_factory=dict)
  words: int = 0
  accuracy: float = 0.0


def names(tags: Sequence[str]) -> list[Name]:
  """Finds the names of a sentence.

  Args:
    tags: of its words.

  Returns:
    Names from left to right.
  """
  found = []
  place, kind, begin = OUTSIDE, "", 0
  for word, tag in enumerate([*tags, OUTSIDE]):
    last, last_kind = place, kind
    place, kind = parts(tag)
    begins = place != OUTSIDE and (
      place in ("B", "S") or last in (OUTSIDE, "E", "S") or kind != last_kind
    )
    if last != OUTSIDE and (begins or place == OUTSIDE):
      found.append(Name(last_kind, begin, word))
    if begins:
      begin = word
  return found


def evaluate(
  gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> Scores:
  """Scores predicted tags.

  Args:
    gold: tags of each sentence.
    predicted: tags of each sentence, as many.

  Returns:
    The scores.

  Raises:
    ValueError: a sentence has another number of predicted tags, or there is
      another number of sentences.
  """
  counts = {"gold": Counter(), "found": Counter(), "right": Counter()}
  words = same = 0
  for real, guess in zip(gold, predicted, strict=True):
    same += sum(a == b for a, b in zip(real, guess, strict=True))
    words += len(real)
    ours, theirs = set(names(guess)), set(names(real))
    for key, found in zip(counts, (theirs, ours, ours & theirs), strict=True):
      counts[key].update(name.kind for name in found)
  kinds = sorted(counts["gold"] | counts["found"])
  return Scores(
    Score(*(counter.total() for counter in counts.values())),
    {kind: Score(*(c[kind] for c in counts.values())) for kind in kinds},
    words,
    same / words if words else 0.0,
  )


def report(scores: Scores) -> str:
  """Scores in percent as conlleval prints them, to be read and compared."""
  overall = scores.overall
  lines = [
    f"processed {scores.words} tokens with {overall.gold} phrases; "
    f"found: {overall.found} phrases; correct: {overall.right}.",
    f"accuracy: {scores.accuracy:7.2%}; {_percent(overall)}",
  ]
  for kind, score in scores.by_type.items():
    lines.append(f"{kind:>17}: {_percent(score)}  {score.found}")
  return "\n".join(lines)


def _percent(score):
  return (
    f"precision: {score.precision:7.2%}; recall: {score.recall:7.2%}; "
    f"FB1: {100 * score.f1:6.2f}"
  )


def write_predictions(
  path: str,
  sentences: Sequence[Sentence],
  predicted: Sequence[Sequence[str]],
) -> None:
  """Writes words, their tags where they are known, and the predicted tags.

  Columns are separated by a blank, as conlleval reads them; documents begin
  with -DOCSTART-, if there are several. Blanks within words become "_".

  Args:
    path: the file.
    sentences: what was predicted.
    predicted: tags of each sentence.
  """
  several = sentences[-1].document > 0
  lines, document = [], None
  for sentence, tags in zip(sentences, predicted, strict=True):
    known = sentence.tags is not None
    if several and sentence.document != document:
      lines += [" ".join([DOCUMENT_START] + [OUTSIDE] * (1 + known)), ""]
    document = sentence.document
    words = [re.sub(r"\s", "_", word) for word in sentence.words]
    columns = (words, sentence.tags, tags) if known else (words, tags)
    lines += map(" ".join, zip(*columns, strict=True))
    lines.append("")
  with files.open_for_writing(path) as file:
    file.write("\n".join([*lines, ""]).encode())
