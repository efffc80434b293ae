"""Settings of run_ner.py; reads, checks and converts the tags of files."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from absl import logging

from cli.settings import common, flag
from data import labels
from modeling.config import FEATURE_LAYERS
from runs.settings import Packing, data_path
from runs.task_settings import EvaluatedFineTuning
from storage import UserError, number_of
from tasks.ner import examples
from tasks.ner.examples import Columns, Sentence
from tasks.ner.schemes import OUTSIDE, PATTERNS, Scheme, recognize

TARGETS = ("BIO", "BIOES")  # choices of --tag_scheme
_REMEDY = "--tag_scheme=BIO, or BIOES, converts all files; train with it, too"


@dataclass(frozen=True, kw_only=True)
class Settings(EvaluatedFineTuning, Packing):
  """Flags of run_ner.py."""

  not_packed = ("document_context", "feature_based")

  train_file: str | None = data_path("CoNLL file or JSON lines to train on.")
  dev_file: str | None = data_path("CoNLL file or JSON lines to evaluate on.")
  test_file: str | None = data_path(
    "CoNLL file or JSON lines to tag; tags are optional."
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
  train_file: str, columns: Columns, tag_scheme: str | None = None
) -> labels.LabelSet:
  """Lists a training file's tags. Raises ValueError for a single tag."""
  sentences = examples.read_sentences(train_file, *columns)
  words = {word for sentence in sentences for word in sentence.words}
  if OUTSIDE in words and words <= recognize(words).parts.keys():
    raise UserError(
      f"{train_file}: the words are tags, such as {min(words)!r}; give "
      f"--word_column={columns[1]} --tag_column={columns[0]}"
    )
  scheme = find_scheme(sentences)
  sentences = _converted(train_file, sentences, scheme, tag_scheme)
  tags = tag_set(sentences, PATTERNS[tag_scheme] if tag_scheme else ())
  if len(tags) < 2:
    raise UserError(
      f"{train_file}: every tag is {tags[0]!r}; is that the right column?"
    )
  remedy = "Correct the tag, or give examples of it in both files"
  return labels.LabelSet(tags, train_file, remedy)


def read_tagged(
  path: str,
  columns: Columns,
  tags: Sequence[str],
  needs_tags: bool,
  tag_scheme: str | None = None,
) -> list[Sentence]:
  """Reads sentences; they have tags only if the model knows every tag.

  Converts tags to `tag_scheme`, if given. Raises OSError, or ValueError for an
  unknown layout and, with `needs_tags`, for missing or unknown tags.
  """
  sentences: list[Sentence] = []
  try:
    sentences = examples.read_sentences(path, *columns)
    scheme = find_scheme(sentences, tags)
    logging.info("%s: tag scheme %s", path, scheme)
    if other := _first_line(sentences, scheme.others):
      text = "%s, %s is in no known scheme (%s), so it is a type: a mistake?"
      logging.warning(text, path, other, ", ".join(PATTERNS))
    if odd := _misfits(sentences, scheme, scheme):
      number = number_of(len(odd), "word")
      text = "%s, %s (%s): scored as by conlleval. If schemes are mixed, %s"
      logging.warning(text, path, odd[0], number, _REMEDY)
    tagged = _converted(path, sentences, scheme, tag_scheme)
    _check_tags(path, tagged, tags)
  except ValueError as error:
    if needs_tags:
      raise
    if sentences and all(len(one.words) == 1 for one in sentences):
      raise UserError(f"{error}; a line has a word, not a sentence") from None
    logging.warning("words are tagged, but nothing is scored: %s", error)
    words = sentences or examples.read_sentences(path, columns[0], None)
    return [sentence._replace(tags=None) for sentence in words]
  all_tags = [tag for sentence in tagged for tag in sentence.tags or ()]
  labels.log_labels(path, all_tags, unit="word")
  return tagged


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
  names = dict.fromkeys((scheme.name, recognize(used).name, "BIO", "IOB1"))
  schemes = [scheme._replace(name=name) for name in names]
  # The first scheme with the fewest misfits.
  return min(schemes, key=lambda one: len(_misfits(sentences, one, one)))


def _misfits(sentences, scheme, other) -> list[str]:
  """Lists, for messages, tags that the scheme `other` writes differently."""
  return [
    f"line {line}: {tag!r}, where {other} has {expected!r}"
    for s in sentences
    if s.tags != (wanted := scheme.convert(s.tags or (), other))
    for line, tag, expected in zip(s.lines, s.tags or (), wanted, strict=True)
    if tag != expected and tag not in scheme.others
  ]


def _first_line(sentences, tags: Collection[str]) -> str:
  """Names the first line with one of the tags: "line 7: 'B-X'"; or ""."""
  for sentence in sentences if tags else ():
    for line, tag in zip(sentence.lines, sentence.tags or (), strict=True):
      if tag in tags:
        return f"line {line}: {tag!r}"
  return ""


def _converted(path, sentences, scheme, tag_scheme) -> list[Sentence]:
  """Converts tags to --tag_scheme; without the flag, converts IOB1 to BIO."""
  if not tag_scheme and scheme.name != "IOB1":
    return sentences
  other = _first_line(sentences, scheme.others)
  if tag_scheme and (other or not scheme.name):
    raise UserError(
      f"{path}, {other or 'tags of single words'}: no scheme that "
      "--tag_scheme can convert; correct the tag, or leave out the flag"
    )
  target = Scheme(tag_scheme) if tag_scheme else scheme._replace(name="BIO")
  return [
    s._replace(tags=scheme.convert(s.tags, target), scheme=scheme)
    for s in sentences
  ]


def _check_tags(path, sentences, tags) -> None:
  """Raises ValueError if tags are unknown, or in another scheme than `tags`."""
  used = _used(sentences)
  scheme, model = recognize(used), recognize(tags)
  if scheme.name and model.name and scheme[:2] != model[:2]:
    own = find_scheme(sentences, tags)
    if odd := _misfits(sentences, own, model):
      raise UserError(
        f"{path}, {odd[0]}, as the model's tags have. Does the training file "
        f"mix schemes? {_REMEDY}"
      )
  if unknown := _first_line(sentences, used - {*tags}):
    raise UserError(
      f"{path}, {unknown} is none of the model's tags, which are "
      f"{labels.known_labels(tags)}"
    )
