"""One folder for each task: examples, records, metrics, serving."""

from importlib import import_module

from storage import UserError

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

  `folder` is the program's --output_dir, `changes` are values of flags that
  differ from training. Raises FileNotFoundError if a file that flags name is
  gone, ValueError if no known program has trained there or a flag in `changes`
  is unknown or of the wrong type.
  """
  from cli import run  # noqa: PLC0415, imports TensorFlow
  from training import run_record  # noqa: PLC0415

  entries = run_record.read(folder)
  if not entries:
    raise UserError(
      f"no SavedModel and no {run_record.NAME} in {folder}: name a folder "
      "that --do_export wrote, or one that a program has trained in"
    )
  program = entries[-1].get("program")
  if program not in TASKS:
    raise UserError(
      f"{folder} was trained by {program or 'an unknown program'}, not by one "
      f"of {', '.join(TASKS)}: name what its --do_export writes"
    )
  task = import_module(TASKS[program])
  return run.restore(folder, entries[-1], task.served_model, changes)
