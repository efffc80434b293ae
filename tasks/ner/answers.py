"""Tags the words of texts, and finds entities: W words, T tokens, L tags."""

import functools
import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from data import tokenization
from serving import answers
from serving.answers import Encoded, TextConfig, Texts, softmax, to_list
from tasks.ner.examples import BLANK, Sentence
from tasks.ner.records import TagRecordBuilder
from tasks.ner.schemes import recognize

# _WORD sees a stand-in for each character, by the Unicode category or its first
# letter; "à" if none is listed. Printable ASCII stands for itself.
_KINDS = {"Lu": "À", "N": "٠", "M": "ʰ", "S": "☺", "P": "§"}
_KINDS |= dict.fromkeys("’ʼ", "'") | dict.fromkeys("‐‑–", "-")
_CLITIC = r"'(?i:s|m|d|re|ve|ll)(?!\w)"
_PART = r"(?:(?!(?i:n't)(?!\w))[^\W_])+"
_WORD = re.compile(
  rf"""
  (?:https?://|www\.)[!#-;=?-~\w]*[\w/]  # an address on the web
  | [\w.+-]{{1,64}}+@[\w-]+(?:\.\w+)+  # an e-mail address
  | (?:@|\#(?!\d+\b))\w+ | {_CLITIC} | (?i:n't)(?!\w)  # @ann, #topic, 's
  | (?:(?i:mr|mrs|ms|dr|prof|st|jr|sr|inc|corp|co|ltd|vs)|[A-HJ-ZÀ])\.(?=[ ])
  | {_PART} (?:(?:
      \.?[-_&](?=\w) | '(?=[^\W\d_])(?!{_CLITIC[1:]}) | (?<=\d)[.,:/](?=\d)
      | \.(?=[a-zà\d]) | (?<=\b[^\W\d_])\.(?=\w) | \.(?=[^\W\d_]\.)
    ) {_PART})* (?:(?<=\.[^\W\d_])\. | \++(?!\w) | %)?  # U.S., C++, 5%
  | ☺[☺ʰ]* | ([-.!?*=~'`_])\1*ʰ* | [^ ]ʰ*
  """,
  re.VERBOSE,
)


class Answers(answers.Answers):
  """Implements serving.answers.Answers for models of run_ner.py.

  `split_words` splits a text into words; a list already has the words. A text
  of more than T tokens becomes several windows. A window tags some words of the
  text; the neighboring words in the text are the window's context.
  """

  task = "ner"
  word_lists = frozenset(["tokens"])

  def __init__(self, config: TextConfig):
    self.config = config
    self.settings = {}
    self.inputs = {"tokens": 0}
    self._labels = config.labels or ()
    limits = config.tokenizer, config.max_seq_length
    self._builder = TagRecordBuilder(*limits, tags=())
    self._scheme = recognize(self._labels)

  def encode(self, texts: Texts) -> Encoded:
    text, spans = split_words(texts["tokens"])
    # Training files with a character a line write a blank as BLANK.
    named = [text[start:end].strip() or BLANK for start, end in spans]
    sentences = [Sentence(named, None)] if named else []
    rows, windows = [], []
    for ids, _, window in self._builder.windows(sentences):
      rows.append(answers.row(ids, [0] * len(ids)))
      windows.append(window)
    return Encoded(rows, (text, spans, windows))

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """Returns entities, and words with tags, positions and probabilities."""
    text, spans, windows = encoded.context
    logits = [np.zeros([0, len(self._labels)], np.float32)]  # for an empty text
    for output, window in zip(outputs, windows, strict=True):
      logits.append(output["logits"][window.positions])
    return self.decode_words(text, spans, np.concatenate(logits))

  def decode_words(
    self, text: str, spans: Sequence[tuple[int, int]], logits: np.ndarray
  ) -> dict:
    """Makes an answer for the words at `spans`, whose logits are [W, L]."""
    probs = softmax(logits)
    tags = [self._labels[i] for i in logits.argmax(-1)]
    entities = []
    # Tags of single words, such as parts of speech, are not entities.
    phrases = self._scheme.entities(tags) if self._scheme.name else ()
    for label, first, last in phrases:
      start, end = spans[first][0], spans[last - 1][1]
      entity = {"label": label, "text": text[start:end], "start": start}
      probability = probs[first:last].max(-1).min()  # of the least certain word
      entity |= {"end": end, "probability": to_list(probability)}
      entities.append(entity)
    return {
      "end": [end for _, end in spans],
      "entities": entities,
      "labels": [*self._labels],
      "num_words": len(spans),
      "outside": self._scheme.outside if self._scheme.name else None,
      "probabilities": to_list(probs),
      "start": [start for start, _ in spans],
      "tags": tags,
      "words": [text[start:end] for start, end in spans],
    }


def split_words(text: str | Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
  """Returns a text and the [begin, end) of each word, split as in CoNLL files.

  In files such as CoNLL-2003's, a word may be larger than BERT's (German-born,
  U.S., Mr., 3.5), and clitics are words (IBM 's, do n't). A list of words is
  joined by blanks.
  """
  if not isinstance(text, str):
    starts = accumulate((len(word) + 1 for word in text), initial=0)
    return " ".join(text), [(begin, end - 1) for begin, end in pairwise(starts)]
  kinds = "".join(map(_kind, text))
  return text, [word.span() for word in _WORD.finditer(kinds)]


@functools.cache
def _kind(char: str) -> str:
  if " " < char < "\x7f":
    return char
  if char.isspace() or tokenization.is_cjk(char):
    return " " if char.isspace() else "、"
  is_removed = tokenization.is_removed(char)
  category = "M" if is_removed else unicodedata.category(char)
  names = (char, category, category[0])
  return next((_KINDS[name] for name in names if name in _KINDS), "à")
