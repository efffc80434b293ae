"""run_pretraining.py: sources, masks, evaluations and checks of flags."""

import json
import shutil
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest

from data import vocab
from data.batching import Packing
from data.features import Masking
from data.pretraining.instances import InstanceConfig
from data.records import Source
from data.tokenization import open_tokenizer
from modeling import losses, models
from storage import UserError, record_scan, tfrecord
from storage.record_scan import Head
from tasks.pretraining import settings, task
from tests import programs, shared, small_model
from tests.training import toy

_args = partial(programs.arguments, "run_pretraining")


def _toy_args(folder):
  """Returns flags to train and evaluate on a folder's file `records`."""
  files = dict.fromkeys(("input_file", "eval_file"), f"{folder}/records")
  sizes = {"max_predictions_per_seq": toy.P, "max_seq_length": toy.T}
  return _args(**files, **sizes, output_dir=str(folder))


def test_sampling_exponent_0_5_weights_sources_by_the_square_root_of_size(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(task, "_records", lambda a, b, sources, *_: sources)
  for name, size in (("en", 4000), ("en2", 6000), ("is", 100)):
    (tmp_path / name).write_bytes(b"x" * size)
  args = _args(input_file=f"{tmp_path}/en*, {tmp_path}/is")
  args = args.replace(sampling_exponent=0.5)
  english, icelandic = task.train_data(args, None)
  assert [path[-3:] for path in english.files] == ["/en", "en2"]
  ratio = english.weight / icelandic.weight
  assert ratio == pytest.approx((10_000 / 100) ** 0.5)


def test_masking_flags_that_have_no_effect_are_reported(tmp_path, caplog):
  toy.write_records(tmp_path / "records", 4)
  args = _toy_args(tmp_path)
  changed = args.replace(masked_lm_prob=0.25)
  for make, flags, is_reported in (
    (task.train_data, args, False),
    (task.eval_data, changed, False),
    (task.train_data, changed, True),
    (task.train_data, args.replace(do_whole_word_mask=True), True),
  ):
    caplog.clear()
    make(flags, toy.config())
    text = f"{args.input_file} has masks already"
    assert (text in caplog.text) == bool(caplog.messages) == is_reported


def test_a_corrupt_record_of_an_evaluation_is_reported(tmp_path):
  path = tmp_path / "records"
  toy.write_records(path, 20)
  path.write_bytes(path.read_bytes()[:-7])
  args = _toy_args(tmp_path).replace(eval_batch_size=4)
  model = models.pretrainer(toy.config())
  source = task.eval_data(args, toy.config())
  with pytest.raises(UserError, match=r"records.*record 19"):
    task.evaluate(args, model, losses.pretraining(), source, 1)


def test_each_data_flag_reaches_the_input_pipeline(tmp_path, monkeypatch):
  for name in "abc":
    (tmp_path / name).write_text(name)
  a, b, c = (str(tmp_path / name) for name in "abc")
  masks = {"max_predictions_per_seq": 4, "masked_lm_prob": 0.25}
  masks |= {"mask_token_prob": 0.5, "random_token_prob": 0.125}
  flags = {"input_file": f"{a},{b}", "eval_file": c, "output_dir": "out"}
  flags |= {"sampling_weights": (3.0, 1.0), "do_whole_word_mask": True}
  flags |= {"max_seq_length": 64, "vocab_file": "v", "pack_examples": True}
  flags |= {"max_corrupt_records": 7, "objective": "right_to_left"}
  args = _args(**masks, **flags)
  monkeypatch.setattr(task, "CausalTargets", lambda *given: given)
  monkeypatch.setattr(settings.Settings, "tokenizer", "v")
  monkeypatch.setattr(settings, "find_schema", lambda _, *given: given)
  monkeypatch.setattr(record_scan, "read_head", lambda path: path)
  result = partial(SimpleNamespace, masks_words=1)

  def make(*given, **named):
    return result(given=given, **named)

  monkeypatch.setattr(task, "PretrainingInput", make)

  def train_data(**changes):
    return task.train_data(args.replace(**changes), toy.config())

  train_set, eval_set = train_data(), task.eval_data(args, toy.config())
  masking = Masking(4, 0.25, True, 0.5, 0.125)
  sources = [Source([a], 3.0), Source([b], 1.0)]
  assert train_set.given == (sources, ([a], toy.V), toy.V, masking, "v")
  masking = Masking(4, 0.25, True)
  assert eval_set.given == ([Source([c])], ([c], toy.V), toy.V, masking, "v")
  assert train_set.packing == Packing(64)
  assert eval_set.packing is None
  for part in (train_set, eval_set):
    assert part.causal_targets == ("right_to_left", None)
    assert (part.max_corrupt_records, part.folder) == (7, "out")
  bare = train_data(sampling_weights=None, pack_examples=None)
  assert bare.given[0] == [Source([a, b])]
  assert bare.packing is None
  assert train_data(special_tokens=False).causal_targets[1] == "v"


def test_an_evaluation_takes_batch_size_and_number_of_steps_from_flags(
  tmp_path, monkeypatch, log
):
  given, results = [], {"x": 1}
  monkeypatch.setattr(
    task.loop, "evaluate", lambda *parts: given.extend(parts) or results
  )
  flags = {"eval_batch_size": 3, "max_eval_steps": 7, "train_batch_size": 5}
  args = _args(**flags, output_dir=str(tmp_path))
  source = SimpleNamespace(first_corrupt=None)
  source.endless_eval_batches = lambda size: f"{size} at once"
  task.evaluate(args, "model", "objective", source, 9)
  assert given == ["model", "objective", "3 at once", 7]
  text = "evaluation at step 9, on the records of --input_file"
  assert log.messages[0] == text
  assert programs.results(tmp_path) == {"x": 1, "global_step": 9}


@pytest.mark.parametrize("kinds", [["pretraining", "masked_lm"], ["masked_lm"]])
def test_a_served_model_has_its_checkpoints_heads(tmp_path, monkeypatch, kinds):
  monkeypatch.setattr(task.checkpoint_files, "kinds_at", lambda _: kinds)
  paths = small_model.write(tmp_path, vocab.SPECIAL_TOKENS)
  flags = {name: str(path) for name, path in paths.items()}
  args = _args(**flags, output_dir=str(tmp_path), max_seq_length=16)
  outputs = task.served_model(args).model.output
  assert ("next_sentence_logits" in outputs) == ("pretraining" in kinds)


def test_flags_set_the_contents_of_pretraining_records():
  flags = {"max_predictions_per_seq": 4, "masking": "dynamic"}
  flags |= {"max_seq_length": 64, "short_seq_prob": 0.3}
  for given, changes, expected in (
    # With dynamic masking, records have no masks and one copy is enough.
    ((), {}, InstanceConfig(64, None, 0.3, 1)),
    # A given flag counts, even with its default.
    (("dupe_factor",), {}, InstanceConfig(64, None, 0.3, 10)),
    (("dupe_factor",), {"dupe_factor": 3}, InstanceConfig(64, None, 0.3, 3)),
    ((), {"masking": "static"}, InstanceConfig(64, Masking(4), 0.3, 10)),
  ):
    values = flags | changes
    args = programs.arguments("create_pretraining_data", given, **values)
    assert args.instance_config() == expected
  args = args.replace(masking="dynamic")
  for change in ({"masked_lm_prob": 0.2}, {"do_whole_word_mask": True}):
    with pytest.raises(ValueError, match="with --masking=dynamic give them to"):
      args.replace(**change).instance_config()


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    ({"special_tokens": False}, "--nospecial_tokens needs --vocab_file"),
    ({"objective": "mlm"}, "--objective=mlm needs special tokens"),
  ],
)
def test_contradictions_between_objective_and_flags_are_refused(flags, message):
  backward = {"objective": "right_to_left", "special_tokens": False}
  for allowed in ({}, backward | {"vocab_file": "v"}):
    settings.check_objective(_args(**allowed))
  with pytest.raises(ValueError, match=message):
    settings.check_objective(_args(**backward | flags))


