from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from data import features
from data.features import Masking
from data.pretraining.input_pipeline import (
  CausalTargets,
  Masker,
  PretrainingInput,
)
from data.records import Source
from data.tokenization import FullTokenizer
from storage import record_scan, tfrecord
from tasks.pretraining.settings import Settings, find_schema

T, P, V = 8, 2, 50


def _row(schema, number):
  """Returns a record of ones, except token ids that depend on `number`."""
  row = {name: [1] * feature.size for name, feature in schema.items()}
  ids = [number] * (schema["input_ids"].size - 1) + [number + 1]
  if "masked_lm_positions" not in row:
    ids[0], ids[-2] = 2, 3  # [CLS] and [SEP] of _vocab
  return row | {"input_ids": ids}


def _write(path, numbers, schema=None):
  schema = schema or features.pretraining(T, P)
  tfrecord.save(str(path), schema, [_row(schema, n) for n in numbers])
  return str(path)


@pytest.fixture(name="paths")
def _paths(tmp_path):
  return [
    _write(tmp_path / "a", range(7)),
    _write(tmp_path / "b", range(7, 10)),
    _write(tmp_path / "c", range(10, 30)),
  ]


def _ids(dataset, number):
  batches = dataset.take(number)
  return np.concatenate([b["input_ids"][:, 0].numpy() for b in batches])


MASKING = Masking(P)


def _input(
  paths, seq_length=T, vocab_size=V, masking=MASKING, tokenizer=None, **more
):
  """Makes an input of paths, or of the sources in `more`."""
  settings = Settings(
    bert_config_file="",
    output_dir="",
    max_seq_length=seq_length,
    max_predictions_per_seq=masking.max_predictions_per_seq,
    vocab_file=tokenizer and tokenizer.vocab_file,
    objective="left_to_right" if "causal_targets" in more else "mlm",
    max_corrupt_records=more.get("max_corrupt_records", 0),
  )
  heads = [record_scan.read_head(path) for path in paths]
  schema = find_schema(settings, heads, vocab_size)
  sources = more.pop("sources", [Source(paths)])
  return PretrainingInput(
    sources, schema, vocab_size, masking, tokenizer, **more
  )


def test_a_missing_index_is_made_and_saved_in_the_given_folder(paths, tmp_path):
  Path(tfrecord.index_path(paths[0])).unlink()
  _ids(_input(paths, folder=str(tmp_path)).train_batches(5, seed=3), 1)
  assert (tmp_path / "records-index.npz").exists()


@pytest.mark.parametrize(("workers", "replicas"), [(2, 4), (4, 4)])
def test_each_worker_reads_its_part_of_global_batches(paths, workers, replicas):
  source = _input(paths)
  batches = _ids(source.train_batches(8, seed=3), 6).reshape(6, replicas, -1)
  here = replicas // workers
  for worker in range(workers):
    context = tf.distribute.InputContext(workers, worker, replicas)
    part = _ids(source.train_batches(8, seed=3, context=context), 6 * here)
    expected = batches[:, worker * here : (worker + 1) * here].reshape(-1)
    np.testing.assert_array_equal(part, expected)


def test_batches_for_evaluation_repeat_the_records_endlessly(paths):
  batches = [*_input(paths[:1]).endless_eval_batches(5).take(3)]
  ids = np.concatenate([batch["input_ids"][:, 0] for batch in batches])
  np.testing.assert_array_equal(ids, [*range(7), *range(7), 0])
  types = {name: value.dtype for name, value in batches[0].items()}
  assert types.pop("masked_lm_weights") == tf.float32
  assert {*types.values()} == {tf.int32}


def test_datasets_of_records_do_not_autotune(paths):
  reader = _input(paths).train_batches(10, seed=1)
  # Autotune can delay the end of an iterator by half a minute.
  assert not reader.options().autotune.enabled


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"seq_length": 9}, r"input_ids has 8 values in a record, expected 9"),
    ({"masking": Masking(3)}, r"masked_lm_positions has 2 values"),
  ],
)
def test_records_that_do_not_fit_settings_are_refused(paths, options, message):
  with pytest.raises(ValueError, match=message) as error:
    _input(paths[2:], **options)
  assert paths[2] in str(error.value)


LIMITS = {"input_ids": V, "input_mask": 2, "next_sentence_labels": 2}
LIMITS |= {"masked_lm_positions": T, "masked_lm_ids": V}


@pytest.mark.parametrize(("field", "limit"), LIMITS.items())
def test_values_outside_the_models_range_are_refused(tmp_path, field, limit):
  schema = features.pretraining(T, P)
  row = _row(schema, 1)

  def read(number):
    path = str(tmp_path / str(number))
    tfrecord.save(path, schema, [row | {field: [number, *row[field][1:]]}])
    _input([path])

  read(limit - 1)
  for number in (limit, -1):
    with pytest.raises(ValueError, match=f"{field} goes from .*{number}"):
      read(number)


