"""A run passes each flag to the part that uses it, and runs stages in order."""

import os
import zlib
from contextlib import contextmanager
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from cli import program
from modeling import losses, models, tracing
from runs import model_files, session
from serving.answers import TextConfig
from serving.export import ServedModel
from storage import files
from tasks.features import task as features
from tests import programs, shared, small_model, stages
from tests.runs.test_fine_tune import _flags
from tests.training import toy
from training import checkpoint_files, loop, optimization, report, run_folder
from training.run_folder import Checkpoints

KIND = programs.settings_of("run_classifier")


@pytest.fixture(name="started")
def _started(monkeypatch):
  """Starts a run of stand-ins, and returns the arguments that they received."""
  calls = {}

  def train_step(model, objective, optimizer, schedule, **options):
    calls.update(options, optimizer=optimizer, schedule=schedule, model=model)
    number = SimpleNamespace(numpy=lambda: 24)
    return SimpleNamespace(examples=number, step=number, average=None, state={})

  def train(step, read, checkpoints, schedule, report, **options):
    calls.update(options, stops=schedule, keep=checkpoints.keep)
    read("context")
    yield 60
    calls["mode"] = tracing._mode

  monkeypatch.setattr(session, "make_strategy", lambda args: None)
  monkeypatch.setattr(session, "TrainStep", train_step)
  monkeypatch.setattr(loop, "Training", train)
  source = SimpleNamespace(
    train_batches=lambda *given, **options: calls.update(options, read=given),
    files=[],
    first_corrupt="first corrupt",
  )

  def start(args, model=None, packing=None, **options):
    steps = {"num_train_steps": 90, "num_warmup_steps": 20} | options
    source.packing = packing
    model = model or models.pretrainer(toy.config())
    training = session.Run(args, toy.config())
    result = training.train(model, losses.pretraining(), source, **steps)
    assert [*result] == [60]
    return calls

  return start


def test_every_training_flag_reaches_the_part_that_uses_it(tmp_path, started):
  flags = {"train_batch_size": 6, "learning_rate": 0.25, "seed": 0}
  flags |= {"save_checkpoints_steps": 7, "iterations_per_loop": 11}
  flags |= {"profile_steps": (3, 5), "keep_checkpoint_max": 4, "eval_steps": 13}
  flags |= {"optimizer": "lamb", "adam_beta_2": 0.9, "max_grad_norm": 0.5}
  flags |= {"gradient_accumulation_steps": 2, "ema_decay": 0.75}
  flags |= {"layerwise_learning_rate_decay": 0.5}
  flags |= {"group_by_length": True, "recompute_layers": True}
  calls = started(_flags(tmp_path, **flags), evaluated=40)
  expected = {"batch_size": 6, "seed": 0, "keep": 4, "evaluated": 40}
  expected |= {"max_grad_norm": 0.5, "accumulation_steps": 2}
  expected |= {"loss_scale": None, "jit_compile": False}
  expected |= {"read": (6, 0, True), "skip": 24, "context": "context"}
  assert {name: calls[name] for name in expected} == expected
  assert calls["source"].first_corrupt == "first corrupt"
  # The rate ascends to 0.25 for 20 steps, then is 0.25 * (1 - step / 90).
  rates = [float(calls["schedule"](step)) for step in (0, 10, 20, 45, 90)]
  assert rates == pytest.approx([0, 0.125, 0.25 * 7 / 9, 0.125, 0])
  assert calls["stops"] == loop.Plan(90, 7, 11, 13, False, str(tmp_path), 3, 5)
  optimizer = calls["optimizer"]
  assert type(optimizer) is optimization.Lamb
  assert optimizer.beta_2 == 0.9
  # Factors of the embeddings, of the only layer and pooler, and of the heads.
  assert sorted(set(optimizer.lr_multipliers)) == [0.25, 0.5, 1.0]
  assert calls["average"].decay == 0.75
  assert (calls["mode"].recompute, calls["mode"].compiled) == (True, False)


def test_training_may_stop_before_its_schedule_ends(tmp_path, started):
  calls = started(_flags(tmp_path), stop_at=30)
  assert (calls["stops"].num_train_steps, calls["average"]) == (30, None)
  assert float(calls["schedule"](45)) > 0
  assert type(calls["optimizer"]) is optimization.AdamWeightDecay


