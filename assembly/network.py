"""The network that a program's flags describe, and what must fit it."""

from dataclasses import replace

from absl import flags

from data import vocab
from data.tokenization import validate_case_matches_checkpoint
from modeling.config import EXTENSIONS, BertConfig
from modeling.shallow import SIDES
from training import run_record


def from_flags(FLAGS: flags.FlagValues) -> BertConfig:
  """That of --bert_config_file, as other flags change it.

  --attention is then what the network has.

  Raises:
    ValueError: --init_checkpoint was trained to look elsewhere, and nobody says
      that this is meant; or its two are in the wrong order; or --vocab_file is
      no vocabulary, or that of a larger model.
  """
  changes = {
    name: getattr(FLAGS, name)
    for name in EXTENSIONS
    if getattr(FLAGS, name, None)  # not all programs have both
  }
  config = replace(BertConfig.from_json(FLAGS.bert_config_file), **changes)
  is_meant = "attention" in changes
  _check_attention(config, FLAGS.init_checkpoint or "", is_meant)
  FLAGS.attention = config.attention
  if FLAGS.vocab_file:
    words = vocab.load(FLAGS.vocab_file)
    vocab.require(words, (vocab.CLS, vocab.SEP), FLAGS.vocab_file)
    vocab.require_room(
      words, config.vocab_size, FLAGS.vocab_file, FLAGS.bert_config_file
    )
  return config


def _check_attention(config, init_checkpoint, is_meant):
  paths, wanted = [init_checkpoint], [config.attention]
  if config.attention == "shallow" and "," in init_checkpoint:
    paths, wanted, is_meant = init_checkpoint.split(","), SIDES, False
  for path, attention in zip(paths, wanted, strict=False):
    before = run_record.flag_of(path, "attention") if path else None
    if before not in (None, attention) and not is_meant:
      raise ValueError(
        f"{path} was trained with --attention={before}, the network here has "
        f"{attention}: give --attention={before}, or say that this is meant "
        f"with --attention={attention}"
      )


def for_texts(FLAGS: flags.FlagValues) -> BertConfig:
  """The network, for texts of --max_seq_length.

  Raises:
    ValueError: --max_seq_length or --do_lower_case does not fit the model; see
      `from_flags`.
  """
  config = from_flags(FLAGS)
  config.check_length(FLAGS.max_seq_length)
  validate_case_matches_checkpoint(FLAGS.do_lower_case, FLAGS.init_checkpoint)
  return config
