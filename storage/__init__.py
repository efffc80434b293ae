"""Files, TFRecords, worker processes and progress; messages to a user."""

_written_as_flags = False


class UserError(ValueError):
  """A mistake of the user. The message names the culprit and the remedy.

  Programs log UserErrors, and OSErrors of a path, in one line. Other errors are
  defects.
  """


def write_settings_as_flags() -> None:
  """Makes `setting` write flags. Every program calls this function first."""
  global _written_as_flags
  _written_as_flags = True


def setting(name: str, value: object = None) -> str:
  """A setting in a message, as the user writes it.

  `setting("seed", 3)` is "--seed=3" in a program and "seed=3" in Python. The
  packages that runs/ imports name flags only through this function.
  """
  text = name if value is None else f"{name}={value}"
  return f"--{text}" if _written_as_flags else text
