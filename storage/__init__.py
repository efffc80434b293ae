"""Files, TFRecords, worker processes and progress."""


class UserError(ValueError):
  """A mistake of the user, with the culprit and the remedy as its message.

  Programs log it as one line (cli/program.py), as they do OSErrors of a path;
  any other error is a defect and keeps its traceback.
  """
