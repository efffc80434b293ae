"""The study: small versions of the paper's experiments, as commands in order.

Every pre-training has the same text, steps and batches, every fine-tuning of a
task the same rows and steps: systems differ in what their table is about and in
nothing else. Small models learn from little text by the settings of
docs/pretraining.md; heads begin with a structure, within what a system may
attend to, and so do those of the system without pre-training.
"""

from collections.abc import Iterator
from typing import NamedTuple

SEEDS = (1, 2)  # of pre-training; the fine-tuning has the same
STEPS = 4000  # of every pre-training
SIZE = "tiny"  # a preset
VOCABULARY = 5000
PASSAGE = 400  # characters of SQuAD: with a question they fit into a window
ROWS = (100, 1000, 10000)  # of SST-2
ROWS_STEPS = 300  # of fine-tuning, with any number of rows

_LEFT = "left_to_right"
_RECORDS = (
  "create_pretraining_data --input_file={{work}}/{0}.txt"
  " --output_file={{work}}/{0}.tfrecord --vocab_file={{work}}/vocab.txt"
  " --max_seq_length=128 --max_predictions_per_seq=32 --dupe_factor=1"
  " --masking={1} --overwrite"
)
PREPARATIONS = {
  "text/train": "split_sentences --input_file={text}"
  " --output_file={work}/train.txt --overwrite",
  "text/held_out": "split_sentences --input_file={held_out_text}"
  " --output_file={work}/held_out.txt --overwrite",
  "text/vocabulary": "build_vocab --input_file={work}/train.txt"
  f" --output_file={{work}}/vocab.txt --vocab_size={VOCABULARY} --overwrite",
  "records/train": _RECORDS.format("train", "dynamic"),
  "records/held_out": _RECORDS.format("held_out", "static"),
}
_PRETRAINING = (
  "run_pretraining --input_file={work}/train.tfrecord"
  " --eval_file={work}/held_out.tfrecord --vocab_file={work}/vocab.txt"
  " --do_train --do_eval --max_seq_length=128 --masked_lm_prob=0.25"
  " --max_predictions_per_seq=32 --train_batch_size=16 --eval_batch_size=32"
  " --max_eval_steps=20 --learning_rate=2e-3 --adam_beta_2=0.98"
)
# Starts from which pre-training, flags of that, flags of fine-tuning.
SYSTEMS = {
  "base": ("base", "", ""),
  "no_nsp": ("no_nsp", " --objective=mlm", ""),
  _LEFT: (_LEFT, f" --objective={_LEFT}", f" --attention={_LEFT}"),
  "bilstm": (_LEFT, None, f" --attention={_LEFT} --add_bilstm"),
  "none": (None, None, ""),
}
_FINE_TUNING = (
  " --vocab_file={work}/vocab.txt --do_train --train_batch_size=32"
  " --learning_rate=5e-4 --adam_beta_2=0.98"
)
_NER = (
  "run_ner --train_file={ner}/train.tsv --dev_file={ner}/devel.tsv --do_eval"
  " --eval_batch_size=64 --num_train_epochs=3 --max_seq_length=64"
)


class Task(NamedTuple):
  """A task of fine-tuning, and the name of its score."""

  command: str
  metric: str


def _glue(name, epochs, length, folder=None):
  return Task(
    f"run_classifier --task_name={name}"
    f" --data_dir={folder or f'{{glue}}/{name}'} --do_eval"
    f" --eval_batch_size=64 --num_train_epochs={epochs}"
    f" --max_seq_length={length}",
    "eval_accuracy",
  )


TASKS = {
  "SQuAD": Task(
    "run_squad --train_file={work}/squad/train-v1.1.json"
    " --predict_file={work}/squad/dev-v1.1.json --do_predict"
    " --num_train_epochs=2 --max_seq_length=128 --max_query_length=24"
    " --predict_batch_size=64",
    "f1",
  ),
  "NER": Task(_NER, "eval_f1"),
  "QNLI": _glue("QNLI", 3, 96),
  "MRPC": _glue("MRPC", 4, 96),
  "MNLI": _glue("MNLI", 3, 64),
  "SST-2": _glue("SST-2", 0.3, 32),
}
for _rows in ROWS:
  _epochs = ROWS_STEPS * 32 / _rows
  TASKS[f"SST-2.{_rows}"] = _glue(
    "SST-2", _epochs, 32, f"{{work}}/rows/{_rows}"
  )
