"""Whole documents that occur more than once: found by a hash, and left out.

Lines are in the form that the original reads: a blank line behind a document.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np

from data.progress import Progress


def documents(lines: Iterable[str]) -> Iterator[list[str]]:
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
  """A number of 64 bits that equal documents share, and others hardly ever.

  Of n different documents two have the same with a probability of n**2 / 2**65:
  one in 3,700 for a hundred million. Documents are equal if they differ in
  blanks within their lines at most.
  """
  text = "\n".join(" ".join(line.split()) for line in document)
  return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def digests(lines: Iterable[str]) -> np.ndarray:
  """The digest of each document, [documents] uint64."""
  return np.fromiter(map(digest, documents(lines)), np.uint64)


def repeated(parts: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
  """Finds the documents of which an equal one came before.

  Args:
    parts: digests of the documents of each part of a corpus, in its order.

  Returns:
    For each part the numbers of such documents, from 0.
  """
  _, first = np.unique(np.concatenate(parts), return_index=True)
  again = np.ones(sum(map(len, parts)), bool)
  again[first] = False
  ends = np.cumsum([len(part) for part in parts])
  return [
    tuple(np.flatnonzero(part).tolist()) for part in np.split(again, ends[:-1])
  ]


def without(
  lines: Iterable[str], numbers: Iterable[int], progress: Progress
) -> Iterator[str]:
  """Leaves documents out.

  Args:
    lines: of documents.
    numbers: which documents, counted from 0.
    progress: is told how many were left out.

  Yields:
    The lines of the others.
  """
  numbers = frozenset(numbers)
  for number, document in enumerate(documents(lines)):
    if number in numbers:
      progress.add(0, dropped_documents=1)
    else:
      yield from document
      yield ""


def first_only(lines: Iterable[str], progress: Progress) -> Iterator[str]:
  """Leaves documents out of which an equal one came before.

  Args:
    lines: of documents; some 80 bytes are remembered for each.
    progress: is told how many were left out.

  Yields:
    The lines of the others.
  """
  seen = set()
  for document in documents(lines):
    number = digest(document)
    if number in seen:
      progress.add(0, dropped_documents=1)
    else:
      seen.add(number)
      yield from document
      yield ""
