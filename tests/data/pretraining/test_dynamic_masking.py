import functools
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from data import features, vocab
from data.features import Masking
from data.pretraining.input_pipeline import CausalTargets, Masker
from data.tokenization import FullTokenizer
from tests.data.pretraining.test_instances import MASK_POLICIES

T, P = 128, 20
CLS, SEP, MASK, FIRST = 101, 102, 103, 104
WORDS = [f"w{i}" for i in range(FIRST, 3000)]
WORDS += [f"##p{i}" for i in range(3000, 4000)]
UNUSED = [f"[unused{i}]" for i in range(1, 100)]
SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]


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


@functools.cache
def _tokenizer():
  with tempfile.NamedTemporaryFile() as file:
    vocab.save(["[PAD]", *UNUSED, *SPECIAL, *WORDS], file.name)
    return FullTokenizer(file.name)


def _masker(max_predictions=P, *args, **options):
  return Masker(_tokenizer(), Masking(max_predictions, *args, **options))


@pytest.fixture
def rng():
  return np.random.default_rng(5)


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("prob", [0.0, 0.15, 0.5, 1.0])
def test_masked_lm_ids_and_positions_restore_the_tokens(whole_word, prob, rng):
  batch = _batch(64, rng)
  masked = _masker(P, prob, whole_word)(batch, [3, 4])
  before, after = _numpy(batch), _numpy(masked)
  for name, feature in features.pretraining(T, P).items():
    assert after[name].shape == (64, *feature.shape)
    assert (after[name].dtype == np.float32) == (feature.dtype == "float32")
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
def test_masks_of_100_000_tokens_follow_the_policy(whole_word, policy, rng):
  batch = _batch(800, rng, high=3000, full=True)  # 102,400 tokens
  after = _numpy(_masker(P, 0.15, whole_word, *policy)(batch, [5, 6]))
  positions = after["masked_lm_positions"]
  chosen = after["masked_lm_weights"] > 0
  now = np.take_along_axis(after["input_ids"], positions, axis=1)[chosen]
  labels = after["masked_lm_ids"][chosen]
  others = now[(now != MASK) & (now != labels)]
  masks, drawn = policy
  for result, expected in (
    (chosen.sum() / np.sum(batch["input_mask"]), 0.15),
    ((now == MASK).mean(), masks),
    ((now == labels).mean(), 1 - masks - drawn),
    (len(others) / len(now), drawn),
  ):
    assert result == pytest.approx(expected, abs=0.01)
  if drawn:
    # A quarter of the vocabulary begins with "##".
    assert (others >= 3000).mean() == pytest.approx(0.25, abs=0.05)
  # Positions are masked equally often, except near the special tokens.
  counts = np.bincount(positions[chosen], minlength=T)[5:-5]
  assert counts.std() < 3 * np.sqrt(counts.mean())


def test_all_pieces_of_a_word_are_masked(rng):
  batch = _batch(200, rng, low=2000, full=True)  # half begin with "##"
  before = _numpy(batch)["input_ids"]
  after = _numpy(_masker(whole_word=True)(batch, [9, 9]))
  for row in range(200):
    words = []
    for position, i in enumerate(before[row]):
      if words and i >= 3000:
        words[-1].append(position)
      elif i not in (0, CLS, SEP):
        words.append([position])
    count = int(after["masked_lm_weights"][row].sum())
    chosen = set(after["masked_lm_positions"][row][:count].tolist())
    masked = [word for word in words if chosen & set(word)]
    assert {p for word in masked for p in word} == chosen
    # Like StaticMasking, dynamic masking masks every word that still fits.
    rest = round(T * 0.15) - count
    assert all(len(word) > rest for word in words if word not in masked)


