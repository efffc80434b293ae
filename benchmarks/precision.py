"""Fine-tunes one encoder in float32, bfloat16 and float16.

The same rows, hyper-parameters and seeds by the command that a user types, only
--dtype differs. The rows are the first of SST-2's:

  python -m benchmarks.precision --data_dir=glue_data/SST-2 --bert_dir=bert \
    --work_dir=work

Results go to results.jsonl in --work_dir, line by line, and what is there is
not run again; what was killed is. With --table they are printed as a table.
"""

import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from absl import app, flags

from benchmarks.spread import mean_and_spread

FLAGS = flags.FLAGS
ROOT = Path(__file__).parents[1]
DTYPES = ("float32", "bfloat16", "float16")

flags.DEFINE_string("work_dir", None, "For data, logs, results.", required=True)
flags.DEFINE_string("data_dir", None, "Folder of SST-2.")
flags.DEFINE_string("bert_dir", None, "Encoder in the original's format.")
flags.DEFINE_integer("train_rows", 2000, "Rows to train on.", 1)
flags.DEFINE_integer("epochs", 2, "How often.", 1)
flags.DEFINE_integer("batch_size", 16, "Examples a step.", 1)
flags.DEFINE_integer("max_seq_length", 48, "Tokens of a text.", 3)
flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
flags.DEFINE_integer("seeds", 3, "How many, from 1 on.", 1)
flags.DEFINE_multi_enum("dtype", DTYPES, DTYPES, "Which to run.")
flags.DEFINE_bool("table", False, "Print the results and run nothing.")


def key(dtype: str, seed: int) -> dict[str, str | int | float]:
  """What makes a run the same as another one."""
  names = ("train_rows", "epochs", "batch_size", "max_seq_length")
  return {
    "dtype": dtype,
    "seed": seed,
    "learning_rate": FLAGS.learning_rate,
  } | {name: FLAGS[name].value for name in names}


def results() -> list[dict]:
  """What was run so far."""
  path = Path(FLAGS.work_dir, "results.jsonl")
  lines = path.read_text().splitlines() if path.exists() else []
  return [json.loads(line) for line in lines]


def cut(folder: Path) -> None:
  """Writes the rows to train on, and all there are to evaluate on."""
  folder.mkdir(parents=True, exist_ok=True)
  with open(Path(FLAGS.data_dir, "train.tsv"), encoding="utf-8") as file:
    rows = [file.readline() for _ in range(1 + FLAGS.train_rows)]
  (folder / "train.tsv").write_text("".join(rows), encoding="utf-8")
  shutil.copy(Path(FLAGS.data_dir, "dev.tsv"), folder)


def command(dtype: str, seed: int, data: Path, output: Path) -> list[str]:
  """What is executed."""
  bert = Path(FLAGS.bert_dir)
  return [
    *(sys.executable, str(ROOT / "run_classifier.py")),
    *("--task_name=SST-2", f"--data_dir={data}"),
    *("--do_train", "--do_eval", f"--dtype={dtype}", f"--seed={seed}"),
    f"--vocab_file={bert / 'vocab.txt'}",
    f"--bert_config_file={bert / 'bert_config.json'}",
    f"--init_checkpoint={bert / 'bert_model.ckpt'}",
    f"--train_batch_size={FLAGS.batch_size}",
    f"--max_seq_length={FLAGS.max_seq_length}",
    f"--learning_rate={FLAGS.learning_rate}",
    f"--num_train_epochs={FLAGS.epochs}",
    f"--output_dir={output}",
  ]


def execute(dtype: str, seed: int, work: Path) -> None:
  """Trains and evaluates, and notes what came of it."""
  name = f"{dtype}-{seed}"
  output = work / "runs" / name
  shutil.rmtree(output, ignore_errors=True)
  output.mkdir(parents=True)
  print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
  before = _cpu_seconds()
  with open(output / "log.txt", "w") as log:
    subprocess.run(
      command(dtype, seed, work / "data", output),
      stderr=log,
      check=True,
    )
  found = key(dtype, seed) | {"cpu_seconds": _cpu_seconds() - before}
  found |= outcome(output)
  with open(work / "results.jsonl", "a") as file:
    file.write(json.dumps(found) + "\n")
  for path in output.glob("model.ckpt-*"):
    path.unlink()
  print(f"  {found}", flush=True)


def _cpu_seconds() -> float:
  """Of the processor, not of the clock: others may be using it, too."""
  usage = resource.getrusage(resource.RUSAGE_CHILDREN)
  return usage.ru_utime + usage.ru_stime


def outcome(output: Path) -> dict[str, float]:
  """Reads what a run wrote: its score, and steps left out for an overflow."""
  lines = (output / "eval_results.txt").read_text().splitlines()
  values = dict(line.split(" = ") for line in lines)
  told = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
  steps, skipped = 0, 0.0
  for line in told:
    if "loss" in line:
      skipped += line.get("skipped_steps", 0.0) * (line["step"] - steps)
      steps = line["step"]
  return {
    "accuracy": 100 * float(values["eval_accuracy"]),
    "loss": float(values["eval_loss"]),
    "skipped": round(skipped),
    "steps": steps,
  }


def table() -> str:
  """The results as Markdown, each type beside float32 with the same seeds."""
  found = {}
  for row in results():
    if row == row | key(row["dtype"], row["seed"]):
      found.setdefault(row["dtype"], {})[row["seed"]] = row
  header = "--dtype|accuracy|minus float32's|loss|skipped steps|CPU seconds"
  lines = [f"| {header.replace('|', ' | ')} |", "|---" * 6 + "|"]
  plain = found.get("float32", {})
  for dtype in (name for name in DTYPES if name in found):
    rows = found[dtype]
    both = [seed for seed in rows if seed in plain]
    apart = [rows[n]["accuracy"] - plain[n]["accuracy"] for n in both]
    cells = [
      f"`{dtype}`",
      mean_and_spread([row["accuracy"] for row in rows.values()]),
      "" if dtype == "float32" else mean_and_spread(apart),
      mean_and_spread([row["loss"] for row in rows.values()], 3),
      ", ".join(str(row["skipped"]) for row in rows.values()),
      f"{statistics.mean(row['cpu_seconds'] for row in rows.values()):.0f}",
    ]
    lines.append(f"| {' | '.join(cells)} |")
  return "\n".join(lines)


def main(_):
  if FLAGS.table:
    print(table())
    return
  work = Path(FLAGS.work_dir).absolute()
  cut(work / "data")
  for seed in range(1, FLAGS.seeds + 1):
    for dtype in FLAGS.dtype:
      if not any(row == row | key(dtype, seed) for row in results()):
        execute(dtype, seed, work)


if __name__ == "__main__":
  app.run(main)
