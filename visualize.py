r"""Writes a page that shows how a model reads a text: one HTML file.

  python visualize.py --model=model --text='She opened the [MASK] and left.' \
    --output_file=page.html
  python visualize.py --model=/tmp/squad_output --question='Where?' \
    --context='She was born in Riga.' --output_file=page.html

It shows the embeddings of the input, the attention of every head, and the
answer: words for [MASK] layer by layer, IsNext, labels, tags, or where an
answer starts and ends. A browser opens it without network.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

import os

from absl import flags, logging

import tasks
from cli import ask, pretraining_flags, program
from cli.arguments import Arguments
from data import vocab
from storage import UserError, files, textfiles
from training import run_record

flags.DEFINE_string(
  "model",
  None,
  "--output_dir of a training, folder of a released model, or a checkpoint.",
  required=True,
)
flags.DEFINE_string(
  "text", None, "The text, the first of two, or what --choices may follow."
)
flags.DEFINE_string("text_pair", None, "The second text.")
flags.DEFINE_string("question", None, "Question, for a model of run_squad.")
flags.DEFINE_string("context", None, "Text that may answer --question.")
flags.DEFINE_multi_string(
  "choices", None, "An ending, for a model of run_swag; repeat the flag."
)
flags.DEFINE_string("output_file", None, "The page, as .html.", required=True)
flags.DEFINE_bool("overwrite", False, "Replace --output_file if it exists.")

_INPUTS = ("text", "text_pair", "question", "context", "choices")


def check_flags(args: Arguments) -> None:
  program.check_output_file(args)
  for name in _INPUTS:
    if textfiles.SURROGATE.search("".join(args[name] or "")):
      raise UserError(f"--{name} is not UTF-8: write it in this encoding")
  if not any(args[name] for name in _INPUTS):
    raise UserError("nothing to show: give --text, or --question and --context")
  run_record.find_checkpoint(args.model)


def main(args: Arguments) -> None:
  # TensorFlow is imported here, after the flags were checked.
  from serving import visualization

  served = _restore(args)
  texts = _texts(args, served.answers)
  encoded = visualization.encode(served, texts)
  values = visualization.compute(served, encoded)
  text = visualization.render(served, values, texts, args.model)
  files.write_text(args.output_file, text)
  logging.info("wrote %s: open it in a browser", args.output_file)


def _restore(args):
  """The model (serving.export.ServedModel) and its answers."""
  from training import checkpoint

  entry = run_record.of_checkpoint(args.model)
  if entry.get("program", "run_pretraining") == "run_pretraining":
    return _restore_pretrained(args, entry["flags"])
  folder = os.path.dirname(run_record.sibling_file(args.model, run_record.NAME))
  served = tasks.restore(folder)
  if args.model.rstrip("/") != folder:  # a checkpoint, or the folder `best`
    path = run_record.find_checkpoint(args.model)
    checkpoint.restore_strict(served.model, path)
  return served


def _restore_pretrained(args, trained_flags):
  """A model with the heads of pre-training; without them an encoder."""
  from modeling import models
  from serving.answers import TextConfig
  from serving.export import ServedModel
  from tasks.features.answers import Answers as Vectors
  from tasks.pretraining import answers
  from training import checkpoint

  path, _, vocab_file, lower_case, config = tasks.model_files(args.model)
  length = config.max_position_embeddings
  text_config = TextConfig(vocab_file, lower_case, length)
  if "cls/predictions/output_bias" in checkpoint.open_reader(path):
    if vocab.MASK in f"{args.text} {args.text_pair}":
      pretraining_flags.check_objective(trained_flags.get("objective"))
    model = models.pretrainer(config, checkpoint.has_next_sentence(path))
    served = ServedModel(model, answers.Answers(text_config))
  else:
    model = models.layer_outputs(config, [-1])
    served = ServedModel(model, Vectors(text_config, "mean"))
  checkpoint.restore_strict(served.model, path)
  return served


def _texts(args, answers):
  """Texts by the names of a model's inputs; UserError if they do not fit."""
  names = {}
  for flag in _INPUTS:
    [name] = ask.rename({flag: None}, answers.inputs)
    if name in answers.inputs:
      names[flag] = name
  texts = {name: args[flag] for flag, name in names.items() if args[flag]}
  wrong = [flag for flag in _INPUTS if args[flag] and flag not in names]
  if wrong or answers.inputs.keys() - answers.optional - texts.keys():
    takes = ", ".join(f"--{flag}" for flag in names)
    more = f", not --{wrong[0]}" if wrong else ""
    raise UserError(f"the model in {args.model} takes {takes}{more}")
  return texts


if __name__ == "__main__":
  program.run(main, check_flags, writes_files=True)
