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

from cli import file_checks, program
from data import vocab_checks
from modeling.config import BertConfig
from runs import checks, contradictions
from storage import UserError, textfiles
from tasks.features import lines
from tasks.features.settings import Settings


def check_flags(args: Settings) -> None:
  contradictions.check_export(args, args.dtype)
  contradictions.check_devices(args)
  has_files = bool(args.input_file), bool(args.output_file)
  if any(has_files) != all(has_files) or not (any(has_files) or args.do_export):
    raise UserError("give --input_file and --output_file, or --do_export")
  network = checks.config(args)
  checks.check(args, network)
  if args.output_file:
    file_checks.check_file(args, "input_file")
    file_checks.check_output_file(
      args.output_file, args.overwrite, args.needed("input_file")
    )
    if args.output_file.endswith(".npz") and args.format != "npz":
      raise UserError(f"--output_file={args.output_file} needs --format=npz")
  contradictions.check_windows(args)
  if args.long_text == "windows" and args.pooling == "none":
    raise UserError(
      "--long_text=windows gives a vector for each text: give --pooling"
    )
  if args.input_file:  # raises for a line that cannot be read
    lines.count(args.input_file, args.long_text == "windows")
  layers = with_default_layers(args, network).layers
  network.check_layers(lines.layer_indexes(layers))


def with_default_layers(args: Settings, config: BertConfig) -> Settings:
  """Leaves out the default --layers that the model does not have."""
  if "layers" in args.given:
    return args
  layers = args.layers.split(",")[: config.num_hidden_layers]
  return args.replace(layers=",".join(layers))


def main(args: Settings) -> None:
  config = checks.config(args)
  args = with_default_layers(args, config)
  if args.input_file:
    sample = vocab_checks.sample([args.input_file], textfiles.lines)
    texts = (line.replace(lines.SEPARATOR, " ") for line in sample)
    vocab_checks.warn_of_texts(texts, args.tokenizer, args.input_file)
  # TensorFlow is imported here, after the flags were checked.
  from modeling.models import layer_outputs
  from runs import session
  from serving import export
  from tasks.features import task
  from training import checkpoint

  devices = session.make_strategy(args)
  session.set_export_policy(args.dtype, args.export_format)
  if args.do_export:
    served = task.served_model(args)
    checkpoint.restore_strict(served.model, args.init_checkpoint)
    export.save(args.needed("export_dir"), served, args.export_format)
  if not args.input_file:
    return
  with devices.scope():
    if args.use_one_hot_embeddings or args.on_tpu:
      config = replace(config, use_one_hot_embeddings=True)
    layers = lines.layer_indexes(args.layers)
    model = layer_outputs(
      config, layers, args.pooling, session.text_windows(args)
    )
    checkpoint.restore_strict(model, args.init_checkpoint)
    task.write(args, model, config.hidden_size)


if __name__ == "__main__":
  program.run(Settings, check_flags, main, writes_files=True)
