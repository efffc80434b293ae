"""What a record is: names, shapes and storage types, each stated once.

A schema is used by whoever writes records and by whoever reads them. All names
and types are the original's, so files made with it can be read, and it reads
ours.

Legend: T tokens, P masked-LM predictions, C choices.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
  """One field of a record: a dense array of fixed shape.

  Attributes:
    name: key in the tf.train.Example.
    shape: shape of one record's value, without the batch dimension.
    dtype: storage type, "int64" or "float32" (what an Example can hold).
  """

  name: str
  shape: tuple[int, ...]
  dtype: str = "int64"

  @property
  def size(self) -> int:
    """Number of values in one record."""
    size = 1
    for length in self.shape:
      size *= length
    return size


class Schema(dict):
  """The fields of a record by name, in the order they are written."""

  def __init__(self, *features: Feature):
    super().__init__((feature.name, feature) for feature in features)


def tokens(seq_length: int) -> tuple[Feature, ...]:
  """The three inputs of the encoder, [T] each."""
  return (
    Feature("input_ids", (seq_length,)),
    Feature("input_mask", (seq_length,)),
    Feature("segment_ids", (seq_length,)),
  )


def pretraining(seq_length: int, max_predictions: int) -> Schema:
  """A masked sentence pair (create_pretraining_data.py of the original)."""
  return Schema(
    *tokens(seq_length),
    Feature("masked_lm_positions", (max_predictions,)),
    Feature("masked_lm_ids", (max_predictions,)),
    Feature("masked_lm_weights", (max_predictions,), "float32"),
    Feature("next_sentence_labels", (1,)),
  )


def unmasked_pretraining(seq_length: int) -> Schema:
  """A sentence pair stored as it is, to be masked whenever it is read."""
  return Schema(*tokens(seq_length), Feature("next_sentence_labels", (1,)))


def classification(seq_length: int) -> Schema:
  """One or two texts and the number of a class (run_classifier.py)."""
  return Schema(
    *tokens(seq_length),
    Feature("label_ids", ()),
    Feature("is_real_example", ()),
  )


def regression(seq_length: int) -> Schema:
  """One or two texts and a score; like `classification` but for its type."""
  return Schema(
    *tokens(seq_length),
    Feature("label_ids", (), "float32"),
    Feature("is_real_example", ()),
  )


def tagging(seq_length: int) -> Schema:
  """Words and their tags: label_ids is -1 where nothing is to be predicted."""
  return Schema(*tokens(seq_length), Feature("label_ids", (seq_length,)))


def multiple_choice(seq_length: int, choices: int) -> Schema:
  """As many texts as there are choices, and the number of the right one."""
  return Schema(
    *(
      Feature(feature.name, (choices, *feature.shape))
      for feature in tokens(seq_length)
    ),
    Feature("label_ids", ()),
    Feature("is_real_example", ()),
  )


def squad(seq_length: int, is_training: bool) -> Schema:
  """A question with a window of its paragraph (run_squad.py of the original).

  Args:
    seq_length: T.
    is_training: whether the records say where the answer is.
  """
  number = Feature("unique_ids", ())
  if not is_training:
    return Schema(number, *tokens(seq_length))
  return Schema(
    number,
    *tokens(seq_length),
    Feature("start_positions", ()),
    Feature("end_positions", ()),
    Feature("is_impossible", ()),
  )