def _records(path, tokens):
  """Writes a vocabulary and records that are marked with its fingerprint."""
  vocab.save(tokens, f"{path}-vocab.txt")
  mark = open_tokenizer(f"{path}-vocab.txt").fingerprint
  with tfrecord.create(str(path), mark) as file:
    file.write([b"record"])


@pytest.mark.parametrize(
  ("names", "flags", "culprit"),
  [
    ("a", {"vocab_file": "a-vocab.txt"}, None),
    ("unmarked", {"vocab_file": "b-vocab.txt"}, None),
    ("a b", {"vocab_file": "a-vocab.txt"}, "b was .* than .*a-vocab.txt"),
    ("a b", {"init_checkpoint": "release"}, "b was .* than .*release/vocab.tx"),
    ("b", {"init_checkpoint": "release", "vocab_file": "b-vocab.txt"}, None),
    ("b", {"init_checkpoint": "marked"}, "b was .* than .*marked: make"),
    ("a", {"init_checkpoint": "marked"}, None),
    ("a c", {"vocab_file": "c-vocab.txt"}, None),  # c extends a
    ("a c", {"vocab_file": "a-vocab.txt"}, "c was .* than .*a-vocab.txt"),
    ("a unmarked", {}, None),  # the vocabulary of the model is unknown
    ("a b", {}, "b was .* than .*/a: make the records"),
  ],
)
def test_records_with_the_fingerprint_of_a_wrong_vocabulary_are_refused(
  tmp_path, names, flags, culprit
):
  """Files a and b have the same tokens in different orders."""
  tokens = [*vocab.SPECIAL_TOKENS, "owl", "bat"]
  _records(tmp_path / "a", [*tokens, "[unused0]"])
  _records(tmp_path / "b", [*vocab.SPECIAL_TOKENS, "bat", "owl", "[unused0]"])
  _records(tmp_path / "c", [*tokens, "newt", "elk"])
  (tmp_path / "unmarked").write_bytes((tmp_path / "a").read_bytes())
  shared.touch_checkpoint(tmp_path / "release", "a.ckpt")
  shutil.copy(tmp_path / "a-vocab.txt", tmp_path / "release/vocab.txt")
  shared.touch_checkpoint(tmp_path / "marked", "a.ckpt")  # lost its vocab.txt
  mark = open_tokenizer(str(tmp_path / "a-vocab.txt")).fingerprint
  entry = json.dumps([{"flags": {}, "vocabulary": mark}])
  (tmp_path / "marked/run.json").write_text(entry)
  flags = {name: str(tmp_path / value) for name, value in flags.items()}
  args = _args(**{"output_dir": ""} | flags)
  paths = [str(tmp_path / name) for name in names.split()]
  heads = [Head(path, None, record_scan.read_index(path)[1]) for path in paths]
  with pytest.raises(UserError, match=culprit) if culprit else nullcontext():
    settings.check_vocabularies(args, heads, vocab_size=9)
