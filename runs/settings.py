"""Groups of flags that several programs share, with the original's names."""

import re
import shlex
from dataclasses import dataclass
from itertools import product

from cli.settings import (
  COMMON,
  DEVICES,
  ORIGINAL,
  Settings,
  flag,
  flags_of,
)
from modeling.config import ATTENTION, BertConfig
from storage import UserError

DRY_RUN_STEPS = 2
_DRY_RUN_EXAMPLES = 64  # of each file, in fine-tuning
_STAGES = ("do_train", "do_eval", "do_predict", "do_export")


@dataclass(frozen=True, kw_only=True)
class Network(Settings):
  """The encoder."""

  bert_config_file: str = flag(
    None, "bert_config.json of the model.", required=True, group=COMMON
  )
  attention: str | None = flag(
    None,
    "Direction (section 5.1 of the paper); shallow concatenates networks of "
    "both. Default: as in bert_config.json, else bidirectional.",
    choices=tuple(ATTENTION),
    training=False,  # bert_config.json may have set it
  )


@dataclass(frozen=True, kw_only=True)
class Tokens(Settings):
  """The vocabulary, which programs that read records may lack."""

  vocab_file: str | None = flag(
    None, "Vocabulary of the model, vocab.txt.", group=COMMON
  )
  do_lower_case: bool = flag(
    True, "Lower-case; not for cased models.", group=COMMON
  )


@dataclass(frozen=True, kw_only=True)
class Vocabulary(Tokens):
  """The vocabulary of a program that reads texts."""

  vocab_file: str = flag(
    None, "Vocabulary of the model, vocab.txt.", required=True, group=COMMON
  )


@dataclass(frozen=True, kw_only=True)
class TrainedModel(Network, Vocabulary):
  """A model that is not trained here, and its tokenizer."""

  init_checkpoint: str = flag(
    None, "Checkpoint, or folder with one.", required=True, group=COMMON
  )


@dataclass(frozen=True, kw_only=True)
class Devices(Settings):
  """Devices, and the type of activations."""

  distribution_strategy: str | None = flag(
    None,
    "Default: mirrored if there are several GPUs, else one device.",
    choices=("one_device", "mirrored", "multi_worker_mirrored", "tpu"),
    group=DEVICES,
  )
  num_cpu_devices: int = flag(
    1, "CPU devices to test mirrored.", minimum=1, group=DEVICES
  )
  dtype: str = flag(
    "float32",
    "Type of activations; variables are float32. float16 scales the loss.",
    choices=("float32", "bfloat16", "float16"),
    group=DEVICES,
  )
  jit_compile: bool | None = flag(
    None,
    "Compile the training step with XLA. Default: on a GPU without "
    "--group_by_length. A TPU always compiles.",
    group=DEVICES,
  )
  use_tpu: bool = flag(False, "Train on a TPU.", group=DEVICES)
  tpu_name: str | None = flag(
    None, "Name or address of the TPU.", group=DEVICES, training=False
  )
  tpu_zone: str | None = flag(
    None, "Zone of the TPU in Google Cloud.", group=DEVICES, training=False
  )
  gcp_project: str | None = flag(
    None, "Google Cloud project of the TPU.", group=DEVICES, training=False
  )
  master: str | None = flag(
    None,
    "Address of the TPU, without --tpu_name.",
    group=DEVICES,
    training=False,
  )
  num_tpu_cores: int = flag(
    8, "Accepted; has no effect.", group=DEVICES, training=False
  )

  @property
  def on_tpu(self) -> bool:
    return self.use_tpu or self.distribution_strategy == "tpu"


@dataclass(frozen=True, kw_only=True)
class Export(Settings):
  """What a program exports."""

  do_export: bool = flag(
    False, "Export the model for inference.", group=COMMON, training=False
  )
  export_dir: str | None = flag(
    None, "Folder of the export; new or empty.", group=COMMON, training=False
  )
  export_format: tuple[str, ...] = flag(
    ("savedmodel",),
    "savedmodel, tflite (fastest on a CPU), keras, or several of them into "
    "one folder, as in savedmodel,tflite.",
    training=False,
  )


@dataclass(frozen=True, kw_only=True)
class ServedEncoder(TrainedModel, Export, Devices):
  """An encoder that is not trained here, and its exports."""


