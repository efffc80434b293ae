"""Checks that a vocabulary fits the model, the letter case and the texts."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from absl import logging

from data.tokenization import BasicTokenizer, FullTokenizer, strip_accents
from data.vocab import UNK

_UNUSED = re.compile(r"\[unused\d+\]")
_SPECIAL = re.compile(r"\[\w+\]")
# Maximum fraction of tokens with capitals or accents in a lower-cased
# vocabulary; released cased ones have a third or more.
_MAX_CASED = 0.05
# Minimum number of tokens with ASCII letters to judge the case by. With fewer,
# as in a Korean vocabulary, `warn_of_unknown` judges by the texts.
_MIN_WORDS = 50
_MAX_UNKNOWN = 0.1  # fraction of the words of a text
_CHARACTERS = 200_000  # of the texts that are read


def require_same(
  ids: Mapping[str, int], expected: Mapping[str, int], name: str, source: str
) -> None:
  """Checks that a vocabulary is the one that a model was trained with.

  New tokens may replace [unused] ones or follow the last one.

  Args:
    ids: ids by token.
    expected: those of the model.
    name: path of the vocabulary, for the message.
    source: path of the model's.

  Raises:
    ValueError: a token is missing or has another id; names the first line.
  """
  different = [
    index
    for token, index in expected.items()
    if token and ids.get(token) != index and not _UNUSED.fullmatch(token)
  ]
  if not different:
    return
  line = min(different)
  tokens, known = ({i: t for t, i in v.items()} for v in (ids, expected))
  raise ValueError(
    f"{name} is not the vocabulary of the model: line {line + 1} is "
    f"{tokens.get(line, 'missing')!r}, but {known[line]!r} in {source}, beside "
    "the checkpoint. Take that file; only its [unused] lines may be replaced"
  )


def warn_of_case(ids: Mapping[str, int], lower_case: bool, name: str) -> None:
  """Logs the result of `doubt_case` as a warning, once."""
  doubt = doubt_case(ids, lower_case)
  if doubt:
    text = f"--do_lower_case={lower_case}, but {name} {doubt}"
    logging.log_first_n(logging.WARNING, "%s", 1, text)


def doubt_case(ids: Mapping[str, int], lower_case: bool) -> str | None:
  """Compares the case of a vocabulary with --do_lower_case.

  Args:
    ids: ids by token.
    lower_case: the flag.

  Returns:
    The predicate of a sentence about the file, with a remedy; None if they
    seem to agree.
  """
  words = [token for token in ids if not _SPECIAL.fullmatch(token)]
  if lower_case:
    lost = [word for word in words if strip_accents(word.lower()) != word]
    if len(lost) <= _MAX_CASED * len(words):
      return None
    return (
      f"has {len(lost)} of {len(words)} tokens with capitals or accents, which "
      f"no text gives then ({', '.join(lost[:3])}): --do_lower_case=False is "
      "for such a vocabulary"
    )
  plain = [word for word in words if re.search("[A-Za-z]", word)]
  if len(plain) < _MIN_WORDS or any(word != word.lower() for word in words):
    return None
  return (
    "has no token with a capital letter, so that words with one are unknown: "
    "--do_lower_case=True is for such a vocabulary"
  )


def warn_of_unknown(
  texts: Iterable[str], tokenizer: FullTokenizer, name: str
) -> None:
  """Logs a warning if many words of a sample become [UNK], once in a process.

  Args:
    texts: the first 200,000 characters are used.
    tokenizer: the texts' tokenizer.
    name: of the file or files.
  """
  words, characters = Counter(), 0
  for text in texts:
    words.update(text.split())
    characters += len(text)
    if characters > _CHARACTERS:
      break
  lower_case = tokenizer.basic_tokenizer.do_lower_case
  fraction, example = _unknown(words, tokenizer, lower_case)
  if fraction < _MAX_UNKNOWN:
    return
  remedy = (
    "the vocabulary has no pieces for them: take a model that knows the "
    "language, or learn a vocabulary with build_vocab.py"
  )
  other, _ = _unknown(words, tokenizer, not lower_case)
  if other < fraction / 2:
    remedy = (
      f"with --do_lower_case={not lower_case} it would be {100 * other:.0f} %"
    )
  logging.log_first_n(
    logging.WARNING,
    "%s: %.0f %% of the words become %s, such as %r; %s",
    1,
    *(name, 100 * fraction, UNK, example, remedy),
  )


def _unknown(words, tokenizer, lower_case) -> tuple[float, str]:
  """Fraction of words that become [UNK], and the most frequent of them."""
  split = BasicTokenizer(lower_case).tokenize
  total, unknown = 0, Counter()
  for text, number in words.items():
    for word in split(text):
      total += number
      if tokenizer.wordpiece_tokenizer.tokenize(word) == [UNK]:
        unknown[word] += number
  [(example, _)] = unknown.most_common(1) or [("", 0)]
  return unknown.total() / max(total, 1), example
