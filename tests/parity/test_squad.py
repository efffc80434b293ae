"""SQuAD: examples, windows, records and answers equal the original's."""

import gzip
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from data import features, records
from data.tokenization import FullTokenizer
from tasks.squad import decoding, metrics
from tasks.squad import examples as squad_examples
from tasks.squad import records as squad_records
from tasks.squad.decoding import DecodingConfig
from tasks.squad.records import FIRST_UNIQUE_ID, WindowConfig
from tests.parity import golden_files

SETTINGS = re.compile(
  r"(?P<file>.+?)_len(?P<len>\d+)_stride(?P<stride>\d+)_query(?P<query>\d+)"
  r"_(?P<case>lower|cased)(_ties)?"
  r"(__nbest(?P<nbest>\d+)_maxlen(?P<maxlen>\d+)"
  r"(_v2_threshold(?P<threshold>-?[\d.]+))?)?"
)
TRAINING_RECORDS = golden_files.cases("squad/train_v*.tf_record.gz")


def _settings(path, prefix):
  """The settings in a file's name, as {name: text or None}."""
  name = path.name.removeprefix(prefix).split(".jsonl")[0].split(".tf_r")[0]
  return SETTINGS.fullmatch(name).groupdict()


def _examples(root, file, is_training):
  path = root / "squad" / f"squad_{file}.json"
  return squad_examples.read_examples(
    [str(path)], is_training, file.startswith("v2")
  )


def _windows(examples, tokenizer, settings):
  lengths = WindowConfig(
    *(int(settings[name]) for name in ("len", "query", "stride"))
  )
  return list(squad_records.make_windows(examples, tokenizer, lengths))


def _tokenizer(root, lower):
  return FullTokenizer(root / "vocab.txt", lower)


def _lines(path):
  with gzip.open(path, "rt", encoding="utf-8") as file:
    return [json.loads(line) for line in file]


@pytest.mark.parametrize(
  "path",
  golden_files.cases("squad/train_examples_*.jsonl.gz"),
  ids=golden_files.name,
)
def test_training_examples(path):
  file = path.name.removeprefix("train_examples_").removesuffix(".jsonl.gz")
  own = _examples(path.parents[1], file, is_training=True)
  theirs = _lines(path)
  assert len(own) == len(theirs)
  for mine, golden in zip(own, theirs, strict=True):
    text, start, end = mine.answer or ("", -1, -1)
    assert golden == {
      "qas_id": mine.qas_id,
      "question_text": mine.question,
      "doc_tokens": mine.doc_tokens,
      "orig_answer_text": text,
      "start_position": start,
      "end_position": end,
      "is_impossible": mine.answer is None,
    }


@pytest.mark.parametrize(
  "path",
  golden_files.cases("squad/train_order_*.json"),
  ids=golden_files.name,
)
def test_training_order(path):
  file = path.stem.removeprefix("train_order_")
  examples = _examples(path.parents[1], file, is_training=True)
  own = [one.qas_id for one in squad_examples.training_order(examples)]
  assert own == json.loads(path.read_text())


@pytest.mark.parametrize(
  "path",
  golden_files.cases("squad/*_features_*.jsonl.gz"),
  ids=golden_files.name,
)
def test_windows(path):
  root = path.parents[1]
  is_training = path.name.startswith("train")
  kind = "train" if is_training else "predict"
  settings = _settings(path, f"{kind}_features_")
  examples = _examples(root, settings["file"], is_training)
  tokenizer = _tokenizer(root, settings["case"] == "lower")
  schema = features.squad(int(settings["len"]), is_training)
  own = _windows(examples, tokenizer, settings)
  theirs = _lines(path)
  assert len(own) == len(theirs)
  rows = squad_records.rows(own, schema)
  for mine, row, golden in zip(own, rows, theirs, strict=True):
    assert mine.example_index == golden["example_index"]
    assert examples[mine.example_index].qas_id == golden["qas_id"]
    assert tokenizer.convert_ids_to_tokens(mine.ids) == golden["tokens"]
    assert row["unique_ids"] == [golden["unique_id"]]
    assert row["input_ids"] == golden["input_ids"]
    assert row["segment_ids"] == golden["segment_ids"]
    assert sum(row["input_mask"]) == golden["input_mask_sum"] == len(mine.ids)
    assert (
      _by_position(mine, mine.token_word_ids) == golden["token_to_orig_map"]
    )
    assert (
      _by_position(mine, mine.is_max_context) == golden["token_is_max_context"]
    )
    if is_training:
      assert row["start_positions"] == [golden["start_position"]]
      assert row["end_positions"] == [golden["end_position"]]
      assert row["is_impossible"] == [int(golden["is_impossible"])]


