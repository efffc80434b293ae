"""Fine-tunes BERT to rate texts: the program of a new task.

Files are tables with the columns text and rating.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from pathlib import Path

import tasks

# Only because the folder of this task is not in tasks/.
tasks.__path__.append(str(Path(__file__).parent / "tasks"))

from tasks.rating import examples  # noqa: E402
from tasks.rating.settings import Settings  # noqa: E402

from cli import file_checks  # noqa: E402
from runs import checks, training_program  # noqa: E402


def check_flags(args):
  """Raises an error if the run would fail later, by flags or paths."""
  file_checks.check_files(args, *args.files_to_read)
  checks.check_fine_tuning(args)


def main(args):
  rows = {
    flag: examples.read_examples(getattr(args, flag), flag != "test_file")
    for flag in args.files_to_read
  }
  # TensorFlow is imported here, after flags and files were checked.
  from tasks.rating import head, task

  from runs import fine_tuning, sweep

  if args.is_sweep:
    args = sweep.run_sweep(args)
  run = fine_tuning.start(args)
  args = run.args
  data = {
    flag: task.convert(args, flag, rows[flag]) for flag in args.files_to_read
  }
  with run.strategy.scope():
    model = task.make_model(args, run.config)
    if args.do_train:
      fine_tuning.train(
        run,
        model,
        head.absolute_error(),
        data["train_file"],
        num_examples=len(rows["train_file"]),
        evaluate=lambda step: task.evaluate(
          args, model, data["dev_file"], step
        ),
        metric="eval_pearson",
        served_model=task.served_model,
      )
    if args.do_eval or args.do_predict:
      step = run.load(model)
    if args.do_eval:
      task.evaluate(args, model, data["dev_file"], step)
    if args.do_predict:
      task.predict(args, model, data["test_file"])
  if args.do_export:
    run.export(task.served_model)


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
