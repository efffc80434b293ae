"""The encoder's configuration by flags. Needs no TensorFlow."""

from dataclasses import replace

from cli.arguments import Arguments
from data import vocab
from data.tokenization import validate_case_matches_checkpoint
from modeling.config import EXTENSIONS, SIDES, BertConfig
from training import run_entries


def from_flags(args: Arguments) -> BertConfig:
  """Reads --bert_config_file and applies the flags that override it.

  Raises:
    ValueError: --init_checkpoint was trained with another --attention, which
      the flags do not name, or has its two directions in the wrong order; or
      --vocab_file is no vocabulary, or larger than vocab_size.
  """
  changes = {
    name: getattr(args, name)
    for name in EXTENSIONS
    if getattr(args, name, None)  # not all programs have them all
  }
  config = replace(BertConfig.from_json(args.bert_config_file), **changes)
  _check_attention(config, args.init_checkpoint or "", "attention" in changes)
  if args.vocab_file:
    tokens = vocab.load(args.vocab_file)
    vocab.check_tokens(tokens, (vocab.CLS, vocab.SEP), args.vocab_file)
    vocab.check_size(
      tokens, config.vocab_size, args.vocab_file, args.bert_config_file
    )
  return config


def _check_attention(config, init_checkpoint, is_explicit):
  paths, expected = [init_checkpoint], [config.attention]
  if config.attention == "shallow" and "," in init_checkpoint:
    paths, expected, is_explicit = init_checkpoint.split(","), SIDES, False
  for path, attention in zip(paths, expected, strict=False):
    trained = run_entries.flag_of(path, "attention") if path else None
    if trained not in (None, attention) and not is_explicit:
      raise ValueError(
        f"{path} was trained with --attention={trained}, the network here has "
        f"{attention}: give --attention={trained}, or --attention={attention} "
        "if the change is intended"
      )


def for_texts(args: Arguments) -> BertConfig:
  """Configuration of an encoder for texts of --max_seq_length.

  Raises:
    ValueError: --max_seq_length or --do_lower_case does not fit the model; see
      `from_flags`.
  """
  validate_case_matches_checkpoint(args.do_lower_case, args.init_checkpoint)
  config = from_flags(args)
  config.check_length(args.max_seq_length)
  return config
