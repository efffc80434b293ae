"""Small versions of the paper's experiments: what is run, in which order.

Every pre-training has the same text, steps and batches, so that systems differ
in what their table is about and in nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

SEEDS = (1, 2, 3)
STEPS = 4000  # of every pre-training
VOCABULARY = 5000
SIZE = {"num_hidden_layers": 2, "hidden_size": 128}
# Table 6: other sizes, the larger ones last.
SIZES = {
  "1_layer": SIZE | {"num_hidden_layers": 1},
  "64_wide": SIZE | {"hidden_size": 64},
  "4_layers": SIZE | {"num_hidden_layers": 4},
}
# Table 8: shares of [MASK] and of random tokens.
MIXES = {
  "80_10_10": (0.8, 0.1),
  "100_0_0": (1, 0),
  "80_0_20": (0.8, 0.2),
  "80_20_0": (0.8, 0),
  "0_20_80": (0, 0.8),
  "0_0_100": (0, 1),
}
FEATURES = ("embeddings", "second_to_last", "last", "weighted_sum_all")
TASKS = ("SST-2", "QQP", "ner")
# Deep against shallow after more steps: masked models are slower at first
# (section C.1).
TIMES_LONGER = 3
# Seeds of pre-trainings beside the first: what chance does to them.
OTHER_STARTS = (2, 3)
ANEW = "_seed_"  # in their names


@dataclass(frozen=True)
class Experiment:
  """One run of a program.

  Attributes:
    name: of the result, and of the run's folder; slashes are allowed.
    program: without its ending.
    flags: of the program; files may begin with "{work}", "{glue}", "{ner}".
    size: of the model, where it is not SIZE.
  """

  name: str
  program: str
  flags: dict = field(default_factory=dict)
  size: str = "base"


def preparations(train: str, held_out: str) -> Iterator[Experiment]:
  """Text, vocabulary and records; the arguments name files of prose."""
  for part, files in (("train", train), ("held_out", held_out)):
    text = f"{{work}}/{part}.txt"
    given = {"input_file": files, "output_file": text, "overwrite": True}
    yield Experiment(f"text/{part}", "split_sentences", given)
  given = {
    "input_file": "{work}/train.txt",
    "output_file": "{work}/vocab.txt",
    "vocab_size": VOCABULARY,
    "overwrite": True,
  }
  yield Experiment("vocabulary", "build_vocab", given)
  for part, masking in (
    ("train", "static"),
    ("train", "dynamic"),
    ("held_out", "static"),
  ):
    given = {
      "input_file": f"{{work}}/{part}.txt",
      "output_file": f"{{work}}/{part}_{masking}.tfrecord",
      "vocab_file": "{work}/vocab.txt",
      "max_seq_length": 64,
      "max_predictions_per_seq": 10,
      "dupe_factor": 1,
      "masking": masking,
      "overwrite": True,
    }
    name = f"records/{part}_{masking}"
    yield Experiment(name, "create_pretraining_data", given)


def _pretraining(name, steps, records="static", size="base", **flags):
  given = {
    "input_file": f"{{work}}/train_{records}.tfrecord",
    "eval_file": "{work}/held_out_static.tfrecord",
    "vocab_file": "{work}/vocab.txt",
    "do_train": True,
    "do_eval": True,
    "max_seq_length": 64,
    "max_predictions_per_seq": 10,
    "train_batch_size": 32,
    "eval_batch_size": 32,
    "max_eval_steps": 100,
    "eval_steps": max(1, steps // 8),
    "save_checkpoints_steps": max(1, steps // 4),
    "learning_rate": 1e-3,
    "num_train_steps": steps,
    "num_warmup_steps": steps // 10,
    "dtype": "bfloat16",
    "seed": 1,
  }
  return Experiment(f"pretrain/{name}", "run_pretraining", given | flags, size)


def _fine_tuning(task, system, seed, start, size="base", **flags):
  given = {
    "vocab_file": "{work}/vocab.txt",
    "init_checkpoint": ",".join(f"{{work}}/pretrain/{x}" for x in start),
    "do_train": True,
    "do_eval": True,
    "max_seq_length": 32 if task == "SST-2" else 64,
    "train_batch_size": 32,
    "learning_rate": 3e-4,
    "seed": seed,
  }
  if task == "ner":
    program = "run_ner"
    given |= {
      "train_file": "{ner}/train.tsv",
      "dev_file": "{ner}/devel.tsv",
      "num_train_epochs": 2,
    }
  else:
    program = "run_classifier"
    given |= {
      "task_name": task,
      "data_dir": f"{{glue}}/{task}",
      "num_train_epochs": {"SST-2": 0.3, "QQP": 2}[task],
    }
  name = f"{task}/{system}/{seed}"
  return Experiment(name, program, given | flags, size)


_LEFT, _RIGHT = "left_to_right", "right_to_left"
# Table 5: what each starts from, flags of pre-training and of fine-tuning.
SYSTEMS = {
  "base": (("base",), {}, {}),
  "no_nsp": (("no_nsp",), {"objective": "mlm"}, {}),
  _LEFT: ((_LEFT,), {"objective": _LEFT}, {"attention": _LEFT}),
  "bilstm": ((_LEFT,), None, {"attention": _LEFT, "add_bilstm": True}),
  _RIGHT: ((_RIGHT,), {"objective": _RIGHT}, {"attention": _RIGHT}),
  "shallow": ((_LEFT, _RIGHT), None, {"attention": "shallow"}),
  "gpt": (
    ("gpt",),
    {"objective": _LEFT, "special_tokens": False},
    {"attention": _LEFT},
  ),
}

LANGUAGE_MODELS = (_LEFT, _RIGHT, "gpt")
DEEP_AND_SHALLOW = ("base", _LEFT, _RIGHT, "shallow")
REPEATED = ("base", "no_nsp", _LEFT, _RIGHT, "shallow")


def experiments(steps: int = STEPS) -> Iterator[Experiment]:
  """All of them, what matters most first.

  Args:
    steps: of every pre-training.
  """
  for system, (_, flags, _) in SYSTEMS.items():
    if flags is not None:
      yield _pretraining(system, steps, **flags)
  for system, (start, _, flags) in SYSTEMS.items():
    for task in TASKS:
      for seed in SEEDS:
        yield _fine_tuning(task, system, seed, start, **flags)
  yield from _training_steps(steps)
  for size in SIZES:
    yield _pretraining(size, steps, size=size)
    for task in TASKS:
      for seed in SEEDS:
        yield _fine_tuning(task, size, seed, (size,), size)
  yield from _masking(steps)
  for layers in FEATURES:
    for seed in SEEDS:
      yield _features(f"features_{layers}", seed, "base", layers)
  yield from _longer(TIMES_LONGER * steps)
  for seed in OTHER_STARTS:
    yield from _started_anew(seed, steps)


def along_the_way(steps: int) -> list[int]:
  """After how many steps there is a checkpoint to fine-tune, but the last."""
  return [max(1, steps // 4) * quarter for quarter in (1, 2, 3)]


def _training_steps(steps):
  for system in ("base", _LEFT):
    for step in along_the_way(steps):
      start = (f"{system}/model.ckpt-{step}",)
      flags = SYSTEMS[system][2]
      for task in ("SST-2", "ner"):
        for seed in SEEDS:
          name = f"{system}_{step}"
          yield _fine_tuning(task, name, seed, start, **flags)


def _masking(steps):
  for name, (mask, random) in MIXES.items():
    flags = {"mask_token_prob": mask, "random_token_prob": random}
    yield _pretraining(name, steps, "dynamic", **flags)
  flags = {"do_whole_word_mask": True}
  yield _pretraining("whole_words", steps, "dynamic", **flags)
  yield _pretraining("by_length", steps, group_by_length=True)
  for name in (*MIXES, "whole_words"):
    for seed in SEEDS:
      yield _fine_tuning("ner", name, seed, (name,))
      yield _features(f"features_{name}", seed, name, "weighted_sum_all")


def _longer(steps):
  for system in ("base", _LEFT, _RIGHT):
    yield _pretraining(long(system), steps, **SYSTEMS[system][1])
  for system in DEEP_AND_SHALLOW:
    start, _, flags = SYSTEMS[system]
    for seed in SEEDS:
      names = [long(name) for name in start]
      yield _fine_tuning("ner", long(system), seed, names, **flags)


def long(system: str) -> str:
  """What a system is called after TIMES_LONGER times the steps."""
  return f"{system}_long"


def _started_anew(seed, steps):
  for system in REPEATED:
    flags = SYSTEMS[system][1]
    if flags is not None:
      name = anew(system, seed)
      yield _pretraining(name, steps, **flags | {"seed": seed})
  for system in REPEATED:
    start, _, flags = SYSTEMS[system]
    names = [anew(name, seed) for name in start]
    for task in TASKS:
      yield _fine_tuning(task, anew(system, seed), 1, names, **flags)


def anew(system: str, seed: int) -> str:
  """What a system is called that was pre-trained with another seed."""
  return system if seed == 1 else f"{system}{ANEW}{seed}"


def _features(system, seed, start, layers):
  given = {"feature_based": True, "feature_layers": layers, "lstm_units": 64}
  given |= {"learning_rate": 1e-3}
  return _fine_tuning("ner", system, seed, (start,), **given)
