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

# Windows per call of the model: bounds the memory of a long context.
_WINDOWS_PER_STEP = 32
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
    questions = packing_ops.truncate(
      self._tokenizer.tokenize(question), config.max_query_length
    )
    paragraphs = paragraphs_ops.read_paragraphs(context, self._tokenizer)
    max_length = config.max_seq_length - 3 - questions.row_lengths()
    windows = paragraphs_ops.cut_windows(
      paragraphs.ids, max_length, config.doc_stride
    )
    ranked = [
      self._n_best(member, questions, paragraphs, windows)
      for member in compiled_model.members(model)
    ]
    answers, null = (
      ranked[0] if len(ranked) == 1 else answers_ops.combine(ranked)
    )
    if null is None:
      return answers_ops.best(answers, self._decoding_config)
    return answers_ops.best_with_null(answers, null, self._decoding_config)

  def _n_best(self, model, questions, paragraphs, windows):
    """The n best texts, and in version 2 scores of no answer, [B] float64."""
    candidates, null = self._run_model(
      model, questions, paragraphs.ids.values, windows
    )
    answers = answers_ops.n_best(
      candidates,
      questions.nrows(),
      paragraphs_ops.GraphAnswerText(paragraphs, self._tokenizer),
      self._decoding_config.n_best_size,
    )
    if not self._decoding_config.version_2_with_negative:
      return answers, None
    # The original takes the window with the least score of no answer.
    null = tf.math.unsorted_segment_min(null, windows.rows, questions.nrows())
    return answers, tf.where(paragraphs.ids.row_lengths() > 0, null, 0.0)

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Start and end logits of records, [W, T] float32; ensembles [W, T, M]."""
    outputs = model(inputs, training=False)
    return {
      name: tf.cast(outputs[name], tf.float32)
      for name in ("start_logits", "end_logits")
    }

  def _run_model(self, model, questions, ids, windows):
    """Candidates, and null scores [W] float64, of all windows, step by step."""

    def run_step(begin, candidates, null):
      step = windows.slice(begin, begin + _WINDOWS_PER_STEP)
      question = tf.gather(questions, step.rows)
      logits = self._logits(model, question, tf.gather(ids, step.tokens))
      step_candidates = _candidates(
        logits, step, question.row_lengths() + 2, self._decoding_config
      )
      step_null = tf.reduce_sum(tf.cast(logits[..., 0], tf.float64), axis=1)
      return (
        begin + _WINDOWS_PER_STEP,
        answers_ops.concat(candidates, step_candidates),
        tf.concat([null, step_null], axis=0),
      )

    _, candidates, null = tf.while_loop(
      lambda begin, *_: begin < tf.size(windows.rows),
      run_step,
      (0, Candidates.empty(), tf.zeros([0], tf.float64)),
      (
        tf.TensorShape([]),
        Candidates(*[tf.TensorShape([None])] * 5),
        tf.TensorShape([None]),
      ),
      parallel_iterations=1,  # bounds memory
    )
    return candidates, null

  def _logits(self, model, question, part):
    """Logits of start and end: [W, (T)] int32 each -> [W, 2, T] float32."""
    inputs = packing_ops.join(question, part, *self._ends)
    length = self._seq_length
    missing = length - tf.shape(inputs["input_ids"])[1]

    def stacked_logits(inputs, training=False):
      logits = self.from_features(model, **inputs).values()
      return {"logits": tf.stack([*logits], axis=2)}  # [W, T, 2]

    if self._dynamic_padding:
      lengths = tf.reduce_sum(inputs["input_mask"], axis=1)
      logits = packing_ops.token_logits(stacked_logits, inputs, 2)
      logits = tf.pad(logits, [[0, 0], [0, missing], [0, 0]])
      is_token = tf.sequence_mask(lengths, length)[..., None]
      logits = tf.where(is_token, logits, -float("inf"))
    else:
      padded = {
        name: tf.ensure_shape(
          tf.pad(values, [[0, 0], [0, missing]]), [None, length]
        )
        for name, values in inputs.items()
      }
      logits = stacked_logits(padded)["logits"]
    return tf.ensure_shape(tf.transpose(logits, [0, 2, 1]), [None, 2, length])


def _candidates(
  logits, windows: Windows, context_offset, config: DecodingConfig
) -> Candidates:
  """Spans of windows that could be answers; see decoding.py for the rules.

  `logits` [W, 2, T] are of start and end, `context_offset` [W] int64 is the
  position of the first token of the context. Spans come by window, by start
  from best to worst, by end from best to worst.
  """
  size = min(config.n_best_size, logits.shape[-1])
  values, positions = tf.math.top_k(logits, size)  # stable
  values = tf.cast(values, tf.float64)
  positions = tf.cast(positions, tf.int64) - context_offset[:, None, None]
  starts, ends, in_context = _tokens_at(positions, windows)
  is_start = tf.gather(windows.is_max_context.values, starts)
  is_start &= in_context[:, 0]
  length = ends[:, None] - starts[..., None] + 1  # [W, K, K]
  allowed = (length > 0) & (length <= config.max_answer_length)
  allowed &= is_start[..., None] & in_context[:, 1][:, None]

  window, i, j = tf.unstack(tf.where(allowed), axis=1)
  start, end = tf.stack([window, i], axis=1), tf.stack([window, j], axis=1)
  token_ids = windows.tokens.values
  return Candidates(
    tf.gather(windows.rows, window),
    tf.gather(token_ids, tf.gather_nd(starts, start)),
    tf.gather(token_ids, tf.gather_nd(ends, end)),
    tf.gather_nd(values[:, 0], start),
    tf.gather_nd(values[:, 1], end),
  )


def _tokens_at(positions, windows):
  """Indices in `windows.tokens.values` of starts and of ends, [W, K] each.

  Positions, [W, 2, K], count from the first token of the context. Also returns
  [W, 2, K] bool, True for those within the context.
  """
  length = windows.tokens.row_lengths()[:, None, None]
  in_context = (positions >= 0) & (positions < length)
  row_starts = windows.tokens.row_starts()[:, None, None]
  tokens = row_starts + tf.clip_by_value(positions, 0, length - 1)
  return *tf.unstack(tokens, axis=1), in_context
