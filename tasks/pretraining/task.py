"""run_pretraining.py: training, data, evaluation, export.

Legend: B texts, M largest number of masks in a text, T tokens, V vocabulary
ids, K predicted tokens for a mask. Ragged dimensions are in parentheses.
"""

import numpy as np
import tensorflow as tf
from absl import logging

from data import tokenization_ops, vocab
from data.batching import Packing
from data.features import Masking
from data.pretraining.input_pipeline import CausalTargets, PretrainingInput
from data.records import Source
from modeling import losses, models
from modeling.config import SIDES, BertConfig
from runs import checks, model_files
from runs.devices import length_multiple
from runs.session import Run, write_page
from serving.answers import TextConfig
from serving.export import ServedModel, TextSignature
from storage import files, processes, record_scan
from tasks.pretraining import settings as pretraining_settings
from tasks.pretraining.answers import Answers
from tasks.pretraining.settings import Settings
from training import checkpoint_files, loop, report, run_folder


def pretrain(settings: Settings) -> None:
  """Trains, evaluates and exports, as far as the settings ask."""
  run = Run(settings, model_files.config(settings))
  if settings.do_train or settings.do_eval:
    is_chief = processes.is_chief()
    with run.scope():
      # Only the chief copies files with corrupt records. The others wait.
      if not is_chief:
        run_folder.wait_for_chief()
      eval_set = eval_data(settings, run.config) if settings.eval_file else None
      if settings.do_train or not eval_set:
        train_set = train_data(settings, run.config)
      if is_chief:
        run_folder.wait_for_chief()
  next_sentence = settings.objective == "mlm_nsp"
  objective = losses.pretraining(next_sentence=next_sentence)
  evaluated = None  # last step that was evaluated
  with run.scope():
    model = models.pretrainer(run.config, next_sentence=next_sentence)
    if settings.do_train:
      for step in run.train(
        model,
        objective,
        train_set,
        num_train_steps=settings.num_train_steps,
        num_warmup_steps=settings.num_warmup_steps,
        stop_at=settings.stop_at_step,
        unit="sequences",
        evaluated=report.last_evaluation(settings.output_dir),
      ):
        evaluate(settings, model, objective, eval_set or train_set, step)
        evaluated = step
    if settings.do_eval:
      step = run.load(model)
      if step != evaluated:
        evaluate(settings, model, objective, eval_set or train_set, step)
      write_page(settings, step)
  if settings.do_export:
    run.export(served_model)


def train_data(settings: Settings, config: BertConfig) -> PretrainingInput:
  """Records of --input_file to train on; ValueError for bad records."""
  masking = settings.masks()
  weights = settings.sampling_weights
  if not weights and settings.sampling_exponent == 1:
    sources = [Source(files.expand(settings.needed("input_file")))]
  else:
    groups = [files.expand(pattern) for pattern in settings.patterns]
    if not weights:
      # Sizes will do: records have nearly the same number of bytes.
      sizes = [sum(map(files.size, paths)) for paths in groups]
      weights = tuple(size**settings.sampling_exponent for size in sizes)
      for pattern, weight in zip(settings.patterns, weights, strict=True):
        percent = 100 * weight / sum(weights)
        logging.info("%s: %.1f %% of the records", pattern, percent)
    sources = [*map(Source, groups, weights)]
  packing = Packing(settings.max_seq_length) if settings.pack_examples else None
  records = _records(settings, config, sources, masking, packing)
  default = Masking(masking.max_predictions_per_seq)
  if masking != default and not records.masks_words:
    text = "%s has masks already, so flags of new masks have no effect"
    logging.warning(text, records.files[0])
  return records


def eval_data(settings: Settings, config: BertConfig) -> PretrainingInput:
  """Records of --eval_file.

  Unmasked records get masks by --masked_lm_prob and default replacements.
  """
  number, prob = settings.max_predictions_per_seq, settings.masked_lm_prob
  masking = Masking(number, prob, settings.do_whole_word_mask)
  sources = [Source(files.expand(settings.needed("eval_file")))]
  return _records(settings, config, sources, masking)


