"""Masks by the paper's probabilities; targets of causal language models."""

import numpy as np
import pytest
import tensorflow as tf

from data import features
from data.pretraining.dynamic_masking import CausalTargets, Masker
from data.pretraining.instances import Masking, MaskPolicy
from tests.data.pretraining.test_instances_masking import MASK_POLICIES

T, P = 128, 20
CLS, SEP, MASK, FIRST = 101, 102, 103, 104
VOCAB = {f"[unused{i}]": i for i in range(1, 100)} | {
  "[PAD]": 0,
  "[UNK]": 100,
  "[CLS]": CLS,
  "[SEP]": SEP,
  "[MASK]": MASK,
  **{f"w{i}": i for i in range(FIRST, 3000)},
  **{f"##p{i}": i for i in range(3000, 4000)},
}


def _batch(rows, rng, low=FIRST, high=4000, length=T, full=False):
  columns = {name: [] for name in features.pretraining(length)}
  for _ in range(rows):
    total = length - 3 if full else rng.integers(2, length - 2)
    words = rng.integers(low, high, total).tolist()
    split = rng.integers(1, total)
    joined = features.join(words[:split], words[split:], CLS, SEP)
    for name, values in features.pad_inputs(*joined, length).items():
      columns[name].append(values)
    columns["next_sentence_labels"].append([rng.integers(2)])
  return {name: tf.constant(v, tf.int32) for name, v in columns.items()}


def _numpy(batch):
  return {name: values.numpy() for name, values in batch.items()}


@pytest.fixture
def rng():
  return np.random.default_rng(5)


@pytest.mark.parametrize("whole_word", [False, True])
def test_fields_are_those_of_the_schema(whole_word, rng):
  batch = _batch(4, rng)
  masked = Masker(VOCAB, Masking(P, whole_word=whole_word))(batch, [1, 2])
  schema = features.pretraining(T, P)
  assert masked.keys() == schema.keys()
  for name, feature in schema.items():
    assert masked[name].shape == (4, *feature.shape)
    is_float = feature.dtype == "float32"
    assert masked[name].dtype == (tf.float32 if is_float else tf.int32)


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("prob", [0.0, 0.15, 0.5, 1.0])
def test_masked_tokens_can_be_put_back(whole_word, prob, rng):
  batch = _batch(64, rng)
  masker = Masker(VOCAB, Masking(P, prob, whole_word))
  before, after = _numpy(batch), _numpy(masker(batch, [3, 4]))
  for name in ("input_mask", "segment_ids", "next_sentence_labels"):
    assert (after[name] == before[name]).all()
  for row in range(64):
    count = int(after["masked_lm_weights"][row].sum())
    positions = after["masked_lm_positions"][row]
    labels = after["masked_lm_ids"][row]
    assert (after["masked_lm_weights"][row][:count] == 1).all()
    assert not positions[count:].any()
    assert not labels[count:].any()
    assert (np.diff(positions[:count]) > 0).all()

    length = before["input_mask"][row].sum()
    expected = min(P, max(1, round(int(length) * prob)))
    free = length - 3
    assert count <= expected if whole_word else count == min(expected, free)

    restored = after["input_ids"][row].copy()
    assert not np.isin(labels[:count], [0, CLS, SEP]).any()
    restored[positions[:count]] = labels[:count]
    assert (restored == before["input_ids"][row]).all()


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("policy", MASK_POLICIES, ids=str)
def test_masks_of_100_000_tokens(whole_word, policy, rng):
  batch = _batch(800, rng, high=3000, full=True)  # 102,400 tokens
  before = _numpy(batch)
  masker = Masker(VOCAB, Masking(P, whole_word=whole_word, policy=policy))
  after = _numpy(masker(batch, [5, 6]))
  chosen = after["masked_lm_weights"] > 0
  assert chosen.sum() / before["input_mask"].sum() == pytest.approx(
    0.15, abs=0.01
  )

  now = np.take_along_axis(
    after["input_ids"], after["masked_lm_positions"], axis=1
  )[chosen]
  labels = after["masked_lm_ids"][chosen]
  masks, unchanged = (now == MASK).mean(), (now == labels).mean()
  same = 1 - policy.mask_token_prob - policy.random_token_prob
  assert masks == pytest.approx(policy.mask_token_prob, abs=0.01)
  assert unchanged == pytest.approx(same, abs=0.01)
  others = now[(now != MASK) & (now != labels)]
  assert len(others) / len(now) == pytest.approx(
    policy.random_token_prob, abs=0.01
  )
  if policy.random_token_prob:
    # Drawn from the whole vocabulary: a quarter of it are pieces.
    assert (others >= 3000).mean() == pytest.approx(0.25, abs=0.05)
  # All positions are equally frequent.
  counts = np.bincount(after["masked_lm_positions"][chosen], minlength=T)[5:-5]
  assert counts.std() < 3 * np.sqrt(counts.mean())


@pytest.mark.parametrize("whole_word", [False, True])
def test_masks_are_a_function_of_the_seed(whole_word, rng):
  batch = _batch(16, rng)
  masker = tf.function(Masker(VOCAB, Masking(P, whole_word=whole_word)))
  first, repeated, reseeded = (
    masker(batch, tf.constant([1, seed]))["input_ids"].numpy()
    for seed in (7, 7, 8)
  )
  assert (first == repeated).all()
  assert (first != reseeded).any(axis=1).mean() > 0.9


