"""Buffered reading of compressed and remote files, from their beginning.

Compressed files end with .gz, or with .zst, which needs zstandard.
"""

import gzip
import io
from typing import BinaryIO


def is_compressed(path: str) -> bool:
  """True if the extension is that of a compressed file."""
  return path.endswith((".gz", ".zst"))


def buffered(path: str, file: BinaryIO) -> BinaryIO:
  """Wraps a file as a buffered stream, decompressed if it is compressed.

  Only `read` of the file is used; the caller closes it.

  Returns:
    A stream as of `open(path, "rb")`. Reading raises a ValueError with the path
    where the content is corrupt or truncated.

  Raises:
    ValueError: the path ends with .zst and zstandard is not installed.
  """
  if path.endswith(".gz"):
    file = gzip.GzipFile(fileobj=file, mode="rb")
  elif path.endswith(".zst"):
    file = _zstd(path, file)
  return io.BufferedReader(_NamedStream(path, file), 1 << 16)


def _zstd(path, file):
  try:
    import zstandard  # noqa: PLC0415, optional
  except ImportError:
    raise ValueError(
      f"reading {path} takes the package zstandard: `pip install zstandard`, "
      "or decompress the file first"
    ) from None
  return _ZstdReader(file, zstandard.ZstdDecompressor().decompressobj)


class _ZstdReader:
  """Content of the frames of a .zst file.

  zstandard's own reader gives no error if the file is truncated.
  """

  _PIECE = 1 << 12  # Four bytes may expand to 128 KB.

  def __init__(self, file, new_frame):
    self._file, self._new_frame = file, new_frame
    self._frame, self._unused, self._ready = None, b"", io.BytesIO()

  def read(self, size):
    while not (content := self._ready.read(size)):
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
    return content


class _NamedStream(io.RawIOBase):
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
