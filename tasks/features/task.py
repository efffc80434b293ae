"""Flags of extract_features.py -> activations, export."""

from collections.abc import Iterable, Iterator

from absl import logging

from cli import checks, encoder
from cli.arguments import Arguments
from data.tokenization import FullTokenizer
from data.tokenization_ops import GraphTokenizer
from modeling.models import layer_outputs, mean_of_tokens
from serving import compiled_model
from serving.export import ServedModel
from storage.progress import Progress
from tasks.features import lines as text_lines
from tasks.features.serving import FeatureExtraction
from training import inference

# Values of a window, within which lines are sorted by length (256 MiB).
_WINDOW_SIZE = 2**26


def write(args: Arguments, model, hidden_size: int) -> None:
  """Writes the activations of --input_file to --output_file."""
  layers = text_lines.layer_indexes(args.layers)
  tokenizer = FullTokenizer(args.vocab_file, args.do_lower_case)
  total = text_lines.count(args.input_file)
  lines = text_lines.read_lines(args.input_file, tokenizer, args.max_seq_length)
  max_tokens = _WINDOW_SIZE // (len(layers) * hidden_size)
  progress = Progress("extracted", total, "lines")
  model = compiled_model.choose(model, total, args.max_seq_length)
  results = _extract(args, model, lines, max_tokens, progress)
  if args.format == "npz":
    text_lines.write_npz(args.output_file, results, layers)
  else:
    text_lines.write_json(
      args.output_file, results, layers, tokenizer.convert_ids_to_tokens
    )
  logging.info("wrote %s", args.output_file)


def _extract(
  args,
  model,
  lines: Iterable[text_lines.Line],
  max_tokens: int,
  progress: Progress,
) -> Iterator[text_lines.Result]:
  """Activations of every line, in order; `max_tokens` bound a window."""
  # Batches are as short as possible, unless each length costs a compilation.
  multiple = args.max_seq_length if checks.on_tpu(args) else 8
  for window in text_lines.windows(lines, max_tokens):
    result = [None] * len(window)
    for indices, batch in text_lines.batches(
      window, args.batch_size, args.max_seq_length, multiple
    ):
      outputs = inference.predict(model, [batch])
      for index, values in zip(indices, outputs["values"], strict=True):
        length = len(window[index].ids)
        result[index] = values[:length] if args.pooling == "none" else values
      progress.add(len(indices))
    yield from zip(window, result, strict=True)
  progress.say()


def served_model(args: Arguments) -> ServedModel:
  """Untrained model and its serving task: texts to vectors."""
  config = encoder.config(args)
  pool = (
    mean_of_tokens
    if args.pooling != "cls"
    else lambda values, mask: values[:, 0]
  )
  return ServedModel(
    layer_outputs(config, text_lines.layer_indexes(args.layers)),
    FeatureExtraction(
      GraphTokenizer(args.vocab_file, args.do_lower_case),
      args.max_seq_length,
      pool,
    ),
  )
