"""extract_features.py: writes activations, exports models of text vectors."""

import tensorflow as tf
from absl import logging

from modeling.config import BertConfig
from modeling.models import layer_outputs, mean_of_tokens
from runs import model_files
from runs.session import text_windows
from serving.answers import TextConfig
from serving.export import ServedModel, TextSignature
from storage import Progress
from tasks.features import lines as text_lines
from tasks.features.answers import Answers
from tasks.features.lines import Settings
from training import loop

# Numbers in a chunk, 256 MiB in float32. A chunk's lines are sorted by length.
_CHUNK_SIZE = 2**26


def write(settings: Settings, model, config: BertConfig) -> None:
  """Writes the activations of --input_file to --output_file."""
  layers = text_lines.layer_indexes(settings, config)
  path, output = settings.needed("input_file"), settings.needed("output_file")
  lines = text_lines.read_lines(settings)
  max_tokens = _CHUNK_SIZE // (len(layers) * config.hidden_size)
  progress = Progress("extracted", text_lines.count(path), "lines")
  results = _extract(settings, model, lines, max_tokens, progress)
  if settings.format == "npz":
    text_lines.write_npz(output, results, layers)
  else:
    tokens = settings.tokenizer.convert_ids_to_tokens
    text_lines.write_json(output, results, layers, tokens)
  logging.info("wrote %s", output)


def _extract(settings: Settings, model, lines, max_tokens, progress):
  """Yields lines with activations; `max_tokens`: see text_lines.chunks."""
  # A TPU gets only full-length rows: XLA compiles the model for each length.
  length = settings.row_length
  multiple = length if settings.on_tpu else 8
  for chunk in text_lines.chunks(lines, max_tokens):
    result = [None] * len(chunk)
    sizes = settings.batch_size, length, multiple
    for indices, batch in text_lines.batches(chunk, *sizes):
      outputs = loop.predict(model, [batch])
      for index, values in zip(indices, outputs["values"], strict=True):
        size = len(chunk[index].ids)
        result[index] = values[:size] if settings.pooling == "none" else values
      progress.add(len(indices))
    yield from zip(chunk, result, strict=True)
  progress.say()


class FeatureExtraction(TextSignature):
  """TensorFlow graph from texts to vectors."""

  def from_text(self, model, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """Computes what Answers.decode returns. `text` has lines, [B] string.

    `token_vectors` [B, T, L, H] and `tokens` [B, T] are padded with 0 and "".
    """
    line = split(text) if self._answers.settings["pairs"] else (text,)
    inputs = self._encode(*line)
    values = model(inputs, training=False)["values"]
    if values.shape.rank == 3:
      return {"sentence": values}
    mask = inputs["input_mask"]
    is_token = mask > 0
    tokens = self._tokenizer.tokens(inputs["input_ids"])
    is_cls = self._answers.settings["pooling"] == "cls"
    return {
      "sentence": values[:, 0] if is_cls else mean_of_tokens(values, mask),
      "token_vectors": tf.where(is_token[..., None, None], values, 0.0),
      "tokens": tf.where(is_token, tokens, ""),
      "num_tokens": tf.math.count_nonzero(is_token, axis=1, dtype=tf.int32),
    }


def split(text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Splits lines, [B], as lines.split does; "" stands for no second text."""
  text = tf.strings.strip(text)
  # Split at the last separator. \C is any byte, valid UTF-8 or not.
  first = tf.strings.regex_replace(text, r"^(\C*) \|\|\| \C*$", r"\1")
  size = tf.strings.length(text)
  begin = tf.minimum(tf.strings.length(first) + len(text_lines.SEPARATOR), size)
  return first, tf.strings.substr(text, begin, size)


def served_model(settings: Settings, of_tokens: bool = True) -> ServedModel:
  """Makes the untrained model, and Answers that turn texts into vectors.

  With `of_tokens`, and without windows, answers also have the vectors of
  tokens, whatever --pooling says.
  """
  config, windows = model_files.config(settings), text_windows(settings)
  layers = text_lines.layer_indexes(settings, config)
  pooling = "none" if of_tokens and not windows else settings.pooling
  model = layer_outputs(config, layers, pooling, windows)
  texts = TextConfig(settings.tokenizer, settings.row_length)
  answers = Answers(texts, settings.pooling, pairs=not windows)
  return ServedModel(model, answers, FeatureExtraction)
