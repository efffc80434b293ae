"""Evaluation and predictions, against a model of one sentence at a time."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from serving.answers import softmax
from tasks.ner import examples, tagging, task
from tests import programs
from tests.serving.tasks import (
  CONFIG,
  TAGS,
  T,
  check_ensemble,
  vocab_file,
)

# The second is longer than a record; the third has a word without a token.
SENTENCES = [
  "B-X a\nO b\n",
  "O abc\nB-X de\nI-X a\n" * 5,
  "O e\nI-X \u200b\nO d\n",
  "O c\n",
]


@pytest.fixture(name="args")
def _args(tmp_path):
  for name, size in (("train", 4), ("dev", 3), ("test", 2)):
    (tmp_path / f"{name}.txt").write_text("\n".join(SENTENCES[-size:]))
  return programs.arguments(
    "run_ner",
    **{f"{x}_file": f"{tmp_path}/{x}.txt" for x in ("train", "dev", "test")},
    output_dir=f"{tmp_path}/out",
    vocab_file=vocab_file(),
    word_column=1,
    tag_column=0,
    max_seq_length=T,
    eval_batch_size=3,
    predict_batch_size=2,
    pack_examples=True,
  )


def _convert(args, flag):
  columns = args.word_column, args.tag_column
  sentences = tagging.read_tagged(args[flag], columns, TAGS, needs_tags=True)
  return task.convert(args, flag, sentences, TAGS)


def _expected(args, model, tokenizer, flag):
  """Logits of the words of a file, [W, L]."""
  sentences = examples.read_sentences(args[flag], 1, 0)
  build = task.records.TagRecordBuilder(tokenizer, T, TAGS)
  result = []
  for row, window in build(sentences):
    inputs = {name: np.array([row[name]]) for name in model.input}
    result += [model(inputs)["logits"][0, i] for i in window.positions]
  return np.array(result), [tag for s in sentences for tag in s.tags]


def test_words_are_scored_in_the_order_of_their_file(
  args, tokenizer, tmp_path, caplog
):
  caplog.set_level("INFO", "absl")
  model = task.tagger(args, CONFIG, len(TAGS))
  dev_set = _convert(args, "dev_file")
  results, values = task.evaluate(args, model, TAGS, dev_set, 17)
  logits, tags = _expected(args, model, tokenizer, "dev_file")
  ids = [TAGS.index(tag) for tag in tags]
  losses = -tf.nn.log_softmax(logits).numpy()[np.arange(len(ids)), ids]
  assert results["eval_loss"] == pytest.approx(losses.mean(), rel=1e-5)
  assert results["eval_accuracy"] == np.mean(logits.argmax(1) == ids)
  np.testing.assert_allclose(values, logits, atol=1e-5)
  assert "cut 3 of 3 sentences" in caplog.text
  written = programs.results(tmp_path / "out")
  assert written == pytest.approx(results | {"global_step": 17})
  task.predict(args, model, TAGS, _convert(args, "test_file"))
  logits, _ = _expected(args, model, tokenizer, "test_file")
  path = tmp_path / "out" / "test_predictions.conll"
  predicted = examples.read_sentences(str(path), 0, 2)
  result = [tag for s in predicted for tag in s.tags]
  assert result == [TAGS[i] for i in logits.argmax(1)]
  assert caplog.text.count("\naccuracy: ") == 2  # of dev and test
  words = [sentence._replace(tags=None) for sentence in dev_set.sentences]
  task.predict(args, model, TAGS, replace(dev_set, sentences=words))
  assert caplog.text.count("\naccuracy: ") == 2


def test_tokens_are_packed_with_labels(args):
  numbers = {"train_file": 7, "dev_file": 6, "test_file": 2}
  for flag, name in zip(numbers, ("train", "eval", "predict"), strict=True):
    part = _convert(args, flag)
    assert part.packing is None
    assert part.with_packing(8, packs=True).packing.token_labels
    assert part.path == f"{args.output_dir}/{name}.tf_record"
    assert len(part.rows) == numbers[flag]
    assert _convert(args.replace(use_tpu=True), flag).static_shapes
    alone, within = (
      _convert(args.replace(document_context=value), flag).rows[-1]
      for value in (False, True)
    )
    assert alone.positions < within.positions  # behind its neighbours


def test_a_tagger_is_of_the_flags(args):
  model = task.tagger(args.replace(ensemble=2), CONFIG, len(TAGS))
  check_ensemble(model, [2, 4], softmax)
  args = args.replace(feature_based=True, feature_layers="last", lstm_units=3)
  tagger = task.tagger(args, CONFIG, len(TAGS))
  [tags] = [v for v in tagger.variables if v.path == "tags/kernel"]
  assert tags.shape == (2 * 3, len(TAGS))


def test_an_export_has_the_labels_of_its_initial_checkpoint(
  args, tmp_path, monkeypatch, caplog
):
  config, labels = f"{tmp_path}/bert_config.json", f"{tmp_path}/labels.txt"
  CONFIG.to_json(config)
  (tmp_path / "labels.txt").write_text("O\nB-X\n")
  monkeypatch.setattr(task.checks, "labels_file", lambda _: labels)
  for value in (False, True):
    changes = {"bert_config_file": config, "document_context": value}
    served = task.served_model(args.replace(**changes))
    assert served.answers.config.labels == ("O", "B-X")
    assert ("sentence is read by itself" in caplog.text) == value
