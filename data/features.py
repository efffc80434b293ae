"""Schemas of the records of all tasks, for writing and for reading.

Names, shapes and storage types are the original's, so either program reads the
files of the other.

Legend: T tokens, P masked-LM predictions, C choices.
"""

from storage.schema import Feature, Schema


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
  """An unmasked sentence pair, for dynamic masking."""
  return Schema(*tokens(seq_length), Feature("next_sentence_labels", (1,)))


def classification(seq_length: int) -> Schema:
  """One or two texts and a class index (run_classifier.py)."""
  return Schema(
    *tokens(seq_length),
    Feature("label_ids", ()),
    Feature("is_real_example", ()),
  )


def regression(seq_length: int) -> Schema:
  """One or two texts and a score."""
  return Schema(
    *tokens(seq_length),
    Feature("label_ids", (), "float32"),
    Feature("is_real_example", ()),
  )


def tagging(seq_length: int) -> Schema:
  """A tagged sentence; label_ids is -1 at positions without a tag."""
  return Schema(*tokens(seq_length), Feature("label_ids", (seq_length,)))


def multiple_choice(seq_length: int, choices: int) -> Schema:
  """C texts and the index of the correct choice."""
  return Schema(
    *(
      Feature(feature.name, (choices, *feature.shape))
      for feature in tokens(seq_length)
    ),
    Feature("label_ids", ()),
    Feature("is_real_example", ()),
  )


def squad(seq_length: int, is_training: bool) -> Schema:
  """A question and a window of its paragraph (run_squad.py of the original).

  Args:
    seq_length: T.
    is_training: True if the records contain the answer's span.
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
