"""Lines to documents, and documents that came before."""

from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data.pretraining import documents, duplicates
from data.progress import Progress

SILENT = partial(Progress, "", 0, "", log=lambda text: None)


def _ids(text):
  return [len(word) for word in text.split()]


def test_blank_lines_end_documents():
  lines = ["1", " 2 ", "", " \u3000", "3", "none", "\x1c", "none", "", "4"]
  ids = {"1": [1], "2": [2, 2], "3": [3], "4": [4], "none": []}
  progress = SILENT()
  found = documents.read(lines, ids.__getitem__, progress)
  assert found == [[[1], [2, 2]], [[3]], [[4]]]
  assert progress.counts == {
    "lines": 10,
    "tokens": 5,
    "documents": 3,
    "sentences": 4,
    "dropped_lines": 2,
  }


def test_short_segments_are_dropped_and_long_ones_cut():
  lines = ["a", "a bb ccc a bb", "a bb", "", "a", "", "a bb ccc"]
  progress = SILENT()
  found = documents.read(lines, _ids, progress, shortest=2, longest=3)
  assert found == [[[1, 2, 3], [1, 2], [1, 2]], [[1, 2, 3]]]
  assert progress.counts["dropped_lines"] == 2
  assert progress.counts["cut_lines"] == 1


LINES = st.lists(st.sampled_from(["", "a", "b", " a ", "a b", "a  b", "\t"]))


@given(LINES)
def test_the_first_of_equal_documents_stays(lines):
  progress = SILENT()
  left = list(duplicates.first_only(lines, progress))
  found = [tuple(_plain(d)) for d in duplicates.documents(lines)]
  kept = [tuple(_plain(d)) for d in duplicates.documents(left)]
  assert kept == list(dict.fromkeys(found))
  assert progress.counts["dropped_documents"] == len(found) - len(kept)


@given(st.lists(LINES, min_size=1))
def test_parts_of_a_corpus_agree_with_the_whole(parts):
  numbers = duplicates.repeated([duplicates.digests(part) for part in parts])
  left = [
    line
    for part, dropped in zip(parts, numbers, strict=True)
    for line in duplicates.without(part, dropped, SILENT())
  ]
  whole = [line for part in parts for line in [*part, ""]]
  assert left == list(duplicates.first_only(whole, SILENT()))


def test_a_digest_is_the_same_in_every_process():
  assert duplicates.digest(["Owls hunt.", " at  night"]) == 4395972576312854042
  assert duplicates.digests(["a", "", "b"]).dtype == np.uint64


def _plain(document):
  return (" ".join(line.split()) for line in document)
