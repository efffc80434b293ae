"""What programs hand to fine-tuning, and in which order they do the rest."""

import importlib
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from absl import flags

from cli import fine_tuning
from cli.arguments import Arguments
from modeling import losses

FLAGS = {
  **dict.fromkeys(("do_train", "do_eval", "do_predict", "do_export"), True),
  **{
    "output_dir": "out",
    "init_checkpoint": None,
    "eval_steps": 0,
    "keep_best": False,
    "ensemble": 1,
  },
  **{"early_stopping_patience": 0, "teacher": None, "task_name": "STS-B"},
  **{"multi_label": False, "class_weights": [], "train_batch_size": 8},
}


@pytest.fixture(name="load")
def _load(monkeypatch):
  """Imports a program without its flags, which others have, too."""

  def load(name):
    with monkeypatch.context() as patch:
      for kind in ("string", "bool", "integer", "float", "enum", "list"):
        patch.setattr(flags, f"DEFINE_{kind}", lambda *_, **__: None)
      patch.setattr(flags, "DEFINE", lambda *_, **__: None)
      module = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return module

  return load


class Recorder:
  """Stands for a task's module: notes its calls, which return their name."""

  def __init__(self, calls):
    self._calls = calls

  def __getattr__(self, name):
    def call(*given, **_):
      known = [str(x) for x in given if isinstance(x, str | int | dict)]
      self._calls.append(" ".join([name, *known]))
      if name in ("eval_data", "predict_data"):
        return {"of": name}
      if name in ("convert", "train_data"):
        label = given[1] if name == "convert" else name
        return SimpleNamespace(examples=[0] * 11, of=label)
      return f"the {name}"

    return call


CASES = {
  "run_classifier": ("tasks.classification", "examples", "eval_pearson"),
  "run_ner": ("tasks.ner", "records", "eval_f1"),
  "run_swag": ("tasks.multiple_choice", "examples", "eval_accuracy"),
}


@pytest.mark.parametrize("program", CASES)
def test_training_comes_first_and_the_best_model_is_loaded_for_the_rest(
  program, load, monkeypatch
):
  package, unit, metric = CASES[program]
  calls, trained = [], {}
  args = Arguments(**FLAGS)
  run = SimpleNamespace(
    args=args,
    config="config",
    strategy=SimpleNamespace(scope=nullcontext),
    load=lambda model: calls.append(f"load {model}") or 7,
    export=lambda build: calls.append(f"export {build(args)}"),
  )

  def train(run, model, objective, source, **options):
    calls.append(f"train {model}")
    trained.update(options, objective=objective, source=source)

  monkeypatch.setattr(fine_tuning, "start", lambda args: run)
  monkeypatch.setattr(fine_tuning, "train", train)
  task = Recorder(calls)
  if program == "run_ner":
    task.tags = lambda args: ("O", "B-X", "I-X")
  package = importlib.import_module(package)
  importlib.import_module(f"{package.__name__}.task")
  monkeypatch.setattr(package, "task", task)
  monkeypatch.setattr("data.labels.keep", lambda *_: calls.append("keep"))
  load(program).main(args)
  model = {"run_ner": "the tagger"}.get(program, "the make_model")
  begin = calls.index(f"train {model}")
  assert any(
    call.startswith(("convert", "train_data")) for call in calls[:begin]
  )
  done = " ".join(call.split()[0] for call in calls[begin:])
  assert done == "train load evaluate predict served_model export"
  assert "7" in calls[begin + 2]  # the step that was loaded
  assert trained["num_examples"] == 11
  assert trained.get("unit", "examples") == unit
  assert trained["metric"] == metric
  assert trained["served_model"]() == "the served_model"
  assert trained["evaluate"](5) == "the evaluate"
  assert "5" in calls[-1]
  assert calls[-1].replace("5", "7") == calls[begin + 2]  # on the same data
  if program != "run_classifier":
    assert trained["source"].of == "train_file"
    expected = {"run_ner": losses.tagging, "run_swag": losses.classification}
    assert trained["objective"].terms == expected[program]().terms