@dataclass(frozen=True, kw_only=True)
class Training(Network, Tokens, Devices, Export):
  """A model, its folder, and how it is trained."""

  output_dir: str = flag(
    None,
    "Folder of checkpoints and results.",
    required=True,
    group=COMMON,
    training=False,
  )
  init_checkpoint: str | None = flag(
    None,
    "Checkpoint to start from; two, comma-separated, for --attention=shallow.",
    group=COMMON,
  )
  do_train: bool = flag(False, "Train the model.", group=COMMON, training=False)
  max_seq_length: int = flag(128, "Maximum number of tokens.", group=COMMON)
  train_batch_size: int = flag(
    32, "Batch size for training.", minimum=1, group=COMMON
  )
  learning_rate: float = flag(
    5e-5, "Peak learning rate.", minimum=0.0, group=COMMON
  )
  optimizer: str = flag(
    "adamw", "LAMB is for large batches.", choices=("adamw", "lamb")
  )
  adam_beta_2: float = flag(
    0.999,
    "Decay of Adam's mean squares. 0.98 suits short runs: there is no bias "
    "correction, and with 0.999 a thousand steps are larger than their rate.",
    minimum=0.0,
    maximum=0.99999,
  )
  max_grad_norm: float = flag(
    1.0, "Clip gradients to this global norm; 0: do not.", minimum=0.0
  )
  layerwise_learning_rate_decay: float = flag(
    1.0,
    "Ratio of a layer's learning rate to that of the layer above.",
    minimum=0.0,
    maximum=1.0,
  )
  ema_decay: float = flag(
    0.0,
    "Decay of moving averages of the variables, such as 0.999, by which a run "
    "evaluates and predicts; 0: none.",
    minimum=0.0,
    maximum=1.0,
  )
  gradient_accumulation_steps: int = flag(
    1, "Micro-batches per step and replica.", minimum=1
  )
  recompute_layers: bool = flag(
    False,
    "Compute the activations of each layer again in its gradient instead of "
    "storing them: the same gradients in less memory and more time.",
    training=False,
  )
  group_by_length: bool = flag(
    False,
    "Make batches of examples of similar length: faster if lengths differ.",
  )
  save_checkpoints_steps: int = flag(
    1000, "Steps between saves.", minimum=1, group=ORIGINAL, training=False
  )
  iterations_per_loop: int = flag(
    1000,
    "Maximum steps per call of the graph.",
    minimum=1,
    group=ORIGINAL,
    training=False,
  )
  eval_steps: int = flag(
    0,
    "Steps between evaluations; 0: none.",
    minimum=0,
    training=False,
    dry_run=0,
  )
  keep_checkpoint_max: int = flag(
    5, "Newest checkpoints to keep; 0 for all.", minimum=0, training=False
  )
  dry_run: bool = flag(
    False,
    "Test the command on the first examples: two steps, and its evaluation, "
    "prediction and export. No output is saved.",
    training=False,
  )
  profile_steps: tuple[int, ...] | None = flag(
    None,
    "Steps to profile, as in 100,110.",
    group=DEVICES,
    training=False,
    dry_run=None,
  )
  seed: int | None = flag(
    None,
    "Seed of all randomness. Default: random.",
    minimum=0,
    maximum=2**31 - 1,
    training=False,  # a resumed run keeps its own
  )

  @property
  def stages(self) -> list[str]:
    """Names of the flags that say what to do, in the order of the work."""
    known = flags_of(type(self))
    return [name for name in _STAGES if name in known]

  @property
  def max_examples(self) -> int | None:
    """Examples to read from a file in a dry run; else None, for all."""
    return _DRY_RUN_EXAMPLES if self.dry_run else None


@dataclass(frozen=True, kw_only=True)
class Evaluation(Settings):
  """Evaluation of a trained model."""

  do_eval: bool = flag(
    False, "Evaluate the model.", group=COMMON, training=False
  )
  eval_batch_size: int = flag(
    8,
    "Batch size for evaluation.",
    minimum=1,
    group=ORIGINAL,
    training=False,
  )


@dataclass(frozen=True, kw_only=True)
class Packing(Training):
  """A training on rows that may have several examples."""

  pack_examples: bool | None = flag(
    None,
    "Train on rows of several examples: the same losses, less padding. By "
    "default in fine-tuning on a CPU, where a step becomes a tenth cheaper.",
  )


_SWEEP = (
  "Several, with commas between them, make a sweep: each "
  "combination has a folder in --output_dir, the best is in best."
)