def _records(settings: Settings, config, sources, masking, packing=None):
  paths = [path for source in sources for path in source.files]
  tokenizer = settings.tokenizer if settings.vocab_file else None
  causal_targets = None
  if settings.objective in SIDES:
    reader = None if settings.special_tokens else tokenizer
    causal_targets = CausalTargets(settings.objective, reader)
  # The program has already checked all files, so one file gives the schema.
  path = next(filter(files.size, paths), paths[0])
  heads = [record_scan.read_head(path)]
  return PretrainingInput(
    sources,
    pretraining_settings.find_schema(settings, heads, config.vocab_size),
    config.vocab_size,
    masking,
    tokenizer,
    causal_targets=causal_targets,
    max_corrupt_records=settings.max_corrupt_records,
    folder=settings.output_dir,
    packing=packing,
    multiple=length_multiple(settings, settings.max_seq_length, "train")
    if settings.group_by_length
    else 0,
  )


def evaluate(
  settings: Settings, model, objective, source: PretrainingInput, step: int
) -> None:
  """Evaluates the model, and writes eval_results.txt as the original does."""
  flag = "--eval_file" if settings.eval_file else "the records of --input_file"
  logging.info("evaluation at step %d, on %s", step, flag)
  batches = source.endless_eval_batches(settings.eval_batch_size)
  try:
    results = loop.evaluate(model, objective, batches, settings.max_eval_steps)
  except loop.RECORD_ERRORS:
    loop.raise_if_corrupt(source)
    raise
  report.write_evaluation(settings.output_dir, results, step)


class FillMask(TextSignature):
  """TensorFlow graph from texts with [MASK] to tokens."""

  _answers: Answers

  def from_text(self, model, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """Computes what Answers.decode returns. `text` is [B] string.

    `tokens` and `probabilities` are [B, M, K], padded with "" and zeros.
    """
    mask = self._answers.config.tokenizer.special.mask
    parts = tf.strings.split(text, mask)  # [B, (masks + 1)]
    ids = self._tokenizer.tokenize(parts.values)
    # Every part but the first follows a mask.
    index = tf.ragged.range(parts.row_lengths()).values
    number = tf.cast(index > 0, tf.int64)
    masks = tokenization_ops.repeat(self._answers.mask, number)
    ids = parts.with_values(tf.concat([masks, ids], axis=1)).merge_dims(1, 2)
    ids = ids[:, : self._seq_length - 2]  # [B, (T)]
    inputs = tokenization_ops.join(ids, None, *self._ends)
    input_ids = inputs["input_ids"]
    indices = tf.zeros_like(input_ids) + tf.range(tf.shape(input_ids)[1])
    positions = tf.ragged.boolean_mask(indices, input_ids == self._answers.mask)
    positions = positions.to_tensor()  # [B, M]
    is_mask = positions > 0
    is_shown = is_mask[..., None]
    outputs = model(inputs | {"masked_lm_positions": positions}, training=False)
    logits = outputs["masked_lm_logits"]  # [B, M, V]
    # The model may have more ids than the vocabulary has tokens.
    vocab.check_size(self._tokenizer.vocab, logits.shape[-1])
    bias = np.full(logits.shape[-1], -np.inf, np.float32)
    bias[self._answers.vocab_ids] = 0.0
    logits += bias
    values, ids = tf.math.top_k(logits, self._answers.top_k)
    log_sum = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
    tokens = self._tokenizer.tokens(ids)
    return {
      "tokens": tf.where(is_shown, tokens, ""),
      "probabilities": tf.where(is_shown, tf.exp(values - log_sum), 0.0),
      "num_masks": tf.math.count_nonzero(is_mask, axis=1, dtype=tf.int32),
    }


def served_model(settings: Settings) -> ServedModel:
  """Makes Answers, and an untrained model with the heads of the checkpoint."""
  pretraining_settings.check_export(settings)
  kinds = checkpoint_files.kinds_at(checks.checkpoint(settings))
  config = TextConfig(settings.tokenizer, settings.max_seq_length)
  network = model_files.config(settings)
  model = models.pretrainer(network, "pretraining" in kinds)
  return ServedModel(model, Answers(config, settings.export_top_k), FillMask)
