"""Settings of create_pretraining_data.py, in groups that programs share."""

import shlex
from dataclasses import dataclass

from cli.settings import Settings, common, device, flag, original, required
from data.features import Masking
from data.pretraining.instances import InstanceConfig
from modeling.config import SIDES
from runs.settings import Masks, Vocabulary
from storage import UserError


@dataclass(frozen=True, kw_only=True)
class Corpus(Settings):
  """Flags of text files, and of Beam's runner, which may read them."""

  input_file: str = required("Text files or globs, comma-separated.")
  input_format: str = common(
    "lines",
    "lines: one sentence per line, a blank line between documents. paragraphs: "
    "prose, a blank line between documents. documents: prose, one document per "
    "file, or per line with --text_field.",
    choices=("lines", "paragraphs", "documents"),
  )
  text_field: str | None = flag(
    None,
    "Field of JSON lines that has the text. Default: files are plain text.",
  )
  runner: str | None = device(
    None,
    "Runner of Apache Beam (requirements-beam.txt): DirectRunner, FlinkRunner, "
    "SparkRunner, DataflowRunner, ... Default: run without Beam.",
  )
  pipeline_options: str = device("", "Flags of --runner, as one text.")

  def runner_options(self) -> list[str]:
    return [f"--runner={self.runner}", *shlex.split(self.pipeline_options)]


@dataclass(frozen=True, kw_only=True)
class RecordSettings(Corpus, Vocabulary, Masks):
  """Flags of create_pretraining_data.py."""

  output_file: str | None = common(
    None,
    "TFRecord files, comma-separated; one NAME of NAME-00000-of-00032 ... with "
    "--runner; none for --preview.",
  )
  overwrite: bool = common(False, "Replace existing output files.")
  max_seq_length: int = common(
    128, "Maximum tokens of a record, three of them special.", minimum=5
  )
  random_seed: int = original(12345, "Seed of all random choices.")
  dupe_factor: int = original(
    10,
    "How many times to go through the text, with other masks each time. With "
    "--masking=dynamic the default is 1.",
    dependent=True,
    minimum=1,
  )
  short_seq_prob: float = original(
    0.1, "Fraction of documents cut to short records.", minimum=0, maximum=1
  )
  masking: str = flag(
    "static",
    "static: mask now. dynamic: store pairs once, unmasked, for "
    "run_pretraining to mask anew in every epoch.",
    choices=("static", "dynamic"),
  )
  preview: int = flag(
    0, "Print so many instances, and counts of all; write nothing.", minimum=0
  )
  preview_objective: str = flag(
    "mlm",
    "Print the targets of run_pretraining.py with this --objective.",
    choices=("mlm", *SIDES),
  )
  num_workers: int = device(
    0,
    "0: one process that holds the text in memory; records are the original's. "
    "1 or more: worker processes, for any amount of text; records differ from "
    "the original's and do not depend on the number of workers.",
    minimum=0,
  )
  deduplicate: bool = flag(False, "Drop copies of earlier documents.")

  def instance_config(self) -> InstanceConfig:
    """Makes the InstanceConfig; ValueError if flags contradict each other."""
    words: Masking | None = self.masks()
    dupe_factor = self.dupe_factor
    if self.masking == "dynamic":
      if words != Masking(self.max_predictions_per_seq):
        raise UserError(
          "--masked_lm_prob, --mask_token_prob, --random_token_prob and "
          "--do_whole_word_mask are for words masked now: with "
          "--masking=dynamic give them to run_pretraining.py"
        )
      words = None
      if "dupe_factor" not in self.given:
        dupe_factor = 1
    length, short = self.max_seq_length, self.short_seq_prob
    return InstanceConfig(length, words, short, dupe_factor)
