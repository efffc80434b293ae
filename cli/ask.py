"""Command line of predictor.py: texts or lines of JSON in, lines of JSON out.

Each input of a model is a flag of its name; --choices is given once for each
choice. Without such flags, each line of standard input is a JSON object of
inputs, or a JSON text ("A film.") if the model has one input; --batch_size=1
answers each line before the next one is read.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import groupby

from cli import program
from cli.arguments import INPUTS
from storage import UserError
from storage.progress import Progress

# What text and text_pair, transformers' names, may stand for.
_OTHER_NAMES = {
  "text": ("text_a", "tokens", "sent1"),
  "text_pair": ("text_b", "sent2"),
}
_ID = "id"  # of a line, which its answer repeats
_COMMAND_LINE = "the command line"
_MOVED = "of an --output_dir, if it is not where it was"
# Arguments of Predictor, and their help.
_OPTIONS = {
  "engine": "savedmodel, litert, litert_float16 or litert_int8; default: "
  "LiteRT on a CPU, the SavedModel on a GPU",
  "files": "of a URL: the folder of its export, with vocab.txt",
  "timeout": "of a URL, in seconds; default: 30",
  "bert_config_file": _MOVED,
  "vocab_file": _MOVED,
}


def main(predictor: Callable, argv: list[str] | None = None) -> None:
  """Runs the program; a user's mistake ends it with one line and status 1."""
  args = _parse(argv)
  values = {k: v for k, v in vars(args).items() if v is not None}
  try:
    given = {k: _value(k, v) for k, v in values.items() if k in INPUTS}
    changes = {k: v for k, v in values.items() if v != "" and k in _OPTIONS}
    predict = predictor(args.model, **changes)
    rows = [(_COMMAND_LINE, given)]
    if not given:
      rows = _read(sys.stdin.buffer, predict)
    log = partial(print, file=sys.stderr)
    progress = Progress("answered", 0, "lines", log=log)
    for batch in _batches(_checked(predict, rows), args.batch_size):
      for answer in _answers(predict, batch):
        print(json.dumps(answer, ensure_ascii=False), flush=True)
      progress.add(len(batch))
  except BrokenPipeError:  # of a reader as `head`; of a server: RemoteError
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
  except (UserError, OSError) as error:
    named = "--model=" if str(error).startswith(args.model) else ""
    sys.exit(f"ERROR: {named}{error}")


class _Version(argparse.Action):
  def __call__(self, parser, *_):
    print(program.version_text())
    parser.exit()


def _value(name, texts):
  """Texts of --choices, or the only text of another input."""
  if name == "choices":
    return texts
  if len(texts) > 1:
    raise UserError(
      f"--{name} is given {len(texts)} times: give it once; several texts are "
      "asked by lines of JSON on standard input"
    )
  return texts[0]


def _parse(argv):
  parser = argparse.ArgumentParser(
    prog="predictor.py",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    allow_abbrev=False,
  )
  parser.add_argument(
    "--model",
    required=True,
    type=os.path.expanduser,  # the shell leaves ~ behind "="
    help="an --export_dir, an --output_dir, for vectors a checkpoint's folder, "
    "or the URL of a TF Serving",
  )
  text = "print versions of this project and its packages"
  parser.add_argument("--version", action=_Version, nargs=0, help=text)
  parser.add_argument(
    "--batch_size", type=int, default=32, help="lines at a time (%(default)s)"
  )
  for name, text in _OPTIONS.items():
    kind = float if name == "timeout" else os.path.expanduser
    parser.add_argument(f"--{name}", type=kind, help=text)
  for name in INPUTS:
    parser.add_argument(f"--{name}", action="append", help=argparse.SUPPRESS)
  return parser.parse_args(argv)


def _read(lines, predict) -> Iterator[tuple[str, dict]]:
  """Yields the inputs of each line of JSON, with the line's number."""
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    try:
      value = json.loads(line)
    except (ValueError, RecursionError) as error:
      raise UserError(
        f"line {number} is no JSON: {error}; a text stands in double quotes"
      ) from None
    if isinstance(value, str | list):  # a text, or its words
      value = {"text": value}
    if not isinstance(value, dict):
      raise UserError(
        f"line {number} is no object with {', '.join(predict.inputs)}"
      )
    yield f"line {number}", value


def _batches(rows, size) -> Iterator[list[dict]]:
  """Rows in batches; of a wrong line, those before it come before its error."""
  if size < 1:
    raise UserError(f"--batch_size={size} must be at least 1")
  batch: list[dict] = []
  try:
    for row in rows:
      batch.append(row)
      if len(batch) == size:
        yield batch
        batch = []
  except UserError:
    yield batch
    raise
  yield batch


def _answers(predict, batch) -> Iterator[dict]:
  """Answers of rows; those that lack an optional input are asked apart."""
  for names, group in groupby(batch, key=lambda row: sorted({*row} - {_ID})):
    rows = list(group)
    columns = {name: [row[name] for row in rows] for name in names}
    answers = predict(batch_size=len(rows), **columns)
    for row, answer in zip(rows, answers, strict=True):
      yield {_ID: row[_ID], **answer} if _ID in row else answer


def rename(texts: Mapping, inputs: Collection[str]) -> dict:
  """Texts by names of a model's inputs, for which text and text_pair stand."""
  names = {
    name: own
    for name, known in _OTHER_NAMES.items()
    for own in known
    if own in inputs and own not in texts
  }
  return {names.get(name, name): text for name, text in texts.items()}


def _checked(predict, rows) -> Iterator[dict]:
  """Rows, which must have the model's inputs; else ValueError with the line."""
  for source, given in rows:
    row = rename(given, predict.inputs)
    try:
      predict.check({name: [row[name]] for name in row if name != _ID})
    except UserError as error:
      unknown = ", ".join(sorted(row.keys() - {*predict.inputs, _ID}))
      hint = f", and no {unknown}" if unknown else ""
      message = f"{source}: {error}{hint}"
      if source == _COMMAND_LINE:
        message = re.sub(r"(\w+)=\[\.\.\.\]", r"--\1", message)
      raise UserError(message) from None
    yield row
