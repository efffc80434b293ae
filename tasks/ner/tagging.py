"""Settings of run_ner.py; reads, checks and converts the tags of files."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from absl import logging

from cli.settings import common, flag
from data import labels
from modeling.config import FEATURE_LAYERS
from runs.settings import Packing
from runs.task_settings import EvaluatedFineTuning
from storage import UserError, number_of
from tasks.ner import examples, schemes
from tasks.ner.examples import Columns, Sentence
from tasks.ner.schemes import PATTERNS, Scheme, recognize

TARGETS = ("BIO", "BIOES")  # choices of --tag_scheme
Read = dict[str, list[Sentence]]  # sentences of files that have been read
_REMEDY = "--tag_scheme=BIO, or BIOES, converts all files; train with it, too"


@dataclass(frozen=True, kw_only=True)
class Settings(EvaluatedFineTuning, Packing):
  """Flags of run_ner.py."""

  not_packed = ("document_context", "feature_based")

  train_file: str | None = common(
    None, "CoNLL file or JSON lines to train on.", training=False
  )
  dev_file: str | None = common(
    None, "CoNLL file or JSON lines to evaluate on.", training=False
  )
  test_file: str | None = common(
    None, "CoNLL file or JSON lines to tag; tags are optional.", training=False
  )
  word_column: int = flag(0, "Column of the words.")
  tag_column: int = flag(-1, "Column of the tags; -1 for the last.")
  tag_scheme: str | None = flag(
    None, "Scheme to which tags are converted.", choices=TARGETS
  )
  max_seq_length: int = common(128, "Maximum number of tokens.", minimum=3)
  document_context: bool = flag(
    False, "Add the document's text, up to --max_seq_length; not in exports."
  )
  feature_based: bool = flag(False, "Train an LSTM on a frozen BERT.")
  feature_layers: str = flag(
    "concat_last_four", "The LSTM's input.", choices=tuple(FEATURE_LAYERS)
  )
  lstm_units: int = flag(768, "LSTM units in each direction.", minimum=1)


def tag_set(
  sentences: Iterable[Sentence], letters: Iterable[str] = ()
) -> tuple[str, ...]:
  """Lists a model's tags: "O", then all other tags, by type and letter.

  Every type gets all `letters`, and all letters that any type has. So B-PER,
  I-PER and B-LOC in the sentences make I-LOC a tag, too. Tags of single words
  have no "O".
  """
  tags = _used(sentences)
  scheme = recognize(tags)
  if not scheme.name:
    return tuple(sorted(tags))
  parts = scheme.parts.items()
  typed = [part for tag, part in parts if part[1] and scheme.tag(*part) == tag]
  letters = {*letters, *(letter for letter, _ in typed)}
  tags |= {scheme.tag(letter, kind) for _, kind in typed for letter in letters}
  scheme = recognize(tags)
  tags.discard(scheme.outside)
  by_type = sorted(tags, key=lambda tag: (scheme.split(tag)[1], tag))
  return (scheme.outside, *by_type)


def _used(sentences) -> set[str]:
  return {tag for sentence in sentences for tag in sentence.tags or ()}


def find_tags(
  train_file: str, columns: Columns, read: Read, tag_scheme: str | None = None
) -> labels.LabelSet:
  """Lists a training file's tags. Raises ValueError for a single tag."""
  sentences = read[train_file] = examples.read_sentences(train_file, *columns)
  words = {word for sentence in sentences for word in sentence.words}
  if schemes.OUTSIDE in words and words <= recognize(words).parts.keys():
    raise UserError(
      f"{train_file}: the words are tags, such as {min(words)!r}; give "
      f"--word_column={columns[1]} --tag_column={columns[0]}"
    )
  used = _used(sentences)
  if used and all(re.fullmatch('".+"', tag) for tag in used):
    raise UserError(
      f"{train_file}: words and tags are in quotes: write them without, in R "
      "by quote=FALSE"
    )
  if tag_scheme:
    scheme = find_scheme(sentences)
    sentences = _convert(train_file, sentences, scheme, tag_scheme)
  tags = tag_set(sentences, PATTERNS[tag_scheme] if tag_scheme else ())
  if len(tags) < 2:
    raise UserError(
      f"{train_file}: every tag is {tags[0]!r}; is that the right column?"
    )
  return labels.LabelSet(tags, train_file)