def test_a_record_may_have_more_masked_lm_positions_than_tokens(rng):
  batch = _batch(8, rng, length=8, full=True)
  for whole_word in (False, True):
    after = _masker(12, 1.0, whole_word)(batch, [1, 1])
    assert after["masked_lm_positions"].shape == (8, 12)
    assert after["masked_lm_weights"].numpy()[:, :5].all()  # all 8 - 3 words


@pytest.mark.parametrize("probs", [(-0.1, 0.5), (0.6, 0.5), (float("nan"), 0)])
def test_mask_probabilities_below_0_or_with_a_sum_above_1_are_refused(probs):
  with pytest.raises(ValueError, match="must be 0 or more, their sum 1"):
    Masking(P, 0.15, False, *probs)


def test_a_word_piece_that_begins_a_text_is_masked_like_a_word():
  ids = tf.constant([[CLS, 3000, 200, SEP]] * 32)  # ##p3000 w200
  batch = {"input_ids": ids, "input_mask": tf.ones_like(ids)}
  masked = _masker(1, whole_word=True)(batch, [1, 2])
  # Each row has one masked token.
  assert masked["masked_lm_weights"].numpy().sum() == 32
  assert set(masked["masked_lm_positions"].numpy().ravel()) == {1, 2}


# --- causal targets ---------------------------------------------------------

# [CLS] 3 4 [SEP] 5 6 [SEP], and [CLS] 7 [SEP] 8 [SEP]; 4, 5 and 8 are masked.
UNMASKED = {
  "input_ids": [[1, 3, 4, 2, 5, 6, 2, 0], [1, 7, 2, 8, 2, 0, 0, 0]],
  "input_mask": [[1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0, 0, 0]],
  "segment_ids": [[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]],
}
MASKED = {
  "input_ids": [[1, 3, 9, 2, 9, 6, 2, 0], [1, 7, 2, 9, 2, 0, 0, 0]],
  "masked_lm_positions": [[2, 4], [3, 0]],
  "masked_lm_ids": [[4, 5], [8, 0]],
  "masked_lm_weights": [[1.0, 1.0], [1.0, 0.0]],
}
UNMASKED = {name: tf.constant(values) for name, values in UNMASKED.items()}
MASKED = UNMASKED | {name: tf.constant(x) for name, x in MASKED.items()}


@pytest.mark.parametrize("records", [MASKED, UNMASKED])
@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_causal_targets_restore_masks_and_predict_neighbors(direction, records):
  result = CausalTargets(direction)(records)
  is_forward = direction == "left_to_right"
  words = UNMASKED["input_ids"].numpy()
  for name, expected in {
    "input_ids": words,
    "masked_lm_positions": [np.arange(7) + (not is_forward)] * 2,
    "masked_lm_ids": words[:, 1:] if is_forward else words[:, :-1],
    "masked_lm_weights": UNMASKED["input_mask"][:, 1:],
    "segment_ids": UNMASKED["segment_ids"],
  }.items():
    np.testing.assert_array_equal(result[name], expected, name)
  assert result.keys() == MASKED.keys()


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_causal_targets_by_a_tokenizer_lack_special_tokens(direction, tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[CLS]\na\n")
  with pytest.raises(ValueError, match=r"lacks .*\[SEP\]"):
    CausalTargets(direction, FullTokenizer(path))
  path.write_text("[PAD]\n[CLS]\n[SEP]\na\n")
  result = CausalTargets(direction, FullTokenizer(path))(MASKED)
  words = np.array([[3, 4, 5, 6, 0, 0, 0, 0], [7, 8, 0, 0, 0, 0, 0, 0]])
  np.testing.assert_array_equal(result["input_ids"], words)
  np.testing.assert_array_equal(result["input_mask"], words > 0)
  assert not np.any(result["segment_ids"])
  expected = words[:, 1:] if direction == "left_to_right" else words[:, :-1]
  np.testing.assert_array_equal(result["masked_lm_ids"], expected)
  np.testing.assert_array_equal(result["masked_lm_weights"], words[:, 1:] > 0)
