"""Texts as they are found, in the form that the original reads.

That is a sentence a line and a blank line behind a document.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from data import files, streams
from data.pretraining import sentences

LAYOUTS = ("lines", "paragraphs", "documents")


@dataclass(frozen=True)
class TextFormat:
  """How documents lie in files.

  Attributes:
    layout: "lines": a sentence a line, a blank line between documents, as in
      the original. "paragraphs": prose, a blank line between documents.
      "documents": prose, each file is a document.
    field: None for plain text. Else every line of a file is a JSON object, and
      this field of it has a text, which is laid out like a file.
  """

  layout: str = "lines"
  field: str | None = None

  @property
  def is_prose(self) -> bool:
    """Whether sentences have to be found first."""
    return self.layout != "lines"

  def lines(
    self, path: str, start: int = 0, end: int | None = None
  ) -> Iterator[str]:
    """Reads a file, or a part of it, in the form that the original reads.

    Args:
      path: the file; .gz and .zst are decompressed.
      start: byte at which a document begins.
      end: byte at which a later one begins; None reads to the end.

    Yields:
      Sentences, and blank lines.

    Raises:
      OSError: the file cannot be read.
      ValueError: a line is no text (see files.lines), or not such an object;
        names file, line and what is wrong.
    """
    if self.field:
      texts = _texts(path, start, end, self.field)
    else:
      texts = [files.lines(path, start, end)]
    for text in texts:
      if self.is_prose:
        yield from self._sentences(text)
      else:
        yield from text
      if self.field or self.is_prose:
        yield ""

  def _sentences(self, text):
    for paragraph in sentences.paragraphs(text):
      yield from sentences.split(paragraph)
      if self.layout == "paragraphs":
        yield ""

  def ends_document(self, path: str) -> Callable[[bytes], bool] | None:
    """What tells of a line of a file whether a document ends with it.

    None: the file cannot be cut.
    """
    if streams.is_compressed(path):
      return None
    if self.field:
      return lambda line: True
    if self.layout == "documents":
      return None
    return lambda line: not line.decode(errors="replace").strip()


ORIGINAL = TextFormat()


def _texts(path, start, end, field) -> Iterator[list[str]]:
  """The texts of JSON lines, each as its lines."""
  for number, line in enumerate(files.lines(path, start, end)):
    line = line.removeprefix("\ufeff")  # a byte order mark
    if not line.strip():
      continue
    try:
      text = json.loads(line)[field]
      if not isinstance(text, str):
        raise TypeError(f"{field} is no text")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
      raise ValueError(
        f"{path}, line {files.line_number(path, start) + number}: not a JSON "
        f"object with a text as {field!r} ({error}); --text_field names it"
      ) from error
    # Half a character, which JSON can hold and UTF-8 cannot, becomes U+FFFD.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    yield text.replace("\r", "").split("\n")