def read_tagged(
  path: str,
  columns: Columns,
  read: Read,
  tags: Sequence[str],
  needs_tags: bool,
  tag_scheme: str | None = None,
) -> list[Sentence]:
  """Reads sentences; they have tags only if the model knows every tag.

  `read` has sentences of files that were read before; this function removes
  the sentences that it returns. Converts tags to `tag_scheme`, if given. Raises
  OSError, or ValueError for an unknown layout. With `needs_tags`, tags that are
  missing or unknown raise ValueError, too.
  """
  sentences = read.pop(path, [])
  try:
    sentences = sentences or examples.read_sentences(path, *columns)
    scheme = find_scheme(sentences, tags)
    logging.info("%s: tag scheme %s", path, scheme)
    used = _used(sentences)
    if used <= {*schemes.OUTSIDES} and not needs_tags:
      raise UserError(f"{path}: all tags are {', '.join(sorted(used))}")
    if schemes.is_doubtful(scheme, used):
      text = "%s: %s are in no known scheme (%s). Each counts as a type. "
      text += "Does it lack a prefix such as B- (a letter and a separator)?"
      some = ", ".join(map(repr, sorted(used)[:3]))
      logging.warning(text, path, some, ", ".join(PATTERNS))
    counts = Counter(tag for one in sentences for tag in one.tags or ())
    [(most, _)] = counts.most_common(1) or [("", 0)]
    outsides = {*filter(str.isalpha, schemes.OUTSIDES), "NIL", "NULL", "X"}
    if not scheme.name and most.upper() in outsides:
      text = "%s: %s is a tag like all others, so accuracy is computed, not F1."
      text += " Does it stand outside of entities? Then write O"
      logging.warning(text, path, most)
    if other := _first_line(sentences, scheme.others):
      text = "%s, %s is in no scheme, and counts as a type: is it a mistake?"
      logging.warning(text, path, other)
    if tag_scheme:
      sentences = _convert(path, sentences, scheme, tag_scheme, tags)
    else:
      _check_scheme(path, sentences, scheme, tags)
    if unknown := _first_line(sentences, _used(sentences) - {*tags}):
      raise UserError(
        f"{path}, {unknown} is none of the model's tags, which are "
        f"{labels.known_labels(tags)}"
      )
  except ValueError as error:
    if needs_tags:
      raise
    words = sentences or examples.read_sentences(path, columns[0], None)
    if sentences or examples.has_tags(path, columns):
      logging.warning("words are tagged, but nothing is scored: %s", error)
    else:
      logging.info("%s has no tags: words are tagged, but not scored", path)
    return [sentence._replace(tags=None, scheme=None) for sentence in words]
  all_tags = [tag for sentence in sentences for tag in sentence.tags or ()]
  labels.log_labels(path, all_tags, unit="word")
  return sentences


def _first_line(sentences, tags: Collection[str]) -> str:
  """Names the first line with one of the tags: "line 7: 'B-X'"; or ""."""
  for sentence in sentences if tags else ():
    for line, tag in zip(sentence.lines, sentence.tags or (), strict=True):
      if tag in tags:
        return f"line {line}: {tag!r}"
  return ""


def find_scheme(
  sentences: Sequence[Sentence], known: Collection[str] = ()
) -> Scheme:
  """Finds the scheme of a file's tags.

  If the model's tags, `known`, include these tags, `known` gives the layout.
  """
  used = _used(sentences)
  scheme = recognize(known if used <= {*known} else used)
  if not scheme.layout:
    return scheme
  names = dict.fromkeys((scheme.name, "BIO", "IOB1"))
  schemes = [scheme._replace(name=name) for name in names]
  # The first scheme with the fewest misfits.
  return min(schemes, key=lambda one: len(misfits(sentences, one, one)))


def misfits(
  sentences: Sequence[Sentence], scheme: Scheme, other: Scheme
) -> list[str]:
  """Lists, for messages, tags that the scheme `other` writes differently."""
  return [
    f"line {line}: {tag!r}, where {other} has {expected!r}"
    for s in sentences
    if s.tags != (wanted := scheme.convert(s.tags or (), other))
    for line, tag, expected in zip(s.lines, s.tags or (), wanted, strict=True)
    if tag != expected and tag not in scheme.others
  ]


def _check_scheme(path, sentences, scheme, tags) -> None:
  """Warns of mixed schemes; raises ValueError if the model's scheme differs."""
  if odd := misfits(sentences, scheme, scheme):
    number = number_of(len(odd), "word")
    text = "%s, %s (%s): scored as by conlleval. If schemes are mixed, %s"
    logging.warning(text, path, odd[0], number, _REMEDY)
  used = _used(sentences)
  own, model = recognize(used), recognize(tags)
  if own[:2] == model[:2] or not own.name or not model.name:
    return
  # Evaluations convert between BIO and IOB1: metrics.in_learned_scheme.
  is_alike = {own.name, model.name} == {"BIO", "IOB1"} and used <= {*tags}
  if not is_alike and (odd := misfits(sentences, scheme, model)):
    raise UserError(
      f"{path}, {odd[0]}, as the model's tags have. Does the training file mix "
      f"schemes? {_REMEDY}"
    )


def _convert(path, sentences, scheme, tag_scheme, known=()) -> list[Sentence]:
  """Converts tags to --tag_scheme, which must fit the model's tags, `known`."""
  other = _first_line(sentences, scheme.others)
  if other or not scheme.name:
    raise UserError(
      f"{path}, {other or 'tags of single words'}: no scheme that "
      "--tag_scheme can convert; correct the tag, or leave out the flag"
    )
  letters, model = {schemes.OUTSIDE, *PATTERNS[tag_scheme]}, recognize(known)
  if odd := [tag for tag in known if model.split(tag)[0] not in letters]:
    raise UserError(
      f"{path}: --tag_scheme={tag_scheme} has no {odd[0]!r}, which is a tag of "
      "the model: give --tag_scheme as in the training"
    )
  target = Scheme(tag_scheme)
  return [
    s._replace(tags=scheme.convert(s.tags, target), scheme=scheme)
    for s in sentences
  ]
