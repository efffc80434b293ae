"""Files of tagged words as records."""

from collections.abc import Sequence
from dataclasses import dataclass

from absl import logging

from data import features, tfrecord
from data.progress import Progress
from data.tasks import conll, labels, tagging
from data.tasks.recorded import Recorded


@dataclass(frozen=True)
class Sentences(Recorded):
  """Sentences, and the records of their windows (which are the `examples`).

  Attributes:
    sentences: in the order of the file.
  """

  sentences: Sequence[conll.Sentence]


@dataclass(frozen=True)
class Columns:
  """Where words and tags are in a line: see conll.read."""

  words: int = 0
  tags: int = -1


def tag_set(
  train_file: str | None, columns: Columns, folder: str
) -> Sequence[str]:
  """The tags of a model: labels.txt of its folder, or the training file's.

  Nothing is written: once all files have been read well, labels.keep leaves
  labels.txt, so that who predicts needs no training file.

  Args:
    train_file: may be None if there is labels.txt.
    columns: of the file.
    folder: the model's.

  Raises:
    FileNotFoundError: there is neither.
    ValueError: the file cannot be read, or has one tag only.
  """
  if labels.exist(folder):
    return labels.load(folder)
  if not train_file:
    raise FileNotFoundError(
      f"what are the tags? {folder} has no {labels.FILE_NAME}, which training "
      "leaves there, and there is no --train_file to find them in"
    )
  sentences = conll.read(train_file, columns.words, columns.tags)
  tags = conll.tag_set(sentences)
  if len(tags) < 2:
    raise ValueError(
      f"{train_file}: every tag is {conll.OUTSIDE!r}; there is nothing to "
      "learn. Are the tags in another column?"
    )
  logging.info("%d tags, %s", len(tags), conll.scheme(sentences))
  return tags


def read(
  path: str, columns: Columns, tags: Sequence[str], needs_tags: bool
) -> list[conll.Sentence]:
  """Reads sentences, with their tags if the model knows all of them.

  Args:
    path: the file.
    columns: of the file.
    tags: of the model.
    needs_tags: whether a file without known tags is an error.

  Raises:
    OSError: the file cannot be read.
    ValueError: it is no such file, or lacks tags that are needed.
  """
  try:
    sentences = conll.read(path, columns.words, columns.tags)
  except ValueError as error:
    if needs_tags:
      raise
    logging.info("words without tags: %s", error)
    return conll.read(path, columns.words, None)
  try:
    conll.require_known(sentences, tags, path)
  except ValueError as error:
    if needs_tags:
      raise
    logging.warning(
      "%s. Its words are tagged, but no tag of this file is looked at: there "
      "are no scores",
      error,
    )
    return [sentence._replace(tags=None) for sentence in sentences]
  return sentences


def record(
  sentences: Sequence[conll.Sentence],
  path: str,
  build: tagging.Builder,
  seq_length: int,
  fixed: bool = False,
) -> Sentences:
  """Writes the records of sentences.

  Args:
    sentences: in the order of the file.
    path: the file of records; replaced if it is there.
    build: makes records.
    seq_length: tokens of a record.
    fixed: see Recorded.
  """
  schema = features.tagging(seq_length)
  progress = Progress("cut", len(sentences), "sentences")
  windows = []

  def rows():
    for row, window in build(sentences):
      begins_sentence = not window.word
      progress.add(begins_sentence)
      windows.append(window)
      yield row

  tfrecord.save(path, schema, rows())
  progress.say()
  return Sentences(windows, path, schema, fixed, sentences)
