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

from functools import partial

import keras
import numpy as np
from absl import flags, logging

from data import files, vocab
from data.tokenization import validate_case_matches_checkpoint
from modeling import models
from modeling.config import BertConfig
from training import (
  hugging_face,
  hugging_face_export,
  interchange,
  keras_hub,
  model_garden,
  original,
  program,
  run_record,
  self_check,
)
from training.interchange import Bert

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
  complete(bert, target)
  # What has a head that is not known here can be made smaller all the same.
  head = "encoder"
  if not FLAGS.strip_optimizer:
    head = interchange.head_of(bert, FLAGS.head)
  before = run(bert, head)
  if target == ORIGINAL:
    back = original.read(original.write(bert, FLAGS.output))
    logging.info("wrote %s", back.origin)
  else:
    hugging_face_export.write(bert, FLAGS.output, head)
    back = hugging_face.read(FLAGS.output)
    logging.info("wrote a %s", interchange.HEADS[head].architecture)
  interchange.summarize(bert)
  self_check.check_same(bert, back)
  after = run(back, head)
  if before:
    far = max(np.max(np.abs(after[name] - before[name])) for name in before)
    logging.info("before and after on the same batch: %.1e apart at most", far)


def recognize() -> tuple[Bert, str]:
  """Reads --input as what its files are; also says what that is."""
  for kind, reader in (("KerasHub", keras_hub), (HUGGING_FACE, hugging_face)):
    if reader.recognizes(FLAGS.input):
      return reader.read(FLAGS.input), kind
  prefix = original.find(FLAGS.input)
  if model_garden.recognizes(prefix):
    return model_garden.read(prefix, FLAGS.bert_config_file), "Model Garden"
  averaged = FLAGS.use_moving_averages
  return original.read(prefix, FLAGS.bert_config_file, averaged), ORIGINAL


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


def complete(bert: Bert, target: str) -> None:
  """Checks what stands beside the weights, and adds what flags say."""
  if bert.config is not None:
    bert.config = BertConfig.from_dict(bert.config).to_dict()
  elif target == HUGGING_FACE:
    raise ValueError(
      f"there is no bert_config.json beside {bert.origin}: "
      "--bert_config_file names it"
    )
  if target == HUGGING_FACE:
    check_network(bert)
  bert.vocabulary = FLAGS.vocab_file or bert.vocabulary
  check_vocabulary(bert, target)
  if FLAGS.do_lower_case is not None:
    bert.lower_case = FLAGS.do_lower_case
  lower_case = bert.lower_case is not False
  if target == HUGGING_FACE:
    validate_case_matches_checkpoint(lower_case, bert.origin, "input")
  elif not lower_case:
    logging.info("its vocabulary is cased: programs need --do_lower_case=False")


def check_network(bert: Bert) -> None:
  """Raises ValueError if transformers has no such network."""
  trained = run_record.flag_of(FLAGS.input, "attention")
  attention = trained or BertConfig.from_dict(bert.config).attention
  has_lstm = any(name.startswith("bert/bilstm/") for name in bert.values)
  if attention != "both" or has_lstm:
    raise ValueError(
      f"{FLAGS.input} is a model with "
      f"{'--add_bilstm' if has_lstm else f'--attention={attention}'}, which "
      "transformers' BERT is not"
    )


def check_vocabulary(bert: Bert, target: str) -> None:
  """Raises ValueError if a model cannot have that vocabulary."""
  if not bert.vocabulary or not bert.config:
    return
  ids = vocab.load(bert.vocabulary)
  number, size = 1 + max(ids.values()), bert.config["vocab_size"]
  if number > size:
    raise ValueError(
      f"{bert.vocabulary} has {number} lines but vocab_size of {bert.origin} "
      f"is {size}: it is another model's; --vocab_file names the right one"
    )
  if target == HUGGING_FACE:  # its tokenizer would add what is missing
    vocab.require(ids, name=bert.vocabulary)
  if number < size:
    logging.warning(
      "%s has %d lines, vocab_size is %d", bert.vocabulary, number, size
    )


def run(bert: Bert, head: str) -> dict[str, np.ndarray]:
  """Outputs of the model on a fixed batch; none if its sizes are not known."""
  if bert.config is None:
    logging.warning("%s has no bert_config.json: it is not run", bert.origin)
    return {}
  return self_check.outputs(build(bert, head), bert, head)


def build(bert: Bert, head: str) -> keras.Model:
  """The network that the variables are of."""
  config = BertConfig.from_dict(bert.config)
  make = {
    "encoder": models.encoder,
    "pretraining": models.pretrainer,
    "masked_lm": partial(models.pretrainer, next_sentence=False),
    "question_answering": models.span_labeler,
    "multiple_choice": models.multiple_choice,
    "classification": lambda c: models.classifier(c, bert.num_labels),
    "tagging": lambda c: models.tagger(c, bert.num_labels),
  }
  return make[head](config)


if __name__ == "__main__":
  program.run(main)
