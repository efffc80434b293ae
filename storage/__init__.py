"""Files, TFRecords, worker processes and progress."""


class UserError(ValueError):
  """A mistake of the user, with the culprit and the remedy as its message.

  Programs log it in one line, as OSErrors of a path; all others are defects.
  """
