"""convert_checkpoint.py converts checkpoints and folders of every kind."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from modeling import models
from tests import shared, small_model
from tests.programs import fails, run
from training import checkpoint

PRESET = Path(__file__).parent / "conversion/golden/keras_hub/preset"
CONFIG = small_model.narrow(7)
TAGS = ("B-PER", "I-PER", "O")


def _values(model):
  """Returns random values of a model, and variables that training would add."""
  rng = np.random.RandomState(0)
  values = {
    v.path: rng.normal(size=v.shape).astype(np.float32) for v in model.variables
  }
  slots = {f"{k}/adam_{m}": v for k, v in values.items() for m in "mv"}
  return values, slots | {"global_step": np.int64(9), "run/seed": np.int64(1)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  """Writes a release, a tagger's output folder, and a model of unknown kind."""
  folder = tmp_path_factory.mktemp("runs")
  bert = folder / "bert"
  bert.mkdir()
  CONFIG.to_json(str(bert / "bert_config.json"))
  (bert / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
  values, _ = _values(models.pretrainer(CONFIG))
  checkpoint.write(str(bert / "bert_model.ckpt"), values)
  values, state = _values(models.tagger(CONFIG, len(TAGS)))
  tagger = folder / "tagger"
  checkpoint.write(str(tagger / "model.ckpt-9"), values | state)
  (tagger / "labels.txt").write_text("\n".join(TAGS))
  (tagger / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"')
  values["output_weights"] = np.ones((3, 6), np.float32)
  values["bilstm/layer_0/kernel"] = np.ones(3, np.float32)
  checkpoint.write(str(folder / "unknown" / "model.ckpt-9"), values | state)
  return folder


def test_a_checkpoint_survives_two_conversions_bit_for_bit(runs, tmp_path):
  bert, there, back = runs / "bert", tmp_path / "there", tmp_path / "back"
  for source, target in ((bert, there), (there, back)):
    log = run("convert_checkpoint", input=source, output=target)
    assert "variables with the same bits" in log
    assert "no pooler" not in log
    assert ("wrote a BertForPreTraining" in log) == (target == there)
  shared.assert_same_checkpoint(back, bert)
  for name in ("bert_config.json", "vocab.txt"):
    assert (back / name).read_bytes() == (bert / name).read_bytes()


def test_a_run_is_converted_with_the_files_that_its_flags_name(runs, tmp_path):
  run_dir = shutil.copytree(runs / "tagger", tmp_path / "run")
  names = {"bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
  flags = {flag: f"bert/{name}" for flag, name in names.items()}
  entry = {"program": "run_ner", "flags": flags, "directory": str(runs)}
  (run_dir / "run.json").write_text(json.dumps([entry]))
  out = tmp_path / "folder"
  run("convert_checkpoint", input=run_dir, output=out, do_lower_case=False)
  settings = json.loads((out / "config.json").read_text())
  assert settings["architectures"] == ["BertForTokenClassification"]
  settings = json.loads((out / "tokenizer_config.json").read_text())
  assert settings["do_lower_case"] is False
  vocabulary = (runs / "bert/vocab.txt").read_bytes()
  assert (out / "vocab.txt").read_bytes() == vocabulary


def test_a_checkpoint_without_slots_has_a_third_of_the_size(runs, tmp_path):
  flags = {"input": runs / "tagger", "strip_optimizer": True}
  log = run("convert_checkpoint", output=tmp_path / "small", **flags)
  assert "its variables are not checked" in log
  small = tmp_path / "small" / "bert_model.ckpt"
  values, _ = _values(models.tagger(CONFIG, len(TAGS)))
  checkpoint.write(str(tmp_path / "expected"), values | {"global_step": 9})
  shared.assert_same_checkpoint(small, tmp_path / "expected")
  complete, part = (
    Path(f"{prefix}.data-00000-of-00001").stat().st_size
    for prefix in (runs / "tagger" / "model.ckpt-9", small)
  )
  assert part < 0.34 * complete


def test_a_keras_hub_preset_is_converted(tmp_path):
  log = run("convert_checkpoint", input=PRESET, output=tmp_path / "original")
  assert "need --do_lower_case=False" in log
  flags = {"input": PRESET, "output_format": "hugging_face"}
  run("convert_checkpoint", output=tmp_path / "hugging_face", **flags)
  vocabulary = PRESET / "assets" / "tokenizer" / "vocabulary.txt"
  for folder in ("original", "hugging_face"):
    written = (tmp_path / folder / "vocab.txt").read_bytes()
    assert written == vocabulary.read_bytes()


# Flags and the error. % stands for PRESET, & for the folder of the fixture
# `runs`, @ for tmp_path.
MISTAKES = """
input=@few | has shape (6, 8), its configuration says (7, 8)
input=&bert output_format=original | is of the format original already; --strip
input=% strip_optimizer=True | --strip_optimizer is for the original's format
input=&unknown bert_config_file=&bert/bert_config.json | alone by --head=encoder
input=% head=masked_lm | --head=masked_lm is for a Hugging Face --output
input=&bert head=tagging | has no head for tagging: there is no output_bias
input=&bert bert_config_file=@odd.json | the configuration of &bert/bert_model
input=% use_moving_averages=True | --use_moving_averages does not go with the f
input=% bert_config_file=&bert/bert_config.json | --bert_config_file does not g
input=&bert vocab_file=@long.txt | long.txt has 8 lines but vocab_size
input=&bert vocab_file=@short.txt | short.txt is not the vocabulary of the
input=@bare vocab_file=@short.txt | short.txt lacks [PAD], [UNK]
input=@cased_L-12_H-768_A-12 | --do_lower_case=True does not fit --input=
input=% output=@a[b | TensorFlow reads no checkpoint from @a[b: avoid
input=@empty | it has nothing; expected files named *.index
"""


def test_mistakes_are_reported_and_write_nothing(runs, tmp_path):
  shutil.copytree(runs / "bert", tmp_path / "cased_L-12_H-768_A-12")
  shutil.copytree(runs / "bert", tmp_path / "bare")
  (tmp_path / "bare/vocab.txt").unlink()
  (tmp_path / "short.txt").write_text("a\nb\n")
  tokens = (runs / "bert/vocab.txt").read_text().split()
  (tmp_path / "long.txt").write_text("\n".join([*tokens, "new"]))
  (tmp_path / "empty").mkdir()
  odd = CONFIG.to_dict() | {"hidden_size": 7}
  (tmp_path / "odd.json").write_text(json.dumps(odd))
  (tmp_path / "few").mkdir()  # config.json says 7 tokens, the table has 6
  settings = CONFIG.to_dict() | {"model_type": "bert"}
  (tmp_path / "few/config.json").write_text(json.dumps(settings))
  table = {"embeddings.word_embeddings.weight": np.zeros((6, 8), np.float32)}
  save_file(table, tmp_path / "few/model.safetensors")
  mistakes = MISTAKES.strip().replace("%", str(PRESET))
  mistakes = mistakes.replace("&", f"{runs}/").replace("@", f"{tmp_path}/")
  for line in mistakes.splitlines():
    words, message = line.split(" | ")
    flags = dict(word.split("=") for word in words.split())
    fails("convert_checkpoint", message, **{"output": tmp_path / "out"} | flags)
  assert not (tmp_path / "out").exists()