def test_all_pieces_of_a_word_are_masked(rng):
  batch = _batch(200, rng, low=2000, full=True)  # every other token a piece
  before = _numpy(batch)["input_ids"]
  after = _numpy(Masker(VOCAB, Masking(P, whole_word=True))(batch, [9, 9]))
  for row in range(200):
    words = []
    for position, i in enumerate(before[row]):
      if i in (0, CLS, SEP):
        continue
      if words and i >= 3000:
        words[-1].append(position)
      else:
        words.append([position])
    count = int(after["masked_lm_weights"][row].sum())
    chosen = set(after["masked_lm_positions"][row][:count].tolist())
    masked = [word for word in words if chosen & set(word)]
    assert {p for word in masked for p in word} == chosen
    # As in StaticMasking, words that still fit are masked.
    rest = round(T * 0.15) - count
    assert all(len(word) > rest for word in words if word not in masked)


def test_more_slots_than_tokens(rng):
  batch = _batch(8, rng, length=8, full=True)
  for whole_word in (False, True):
    after = Masker(VOCAB, Masking(12, 1.0, whole_word))(batch, [1, 1])
    assert after["masked_lm_positions"].shape == (8, 12)
    assert after["masked_lm_weights"].numpy()[:, :5].all() or whole_word


@pytest.mark.parametrize("probs", [(-0.1, 0.5), (0.6, 0.5), (float("nan"), 0)])
def test_impossible_probabilities_are_refused(probs):
  with pytest.raises(ValueError, match="must be 0 or more, and 1 together"):
    MaskPolicy(*probs)


def test_a_piece_that_begins_a_text_is_a_word_of_its_own():
  rows = 32
  ids = [CLS, 3000, 200, SEP]  # [CLS] ##p3000 w200 [SEP]
  batch = {
    "input_ids": tf.constant([ids] * rows),
    "input_mask": tf.ones([rows, 4], tf.int32),
    "segment_ids": tf.zeros([rows, 4], tf.int32),
    "next_sentence_labels": tf.zeros([rows, 1], tf.int32),
  }
  masked = Masker(VOCAB, Masking(1, whole_word=True))(batch, [1, 2])
  # Only one token may be masked.
  assert masked["masked_lm_weights"].numpy().sum() == rows
  assert set(masked["masked_lm_positions"].numpy().ravel()) == {1, 2}


# --- causal targets ---------------------------------------------------------

# [CLS] 3 4 [SEP] 5 6 [SEP], and [CLS] 7 [SEP] 8 [SEP]; 4, 5 and 8 are masked.
MASKED = {
  "input_ids": tf.constant(
    [[1, 3, 9, 2, 9, 6, 2, 0], [1, 7, 2, 9, 2, 0, 0, 0]]
  ),
  "input_mask": tf.constant(
    [[1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0, 0, 0]]
  ),
  "segment_ids": tf.constant(
    [[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]]
  ),
  "masked_lm_positions": tf.constant([[2, 4], [3, 0]]),
  "masked_lm_ids": tf.constant([[4, 5], [8, 0]]),
  "masked_lm_weights": tf.constant([[1.0, 1.0], [1.0, 0.0]]),
}
WORDS = np.array([[1, 3, 4, 2, 5, 6, 2, 0], [1, 7, 2, 8, 2, 0, 0, 0]])
PAIRS = np.array([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0]])


@pytest.mark.parametrize(
  ("direction", "positions", "targets"),
  [
    ("left_to_right", range(7), WORDS[:, 1:]),
    ("right_to_left", range(1, 8), WORDS[:, :-1]),
  ],
)
def test_words_are_restored_and_predict_a_neighbor(
  direction, positions, targets
):
  result = CausalTargets(direction)(MASKED)
  np.testing.assert_array_equal(result["input_ids"], WORDS)
  np.testing.assert_array_equal(result["masked_lm_positions"], [positions] * 2)
  np.testing.assert_array_equal(result["masked_lm_ids"], targets)
  np.testing.assert_array_equal(result["masked_lm_weights"], PAIRS)


def test_causal_targets_of_masked_and_unmasked_records_are_the_same():
  unmasked = {
    "input_ids": tf.constant(WORDS, tf.int32),
    "input_mask": MASKED["input_mask"],
    "segment_ids": MASKED["segment_ids"],
  }
  targets = CausalTargets("left_to_right")
  expected, result = targets(MASKED), targets(unmasked)
  assert expected.keys() == result.keys()
  for name, values in expected.items():
    np.testing.assert_array_equal(result[name], values, name)


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_special_tokens_can_be_left_out(direction, tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[CLS]\n[SEP]\na\n")
  result = CausalTargets(direction, str(path))(MASKED)
  words = np.array([[3, 4, 5, 6, 0, 0, 0, 0], [7, 8, 0, 0, 0, 0, 0, 0]])
  np.testing.assert_array_equal(result["input_ids"], words)
  np.testing.assert_array_equal(result["input_mask"], words > 0)
  assert not np.any(result["segment_ids"])
  forward = direction == "left_to_right"
  np.testing.assert_array_equal(
    result["masked_lm_ids"], words[:, 1:] if forward else words[:, :-1]
  )
  np.testing.assert_array_equal(result["masked_lm_weights"], words[:, 1:] > 0)


def test_special_tokens_to_leave_out_are_in_the_vocabulary(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[CLS]\na\n")
  with pytest.raises(ValueError, match=r"lacks .*\[SEP\]"):
    CausalTargets("left_to_right", str(path))
