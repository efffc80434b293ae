"""Flags that several programs have, with the original's names and defaults."""

import re
import shlex

from absl import flags

from cli.arguments import Arguments, Numbers
from modeling.config import ATTENTION, BertConfig
from storage import UserError


def _define_network():
  flags.DEFINE_string(
    "bert_config_file", None, "bert_config.json of the model.", required=True
  )
  flags.DEFINE_enum(
    "attention",
    None,
    [*ATTENTION],
    "Direction (section 5.1 of the paper); shallow concatenates networks of "
    "both. Default: as in bert_config.json, else bidirectional.",
  )


def define_model() -> None:
  """Defines the flags of the encoder, its checkpoint and the output folder."""
  _define_network()
  flags.DEFINE_string(
    "output_dir", None, "Folder of checkpoints and results.", required=True
  )
  flags.DEFINE_string(
    "init_checkpoint",
    None,
    "Checkpoint to start from; two, comma-separated, for --attention=shallow.",
  )


def define_trained_model() -> None:
  """Defines the flags of a model that is not trained, and of its tokenizer."""
  _define_network()
  define_vocabulary()
  flags.DEFINE_string(
    "init_checkpoint", None, "Checkpoint, or folder with one.", required=True
  )


def define_tables() -> None:
  text = "What separates columns, as tab or ';'. Default: as the header shows."
  flags.DEFINE_string("delimiter", None, text)
  text = "Encoding of tables without a byte order mark, such as cp1252."
  flags.DEFINE_string("encoding", "utf-8", text)


def define_vocabulary() -> None:
  flags.DEFINE_string(
    "vocab_file", None, "Vocabulary of the model, vocab.txt.", required=True
  )
  flags.DEFINE_bool("do_lower_case", True, "Lower-case; not for cased models.")


def define_training() -> None:
  """Defines flags of training; programs differ in rates, sizes and steps."""
  _define_updates()
  flags.DEFINE_bool("do_train", False, "Train the model.")
  flags.DEFINE_bool(
    "group_by_length",
    False,
    "Make batches of examples of similar length: faster if lengths differ.",
  )
  flags.DEFINE_integer(
    "save_checkpoints_steps", 1000, "Steps between saves.", 1
  )
  flags.DEFINE_integer(
    "iterations_per_loop", 1000, "Maximum steps per call of the graph.", 1
  )
  flags.DEFINE_integer(
    "eval_steps", 0, "Steps between evaluations; 0: none.", 0
  )
  flags.DEFINE_integer(
    "keep_checkpoint_max", 5, "Newest checkpoints to keep; 0 for all.", 0
  )
  flags.DEFINE_bool(
    "dry_run",
    False,
    "Test the command on the first examples: two steps, and its evaluation, "
    "prediction and export. No output is saved.",
  )
  flags.DEFINE(
    Numbers(int, 0), "profile_steps", None, "Steps to profile, as in 100,110."
  )
  flags.DEFINE_integer(
    "seed", None, "Seed of all randomness. Default: random.", 0, 2**31 - 1
  )


def _define_updates():
  flags.DEFINE_enum(
    "optimizer", "adamw", ["adamw", "lamb"], "LAMB is for large batches."
  )
  flags.DEFINE_float(
    "adam_beta_2",
    0.999,
    "Decay of Adam's mean squares. 0.98 suits short runs: there is no bias "
    "correction, and with 0.999 a thousand steps are larger than their rate.",
    0.0,
    0.99999,
  )
  flags.DEFINE_float(
    "max_grad_norm", 1.0, "Clip gradients to this global norm; 0: do not.", 0.0
  )
  flags.DEFINE_float(
    "layerwise_learning_rate_decay",
    1.0,
    "Ratio of a layer's learning rate to that of the layer above.",
    0.0,
    1.0,
  )
  flags.DEFINE_float(
    "ema_decay",
    0.0,
    "Decay of moving averages of the variables, such as 0.999, by which a run "
    "evaluates and predicts; 0: none.",
    0.0,
    1.0,
  )
  flags.DEFINE_integer(
    "gradient_accumulation_steps", 1, "Micro-batches per step and replica.", 1
  )
  flags.DEFINE_bool(
    "recompute_layers",
    False,
    "Compute the activations of each layer again in its gradient instead of "
    "storing them: the same gradients in less memory and more time.",
  )


