r"""Converts a BERT between the original's format and others.

From a Hugging Face folder, a checkpoint of TensorFlow Model Garden or a preset
of KerasHub to the names and files of a released model:

  python convert_checkpoint.py --input=hugging_face_folder --output=bert_folder

From an original checkpoint, or one of our programs, to a Hugging Face folder:

  python convert_checkpoint.py --input=/tmp/mrpc_output --output=hf_folder \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --vocab_file=$BERT_DIR/vocab.txt

Without the optimizer's slots, a third of the size:

  python convert_checkpoint.py --input=/tmp/mrpc_output/model.ckpt-343 \
    --output=small --strip_optimizer

The format of --input is recognized by its files.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

import os

from absl import flags, logging

from cli import program
from cli.arguments import Arguments
from conversion import hugging_face, interchange
from conversion.interchange import HUGGING_FACE, MODEL_GARDEN, ORIGINAL
from storage import UserError, files
from training import run_record

flags.DEFINE_string("input", None, "Folder or checkpoint.", required=True)
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
  "Head of a Hugging Face folder; default: as the variables have it. "
  "encoder: without a head, also in the original's format.",
)
flags.DEFINE_string("bert_config_file", None, "Default: beside the checkpoint.")
flags.DEFINE_string("vocab_file", None, "Default: beside the checkpoint.")
flags.DEFINE_bool("do_lower_case", None, "Default: that of its tokenizer.")
flags.DEFINE_bool("strip_optimizer", False, "Leave out the optimizer's slots.")
flags.DEFINE_bool("use_moving_averages", False, "Convert moving averages.")
flags.DEFINE_bool("overwrite", False, "Replace files in --output.")


def check_flags(args: Arguments) -> None:
  program.check_file(args, "bert_config_file")
  program.check_file(args, "vocab_file")
  program.check_writable(args.output, "output")
  if files.exists(args.output) and not files.is_folder(args.output):
    raise NotADirectoryError(f"--output={args.output} is a file: name a folder")
  if kind := interchange.format_of_folder(args.input):
    choose_target(args, kind)
    return
  prefix = run_record.find_checkpoint(args.input)
  if interchange.is_object_based(prefix):
    choose_target(args, MODEL_GARDEN)
  elif choose_target(args, ORIGINAL) == HUGGING_FACE and not (
    args.bert_config_file
    or run_record.sibling_file(prefix, interchange.BERT_CONFIG)
  ):
    raise UserError(
      f"there is no bert_config.json beside {prefix}: give --bert_config_file"
    )


def main(args: Arguments) -> None:
  # TensorFlow is imported here, after the flags were checked.
  from conversion import conversion_checks, original

  bert, kind = conversion_checks.read_any(
    args.input, args.bert_config_file, args.use_moving_averages
  )
  target = choose_target(args, kind)
  if args.head == "encoder":
    bert.drop_head()
  conversion_checks.complete(
    bert, args.vocab_file, args.do_lower_case, target == HUGGING_FACE
  )
  # --strip_optimizer also works for models with an unknown head.
  head = "encoder"
  if not args.strip_optimizer:
    head = interchange.head_of(bert, args.head)
  conversion_checks.check_variables(bert, head)
  if target == ORIGINAL:
    back = original.read(original.write(bert, args.output))
    logging.info("wrote %s", back.origin)
  else:
    hugging_face.write(bert, args.output, head)
    back = hugging_face.read(args.output)
    logging.info("wrote a %s", interchange.HEADS[head].architecture)
  bert.summarize()
  conversion_checks.check_values(bert, back)


def choose_target(args: Arguments, kind: str) -> str:
  """The format to write, for an --input of format `kind`.

  Raises ValueError if flags contradict it, FileExistsError if --output has
  files of that format.
  """
  stays = kind == ORIGINAL and args.strip_optimizer
  default = HUGGING_FACE if kind == ORIGINAL and not stays else ORIGINAL
  target = args.output_format or default
  if args.strip_optimizer and not (stays and target == ORIGINAL):
    raise UserError(
      "--strip_optimizer is from original to original: others have no optimizer"
    )
  if kind == target and not stays:
    raise UserError(
      f"--input={args.input} is of the format {target} already; "
      "--strip_optimizer makes an original checkpoint smaller"
    )
  if target == ORIGINAL and args.head not in (None, "encoder"):
    raise UserError(f"--head={args.head} is for a Hugging Face --output")
  if not args.overwrite:
    names = interchange.FILES[target]
    program.check_is_new(*(os.path.join(args.output, x) for x in names))
  return target


if __name__ == "__main__":
  program.run(main, check_flags)
