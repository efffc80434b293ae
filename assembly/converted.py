"""A converted model as a whole: what belongs to its weights, and the network.

Stands between training.conversion, which knows files and names, and modeling.
"""

from functools import partial

import keras
import numpy as np
from absl import flags, logging

from data import vocab
from data.tokenization import validate_case_matches_checkpoint
from modeling import models
from modeling.config import EXTENSIONS, BertConfig
from training import run_record
from training.conversion import self_check
from training.conversion.interchange import Bert


def complete(
  bert: Bert, FLAGS: flags.FlagValues, for_transformers: bool
) -> None:
  """Checks what stands beside the weights, and adds what flags say.

  Args:
    bert: what was read of --input.
    FLAGS: those of convert_checkpoint.py.
    for_transformers: whether a Hugging Face folder is to be written.

  Raises:
    ValueError: something is missing, or does not belong to this model.
  """
  if bert.config is not None:
    trained = {x: run_record.flag_of(FLAGS.input, x) for x in EXTENSIONS}
    known = {name: value for name, value in trained.items() if value}
    bert.config = BertConfig.from_dict(bert.config | known).to_dict()
  elif for_transformers:
    raise ValueError(
      f"there is no bert_config.json beside {bert.origin}: "
      "--bert_config_file names it"
    )
  if for_transformers:
    _check_network(bert, FLAGS.input)
  bert.vocabulary = FLAGS.vocab_file or bert.vocabulary
  _check_vocabulary(bert, for_transformers)
  if FLAGS.do_lower_case is not None:
    bert.lower_case = FLAGS.do_lower_case
  lower_case = bert.lower_case is not False
  if for_transformers:
    validate_case_matches_checkpoint(lower_case, bert.origin, "input")
  elif not lower_case:
    logging.info("its vocabulary is cased: programs need --do_lower_case=False")


def _check_network(bert, path):
  """Raises ValueError if transformers has no such network."""
  attention = BertConfig.from_dict(bert.config).attention
  has_lstm = any(name.startswith("bert/bilstm/") for name in bert.values)
  if attention != "both" or has_lstm:
    raise ValueError(
      f"{path} is a model with "
      f"{'--add_bilstm' if has_lstm else f'--attention={attention}'}, which "
      "transformers' BERT is not"
    )


def _check_vocabulary(bert, for_transformers):
  """Raises ValueError if a model cannot have that vocabulary."""
  if not bert.vocabulary or not bert.config:
    return
  ids = vocab.load(bert.vocabulary)
  number, size = 1 + max(ids.values()), bert.config["vocab_size"]
  vocab.require_room(ids, size, bert.vocabulary, f"the config of {bert.origin}")
  if for_transformers:  # its tokenizer would add what is missing
    vocab.require(ids, name=bert.vocabulary)
  if number < size:
    logging.warning(
      "%s has %d lines, vocab_size is %d", bert.vocabulary, number, size
    )


def outputs(bert: Bert, head: str) -> dict[str, np.ndarray]:
  """Outputs of the model on a fixed batch; none if its sizes are not known."""
  if bert.config is None:
    logging.warning("%s has no bert_config.json: it is not run", bert.origin)
    return {}
  return self_check.outputs(_build(bert, head), bert, head)


def _build(bert, head) -> keras.Model:
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
