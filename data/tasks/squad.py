"""SQuAD 1.1 and 2.0: JSON files to questions about words.

A paragraph is taken apart at whitespace, and an answer, given in characters,
is found again among the words. What the model sees of them is the business of
data/tasks/squad_windows.py.
"""

import bisect
import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

from data import files

# Whitespace is what the original's reader takes for it, and nothing else: a
# no-break space (U+00A0) stays within its word.
_WORD = re.compile("[^ \t\r\n\u202f]+")

_LAYOUT = (
  "a SQuAD file is {data: [{paragraphs: [{context, qas: [{id, question, "
  "answers: [{text, answer_start}]}]}]}]}, and version 2.0 adds is_impossible "
  "to a question"
)
_SKIPPED = (
  "%d of %d questions are left out of training: their answers are not among "
  "the words of the paragraph"
)
_NAMES = {
  str: "a string",
  int: "an integer",
  bool: "true or false",
  list: "a list",
}


class Answer(NamedTuple):
  """Where an answer is.

  Attributes:
    text: the answer, as the annotator marked it.
    start: the word in which it begins.
    end: the word in which it ends.
  """

  text: str
  start: int
  end: int


class Example(NamedTuple):
  """A question about a paragraph.

  Attributes:
    qas_id: the question's id.
    question: its text.
    words: the paragraph; questions about the same one share the list.
    answer: for training; None in prediction, and where there is no answer.
  """

  qas_id: str
  question: str
  words: list[str]
  answer: Answer | None = None


def read(
  paths: Sequence[str],
  is_training: bool = False,
  version_2_with_negative: bool = False,
) -> list[Example]:
  """Reads the questions of SQuAD files.

  As read_squad_examples of the original's run_squad.py does. In training, an
  answer that the words of its paragraph do not contain (odd whitespace, as a
  rule) is skipped with a warning.

  Args:
    paths: JSON files.
    is_training: whether to read the answers; each question must have one.
    version_2_with_negative: whether questions may have none.

  Returns:
    Questions in the order of the files.

  Raises:
    OSError: a file cannot be read.
    ValueError: a file is not of SQuAD's layout; names file and question.
  """
  examples = []
  skipped = 0
  for where, paragraph, question in _questions(paths):
    text = _get(question, "question", where, str)
    example = Example(question["id"], text, paragraph.words)
    if is_training and not (
      version_2_with_negative and _is_impossible(question, where)
    ):
      answer = paragraph.locate(_only_answer(question, where), where)
      if answer is None:
        skipped += 1
        continue
      example = example._replace(answer=answer)
    examples.append(example)
  if skipped:
    logging.warning(_SKIPPED, skipped, skipped + len(examples))
  return examples


def training_order(examples: Sequence[Example]) -> list[Example]:
  """Shuffles questions as the original does before it makes records."""
  shuffled = list(examples)
  random.Random(12345).shuffle(shuffled)
  return shuffled


def articles(path: str) -> list[dict[str, Any]]:
  """Reads a SQuAD file as it is: the list under "data".

  Raises:
    OSError: the file cannot be read.
    ValueError: it is empty, not JSON, or has no such list.
  """
  with files.open_for_reading(path) as file:
    content = file.read()
  if not content.strip():
    raise ValueError(f"{path} is empty; {_LAYOUT}")
  try:
    document = json.loads(content)
  except (ValueError, RecursionError) as error:  # also what is not UTF-8
    raise ValueError(
      f"{path} is not JSON ({error}); if it breaks off, fetch it again"
    ) from error
  return _get(document, "data", path, list)


class _Paragraph:
  """The words of a paragraph, and where they are.

  Attributes:
    words: what is between whitespace.
  """

  def __init__(self, context: str):
    found = list(_WORD.finditer(context))
    self.words = [match.group() for match in found]
    self._starts = [match.start() for match in found]
    self._length = len(context)

  def locate(self, answer: Any, where: str) -> Answer | None:
    """Finds the words of an answer; None if they are not there."""
    text = _get(answer, "text", where, str)
    first = _get(answer, "answer_start", where, int)
    last = first + len(text) - 1
    if text and (first < 0 or last >= self._length):
      raise ValueError(
        f"{where}: an answer of {len(text)} characters with answer_start "
        f"{first} is not within the context of {self._length} characters; "
        "count from 0, and characters, not bytes"
      )
    start, end = self._word_at(first), self._word_at(last)
    # An answer that begins in blanks before the first word begins at -1 and
    # is not found, unless there is no other word.
    found = " ".join(self.words[start : end + 1])
    wanted = " ".join(text.split())
    if not wanted or wanted not in found:
      logging.warning(
        "%s: Could not find answer: '%s' vs. '%s'", where, found, wanted
      )
      return None
    return Answer(text, max(start, 0), end)

  def _word_at(self, character: int) -> int:
    """The word that a character is in or behind; -1 before the first."""
    return bisect.bisect_right(self._starts, character) - 1


def _questions(paths: Sequence[str]) -> Iterator[tuple[str, _Paragraph, Any]]:
  """All questions, each with its paragraph and the name of its place."""
  for path in paths:
    for i, article in enumerate(articles(path)):
      place = f"{path}, article {i}"
      for j, item in enumerate(_get(article, "paragraphs", place, list)):
        where = f"{place}, paragraph {j}"
        paragraph = _Paragraph(_get(item, "context", where, str))
        for question in _get(item, "qas", where, list):
          # Numbers are let pass as ids: the original takes them too.
          name = _get(question, "id", where, str, int)
          yield f"{path}, question {name}", paragraph, question


def _is_impossible(question: Any, where: str) -> bool:
  # Questions of version 1.1, which do not say, may be mixed in.
  if "is_impossible" not in question:
    return False
  return _get(question, "is_impossible", where, bool)


def _only_answer(question: Any, where: str) -> Any:
  answers = _get(question, "answers", where, list)
  if len(answers) != 1:
    raise ValueError(
      f"{where} has {len(answers)} answers; for training, each question should "
      'have exactly one, or "is_impossible": true and the flag '
      "--version_2_with_negative"
    )
  return answers[0]


def _get(holder: Any, key: str, where: str, *types: type) -> Any:
  """What a JSON object holds under a key, if it is of one of the types."""
  if not isinstance(holder, dict):
    problem = f'{_short(holder)} is not an object with "{key}"'
  elif key not in holder:
    problem = f'"{key}" is missing'
  elif type(holder[key]) not in types:
    wanted = " or ".join(_NAMES[each] for each in types)
    problem = f'"{key}" is {_short(holder[key])} and not {wanted}'
  else:
    return holder[key]
  raise ValueError(f"{where}: {problem}; {_LAYOUT}")


def _short(value: Any) -> str:
  text = json.dumps(value)
  return text if len(text) <= 60 else f"{text[:56]} ..."
