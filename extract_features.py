r"""Extracts hidden states of texts: vectors of each token, or one per text.

  python extract_features.py --input_file=/tmp/input.txt \
    --output_file=/tmp/output.jsonl --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --layers=-1,-2,-3,-4 --max_seq_length=128 --batch_size=8

A line of the input is a text, or a pair separated by " ||| ". --do_export
writes a SavedModel that does the same.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from dataclasses import replace

from absl import flags

from cli import encoder, program, shared_flags, training_program
from cli.arguments import Arguments
from data import vocab_checks
from data.tokenization import FullTokenizer
from modeling.config import POOLINGS, BertConfig
from storage import UserError, textfiles
from tasks.features import lines

shared_flags.define_devices()
shared_flags.define_trained_model()
shared_flags.define_export()
flags.DEFINE_string("input_file", None, "File with one text per line.")
flags.DEFINE_string("output_file", None, "File to write.")
flags.DEFINE_string(
  "layers",
  "-1,-2,-3,-4",
  "Layers to extract: 0 is the first, -1 the last. Default: four, or fewer.",
)
flags.DEFINE_integer("max_seq_length", 128, "Maximum tokens of a text.", 3)
shared_flags.define_long_text()
flags.DEFINE_integer("batch_size", 32, "Batch size for prediction.", 1)
flags.DEFINE_bool("use_one_hot_embeddings", False, "Embed by matmul, for TPUs.")
flags.DEFINE_enum(
  "pooling",
  "none",
  POOLINGS,
  "none: vectors of tokens. mean: average over all tokens, with [CLS] and "
  "[SEP]. cls: vector of [CLS]. An export has the mean by default, and without "
  "windows always the vectors of tokens.",
)
flags.DEFINE_enum(
  "format",
  "json",
  ["json", "npz"],
  "JSON lines, or NumPy arrays (tasks/features/lines.py).",
)
flags.DEFINE_bool("overwrite", False, "Replace --output_file.")


def check_flags(args: Arguments) -> None:
  program.check_export(args)
  training_program.check_devices(args)
  has_files = bool(args.input_file), bool(args.output_file)
  if any(has_files) != all(has_files) or not (any(has_files) or args.do_export):
    raise UserError("give --input_file and --output_file, or --do_export")
  network = encoder.config(args)
  encoder.check(args, network)
  if args.output_file:
    program.check_file(args, "input_file")
    program.check_output_file(args, args.input_file)
    if args.output_file.endswith(".npz") and args.format != "npz":
      raise UserError(f"--output_file={args.output_file} needs --format=npz")
  encoder.check_windows(args)
  if args.long_text == "windows" and args.pooling == "none":
    raise UserError(
      "--long_text=windows gives a vector for each text: give --pooling"
    )
  if args.input_file:  # raises for a line that cannot be read
    lines.count(args.input_file, args.long_text == "windows")
  layers = with_default_layers(args, network).layers
  network.check_layers(lines.layer_indexes(layers))


def with_default_layers(args: Arguments, config: BertConfig) -> Arguments:
  """Leaves out the default --layers that the model does not have."""
  if "layers" in args.set_flags:
    return args
  layers = args.layers.split(",")[: config.num_hidden_layers]
  return args.replace(layers=",".join(layers))


def main(args: Arguments) -> None:
  config = encoder.config(args)
  args = with_default_layers(args, config)
  if args.input_file:
    tokenizer = FullTokenizer(args.vocab_file, args.do_lower_case)
    sample = vocab_checks.sample([args.input_file], textfiles.lines)
    texts = (line.replace(lines.SEPARATOR, " ") for line in sample)
    vocab_checks.warn_of_texts(texts, tokenizer, args.input_file)
  # TensorFlow is imported here, after the flags were checked.
  from cli import run
  from modeling.models import layer_outputs
  from serving import export
  from tasks.features import task
  from training import checkpoint

  devices = run.make_strategy(args)
  run.set_export_policy(args)
  if args.do_export:
    served = task.served_model(args)
    checkpoint.restore_strict(served.model, args.init_checkpoint)
    export.save(args.export_dir, served, args.export_format)
  if not args.input_file:
    return
  with devices.scope():
    if args.use_one_hot_embeddings or shared_flags.on_tpu(args):
      config = replace(config, use_one_hot_embeddings=True)
    layers = lines.layer_indexes(args.layers)
    model = layer_outputs(config, layers, args.pooling, run.text_windows(args))
    checkpoint.restore_strict(model, args.init_checkpoint)
    task.write(args, model, config.hidden_size)


if __name__ == "__main__":
  program.run(main, check_flags, writes_files=True)
