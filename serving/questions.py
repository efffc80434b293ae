"""Questions about contexts to answers, as run_squad.py gives them.

Legend: B questions, W windows of all contexts, T max_seq_length, A answers of
a question, K n_best_size (A <= K). A ragged dimension is in parentheses.
"""

from typing import Protocol

import tensorflow as tf

from data import features, vocab
from data.tasks.squad_windows import Settings
from data.tokenization_ops import GraphTokenizer
from serving import (
  answers_ops,
  packing_ops,
  paragraphs_ops,
  portions,
  spans_ops,
  windows_ops,
)
from serving.spans_ops import Candidates
from serving.spelling_ops import Speller

# Windows that the model sees in one go: bounds the memory of a long context.
_AT_ONCE = 32
_TEXT = tf.TensorSpec([None], tf.string)


class Choice(Protocol):
  """How answers are chosen; evaluation.squad.Settings says what is what."""

  n_best_size: int
  max_answer_length: int
  version_2_with_negative: bool
  null_score_diff_threshold: float


class Questions(tf.Module):
  """What a SavedModel of a span labeler does.

  Arguments:
    tokenizer: text to ids.
    lengths: how windows are cut.
    choice: how answers are chosen.
    trim_padding: whether windows are as short as they can be. Else they are
      filled up to T, and padding takes places among the best starts and ends,
      as in the original.

  Attributes:
    texts: what `from_text` takes, by name.
    schema: of the records that `from_features` takes.
  """

  def __init__(
    self,
    tokenizer: GraphTokenizer,
    lengths: Settings,
    choice: Choice,
    trim_padding: bool = False,
  ):
    super().__init__(name="questions")
    self.texts = {"question": _TEXT, "context": _TEXT}
    self.schema = features.Schema(*features.tokens(lengths.max_seq_length))
    self._tokenizer = tokenizer
    self._lengths = lengths
    self._choice = choice
    self._trims = trim_padding
    self._cls = tokenizer.vocab[vocab.CLS]
    self._sep = tokenizer.vocab[vocab.SEP]

  def from_text(
    self, model, question: tf.Tensor, context: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """Answers questions.

    Args:
      model: from a dict of inputs to `start_logits` and `end_logits` [W, T].
      question: [B] string.
      context: [B] string, where each answer is looked for.

    Returns:
      [B] each: `answer`, a text; `score`, the sum of the best span's logits;
      `probability` of the answer among the n best; `begin` and `end`, where in
      the context it is, in characters of `context.decode("utf-8", "replace")`,
      or -1. The answer is what stands there with one blank between words.

      Where there is none, it is "empty" with a score of 0, as the original has
      it; in version 2 it is "", also where `null_odds`, by how much no answer
      scores better, exceed the threshold. `best_answer` is the best text
      whatever the threshold.
    """
    lengths = self._lengths
    questions = packing_ops.truncate(
      self._tokenizer.tokenize(question), lengths.max_query_length
    )
    paragraphs = paragraphs_ops.read(context, self._tokenizer)
    room = lengths.max_seq_length - 3 - questions.row_lengths()
    windows = windows_ops.cut(paragraphs.ids, room, lengths.doc_stride)
    found, null = self._look(model, questions, paragraphs.ids.values, windows)
    answers = answers_ops.n_best(
      found,
      questions.nrows(),
      Speller(paragraphs, self._tokenizer),
      self._choice.n_best_size,
    )
    if not self._choice.version_2_with_negative:
      return answers_ops.best(answers, self._choice.n_best_size)
    # Where no answer scores least, it was least likely.
    null = tf.math.unsorted_segment_min(null, windows.rows, questions.nrows())
    return answers_ops.best_or_none(
      answers,
      tf.where(paragraphs.ids.row_lengths() > 0, null, 0.0),
      self._choice.n_best_size,
      self._choice.null_score_diff_threshold,
    )

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """What the model says of records.

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

  def _look(self, model, questions, ids, windows):
    """Looks through all windows, some at a time.

    Args:
      model: as in `from_text`.
      questions: [B, (T)] int32.
      ids: [tokens of all contexts] int32.
      windows: W of them.

    Returns:
      Candidates, and the scores of no answer, [W] float64.
    """
    choice = self._choice

    def look(begin, found, null):
      some = windows.part(begin, begin + _AT_ONCE)
      question = tf.gather(questions, some.rows)
      logits = self._logits(model, question, tf.gather(ids, some.tokens))
      more = spans_ops.candidates(
        logits,
        some,
        question.row_lengths() + 2,
        choice.n_best_size,
        choice.max_answer_length,
      )
      of_none = tf.cast(logits[..., 0], tf.float64)
      of_none = tf.concat([null, tf.reduce_sum(of_none, axis=1)], axis=0)
      return begin + _AT_ONCE, found.and_of(more), of_none

    _, found, null = tf.while_loop(
      lambda begin, *_: begin < tf.size(windows.rows),
      look,
      (0, Candidates.none(), tf.zeros([0], tf.float64)),
      (
        tf.TensorShape([]),
        Candidates(*[tf.TensorShape([None])] * 5),
        tf.TensorShape([None]),
      ),
      parallel_iterations=1,  # else memory is not bounded
    )
    return found, null

  def _logits(self, model, question, part):
    """Logits of start and end: [W, (T)] int32 each -> [W, 2, T] float32."""
    inputs = packing_ops.join(question, part, self._cls, self._sep)
    length = self._lengths.max_seq_length
    missing = length - tf.shape(inputs["input_ids"])[1]

    def ask(inputs, training=False):
      found = self.from_features(model, **inputs).values()
      return {"logits": tf.stack([*found], axis=2)}  # [W, T, 2]

    if self._trims:
      known = tf.reduce_sum(inputs["input_mask"], axis=1)
      logits = portions.of_tokens(ask, inputs, 2)
      logits = tf.pad(logits, [[0, 0], [0, missing], [0, 0]])
      known = tf.sequence_mask(known, length)[..., None]
      logits = tf.where(known, logits, -float("inf"))
    else:
      logits = ask(
        {
          name: tf.ensure_shape(
            tf.pad(values, [[0, 0], [0, missing]]), [None, length]
          )
          for name, values in inputs.items()
        }
      )["logits"]
    return tf.ensure_shape(tf.transpose(logits, [0, 2, 1]), [None, 2, length])
