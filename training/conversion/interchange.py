"""What all formats of a BERT come down to when one is made of another.

A reader (original.py, hugging_face.py, model_garden.py, keras_hub.py) makes a
`Bert` of what is on disk and a writer makes files of it.

Legend: H hidden, A heads, D head size, V vocabulary, L labels.
"""

import dataclasses
import functools
import os
import re
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

LABELS = "labels.txt"
_TAG = re.compile(r"[BI]-.")


def names_what_it_reads(read: Callable) -> Callable:
  """Makes a reader of a path refuse what it stumbles over.

  Files from outside may be misshapen in more ways than a reader looks for.

  Raises:
    ValueError: whatever `read` raises, unless it says which file is meant.
  """

  @functools.wraps(read)
  def reading(path, *arguments, **options):
    try:
      return read(path, *arguments, **options)
    except Exception as error:
      if isinstance(error, ValueError | OSError) and path in str(error):
        raise
      raise ValueError(
        f"{path} is not laid out as expected, or damaged: {error!r}"
      ) from error

  return reading


@dataclasses.dataclass
class Bert:
  """A model under the original's names, and what stood beside its weights.

  Attributes:
    origin: what it was read from, for messages.
    values: {name: array} of the model's variables, nothing of its training.
    config: as in a bert_config.json; None if nobody knows.
    vocabulary: path of its vocabulary, None if there is none.
    lower_case: whether its tokenizer lower-cases; None if nobody says.
    labels: names of its classes, in their order; empty if they have none.
    head: the key of HEADS that it was made as; None if nobody says.
    step: updates that it has had (`global_step`), None if nobody counted.
    left: {reason: names} of what was there and is not in `values`.
  """

  origin: str
  values: dict[str, np.ndarray]
  config: dict | None = None
  vocabulary: str | None = None
  lower_case: bool | None = None
  labels: tuple[str, ...] = ()
  head: str | None = None
  step: np.ndarray | None = None
  left: dict[str, list[str]] = dataclasses.field(default_factory=dict)

  @property
  def num_labels(self) -> int:
    """L of its classifier or tagger."""
    return len(self.values["output_bias"])

  def leave(self, name: str, reason: str) -> None:
    """Notes that something is not taken."""
    self.left.setdefault(reason, []).append(name)


@dataclasses.dataclass(frozen=True)
class Head:
  """What stands on the encoder.

  Attributes:
    architecture: the class of transformers that is the same model.
    variables: its names.
    pools: whether it looks at the pooler; transformers has none otherwise.
  """

  architecture: str
  variables: tuple[str, ...] = ()
  pools: bool = True


_PREDICTIONS = tuple(
  f"cls/predictions/{name}"
  for name in (
    "transform/dense/kernel",
    "transform/dense/bias",
    "transform/LayerNorm/gamma",
    "transform/LayerNorm/beta",
    "output_bias",  # [V]
  )
)
_NEXT_SENTENCE = (
  "cls/seq_relationship/output_weights",  # [2, H]
  "cls/seq_relationship/output_bias",
)
_CLASSES = ("output_weights", "output_bias")  # [L, H], [L]
_SPAN = ("cls/squad/output_weights", "cls/squad/output_bias")  # [2, H], [2]
_CHOICE = ("cls/choice",)  # [H]

# A checkpoint is taken for the first of these that is complete in it.
HEADS = {
  "multiple_choice": Head("BertForMultipleChoice", _CHOICE),
  "question_answering": Head("BertForQuestionAnswering", _SPAN, pools=False),
  "tagging": Head("BertForTokenClassification", _CLASSES, pools=False),
  "classification": Head("BertForSequenceClassification", _CLASSES),
  "pretraining": Head("BertForPreTraining", (*_PREDICTIONS, *_NEXT_SENTENCE)),
  "masked_lm": Head("BertForMaskedLM", _PREDICTIONS, pools=False),
  "encoder": Head("BertModel"),
}
HEAD_VARIABLES = frozenset(
  name for head in HEADS.values() for name in head.variables
)


def head_of(bert: Bert, wanted: str | None = None) -> str:
  """The head that a model has, a key of HEADS.

  A classifier and a tagger have the same variables. If nobody says which it
  is, it is a tagger if its labels look like tags ("O" and "B-..." or "I-...").

  Args:
    bert: the model.
    wanted: which it is to be; None decides by its variables.

  Raises:
    ValueError: it does not have the one that is wanted.
  """
  complete = [
    key
    for key, head in HEADS.items()
    if all(name in bert.values for name in head.variables)
  ]
  if wanted is None and bert.head in complete:
    return bert.head
  if wanted is None:
    if "tagging" in complete and not _are_tags(bert.labels):
      complete.remove("tagging")
    return complete[0]
  if wanted not in complete:
    missing = set(HEADS[wanted].variables) - set(bert.values)
    raise ValueError(
      f"{bert.origin} has no head for {wanted}: there is no "
      f"{min(missing)}; it has what is needed for {', '.join(complete)}"
    )
  return wanted


def _are_tags(labels):
  return "O" in labels and any(_TAG.match(label) for label in labels)


def check_labels(bert: Bert) -> None:
  """Raises ValueError if the classes are not as many as their names."""
  if bert.labels and len(bert.labels) != bert.num_labels:
    raise ValueError(
      f"{bert.origin} tells {bert.num_labels} classes apart but its {LABELS} "
      f"has {len(bert.labels)} lines: it is of another model; move it away"
    )


def copy(source: str, target: str) -> None:
  """Copies a file, byte for byte, unless it is there already."""
  if os.path.realpath(source) != os.path.realpath(target):
    tf.io.gfile.copy(source, target, overwrite=True)


def in_two_axes(name: str, value: np.ndarray) -> np.ndarray:
  """Puts together what Keras keeps apart in attention: heads and their size.

  Args:
    name: the original's.
    value: [H, A, D] or [A, D, H], [A, D] if it is a bias; or whatever it is.
  """
  if "/attention/self/" in name:
    width = (-1,) if name.endswith("/bias") else (value.shape[0], -1)
    return value.reshape(width)
  if name.endswith("/attention/output/dense/kernel"):
    return value.reshape(-1, value.shape[-1])
  return value


def summarize(bert: Bert) -> None:
  """Logs how many variables were taken, and which were not and why."""
  encoder = sum(name.startswith("bert/") for name in bert.values)
  others = len(bert.values) - encoder
  logging.info(
    "taken from %s: %d variables of the encoder, %d others",
    bert.origin,
    encoder,
    others,
  )
  if "bert/pooler/dense/kernel" not in bert.values:
    logging.warning("it has no pooler: who needs one gets a random one")
  for reason, names in bert.left.items():
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    logging.info("left out, %d %s: %s", len(names), reason, shown)
