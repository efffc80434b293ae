r"""Extracts hidden states of texts: vectors of each token, or one per text.

  python extract_features.py --input_file=/tmp/input.txt \
    --output_file=/tmp/output.jsonl --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --layers=-1,-2,-3,-4 --max_seq_length=128 --batch_size=8

Each input line is a text, or a pair separated by " ||| ". --do_export writes a
SavedModel that turns texts into such vectors.
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

from dataclasses import replace

from cli import program
from cli.settings import check_output_file
from data import vocab_checks
from runs import checks, model_files
from storage import UserError, textfiles
from tasks.features import lines
from tasks.features.lines import Settings


def check_flags(settings: Settings) -> None:
  checks.check_export(settings)
  checks.check_devices(settings)
  has_files = {bool(settings.input_file), bool(settings.output_file)}
  if len(has_files) > 1 or not (True in has_files or settings.do_export):
    raise UserError("give --input_file and --output_file, or --do_export")
  network = model_files.config(settings)
  model_files.check(settings, network)
  if settings.output_file:
    settings.check_file("input_file")
    path, source = settings.output_file, settings.needed("input_file")
    read = source, settings.vocab_file, settings.bert_config_file
    check_output_file(path, settings.overwrite, *read)
    if path.endswith(".npz") and settings.format != "npz":
      raise UserError(f"--output_file={path} needs --format=npz")
  checks.check_windows(settings)
  if settings.input_file:  # find lines that cannot be read
    lines.count(settings.input_file, settings.long_text == "windows")
  network.check_layers(lines.layer_indexes(settings, network))


def main(settings: Settings) -> None:
  config = model_files.config(settings)
  if settings.input_file:
    sample = vocab_checks.sample([settings.input_file], textfiles.lines)
    texts = (line.replace(lines.SEPARATOR, " ") for line in sample)
    vocab_checks.warn_of_texts(texts, settings.tokenizer, settings.input_file)
  # Import TensorFlow late: wrong flags should fail fast.
  from modeling.models import layer_outputs
  from runs import devices, session
  from serving import export
  from tasks.features import task
  from training import checkpoint

  strategy = devices.make_strategy(settings)
  session.set_export_policy(settings.dtype, settings.export_format)
  if settings.do_export:
    served = task.served_model(settings)
    checkpoint.restore_strict(served.model, settings.init_checkpoint)
    export.save(settings.needed("export_dir"), served, settings.export_format)
  if not settings.input_file:
    return
  with strategy.scope():
    if settings.use_one_hot_embeddings or settings.on_tpu:
      config = replace(config, use_one_hot_embeddings=True)
    layers = lines.layer_indexes(settings, config)
    windows = session.text_windows(settings)
    model = layer_outputs(config, layers, settings.pooling, windows)
    checkpoint.restore_strict(model, settings.init_checkpoint)
    task.write(settings, model, config)


if __name__ == "__main__":
  program.run(Settings, check_flags, main, writes_files=True)
