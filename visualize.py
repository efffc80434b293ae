r"""Writes one HTML file that shows how a model reads a text.

  python visualize.py --model=model --text='She opened the [MASK] and left.' \
    --output_file=page.html
  python visualize.py --model=/tmp/squad_output --question='Where?' \
    --context='She was born in Riga.' --output_file=page.html

The page shows the embeddings of the input, the attention of every head, and the
model's answer. An answer may be words for [MASK] after each layer, IsNext,
labels, tags, or probabilities of an answer's start and end. A browser needs no
network to open the file.
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

import os
from dataclasses import dataclass
from functools import partial

from absl import logging

from cli import program
from cli.settings import Settings, check_output_file, common, flag, required
from data.tokenization import open_tokenizer
from runs.trained_model import find_model
from serving.answers import TextConfig, rename
from storage import UserError, files
from tasks.open import restore
from training import checkpoint_files

_INPUTS = ("text", "text_pair", "question", "context", "choices")
_input = partial(flag, None, text=True)


@dataclass(frozen=True, kw_only=True)
class PageSettings(Settings):
  """Flags of visualize.py."""

  model: str = required(
    "--output_dir of a training, folder of a released model, or a checkpoint."
  )
  text: str | None = common(
    None,
    "The text, the first of two texts, or what each of --choices continues.",
    text=True,
  )
  text_pair: str | None = _input("The second text.")
  question: str | None = _input("Question, for a model of run_squad.")
  context: str | None = _input("Text that may answer --question.")
  choices: tuple[str, ...] | None = _input(
    "An ending, for a model of run_swag; repeat the flag.", repeated=True
  )
  output_file: str = required("The page, as .html.")
  overwrite: bool = common(False, "Replace --output_file if it exists.")


def check_flags(settings: PageSettings) -> None:
  check_output_file(settings.output_file, settings.overwrite)
  if not any(settings[name] for name in _INPUTS):
    raise UserError("nothing to show: give --text, or --question and --context")
  checkpoint_files.find_checkpoint(settings.model)


def main(settings: PageSettings) -> None:
  # Import TensorFlow late: wrong flags should fail fast.
  from serving import visualization

  served = _restore(settings)
  answers = served.answers
  given = {name: settings[name] for name in _INPUTS if settings[name]}
  texts = rename(given, answers.inputs)
  needed = answers.inputs.keys() - answers.optional
  if not needed <= texts.keys() <= answers.inputs.keys():
    raise UserError(
      f"the model in {settings.model} takes {', '.join(answers.inputs)}: give "
      f"the flags for these among --{', --'.join(_INPUTS)}"
    )
  values = visualization.compute(served, visualization.encode(served, texts))
  text = visualization.render(served, values, texts, settings.model)
  files.write_text(settings.output_file, text)
  logging.info("wrote %s: open it in a browser", settings.output_file)


def _restore(settings: PageSettings):
  """Restores the model and its Answers, as a serving.export.ServedModel."""
  from modeling import models
  from serving.export import ServedModel
  from tasks.features.answers import Answers as Vectors
  from tasks.pretraining import answers
  from training import run_folder

  entry = checkpoint_files.run_of(settings.model)
  if entry.get("program", "run_pretraining") != "run_pretraining":
    record = checkpoint_files.sibling_file(settings.model, "run.json")
    folder = os.path.dirname(record or "")
    served = restore(folder)
    if settings.model.rstrip("/") != folder:  # a checkpoint, or folder `best`
      path = checkpoint_files.find_checkpoint(settings.model)
      run_folder.restore_trained(served.model, path)
    return served
  path, _, vocab_file, is_lower, config = find_model(settings.model)
  tokenizer = open_tokenizer(vocab_file, is_lower)
  text_config = TextConfig(tokenizer, config.max_position_embeddings)
  kinds = checkpoint_files.kinds_at(path)
  if "masked_lm" in kinds:
    model = models.pretrainer(config, "pretraining" in kinds)
    served = ServedModel(model, answers.Answers(text_config))
  else:
    model = models.layer_outputs(config, [-1])
    served = ServedModel(model, Vectors(text_config, "mean"))
  run_folder.restore_trained(served.model, path)
  return served


if __name__ == "__main__":
  program.run(PageSettings, check_flags, main, writes_files=True)
