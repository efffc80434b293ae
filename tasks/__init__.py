"""One folder for each task: examples, records, metrics, serving."""

from importlib import import_module

# By the program that writes run.json; a task is imported when it is needed.
TASKS = {
  "run_classifier": "tasks.classification.task",
  "run_squad": "tasks.squad.task",
  "run_ner": "tasks.ner.task",
  "run_swag": "tasks.multiple_choice.task",
  "run_pretraining": "tasks.pretraining.task",
}


def restore(folder: str, **changes):
  """Restores the model (serving.export.ServedModel) that --do_export exports.

  Args:
    folder: the program's --output_dir.
    changes: values of flags that differ from those of training.

  Raises:
    FileNotFoundError: a file that the flags name does not exist any more.
    ValueError: no known program has trained there, or a flag in `changes` is
      unknown or of the wrong type.
  """
  from cli import run  # noqa: PLC0415, imports TensorFlow
  from training import run_record  # noqa: PLC0415

  entries = run_record.read(folder)
  if not entries:
    raise ValueError(
      f"no SavedModel and no {run_record.NAME} in {folder}: name a folder "
      "that --do_export wrote, or one that a program has trained in"
    )
  program = entries[-1].get("program")
  if program not in TASKS:
    raise ValueError(
      f"{folder} was trained by {program or 'an unknown program'}, not by one "
      f"of {', '.join(TASKS)}: name what its --do_export writes"
    )
  task = import_module(TASKS[program])
  return run.restore(folder, entries[-1], task.served_model, changes)
