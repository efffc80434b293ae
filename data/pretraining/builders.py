"""Makes the original's pre-training records from text files, byte for byte.

All text is in memory. shards.py takes any amount.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from random import Random

from absl import logging

from data.pretraining import documents
from data.pretraining.instances import Document, InstanceBuilder, InstanceConfig
from data.pretraining.sentences import split_sentences
from data.tokenizer import Tokenizer
from storage import UserError, files, textfiles, tfrecord
from storage.progress import Progress

_COMPRESSION_RATIO = 3  # approximate bytes of text per compressed byte


@dataclass(frozen=True)
class TextFormat:
  """Layout of documents in text files.

  "lines" has one sentence a line and a blank line between documents, as in the
  original. "paragraphs" is prose with a blank line between documents.
  "documents" is prose with one document a file. `field` names the field of JSON
  lines that holds such a text; None stands for plain text.
  """

  layout: str = "lines"
  field: str | None = None

  @property
  def is_prose(self) -> bool:
    """True if the text has to be split into sentences."""
    return self.layout != "lines"

  def lines(
    self, path: str, start: int = 0, end: int | None = None
  ) -> Iterator[str]:
    """Yields the sentences and blank lines of a file, in the original's format.

    Documents begin at the bytes `start` and `end`; None is the end of the file.
    Raises ValueError if a line is not UTF-8 or no JSON object with the field.
    """
    if self.field:
      texts = textfiles.json_texts(path, self.field, start, end)
    else:
      texts = [textfiles.lines(path, start, end)]
    for text in texts:
      if not self.is_prose:
        yield from text
      else:
        for paragraph in documents.paragraphs(text):
          yield from split_sentences(paragraph)
          if self.layout == "paragraphs":
            yield ""
      if self.field or self.is_prose:
        yield ""

  def ends_document(self, path: str) -> Callable[[bytes], bool] | None:
    """Test for the last line of a document; None if the file is indivisible."""
    is_document = self.layout == "documents" and not self.field
    if is_document or textfiles.is_compressed(path):
      return None
    is_row = bool(self.field)
    return lambda line: is_row or not line.decode(errors="replace").strip()


@dataclass(frozen=True)
class BuildConfig:
  """Configuration of a data set, sent to every worker.

  `seed` and the number of a shard give the seed of the shard. `deduplicate`
  drops documents that are equal to an earlier document.
  """

  tokenizer: Tokenizer
  instance_config: InstanceConfig
  seed: int
  text_format: TextFormat = TextFormat()
  deduplicate: bool = False


class RecordBuilder:
  """Reads documents from text. `instances` builds records from documents."""

  def __init__(self, config: BuildConfig):
    self._ids = config.tokenizer.cached_ids()
    self.config = config
    self.instances = InstanceBuilder(config.tokenizer, config.instance_config)

  def documents(
    self, lines: Iterable[str], progress: Progress
  ) -> list[Document]:
    """Tokenizes lines into documents; see read_documents.

    In prose, sentences of one token (page numbers, ornaments) are dropped, and
    sentences longer than a record are split.
    """
    if not self.config.text_format.is_prose:
      return read_documents(lines, self._ids, progress)
    max_tokens = self.config.instance_config.max_seq_length
    return read_documents(lines, self._ids, progress, 2, max_tokens)

  def corpus(self, paths: Sequence[str], progress: Progress) -> list[Document]:
    """Documents of files; ValueError for files without text."""
    lines = chain.from_iterable(map(self.config.text_format.lines, paths))
    if self.config.deduplicate:
      lines = documents.drop_repeated(lines, progress)
    corpus = self.documents(lines, progress)
    if not corpus:
      raise no_text(paths)
    return corpus


def read_documents(
  lines: Iterable[str],
  ids: Callable[[str], list[int]],
  progress: Progress,
  min_tokens: int = 1,
  max_tokens: int | None = None,
) -> list[Document]:
  """Tokenizes lines, one segment each. A blank line ends a document.

  Drops segments of fewer than `min_tokens` and documents without segments.
  Splits segments of more than `max_tokens`.
  """
  corpus = []
  document = []
  for line in lines:
    text = line.replace("\r", "").strip()  # as the original reads lines
    segment = ids(text) if text else []
    if len(segment) >= min_tokens:
      if max_tokens and len(segment) > max_tokens:
        document += [
          segment[start : start + max_tokens]
          for start in range(0, len(segment), max_tokens)
        ]
        progress.add(0, cut_lines=1)
      else:
        document.append(segment)
    elif text:
      progress.add(0, dropped_lines=1)
    elif document:
      corpus.append(document)
      document = []
    megabytes = (len(line.encode()) + 1) / 1e6
    progress.add(megabytes, lines=1, tokens=len(segment))
  if document:
    corpus.append(document)
  progress.add(0, documents=len(corpus), sentences=sum(map(len, corpus)))
  return corpus


def write_in_memory(
  config: BuildConfig, inputs: Sequence[str], outputs: Sequence[str]
) -> int:
  """Writes the original's records, byte for byte; returns the record count.

  A document may continue in the next input. Outputs get records round-robin.
  """
  builder = RecordBuilder(config)
  reading = Progress("read", sum(map(text_size, inputs)) / 1e6, "MB")
  corpus = builder.corpus(inputs, reading)
  reading.say()
  if len(corpus) == 1:
    logging.warning(
      "the text is a single document, from which random next sentences are "
      "drawn too; put a blank line between documents"
    )

  dupes = config.instance_config.dupe_factor
  unit = "copies of documents" if dupes > 1 else "documents"
  building = Progress("built from", len(corpus) * dupes, unit)
  rng = Random(config.seed)
  records, samples = builder.instances.records(corpus, rng, building)
  building.say()
  log_samples(samples)
  with ExitStack() as stack:  # all files appear, or no file does
    sinks = [stack.enter_context(tfrecord.create(path)) for path in outputs]
    for i, sink in enumerate(sinks):
      sink.write(records[i :: len(sinks)])
  return len(records)


def no_text(paths: Iterable[str]) -> UserError:
  """Error for an input without tokens."""
  return UserError(f"there is no text in {', '.join(paths)}")


def log_samples(samples):
  for text in samples:
    logging.info("*** Example ***\n%s", text)


def text_size(path: str) -> int:
  """Size of a text in bytes, estimated if it is compressed."""
  factor = _COMPRESSION_RATIO if textfiles.is_compressed(path) else 1
  return factor * files.size(path)
