"""Draws of random.Random, and masks made once; parity is in tests/parity."""

from pathlib import Path
from random import Random

import pytest

from data.pretraining import instances
from data.pretraining.instances import (
  InstanceConfig,
  Masking,
  MaskPolicy,
  StaticMasking,
)
from data.vocab import MASK, load

VOCAB_FILE = str(Path(__file__).parents[2] / "parity/golden/vocab.txt")
# Probabilities of table 8 of the paper, row by row.
MASK_POLICIES = [
  MaskPolicy(*probs)
  for probs in ((0.8, 0.1), (1, 0), (0.8, 0), (0.8, 0.2), (0, 0.8), (0, 1))
]


@pytest.fixture(scope="module")
def vocab():
  return load(VOCAB_FILE)


@pytest.mark.parametrize("size", [*range(0, 20), 63, 64, 65, 127, 128, 1000])
def test_draws_are_those_of_the_library(size):
  rng, expected = Random(size), Random(size)
  items, shuffled = list(range(size)), list(range(size))
  instances.shuffle(rng.getrandbits, items)
  expected.shuffle(shuffled)
  assert items == shuffled
  for limit in range(1, 40):
    drawn = instances.randbelow(rng.getrandbits, limit)
    assert drawn == expected.randint(0, limit - 1)
  assert rng.getstate() == expected.getstate()


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("policy", MASK_POLICIES, ids=str)
def test_static_masks_of_100_000_tokens(vocab, whole_word, policy):
  rng = Random(7)
  mask = StaticMasking(vocab, Masking(20, whole_word=whole_word, policy=policy))
  cls, sep, mask_id = vocab["[CLS]"], vocab["[SEP]"], vocab["[MASK]"]
  total = chosen = masks = unchanged = 0
  for _ in range(800):
    words = [rng.randint(2000, 28000) for _ in range(125)]
    ids = [cls, *words[:60], sep, *words[60:], sep]
    before = list(ids)
    positions, labels = mask(ids, rng)
    assert positions == sorted(set(positions))
    assert not {0, 61, 127} & set(positions)
    assert [before[i] for i in positions] == labels
    now = [ids[i] for i in positions]
    for position, label in zip(positions, labels, strict=True):
      ids[position] = label
    assert ids == before
    total, chosen = total + len(ids), chosen + len(labels)
    masks += now.count(mask_id)
    unchanged += sum(i == label for i, label in zip(now, labels, strict=True))
  assert chosen / total == pytest.approx(0.15, abs=0.01)
  same = 1 - policy.mask_token_prob - policy.random_token_prob
  assert masks / chosen == pytest.approx(policy.mask_token_prob, abs=0.01)
  assert unchanged / chosen == pytest.approx(same, abs=0.01)


def test_the_defaults_compare_with_the_originals_numbers(vocab):
  mask = StaticMasking(vocab, Masking())
  assert (mask._mask_token_prob, mask._keep_prob) == (0.8, 0.5)
  assert Masking() == Masking(20, 0.15, False, MaskPolicy(0.8, 0.1))
  assert InstanceConfig() == InstanceConfig(128, Masking(), 0.1, 10)
  assert MASK in InstanceConfig().tokens
  assert MASK not in InstanceConfig(masking=None).tokens
