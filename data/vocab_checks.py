"""Warns of texts that do not fit a vocabulary. Most warnings appear only once.

Lower-casing decomposes text (NFD) and drops non-spacing marks: Hangul syllables
become Jamo; Thai, Devanagari and others lose vowels.
"""

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any

from absl import logging

from data.tokenization import open_tokenizer, strip_accents
from data.vocab import Tokenizer
from storage import files, number_of, setting

# Scripts whose accents an uncased model is meant to lose.
_ACCENTED = ("LATIN", "GREEK", "CYRILLIC", "ARABIC", "HEBREW", "COMBINING")
_MIN_LETTERS = 0.1  # fraction of letters; a rarer script is in foreign words
_MIN_CHANGED = 0.01  # of a script's letters; fewer changed ones are rare signs
_MAX_UNKNOWN = 0.1  # fraction of the words; a larger one gives a warning
_TEXTS, _FILES, _CHARACTERS = 1000, 20, 200_000  # limits of a sample


def sample(
  paths: Sequence[str],
  read: Callable[[str], Iterable[str]],
  ends: Sequence[str] = (),
) -> Iterable[str]:
  """Yields the first lines of some files, and `ends` after a complete file."""
  # A pipe can be read only once.
  regular = [p for p in paths if files.is_remote(p) or os.path.isfile(p)]
  some = _spread(regular, _FILES)
  number = _TEXTS // max(len(some), 1)
  texts = (islice(chain(read(path), ends), number) for path in some)
  return chain.from_iterable(texts)


def _spread(items, number):
  """About `number` evenly spaced items of a sequence."""
  return items[:: max(1, -(-len(items) // number))]


def warn_of_examples(
  texts: Callable[[Any], Iterable[str | None]],
  examples: Sequence[Any],
  tokenizer: Tokenizer,
  name: str,
) -> None:
  """Calls `warn_of_texts` with `texts(example)` for some of the examples."""
  some = map(texts, _spread(examples, _TEXTS))
  warn_of_texts(chain.from_iterable(some), tokenizer, name)


def warn_of_texts(
  texts: Iterable[str | None], tokenizer: Tokenizer, name: str
) -> None:
  """Warns of a script that lower-casing damages, and of many unknown words."""
  present = [text for text in texts if text]
  if tokenizer.do_lower_case:
    warn_of_scripts(present, name, tokenizer.vocab)
  fraction, example = _unknown(present, tokenizer)
  if fraction < _MAX_UNKNOWN:
    return
  remedy = (
    "the vocabulary has no pieces for them: take a model that knows the "
    "language, or learn a vocabulary with build_vocab.py"
  )
  lower = not tokenizer.do_lower_case
  other = _unknown(present, open_tokenizer(tokenizer.vocab_file, lower))[0]
  if other < fraction / 2:
    remedy = f"with {setting('do_lower_case', lower)}"
    remedy += f" it would be {100 * other:.0f} %"
  composed = [unicodedata.normalize("NFC", text) for text in present]
  if (other := _unknown(composed, tokenizer)[0]) < fraction / 2:
    remedy = "they are decomposed (NFD); composed (NFC) it would be "
    remedy += f"{100 * other:.0f} %: convert the text, see docs/languages.md"
  text = f"{name}: {100 * fraction:.0f} % of the words become "
  text += f"{tokenizer.special.unknown}, such as {example!r}; {remedy}"
  logging.log_first_n(logging.WARNING, text, 1)


def _unknown(texts, tokenizer) -> tuple[float, str]:
  """Fraction of unknown words, and the most frequent unknown word."""
  counts: Counter[str] = Counter()
  for text, number in _count_words(texts).items():
    for word in tokenizer.words(text):
      counts[word] += number
  unknown = [tokenizer.special.unknown]
  lost = [w for w in counts if tokenizer.tokenize(w) == unknown]
  example = max(lost, key=counts.__getitem__, default="")
  number = sum(counts[word] for word in lost)
  return number / max(counts.total(), 1), example


def _count_words(texts) -> Counter:
  """Counts the pieces between blanks in the first 200,000 characters."""
  words: Counter[str] = Counter()
  characters = 0
  for text in texts:
    words.update(text.split())
    characters += len(text)
    if characters > _CHARACTERS:
      break
  return words


def warn_of_scripts(
  texts: Iterable[str], name: str, vocabulary: Iterable[str] | None = None
) -> None:
  """Warns of the most frequent script that lower-casing damages."""
  words = _count_words(texts)
  scripts: defaultdict[str, Counter] = defaultdict(Counter)  # letters by script
  for word, number in words.items():
    for char in word:
      if unicodedata.category(char)[0] in "LM":
        # A character's name begins with the script; both Kana are one script.
        [script] = re.findall("^[^ -]*", unicodedata.name(char, "LATIN"))
        script = re.sub("HIRAGANA|KATAKANA", "KANA", script)
        scripts[script][char] += number
  total = sum(letters.total() for letters in scripts.values())
  for script in sorted(scripts, key=lambda s: scripts[s].total(), reverse=True):
    letters = scripts[script]
    changed = {char for char in letters if strip_accents(char) != char}
    fraction = letters.total() / total
    lost = sum(letters[char] for char in changed) / letters.total()
    is_rare = fraction < _MIN_LETTERS or lost < _MIN_CHANGED
    if script not in _ACCENTED and not is_rare:
      text = f"{name}: {100 * fraction:.0f} % of the letters are "
      text += f"{script.title()}, {_advice(script, words, changed, vocabulary)}"
      logging.log_first_n(logging.WARNING, f"{text}; see docs/languages.md", 1)
      return


def _advice(script, words, changed, vocabulary) -> str:
  """Tells what lower-casing does to the shortest word, and the remedy.

  The word is one of `words` and has a letter of `changed`, the letters that
  lower-casing changes.
  """
  word = min((word for word in words if changed & set(word)), key=len)
  first = next(i for i, char in enumerate(word) if char in changed)
  word = word[max(0, first - 4) : first + 8]
  lower, given = strip_accents(word), setting("do_lower_case", True)
  change = f"{word!r} becomes {lower!r}"
  effect = f"loses vowels or other signs with {given} ({change})"
  if script == "HANGUL":
    sizes = f"{number_of(len(word), 'character')}, becomes {len(lower)}"
    effect = f"{given} splits into Jamo ({word!r}, {sizes})"
  cased = setting("do_lower_case", False)
  remedy = f"learn a vocabulary with build_vocab.py {cased}, or take a cased "
  remedy += f"model that knows the language, with {cased}"
  if vocabulary is None:
    remedy = f"give {cased}, here and to every program that uses the vocabulary"
  elif any(changed & set(token) for token in vocabulary):
    remedy = f"give {cased}: the vocabulary has such letters"
  return f"which {effect}; {remedy}"


def warn_of_decomposed(texts: Iterable[str], name: str) -> None:
  """Warns if over a tenth of the words in a sample are decomposed (NFD)."""
  words = _count_words(texts)
  normal = {word: unicodedata.normalize("NFC", word) for word in words}
  number = sum(n for word, n in words.items() if len(normal[word]) < len(word))
  if number > _MAX_UNKNOWN * words.total():
    logging.warning(
      f"{name}: {100 * number / words.total():.0f} % of the words are "
      "decomposed (NFD), and a vocabulary of such words does not know usual "
      "texts (NFC): convert the text, see docs/languages.md"
    )