@pytest.mark.parametrize(
  ("dtype", "jit_compile", "supports", "is_scaled", "is_compiled"),
  [
    ("float16", None, True, True, True),
    ("bfloat16", None, False, False, False),
    ("float32", True, False, False, True),
  ],
)
def test_float16_has_a_loss_scale_and_xla_compiles_supported_layers(
  tmp_path, monkeypatch, started, log,
  dtype, jit_compile, supports, is_scaled, is_compiled,
):  # fmt: skip
  monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["GPU:0"])
  model = models.pretrainer(toy.config())
  model.layers[-1].supports_jit = supports
  calls = started(_flags(tmp_path, dtype=dtype, jit_compile=jit_compile), model)
  assert (calls["loss_scale"] is not None) == is_scaled
  assert calls["jit_compile"] == calls["few_shapes"] == is_compiled
  assert calls["mode"].compiled == is_compiled
  slots = calls["optimizer"].state.values()
  joined = [x for x in slots if isinstance(x, optimization.Slot)]
  # Matrices share slots only in a compiled step.
  assert any(len(slot.shape) == 2 for slot in joined) == is_compiled
  assert not calls["mode"].recompute
  text = "compiles" if is_compiled else "does not compile"
  assert f"XLA {text}" in log.text


def test_a_model_reads_packed_rows_if_the_run_packs_examples(tmp_path, started):
  model = models.pretrainer(toy.config())
  for packing in (None, "packing"):
    calls = started(_flags(tmp_path), model, packing)
    assert ("output_slots" in calls["model"].input) == bool(packing)


def _classifier(value=0):
  """Returns a model whose weights all equal `value`."""
  model = models.classifier(toy.config(), 2)
  model.set_weights([w * 0 + value for w in model.get_weights()])
  return model


