"""Settings of build_vocab.py."""

import os
from dataclasses import dataclass

from cli.settings import Settings, common, flag, required
from data import vocab
from modeling.config import PRESETS
from runs import model_files
from runs.settings import Sampling, TrainedModel
from storage import UserError, files
from tasks.pretraining.corpus_settings import Corpus
from training import checkpoint_files


@dataclass(frozen=True, kw_only=True)
class Extension(Settings):
  """Flags that only --extend needs."""

  bert_config_file: str | None = common(None, "File of the model to extend.")
  init_checkpoint: str | None = common(None, "Weights of the model to extend.")
  new_words: int = flag(
    0, "Words to add; 0: as many as [unused] tokens.", minimum=0
  )
  append_words: bool = flag(False, "Append words beyond the [unused] tokens.")


@dataclass(frozen=True, kw_only=True)
class VocabularySettings(Corpus, Sampling, Extension):
  """Flags of build_vocab.py."""

  output_file: str = required("Vocabulary to write.")
  vocab_size: int = common(
    30522, "Maximum number of tokens.", minimum=1, maximum=1_000_000
  )
  do_lower_case: bool = common(True, "Lower-case; False for cased models.")
  special_tokens: tuple[str, ...] = flag(
    vocab.SPECIAL_TOKENS, "First tokens, [PAD] first."
  )
  unused_tokens: int = flag(0, "Number of [unusedN] tokens.", minimum=0)
  min_count: int = flag(
    2, "Minimum occurrences of a token that is no character.", minimum=1
  )
  max_alphabet: int = flag(
    1000,
    "Maximum of different characters; words with rarer ones become [UNK]. "
    "Chinese and Japanese need about 8000.",
    minimum=1,
  )
  max_words: int = flag(
    5_000_000, "Maximum of distinct words in memory; rarer ones go.", minimum=1
  )
  preset: str | None = flag(
    None,
    "Also write bert_config.json beside --output_file: a model of this size, "
    "with initial values for short training (docs/pretraining.md).",
    choices=tuple(PRESETS),
  )
  extend: str | None = flag(
    None,
    "Vocabulary of a model, to which the text's words are added. The folder of "
    "--output_file, new or empty, also gets configuration and checkpoint.",
  )
  overwrite: bool = common(
    False, "Replace --output_file, and the bert_config.json of --preset."
  )

  def check_extension(self) -> None:
    """Checks flags and files for --extend; raises OSError or ValueError."""
    names = {"preset", "vocab_size", "max_alphabet"}
    names |= {"special_tokens", "unused_tokens"}
    for name in self.given & names:
      raise UserError(f"--{name} is not for --extend: leave it out")
    self.check_files("extend", "bert_config_file")
    folder, name = os.path.split(self.output_file)
    if name != "vocab.txt" or not folder:
      raise UserError(
        f"--output_file={self.output_file}: with --extend name "
        "FOLDER/vocab.txt, as a checkpoint is written beside it"
      )
    files.check_is_free(folder, "output_file")
    start = self.needed("init_checkpoint")
    model = TrainedModel(
      bert_config_file=self.needed("bert_config_file"),
      vocab_file=self.needed("extend"),
      do_lower_case=self.do_lower_case,
      init_checkpoint=start,
      attention=checkpoint_files.run_of(start)["flags"].get("attention"),
    )
    model_files.check(model, model_files.config(model))
    model.tokenizer.check()
    unused = len(vocab.unused_ids(model.tokenizer.vocab))
    appends = self.append_words and self.new_words > 0
    if max(self.new_words, 1) > unused and not appends:
      raise UserError(
        f"{self.extend} has {unused} [unused] tokens to replace: to append "
        "tokens, give --append_words and their number as --new_words"
      )