def _by_position(window, values):
  numbered = enumerate(values.tolist(), window.context_offset)
  return [list(pair) for pair in numbered]


@pytest.mark.parametrize("path", TRAINING_RECORDS, ids=golden_files.name)
def test_training_records(path):
  root = path.parents[1]
  settings = _settings(path, "train_")
  examples = _examples(root, settings["file"], is_training=True)
  tokenizer = _tokenizer(root, settings["case"] == "lower")
  schema = features.squad(int(settings["len"]), is_training=True)
  _assert_records(path, _windows(examples, tokenizer, settings), schema)


def _assert_records(path, windows, schema):
  parse = records.parser(schema)
  theirs = tf.data.TFRecordDataset(str(path), compression_type="GZIP")
  theirs = list(theirs)
  names = tf.train.Example.FromString(theirs[0].numpy()).features.feature
  assert set(names) == set(schema)
  assert len(windows) == len(theirs)
  rows = squad_records.rows(windows, schema)
  for row, golden in zip(rows, theirs, strict=True):
    for name, value in parse(golden[None]).items():
      assert np.ravel(value).tolist() == row[name], name


@pytest.mark.parametrize(
  "folder",
  golden_files.cases("squad/predictions_*"),
  ids=golden_files.name,
)
def test_answers(folder, tmp_path):
  root = folder.parents[1]
  settings = _settings(folder, "predictions_")
  examples = _examples(root, settings["file"], is_training=False)
  tokenizer = _tokenizer(root, settings["case"] == "lower")
  logits_of = folder.name.removeprefix("predictions_").split("__")[0]
  windows = _windows(examples, tokenizer, settings)
  logits = _logits(folder.parent / f"logits_{logits_of}.npz")
  own = decoding.decode(
    examples,
    windows,
    [logits[FIRST_UNIQUE_ID + number] for number in range(len(windows))],
    decoding.AnswerText(tokenizer),
    DecodingConfig(
      n_best_size=int(settings["nbest"]),
      max_answer_length=int(settings["maxlen"]),
      version_2_with_negative=settings["threshold"] is not None,
      null_score_diff_threshold=float(settings["threshold"] or 0),
    ),
  )
  metrics.write_predictions(own, str(tmp_path))
  for name in ("predictions.json", "null_odds.json"):
    expected = folder / name
    assert (tmp_path / name).exists() == expected.exists()
    if expected.exists():
      assert (tmp_path / name).read_bytes() == expected.read_bytes()
  result = json.loads((tmp_path / "nbest_predictions.json").read_text())
  _assert_n_best(result, folder / "nbest_predictions.json.gz")


def _logits(path):
  with np.load(path) as arrays:
    columns = [arrays[n] for n in ("unique_ids", "start_logits", "end_logits")]
  return {
    int(unique_id): (start, end)
    for unique_id, start, end in zip(*columns, strict=True)
  }


def _assert_n_best(result, path):
  expected = json.loads(gzip.decompress(path.read_bytes()))
  assert list(result) == list(expected)
  for name, entries in expected.items():
    assert len(result[name]) == len(entries)
    for mine, golden in zip(result[name], entries, strict=True):
      assert list(mine) == list(golden)
      # An exponential may differ in its last bit from machine to machine.
      assert mine.pop("probability") == pytest.approx(
        golden.pop("probability"), rel=1e-12
      )
      assert mine == golden