@pytest.fixture(name="entry")
def _entry(tmp_path, monkeypatch):
  """Writes bert_config.json and vocab.txt; returns an entry of run.json."""
  monkeypatch.chdir(tmp_path)
  toy.config().to_json("bert_config.json")
  (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
  flags = {"bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
  return {"program": "x", "directory": str(tmp_path), "flags": flags}


def test_a_member_of_an_ensemble_loads_the_best_checkpoint_of_a_trial(tmp_path):
  rows = ["run\tlearning_rate\tseed\tstep\tmetric\tvalue"]
  # The best trials are t1 and t2, in this order. t1 was best at its step 1.
  for number, value in enumerate((0.5, 0.9, 0.75)):
    best = run_folder.BestCheckpoint(str(tmp_path / f"t{number}"), "f1")
    best.update(number, {"f1": value}, _classifier(number))
    rows.append(f"t{number}\t1e-5\t1\t{number}\tf1\t{value}")
  (tmp_path / "sweep.tsv").write_text("\n".join(rows) + "\n")
  model = models.ensemble([_classifier(), _classifier()], models.mean_probs)
  args = _flags(tmp_path, keep_best=False)
  assert session.load(args, model, Checkpoints(str(tmp_path))) == 1
  for number, part in enumerate(models.members(model), 1):
    assert all(np.all(value == number) for value in part.get_weights())
  assert not models.members(models.ensemble([_classifier()], models.mean_probs))


@pytest.mark.parametrize("long_text", ["truncate", "windows"])
def test_an_export_records_how_its_texts_are_tokenized(entry, long_text):
  flags = entry["flags"] | {"do_lower_case": False, "long_text": long_text}
  flags |= {"max_seq_length": 8, "max_text_length": 40, "window_stride": 0}
  flags |= {"window_pooling": "mean", "layers": "-1", "pooling": "cls"}
  args = programs.arguments("extract_features", **flags)
  model, served, _ = features.served_model(args)
  has_windows = long_text == "windows"
  assert served.config == TextConfig(args.tokenizer, 40 if has_windows else 8)
  assert not args.tokenizer.do_lower_case
  assert served.settings == {"pooling": "cls", "pairs": not has_windows}
  rank = 3 if has_windows else 4  # with windows, one vector a text
  assert len(model.output["values"].shape) == rank


@pytest.mark.parametrize("changes", [{}, {"do_lower_case": False}])
def test_a_model_is_restored_with_its_training_flags(tmp_path, entry, changes):
  """Afterwards the dtype policy is as before."""
  values = {v.path: v for v in _classifier(3).variables}
  values["global_step"] = tf.constant(5, tf.int64)
  Checkpoints(str(tmp_path)).save(5, values)
  flags = {"dtype": "bfloat16", "do_lower_case": True, "data_dir": "data"}
  flags |= {"init_checkpoint": "start", "output_dir": "before it was moved"}
  entry["flags"] |= flags

  def build(args):
    assert keras.config.dtype_policy().name == "bfloat16"
    assert args.do_lower_case == changes.get("do_lower_case", True)
    # A restored model never gets the inputs of its training.
    assert (args.init_checkpoint, args.data_dir) == (None, None)
    assert args.vocab_file == str(tmp_path / "vocab.txt")
    return ServedModel(_classifier(), None)

  result = session.restore(KIND, str(tmp_path), entry, build, changes)
  assert all(np.all(w == 3) for w in result.model.get_weights())
  with pytest.raises(TypeError):
    session.restore(KIND, str(tmp_path), entry, None, changes)
  assert keras.config.dtype_policy().name == "float32"


def test_a_model_is_not_restored_with_a_wrong_vocabulary(tmp_path, entry):
  text = (tmp_path / "vocab.txt").read_text()
  changes = {"vocab_file": tmp_path / "other.txt"}
  changes["vocab_file"].write_text(text.replace("a", "b"))
  shared.touch_checkpoint(tmp_path, "a")
  with pytest.raises(ValueError, match=r"line 5 is 'b', but 'a' in .*vocab"):
    session.restore(KIND, str(tmp_path), entry, None, changes)
  with pytest.raises(ValueError, match=r"reads no checkpoint from a\[1\]: av"):
    session.restore(KIND, "a[1]", entry, None, {})


@pytest.mark.parametrize(
  ("formats", "policy"),
  [(["savedmodel"], "bfloat16"), (["tflite", "keras"], "mixed_bfloat16")],
)
def test_exports_for_keras_have_float32_variables(formats, policy):
  session.set_export_policy("bfloat16", formats)
  # Variables are float32 in mixed_bfloat16 and bfloat16 in bfloat16.
  assert keras.config.dtype_policy().name == policy


def test_flags_override_bert_config_json_if_the_user_sets_them(entry):
  changes = {"attention": "left_to_right", "max_position_embeddings": 128}
  small_model.narrow(5, **changes).to_json("bert_config.json")
  for given in (None, "bidirectional"):
    flags = entry["flags"] | {"attention": given, "add_bilstm": True}
    args = programs.arguments("run_classifier", **flags)
    result = model_files.config(args)
    assert result.attention == (given or "left_to_right")
    assert result.add_bilstm
  with pytest.raises(ValueError, match="max_seq_length 129"):
    model_files.config(args.replace(max_seq_length=129))


def test_dropout_and_data_use_the_saved_seed(tmp_path, monkeypatch, started):
  monkeypatch.setattr(Checkpoints, "restore_or_set_seed", lambda *_: 7)
  for seed in (None, 9):
    calls = started(_flags(tmp_path, seed=seed))
    assert (calls["seed"], calls["read"][1]) == (7, 7)


# --- Stages of a training and of an export, in order -------------------------


@pytest.mark.parametrize("newest", [None, "out/model.ckpt-5"])
@pytest.mark.parametrize("is_chief", [False, True])
def test_a_training_loads_its_checkpoint_before_the_loop_begins(
  tmp_path, monkeypatch, newest, is_chief
):
  events = stages.Events()
  zero = SimpleNamespace(numpy=lambda: np.zeros(()))
  step = SimpleNamespace(examples=zero, state={"x": np.zeros(())}, average=None)
  strategy = SimpleNamespace(scope=stages.nullcontext)
  monkeypatch.setattr(session, "make_strategy", lambda args: strategy)
  monkeypatch.setattr(session.Run, "_train_step", lambda *_: step)
  monkeypatch.setattr(Checkpoints, "restore_or_set_seed", lambda *_: 7)
  for owner, name, first in (
    (session.record_scan, "load_index", 1),
    (Checkpoints, "resume", 2),
    (session.model_files, "warn_if_changed", 1),
    (session.run_folder, "check_workers", 0),
    (session.Run, "_report", 4),
  ):
    events.replace(monkeypatch, owner, name, first=first)
  monkeypatch.setattr(loop, "Training", lambda *given, **_: iter([given[4]()]))
  monkeypatch.setattr(Checkpoints, "newest_readable", lambda _: newest)
  args = _flags(tmp_path, init_checkpoint="start")
  toy.set_worker(monkeypatch, 0 if is_chief else 1)
  training = session.Run(args, toy.config())
  path = str(tmp_path / "records")
  (tmp_path / "records").write_bytes(b"records")
  source = SimpleNamespace(packing=None, files=[path], index_file="cache")
  data = {path: files.fingerprint(path)} if is_chief else {}
  options = {"num_train_steps": 9, "num_warmup_steps": 0, "new_head": "new"}
  assert [*training.train("model", losses.pretraining(), source, **options)]
  assert events == [
    ("check_workers", values := events[0][1]),
    *[("warn_if_changed", newest, data)] * bool(newest),
    *[("load_index", "cache")] * is_chief,
    ("resume", "start", "new"),
    ("check_workers", {"the checkpoint": [zlib.crc32(bytes(8))]}),
    ("_report", data),
  ]
  assert (values["--optimizer"], values["--freeze_layers"]) == ("adamw", "")
  assert "--output_dir" not in values
  assert (values["--seed"], values["the folder --output_dir"]) == (7, False)


def test_workers_compare_a_loaded_model(tmp_path, monkeypatch):
  run = SimpleNamespace(settings=_flags(tmp_path), seed=7, checkpoints=None)
  monkeypatch.setattr(session, "load", lambda *_: 3)
  toy.set_worker(monkeypatch, 1)
  compared = []
  monkeypatch.setattr(session.run_folder, "check_workers", compared.append)
  assert session.Run.load(run, SimpleNamespace(weights=[np.zeros(())])) == 3
  assert compared == [{"the checkpoint": [zlib.crc32(bytes(8))]}]


@pytest.mark.parametrize("is_chief", [False, True])
def test_only_the_chief_exports_and_writes_run_json_and_all_workers_wait(
  tmp_path, monkeypatch, is_chief
):
  events = stages.Events()

  @contextmanager
  def scope():
    events.append("enter")
    yield
    events.append("leave")

  strategy = SimpleNamespace(scope=scope)
  monkeypatch.setattr(session, "make_strategy", lambda args: strategy)
  args = _flags(tmp_path, export_dir="new", export_format=["keras"])
  training = session.Run(args, toy.config())
  toy.set_worker(monkeypatch, 0 if is_chief else 1)
  for owner, name in (
    (session, "set_export_policy"),
    (session, "load"),
    (session.exports, "save"),
    (session.run_folder, "wait_for_chief"),
  ):
    events.replace(monkeypatch, owner, name)
  served = SimpleNamespace(model=SimpleNamespace(weights=[]))
  training.export(lambda args: events.append("build") or served)
  written = [
    ("set_export_policy", "float32", ["keras"]),
    "build",
    ("load", training.settings, served.model, training.checkpoints),
    ("save", "new", served, ["keras"]),
  ]
  waited = ["enter", ("wait_for_chief",), "leave"]
  assert events == written * is_chief + waited
  recorded = ("mark", {"vocab_file": "of the model"})
  monkeypatch.setattr(session.checks, "vocabulary", lambda *_: recorded)
  data = {str(tmp_path / "records"): "fingerprint"}
  source = toy.Source(1, tuple(data))
  training._report(losses.pretraining(), source, "examples", data)
  entries = checkpoint_files.read_runs(str(tmp_path))
  assert len(entries) == is_chief
  for entry in entries:
    assert (entry["vocabulary"], entry["data"]) == ("mark", data)
    facts = "run_classifier", os.getcwd(), training.seed, program.versions()
    names = "program", "directory", "seed", "versions"
    assert tuple(map(entry.get, names)) == facts
    assert {"started", "commit"} <= entry.keys()
    assert entry["config"] == toy.config().to_dict()
    assert args.attention is None
    assert entry["flags"]["attention"] == "bidirectional"  # of the model
    assert entry["flags"]["vocab_file"] == "of the model"


@pytest.mark.parametrize("is_alone", [True, False])
def test_the_scope_of_a_run_reports_a_lost_worker_if_there_are_several_workers(
  tmp_path, monkeypatch, caplog, is_alone
):
  monkeypatch.setattr(session, "make_strategy", lambda _: toy.two_replicas())
  run = session.Run(_flags(tmp_path), toy.config())
  expected, message = tf.errors.UnavailableError, "gone"
  if not is_alone:
    toy.set_worker(monkeypatch, 0)
    expected = ConnectionError
    message = "another worker cannot be reached any more: start all"
  with pytest.raises(expected, match=message), run.scope():
    assert tf.distribute.has_strategy()
    raise tf.errors.UnavailableError(None, None, "gone")
  assert ("gone" in caplog.text) == (not is_alone)


def test_run_html_has_the_last_start_and_the_last_evaluation_of_a_run(
  tmp_path, monkeypatch, log
):
  for year in (2025, 2026):
    flags = {"learning_rate": year}
    entry = {"flags": flags, "started": f"{year}-01-02T03:04:05+0000"}
    checkpoint_files.append_run(str(tmp_path), entry)
  lines = {"eval_f1": 0.5}, {"eval_f1": 1}, {"loss": 2}
  for step, values in enumerate(lines):
    report.add_metrics(str(tmp_path), step, values)
  pages = stages.Events()
  pages.replace(monkeypatch, session.run_page, "write", "a/run.html", 1)
  sweep = _flags(tmp_path).replace(given=frozenset(flags))
  session.write_page(sweep, 7, {"dev": 3})
  expected = {"folder": tmp_path.name, "program": "run_classifier"}
  expected |= {"started": "2026-01-02 03:04", "step": "7", "dev": "3"}
  [(_, facts, shown, _, scores, _)] = pages
  assert (facts, shown, scores) == (expected, flags, {"eval_f1": 1})
  assert "wrote a/run.html: open it in a browser" in log.text
