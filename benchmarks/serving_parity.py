"""Whether a SavedModel answers as the program that exported it.

Trains an encoder a little, predicts and exports with the commands that a user
types, then asks the SavedModel the same, in a process that knows nothing but
TensorFlow:

  python -m benchmarks.serving_parity --datasets=datasets --bert_dir=bert \
    --work_dir=work

Exit status 1 if a text differs, or a number by more than --tolerance.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from absl import app, flags

from benchmarks.serving_parity_tasks import TASKS, Source, Task

FLAGS = flags.FLAGS
ROOT = Path(__file__).parents[1]
BATCH = 8  # examples a step of training

flags.DEFINE_string("datasets", None, "Folder of the tasks' files.")
flags.DEFINE_string("bert_dir", None, "Encoder in the original's format.")
flags.DEFINE_string("work_dir", None, "For data, models and logs: a new one.")
flags.DEFINE_list("only", [], "Names of tasks; default: all.")
flags.DEFINE_integer("questions", 400, "How many to ask SQuAD's models.", 1)
flags.DEFINE_integer("train_steps", 60, f"Of {BATCH} examples, before.", 1)
flags.DEFINE_integer("batch_size", 7, "Examples to ask about at once.", 1)
flags.DEFINE_float("tolerance", 1e-4, "Largest difference of two numbers.")
flags.mark_flags_as_required(["datasets", "bert_dir", "work_dir"])

# Where a model is used, there is nothing of ours.
ASK = """
import json, sys
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
with open(sys.argv[2]) as file:
  texts = json.load(file)
number, size = len(next(iter(texts.values()))), int(sys.argv[3])
found = {}
for start in range(0, number, size):
  some = {k: tf.constant(v[start : start + size]) for k, v in texts.items()}
  for name, values in model(**some).items():
    found.setdefault(name, []).extend(values.numpy().tolist())
print(json.dumps(found, default=bytes.decode))
"""


def main(_):
  bert = Path(FLAGS.bert_dir).absolute()
  source = Source(
    Path(FLAGS.datasets).absolute(),
    bert / "vocab.txt",
    FLAGS.questions,
    BATCH * FLAGS.train_steps,
  )
  failed = False
  for name, task in TASKS.items():
    if not FLAGS.only or name in FLAGS.only:
      folder = Path(FLAGS.work_dir, name).absolute()
      failed |= not compare(name, task, source, folder)
  return int(failed)


def compare(name: str, task: Task, source: Source, folder: Path) -> bool:
  """Runs a task in a new folder; returns whether all is the same."""
  folder.mkdir(parents=True)
  texts = task.prepare(folder, source)
  (folder / "texts.json").write_text(json.dumps(texts))
  bert = source.vocab_file.parent
  if task.is_trained:
    execute(task, folder, bert, "--do_train", "--do_predict")
    settings = task.settings(folder)
    execute(task, folder, bert, "--do_predict", "--do_export", *settings)
  else:
    execute(task, folder, bert, "--do_export")
  command = [sys.executable, "-c", ASK, "export", "texts.json"]
  done = subprocess.run(
    [*command, str(FLAGS.batch_size)],
    cwd=folder,
    capture_output=True,
    text=True,
    check=True,
  )
  served, said = real_part(json.loads(done.stdout)), task.predictions(folder)
  same = True
  for output, wanted in said.items():
    pairs = list(zip(leaves(served[output]), leaves(wanted), strict=True))
    if isinstance(pairs[0][0], float):
      largest = max(abs(a - b) for a, b in pairs)
      same &= largest <= FLAGS.tolerance
      print(f"{name}: {len(pairs)} {output}, they differ by {largest:.1e}")
    else:
      differing = [pair for pair in pairs if pair[0] != pair[1]]
      same &= not differing
      share = 1 - len(differing) / len(pairs)
      print(f"{name}: {len(pairs)} {output}, equal {share:.2%} {differing}")
  return same


def real_part(answers: dict[str, list]) -> dict[str, list]:
  """Answers without what fills up rows of words."""
  numbers = answers.get("num_words")
  if numbers is None:
    return answers
  return {
    name: [row[:number] for row, number in zip(rows, numbers, strict=True)]
    for name, rows in answers.items()
    if name != "num_words"
  }


def leaves(values) -> Iterator:
  """What lists of lists consist of, in order."""
  for value in values:
    if isinstance(value, list):
      yield from leaves(value)
    else:
      yield value


def execute(task: Task, folder: Path, bert: Path, *actions: str) -> None:
  """Runs the task's program; its log goes to a file in the folder."""
  command = [
    sys.executable,
    f"{ROOT}/{task.program}",
    f"--vocab_file={bert}/vocab.txt",
    f"--bert_config_file={bert}/bert_config.json",
    f"--init_checkpoint={bert}/bert_model.ckpt",
    "--export_dir=export",
    *task.flags,
    *actions,
  ]
  if task.is_trained:
    command += [f"--train_batch_size={BATCH}", "--num_train_epochs=1"]
    command += ["--seed=1", "--output_dir=output"]
  with open(folder / f"{''.join(actions)}.log".strip("-"), "w") as log:
    subprocess.run(command, cwd=folder, stderr=log, check=True)


if __name__ == "__main__":
  app.run(main)
