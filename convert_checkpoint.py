r"""Converts a BERT between formats, which the program recognizes by the files.

Writes files in the original's format from a Hugging Face folder or name (see
docs/models.md), a TensorFlow Model Garden checkpoint, a TensorFlow Hub module
or a KerasHub preset:

  python convert_checkpoint.py --input=hugging_face_folder --output=bert_folder
  python convert_checkpoint.py --input=hf://klue/bert-base --output=bert_folder

Writes a Hugging Face folder from a checkpoint of the original or this project:

  python convert_checkpoint.py --input=/tmp/mrpc_output --output=hf_folder

Writes a checkpoint without the optimizer's slots, at a third of the size:

  python convert_checkpoint.py --input=/tmp/mrpc_output/model.ckpt-343 \
    --output=small --strip_optimizer
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

import os
from dataclasses import dataclass

from absl import logging

from cli import program
from cli.settings import Settings, check_is_new, common, flag, required
from conversion import download, hugging_face, interchange
from conversion.interchange import HUGGING_FACE, ORIGINAL
from storage import UserError, files
from training import checkpoint_files

# Flags that the reader of a format takes. Other readers take no flags.
OPTIONS = {
  ORIGINAL: ("bert_config_file", "use_moving_averages"),
  interchange.MODEL_GARDEN: ("bert_config_file",),
  interchange.TF_HUB: ("bert_config_file",),
}


@dataclass(frozen=True, kw_only=True)
class ConversionSettings(Settings):
  """Flags of convert_checkpoint.py."""

  input: str = required("Folder, checkpoint, hf://NAME or URL of a zip.")
  output: str = required("Folder to write.")
  bert_config_file: str | None = common(None, "Default: --input's own file.")
  vocab_file: str | None = common(None, "Default: --input's own file.")
  do_lower_case: bool | None = common(None, "Default: as --input's files say.")
  overwrite: bool = common(False, "Replace files in --output.")
  output_format: str | None = flag(
    None,
    "Default: original; for a folder of the original hugging_face, unless "
    "--strip_optimizer is given.",
    choices=(ORIGINAL, HUGGING_FACE),
  )
  head: str | None = flag(
    None,
    "Head of a Hugging Face folder; default: what the variables form. "
    "encoder: without a head, also in the original's format.",
    choices=tuple(interchange.HEADS),
  )
  strip_optimizer: bool = flag(False, "Leave out the optimizer's slots.")
  use_moving_averages: bool = flag(False, "Convert moving averages.")


def check_flags(settings: ConversionSettings) -> None:
  settings.check_file("bert_config_file")
  settings.check_file("vocab_file")
  files.check_writable(settings.output, "output")
  kind = interchange.format_of(settings.input)
  target = choose_target(settings, kind)
  if target == ORIGINAL:
    checkpoint_files.check_name(settings.output)
  is_zip = settings.input.startswith(interchange.ZIPS)
  has_config = is_zip or settings.bert_config_file
  if (kind, target) == (ORIGINAL, HUGGING_FACE) and not has_config:
    prefix = checkpoint_files.find_checkpoint(settings.input)
    name = interchange.BERT_CONFIG
    if not checkpoint_files.file_of(prefix, "bert_config_file", name):
      raise UserError(f"no {name} beside {prefix}: give --bert_config_file")


def main(settings: ConversionSettings) -> None:
  with download.fetched(settings.input, settings.output) as path:
    kind = interchange.format_of(path)
    target = choose_target(settings, kind)
    # Import TensorFlow late: wrong flags should fail fast.
    from conversion import keras_hub, model_garden, original

    readers = {
      ORIGINAL: original.read,
      HUGGING_FACE: hugging_face.read,
      interchange.KERAS_HUB: keras_hub.read,
      interchange.MODEL_GARDEN: model_garden.read,
      interchange.TF_HUB: model_garden.read_module,
    }
    options = [settings[name] for name in OPTIONS.get(kind, ())]
    bert = readers[kind](path, *options)
    if settings.head == "encoder":
      bert.drop_head()
    original.complete(
      bert, settings.vocab_file, settings.do_lower_case, target == HUGGING_FACE
    )
    head = "encoder"  # --strip_optimizer needs no known head
    if not settings.strip_optimizer:
      head = interchange.head_of(bert, settings.head)
    original.check_variables(bert, head)
    if target == ORIGINAL:
      back = original.read(original.write(bert, settings.output))
      logging.info("wrote %s", back.origin)
    else:
      hugging_face.write(bert, settings.output, head)
      back = hugging_face.read(settings.output)
      logging.info("wrote a %s", interchange.HEADS[head].architecture)
    bert.summarize()
    original.check_values(bert, back)


def choose_target(settings: ConversionSettings, kind: str) -> str:
  is_release = settings.input.startswith(interchange.ZIPS)
  stays = kind == ORIGINAL and (settings.strip_optimizer or is_release)
  default = HUGGING_FACE if kind == ORIGINAL and not stays else ORIGINAL
  target = settings.output_format or default
  if settings.strip_optimizer and not (stays and target == ORIGINAL):
    raise UserError(
      "--strip_optimizer is for the original's format: other formats lack slots"
    )
  if kind == target and not stays:
    raise UserError(
      f"--input={settings.input} is of the format {target} already; "
      "--strip_optimizer makes an original checkpoint smaller"
    )
  if target == ORIGINAL and settings.head not in (None, "encoder"):
    raise UserError(f"--head={settings.head} is for a Hugging Face --output")
  for name in OPTIONS[ORIGINAL]:
    if settings[name] and name not in OPTIONS.get(kind, ()):
      text = f"does not go with the format of --input={settings.input}"
      raise UserError(f"--{name} {text}")
  if not settings.overwrite:
    names = interchange.FILES[target]
    check_is_new(*(os.path.join(settings.output, x) for x in names))
  return target


if __name__ == "__main__":
  program.run(ConversionSettings, check_flags, main)
