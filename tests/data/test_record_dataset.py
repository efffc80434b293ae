from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from data import features
from data.batching import Packing
from data.records import RecordDataset, ShuffledRecords, Source, parser
from storage import tfrecord

T, C = 12, 2
LENGTHS = [3, 12, 5, 4, 9, 3, 7, 2, 12, 1, 6]


def _row(number, length):
  """Returns a record whose token ids are `number` + 1."""
  mask = [1] * length + [0] * (T - length)
  ids = [(number + 1) * i for i in mask]
  inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": [0] * T}
  return inputs | {"label_ids": [number], "is_real_example": [1]}


def _recorded(tmp_path, multiple, lengths=LENGTHS, spare=0):
  """Writes one record for each length, then `spare` records of zeros."""
  path, schema = str(tmp_path / "records"), features.classification(T)
  rows = [_row(number, length) for number, length in enumerate(lengths)]
  rows += [_row(-1, 0)] * spare
  tfrecord.save(path, schema, rows)
  return RecordDataset(lengths, path, schema, multiple)


@pytest.mark.parametrize(
  ("batch_size", "multiple", "spare"),
  [(1, 8, 0), (4, 0, 3), (4, 8, 3), (11, 8, 0), (11, 0, 0), (50, 8, 3)],
)
def test_outputs_are_in_order_of_records(tmp_path, batch_size, multiple, spare):
  recorded = _recorded(tmp_path, multiple, spare=spare)
  # A stand-in for a model sums the ids of each row.
  parts = [
    batch | {"sums": tf.reduce_sum(batch["input_ids"], axis=1)}
    for batch in recorded.eval_batches(batch_size)
  ]
  names = "sums", "position", "label_ids"
  result = recorded.in_order(
    {name: np.concatenate([part[name] for part in parts]) for name in names}
  )
  expected = [(i + 1) * length for i, length in enumerate(LENGTHS)]
  np.testing.assert_array_equal(result["sums"], expected)
  np.testing.assert_array_equal(result["label_ids"], range(len(LENGTHS)))
  assert result["position"].shape == (len(LENGTHS),)


def _shapes(batches):
  return [tuple(batch["input_ids"].shape) for batch in batches]


def test_the_length_of_a_batch_is_rounded_up_to_the_chosen_multiple(tmp_path):
  # Sorted lengths: 1 2 3 3, 4 5 6 7 and 9 12 12.
  trimmed = _recorded(tmp_path, multiple=8)
  assert _shapes(trimmed.eval_batches(4)) == [(4, 8), (4, 8), (3, T)]
  padded = _recorded(tmp_path, multiple=0)
  assert _shapes(padded.eval_batches(4)) == [(4, T)] * 3
  assert _shapes(padded.eval_batches(11)) == [(11, T)]
  in_sixes = _recorded(tmp_path, multiple=6)
  assert _shapes(in_sixes.eval_batches(4)) == [(4, 6), (4, T), (3, T)]
  for recorded, length in ((trimmed, {8, T}), (padded, {T})):
    batches = recorded.train_batches(2, seed=1).take(11)
    assert {shape[1] for shape in _shapes(batches)} == length


def test_training_packs_into_few_shapes_if_asked(tmp_path):
  packed = replace(_recorded(tmp_path, 8, [T] * 9), packing=Packing(T))
  batches = packed.train_batches(9, seed=1, few_shapes=True).take(1)
  assert _shapes(batches) == [(10, T)]  # one row is empty


def test_padding_rows_come_after_all_examples(tmp_path):
  *_, last = _recorded(tmp_path, multiple=0).eval_batches(8)
  positions = last.pop("position").numpy()
  assert set(positions[:3]) <= set(range(len(LENGTHS)))
  assert set(positions[3:]) == {np.iinfo(np.int64).max}
  assert not any(value.numpy()[3:].any() for value in last.values())


@pytest.mark.parametrize("choices", [0, C])
def test_training_by_length_needs_little_padding(tmp_path, choices):
  """An example with choices is as long as its longest choice."""
  path, schema = str(tmp_path / "records"), features.classification(T)
  rows = [_row(number, number % T + 1) for number in range(200)]
  if choices:
    schema = features.multiple_choice(T, C)
    one_token = {name: [1] + [0] * (T - 1) for name in features.TOKENS}
    rows = [row | {k: x + row[k] for k, x in one_token.items()} for row in rows]
  tfrecord.save(path, schema, rows)
  recorded = RecordDataset(range(200), path, schema, multiple=8)
  batches = list(recorded.train_batches(2, seed=1, by_length=True).take(200))
  seen = np.array([batch["label_ids"].numpy() for batch in batches])
  assert sorted(seen[:100].flat) == list(range(200))
  assert (np.ptp(seen[:100] % T, axis=1) <= 1).all()
  other = recorded.train_batches(2, seed=2, by_length=True).take(100)
  orders = seen[:100], seen[100:], [batch["label_ids"] for batch in other]
  # Each epoch and each seed has the same lengths in another random order.
  assert len({tuple(np.max(np.mod(one, T), 1)) for one in orders}) == 3
  assert np.ptp(seen[:10] % T) > T / 2
  for batch, numbers in zip(batches, seen, strict=True):
    assert batch["input_ids"].shape[-1] == (T if max(numbers % T) > 7 else 8)
  again = recorded.train_batches(2, seed=1, skip=202, by_length=True)
  np.testing.assert_array_equal(next(iter(again))["label_ids"], seen[101])


@pytest.mark.parametrize("batch_size", [3, 4, 30])
def test_an_epoch_batched_by_length_has_each_example_once(tmp_path, batch_size):
  """Several short epochs are read together, but their examples do not mix."""
  recorded = _recorded(tmp_path, 8, [i % T + 1 for i in range(50)])
  stream = recorded.train_batches(batch_size, seed=1, by_length=True)
  seen = np.ravel([batch["label_ids"] for batch in stream.take(150)])
  epochs = seen[: len(seen) // 50 * 50].reshape(-1, 50)
  for epoch in epochs:
    assert sorted(epoch) == list(range(50))
  assert (epochs[0] != epochs[1]).any()


def test_batches_by_length_from_mixed_sources_rarely_mix_lengths(tmp_path):
  """The last batch of an epoch may mix lengths, but a mix has no epoch."""
  schema = features.classification(T)
  sources = []
  for name, lengths in (("a", (1, T, 3)), ("b", (2, T - 1, 5, T - 3))):
    path = str(tmp_path / name)
    tfrecord.save(path, schema, [_row(n, n) for n in lengths])
    sources.append(Source([path]))
  stream = ShuffledRecords(sources, 1).batches(schema, 2, by_length=True)
  parse = parser(schema)
  pairs = [parse(batch)["label_ids"].numpy() for _, batch in stream.take(100)]
  # A batch has two lengths only at the six borders of seven sorted lengths.
  assert sum(np.ptp(pairs, axis=1) > 0) < 7
