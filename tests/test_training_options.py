"""Options of training as flags: used, kept in checkpoints, gone on with."""

import shutil

import numpy as np
import pytest

from tests import programs
from tests.training import toy
from training import checkpoint

pytestmark = pytest.mark.slow
STEPS, EARLIER = 20, 10
OPTIONS = {
  "optimizer": "lamb",
  "layerwise_learning_rate_decay": 0.5,
  "ema_decay": 0.9,
  "max_grad_norm": 0.5,
  "adam_beta_2": 0.5,
  "gradient_accumulation_steps": 2,
  "recompute_layers": True,
  "dtype": "float16",
}
# The others are alone in other tests. An average looks on and changes nothing.
PLAIN = "ema_decay"
ALONE = (
  *(PLAIN, "optimizer", "layerwise_learning_rate_decay", "max_grad_norm"),
  "adam_beta_2",
)


@pytest.fixture(scope="module", name="runs")
def _runs(tmp_path_factory):
  """The folder of all runs; and {name: (status, log)}."""
  folder = tmp_path_factory.mktemp("options")
  toy.write_records(str(folder / "good.tfrecord"), 60)
  given = toy.flags(
    folder,
    "good.tfrecord",
    0.1,
    do_train=True,
    max_eval_steps=3,
    num_warmup_steps=2,
    num_train_steps=STEPS,
    save_checkpoints_steps=EARLIER,
    seed=3,
  )
  result = {}

  def run(cases):
    flags = [
      given | {"output_dir": folder / name} | options
      for name, options in cases.items()
    ]
    results = programs.run_each("run_pretraining", flags)
    result.update(zip(cases, results, strict=True))

  run({"whole": OPTIONS | {"do_eval": True}})
  run({name: {name: OPTIONS[name]} for name in ALONE})
  _forget_the_end(folder / "whole", folder / "half")
  shutil.copytree(folder / "whole", folder / "last")
  # Without --ema_decay: the averages are in the checkpoint.
  evaluated = {"do_train": False, "do_eval": True, "dtype": "float16"}
  run({"half": OPTIONS, "last": evaluated})
  return folder, result


def _forget_the_end(source, target):
  """A copy of a run as if it had been killed half-way."""
  shutil.copytree(source, target)
  for path in target.glob(f"model.ckpt-{STEPS}.*"):
    path.unlink()
  name = f"model.ckpt-{EARLIER}"
  lines = ("model_checkpoint_path", "all_model_checkpoint_paths")
  text = "".join(f'{line}: "{name}"\n' for line in lines)
  (target / "checkpoint").write_text(text)


def _state(folder):
  reader = checkpoint.read(str(folder))
  assert reader.prefix.endswith(f"model.ckpt-{STEPS}")
  return {name: reader[name] for name in reader.shapes}


def test_all_of_them_together_and_each_alone_run(runs):
  for name, (status, log) in runs[1].items():
    assert status == 0, f"{name}: {log}"


def test_what_they_need_is_in_the_checkpoint(runs):
  names = set(_state(runs[0] / "whole"))
  assert "bert/pooler/dense/kernel/ExponentialMovingAverage" in names
  assert "bert/pooler/dense/kernel/adam_m" in names
  assert {"loss_scale/scale", "loss_scale/good_steps"} <= names


def test_a_run_that_goes_on_ends_the_same(runs):
  folder, result = runs
  assert (
    f"resuming from {folder}/half/model.ckpt-{EARLIER}" in result["half"][1]
  )
  whole, half = _state(folder / "whole"), _state(folder / "half")
  assert set(whole) == set(half)
  for name, value in whole.items():
    np.testing.assert_array_equal(half[name], value, name)


def test_each_makes_a_difference(runs):
  folder, _ = runs
  kernels = {
    name: _state(folder / name)["bert/pooler/dense/kernel"] for name in ALONE
  }
  for name in ALONE[1:]:
    assert not np.array_equal(kernels[name], kernels[PLAIN]), name


def test_averages_are_evaluated(runs):
  folder, _ = runs
  state = _state(folder / "whole")
  name = "bert/pooler/dense/kernel"
  assert not np.array_equal(
    state[name], state[f"{name}/ExponentialMovingAverage"]
  )
  during, after = (programs.results(folder / n) for n in ("whole", "last"))
  np.testing.assert_allclose(after["loss"], during["loss"], rtol=1e-5)
