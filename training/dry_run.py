"""--dry_run: two steps of a command, to see whether all of it works.

Models and batches are as large as they would be, so that it also shows whether
they fit into memory. Nothing is kept.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from absl import flags, logging

STEPS = 2
EXAMPLES = 64  # of each file, in fine-tuning


@contextmanager
def shortened(FLAGS: flags.FlagValues) -> Iterator[None]:
  """Within it flags are those of a dry run, if one is asked for.

  Args:
    FLAGS: of any program.
  """
  if not getattr(FLAGS, "dry_run", False):
    yield
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
      "eval_every": 0,
      "early_stopping_patience": 0,
      "num_seeds": 1,
      "profile_steps": None,
    }
    for name, value in changes.items():
      if name in FLAGS:
        FLAGS[name].value = value
    if isinstance(FLAGS.learning_rate, tuple):
      FLAGS.learning_rate = FLAGS.learning_rate[0]
    yield
  logging.info("dry run: all of it works, nothing is kept")


def limit(FLAGS: flags.FlagValues) -> int | None:
  """How many examples of a file are used; None for all."""
  return EXAMPLES if FLAGS.dry_run else None