def _define_swept() -> None:
  for name, kind, minimum, default, text in (
    ("learning_rate", float, 0, 5e-5, "Peak learning rate"),
    ("train_batch_size", int, 1, 32, "Batch size for training"),
    ("num_train_epochs", float, 0, 3.0, "Number of training epochs"),
  ):
    flags.DEFINE(
      Numbers(kind, minimum),
      name,
      default,
      f"{text}. Several, with commas between them, make a sweep: each "
      "combination has a folder in --output_dir, the best is in best.",
    )


def define_packing() -> None:
  flags.DEFINE_bool(
    "pack_examples",
    None,
    "Train on rows of several examples: the same losses, less padding. By "
    "default in fine-tuning on a CPU, where a step becomes a tenth cheaper.",
  )


def define_evaluation() -> None:
  flags.DEFINE_bool("do_eval", False, "Evaluate the model.")
  flags.DEFINE_integer("eval_batch_size", 8, "Batch size for evaluation.", 1)


def define_export() -> None:
  flags.DEFINE_bool("do_export", False, "Export the model for inference.")
  flags.DEFINE_string("export_dir", None, "Folder of the export; new or empty.")
  flags.DEFINE_list(
    "export_format",
    ["savedmodel"],
    "savedmodel, tflite (fastest on a CPU), keras, or several of them into "
    "one folder, as in savedmodel,tflite.",
  )


def define_devices() -> None:
  flags.DEFINE_enum(
    "distribution_strategy",
    None,
    ["one_device", "mirrored", "multi_worker_mirrored", "tpu"],
    "Default: mirrored if there are several GPUs, else one device.",
  )
  flags.DEFINE_integer("num_cpu_devices", 1, "CPU devices to test mirrored.", 1)
  flags.DEFINE_enum(
    "dtype",
    "float32",
    ["float32", "bfloat16", "float16"],
    "Type of activations; variables are float32. float16 scales the loss.",
  )
  flags.DEFINE_bool(
    "jit_compile",
    None,
    "Compile the training step with XLA. Default: on a GPU without "
    "--group_by_length. A TPU always compiles.",
  )
  flags.DEFINE_bool("use_tpu", False, "Train on a TPU.")
  flags.DEFINE_string("tpu_name", None, "Name or address of the TPU.")
  flags.DEFINE_string("tpu_zone", None, "Zone of the TPU in Google Cloud.")
  flags.DEFINE_string("gcp_project", None, "Google Cloud project of the TPU.")
  flags.DEFINE_string("master", None, "Address of the TPU, without --tpu_name.")
  flags.DEFINE_integer("num_tpu_cores", 8, "Accepted; has no effect.")


def on_tpu(args: Arguments) -> bool:
  return args.use_tpu or args.distribution_strategy == "tpu"


