"""The class Ner evaluates, predicts, packs and exports."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from runs import fine_tune
from serving.answers import softmax
from tasks.ner import examples, tagging, task
from tasks.ner.examples import Sentence
from tasks.ner.records import TagRecordBuilder
from tasks.ner.task import Ner
from tests import programs
from tests.serving.tasks import CONFIG, TAGS, T, check_ensemble, settings
from tests.training import toy

# The second sentence is longer than a record. The third sentence has a word
# without a token.
SENTENCES = [
  "B-X a\nO b\n",
  "O abc\nB-X de\nI-X a\n" * 5,
  "O e\nB-X \u200b\nO d\n",
  "O c\n",
]


@pytest.fixture(name="args")
def _args(tmp_path):
  """Writes tag files of three splits; returns flags of run_ner.py."""
  for name, size in (("train", 4), ("dev", 3), ("test", 2)):
    (tmp_path / f"{name}.txt").write_text("\n".join(SENTENCES[-size:]))
  names = ("train", "dev", "test")
  files = {f"{name}_file": f"{tmp_path}/{name}.txt" for name in names}
  columns = {"word_column": 1, "tag_column": 0}
  return settings("run_ner", tmp_path, **columns, **files)


def _convert(args, split):
  columns = args.word_column, args.tag_column
  path = args[f"{split}_file"]
  sentences = tagging.read_tagged(path, columns, TAGS, needs_tags=True)
  return Ner(args, {split: sentences}, TAGS).convert(split)


def _expected(args, model, tokenizer, split):
  """Returns the logits of the words of a file, [W, L], and the tags."""
  sentences = examples.read_sentences(args[f"{split}_file"], 1, 0)
  build = TagRecordBuilder(tokenizer, T, TAGS)
  result = []
  for row, window in build(sentences):
    inputs = {name: np.array([row[name]]) for name in model.input}
    result += [model(inputs)["logits"][0, i] for i in window.positions]
  return np.array(result), [tag for s in sentences for tag in s.tags]


def _predicted(path):
  return [t for s in examples.read_sentences(str(path), 0, 2) for t in s.tags]


def test_words_are_scored_in_the_order_of_their_file(args, tokenizer, tmp_path):
  ner = Ner(args.replace(do_eval=True), {}, TAGS)
  model = ner.make_model(CONFIG)
  results = fine_tune.evaluate(ner, model, {"dev": _convert(args, "dev")}, 17)
  logits, tags = _expected(args, model, tokenizer, "dev")
  ids = [TAGS.index(tag) for tag in tags]
  losses = -tf.nn.log_softmax(logits).numpy()[np.arange(len(ids)), ids]
  assert results["eval_loss"] == pytest.approx(losses.mean(), rel=1e-5)
  assert results["eval_accuracy"] == np.mean(logits.argmax(1) == ids)
  written = programs.results(tmp_path / "out")
  assert written == pytest.approx(results | {"global_step": 17})
  predicted = _predicted(tmp_path / "out" / "eval_predictions.conll")
  assert predicted == [TAGS[i] for i in logits.argmax(1)]
  *_, last = ner.evaluate(model, _convert(args, "dev")).judged  # of one word
  assert last.probability == pytest.approx(softmax(logits[-1]).max(), rel=1e-5)


def test_an_evaluation_has_precision_recall_and_f1(args, tmp_path, monkeypatch):
  (tmp_path / "dev.txt").write_text("B-X a\nO b\nB-X c\nB-X d\n")
  logits = np.eye(3)[[1, 0, 0, 0]]  # B-X O O O
  monkeypatch.setattr(task, "word_logits", lambda *_: logits)
  results = Ner(args, {}, TAGS).evaluate(None, _convert(args, "dev"))
  names = "accuracy precision recall f1".split()
  assert [results[f"eval_{name}"] for name in names] == [0.5, 1, 1 / 3, 0.5]
  # Parts of speech have no entities.
  words = SimpleNamespace(examples=[Sentence(["a"] * 4, ["NN"] * 4)])
  results = Ner(args, {}, ("NN", "VB", "X")).evaluate(None, words)
  assert results.keys() == {"eval_loss", "eval_accuracy"}


def test_a_model_of_bio_tags_is_evaluated_on_a_file_of_iob1_tags(
  args, tmp_path, monkeypatch
):
  (tmp_path / "dev.txt").write_text("I-X a\nI-X b\nO c\n")
  logits = np.eye(3)[[1, 2, 0]] * 9.0  # B-X I-X O
  monkeypatch.setattr(task, "word_logits", lambda *_: logits)
  ner = Ner(args.replace(do_eval=True), {}, TAGS)
  results = ner.evaluate(None, _convert(args, "dev"))
  assert results["eval_f1"] == 1
  assert results["eval_loss"] < 0.01
  ner.predict(None, "test", _convert(args, "dev"), 17)
  for split in ("eval", "test"):
    path = tmp_path / "out" / f"{split}_predictions.conll"
    assert _predicted(path) == ["I-X", "I-X", "O"]


@pytest.mark.parametrize(("do_eval", "index"), [(False, 0), (True, 1)])
def test_only_the_chief_writes_predictions_and_only_with_do_eval(
  args, tmp_path, monkeypatch, do_eval, index
):
  toy.set_worker(monkeypatch, index)
  ner = Ner(args.replace(do_train=True, do_eval=do_eval), {}, TAGS)
  assert ner.evaluate(ner.make_model(CONFIG), _convert(args, "dev"))
  assert not (tmp_path / "out" / "eval_predictions.conll").exists()


def test_tags_are_scored_if_the_file_has_tags(args, tokenizer, tmp_path, log):
  ner = Ner(args, {}, TAGS)
  model, test_set = ner.make_model(CONFIG), _convert(args, "test")
  ner.predict(model, "test", test_set, 17)
  logits, _ = _expected(args, model, tokenizer, "test")
  predicted = _predicted(tmp_path / "out" / "test_predictions.conll")
  assert predicted == [TAGS[i] for i in logits.argmax(1)]
  assert log.text.count("\naccuracy: ") == 1
  words = [sentence._replace(tags=None) for sentence in test_set.examples]
  ner.predict(model, "test", replace(test_set, examples=words), 17)
  assert log.text.count("\naccuracy: ") == 1


def test_each_split_has_records_that_can_be_packed(args):
  # A record has room for 10 tokens beside [CLS] and [SEP]. The long sentence
  # has 30 tokens (32 with [CLS] and [SEP]), in words of 3, 2 and 1 tokens. No
  # word is divided, so the sentence makes four records: 9, 9, 9 and 3 tokens.
  num_records = {"train": 7, "dev": 6, "test": 2}
  # {tokens of a sentence: number of such sentences}
  lengths = {"train": {4: 1, 32: 1, 5: 1, 3: 1}, "dev": {32: 1, 5: 1, 3: 1}}
  lengths["test"] = {5: 1, 3: 1}
  for split, number in num_records.items():
    part = _convert(args, split)
    assert part.with_packing(8, packs=True).packing.token_labels
    assert len(part.rows) == number
    assert part.lengths == lengths[split]
    assert part.multiple == 8


def test_document_context_comes_before_the_words_of_a_record(args):
  alone, within = (
    _convert(args.replace(document_context=value), "train").rows[-1]
    for value in (False, True)
  )
  assert min(alone.positions) < min(within.positions)


def test_tags_determine_the_metric_and_flags_determine_the_model(args):
  assert Ner(args, {}, TAGS).metric == "eval_f1"
  assert Ner(args, {}, ("NOUN", "VERB")).metric == "eval_accuracy"
  model = Ner(args.replace(ensemble=2), {}, TAGS).make_model(CONFIG)
  check_ensemble(model, [2, 4], softmax)
  args = args.replace(feature_based=True, feature_layers="last", lstm_units=3)
  tagger = Ner(args, {}, TAGS).make_model(CONFIG)
  [tags] = [v for v in tagger.variables if v.path == "tags/kernel"]
  assert tags.shape == (2 * 3, len(TAGS))  # two directions


def test_an_export_has_the_labels_of_its_initial_checkpoint(
  args, tmp_path, monkeypatch
):
  config, labels = f"{tmp_path}/bert_config.json", f"{tmp_path}/labels.txt"
  CONFIG.to_json(config)
  (tmp_path / "labels.txt").write_text("O\nB-X\n")
  monkeypatch.setattr(task.checks, "labels_file", lambda _: labels)
  args = args.replace(bert_config_file=config, feature_based=True)
  served = task.served_model(args.replace(feature_layers="last"))
  assert served.answers.config.labels == ("O", "B-X")
  [lstm, _] = served.model.get_layer("bilstm").stack
  assert lstm.forward_layer.use_cudnn is False  # it runs on any device
