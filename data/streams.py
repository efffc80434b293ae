"""The bytes of text files that are no plain local ones.

Compressed files (.gz, and .zst where zstandard is installed) are read as if
they were not, from their beginning only; remote ones get what local ones can.
"""

import gzip
import io
from typing import BinaryIO


def is_compressed(path: str) -> bool:
  """Whether the name says so."""
  return path.endswith((".gz", ".zst"))


def buffered(path: str, file: BinaryIO) -> BinaryIO:
  """What a file holds, decompressed where its name says that it must be.

  Args:
    path: its name, for the ending and for messages.
    file: its bytes, of which only `read` is used; the caller closes it.

  Returns:
    A file that has all that Python's own have. Reading raises ValueError, which
    names the path, where the content is damaged or cut off.

  Raises:
    ValueError: the path ends with .zst and zstandard is not installed.
  """
  if path.endswith(".gz"):
    file = gzip.GzipFile(fileobj=file, mode="rb")
  elif path.endswith(".zst"):
    file = _zstd(path, file)
  return io.BufferedReader(_Named(path, file), 1 << 16)


def _zstd(path, file):
  try:
    import zstandard  # noqa: PLC0415, not everybody has it
  except ImportError:
    raise ValueError(
      f"reading {path} takes the package zstandard: `pip install zstandard`, "
      "or decompress the file first"
    ) from None
  return _Frames(file, zstandard.ZstdDecompressor().decompressobj)


class _Frames:
  """What the frames of a .zst file hold.

  zstandard's own reader takes a file that is cut off for a shorter one.
  """

  _PIECE = 1 << 12  # Four bytes may stand for 128 KB.

  def __init__(self, file, new_frame):
    self._file, self._new_frame = file, new_frame
    self._frame, self._unused, self._ready = None, b"", io.BytesIO()

  def read(self, size):
    while not (taken := self._ready.read(size)):
      piece = self._unused or self._file.read(self._PIECE)
      if not piece:
        if self._frame:
          raise EOFError("the file ends within a frame")
        break
      self._frame = self._frame or self._new_frame()
      self._ready = io.BytesIO(self._frame.decompress(piece))
      self._unused = b""
      if self._frame.eof:
        self._unused, self._frame = self._frame.unused_data, None
    return taken


class _Named(io.RawIOBase):
  """A stream whose errors name the file."""

  def __init__(self, path, stream):
    super().__init__()
    self._path, self._stream = path, stream

  def readable(self):
    return True

  def readinto(self, buffer):
    try:
      block = self._stream.read(len(buffer))
    except Exception as error:  # each library has its own
      raise ValueError(
        f"{self._path} cannot be read to its end: {error}; it is damaged, cut "
        "off, or not what its name says"
      ) from error
    buffer[: len(block)] = block
    return len(block)
