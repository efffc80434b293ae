"""Converts a Hugging Face BERT folder to an original checkpoint.

  python convert_checkpoint.py --input=hugging_face_folder --output=bert_folder

The result has the names of a released model: bert_config.json, vocab.txt,
bert_model.ckpt.index and bert_model.ckpt.data-00000-of-00001.
"""

import os
import shutil

import numpy as np
from absl import flags, logging

from data import files
from modeling import models
from modeling.config import BertConfig
from training import checkpoint, hugging_face, program

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input", None, "Folder with config.json and model.safetensors.", required=True
)
flags.DEFINE_string("output", None, "Folder to write.", required=True)
flags.DEFINE_bool("overwrite", False, "Replace what is there.")


def main(_):
  prefix = os.path.join(FLAGS.output, "bert_model.ckpt")
  if not FLAGS.overwrite:
    files.refuse_to_overwrite(f"{prefix}.index")
  config = BertConfig.from_dict(hugging_face.read_config(FLAGS.input))
  values, left = hugging_face.read_weights(FLAGS.input)
  check(config, values)
  checkpoint.write(prefix, values)
  config.to_json(os.path.join(FLAGS.output, "bert_config.json"))
  vocabulary = os.path.join(FLAGS.input, "vocab.txt")
  if os.path.exists(vocabulary):
    shutil.copyfile(vocabulary, os.path.join(FLAGS.output, "vocab.txt"))
  else:
    logging.warning("there is no vocab.txt in %s", FLAGS.input)
  logging.info("wrote %d variables to %s", len(values), prefix)
  if left:
    logging.info("left out, as copies or constants: %s", ", ".join(left))
  compare(prefix, values)


def check(config: BertConfig, values: dict[str, np.ndarray]) -> None:
  """Raises ValueError unless the encoder is complete and of the right shape."""
  for variable in models.encoder(config).variables:
    found = values.get(variable.path)
    if found is None:
      raise ValueError(
        f"{FLAGS.input}: no tensor gives {variable.path}; it has "
        f"{', '.join(sorted(values)[:3])}, ..."
      )
    if found.shape != tuple(variable.shape):
      raise ValueError(
        f"{FLAGS.input}: {variable.path} has shape {found.shape}, config.json "
        f"says {tuple(variable.shape)}"
      )


def compare(prefix: str, values: dict[str, np.ndarray]) -> None:
  """Reads the result back; it must be what was written, bit for bit."""
  reader = checkpoint.read(prefix)
  wrong = [k for k, v in values.items() if not np.array_equal(reader[k], v)]
  if wrong:
    raise ValueError(f"{prefix} was not written faithfully: {wrong[0]}")
  logging.info("read back: all %d are the same, bit for bit", len(values))


if __name__ == "__main__":
  program.run(main)
