"""run_pretraining.py as a command: results, files and variants."""

import re
import shutil
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from tests import programs, shared
from tests.training import toy

_run = partial(programs.run, "run_pretraining", do_train=True)


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  """Writes a configuration and three record files, one empty; returns flags."""
  folder = tmp_path_factory.mktemp("run pretraining")
  for part in range(2):
    toy.write_records(str(folder / f"part {part}.tfrecord"), 30, seed=part)
  (folder / "part 2.tfrecord").touch()
  return toy.flags(folder, "part*.tfrecord", 0.1, num_warmup_steps=5)


@pytest.fixture(scope="module", name="trained")
def _trained(given, tmp_path_factory):
  """Trains and evaluates once; returns the output folder and the log."""
  flags = {"num_train_steps": 40, "save_checkpoints_steps": 15, "seed": 1}
  flags |= {"eval_steps": 40, "max_eval_steps": 5, "keep_checkpoint_max": 3}
  flags |= {"do_train": True, "do_eval": True, "fused": True}
  return shared.trained(tmp_path_factory, "run_pretraining", **given, **flags)


def test_a_run_trains_and_evaluates(trained):
  output, log = trained
  assert log.count("evaluation at step 40") == 1
  assert "step 40 of 40, loss" in log
  assert "sequences/s" in log
  results = programs.results(output)
  names = {"masked_lm_accuracy", "masked_lm_loss", "global_step", "loss"}
  names |= {"next_sentence_accuracy", "next_sentence_loss"}
  assert results.keys() == names
  assert results["global_step"] == 40
  guess = np.log(toy.V)  # the loss if all tokens are equally likely
  assert results["masked_lm_loss"] < 0.95 * guess


def test_a_run_leaves_the_same_files_as_the_original(trained):
  output, _ = trained
  saved = {path.stem for path in output.glob("model.ckpt*.index")}
  assert saved == {f"model.ckpt-{step}" for step in (15, 30, 40)}
  for pattern in ("checkpoint", "events*", "eval/events*"):
    assert list(output.glob(pattern)), pattern


def test_a_later_evaluation_gives_the_runs_results(trained, given, tmp_path):
  output = shutil.copytree(trained[0], tmp_path / "run")
  before = programs.results(output)
  flags = given | {"eval_file": given["input_file"], "max_eval_steps": 5}
  del flags["input_file"]
  flags |= {"output_dir": output, "do_eval": True, "fused": True}
  log = programs.run("run_pretraining", **flags)
  assert "evaluation at step 40, on --eval_file" in log
  assert programs.results(output) == before


def test_tensorboard_has_the_flags_and_the_metrics(trained):
  texts, tags = [], set()
  for _, value in toy.summaries(trained[0]):
    if value.metadata.plugin_data.plugin_name == "text":
      texts.append(tf.make_ndarray(value.tensor).item().decode())
    tags.add(value.tag)
  assert '"train_batch_size": 8' in "".join(texts)
  assert {"loss", "masked_lm_accuracy", "gradient_norm"} < tags


VARIANTS = """
--objective=mlm
--objective=right_to_left --group_by_length --jit_compile
--pack_examples
--pack_examples --jit_compile
--distribution_strategy=mirrored --num_cpu_devices=2 \
--gradient_accumulation_steps=2
--dtype=bfloat16
--dtype=float16 --jit_compile
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", VARIANTS.strip().split("\n"))
def test_a_variant_trains_and_evaluates(given, tmp_path, options):
  flags = {"num_train_steps": 4, "eval_steps": 2, "max_eval_steps": 2}
  flags |= {"output_dir": tmp_path, "do_eval": True}
  log = _run(*options.split(), **given, **flags)
  with_nsp = "next_sentence_loss" in programs.results(tmp_path)
  assert with_nsp == ("objective" not in options)
  assert log.count("evaluation at step") == 2  # at steps 2 and 4
  assert "valid node name" not in log
  # Four steps end before the warm-up of five steps does.
  assert "never reaches --learning_rate" in log


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["pretraining/phase_1", "ablations/no_nsp"])
def test_recipes_pass_a_dry_run(given, recipe):
  programs.check_dry_run("run_pretraining", recipe, **given)


@pytest.mark.slow
def test_command_flags_has_the_last_command_that_trained(given, tmp_path):
  flags = given | {"output_dir": tmp_path / "out", "num_train_steps": 4}
  flags |= {"do_eval": True, "max_eval_steps": 2}
  _run(**flags, stop_at_step=1)
  first = (tmp_path / "out/command.flags").read_text()
  _run(**flags)
  command = (tmp_path / "out/command.flags").read_text()
  seeds = [re.findall("--seed=.*", text) for text in (first, command)]
  assert seeds[0] == seeds[1]
  assert "--stop_at_step=1" in first and "--stop_at_step=0" in command
  _run(**flags, dry_run=True, seed=1)
  _run(**flags | {"do_train": False})
  assert (tmp_path / "out/command.flags").read_text() == command
  programs.check_repeats("run_pretraining", tmp_path / "out", tmp_path / "2")
