"""Flags choose the stages of programs that do not train."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from conversion import hugging_face, interchange, model_garden, original
from conversion.interchange import HUGGING_FACE, ORIGINAL, CanonicalModel
from data.pretraining import documents, instances, shards
from data.vocab import SPECIAL_TOKENS
from modeling import models
from runs import devices, session
from serving import export
from tasks.features import lines
from tasks.features import task as features
from tests import programs, small_model, stages
from training import checkpoint


@pytest.fixture(name="files")
def _files(tmp_path):
  """Writes a text and a model's files; returns the model's flags."""
  (tmp_path / "text").write_text("a b\n\nb a\n")
  paths = small_model.write(
    tmp_path, [*SPECIAL_TOKENS, "a", "b"], num_hidden_layers=3
  )
  return {name: str(path) for name, path in paths.items()}


@pytest.mark.parametrize("flag", ["use_one_hot_embeddings", "use_tpu", None])
@pytest.mark.parametrize("do_export", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_features_are_exported_and_extracted(
  tmp_path, monkeypatch, files, flag, do_export, reads
):
  events = stages.Events()
  device = SimpleNamespace(scope=events.stage("scope", stages.nullcontext()))
  served = SimpleNamespace(model="served")
  # `events` keeps the first `last` arguments of a call; None means all.
  for owner, name, result, last in (
    (devices, "make_strategy", device, 0),
    (session, "set_export_policy", None, 0),
    (export, "save", None, None),
    (features, "served_model", served, 0),
    (checkpoint, "restore_strict", None, None),
    (models, "layer_outputs", "model", None),
    (features, "write", None, None),
  ):
    events.replace(monkeypatch, owner, name, result, last=last)
  flags = files | {"output_file": "out", "init_checkpoint": "bert"}
  flags |= {"max_seq_length": 9, "do_export": do_export, "export_dir": "new"}
  flags |= {"export_format": ["keras"], "pooling": "cls"}
  flags |= {flag: True} if flag else {}
  flags["input_file"] = str(tmp_path / "text") if reads else None
  args = programs.arguments("extract_features", **flags)
  stages.program("extract_features").main(args)
  config = replace(
    small_model.config(7, num_hidden_layers=3),
    use_one_hot_embeddings=flag is not None,  # --use_tpu sets it
  )
  exported = [
    ("served_model",),
    ("restore_strict", "served", "bert"),
    ("save", "new", served, ["keras"]),
  ]
  extracted = [
    ("scope",),
    ("layer_outputs", config, [-1, -2, -3], "cls", None),
    ("restore_strict", "model", "bert"),
    ("write", args, "model", config),
  ]
  assert events == [
    ("make_strategy",),
    ("set_export_policy",),
    *exported * do_export,
    *extracted * reads,
  ]


@pytest.mark.parametrize(
  ("flags", "expected"),
  [
    ({}, [-1, -2, -3]),  # the model has three layers
    ({"layers": "0,1,2,0,1"}, [0, 1, 2, 0, 1]),
  ],
)
def test_default_layers_fit_the_model_but_given_layers_stay(flags, expected):
  config = small_model.config(7, num_hidden_layers=3)
  args = programs.arguments("extract_features", **flags)
  assert lines.layer_indexes(args, config) == expected


# Flags of create_pretraining_data.py, and the call that gets them.
WRITERS = [
  ({}, ("write_in_memory",)),
  ({"num_workers": 1}, ("write_shards", 1)),
  ({"num_workers": 3}, ("write_shards", 3)),
  ({"runner": "DirectRunner"}, ("write", ["--runner=DirectRunner"])),
  ({"preview": 2}, ("preview", 2)),
]


@pytest.mark.parametrize(("flags", "call"), WRITERS)
@pytest.mark.parametrize("deduplicate", [False, True])
def test_each_writer_of_records_and_the_preview_receive_the_flags(
  tmp_path, monkeypatch, files, flags, call, deduplicate
):
  events = stages.Events()
  beam = SimpleNamespace(outputs=lambda output: [])
  monkeypatch.setitem(sys.modules, "data.pretraining.beam", beam)
  monkeypatch.setattr("data.pretraining.beam", beam, raising=False)
  for owner, name, result in (
    (shards, "write_shards", 5),
    (instances, "write_in_memory", 5),
    (beam, "write", 5),
    (shards, "preview", ["a line"]),
  ):
    events.replace(monkeypatch, owner, name, result)
  module = stages.program("create_pretraining_data")
  monkeypatch.setattr(module.program, "end_with_reader", lambda: None)
  outputs = [str(tmp_path / name) for name in "xy"]
  outputs = outputs[:1] if "runner" in flags else outputs
  given = {"vocab_file": files["vocab_file"], "do_lower_case": False}
  given |= {"input_file": str(tmp_path / "text"), "random_seed": 0}
  given |= {"input_format": "paragraphs", "text_field": "body"}
  given |= {"dupe_factor": 7, "deduplicate": deduplicate}
  given |= {"output_file": ", ".join(outputs)} | flags
  args = programs.arguments("create_pretraining_data", **given)
  monkeypatch.setattr(module.vocab_checks, "sample", lambda *_: ["a b"])
  module.check_flags(args)
  module.main(args)
  [(name, config, inputs, *more)] = events
  written = [outputs[0] if name == "write" else outputs] * (name != "preview")
  number = len(call) - 1 + len(written)
  assert (name, *more[:number]) == (call[0], *written, *call[1:])
  assert inputs == [given["input_file"]]
  tokenizer = config.tokenizer
  assert tokenizer.vocab_file == given["vocab_file"]
  assert (tokenizer.do_lower_case, config.seed) == (False, 0)
  assert config.deduplicate == deduplicate
  assert config.text_format == documents.TextFormat("paragraphs", "body")
  assert config.instance_config.dupe_factor == 7


# Columns: input format, flags, output format, head.
CONVERSIONS = [
  (HUGGING_FACE, {}, ORIGINAL, "tagging"),
  (HUGGING_FACE, {"head": "encoder"}, ORIGINAL, "encoder"),
  (ORIGINAL, {}, HUGGING_FACE, "tagging"),
  (ORIGINAL, {"head": "classification"}, HUGGING_FACE, "classification"),
  # Stripping works for an unknown head, so only the encoder is checked.
  (ORIGINAL, {"strip_optimizer": True}, ORIGINAL, "encoder"),
  ("Model Garden", {}, ORIGINAL, "tagging"),
  ("Model Garden", {"output_format": HUGGING_FACE}, HUGGING_FACE, "tagging"),
]


# Flags, with values, that the reader of each format takes.
OPTIONS = {
  HUGGING_FACE: {},
  ORIGINAL: {"bert_config_file": "c", "use_moving_averages": True},
  "Model Garden": {"bert_config_file": "c"},
}


@pytest.mark.parametrize(("source", "flags", "target", "head"), CONVERSIONS)
def test_flags_choose_the_format_and_the_head_of_a_conversion(
  tmp_path, monkeypatch, source, flags, target, head
):
  events = stages.Events()
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
    events.replace(monkeypatch, original, name)
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
