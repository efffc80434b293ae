"""The flags that several programs share, defined once.

Names and defaults are the original's wherever it had them. Nothing here reads
a flag: `main` does, and the `from_flags` functions of this package.
"""

from absl import flags

from training.strategy import NAMES


def define_network() -> None:
  """Which network it is."""
  flags.DEFINE_string(
    "bert_config_file", None, "bert_config.json of the model.", required=True
  )
  flags.DEFINE_enum(
    "attention",
    None,
    ["both", "left_to_right", "right_to_left", "shallow"],
    "Where a token looks (section 5.1 of the paper). shallow: two networks, "
    "one of either kind, whose features are put side by side. Default: what "
    "bert_config.json says, else both.",
  )


def define_model() -> None:
  """Which model, where it starts from and where it goes."""
  define_network()
  flags.DEFINE_string(
    "output_dir", None, "Where checkpoints and results go.", required=True
  )
  flags.DEFINE_string(
    "init_checkpoint",
    None,
    "Checkpoint whose variables to start from; two with a comma between them "
    "for --attention=shallow.",
  )


def define_vocabulary() -> None:
  """How text becomes the model's tokens."""
  flags.DEFINE_string(
    "vocab_file", None, "Vocabulary of the model.", required=True
  )
  flags.DEFINE_bool("do_lower_case", True, "False for cased models.")


def define_training() -> None:
  """How it is trained, apart from a program's own number of steps."""
  _define_updates()
  flags.DEFINE_integer("train_batch_size", 32, "Examples a step.", 1)
  flags.DEFINE_bool(
    "group_by_length",
    False,
    "Train on examples of similar length together, without the padding that "
    "they have in common: faster where lengths differ.",
  )
  flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
  flags.DEFINE_integer(
    "save_checkpoints_steps", 1000, "Steps between checkpoints.", 1
  )
  flags.DEFINE_integer(
    "iterations_per_loop", 1000, "Most steps between two returns to Python.", 1
  )
  flags.DEFINE_integer(
    "eval_every", 0, "Steps between evaluations while training; 0 for none.", 0
  )
  flags.DEFINE_integer(
    "keep_checkpoint_max",
    5,
    "How many of the newest checkpoints to keep; 0 for all.",
    0,
  )
  flags.DEFINE_bool(
    "dry_run",
    False,
    "Only see whether it works: two steps, what is to follow, and an export, "
    "on the first examples. Nothing is kept.",
  )
  flags.DEFINE_string(
    "profile_steps", None, "Profile from one step to another, as in 100,110."
  )
  flags.DEFINE_integer(
    "seed",
    None,
    "Fixes initial values, data order and dropout. Default: a random one, "
    "which is logged.",
    0,
    2**31 - 1,
  )


def _define_updates():
  """What is made of a gradient."""
  flags.DEFINE_enum(
    "optimizer", "adamw", ["adamw", "lamb"], "lamb is for large batches."
  )
  flags.DEFINE_float(
    "max_grad_norm", 1.0, "Gradients are scaled down to this global norm.", 0.0
  )
  flags.DEFINE_float(
    "layerwise_learning_rate_decay",
    1.0,
    "What a layer's learning rate is of that of the layer above it.",
    0.0,
    1.0,
  )
  flags.DEFINE_float(
    "moving_average_decay",
    0.0,
    "Evaluate and predict with a moving average of the variables, as in 0.999; "
    "0 for none.",
    0.0,
    1.0,
  )
  flags.DEFINE_integer(
    "gradient_accumulation_steps",
    1,
    "Cut each replica's part of a batch into so many micro-batches: less "
    "memory, same result.",
    1,
  )


class _Rates(flags.ArgumentParser):
  """A learning rate, or several with commas between them: a tuple then."""

  syntactic_help = "a number, or several with commas between them"

  def parse(self, argument):
    """Makes a float, or a tuple of them; raises ValueError for other texts."""
    if not isinstance(argument, str):
      return argument
    rates = tuple(float(part) for part in argument.split(","))
    return rates if len(rates) > 1 else rates[0]

  def flag_type(self):
    """What help texts call it."""
    return "float or list of floats"


def define_export() -> None:
  """What becomes of the model afterwards."""
  flags.DEFINE_bool(
    "do_export", False, "Export the model, to be served or built into others."
  )
  flags.DEFINE_string("export_dir", None, "Where to; nothing may be there.")
  flags.DEFINE_enum(
    "export_format",
    "savedmodel",
    ["savedmodel", "tflite", "keras"],
    "savedmodel takes raw text; the others take tokens, with vocab.txt beside "
    "them.",
  )


def define_devices() -> None:
  """Where it runs and in which precision."""
  flags.DEFINE_enum(
    "distribution_strategy",
    None,
    NAMES,
    "Default: mirrored where there are several GPUs, else one device.",
  )
  flags.DEFINE_integer(
    "num_cpu_devices",
    1,
    "Cut the CPU into so many devices, to try out `mirrored` without GPUs.",
    1,
  )
  flags.DEFINE_enum(
    "dtype",
    "float32",
    ["float32", "bfloat16", "float16"],
    "Type of activations; variables stay float32. float16 comes with dynamic "
    "loss scaling.",
  )
  flags.DEFINE_bool("jit_compile", False, "Compile the step with XLA.")
  flags.DEFINE_bool("use_tpu", False, "Train on a TPU.")
  flags.DEFINE_string("tpu_name", None, "Name or address of the TPU.")
  flags.DEFINE_string("tpu_zone", None, "Its zone in Google Cloud.")
  flags.DEFINE_string("gcp_project", None, "Its project in Google Cloud.")
  flags.DEFINE_string("master", None, "Address of the TPU, if it has no name.")
  flags.DEFINE_integer(
    "num_tpu_cores", 8, "Kept for the original's commands; found by itself."
  )


def define_fine_tuning() -> None:
  """All flags that the fine-tuning programs share, those above included."""
  define_model()
  define_vocabulary()
  define_training()
  define_export()
  define_devices()
  flags.DEFINE_bool(
    "add_bilstm", False, "Put a new bidirectional LSTM on top of BERT."
  )
  flags.DEFINE_float("num_train_epochs", 3.0, "Epochs to train for.", 0.0)
  flags.DEFINE_float(
    "warmup_proportion", 0.1, "Share of the steps that are warm-up.", 0.0, 1.0
  )
  flags.DEFINE_integer("predict_batch_size", 8, "Examples a step.", 1)
  # In the place of the single number that define_training takes.
  flags.DEFINE(
    _Rates(),
    "learning_rate",
    5e-5,
    "Peak learning rate. Several (5e-5,3e-5,2e-5) are tried one after the "
    "other, each in a folder of its own in --output_dir; the best one's model "
    "goes to the folder best.",
    allow_override=True,
  )
  flags.DEFINE_integer(
    "num_seeds", 1, "Train so often, with seeds from --seed or 1 on.", 1
  )
  flags.DEFINE_bool(
    "keep_best",
    False,
    "Keep the best checkpoint of those evaluated (--eval_every, and the last) "
    "in output_dir/best, and use it to evaluate and predict.",
  )
  flags.DEFINE_integer(
    "early_stopping_patience",
    0,
    "End after so many evaluations without a better one; 0 for never. "
    "Includes --keep_best.",
    0,
  )
  flags.DEFINE_string(
    "freeze_layers",
    "",
    "What is not trained, as in embeddings,0-5 or embeddings,encoder,pooler.",
  )
