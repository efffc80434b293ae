import gzip
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from data import features, records
from data.tokenization import FullTokenizer
from tasks.squad import answers, metrics
from tasks.squad import examples as squad_examples
from tasks.squad import records as squad_records
from tasks.squad.answers import DecodingConfig
from tasks.squad.records import WindowConfig
from tests.parity import golden_files

SETTINGS = re.compile(
  r"(?P<file>.+?)_len(?P<len>\d+)_stride(?P<stride>\d+)_query(?P<query>\d+)"
  r"_(?P<case>lower|cased)(_ties)?"
  r"(__nbest(?P<nbest>\d+)_maxlen(?P<maxlen>\d+)"
  r"(_v2_threshold(?P<threshold>-?[\d.]+))?)?"
)


def _examples(root, file, is_training):
  path = root / "squad" / f"squad_{file}.json"
  return squad_examples.read_examples(
    [str(path)], is_training, file.startswith("v2")
  )


def _case(path, prefix, is_training=False):
  """Returns a file's settings, tokenizer, examples, windows and schema."""
  name = path.name.removeprefix(prefix).split(".jsonl")[0].split(".tf_r")[0]
  settings = SETTINGS.fullmatch(name).groupdict()
  root = path.parents[1]
  examples = _examples(root, settings["file"], is_training)
  tokenizer = FullTokenizer(root / "vocab.txt", settings["case"] == "lower")
  lengths = [int(settings[name]) for name in ("len", "query", "stride")]
  windows = squad_records.make_windows(
    examples, tokenizer, WindowConfig(*lengths)
  )
  schema = features.squad(lengths[0], is_training)
  return settings, tokenizer, examples, list(windows), schema


@golden_files.each("squad/train_examples_*.jsonl.gz")
def test_training_examples_equal_the_originals(path):
  file = path.name.removeprefix("train_examples_").removesuffix(".jsonl.gz")
  made = _examples(path.parents[1], file, is_training=True)
  theirs = golden_files.read_jsonl(path)
  assert len(made) == len(theirs)
  for mine, golden in zip(made, theirs, strict=True):
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


@golden_files.each("squad/train_order_*.json")
def test_the_training_order_equals_the_originals(path):
  file = path.stem.removeprefix("train_order_")
  examples = _examples(path.parents[1], file, is_training=True)
  made = [one.qas_id for one in squad_examples.training_order(examples)]
  assert made == json.loads(path.read_text())


@golden_files.each("squad/*_features_*.jsonl.gz")
def test_windows_equal_the_originals(path):
  is_training = path.name.startswith("train")
  prefix = "train_features_" if is_training else "predict_features_"
  _, tokenizer, examples, made, schema = _case(path, prefix, is_training)
  theirs = golden_files.read_jsonl(path)
  assert len(made) == len(theirs)
  rows = squad_records.rows(made, schema)
  for mine, row, golden in zip(made, rows, theirs, strict=True):
    assert mine.example_index == golden["example_index"]
    assert examples[mine.example_index].qas_id == golden["qas_id"]
    assert tokenizer.convert_ids_to_tokens(mine.ids) == golden["tokens"]
    assert row["unique_ids"] == [golden["unique_id"]]
    assert row["input_ids"] == golden["input_ids"]
    assert row["segment_ids"] == golden["segment_ids"]
    assert sum(row["input_mask"]) == golden["input_mask_sum"] == len(mine.ids)
    for values, name in (
      (mine.token_word_ids, "token_to_orig_map"),
      (mine.is_max_context, "token_is_max_context"),
    ):
      numbered = enumerate(values.tolist(), mine.context_offset)
      assert [list(pair) for pair in numbered] == golden[name]
    if is_training:
      assert row["start_positions"] == [golden["start_position"]]
      assert row["end_positions"] == [golden["end_position"]]
      assert row["is_impossible"] == [int(golden["is_impossible"])]


@golden_files.each("squad/train_v*.tf_record.gz")
def test_training_records_equal_the_originals(path):
  *_, windows, schema = _case(path, "train_", is_training=True)
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


@golden_files.each("squad/predictions_*", "folder")
def test_answers_equal_the_originals(folder, tmp_path):
  settings, tokenizer, examples, windows, _ = _case(folder, "predictions_")
  logits_of = folder.name.removeprefix("predictions_").split("__")[0]
  with np.load(folder.parent / f"logits_{logits_of}.npz") as arrays:
    logits = zip(arrays["start_logits"], arrays["end_logits"], strict=True)
  made = answers.decode(
    examples,
    windows,
    list(logits),
    tokenizer,
    DecodingConfig(
      n_best_size=int(settings["nbest"]),
      max_answer_length=int(settings["maxlen"]),
      version_2_with_negative=settings["threshold"] is not None,
      null_score_diff_threshold=float(settings["threshold"] or 0),
    ),
  )
  metrics.write_predictions(made, str(tmp_path))
  for name in ("predictions.json", "null_odds.json"):
    expected = folder / name
    assert (tmp_path / name).exists() == expected.exists()
    if expected.exists():
      assert (tmp_path / name).read_bytes() == expected.read_bytes()
  result = json.loads((tmp_path / "nbest_predictions.json").read_text())
  path = folder / "nbest_predictions.json.gz"
  expected = json.loads(gzip.decompress(path.read_bytes()))
  assert list(result) == list(expected)
  for name, entries in expected.items():
    for mine, golden in zip(result[name], entries, strict=True):
      assert list(mine) == list(golden)
      # Machines may differ in the last bit of an exponential.
      expected_probability = pytest.approx(golden.pop("probability"), rel=1e-12)
      assert mine.pop("probability") == expected_probability
      assert mine == golden
