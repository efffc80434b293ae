"""Questions about contexts -> answers, in the graph, as run_squad.py's.

Legend: B questions, W windows of all contexts, T max_seq_length, K n_best_size.
A ragged dimension is in parentheses.
"""

import tensorflow as tf

from data import features, vocab
from data.tokenization_ops import GraphTokenizer
from serving import length_batching, packing_ops
from storage.schema import Schema
from tasks.squad import answers_ops, paragraphs_ops, windows_ops
from tasks.squad.settings import DecodingConfig, WindowConfig
from tasks.squad.windows_ops import Candidates

# Windows per call of the model: bounds the memory of a long context.
_WINDOWS_PER_STEP = 32
_TEXT = tf.TensorSpec([None], tf.string)


class QuestionAnswering(tf.Module):
  """Function of a span labeler's SavedModel.

  Arguments:
    tokenizer: text to ids.
    window_config: lengths.
    decoding_config: choice of answers.
    dynamic_padding: whether windows are padded to the longest of a batch. If
      not, they are padded to T, and positions of padding may be among the K
      best, as in the original.
    top_k: number of the n best answers among the outputs; 0 for none.

  Attributes:
    texts: inputs of `from_text` by name.
    schema: inputs of `from_features`.
  """

  def __init__(
    self,
    tokenizer: GraphTokenizer,
    window_config: WindowConfig,
    decoding_config: DecodingConfig,
    dynamic_padding: bool = False,
    top_k: int = 0,
  ):
    super().__init__(name="questions")
    self.texts = {"question": _TEXT, "context": _TEXT}
    self.schema = Schema(*features.tokens(window_config.max_seq_length))
    self._tokenizer = tokenizer
    self._window_config = window_config
    self._decoding_config = decoding_config
    self._dynamic_padding = dynamic_padding
    self._top_k = top_k
    self._cls = tokenizer.vocab[vocab.CLS]
    self._sep = tokenizer.vocab[vocab.SEP]

  def from_text(
    self, model, question: tf.Tensor, context: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """Answers questions.

    Args:
      model: from a dict of inputs to `start_logits` and `end_logits` [W, T].
      question: [B] string.
      context: [B] string.

    Returns:
      [B] each: `answer`, a text of the context with one blank between words;
      `score`, the sum of its start and end logits; `probability` among the n
      best; `start` and `end` in characters of
      `context.decode("utf-8", "replace")`, -1 if it does not occur there.

      Without a candidate text, the answer is "empty" with a score of 0 in
      version 1.1, as in the original. In version 2 it is "" then, and if
      `null_odds`, the score of no answer less that of the best text, exceed
      the threshold; its score is that of no answer. `best_answer`,
      `best_score`, `best_probability`, `best_start` and `best_end` are those
      of the best text, whatever the threshold; "", zeros and -1 without one.

      With `top_k`: `answers`, `scores`, `probabilities`, `starts` and `ends`
      [B, at most top_k], the first entries of nbest_predictions.json, in
      version 2 the empty one among them, padded with "", 0 and -1;
      `num_answers` [B].
    """
    config = self._window_config
    questions = packing_ops.truncate(
      self._tokenizer.tokenize(question), config.max_query_length
    )
    paragraphs = paragraphs_ops.read_paragraphs(context, self._tokenizer)
    max_length = config.max_seq_length - 3 - questions.row_lengths()
    windows = windows_ops.cut_windows(
      paragraphs.ids, max_length, config.doc_stride
    )
    candidates, null = self._run_model(
      model, questions, paragraphs.ids.values, windows
    )
    decoding = self._decoding_config
    answers = answers_ops.n_best(
      candidates,
      questions.nrows(),
      paragraphs_ops.GraphAnswerText(paragraphs, self._tokenizer),
      decoding.n_best_size,
    )
    if not decoding.version_2_with_negative:
      return answers_ops.best(answers, decoding.n_best_size, self._top_k)
    # The original takes the window with the least score of no answer.
    null = tf.math.unsorted_segment_min(null, windows.rows, questions.nrows())
    return answers_ops.best_with_null(
      answers,
      tf.where(paragraphs.ids.row_lengths() > 0, null, 0.0),
      decoding.n_best_size,
      decoding.null_score_diff_threshold,
      self._top_k,
    )

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Logits of records.

    Args:
      model: as in `from_text`.
      inputs: `input_ids`, `input_mask`, `segment_ids`, [W, T] int32 each.

    Returns:
      `start_logits` and `end_logits`, [W, T] float32 each.
    """
    outputs = model(inputs, training=False)
    return {
      name: tf.cast(outputs[name], tf.float32)
      for name in ("start_logits", "end_logits")
    }

  def _run_model(self, model, questions, ids, windows):
    """Applies the model to all windows, _WINDOWS_PER_STEP at a time.

    Args:
      model: as in `from_text`.
      questions: [B, (T)] int32.
      ids: [tokens of all contexts] int32.
      windows: W windows.

    Returns:
      Candidates, and the scores of no answer, [W] float64.
    """
    config = self._decoding_config

    def run_step(begin, candidates, null):
      step = windows.slice(begin, begin + _WINDOWS_PER_STEP)
      question = tf.gather(questions, step.rows)
      logits = self._logits(model, question, tf.gather(ids, step.tokens))
      step_candidates = windows_ops.candidates(
        logits,
        step,
        question.row_lengths() + 2,
        config.n_best_size,
        config.max_answer_length,
      )
      step_null = tf.reduce_sum(tf.cast(logits[..., 0], tf.float64), axis=1)
      return (
        begin + _WINDOWS_PER_STEP,
        windows_ops.concat(candidates, step_candidates),
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
    inputs = packing_ops.join(question, part, self._cls, self._sep)
    length = self._window_config.max_seq_length
    missing = length - tf.shape(inputs["input_ids"])[1]

    def stacked_logits(inputs, training=False):
      logits = self.from_features(model, **inputs).values()
      return {"logits": tf.stack([*logits], axis=2)}  # [W, T, 2]

    if self._dynamic_padding:
      lengths = tf.reduce_sum(inputs["input_mask"], axis=1)
      logits = length_batching.token_logits(stacked_logits, inputs, 2)
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