def test_padding_is_cut_to_a_length_of_the_given_multiple(tmp_path):
  schema, path = features.pretraining(T, P), str(tmp_path / "x")
  row = _row(schema, 1) | {"input_mask": [1] * 3 + [0] * 5}
  tfrecord.save(path, schema, [row])
  [batch] = _input([path], multiple=2).train_batches(1, seed=1).take(1)
  assert batch["input_ids"].shape == (1, 4)


def test_a_training_skips_corrupt_records(paths, tmp_path):
  content = bytearray((tmp_path / "a").read_bytes())
  content[20] ^= 1  # in the first record
  (tmp_path / "a").write_bytes(content)
  sources = [Source(paths[:1], 2.0), Source(paths[1:2], 3.0)]
  options = {"max_corrupt_records": 1, "folder": str(tmp_path / "out")}
  source = _input(paths[:2], sources=sources, **options)
  assert [one.weight for one in source.sources] == [2.0, 3.0]
  assert {*_ids(source.train_batches(2, seed=1), 20)} == {*range(1, 10)}


@pytest.mark.parametrize(
  ("content", "message"),
  [(b"", "holds no record"), (b"just text, no record", "is not a file of rec")],
)
def test_a_file_without_records_is_refused(tmp_path, content, message):
  (tmp_path / "x").write_bytes(content)
  with pytest.raises(ValueError, match=f"x {message}"):
    _input([str(tmp_path / "x")])


def test_empty_files_are_skipped_but_a_source_of_them_is_refused(tmp_path):
  (tmp_path / "empty").touch()
  paths = [str(tmp_path / "empty"), _write(tmp_path / "x", range(10))]
  assert sorted(_ids(_input(paths).train_batches(5, seed=1), 2)) == [*range(10)]
  mix = _input(paths, sources=[Source(paths), Source(paths[:1])])
  with pytest.raises(ValueError, match="empty holds no record: leave it out"):
    mix.train_batches(5, seed=1)


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _tokenizer(tmp_path, tokens=SPECIAL, end="\n"):
  path = tmp_path / "vocab.txt"
  path.write_text("\n".join([*tokens, *(f"w{i}" for i in range(40))]) + end)
  return FullTokenizer(path)


def _unmasked(tmp_path, numbers):
  return _write(tmp_path / "x", numbers, features.pretraining(T))


@pytest.mark.parametrize("whole_word", [False, True])
def test_masks_depend_only_on_the_batch_and_the_seed(tmp_path, whole_word):
  path = _unmasked(tmp_path, range(10, 40))
  masking = Masking(P, whole_word=whole_word)
  source = _input([path], masking=masking, tokenizer=_tokenizer(tmp_path))
  data = source.train_batches(10, seed=1)
  first, again = list(data.take(6)), list(data.take(6))
  assert set(first[0]) == set(features.pretraining(T, P))
  resumed = source.train_batches(10, seed=1, skip=20).take(4)
  for a, b in zip(first + first[2:], [*again, *resumed], strict=True):
    for name in a:
      np.testing.assert_array_equal(a[name], b[name])
  # Another batch or another seed masks the same records differently.
  serialized = next(iter(tf.data.TFRecordDataset(path).batch(30)))
  repeated = tf.data.Dataset.from_tensors(serialized).repeat(2).enumerate()
  masks = {
    batch["masked_lm_positions"].numpy().tobytes()
    for seed in (1, 2)
    for batch in source.parse_batches(repeated, seed)
  }
  assert len(masks) == 4
  evaluation = [*source.endless_eval_batches(30).take(2)]
  first, second = (batch["masked_lm_positions"] for batch in evaluation)
  assert np.any(first != second)


def test_a_blank_line_of_the_vocabulary_is_never_a_random_token(tmp_path):
  masker = Masker(_tokenizer(tmp_path, end="\n\n"), MASKING)
  assert masker._all_ids == [*range(45)]  # SPECIAL and 40 words


def test_unmasked_records_need_a_vocabulary_with_special_tokens(tmp_path):
  path = _unmasked(tmp_path, [1])
  with pytest.raises(ValueError, match="vocab_file is needed"):
    _input([path])
  # A training on next tokens masks nothing.
  _input([path], causal_targets=CausalTargets("left_to_right"))
  with pytest.raises(ValueError, match=r"lacks .*\[MASK\]"):
    _input([path], tokenizer=_tokenizer(tmp_path, SPECIAL[:4]))


def test_masked_records_are_neither_masked_again_nor_mixed_with_unmasked_ones(
  paths, tmp_path
):
  mixed = [_unmasked(tmp_path, [1]), *paths]
  with pytest.raises(
    ValueError, match="x: masked_lm_positions has 0 values in a record"
  ):
    _input(mixed, tokenizer=_tokenizer(tmp_path))
  assert not _input(paths, tokenizer=_tokenizer(tmp_path)).masks_words
