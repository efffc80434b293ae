"""Stages that a command of a program without training takes."""

import itertools
import sys
from types import SimpleNamespace

import pytest

from conversion import hugging_face, interchange, model_garden, original
from conversion.interchange import HUGGING_FACE, ORIGINAL, CanonicalModel
from data.pretraining import documents, shards
from data.vocab import SPECIAL_TOKENS
from modeling import models
from runs import devices, session
from serving import export
from tasks.features import task as features
from tests import programs, small_model, stages
from training import checkpoint


class _Events(list):
  """Stages and the arguments that each received."""

  def stage(self, name, result=None, number=None):
    """Returns a function that notes its name and first `number` arguments."""

    def call(*given, **_):
      self.append((name, *given[:number]))
      return result

    return call


@pytest.fixture(name="events")
def _events():
  return _Events()


@pytest.fixture(name="files")
def _files(tmp_path):
  """Writes a model's files and a text; returns flags."""
  tokens = [*SPECIAL_TOKENS, "a", "b"]
  paths = small_model.write(tmp_path, tokens, num_hidden_layers=3)
  (tmp_path / "text").write_text("a b\n\nb a\n")
  return {name: str(path) for name, path in paths.items()}


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("use_tpu", [False, True])
def test_features_are_exported_and_extracted(
  tmp_path, monkeypatch, events, files, one_hot, use_tpu
):
  """Both use the checkpoint's values, and an export alone reads no text."""
  scope = events.stage("scope", stages.nullcontext())
  device = SimpleNamespace(scope=scope)
  served = SimpleNamespace(model="served")
  monkeypatch.setattr(devices, "make_strategy", lambda args: device)
  monkeypatch.setattr(
    session, "set_export_policy", lambda *_: events.append(("policy",))
  )
  monkeypatch.setattr(export, "save", events.stage("save"))
  monkeypatch.setattr(features, "served_model", events.stage("make", served, 0))
  restore = events.stage("restore")
  monkeypatch.setattr(checkpoint, "restore_strict", restore)

  def layer_outputs(config, layers, pooling, windows):
    assert config.use_one_hot_embeddings == (one_hot or use_tpu)
    events.append(("layers", layers, pooling, windows))
    return "model"

  def write(args, model, hidden_size):
    events.append(("write", args.layers, model, hidden_size))

  monkeypatch.setattr(models, "layer_outputs", layer_outputs)
  monkeypatch.setattr(features, "write", write)
  main = stages.program("extract_features").main
  exported = [
    ("make",),
    ("restore", "served", "bert"),
    ("save", "new", served, ["keras"]),
  ]
  extracted = [
    ("scope",),
    ("layers", [-1, -2, -3], "cls", None),
    ("restore", "model", "bert"),
    ("write", "-1,-2,-3", "model", 16),
  ]
  for do_export, reads in itertools.product([False, True], repeat=2):
    args = programs.arguments(
      "extract_features",
      **files,
      input_file=str(tmp_path / "text") if reads else None,
      output_file="out",
      init_checkpoint="bert",
      max_seq_length=9,
      do_export=do_export,
      export_dir="new",
      export_format=["keras"],
      pooling="cls",
      use_one_hot_embeddings=one_hot,
      use_tpu=use_tpu,
    )
    events.clear()
    main(args)
    expected = [("policy",)] + exported * do_export + extracted * reads
    assert events == expected


def test_layers_of_the_flag_count_before_the_default(files):
  module = stages.program("extract_features")
  config = small_model.config(7, num_hidden_layers=3)
  for given, layers, expected in (
    ((), "-1,-2,-3,-4", "-1,-2,-3"),  # only three layers
    (["layers"], "-1,-2,-3,-4", "-1,-2,-3,-4"),
    (["layers"], "0", "0"),
    (["layers"], "0,1,2,0,1", "0,1,2,0,1"),
  ):
    args = programs.arguments("extract_features", given, layers=layers)
    assert module.with_default_layers(args, config).layers == expected


# Flags of create_pretraining_data.py, and the engine for the flags.
ENGINES = [
  ({}, "memory"),
  ({"num_workers": 1}, "shards 1"),
  ({"num_workers": 3}, "shards 3"),
  ({"runner": "DirectRunner"}, "beam"),
  ({"preview": 2}, "preview 2"),
  ({"preview": 2, "overwrite": True}, "preview 2"),
]


