"""Files, TFRecords, worker processes and progress; messages to a user."""

_written_as_flags = False


class UserError(ValueError):
  """A mistake of the user, with the culprit and the remedy as its message.

  Programs log it in one line, as OSErrors of a path; all others are defects.
  """


def write_settings_as_flags() -> None:
  """Lets `setting` write flags; a program calls it when it starts."""
  global _written_as_flags
  _written_as_flags = True


def setting(name: str, value: object = None) -> str:
  """A setting in a message, as the user writes it.

  `setting("seed", 3)` is "--seed=3" in a program and "seed=3" in Python.
  Messages of the packages below runs/ name no flag otherwise.
  """
  text = name if value is None else f"{name}={value}"
  return f"--{text}" if _written_as_flags else text
