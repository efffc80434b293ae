"""Profiling of some steps by TensorFlow's profiler."""

from absl import logging


class Profile:
  """Steps of a run to profile, for TensorBoard.

  `first` updates precede it, None is no profile; after `last` it ends. Training
  must return to Python at `stops`.
  """

  def __init__(
    self, directory: str = "", first: int | None = None, last: int | None = None
  ):
    self.directory, self.first, self.last = directory, first, last
    self.stops = () if first is None else (first, last)
    self._is_running = False

  def start_if_due(self, step: int) -> None:
    """Starts the profiler if `step` is the first one."""
    if step == self.first:
      import tensorflow as tf  # noqa: PLC0415, flags are checked without

      tf.profiler.experimental.start(self.directory)
      self._is_running = True

  def stop_if_due(self, step: int) -> None:
    """Stops the profiler if it is running and `step` is the last one."""
    if self._is_running and step == self.last:
      import tensorflow as tf  # noqa: PLC0415

      tf.profiler.experimental.stop()
      self._is_running = False
      logging.info("profile of %d steps: %s", step - self.first, self.directory)


def parse(directory: str, steps: str | None) -> Profile:
  """Parses --profile_steps=first,last; None is no profile.

  Raises:
    ValueError: these are not two numbers in order.
  """
  if not steps:
    return Profile()
  try:
    first, last = map(int, steps.split(","))
  except ValueError:
    first, last = 0, 0
  if not 0 <= first < last:
    raise ValueError(
      f"--profile_steps={steps}: give the step before the first and the last "
      "one, as in 100,110"
    )
  return Profile(directory, first, last)
