"""Groups of flags that several programs share, with the original's names."""

from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, ClassVar

from cli.settings import Settings, common, device, flag, original, required
from data.features import Masking
from data.tokenization import open_tokenizer
from data.vocab import Tokenizer
from modeling.config import ATTENTION
from serving.formats import FORMATS

DRY_RUN_STEPS = 2
_DRY_RUN_EXAMPLES = 64  # of each file, in fine-tuning
_PURPOSES = [f"{row.name}: {row.purpose}" for row in FORMATS.values()]
_tpu = partial(device, None, training=False)  # a flag to find the TPU
# A file or folder, which may differ when the training resumes.
data_path = partial(common, None, training=False)
batch_size = partial(original, 8, minimum=1, training=False)
_interval = partial(original, 1000, minimum=1, training=False)
_fraction = partial(flag, minimum=0.0, maximum=1.0)


def amount(default: int, help: str) -> Any:
  """A number that does not change the training; dry runs take the default."""
  return flag(default, help, minimum=default, training=False, dry_run=default)


@dataclass(frozen=True, kw_only=True)
class Network(Settings):
  """Flags of the encoder."""

  bert_config_file: str = required("bert_config.json of the model.")
  attention: str | None = flag(
    None,
    "Direction (section 5.1 of the paper); shallow joins a left_to_right and a "
    "right_to_left network. Default: as in bert_config.json, or bidirectional; "
    "in run_pretraining as in --objective.",
    choices=tuple(ATTENTION),
    training=False,  # bert_config.json may have set it
  )


@dataclass(frozen=True, kw_only=True)
class Tokens(Settings):
  """Flags of the vocabulary, which a program that reads records can lack."""

  vocab_file: str | None = common(None, "Vocabulary of the model, vocab.txt.")
  do_lower_case: bool = common(True, "Lower-case; False for cased models.")

  @cached_property
  def tokenizer(self) -> Tokenizer:
    """The tokenizer of --vocab_file, which is read only once."""
    return open_tokenizer(self.needed("vocab_file"), self.do_lower_case)


@dataclass(frozen=True, kw_only=True)
class Vocabulary(Tokens):
  """Flags of the vocabulary, for a program that reads texts."""

  vocab_file: str = required("Vocabulary of the model, vocab.txt.")


@dataclass(frozen=True, kw_only=True)
class TrainedModel(Network, Vocabulary):
  """Flags of a trained model and its vocabulary."""

  init_checkpoint: str = required("Checkpoint, or folder with one.")


@dataclass(frozen=True, kw_only=True)
class Devices(Settings):
  """Flags of devices, and of the type of activations."""

  distribution_strategy: str | None = device(
    None,
    "Default: mirrored if there are several GPUs, else one device.",
    choices=("one_device", "mirrored", "multi_worker_mirrored", "tpu"),
  )
  num_cpu_devices: int = device(1, "CPU devices, to test mirrored.", minimum=1)
  dtype: str = device(
    "float32",
    "Type of activations; trained variables are float32. float16 scales the "
    "loss.",
    choices=("float32", "bfloat16", "float16"),
  )
  jit_compile: bool | None = device(
    None,
    "Compile the training step with XLA; batches then have few lengths. "
    "Default: on a GPU. A TPU always compiles.",
  )
  tf32: bool = device(
    True, "Let GPUs round factors of float32 products to TF32, for speed."
  )
  deterministic: bool = device(
    False, "Use deterministic operations on a GPU, which are slower."
  )
  use_tpu: bool = device(False, "Run on a TPU.")
  tpu_name: str | None = _tpu("Name or address of the TPU.")
  tpu_zone: str | None = _tpu("Zone of the TPU in Google Cloud.")
  gcp_project: str | None = _tpu("Google Cloud project of the TPU.")
  master: str | None = _tpu("Address of the TPU, without --tpu_name.")
  num_tpu_cores: int = device(8, "Accepted; has no effect.", training=False)

  @property
  def on_tpu(self) -> bool:
    return self.use_tpu or self.distribution_strategy == "tpu"


@dataclass(frozen=True, kw_only=True)
class Export(Settings):
  """Flags of an export."""

  do_export: bool = common(False, "Export the model for inference.", stage=4)
  export_dir: str | None = data_path("Folder of the export; new or empty.")
  export_format: tuple[str, ...] = flag(
    ("savedmodel",),
    f"{'; '.join(_PURPOSES)}. Several go into one folder, as in "
    "savedmodel,tflite.",
    training=False,
  )


@dataclass(frozen=True, kw_only=True)
class ServedEncoder(TrainedModel, Export, Devices):
  """Flags of a trained encoder to use or export."""


