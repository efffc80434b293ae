"""Deduplication of documents by hash.

Lines are in the original's input format: a blank line ends a document.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np

from storage.progress import Progress


def split_documents(lines: Iterable[str]) -> Iterator[list[str]]:
  """Groups lines into documents: lists of lines, none of them blank."""
  document = []
  for line in lines:
    if line.strip():
      document.append(line)
    elif document:
      yield document
      document = []
  if document:
    yield document


def digest(document: Iterable[str]) -> int:
  """Hash of a document, 64 bits, that ignores the amount of white space.

  Among n different documents two have the same hash with a probability of
  n**2 / 2**65: one in 3,700 for a hundred million.
  """
  text = "\n".join(" ".join(line.split()) for line in document)
  return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def digests(lines: Iterable[str]) -> np.ndarray:
  """Hash of each document, [documents] uint64."""
  return np.fromiter(map(digest, split_documents(lines)), np.uint64)


def find_repeated(shards: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
  """Finds documents that are equal to an earlier one.

  Args:
    shards: hashes of the documents of each shard, in the order of the corpus.

  Returns:
    For each shard the indices of such documents.
  """
  _, first = np.unique(np.concatenate(shards), return_index=True)
  is_repeated = np.ones(sum(map(len, shards)), bool)
  is_repeated[first] = False
  ends = np.cumsum([len(shard) for shard in shards])
  return [
    tuple(np.flatnonzero(flags).tolist())
    for flags in np.split(is_repeated, ends[:-1])
  ]


def drop_documents(
  lines: Iterable[str], indices: Iterable[int], progress: Progress
) -> Iterator[str]:
  """Yields the lines of all documents but those of the indices."""
  indices = frozenset(indices)
  for index, document in enumerate(split_documents(lines)):
    if index in indices:
      progress.add(0, dropped_documents=1)
    else:
      yield from document
      yield ""


def drop_repeated(lines: Iterable[str], progress: Progress) -> Iterator[str]:
  """Yields the lines of documents that are not equal to an earlier one.

  Uses some 80 bytes of memory for each document.
  """
  seen = set()
  for document in split_documents(lines):
    number = digest(document)
    if number in seen:
      progress.add(0, dropped_documents=1)
    else:
      seen.add(number)
      yield from document
      yield ""
