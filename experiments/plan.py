"""The study: small versions of the paper's experiments, as commands in order.

Runs of a small model come first and last, those of a pre-trained encoder of six
layers in between; what matters most comes first, and each pre-training is
followed by its fine-tunings. Systems of a table differ in what it is about and
in nothing else: text, steps, batches, rows and seeds are the same. Small models
learn from little text by the settings of docs/pretraining.md.

Estimated from steps timed on two cores of an AMD EPYC (Zen 5), in CPU hours:
pre-training 9 (40 ms a step of the tiny model, 72 ms from left to right, 150 ms
of the mini one), fine-tuning 6, the encoder 8; 23 in all.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from modeling.config import BertConfig

SEEDS = (1, 2)  # of pre-training; the fine-tuning has the same
TUNING_SEEDS = (1, 2, 3, 4, 5)  # where table 6 and the encoder have five
STEPS = 20000  # of every pre-training
CURVE = (1000, 2500, 5000, 10000)  # steps that are fine-tuned, besides the last
VOCABULARY = 5000
PASSAGE = 400  # characters of SQuAD: with a question they fit into a window
ROWS = (100, 1000, 10000)
ROWS_TASKS = ("SST-2", "QNLI")  # the latter has 8,999

LEFT, RIGHT = "left_to_right", "right_to_left"
_TINY = BertConfig.preset("tiny", VOCABULARY, from_scratch=True)
CONFIGS = {
  "tiny": _TINY,
  "published": replace(
    _TINY, initial_attention="random", initializer_range=0.02
  ),
  "relu": replace(_TINY, hidden_act="relu"),
  "wide": BertConfig.preset("L-2_H-256", VOCABULARY, from_scratch=True),
  "mini": BertConfig.preset("mini", VOCABULARY, from_scratch=True),
}
_RECORDS = (
  "create_pretraining_data --input_file={{work}}/{0}.txt"
  " --output_file={{work}}/{0}.tfrecord --vocab_file={{work}}/vocab.txt"
  " --max_seq_length=128 --max_predictions_per_seq=32 --dupe_factor=1"
  " --masking={1} --overwrite"
)
# Commands by the file that they write; {text} and {held_out_text} are lists.
PREPARATIONS = {
  "train.txt": "split_sentences --input_file={text}"
  " --output_file={work}/train.txt --overwrite",
  "held_out.txt": "split_sentences --input_file={held_out_text}"
  " --output_file={work}/held_out.txt --overwrite",
  "vocab.txt": "build_vocab --input_file={work}/train.txt"
  f" --output_file={{work}}/vocab.txt --vocab_size={VOCABULARY} --overwrite",
  "train.tfrecord": _RECORDS.format("train", "dynamic"),
  "held_out.tfrecord": _RECORDS.format("held_out", "static"),
  "encoder/vocab.txt": "convert_checkpoint --input={encoder}"
  " --output={work}/encoder",
}
_PRETRAINING = (
  "run_pretraining --input_file={work}/train.tfrecord"
  " --eval_file={work}/held_out.tfrecord --vocab_file={work}/vocab.txt"
  " --do_train --do_eval --max_seq_length=128 --masked_lm_prob=0.25"
  " --max_predictions_per_seq=32 --train_batch_size=16 --eval_batch_size=32"
  " --max_eval_steps=60 --learning_rate=2e-3 --adam_beta_2=0.98"
  " --dtype=bfloat16 --keep_checkpoint_max=0"
)
# Table 8: percent of [MASK], the same and random tokens; base: 80, 10, 10.
MASKS = ((100, 0, 0), (80, 0, 20), (80, 20, 0), (0, 20, 80), (0, 0, 100))
# Configuration and flags of each pre-training.
PRETRAININGS = {
  "base": ("tiny", ""),
  "no_nsp": ("tiny", " --objective=mlm"),
  LEFT: ("tiny", f" --objective={LEFT}"),
  RIGHT: ("tiny", f" --objective={RIGHT}"),
  "wide": ("wide", ""),
  "mini": ("mini", ""),
  "relu": ("relu", ""),
} | {
  "masks_{}_{}_{}".format(*mix): (
    "tiny",
    f" --mask_token_prob={mix[0] / 100} --random_token_prob={mix[2] / 100}",
  )
  for mix in MASKS
}


class System(NamedTuple):
  """A model to fine-tune, and the pre-trainings it starts from."""

  config: str
  starts: tuple[str, ...] = ()
  flags: str = ""


SYSTEMS = {
  name: System(config, (name,)) for name, (config, _) in PRETRAININGS.items()
} | {
  LEFT: System("tiny", (LEFT,), f" --attention={LEFT}"),
  RIGHT: System("tiny", (RIGHT,), f" --attention={RIGHT}"),
  "bilstm": System("tiny", (LEFT,), f" --attention={LEFT} --add_bilstm"),
  "both": System("tiny", (LEFT, RIGHT), " --attention=shallow"),
  "none": System("tiny"),
  "none_published": System("published"),
}
_SMALL = (
  " --vocab_file={work}/vocab.txt --do_train --train_batch_size=32"
  " --adam_beta_2=0.98 --dtype=bfloat16"
)
_ENCODER = (
  " --vocab_file={work}/encoder/vocab.txt --do_train --dtype=bfloat16"
  " --bert_config_file={work}/encoder/bert_config.json"
)
_NER = "run_ner --train_file={ner}/train.tsv --dev_file={ner}/devel.tsv"
_NER += " --do_eval --eval_batch_size=64 --num_train_epochs=3"
_SQUAD = (
  "run_squad --train_file={{work}}/{0}/train.json"
  " --predict_file={{work}}/{0}/dev.json --do_predict --predict_batch_size=64"
  " --group_by_length --dynamic_padding"
)


class Task(NamedTuple):
  """A task of fine-tuning, and the name of its score."""

  command: str
  metric: str = "eval_accuracy"


def _glue(name, flags, folder="{glue}"):
  return Task(
    f"run_classifier --task_name={name} --data_dir={folder}/{name} --do_eval"
    f" --eval_batch_size=64 {flags}"
  )


_RATE = " --learning_rate=5e-4"
TASKS = {
  "SQuAD": Task(
    _SQUAD.format("passages") + " --num_train_epochs=5 --max_seq_length=128"
    " --max_query_length=24 --learning_rate=1e-3",
    "f1",
  ),
  "NER": Task(f"{_NER} --max_seq_length=64{_RATE}", "eval_f1"),
  "QNLI": _glue("QNLI", f"--num_train_epochs=3 --max_seq_length=96{_RATE}"),
  "MNLI": _glue("MNLI", f"--num_train_epochs=3 --max_seq_length=64{_RATE}"),
  "MRPC": _glue("MRPC", f"--num_train_epochs=4 --max_seq_length=96{_RATE}"),
  "SST-2": _glue("SST-2", f"--num_train_epochs=0.3 --max_seq_length=32{_RATE}"),
}
MAIN = tuple(TASKS)
# Table 7; the preset has two layers.
FEATURES = ("embeddings", "weighted_sum_all", "second_to_last", "last")
for _layers in FEATURES:
  TASKS[f"NER.{_layers}"] = Task(
    f"{TASKS['NER'].command} --feature_based --feature_layers={_layers}"
    " --lstm_units=64",
    "eval_f1",
  )
_PEER = (
  "-m benchmarks.fine_tune --task=SQuAD-1.1 --data_dir={work}/squad"
  " --bert_dir={work}/encoder --hf_dir={encoder}"
  " --peer_python={torch} --contestants=transformers --rounds=1"
  " --group_by_length --dtype=bfloat16 --epochs=3"
)
_SQUAD_SETTINGS = " --max_seq_length=384 --learning_rate=1e-4"
TASKS |= {
  "Encoder-SQuAD": Task(
    f"{_SQUAD.format('squad')} --num_train_epochs=3 --train_batch_size=16"
    + _SQUAD_SETTINGS,
    "f1",
  ),
  "Encoder-NER": Task(
    f"{_NER} --max_seq_length=128 --learning_rate=1e-4", "eval_f1"
  ),
}
for _name in ("MRPC", "RTE"):
  TASKS[f"Encoder-{_name}"] = _glue(
    _name,
    "--num_train_epochs=3 --train_batch_size=16 --max_seq_length=128"
    " --learning_rate=5e-5",
  )
for _name, _rows in product(ROWS_TASKS, ROWS):
  # 250 steps, with any number of rows.
  _epochs = 250 * 32 / min(_rows, 8999 if _name == "QNLI" else _rows)
  TASKS[f"Encoder-{_name}-{_rows}"] = _glue(
    _name,
    f"--num_train_epochs={_epochs} --max_seq_length=96 --learning_rate=1e-4",
    f"{{work}}/rows/{_rows}",
  )


class Run(NamedTuple):
  """One run of a program.

  Attributes:
    name: of the result, and of the run's folder: task/system/seed.
    command: program and flags; {work}, {glue}, ... stand for folders.
  """

  name: str
  command: str


def _pretraining(name, seed, steps):
  config, flags = PRETRAININGS[name]
  numbers = (
    f" --num_train_steps={steps} --num_warmup_steps={steps // 10}"
    f" --eval_steps={steps // 10} --save_checkpoints_steps={steps // 40}"
    f" --seed={seed} --bert_config_file={{work}}/{config}.json"
  )
  return Run(f"pretrain/{name}/{seed}", _PRETRAINING + numbers + flags)


def _tuning(task, system, seed, steps, variant="", tuning_seed=None):
  """A fine-tuning of a small model, from the checkpoint after `steps`."""
  config, starts, flags = SYSTEMS[system]
  number = tuning_seed or seed
  command = f"{TASKS[task].command}{_SMALL} --seed={number}{flags}"
  command += f" --bert_config_file={{work}}/{config}.json"
  if starts:
    command += " --init_checkpoint=" + ",".join(
      f"{{work}}/pretrain/{start}/{seed}/model.ckpt-{steps}" for start in starts
    )
  return Run(f"{task}/{system}{variant}/{number}", command)


def _encoder(task, seed, system="pretrained"):
  command = f"{TASKS[task].command}{_ENCODER} --seed={seed}"
  if system == "pretrained":
    command += " --init_checkpoint={work}/encoder/bert_model.ckpt"
  return Run(f"{task}/{system}/{seed}", command)


def _stage(names, systems, tasks, steps, seeds=SEEDS, curve=()):
  """Pre-trainings with each seed, each followed by all that starts from it."""
  for seed in seeds:
    for name in names:
      yield _pretraining(name, seed, steps)
    for task, system in product(tasks, systems):
      yield _tuning(task, system, seed, steps)
    for task, step in product(("NER", "SQuAD"), curve):
      step = step * steps // STEPS
      yield _tuning(task, names[0], seed, step, f".{step}")


def runs(steps: int = STEPS) -> Iterator[Run]:
  """All of them, what matters most first; `steps` of every pre-training."""
  systems = ("base", "none", "none_published")
  yield from _stage(("base",), systems, MAIN, steps, SEEDS[:1], CURVE)
  yield _encoder("Encoder-SQuAD", 1)
  yield from _stage(("base",), systems, MAIN, steps, SEEDS[1:], CURVE)
  for seed, layers in product(SEEDS, FEATURES):
    yield _tuning(f"NER.{layers}", "base", seed, steps)
  yield from _stage((LEFT,), (LEFT, "bilstm"), MAIN, steps, curve=CURVE)
  yield from _stage((RIGHT,), (RIGHT, "both"), MAIN, steps)
  yield from _stage(("no_nsp",), ("no_nsp",), MAIN, steps)
  yield from _encoder_runs()
  for size in ("base", "wide", "mini"):  # table 6
    if size != "base":
      yield _pretraining(size, 1, steps)
    for task, seed in product(("MNLI", "MRPC", "SST-2", "NER"), TUNING_SEEDS):
      yield _tuning(task, size, 1, steps, ".size", seed)
  for name in (name for name in PRETRAININGS if name.startswith("masks")):
    tasks = ("NER", "NER.weighted_sum_all")
    yield from _stage((name,), (name,), tasks, steps)
  yield from _stage(("relu",), ("relu",), MAIN, steps)
  for name in ("base", "no_nsp", LEFT):  # a third seed
    yield from _stage((name,), (name,), MAIN, steps, (3,))


def _encoder_runs():
  for seed in SEEDS:
    if seed > 1:
      yield _encoder("Encoder-SQuAD", seed)
    yield Run(
      f"Encoder-SQuAD/torch/{seed}", f"{_PEER}{_SQUAD_SETTINGS} --seed={seed}"
    )
  for seed, task in product(SEEDS, TASKS):
    if task.startswith(("Encoder-SST-2", "Encoder-QNLI", "Encoder-NER")):
      yield from (_encoder(task, seed, s) for s in ("pretrained", "random"))
  for task, seed in product(("Encoder-MRPC", "Encoder-RTE"), TUNING_SEEDS):
    yield _encoder(task, seed)
  for seed in SEEDS:
    yield _encoder("Encoder-SQuAD", seed, "random")
