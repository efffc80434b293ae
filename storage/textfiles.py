"""Reads text files: lines, JSON lines, .gz and .zst (with backports.zstd)."""

import codecs
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from absl import logging

from storage import UserError, files, setting

COMPRESSED = (".gz", ".zst")
_CODES = (
  "CP949 for Korean, GB18030 for Chinese, CP950 for Taiwan and Hong Kong, "
  "CP932 for Japanese, CP1252 for western European text"
)
# Advice for texts that are not UTF-8.
CONVERT = (
  f"convert text first with `iconv -f CODE -t UTF-8`, where CODE is {_CODES}"
)
_UTF16 = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
# Byte order marks, which spreadsheet programs write.
_MARKS = {codecs.BOM_UTF8: "utf-8"} | dict.fromkeys(_UTF16, "utf-16")
# Halves of characters above U+FFFF; UTF-8 cannot hold a single half.
SURROGATE = re.compile(r"[\ud800-\udfff]")
# {first bytes of a file that is not UTF-8: what the file is, and the remedy}
_OTHERS = dict.fromkeys(_UTF16, "UTF-16: save it as UTF-8") | {
  b"\x1f\x8b": "compressed: give it a name that ends with .gz",
  b"\x28\xb5\x2f\xfd": "compressed: give it a name that ends with .zst",
  b"PK\3\4": "a workbook (.xlsx) or an archive: save it as CSV UTF-8 or text",
  b"\xd0\xcf\x11\xe0": "a workbook (.xls): save it as CSV UTF-8",
  b"%PDF": "a PDF: extract its text",
  b"PAR1": "a Parquet file: write it as .csv or .jsonl",
}


def lines(path: str, start: int = 0, end: int | None = None) -> Iterator[str]:
  r"""Yields the lines of a UTF-8 text that begin at bytes [start, end).

  A line ends at "\n" or "\r\n", or at "\r" in a file without "\n". Raises
  OSError, or UserError for bytes that are not UTF-8, no text, or corrupt.
  """
  position = start
  with open_text(path, start) as file:
    for number, raw in enumerate(file):
      if end is not None and position >= end:
        return
      if not position:
        check_is_text(path, raw)
      try:
        line = raw.decode()
      except UnicodeDecodeError as error:
        offset = position + error.start
        raise UserError(
          f"{path}, line {line_number(path, start) + number}: byte {offset} "
          f"of the file (0x{raw[error.start]:02x}) is not UTF-8; {CONVERT}"
        ) from error
      if not position and "\n" not in line:
        yield from line.removesuffix("\r").split("\r")
      elif line.strip("\r"):  # TensorFlow 1 has no line for a lone "\r"
        yield line.removesuffix("\n").rstrip("\r")
      position += len(raw)


def text_lines(path: str) -> Iterator[str]:
  r"""Yields `lines` without a byte order mark; "\r" becomes a blank."""
  for number, line in enumerate(lines(path)):
    line = line if number else line.removeprefix("\ufeff")
    yield line.replace("\r", " ")


def decode(path: str, encoding: str) -> str:
  r"""Reads a text of any encoding; its lines end with "\n".

  A byte order mark counts more than `encoding`. In a file without "\n", "\r"
  ends lines; otherwise "\r" within a line becomes a blank. Raises OSError, or
  UserError for a wrong encoding.
  """
  with open_text(path) as file:
    content = file.read()
  marked = [name for mark, name in _MARKS.items() if content.startswith(mark)]
  if marked:
    [encoding] = marked
    content = content.removeprefix(codecs.BOM_UTF8)
  else:
    check_is_text(path, content)
  try:
    text = content.decode(encoding)
  except LookupError:
    problem = f"{setting('encoding', encoding)} is not an encoding"
    raise UserError(problem) from None
  except UnicodeDecodeError as error:
    number = 1 + content.count(b"\n", 0, error.start)
    raise UserError(
      f"{path}, line {number}: byte 0x{content[error.start]:02x} is not "
      f"{encoding.upper()}: save all files as UTF-8, or give "
      f"{setting('encoding')}: {_CODES}"
    ) from error
  if not text.isascii() and not encoding.lower().startswith("utf"):
    with suppress(UnicodeDecodeError):
      content.decode()
      message = "%s looks like UTF-8, but is read as %s (%s)"
      logging.warning(message, path, encoding, setting("encoding"))
    if controls := re.findall("[\x80-\x84\x86-\x9f]", text):
      message = "%s, read as %s, has %d control characters: is it %s?"
      remedy = setting("encoding", "cp1252")
      logging.warning(message, path, encoding, len(controls), remedy)
  text = re.sub("\r*\n\ufeff?", "\n", text)  # of files joined by cat
  return text.replace("\r", " " if "\n" in text else "\n")


