"""Settings of run_classifier.py: the task.

Needs no TensorFlow.
"""

from cli import checks
from cli.arguments import Arguments
from tasks.classification import custom_task, examples, glue
from tasks.classification.examples import ClassificationTask


def named_task(args: Arguments) -> ClassificationTask:
  """Returns the task of --task_name; that of own files has no labels yet."""
  if args.task_name.lower() != custom_task.NAME:
    task = glue.find(args.task_name)
    return glue.xnli(args.xnli_language) if task.name == "XNLI" else task
  return custom_task.make_task(
    args.data_dir,
    args.text_a_column,
    args.text_b_column,
    args.label_column,
    args.is_regression,
  )


def check_files(args: Arguments) -> None:
  """Checks that the files exist that the --do_... flags need.

  Raises:
    FileNotFoundError: a file is missing; names the files that the task has.
    ValueError: the task is unknown, or has no such split.
  """
  reads = {
    "train": args.do_train,
    "dev": checks.needs_eval_data(args),
    "test": args.do_predict,
  }
  task = named_task(args)
  for split, is_read in reads.items():
    if is_read:
      examples.find_file(task, args.data_dir, split)
