from random import Random

import pytest

from data.features import Masking
from data.pretraining import instances
from data.pretraining.instances import InstanceConfig
from data.tokenization import FullTokenizer
from tests.data.pretraining.corpus import VOCAB_FILE

# Probabilities in the rows of table 8 of the paper.
MASK_POLICIES = [(0.8, 0.1), (1, 0), (0.8, 0), (0.8, 0.2), (0, 0.8), (0, 1)]


@pytest.fixture(scope="module")
def tokenizer():
  return FullTokenizer(VOCAB_FILE)


@pytest.mark.parametrize("size", [*range(0, 20), 63, 64, 65, 127, 128, 1000])
def test_random_numbers_equal_the_numbers_of_pythons_random(size):
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
def test_static_masks_of_100_000_tokens_follow_the_policy(
  tokenizer, whole_word, policy
):
  rng = Random(7)
  masking = Masking(20, 0.15, whole_word, *policy)
  mask = instances.StaticMasking(tokenizer, masking)
  cls, sep = tokenizer.cls, tokenizer.sep
  pairs = []  # ids of chosen tokens after and before masking
  for _ in range(800):
    words = [rng.randint(2000, 28000) for _ in range(125)]
    ids = [cls, *words[:60], sep, *words[60:], sep]
    before = list(ids)
    positions, labels = mask(ids, rng)
    assert positions == sorted(set(positions))
    assert not {0, 61, 127} & set(positions)  # [CLS], [SEP] and [SEP]
    for position, label in zip(positions, labels, strict=True):
      pairs.append((ids[position], label))
      ids[position] = label
    assert ids == before
  assert len(pairs) / (800 * 128) == pytest.approx(0.15, abs=0.01)
  masks = sum(now == tokenizer.mask for now, _ in pairs) / len(pairs)
  assert masks == pytest.approx(policy[0], abs=0.01)
  unchanged = sum(now == label for now, label in pairs) / len(pairs)
  assert unchanged == pytest.approx(1 - sum(policy), abs=0.01)


def test_defaults_of_masking_and_instances_equal_the_originals(tokenizer):
  mask = instances.StaticMasking(tokenizer, Masking())
  # A token that does not become [MASK] stays with probability 0.1 / 0.2.
  assert (mask._mask_token_prob, mask._keep_prob) == (0.8, 0.5)
  assert Masking() == Masking(20, 0.15, False, 0.8, 0.1)
  assert InstanceConfig() == InstanceConfig(128, Masking(), 0.1, 10)
