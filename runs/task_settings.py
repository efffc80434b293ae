"""Groups of flags for fine-tuning and long texts."""

import os
import re
from dataclasses import dataclass
from functools import partial
from itertools import product

from cli.settings import Settings, common, device, flag, original
from modeling.config import BertConfig
from runs.settings import Evaluation, Training, Vocabulary, amount, batch_size
from storage import UserError

_SWEEP = (
  "Several, with commas between them, make a sweep: each combination has a "
  "folder in --output_dir; the best checkpoint is copied to the folder best."
)
_NUMBER = {"minimum": 1, "training": False}
workers = partial(device, 1, "Number of processes that tokenize.", **_NUMBER)


@dataclass(frozen=True, kw_only=True)
class FineTuning(Vocabulary, Training):
  """Flags of fine-tuning, once or in a sweep."""

  learning_rate: float = common(
    5e-5, f"Peak learning rate. {_SWEEP}", minimum=0.0, swept=True
  )
  train_batch_size: int = common(
    32, f"Batch size for training. {_SWEEP}", minimum=1, swept=True
  )
  num_train_epochs: float = common(
    3.0, f"Number of training epochs. {_SWEEP}", minimum=0.0, swept=True
  )
  do_predict: bool = common(
    False, "Predict the test set or --predict_file.", stage=3
  )
  predict_batch_size: int = batch_size("Batch size for prediction.")
  warmup_proportion: float = original(
    0.1, "Fraction of steps for warm-up.", minimum=0.0, maximum=1.0
  )
  new_head: bool = flag(
    False,
    "Train a fresh head instead of the one in --init_checkpoint. A head with "
    "other labels is never restored.",
  )
  add_bilstm: bool = flag(False, "Add a BiLSTM on top of BERT.")
  num_seeds: int = amount(
    1, "Number of seeds to train with. The first is --seed, or 1."
  )
  keep_best: bool = flag(
    False,
    "Save the best evaluated checkpoint in output_dir/best, and use it later.",
    training=False,
  )
  early_stopping_patience: int = amount(
    0,
    "End after N evaluations without improvement; 0: never. Sets --keep_best.",
  )
  ensemble: int = amount(
    1, "Evaluate, predict and export with so many best models of a sweep."
  )
  teacher: str | None = flag(
    None,
    "Learn also from the outputs of this model, the --output_dir of a training "
    "with the same vocabulary and labels.",
  )
  distill_weight: float = flag(
    0.5, "Weight of --teacher; 1: ignore labels.", minimum=0.0, maximum=1.0
  )
  distill_temperature: float = flag(
    2.0, "Divisor of the logits of model and teacher.", minimum=0.01
  )
  freeze_layers: str = flag(
    "",
    "Layers not to train, as in embeddings,0-5 or embeddings,encoder,pooler.",
  )

  do_eval = False  # only EvaluatedFineTuning has the flag

  @property
  def is_sweep(self) -> bool:
    """True if flags name several settings or seeds to train with."""
    return self.do_train and (bool(self.several) or self.num_seeds > 1)

  @property
  def keeps_best(self) -> bool:
    """True if the best evaluated checkpoint is saved and used later."""
    return self.keep_best or self.early_stopping_patience > 0

  def threshold_file(self, name: str) -> str:
    """Path of thresholds that a run saves; each ensemble size has one."""
    if self.ensemble > 1:
      stem, end = os.path.splitext(name)
      name = f"{stem}_ensemble_{self.ensemble}{end}"
    return os.path.join(self.output_dir, name)

  @property
  def evaluates_while_training(self) -> bool:
    """True if the run, or a trial of its sweep, evaluates while it trains."""
    keeps_best = self.is_sweep or self.keeps_best
    return self.do_train and (bool(self.eval_steps) or keeps_best)

  @property
  def reads_dev(self) -> bool:
    return self.do_eval or self.evaluates_while_training

  @property
  def splits_to_read(self) -> list[str]:
    """Splits that a run reads, in the order train, dev, test."""
    is_read = {"train": self.do_train, "dev": self.reads_dev}
    is_read["test"] = self.do_predict
    return [split for split in is_read if is_read[split]]

  def named_trials(self) -> dict[str, dict]:
    """Trials of a sweep by name: values of the swept flags, and the seed."""
    swept = [k for k, known in self.flags.items() if known.swept]
    values = [self.several.get(name, (self[name],)) for name in swept]
    first = 1 if self.seed is None else self.seed
    shorts = {"train_batch_size": "batch", "num_train_epochs": "epochs"}
    result = {}
    for row in product(*values):
      trial = dict(zip(swept, row, strict=True))
      name = f"rate_{trial['learning_rate']:.12g}"
      for key, short in shorts.items():
        if key in self.several:
          name += f"_{short}_{trial[key]:.12g}"
      for seed in range(first, first + self.num_seeds):
        result[f"{name}_seed_{seed}"] = trial | {"seed": seed}
    return result

  def frozen_layers(self, config: BertConfig) -> set[tuple]:
    """Layers that --freeze_layers names by number, range ("0-5") or part.

    Returns ("encoder", 3) for layer 3, ("pooler", None) for a part. Raises
    ValueError for an unknown name.
    """
    parts = {"embeddings", "encoder", "pooler"}
    if config.add_bilstm:
      parts.add("bilstm")
    result: set[tuple] = set()
    for name in filter(None, self.freeze_layers.replace(" ", "").split(",")):
      first, _, last = name.partition("-")
      is_span = re.fullmatch(r"\d+(-\d+)?", name)
      span = range(int(first), int(last or first) + 1) if is_span else ()
      if name in parts:
        result.add((name, None))
      elif span and span[-1] < config.num_hidden_layers:
        result |= {("encoder", number) for number in span}
      else:
        raise UserError(
          f"--freeze_layers: the model has no {name!r}; it has the layers 0-"
          f"{config.num_hidden_layers - 1} and {', '.join(sorted(parts))}"
        )
    return result


