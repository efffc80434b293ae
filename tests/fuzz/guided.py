"""Fuzzes with atheris: `python -m tests.fuzz.guided squad -runs=100000`."""

import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["data", "modeling", "training"]):
  from tests.fuzz import run, targets


def main() -> None:
  """Fuzzes the target that the command line names, starting from the corpus."""
  name = sys.argv.pop(1)
  with tempfile.TemporaryDirectory() as folder:
    path = targets.prepare(name, folder)
    read = targets.TARGETS[name].read
    # libFuzzer writes new inputs to the first folder, here the temporary one.
    arguments = [*sys.argv, folder, str(targets.CORPUS / name)]
    atheris.Setup(arguments, lambda data: run.attempt(read, path, data))
    atheris.Fuzz()


if __name__ == "__main__":
  main()
