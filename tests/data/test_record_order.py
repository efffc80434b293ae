import itertools

import numpy as np
import pytest
import tensorflow as tf

from data import records
from data.records import ShuffledRecords, Source
from storage import record_scan, tfrecord


@pytest.fixture(name="small", autouse=True)
def _small(monkeypatch):
  """Makes blocks and chunks so small that toy files have many."""
  for module in (record_scan, records):
    monkeypatch.setattr(module, "BLOCK", 4)
  monkeypatch.setattr(records, "_CHUNK", 3)


def _write(path, numbers):
  with open(path, "wb") as file:
    tfrecord.RecordFile(file).write(b"%07d" % number for number in numbers)
  return str(path)


@pytest.fixture(name="paths")
def _paths(tmp_path):
  bounds = (0, 3, 10, 50, 130)
  return [
    _write(tmp_path / f"{begin} und ü", range(begin, end))
    for begin, end in itertools.pairwise(bounds)
  ]


def _read(sources, number, seed=1, position=0, cache=None):
  """Reads the numbers of `number` records, starting at a position."""
  dataset = ShuffledRecords(sources, seed, cache).from_position(position)
  return np.array([int(x) for x in dataset.take(number).as_numpy_iterator()])


def test_each_epoch_has_every_record_once_in_a_new_order(paths):
  result = _read([Source(paths)], 390).reshape(3, 130)
  for epoch in result:
    assert sorted(epoch) == list(range(130))
  assert len({tuple(epoch) for epoch in result}) == 3


def test_chunk_epoch_seed_and_source_change_the_order(tmp_path, monkeypatch):
  monkeypatch.setattr(records, "_ROUND", 100)
  files = [_write(tmp_path / str(n), range(n, n + 96)) for n in (0, 96)]
  sources = [Source([path]) for path in files]
  epochs = [
    epoch
    for seed in (1, 2)
    for epoch in _read(sources[:1], 192, seed).reshape(2, 8, 12)
  ]
  # All 4 * 8 chunks differ in their order, and all 4 epochs in their blocks.
  orders = {tuple(chunk % 4) for epoch in epochs for chunk in epoch}
  blocks = {tuple(frozenset(c // 4) for c in epoch) for epoch in epochs}
  assert (len(orders), len(blocks)) == (4 * 8, 4)
  mixtures = [_read(sources, 200, seed) for seed in (1, 2)]
  rounds = {tuple(part < 96) for m in mixtures for part in np.split(m, 2)}
  assert len(rounds) == 4
  first, second = (mixtures[0][mixtures[0] // 96 == n] % 96 for n in (0, 1))
  assert (first != second).mean() > 0.9


@pytest.mark.parametrize("skip", [0, 16])
def test_batches_are_numbered_by_step_and_replica(paths, skip):
  records = ShuffledRecords([Source(paths)], 3)
  numbers = []
  for worker in range(2):
    context = tf.distribute.InputContext(2, worker, 4)
    batches = records.batches(None, 8, skip, context)
    numbers += [int(number) for number, _ in batches.take(4)]
  # A replica gets batches of 2. Worker 0 has the first two of four replicas.
  assert numbers == [skip // 2 + n for n in (0, 1, 4, 5, 2, 3, 6, 7)]


@pytest.mark.parametrize("is_mixed", [False, True])
def test_records_keep_their_order_from_any_start_position(is_mixed, paths):
  mixed = [Source(paths[:2], 1), Source(paths[2:], 2)]
  sources = mixed if is_mixed else [Source(paths)]
  expected = _read(sources, 2500, 7)
  for skip in (11, 12, 77, 130, 1001, 2345):
    result = _read(sources, 150, 7, skip)
    np.testing.assert_array_equal(result, expected[skip : skip + 150])


def test_a_resumed_training_does_not_read_earlier_chunks(paths, tmp_path):
  cache = str(tmp_path / "index.npz")
  source = [Source(paths[3:])]
  expected = _read(source, 80, 5, cache=cache)
  last = expected[60:]  # after five chunks of twelve records
  data = bytearray((tmp_path / "50 und ü").read_bytes())
  for number in set(range(50, 130)) - set(last):
    data[(number - 50) * 23 + 12] ^= 1  # a record has 16 + 7 bytes
  (tmp_path / "50 und ü").write_bytes(data)
  np.testing.assert_array_equal(_read(source, 18, 5, 62, cache), expected[62:])


def test_sources_are_mixed_by_weight(paths):
  sources = [Source(paths[:2], 3), Source(paths[2:3], 0.5), Source(paths[3:])]
  result = _read(sources, 2000)
  for thousand in np.split(result, 2):
    small, middle = (thousand < 10).sum(), (thousand < 50).sum()
    # The weights are 3, 0.5 and 1. Of 1000, 3 / 4.5 are 667, 0.5 / 4.5 are 111.
    assert (small, middle - small) == (667, 111)
  # Each source repeats at its own pace.
  assert sorted(result[result >= 50][:80]) == list(range(50, 130))


def test_a_weight_of_a_thousandth_gives_one_record_in_a_thousand(paths):
  sources = [Source(paths[:2], 1), Source(paths[2:], 999)]
  assert (_read(sources, 1000) < 10).sum() == 1


@pytest.mark.parametrize(
  "weights", [(1, 0), (-1, -2), (0, 0), (1, float("nan")), (1, 1e-6)]
)
def test_invalid_weights_of_sources_are_refused(weights, paths):
  sources = [Source([p], w) for p, w in zip(paths[:2], weights, strict=True)]
  with pytest.raises(ValueError, match="positive, and at least one 1,000th of"):
    ShuffledRecords(sources, 1)
