"""--dry_run: all stages of a command with two training steps and no outputs.

Models and batches have their full size, so that it also tests memory.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from absl import logging

from cli.arguments import Arguments

STEPS = 2
EXAMPLES = 64  # of each file, in fine-tuning


@contextmanager
def shortened(args: Arguments) -> Iterator[Arguments]:
  """Context with the arguments to run with, changed if --dry_run is set."""
  if not getattr(args, "dry_run", False):
    yield args
    return
  with TemporaryDirectory() as folder:
    changes = {
      "output_dir": folder,
      "do_train": True,
      "do_export": True,
      "export_dir": os.path.join(folder, "export"),
      "num_train_steps": STEPS,
      "num_warmup_steps": 1,
      "stop_at_step": 0,
      "max_eval_steps": STEPS,
      "eval_steps": 0,
      "early_stopping_patience": 0,
      "num_seeds": 1,
      "profile_steps": None,
    }
    if isinstance(args.learning_rate, tuple):
      changes["learning_rate"] = args.learning_rate[0]
    yield args.replace(**{n: v for n, v in changes.items() if n in args})
  logging.info("dry run: all stages work, nothing was saved")


def limit(args: Arguments) -> int | None:
  """Number of examples to read from a file; None for all."""
  return EXAMPLES if args.dry_run else None