@pytest.mark.parametrize(("flags", "engine"), ENGINES)
@pytest.mark.parametrize("deduplicate", [False, True])
def test_each_engine_gets_the_flags(
  tmp_path, monkeypatch, events, files, flags, engine, deduplicate
):
  def note(name, *given):
    config, inputs, *more = given
    tokenizer = config.tokenizer
    assert (tokenizer.vocab_file, config.seed) == (files["vocab_file"], 0)
    assert tokenizer.do_lower_case is False
    assert config.deduplicate == deduplicate
    assert config.text_format == documents.TextFormat("paragraphs", "body")
    assert config.instance_config.dupe_factor == 7
    assert inputs == [str(tmp_path / "text")]
    events.append((name, *more))
    return 5

  def write_shards(config, inputs, outputs, number):
    return note(f"shards {number}", config, inputs, outputs)

  def preview(config, inputs, number, *_):
    note(f"preview {number}", config, inputs)
    return ["a line"]

  beam = SimpleNamespace(
    outputs=lambda output: [],
    write=lambda *given: note("beam", *given),
  )
  monkeypatch.setitem(sys.modules, "data.pretraining.beam", beam)
  import data.pretraining  # noqa: PLC0415

  monkeypatch.setattr(data.pretraining, "beam", beam, raising=False)
  monkeypatch.setattr(shards, "write_shards", write_shards)
  monkeypatch.setattr(
    shards, "write_in_memory", lambda *given: note("memory", *given)
  )
  monkeypatch.setattr(shards, "preview", preview)
  module = stages.program("create_pretraining_data")
  monkeypatch.setattr(module.program, "end_with_reader", lambda: None)
  monkeypatch.setattr(module.vocab_checks, "sample", lambda *_: ["a b"])
  outputs = str(tmp_path / "x")
  if engine in ("memory", "shards 1", "shards 3"):
    outputs = f"{tmp_path}/x, {tmp_path}/y"
  args = programs.arguments(
    "create_pretraining_data",
    **{"vocab_file": files["vocab_file"], "do_lower_case": False},
    **{"input_file": str(tmp_path / "text"), "random_seed": 0},
    **{"input_format": "paragraphs", "text_field": "body"},
    **{"dupe_factor": 7, "output_file": outputs, "deduplicate": deduplicate},
    **flags,
  )
  module.check_flags(args)
  module.main(args)
  paths = [str(tmp_path / name) for name in "xy"]
  expected = {
    "memory": ("memory", paths),
    "beam": ("beam", paths[0], ["--runner=DirectRunner"]),
  }
  if engine.startswith("shards"):
    expected[engine] = engine, paths
  assert events == [expected.get(engine, (engine,))]


# Input format, flags, output format and head.

CONVERSIONS = [
  (HUGGING_FACE, {}, ORIGINAL, "tagging"),
  (HUGGING_FACE, {"output_format": ORIGINAL}, ORIGINAL, "tagging"),
  (HUGGING_FACE, {"head": "encoder"}, ORIGINAL, "encoder"),
  (ORIGINAL, {}, HUGGING_FACE, "tagging"),
  (ORIGINAL, {"head": "encoder"}, HUGGING_FACE, "encoder"),
  (ORIGINAL, {"head": "classification"}, HUGGING_FACE, "classification"),
  (ORIGINAL, {"output_format": HUGGING_FACE}, HUGGING_FACE, "tagging"),
  (ORIGINAL, {"strip_optimizer": True}, ORIGINAL, "encoder"),
  ("Model Garden", {}, ORIGINAL, "tagging"),
  ("Model Garden", {"output_format": HUGGING_FACE}, HUGGING_FACE, "tagging"),
]


# Flags that the readers of the formats take, with values.
OPTIONS = {
  HUGGING_FACE: {},
  ORIGINAL: {"bert_config_file": "c", "use_moving_averages": True},
  "Model Garden": {"bert_config_file": "c"},
}


@pytest.mark.parametrize(("source", "flags", "target", "head"), CONVERSIONS)
def test_a_model_is_written_in_the_format_of_the_flags(
  tmp_path, monkeypatch, events, source, flags, target, head
):
  names = ("output_weights", "output_bias", "bert/x")
  bert = CanonicalModel("in", {name: [0] for name in names})
  bert.labels, bert.head = ("O", "B-X"), "tagging"
  back = SimpleNamespace(origin="out")

  def read(path, *options):
    events.append(("read", path, *options))
    return bert if path == "in" else back

  for module in (original, hugging_face, model_garden):
    monkeypatch.setattr(module, "read", read)
  monkeypatch.setattr(interchange, "format_of", lambda path: source)
  for name in ("complete", "check_variables", "check_values"):
    monkeypatch.setattr(original, name, events.stage(name))
  monkeypatch.setattr(original, "write", events.stage("original", "prefix"))
  monkeypatch.setattr(hugging_face, "write", events.stage("hugging_face"))
  output, options = str(tmp_path), OPTIONS[source]
  given = {"input": "in", "output": output, "vocab_file": "v"}
  given |= {"do_lower_case": False, **options, **flags}
  arguments = programs.arguments("convert_checkpoint", **given)
  stages.program("convert_checkpoint").main(arguments)
  written = [("original", bert, output), ("read", "prefix")]
  if target == HUGGING_FACE:
    written = [("hugging_face", bert, output, head), ("read", output)]
  assert events == [
    ("read", "in", *options.values()),
    ("complete", bert, "v", False, target == HUGGING_FACE),
    ("check_variables", bert, head),
    *written,
    ("check_values", bert, back),
  ]
  assert ("output_bias" in bert.values) == (flags.get("head") != "encoder")
