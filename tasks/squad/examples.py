"""Reads SQuAD 1.1 and 2.0: questions, with answers as spans of words."""

import bisect
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

from storage import UserError, files, number_of, textfiles

# White space of the original's reader does not include U+00A0 (no-break space).
WORD = re.compile("[^ \t\r\n\u202f]+")
_LAYOUT = (
  "a SQuAD file is {data: [{paragraphs: [{context, qas: [{id, question, "
  "answers: [{text, answer_start}]}]}]}]}, and version 2.0 adds is_impossible "
  "to a question"
)


class Answer(NamedTuple):
  """An answer and the indices of its first and last word."""

  text: str
  start: int
  end: int


class SquadExample(NamedTuple):
  """A question about a paragraph."""

  qas_id: str
  question: str
  doc_tokens: list[str]  # the same list for all questions of the paragraph
  # The answer to train on; None in prediction and for an impossible question.
  answer: Answer | None = None
  # The annotators' answers, for scores; None if the file has no answers.
  answer_texts: list[str] | None = None


def read_examples(
  paths: Sequence[str],
  is_training: bool = False,
  version_2_with_negative: bool = False,
) -> list[SquadExample]:
  """Reads the questions of SQuAD files like the original's read_squad_examples.

  Training skips a question, with a warning, if the paragraph does not contain
  the first answer. Raises OSError, or ValueError with file and question for a
  wrong layout. In training without `version_2_with_negative`, a question
  without an answer raises ValueError, too.
  """
  examples = []
  total = several = 0
  for source, paragraph, question in _questions(paths):
    total += 1
    asked = _get(question, "question", source, str)
    example = SquadExample(question["id"], asked, paragraph.words)
    if not is_training:
      if question.get("answers") is not None:
        answers = _get(question, "answers", source, list)
        known = [_get(answer, "text", source, str) for answer in answers]
        example = example._replace(answer_texts=known)
    # Questions of SQuAD 1.1 lack the field; a file may have both kinds.
    elif not (
      version_2_with_negative
      and "is_impossible" in question
      and _get(question, "is_impossible", source, bool)
    ):
      answers = _get(question, "answers", source, list)
      if not answers:
        raise UserError(
          f"{source} has no answers; for training, each question should have "
          'one, or "is_impossible": true and the flag --version_2_with_negative'
        )
      several += len(answers) > 1
      answer = paragraph.locate(answers[0], source)
      if answer is None:
        continue
      example = example._replace(answer=answer)
    examples.append(example)
  if not total:
    raise UserError(f"{paths[0]} has no questions; {_LAYOUT}")
  _warn(examples, is_training, several, total)
  return examples


def _warn(examples, is_training, several, total):
  if several:
    text = "%s with several answers: training uses the first"
    logging.warning(text, number_of(several, "question"))
  if skipped := total - len(examples):
    text = "left out of training: %d of %s, with no answer in the text's words"
    logging.warning(text, skipped, number_of(total, "question"))
  ids = [example.qas_id for example in examples]
  if (repeated := len(ids) - len({*ids})) and not is_training:
    [(name, _)] = Counter(ids).most_common(1)
    logging.warning(
      "%d repeated question ids, such as %s; predictions have only the last "
      "answer to an id, so scores are wrong: give each question its own id",
      *(repeated, name),
    )


def training_order(examples: Sequence[SquadExample]) -> list[SquadExample]:
  """Shuffles questions as the original does before it makes records."""
  shuffled = list(examples)
  random.Random(12345).shuffle(shuffled)
  return shuffled


class _Paragraph(NamedTuple):
  words: list[str]
  starts: list[int]  # positions of the words in the text
  length: int  # of the text

  def locate(self, answer: object, source: str) -> Answer | None:
    """Finds an answer's words; None, with a warning, if they are missing."""
    text = _get(answer, "text", source, str)
    expected = " ".join(text.split())
    first = _get(answer, "answer_start", source, int)
    last = first + len(text) - 1
    if expected and not 0 <= first <= last < self.length:
      raise UserError(
        f"{source}: an answer of {len(text)} characters with answer_start "
        f"{first} is not within the context of {self.length} characters; "
        "count from 0, and characters, not bytes"
      )
    # The original's rule: -1 for an answer that begins in whitespace before the
    # first word. The slice from -1 is empty, unless there is a single word.
    start = bisect.bisect_right(self.starts, first) - 1
    end = bisect.bisect_right(self.starts, last) - 1
    words = " ".join(self.words[start : end + 1])
    if not expected or expected not in words:
      text = "%s: Could not find answer: '%s' vs. '%s'"
      logging.warning(text, source, words, expected)
      return None
    return Answer(text, max(start, 0), end)


def _questions(paths: Sequence[str]) -> Iterator[tuple[str, _Paragraph, dict]]:
  """Yields each question: name for messages, paragraph, JSON object."""
  for path in paths:
    with files.open_for_reading(path) as file:
      content = file.read()
    try:
      document = textfiles.parse_json(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
      text = f"{path} is not JSON in UTF-8 ({error}); {_LAYOUT}"
      raise UserError(text) from error
    for i, article in enumerate(_get(document, "data", path, list)):
      source = f"{path}, article {i}"
      for j, item in enumerate(_get(article, "paragraphs", source, list)):
        within = f"{source}, paragraph {j}"
        context = _get(item, "context", within, str)
        matches = [*WORD.finditer(context)]
        words, starts = [m[0] for m in matches], [m.start() for m in matches]
        paragraph = _Paragraph(words, starts, len(context))
        for question in _get(item, "qas", within, list):
          if isinstance(question, dict) and "guid" in question:  # KLUE-MRC
            question.setdefault("id", question["guid"])
          # The original accepts numbers as ids, too.
          name = _get(question, "id", within, str, int)
          yield f"{path}, question {name}", paragraph, question


def _get(parent: object, key: str, source: str, *types: type) -> Any:
  """Value of a key in a JSON object; ValueError if missing or of wrong type."""
  value = parent.get(key) if isinstance(parent, dict) else None
  if type(value) not in types:
    expected = " or ".join(kind.__name__ for kind in types)
    raise UserError(
      f'{source}: expected "{key}" ({expected}) in {json.dumps(parent):.60}; '
      f"{_LAYOUT}"
    )
  return value