def define_fine_tuning() -> None:
  """Defines all flags of fine-tuning, including those above."""
  define_model()
  define_vocabulary()
  define_training()
  define_export()
  define_devices()
  flags.DEFINE_bool(
    "new_head",
    False,
    "Train a fresh head instead of the one in --init_checkpoint. A head with "
    "other labels is never restored.",
  )
  flags.DEFINE_bool("add_bilstm", False, "Add a BiLSTM on top of BERT.")
  flags.DEFINE_float(
    "warmup_proportion", 0.1, "Fraction of steps for warm-up.", 0.0, 1.0
  )
  flags.DEFINE_bool("do_predict", False, "Predict the test or predict file.")
  flags.DEFINE_integer("predict_batch_size", 8, "Batch size for prediction.", 1)
  _define_swept()
  flags.DEFINE_integer(
    "num_seeds", 1, "Number of seeds to train with, from --seed or 1.", 1
  )
  flags.DEFINE_bool(
    "keep_best",
    False,
    "Save the best evaluated checkpoint in output_dir/best, and use it later.",
  )
  flags.DEFINE_integer(
    "early_stopping_patience",
    0,
    "Evaluations without improvement to end after; 0: never. Sets --keep_best.",
    0,
  )
  flags.DEFINE_integer(
    "ensemble",
    1,
    "Evaluate, predict, export with so many best models of a sweep at once.",
    1,
  )
  flags.DEFINE_string(
    "teacher",
    None,
    "Train to give the outputs of this model, too: the --output_dir of a "
    "training with the same vocabulary and labels.",
  )
  flags.DEFINE_float(
    "distill_weight", 0.5, "Weight of --teacher; 1: it alone.", 0.0, 1.0
  )
  flags.DEFINE_float(
    "distill_temperature", 2.0, "Divisor of logits for --teacher.", 0.01
  )
  flags.DEFINE_string(
    "freeze_layers",
    "",
    "Layers not to train, as in embeddings,0-5 or embeddings,encoder,pooler.",
  )


def define_long_text() -> None:
  """Defines the flags of texts that are longer than --max_seq_length."""
  flags.DEFINE_enum(
    "long_text",
    "truncate",
    ["truncate", "windows"],
    "Cut off texts beyond --max_seq_length, or read them in windows.",
  )
  flags.DEFINE_integer(
    "max_text_length", 4096, "windows: tokens after which texts are cut off.", 3
  )
  flags.DEFINE_integer(
    "window_stride", 0, "windows: tokens between starts; 0: half a window.", 0
  )
  flags.DEFINE_enum(
    "window_pooling", "mean", ["mean", "max"], "windows: pooling of vectors."
  )


def row_length(args: Arguments) -> int:
  """Maximum tokens of a text: of all its windows with --long_text=windows."""
  return args[row_length_flag(args)]


def row_length_flag(args: Arguments) -> str:
  return "max_text_length" if args.long_text == "windows" else "max_seq_length"


def window_stride(args: Arguments) -> int:
  """Tokens between starts of windows: --window_stride, or half of a window."""
  return args.window_stride or max((args.max_seq_length - 2) // 2, 1)


def define_corpus() -> None:
  flags.DEFINE_string(
    "input_file", None, "Text files or globs, comma-separated.", required=True
  )
  flags.DEFINE_enum(
    "input_format",
    "lines",
    ["lines", "paragraphs", "documents"],
    "lines: one sentence per line, a blank line between documents. paragraphs: "
    "prose, a blank line between documents. documents: prose, one document per "
    "file, or per line with --text_field.",
  )
  flags.DEFINE_string(
    "text_field",
    None,
    "Field of JSON lines that has the text. Default: files are plain text.",
  )
  flags.DEFINE_string(
    "runner",
    None,
    "Runner of Apache Beam (requirements-beam.txt): DirectRunner, FlinkRunner, "
    "SparkRunner, DataflowRunner, ... Default: run without Beam.",
  )
  flags.DEFINE_string("pipeline_options", "", "Flags of --runner, as one text.")


def pipeline_options(args: Arguments) -> list[str]:
  try:
    return [f"--runner={args.runner}", *shlex.split(args.pipeline_options)]
  except ValueError as error:
    raise UserError(f"--pipeline_options: {error}") from None


def frozen_layers(args: Arguments, config: BertConfig) -> set[tuple]:
  """Layers that --freeze_layers names: numbers, ranges ("0-5") and parts.

  ("encoder", 3) is a block, ("pooler", None) a part; ValueError for others.
  """
  parts = {"embeddings", "encoder", "pooler"}
  if config.add_bilstm:
    parts.add("bilstm")
  result: set[tuple] = set()
  for name in filter(None, args.freeze_layers.replace(" ", "").split(",")):
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
