"""Decompression of texts: .gz, or .zst, which needs zstandard."""

import gzip
import io

from storage import UserError


def is_compressed(path: str) -> bool:
  """True if the extension is that of a compressed file."""
  return path.endswith((".gz", ".zst"))


class TextStream(io.RawIOBase):
  """Content of a file, decompressed; errors are ValueErrors with its path."""

  def __init__(self, path, file):
    super().__init__()
    self._path, self._stream = path, file
    if path.endswith(".gz"):
      self._stream = gzip.GzipFile(fileobj=file, mode="rb")
    elif path.endswith(".zst"):
      self._stream = _zstd(path, file)

  def readable(self):
    return True

  def readinto(self, buffer):
    try:
      block = self._stream.read(len(buffer))
    except Exception as error:  # each library has its own
      raise UserError(
        f"{self._path} cannot be read to its end: {error}; it is corrupt, "
        "truncated, or not what its name says"
      ) from error
    buffer[: len(block)] = block
    return len(block)


def _zstd(path, file):
  try:
    import zstandard  # noqa: PLC0415, optional
  except ImportError:
    raise UserError(
      f"reading {path} takes the package zstandard: `pip install zstandard`, "
      "or decompress the file first"
    ) from None
  return _ZstdReader(file, zstandard.ZstdDecompressor().decompressobj)


class _ZstdReader:
  """Frames of a .zst file; zstandard's reader is silent if it is truncated."""

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