def check_is_text(path: str, first: bytes) -> None:
  """Raises UserError if a file's `first` bytes show that it is not text."""
  for start, kind in _OTHERS.items():
    if first.startswith(start):
      raise UserError(f"{path} is {kind}")


def parse_json(text: str) -> Any:
  """Parses JSON. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
  value = json.loads(text)
  if "\\ud" in text.lower():
    plain = json.dumps(value, ensure_ascii=False)
    value = json.loads(SURROGATE.sub("\ufffd", plain))
  return value


def read_json(path: str) -> dict:
  """Reads a JSON object. OSErrors and ValueErrors name the file."""
  try:
    values = json.loads(files.read_text(path).removeprefix("\ufeff"))
  except (json.JSONDecodeError, RecursionError) as error:
    raise UserError(f"{path} is not JSON ({error})") from None
  if not isinstance(values, dict):
    raise UserError(f"{path} is not an object but {json.dumps(values)[:40]}")
  return values


def json_objects(
  path: str, lines: Iterable[str], start: int = 0
) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields the number, from 1, and the object of each JSON line.

  `lines` begin at byte `start` of the file.
  """
  for number, line in enumerate(lines, 1):
    line = line.removeprefix("\ufeff")  # a byte order mark
    if not line.strip():
      continue
    try:
      values = parse_json(line)
      if not isinstance(values, dict):
        raise TypeError(f"it is {line[:40]!r}")
    except (ValueError, TypeError, RecursionError) as error:
      raise UserError(
        f"{path}, line {line_number(path, start) + number - 1} is not a JSON "
        f"object ({error}); `jq -c .[]` writes the lines of an array"
      ) from error
    yield number, values


def json_texts(
  path: str, field: str, lines: Iterable[str], start: int = 0
) -> Iterator[list[str]]:
  """Yields the lines of each text, which is the `field` of a JSON line.

  `lines` begin at byte `start` of the file.
  """
  for number, values in json_objects(path, lines, start):
    text = values.get(field)
    if not isinstance(text, str):
      raise UserError(
        f"{path}, line {line_number(path, start) + number - 1} has no text as "
        f"{field!r}; {setting('text_field')} names the field"
      )
    yield text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def open_text(path: str, start: int = 0) -> BinaryIO:
  """Opens a text as decompressed bytes, or a plain file at byte `start`."""
  file = files.open_for_reading(path)
  if start:
    file.seek(start)
  if files.is_remote(path) or path.endswith(COMPRESSED):
    return io.BufferedReader(_TextStream(path, file), 1 << 16)
  return file


def line_number(path: str, offset: int) -> int:
  """Number, from 1, of the line that contains byte `offset` of a text."""
  number, unread = 1, offset
  if not offset:
    return number  # the file may be a pipe, which cannot be read again
  with open_text(path) as file:
    while unread > 0 and (block := file.read(min(unread, 1 << 20))):
      number += block.count(b"\n")
      unread -= len(block)
  return number


class _TextStream(io.RawIOBase):
  """Decompressed content of a file. Any error is a UserError with the path."""

  def __init__(self, path, file):
    super().__init__()
    self._path, self._file, self._stream = path, file, file
    if path.endswith(".gz"):
      self._stream = gzip.GzipFile(fileobj=file, mode="rb")
    elif path.endswith(".zst"):
      try:
        from backports import zstd  # noqa: PLC0415, optional
      except ImportError:
        raise UserError(
          f"reading {path} takes the package backports.zstd: `pip install "
          "backports.zstd`, or decompress the file first"
        ) from None
      self._stream = zstd.ZstdFile(file)

  def readable(self):
    return True

  def close(self):
    super().close()
    self._file.close()

  def readinto(self, buffer):
    try:
      block = self._stream.read(len(buffer))
    except Exception as error:  # each library raises its own type
      raise UserError(
        f"{self._path} cannot be read to its end: {error}; it is corrupt, "
        "truncated, or not what its name says"
      ) from error
    buffer[: len(block)] = block
    return len(block)
