"""Sentence pairs and settings of records; parity is in tests/parity."""

from functools import partial
from pathlib import Path
from random import Random

import pytest

from data.pretraining import instances
from data.pretraining.instances import InstanceConfig, Masking
from data.vocab import load
from storage.progress import Progress

VOCAB_FILE = str(Path(__file__).parents[2] / "parity/golden/vocab.txt")
SILENT = partial(Progress, "", 0, "", log=lambda text: None)


@pytest.fixture(scope="module")
def vocab():
  return load(VOCAB_FILE)


def _documents(rng, count=20):
  """Documents whose tokens are all the number of the document."""
  return [
    [[1000 + i] * rng.randint(1, 30) for _ in range(rng.randint(1, 12))]
    for i in range(count)
  ]


@pytest.mark.parametrize("length", [5, 6, 16, 128])
@pytest.mark.parametrize("short", [0.0, 0.5, 1.0])
def test_pairs_fit_and_random_ones_are_labelled(length, short):
  rng = Random(3)
  settings = InstanceConfig(length, short_seq_prob=short)
  documents = _documents(rng)
  random = total = 0
  for index in range(len(documents)):
    for first, second, is_random in instances.sentence_pairs(
      documents, index, rng, settings
    ):
      assert first
      assert second
      assert len(first) + len(second) <= length - 3
      assert set(first) == {1000 + index}
      assert (set(second) == set(first)) == (not is_random)
      random, total = random + is_random, total + 1
  # Half are drawn, and a single segment is always paired with a random one.
  assert random / total > 0.45


def test_no_token_is_lost_without_truncation():
  document = [[i] for i in range(2, 40)]
  settings = InstanceConfig(13, short_seq_prob=0)
  rng = Random(1)
  seen = []
  for first, second, is_random in instances.sentence_pairs(
    [document, [[1]]], 0, rng, settings
  ):
    seen += first if is_random else first + second
  assert seen == [token for segment in document for token in segment]


def test_a_single_document_has_records(vocab):
  builder = instances.InstanceBuilder(
    vocab, InstanceConfig(16, Masking(3), dupe_factor=1)
  )
  documents = [[[2000, 2001], [2002], [2003] * 9]]
  records, samples = builder.records(documents, Random(1), SILENT())
  assert records
  assert all(text.startswith("tokens: [CLS]") for text in samples)
