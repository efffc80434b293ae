"""Turns the study in plan.toml into commands, one for each run."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from modeling.config import BertConfig

PLAN = tomllib.loads(Path(__file__).with_name("plan.toml").read_text("utf-8"))
STEPS = PLAN["steps"]  # of a pre-training, by default
_SYSTEMS = PLAN["pretraining"]["systems"]
PRETRAININGS = {name: (*own, STEPS)[:3] for name, own in _SYSTEMS.items()}
# Metric of each task's score.
METRICS = {task: name for name, own in PLAN["tasks"].items() for task in own}
CONFIGS = {
  name: replace(
    BertConfig.preset(preset, PLAN["vocabulary"], from_scratch=True), **changes
  )
  for name, (preset, changes) in PLAN["configs"].items()
}
_COMMANDS = {k: v for own in PLAN["tasks"].values() for k, v in own.items()}
# {system: (configuration, pre-trainings to start from, flags of fine-tuning)}
_SMALL = {name: (own[0], [name], "") for name, own in PRETRAININGS.items()}
_SMALL |= PLAN["small"]["systems"]


class Run(NamedTuple):
  """One run of a program."""

  name: str  # task/system/seed, also the run's folder
  command: str  # program and flags, with placeholders of experiments/run.py


def runs(scale: float = 1.0) -> Iterator[Run]:
  """Yields all runs, the most important first, with `scale` times the steps."""
  for stage in PLAN["stages"]:
    for seed in stage.get("seeds", (1, 2)):
      for name in stage.get("pretrain", ()):
        yield _pretraining(name, seed, scale)
      for tuning_seed, tune in product(
        stage.get("tuning_seeds", (seed,)), stage["tune"]
      ):
        for task, system, step in product(
          PLAN["groups"][tune["tasks"]],
          tune["systems"],
          tune.get("steps", (None,)),
        ):
          variant = f".{step}" if step else stage.get("variant", "")
          name = f"{task}/{system}{variant}/{tuning_seed}"
          command = _tuning(task, system, seed, step, scale)
          folder = "work_dir" if system == "torch" else "output_dir"
          command += f" --seed={tuning_seed} --{folder}={{work}}/{name}"
          yield Run(name, command)


def _pretraining(name, seed, scale):
  config, flags, steps = PRETRAININGS[name]
  steps = int(steps * scale)
  numbers = (
    f"--num_train_steps={steps} --num_warmup_steps={steps // 10}"
    f" --eval_steps={steps // 10} --save_checkpoints_steps={steps // 40}"
    f" --seed={seed} --bert_config_file={{work}}/{config}.json"
  )
  command = f"{PLAN['pretraining']['command']} {numbers} {flags}"
  name = f"pretrain/{name}/{seed}"
  return Run(name, f"{command} --output_dir={{work}}/{name}")


def _tuning(task, system, seed, step, scale):
  """Command of a fine-tuning, without --seed.

  The fine-tuning begins with the pre-trained models of `seed`.
  """
  command = _COMMANDS[task]
  for name, part in PLAN["parts"].items():
    command = command.replace(f"{{{name}}}", part)
  if system == "torch":
    return PLAN["encoder"][system]
  if system in PLAN["encoder"]:
    return f"{command} {PLAN['encoder']['flags']} {PLAN['encoder'][system]}"
  config, starts, flags = _SMALL[system]
  command += f" {PLAN['small']['flags']} {flags}"
  command += f" --bert_config_file={{work}}/{config}.json"
  paths = []
  for start in starts:
    last = int((step or PRETRAININGS[start][2]) * scale)
    paths.append(f"{{work}}/pretrain/{start}/{seed}/model.ckpt-{last}")
  return command + f" --init_checkpoint={','.join(paths)}" * bool(paths)
