r"""Converts a BERT between the original's format and others.

From a Hugging Face folder, a checkpoint of TensorFlow Model Garden or a preset
of KerasHub to the names and files of a released model:

  python convert_checkpoint.py --input=hugging_face_folder --output=bert_folder

From an original checkpoint, or one of our programs, to a Hugging Face folder:

  python convert_checkpoint.py --input=/tmp/mrpc_output --output=hf_folder \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --vocab_file=$BERT_DIR/vocab.txt

Without what only training needs, a third of the size:

  python convert_checkpoint.py --input=/tmp/mrpc_output/model.ckpt-343 \
    --output=small --strip_optimizer

What --input is, is seen from its files.
"""

import numpy as np
from absl import flags, logging

from assembly import converted
from data import files
from training import program
from training.conversion import (
  hugging_face,
  hugging_face_export,
  interchange,
  keras_hub,
  model_garden,
  original,
  self_check,
)
from training.conversion.interchange import Bert

FLAGS = flags.FLAGS

ORIGINAL, HUGGING_FACE = "original", "hugging_face"

flags.DEFINE_string("input", None, "What to convert.", required=True)
flags.DEFINE_string("output", None, "Folder to write.", required=True)
flags.DEFINE_enum(
  "output_format",
  None,
  [ORIGINAL, HUGGING_FACE],
  "Default: hugging_face if --input is of the original, else original.",
)
flags.DEFINE_enum(
  "head",
  None,
  list(interchange.HEADS),
  "What a Hugging Face folder is to be; default: what the variables are.",
)
flags.DEFINE_string(
  "bert_config_file", None, "If it is not beside the checkpoint."
)
flags.DEFINE_string("vocab_file", None, "If it is not beside the checkpoint.")
flags.DEFINE_bool(
  "do_lower_case", None, "As the model was trained; default: what is known."
)
flags.DEFINE_bool("strip_optimizer", False, "Original to original, without it.")
flags.DEFINE_bool(
  "use_moving_averages", False, "Of an original checkpoint that has them."
)
flags.DEFINE_bool("overwrite", False, "Replace what is there.")


def main(_):
  bert, kind = recognize()
  target = choose_target(kind)
  if not FLAGS.overwrite:
    writer = original if target == ORIGINAL else hugging_face_export
    files.refuse_to_overwrite(*writer.targets(FLAGS.output))
  converted.complete(bert, FLAGS, target == HUGGING_FACE)
  # What has a head that is not known here can be made smaller all the same.
  head = "encoder"
  if not FLAGS.strip_optimizer:
    head = interchange.head_of(bert, FLAGS.head)
  before = converted.outputs(bert, head)
  if target == ORIGINAL:
    back = original.read(original.write(bert, FLAGS.output))
    logging.info("wrote %s", back.origin)
  else:
    hugging_face_export.write(bert, FLAGS.output, head)
    back = hugging_face.read(FLAGS.output)
    logging.info("wrote a %s", interchange.HEADS[head].architecture)
  interchange.summarize(bert)
  self_check.check_same(bert, back)
  after = converted.outputs(back, head)
  if before:
    far = max(np.max(np.abs(after[name] - before[name])) for name in before)
    logging.info("before and after on the same batch: %.1e apart at most", far)


def recognize() -> tuple[Bert, str]:
  """Reads --input as what its files are; also says what that is.

  Raises:
    ValueError: it is nothing known, or a flag does not go with it.
  """
  for kind, reader in (("KerasHub", keras_hub), (HUGGING_FACE, hugging_face)):
    if reader.recognizes(FLAGS.input):
      refuse("use_moving_averages", "bert_config_file")
      return reader.read(FLAGS.input), kind
  prefix = original.find(FLAGS.input)
  if model_garden.recognizes(prefix):
    refuse("use_moving_averages")
    return model_garden.read(prefix, FLAGS.bert_config_file), "Model Garden"
  averaged = FLAGS.use_moving_averages
  return original.read(prefix, FLAGS.bert_config_file, averaged), ORIGINAL


def refuse(*names: str) -> None:
  """Raises ValueError for flags that are not of the format of --input."""
  for name in names:
    if FLAGS[name].value:
      raise ValueError(
        f"--{name} does not go with the format of --input={FLAGS.input}"
      )


def choose_target(kind: str) -> str:
  """The format to write, for what --input is."""
  stays = kind == ORIGINAL and FLAGS.strip_optimizer
  default = HUGGING_FACE if kind == ORIGINAL and not stays else ORIGINAL
  target = FLAGS.output_format or default
  if FLAGS.strip_optimizer and not (stays and target == ORIGINAL):
    raise ValueError(
      "--strip_optimizer is from original to original; whatever else is "
      "written has no optimizer anyway"
    )
  if kind == target and not stays:
    raise ValueError(
      f"--input={FLAGS.input} is of the format {target} already; "
      "--strip_optimizer makes an original checkpoint smaller"
    )
  if FLAGS.head and target == ORIGINAL:
    raise ValueError("--head is for --output_format=hugging_face")
  return target


if __name__ == "__main__":
  program.run(main)