@dataclass(frozen=True, kw_only=True)
class Training(Network, Tokens, Devices, Export):
  """Flags of a training: model, folder of the run, hyper-parameters."""

  output_dir: str = required(
    "Folder of checkpoints and results.", training=False
  )
  init_checkpoint: str | None = common(
    None,
    "Checkpoint, or its folder, to start from, or to use without --do_train. "
    "Two, comma-separated, for --attention=shallow.",
  )
  do_train: bool = common(False, "Train the model.", stage=1)
  max_seq_length: int = common(128, "Maximum number of tokens.")
  train_batch_size: int = common(32, "Batch size for training.", minimum=1)
  learning_rate: float = common(5e-5, "Peak learning rate.", minimum=0.0)
  optimizer: str = flag(
    "adamw", "LAMB is for large batches.", choices=("adamw", "lamb")
  )
  adam_beta_2: float = flag(
    0.999,
    "Decay of Adam's mean squares. 0.98 suits short runs: with 0.999, "
    "and without bias correction, the first thousand updates are too large.",
    minimum=0.0,
    maximum=0.99999,
  )
  max_grad_norm: float = flag(
    1.0, "Clip gradients to this global norm; 0: no clipping.", minimum=0.0
  )
  layerwise_learning_rate_decay: float = _fraction(
    1.0, "Ratio of a layer's learning rate to the rate of the layer above."
  )
  ema_decay: float = _fraction(
    0.0,
    "Decay, such as 0.999, of moving averages of the variables. The averages "
    "evaluate, predict and are exported. 0: no averages.",
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
    "Make batches of examples of similar length: faster if lengths differ. "
    "Not on a TPU; run_squad needs --dynamic_padding, too.",
  )
  save_checkpoints_steps: int = _interval("Steps between saves.")
  iterations_per_loop: int = _interval("Maximum steps per call of the graph.")
  eval_steps: int = amount(0, "Steps between evaluations; 0: none.")
  keep_checkpoint_max: int = flag(
    5, "Newest checkpoints to keep; 0 for all.", minimum=0
  )
  dry_run: bool = flag(
    False,
    "Test the command on the first examples: two steps, then evaluation, "
    "prediction and export. Saves nothing.",
    training=False,
  )
  profile_steps: tuple[int, ...] | None = device(
    None, "Steps to profile, as in 100,110.", training=False, dry_run=None
  )
  seed: int | None = flag(
    None,
    "Seed of all randomness. Default: random; 1 in a sweep and for GLUE.",
    minimum=0,
    maximum=2**31 - 1,
    training=False,  # a resumed run keeps the first seed
  )

  @property
  def stages(self) -> list[str]:
    """Names of flags that start stages, such as do_train, in order."""
    known = [flag for flag in self.flags.values() if flag.stage]
    return [flag.name for flag in sorted(known, key=attrgetter("stage"))]

  @property
  def max_examples(self) -> int | None:
    """Number of examples to read from a file in a dry run, otherwise None."""
    return _DRY_RUN_EXAMPLES if self.dry_run else None


@dataclass(frozen=True, kw_only=True)
class Evaluation(Settings):
  """Flags of an evaluation."""

  do_eval: bool = common(False, "Evaluate the model.", stage=2)
  eval_batch_size: int = batch_size("Batch size for evaluation.")


@dataclass(frozen=True, kw_only=True)
class Packing(Training):
  """Flags of a training whose rows may hold several examples.

  `not_packed` names flags that do not go with --pack_examples.
  """

  not_packed: ClassVar[tuple[str, ...]] = ()

  pack_examples: bool | None = flag(
    None,
    "Train on rows of several examples: the same losses, less padding. "
    "Default: in fine-tuning on a CPU, if a step becomes a tenth cheaper.",
  )


# --- Pre-training ------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sampling(Settings):
  """Flags that weigh the patterns of --input_file."""

  sampling_exponent: float = _fraction(
    1.0,
    "Weigh the patterns of --input_file, such as one per language, by their "
    "size to this power. The original's multilingual models have 0.7.",
  )


@dataclass(frozen=True, kw_only=True)
class Masks(Settings):
  """Flags that choose and replace the tokens to mask."""

  max_predictions_per_seq: int = original(
    20, "Maximum of masked tokens in a record.", minimum=1
  )
  masked_lm_prob: float = original(
    0.15,
    "Fraction of the tokens to mask; run_pretraining.py masks only records of "
    "--masking=dynamic.",
    minimum=0,
    maximum=1,
  )
  mask_token_prob: float = flag(
    Masking.mask_token_prob,
    "Fraction of the tokens to mask that becomes [MASK].",
  )
  random_token_prob: float = flag(
    Masking.random_token_prob,
    "Fraction of the tokens to mask that becomes random; others stay.",
  )
  do_whole_word_mask: bool = original(False, "Mask all pieces of a word.")

  def masks(self) -> Masking:
    replaced = self.mask_token_prob, self.random_token_prob
    number, whole_word = self.max_predictions_per_seq, self.do_whole_word_mask
    return Masking(number, self.masked_lm_prob, whole_word, *replaced)
