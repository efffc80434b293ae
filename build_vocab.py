r"""Learns a WordPiece vocabulary, vocab.txt, from text.

FullTokenizer finds the words. The vocabulary can split the words of the text
into pieces, except words with a character that --max_alphabet leaves out.

  python build_vocab.py --input_file='corpus/*.txt' --output_file=vocab.txt

--preset=tiny also writes bert_config.json for a model to train on this text.

--extend instead adds words of a new domain to a trained model:

  python build_vocab.py --input_file='medical/*.txt' --extend=$BERT/vocab.txt \
    --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --output_file=medical_bert/vocab.txt
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

import os
from collections import Counter

from absl import logging

from cli import program
from cli.settings import check_is_new, check_output_file, flags_of
from data import vocab, vocab_checks
from data.pretraining import documents, vocab_learning
from modeling.config import BertConfig
from storage import Progress, UserError, files
from tasks.pretraining.vocabulary_settings import Extension, VocabularySettings


def config_path(settings: VocabularySettings) -> str:
  return os.path.join(os.path.dirname(settings.output_file), "bert_config.json")


def check_flags(settings: VocabularySettings) -> None:
  paths = files.expand(settings.input_file)
  may_exist = settings.overwrite or bool(settings.extend)  # checked below
  check_output_file(settings.output_file, may_exist, *paths)
  if settings.extend:
    return settings.check_extension()
  for name in settings.given.intersection(flags_of(Extension)):
    raise UserError(f"--{name} needs --extend, the vocabulary to extend")
  if settings.preset and not settings.overwrite:
    check_is_new(config_path(settings))
  special, unused = settings.special_tokens, settings.unused_tokens
  vocab_learning.reserved_tokens(special, unused)


def main(settings: VocabularySettings) -> None:
  counts = count_words(settings)
  if settings.extend:
    return write_model(settings, counts)
  special, unused = settings.special_tokens, settings.unused_tokens
  reserved = vocab_learning.reserved_tokens(special, unused)
  logging.info(f"{counts.total():,} words, {len(counts):,} distinct")
  alphabet = vocab_learning.alphabet(counts, settings.max_alphabet)
  size, min_count = settings.vocab_size, settings.min_count
  tokens = vocab_learning.learn(counts, reserved, alphabet, size, min_count)
  if len(tokens) < size:
    logging.warning(
      f"the text yields only {len(tokens)} tokens of --vocab_size={size}: "
      f"bert_config.json needs vocab_size {len(tokens)} (--preset writes it); "
      "for more tokens, give more text or a smaller --min_count"
    )
  vocab.save(tokens, settings.output_file)
  logging.info("wrote %d tokens to %s", len(tokens), settings.output_file)
  if settings.preset:
    config = BertConfig.preset(settings.preset, len(tokens), from_scratch=True)
    config.to_json(config_path(settings))
    logging.info("wrote %s", config_path(settings))


def count_words(settings: VocabularySettings) -> Counter:
  """Counts the words of --input_file; ValueError if there are none."""
  names = [settings.input_file]
  if settings.sampling_exponent != 1:
    names = list(filter(str.strip, settings.input_file.split(",")))
  sources = {}
  text = documents.TextFormat(settings.input_format, settings.text_field)
  is_lower, limit = settings.do_lower_case, settings.max_words
  for name in names:
    paths = files.expand(name)
    counter = vocab_learning.WordCounter(is_lower, limit)
    sample = vocab_checks.sample(paths, text.lines)
    if sample and (doubt := documents.doubt_format(sample[0])):
      logging.warning("%s: %s", name, doubt)
    if is_lower:
      vocab_checks.warn_of_scripts(sample, settings.input_file)
    if settings.runner:
      from data.pretraining import beam  # optional dependency

      options = settings.runner_options()
      beam.count_words(paths, text, counter, settings.output_file, options)
    else:
      size = sum(map(documents.text_size, paths))
      progress = Progress("read", size / 1e6, "MB")
      for path in paths:
        for line in text.lines(path):
          counter.add(line)
          progress.add((len(line.encode()) + 1) / 1e6)
    sources[name] = counter.counts()
    if not sources[name]:
      raise UserError(f"no words in {', '.join(paths)}: give other files")
  return vocab_learning.smooth(sources, settings.sampling_exponent)


def write_model(settings: VocabularySettings, counts: Counter) -> None:
  model, name = settings.needed("extend"), settings.input_file
  limits = settings.new_words, settings.min_count
  lines, pieces = vocab_learning.extend(model, counts, name, *limits)
  # Import TensorFlow late: counting words does not need it.
  from conversion import original
  from serving.export import new_folder

  path = settings.needed("init_checkpoint")
  bert = original.read(path, settings.bert_config_file)
  original.complete(bert, settings.extend)
  bert.set_words(pieces)
  with new_folder(os.path.dirname(settings.output_file)) as folder:
    bert.vocabulary = os.path.join(folder, "vocab.txt")
    files.write_text(bert.vocabulary, "".join(f"{line}\n" for line in lines))
    original.write(bert, folder)


if __name__ == "__main__":
  program.run(VocabularySettings, check_flags, main, writes_files=True)
