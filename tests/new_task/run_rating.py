"""Fine-tunes BERT to rate texts: the program of a new task.

Files are tables with the columns text and rating.
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

from pathlib import Path

import tasks

# Needed only because the folder of this task is not in tasks/.
tasks.__path__.append(str(Path(__file__).parent / "tasks"))

from tasks.rating.examples import read_examples  # noqa: E402
from tasks.rating.settings import Settings  # noqa: E402

from runs import checks, training_program  # noqa: E402


def check_flags(settings):
  """Raises an error if flags or paths would make the run fail later."""
  for split in settings.splits_to_read:
    settings.check_files(f"{split}_file")
  checks.check_fine_tuning(settings)


def main(settings):
  examples = {
    split: read_examples(settings[f"{split}_file"], split != "test")
    for split in settings.splits_to_read
  }
  # TensorFlow is imported only after the checks of flags and files.
  from tasks.rating.task import Rating

  from runs.fine_tune import fine_tune

  fine_tune(Rating(settings, examples))


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
