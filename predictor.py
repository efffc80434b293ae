"""Predicts with a trained model, in Python or from a shell.

from predictor import Predictor
predict = Predictor("/tmp/sst")  # an --output_dir, or an --export_dir
predict(["A film that", "is good."])

  python predictor.py --model=/tmp/squad < questions.jsonl > answers.jsonl

Each model input is a flag of the same name. Without such flags, the program
reads lines from standard input. A line is a JSON object of inputs. If the model
has one input, a line may be a JSON text ("A film."). --batch_size=1 answers
each line before reading the next.
"""

if __name__ == "__main__":
  import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

import bert_packages  # noqa: F401, first: checks that no file hides a package

import json
import os
import sys
from dataclasses import dataclass
from functools import partial

from cli import program
from cli.settings import Settings, common, flag, required
from serving import answers, formats
from storage import Progress
from tasks.open import Predictor

__all__ = ["Predictor"]
_input = partial(flag, None, text=True)
_moved = partial(flag, None, "For an --output_dir: the file, if it was moved.")


@dataclass(frozen=True, kw_only=True)
class PredictorSettings(Settings):
  """Flags of predictor.py. Flags for texts have the names of model inputs."""

  model: str = required(
    "An --export_dir, an --output_dir, for vectors a checkpoint's folder or "
    "hf://NAME, or the URL of a TF Serving."
  )
  batch_size: int = common(32, "Lines to answer at a time.", minimum=1)
  engine: str = flag(
    "auto",
    "Files of an export to use; auto: litert on a CPU, if exported.",
    choices=formats.ENGINES,
  )
  files: str | None = flag(
    None, "For a URL: the folder of its export, with vocab.txt."
  )
  timeout: float = flag(30.0, "For a URL: seconds per request.", minimum=0.1)
  bert_config_file: str | None = _moved()
  vocab_file: str | None = _moved()
  text: str | None = _input("The text, or the first of two.")
  text_pair: str | None = _input("The second text.")
  text_a: str | None = _input("First text of a pair, for run_classifier.")
  text_b: str | None = _input("Second text of a pair, for run_classifier.")
  tokens: str | None = _input("A text, for run_ner.")
  question: str | None = _input("A question, for run_squad.")
  context: str | None = _input(
    "A text that may have the answer, for run_squad."
  )
  sent1: str | None = _input("The first sentence, for run_swag.")
  sent2: str | None = _input("The start of the second sentence, for run_swag.")
  choices: tuple[str, ...] | None = _input(
    "An ending, for run_swag; repeat the flag.", repeated=True
  )


def main(settings: PredictorSettings) -> None:
  moved = {name: settings[name] for name in ("bert_config_file", "vocab_file")}
  changes = {name: path for name, path in moved.items() if path}
  options = settings.engine, settings.files or None, settings.timeout
  predict = Predictor(settings.model, *options, **changes)
  names = [flag.name for flag in settings.flags.values() if flag.text]
  texts = {k: settings[k] for k in names if settings[k] is not None}
  if texts:
    rows = iter([answers.check(texts, predict)])
  else:
    rows = answers.read_lines(sys.stdin.buffer, predict)
  progress = Progress("answered", 0, "lines")
  try:
    for answer in answers.answer_rows(predict, rows, settings.batch_size):
      print(json.dumps(answer, ensure_ascii=False), flush=True)
      progress.add(1)
  except BrokenPipeError:  # a reader such as `head` has stopped
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)


if __name__ == "__main__":
  program.run(PredictorSettings, main)
