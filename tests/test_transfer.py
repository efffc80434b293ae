"""A model of other labels, or of another vocabulary, as a start."""

import random
import shutil
from functools import partial

import pytest
import tensorflow as tf

from cli import encoder
from data import labels
from data.vocab import SPECIAL_TOKENS
from modeling import models
from tasks.ner import examples
from tests import programs, small_model
from tests.training import toy
from training import checkpoint
from training.run_folder import Checkpoints

KEYS = {"good": "alpha", "bad": "beta", "dull": "gamma", "red": "delta"}
FOUR = tuple(sorted(KEYS.values()))
VOCABULARY = [
  *(*SPECIAL_TOKENS, "[unused1]"),
  *("the", "film", "blue", *KEYS),
]
SIZE = len(VOCABULARY)


def _write_data(path, keys):
  rng = random.Random(1)
  rows = (rng.choice(list(keys.items())) for _ in range(24))
  lines = [f"the {word} film\t{label}" for word, label in rows]
  path.write_text("\n".join(["text\tlabel", *lines]) + "\n")


def _flags(folder, **changes):
  return {
    "task_name": "tsv",
    "data_dir": folder / "data",
    "bert_config_file": folder / "bert_config.json",
    "vocab_file": folder / "vocab.txt",
    "output_dir": folder / "out",
    "max_seq_length": toy.T,
    "num_train_epochs": 1,
    "train_batch_size": 8,
    "seed": 1,
  } | changes


@pytest.fixture(name="folder")
def _folder(tmp_path):
  """A model of four labels in `old`, as converting one leaves it, and data."""
  small_model.write(tmp_path, VOCABULARY)
  model = models.classifier(small_model.config(SIZE), 4)
  prefix = str(tmp_path / "old" / "bert_model.ckpt")
  checkpoint.write(prefix, checkpoint.variables(model))
  labels.save(FOUR, str(tmp_path / "old"))
  shutil.copy(tmp_path / "vocab.txt", tmp_path / "old")
  (tmp_path / "data").mkdir()
  _write_data(tmp_path / "data" / "train.tsv", KEYS | {"blue": "epsilon"})
  return tmp_path


def test_a_label_is_added_by_one_command(folder):
  start = folder / "old" / "bert_model.ckpt"
  flags = _flags(folder, init_checkpoint=start, do_train=True)
  log = programs.run("run_classifier", **flags)
  assert f"WARNING: the head is fresh: {start} was trained for other" in log
  assert "output_weights is [4, 16], here [5, 16]" in log
  assert "checkpoints in" in log.rpartition("saved")[2]
  assert labels.load(str(folder / "out")) == (
    *("alpha", "beta", "delta", "epsilon", "gamma"),
  )
  _write_data(folder / "data" / "train.tsv", {"good": "alpha", "blue": "zeta"})
  message = "'zeta' is no label of --task_name=tsv; its labels are alpha, "
  log = programs.fails("run_classifier", message, **flags)
  assert f"give --init_checkpoint={folder / 'out'} and another" in log


def test_a_converted_model_predicts_with_its_own_labels(folder):
  start = folder / "old" / "bert_model.ckpt"
  (folder / "data" / "train.tsv").rename(folder / "data" / "test.tsv")
  flags = _flags(folder, init_checkpoint=start, do_predict=True)
  programs.run("run_classifier", **flags)
  header, *_ = programs.table(folder / "out" / "test_predictions.tsv")
  assert header == ["guid", "prediction", *FOUR]


def _parsed(folder, **changes):
  """Flags as a program has them."""
  flags = {k: str(v) for k, v in _flags(folder).items()} | {
    "init_checkpoint": str(folder / "old" / "bert_model.ckpt"),
    "do_train": True,
  }
  return programs.arguments("run_ner", **flags | changes)


def _tags(args):
  find = partial(examples.find_tags, args.train_file, examples.Columns())
  return labels.choose(
    *(args.output_dir, encoder.labels_file(args)),
    *(find if args.train_file else None, args.do_train),
  )


def test_a_converted_tagger_has_its_own_tags(folder):
  assert _tags(_parsed(folder, do_train=False)) == FOUR
  train_file = folder / "train.txt"
  train_file.write_text("one O\ntwo B-X\n")
  flags = {"train_file": str(train_file)}
  assert _tags(_parsed(folder, do_train=False, **flags)) == FOUR
  assert _tags(_parsed(folder, **flags)) == ("O", "B-X")


def test_a_head_that_is_not_taken_has_no_say_in_the_labels(folder):
  assert encoder.labels_file(_parsed(folder)).endswith("old/labels.txt")
  assert encoder.labels_file(_parsed(folder, new_head=True)) is None
  assert encoder.labels_file(_parsed(folder, init_checkpoint=None)) is None
  Checkpoints(str(folder / "out")).save(1, {"global_step": tf.Variable(1)})
  assert encoder.labels_file(_parsed(folder)) is None


def _check(folder, tokens, size=SIZE, **changes):
  path = folder / "given.txt"
  path.write_text("\n".join(tokens) + "\n")
  encoder.check_vocabulary(
    _parsed(folder, vocab_file=str(path), **changes), size
  )


def test_a_much_smaller_vocabulary_is_warned_of(folder, caplog):
  (folder / "old" / "vocab.txt").unlink()
  values = {"bert/embeddings/word_embeddings": [[0.0]] * 200}
  checkpoint.write(str(folder / "old" / "bert_model.ckpt"), values)
  _check(folder, [*VOCABULARY, *map(str, range(150))], size=200)
  assert not caplog.text  # rows may be padded
  _check(folder, VOCABULARY, size=200)
  assert "given.txt has 13 lines, but the model of" in caplog.text
  assert "has 200 ids: is it the vocab.txt that came with" in caplog.text