@dataclass(frozen=True, kw_only=True)
class FineTuning(Vocabulary, Training):
  """How a model is fine-tuned, once or in a sweep."""

  learning_rate: float = flag(
    5e-5,
    f"Peak learning rate. {_SWEEP}",
    minimum=0.0,
    group=COMMON,
    swept=True,
  )
  train_batch_size: int = flag(
    32,
    f"Batch size for training. {_SWEEP}",
    minimum=1,
    group=COMMON,
    swept=True,
  )
  num_train_epochs: float = flag(
    3.0,
    f"Number of training epochs. {_SWEEP}",
    minimum=0.0,
    group=COMMON,
    swept=True,
  )
  do_predict: bool = flag(
    False, "Predict the test or predict file.", group=COMMON, training=False
  )
  predict_batch_size: int = flag(
    8,
    "Batch size for prediction.",
    minimum=1,
    group=ORIGINAL,
    training=False,
  )
  warmup_proportion: float = flag(
    0.1,
    "Fraction of steps for warm-up.",
    minimum=0.0,
    maximum=1.0,
    group=ORIGINAL,
  )
  new_head: bool = flag(
    False,
    "Train a fresh head instead of the one in --init_checkpoint. A head with "
    "other labels is never restored.",
  )
  add_bilstm: bool = flag(False, "Add a BiLSTM on top of BERT.")
  num_seeds: int = flag(
    1,
    "Number of seeds to train with, from --seed or 1.",
    minimum=1,
    training=False,
    dry_run=1,
  )
  keep_best: bool = flag(
    False,
    "Save the best evaluated checkpoint in output_dir/best, and use it later.",
    training=False,
  )
  early_stopping_patience: int = flag(
    0,
    "Evaluations without improvement to end after; 0: never. Sets --keep_best.",
    minimum=0,
    training=False,
    dry_run=0,
  )
  ensemble: int = flag(
    1,
    "Evaluate, predict, export with so many best models of a sweep at once.",
    minimum=1,
    training=False,
    dry_run=1,
  )
  teacher: str | None = flag(
    None,
    "Train to give the outputs of this model, too: the --output_dir of a "
    "training with the same vocabulary and labels.",
  )
  distill_weight: float = flag(
    0.5, "Weight of --teacher; 1: it alone.", minimum=0.0, maximum=1.0
  )
  distill_temperature: float = flag(
    2.0, "Divisor of logits for --teacher.", minimum=0.01
  )
  freeze_layers: str = flag(
    "",
    "Layers not to train, as in embeddings,0-5 or embeddings,encoder,pooler.",
  )

  @property
  def is_sweep(self) -> bool:
    """True if flags name several settings or seeds to train with."""
    return self.do_train and (bool(self.several) or self.num_seeds > 1)

  @property
  def keeps_best(self) -> bool:
    """True if the best evaluated checkpoint is saved and used later."""
    return self.keep_best or self.early_stopping_patience > 0

  @property
  def evaluates_while_training(self) -> bool:
    """True if a training evaluates; trials of a sweep keep their best."""
    keeps_best = self.is_sweep or self.keeps_best
    return self.do_train and (bool(self.eval_steps) or keeps_best)

  @property
  def reads_dev(self) -> bool:
    """True if a run reads its dev set."""
    return self.evaluates_while_training

  @property
  def splits_to_read(self) -> list[str]:
    """Splits of the data that a run reads: train, dev, test."""
    is_read = {
      "train": self.do_train,
      "dev": self.reads_dev,
      "test": self.do_predict,
    }
    return [split for split in is_read if is_read[split]]

  @property
  def files_to_read(self) -> list[str]:
    """Names of the flags for files that a run reads: train_file and so on."""
    return [f"{split}_file" for split in self.splits_to_read]

  def trials(self) -> list[dict[str, float]]:
    """Values of the swept flags in all combinations; one without a sweep."""
    values = {
      name: self.several.get(name, (getattr(self, name),))
      for name, known in flags_of(type(self)).items()
      if known.swept
    }
    combinations = dict.fromkeys(product(*values.values()))  # each once
    return [dict(zip(values, row, strict=True)) for row in combinations]

  def frozen_layers(self, config: BertConfig) -> set[tuple]:
    """Layers that --freeze_layers names: numbers, ranges ("0-5") and parts.

    ("encoder", 3) is a block, ("pooler", None) a part; ValueError for others.
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
class EvaluatedFineTuning(FineTuning, Evaluation, Packing):
  """Fine-tuning of a task whose dev set is evaluated by --do_eval."""

  @property
  def reads_dev(self) -> bool:
    return self.do_eval or self.evaluates_while_training


@dataclass(frozen=True, kw_only=True)
class LongText(Settings):
  """Texts that are longer than a window of --max_seq_length."""

  max_seq_length: int = flag(
    128, "Maximum tokens of a text.", minimum=3, group=COMMON
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
    """Maximum tokens of a text: of all its windows with --long_text=windows."""
    windows = self.long_text == "windows"
    return self.max_text_length if windows else self.max_seq_length

  @property
  def stride(self) -> int:
    """Tokens between starts of windows: --window_stride, or half of one."""
    return self.window_stride or max((self.max_seq_length - 2) // 2, 1)


@dataclass(frozen=True, kw_only=True)
class Corpus(Settings):
  """Text files, and the engine that reads them."""

  input_file: str = flag(
    None,
    "Text files or globs, comma-separated.",
    required=True,
    group=COMMON,
  )
  input_format: str = flag(
    "lines",
    "lines: one sentence per line, a blank line between documents. paragraphs: "
    "prose, a blank line between documents. documents: prose, one document per "
    "file, or per line with --text_field.",
    choices=("lines", "paragraphs", "documents"),
    group=COMMON,
  )
  text_field: str | None = flag(
    None,
    "Field of JSON lines that has the text. Default: files are plain text.",
  )
  runner: str | None = flag(
    None,
    "Runner of Apache Beam (requirements-beam.txt): DirectRunner, FlinkRunner, "
    "SparkRunner, DataflowRunner, ... Default: run without Beam.",
    group=DEVICES,
  )
  pipeline_options: str = flag(
    "", "Flags of --runner, as one text.", group=DEVICES
  )

  def runner_options(self) -> list[str]:
    """Words of --runner and --pipeline_options; ValueError if unquoted."""
    try:
      return [f"--runner={self.runner}", *shlex.split(self.pipeline_options)]
    except ValueError as error:
      raise UserError(f"--pipeline_options: {error}") from None