@dataclass(frozen=True, kw_only=True)
class EvaluatedFineTuning(FineTuning, Evaluation):
  """Flags of fine-tuning, for a program with --do_eval."""


@dataclass(frozen=True, kw_only=True)
class Tables(Settings):
  """Flags of the format of tables."""

  delimiter: str | None = flag(
    None,
    "Separator of columns (not of GLUE), as in tab or ';'. Default: as the "
    "header shows.",
    training=False,
  )
  encoding: str = flag(
    "utf-8",
    "Encoding of tables (not of GLUE) without a byte order mark, such as "
    "cp1252.",
    training=False,
  )


@dataclass(frozen=True, kw_only=True)
class LongText(Settings):
  """Flags for texts that are longer than --max_seq_length."""

  max_seq_length: int = common(
    128, "Maximum tokens of a text, a pair of texts, or a window.", minimum=3
  )
  long_text: str = flag(
    "truncate",
    "Cut off texts beyond --max_seq_length, or read them in windows.",
    choices=("truncate", "windows"),
  )
  max_text_length: int = flag(
    4096, "windows: tokens after which texts are cut off.", minimum=3
  )
  window_stride: int = flag(
    0, "windows: tokens between starts; 0: half a window.", minimum=0
  )
  window_pooling: str = flag(
    "mean", "windows: pooling of vectors.", choices=("mean", "max")
  )

  @property
  def row_length_flag(self) -> str:
    windows = self.long_text == "windows"
    return "max_text_length" if windows else "max_seq_length"

  @property
  def row_length(self) -> int:
    """Maximum number of tokens of a text, in all of its windows together."""
    return self[self.row_length_flag]

  @property
  def stride(self) -> int:
    """Tokens between starts of windows: --window_stride, or half a window."""
    return self.window_stride or max((self.max_seq_length - 2) // 2, 1)
