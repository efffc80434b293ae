"""Texts to vectors of tokens and of texts in the graph.

Legend: B texts, T tokens, L layers, H hidden.
"""

from collections.abc import Callable

import tensorflow as tf

from data.tokenization_ops import GraphTokenizer
from modeling.models import mean_of_tokens
from serving import packing_ops
from tasks.features.lines import SEPARATOR

# Characters that Python's str.strip() removes.
_BLANK = (
  r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
  r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)


class FeatureExtraction(packing_ops.PackedTexts):
  """Serving task (serving.export.Task) of extract_features.py.

  Texts are truncated to T tokens as there. `pool` maps vectors [B, T, L, H] and
  the mask [B, T] to one vector a text, [B, L, H].
  """

  def __init__(
    self,
    tokenizer: GraphTokenizer,
    seq_length: int,
    pool: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
  ):
    texts = {"text": tf.TensorSpec([None], tf.string)}
    super().__init__(tokenizer, seq_length, texts)
    self._pool = pool

  @property
  def settings(self) -> dict:
    """See serving.export.Task."""
    return {"pooling": "mean" if self._pool is mean_of_tokens else "cls"}

  def from_text(self, model, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """Vectors of lines of texts, [B] string; see `from_features`."""
    return self.from_features(model, **self._pack(*split(text)))

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Vectors of records, by a model with `values` [B, T, L, H].

    Returns:
      `sentence` [B, L, H]; `token_vectors` [B, T, L, H], padded with zeros;
      `tokens` [B, T], padded with ""; `num_tokens` [B].
    """
    values = model(inputs, training=False)["values"]
    mask = inputs["input_mask"]
    is_token = mask > 0
    tokens = self._tokenizer.tokens(inputs["input_ids"])
    return {
      "sentence": self._pool(values, mask),
      "token_vectors": tf.where(is_token[..., None, None], values, 0.0),
      "tokens": tf.where(is_token, tokens, ""),
      "num_tokens": tf.math.count_nonzero(is_token, axis=1, dtype=tf.int32),
    }


def split(text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Both texts of lines as lines.split, "" for a missing one: [B] each."""
  text = tf.strings.regex_replace(text, f"^{_BLANK}+|{_BLANK}+$", "")
  # The last separator counts. \C is any byte, also one that is not UTF-8.
  first = tf.strings.regex_replace(text, r"^(\C*) \|\|\| \C*$", r"\1")
  size = tf.strings.length(text)
  begin = tf.minimum(tf.strings.length(first) + len(SEPARATOR), size)
  return first, tf.strings.substr(text, begin, size)