# Table 7; the preset has two layers.
for _layers in ("embeddings", "second_to_last", "last", "weighted_sum_all"):
  _flags = f" --feature_based --feature_layers={_layers} --lstm_units=64"
  TASKS[f"NER.{_layers}"] = Task(_NER + _flags, "eval_f1")


class Run(NamedTuple):
  """One run of a program.

  Attributes:
    name: of the result, and of the run's folder: task/system/seed.
    command: program and flags; {work}, {glue} and {ner} stand for folders.
  """

  name: str
  command: str


def _pretraining(system, seed, steps):
  numbers = (
    f" --num_train_steps={steps} --num_warmup_steps={steps // 10}"
    f" --eval_steps={max(1, steps // 8)}"
    f" --save_checkpoints_steps={max(1, steps // 4)} --seed={seed}"
  )
  name = f"pretrain/{system}/{seed}"
  return Run(name, _PRETRAINING + numbers + SYSTEMS[system][1])


def _fine_tunings(task, systems, step=None):
  """Each system with each seed, from the checkpoint of a step or the last."""
  for seed in SEEDS:
    for system in systems:
      start, _, flags = SYSTEMS[system]
      command = f"{TASKS[task].command}{_FINE_TUNING} --seed={seed}{flags}"
      if start:
        command += f" --init_checkpoint={{work}}/pretrain/{start}/{seed}"
        command += f"/model.ckpt-{step}" if step else ""
      name = f"{system}.{step}" if step else system
      yield Run(f"{task}/{name}/{seed}", command)


def quarters(steps: int) -> list[int]:
  """After how many steps there is a checkpoint to fine-tune, but the last."""
  return [max(1, steps // 4) * quarter for quarter in (1, 2, 3)]


def runs(steps: int = STEPS) -> Iterator[Run]:
  """All of them, what matters most first; `steps` of every pre-training."""
  quarter, *others = quarters(steps)
  directions = ("base", _LEFT)
  yield from (_pretraining("base", seed, steps) for seed in SEEDS)
  for system in ("base", "none"):
    yield from _fine_tunings("NER", (system,))
  for layers in ("embeddings", "weighted_sum_all"):
    yield from _fine_tunings(f"NER.{layers}", ("base",))
  yield from _fine_tunings("NER", ("base",), quarter)
  yield from (_pretraining(_LEFT, seed, steps) for seed in SEEDS)
  yield from _fine_tunings("NER", (_LEFT,))
  yield from _fine_tunings("SQuAD", (*directions, "none"))
  yield from _fine_tunings("SQuAD", ("base",), quarter)
  yield from (_pretraining("no_nsp", seed, steps) for seed in SEEDS)
  for task in ("QNLI", "NER", "SQuAD"):
    yield from _fine_tunings(task, ("no_nsp",))
  yield from _fine_tunings("QNLI", (*directions, "none"))
  for rows in ROWS:
    yield from _fine_tunings(f"SST-2.{rows}", ("base", "none"))
  for task in ("NER", "SQuAD"):
    yield from _fine_tunings(task, ("bilstm",))
  for task in ("MRPC", "MNLI", "SST-2"):
    yield from _fine_tunings(task, (*directions, "none", "no_nsp"))
  for task in ("QNLI", "MRPC", "MNLI", "SST-2"):
    yield from _fine_tunings(task, ("bilstm",))
  for layers in ("second_to_last", "last"):
    yield from _fine_tunings(f"NER.{layers}", ("base",))
  for task in ("NER", "SQuAD"):
    for step in others:
      yield from _fine_tunings(task, directions, step)
    yield from _fine_tunings(task, (_LEFT,), quarter)
