"""Questions about contexts to answers in the graph, as run_squad.py's.

Legend: B questions, W windows of all contexts, T max_seq_length, K n_best_size,
C candidate spans. A ragged dimension is in parentheses.
"""

import dataclasses

import tensorflow as tf

from data.tokenization_ops import GraphTokenizer
from serving import compiled_model, packing_ops
from tasks.squad import answers_ops, paragraphs_ops
from tasks.squad.answers_ops import Candidates
from tasks.squad.decoding import DecodingConfig
from tasks.squad.paragraphs_ops import Windows
from tasks.squad.records import WindowConfig

_TEXT = tf.TensorSpec([None], tf.string)


class QuestionAnswering(packing_ops.PackedTexts):
  """Serving task (serving.export.Task) of run_squad.py.

  Without `dynamic_padding` windows have T tokens, and positions of padding may
  be among the K best, as in the original.
  """

  def __init__(
    self,
    tokenizer: GraphTokenizer,
    window_config: WindowConfig,
    decoding_config: DecodingConfig,
    dynamic_padding: bool = False,
  ):
    texts = {"question": _TEXT, "context": _TEXT}
    super().__init__(tokenizer, window_config.max_seq_length, texts)
    self._window_config = window_config
    self._decoding_config = decoding_config
    self._dynamic_padding = dynamic_padding
    self.static_length = not dynamic_padding

  @property
  def settings(self) -> dict:
    return {
      "windows": dataclasses.asdict(self._window_config),
      "decoding": dataclasses.asdict(self._decoding_config),
      "dynamic_padding": self._dynamic_padding,
    }

  def from_text(
    self, model, question: tf.Tensor, context: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """Answers questions about contexts, [B] string each, by logits [W, T].

    Returns [B] each: `answer`, a text of the context with one blank between
    words; `score`, the sum of its start and end logits; `probability` among the
    n best; `start` and `end` in characters of `context.decode("utf-8",
    "replace")`, -1 if it does not occur there.

    Without a candidate text, the answer is "empty" with a score of 0 in version
    1.1, as in the original. In version 2 it is "" then, and if `null_odds`, the
    score of no answer less that of the best text, exceed the threshold; its
    score is that of no answer. `best_answer`, `best_score`, `best_probability`,
    `best_start` and `best_end` are those of the best text, whatever the
    threshold.

    With `export_top_k`: `answers`, `scores`, `probabilities`, `starts` and
    `ends` [B, at most that], the first entries of nbest_predictions.json,
    padded with "", 0 and -1; `num_answers` [B].
    """
    config = self._window_config
    questions = self._tokenizer.tokenize(question)
    questions = questions[:, : config.max_query_length]
    paragraphs = paragraphs_ops.read_paragraphs(context, self._tokenizer)
    max_length = config.max_seq_length - 3 - questions.row_lengths()
    windows = paragraphs_ops.cut_windows(
      paragraphs.ids, max_length, config.doc_stride
    )
    ranked = [
      self._n_best(member, questions, paragraphs, windows)
      for member in compiled_model.members(model)
    ]
    entries = ranked[0]
    if len(ranked) > 1:
      entries = answers_ops.combine(ranked, self._decoding_config)
    return answers_ops.predictions(entries, self._decoding_config)

  def _n_best(self, model, questions, paragraphs, windows):
    """Entries of a model: the n best texts, and in version 2 no answer."""
    question = tf.gather(questions, windows.rows)
    part = tf.gather(paragraphs.ids.values, windows.tokens)
    logits = self._logits(model, question, part)  # [W, 2, T]
    answers = answers_ops.n_best(
      _candidates(
        logits, windows, question.row_lengths() + 2, self._decoding_config
      ),
      questions.nrows(),
      paragraphs_ops.GraphAnswerText(paragraphs, self._tokenizer),
      self._decoding_config.n_best_size,
    )
    if not self._decoding_config.version_2_with_negative:
      return answers
    null = tf.reduce_sum(tf.cast(logits[..., 0], tf.float64), axis=1)
    # The original takes the window with the least score of no answer.
    null = tf.math.unsorted_segment_min(null, windows.rows, questions.nrows())
    has_window = paragraphs.ids.row_lengths() > 0
    return answers.insert_null(tf.where(has_window, null, 0.0))

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Start and end logits of records, [W, T] float32; ensembles [W, T, M]."""
    outputs = model(inputs, training=False)
    return {
      name: tf.cast(outputs[name], tf.float32)
      for name in ("start_logits", "end_logits")
    }

  def _logits(self, model, question, part):
    """Logits of start and end: [W, (T)] int32 each -> [W, 2, T] float32."""
    inputs = packing_ops.join(question, part, *self._ends)
    if not self._dynamic_padding:
      inputs = self._pad(inputs)

    def span_logits(batch, training=False):
      if not self._dynamic_padding:  # it is as long as its longest window
        batch = self._pad(batch)
      logits = self.from_features(model, **batch).values()
      return {"logits": tf.stack([*logits], axis=2)}  # [W, T, 2]

    logits = packing_ops.token_logits(span_logits, inputs, 2)
    start_end = tf.unstack(logits, axis=2)
    if self._dynamic_padding:
      is_token = inputs["input_mask"] > 0
      start_end = [tf.where(is_token, v, -float("inf")) for v in start_end]
    return tf.stack(self._pad(start_end, -float("inf")), axis=1)

  def _pad(self, tensors, value=0):
    """Appends a value up to T: [W, at most T] each -> [W, T]."""

    def pad(tensor):
      missing = self._seq_length - tf.shape(tensor)[1]
      padded = tf.pad(tensor, [[0, 0], [0, missing]], constant_values=value)
      return tf.ensure_shape(padded, [None, self._seq_length])

    return tf.nest.map_structure(pad, tensors)


def _candidates(
  logits, windows: Windows, context_offset, config: DecodingConfig
) -> Candidates:
  """Spans of windows that could be answers; see decoding.py for the rules.

  `logits` [W, 2, T] are of start and end, `context_offset` [W] int64 is the
  position of the first token of the context. Spans come by window, by start
  from best to worst, by end from best to worst.
  """
  size = min(config.n_best_size, logits.shape[-1])
  values, positions = tf.math.top_k(logits, size)  # stable; [W, 2, K]
  positions -= tf.cast(context_offset, tf.int32)[:, None, None]
  lengths = tf.cast(windows.tokens.row_lengths(), tf.int32)[:, None, None]
  in_context = (positions >= 0) & (positions < lengths)
  # Indices in windows.tokens.values.
  tokens = tf.cast(tf.clip_by_value(positions, 0, lengths - 1), tf.int64)
  tokens += windows.tokens.row_starts()[:, None, None]
  has_max_context = tf.gather(windows.is_max_context.values, tokens[:, 0])
  is_start = in_context[:, 0] & has_max_context
  distance = positions[:, 1, None] - positions[:, 0, :, None]  # [W, K, K]
  allowed = (distance >= 0) & (distance < config.max_answer_length)
  allowed &= is_start[..., None] & in_context[:, 1, None]

  window, i, j = tf.unstack(tf.where(allowed), axis=1)
  start, end = tf.stack([window, i], axis=1), tf.stack([window, j], axis=1)
  token_ids = tf.gather(windows.tokens.values, tokens)
  values = tf.cast(values, tf.float64)
  return Candidates(
    tf.gather(windows.rows, window),
    tf.gather_nd(token_ids[:, 0], start),
    tf.gather_nd(token_ids[:, 1], end),
    tf.gather_nd(values[:, 0], start),
    tf.gather_nd(values[:, 1], end),
  )
