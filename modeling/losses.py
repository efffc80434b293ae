"""Losses and training metrics of the tasks.

A loss is a sum of terms, each a weighted mean over all items (masked words,
examples) of a batch. A replica or micro-batch sees a part of the batch, so an
objective returns items' losses and weights; the training step takes means.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keras import ops

from modeling.fused_ops import cross_entropy, is_correct


def divergence(logits, teacher_logits, temperature: float):
  """KL divergence from a teacher's softmax, [..., L] twice -> [...], in nats.

  Divides the logits by the temperature. A factor of the squared temperature
  restores the size of the gradients.
  """
  log_p = ops.log_softmax(teacher_logits / temperature)
  log_q = ops.log_softmax(logits / temperature)
  total = ops.sum(ops.exp(log_p) * (log_p - log_q), axis=-1)
  return total * temperature**2


@dataclass(frozen=True, eq=False)  # hashable, although `epsilon` is a dict
class Objective:
  """A loss to minimize, as functions of a model's outputs and a batch.

  >>> outputs, batch = {"logits": ops.zeros((1, 2))}, {"label_ids": ops.ones(1)}
  >>> losses = classification().losses(outputs, batch)
  >>> round(float(losses["example_loss"][0]), 3)  # log 2
  0.693
  """

  terms: Sequence[str]
  metric_names: Sequence[str]
  weights: Callable[[dict], dict]  # batch -> {term: weights of its items}
  losses: Callable[[dict, dict], dict]  # {term: losses of its items}
  # {name: (values, weights)}; the report has the weighted mean.
  metrics: Callable[[dict, dict], dict] = lambda outputs, batch: {}
  # {term: number to add to the sum of weights before dividing}
  epsilon: Mapping[str, float] = field(default_factory=dict)
  # (logits, teacher's logits, temperature) -> [...], a distance per item
  distance: Callable[..., Any] = divergence

  @property
  def names(self) -> list[str]:
    return [*self.terms, *self.metric_names]


def pretraining(next_sentence: bool = True) -> Objective:
  """Masked LM plus next sentence, with the original's epsilon of 1e-5."""
  tasks = ("masked_lm", "next_sentence") if next_sentence else ("masked_lm",)

  def items(batch):
    """Yields task, labels and weights."""
    yield "masked_lm", batch["masked_lm_ids"], batch["masked_lm_weights"]
    if next_sentence:
      labels = batch["next_sentence_labels"][:, 0]
      yield "next_sentence", labels, ops.ones_like(labels, dtype="float32")

  return Objective(
    terms=[f"{task}_loss" for task in tasks],
    metric_names=[f"{task}_accuracy" for task in tasks],
    weights=lambda batch: {f"{task}_loss": w for task, _, w in items(batch)},
    losses=lambda outputs, batch: {
      f"{task}_loss": cross_entropy(outputs[f"{task}_logits"], labels)
      for task, labels, _ in items(batch)
    },
    metrics=lambda outputs, batch: {
      f"{task}_accuracy": (is_correct(outputs[f"{task}_logits"], labels), w)
      for task, labels, w in items(batch)
    },
    epsilon={"masked_lm_loss": 1e-5},
  )


def classification(class_weights: Sequence[float] = ()) -> Objective:
  """Mean cross entropy of `label_ids` [B], weighted by `class_weights` [L]."""

  def weigh(labels):
    if class_weights:
      return ops.take(ops.convert_to_tensor(class_weights, "float32"), labels)
    return ops.ones_like(labels, dtype="float32")

  return _labeling("example_loss", weigh)


def multi_label(class_weights: Sequence[float] = ()) -> Objective:
  """Mean binary cross entropy of `label_ids` [B, L], each 0 or 1.

  `class_weights` [L] multiply the losses of labels that are 1.
  """

  def loss(outputs, batch):
    logits = outputs["logits"]
    is_label = ops.cast(batch["label_ids"], logits.dtype)
    present = is_label * ops.softplus(-logits)
    if class_weights:
      present = present * ops.convert_to_tensor(class_weights, logits.dtype)
    absent = (1.0 - is_label) * ops.softplus(logits)
    return ops.mean(present + absent, axis=-1)

  return _of_examples("label_ids", loss, distance=binary_divergence)


def tagging() -> Objective:
  """Mean cross entropy of the `label_ids` [B, T] that are not negative."""
  return _labeling("word_loss", lambda labels: ops.cast(labels >= 0, "float32"))


def _labeling(term, weigh):
  """Objective of one loss, `term`: cross entropy times `weigh(label_ids)`."""
  return Objective(
    terms=(term,),
    metric_names=("accuracy",),
    weights=lambda batch: {term: weigh(batch["label_ids"])},
    losses=lambda outputs, batch: {
      term: cross_entropy(outputs["logits"], batch["label_ids"])
    },
    metrics=lambda outputs, batch: {
      "accuracy": (
        is_correct(outputs["logits"], batch["label_ids"]),
        weigh(batch["label_ids"]),
      )
    },
  )


def regression() -> Objective:
  """Mean squared error of scores, `label_ids` [B] float (STS-B)."""
  return _of_examples(
    "label_ids",
    lambda outputs, batch: ops.square(
      outputs["logits"][:, 0] - batch["label_ids"]
    ),
    distance=lambda x, y, _: ops.square(x - y)[:, 0],
  )


def span() -> Objective:
  """Mean of start and end cross entropy; 0 for a label past the last token."""

  def loss(outputs, batch):
    start = cross_entropy(outputs["start_logits"], batch["start_positions"])
    end = cross_entropy(outputs["end_logits"], batch["end_positions"])
    return (start + end) / 2.0

  return _of_examples("start_positions", loss)


def _of_examples(labels, loss, **options) -> Objective:
  """Objective with one loss per example in batch[labels], each of weight 1."""
  return Objective(
    terms=("example_loss",),
    metric_names=(),
    weights=lambda batch: {
      "example_loss": ops.ones(ops.shape(batch[labels])[:1], dtype="float32")
    },
    losses=lambda outputs, batch: {"example_loss": loss(outputs, batch)},
    **options,
  )


def binary_divergence(logits, teacher_logits, temperature: float):
  """Mean `divergence` of L yes-or-no labels: [B, L] twice -> [B]."""
  both = logits, teacher_logits
  # [B, L, 2] each
  student, teacher = (ops.stack([x, ops.zeros_like(x)], -1) for x in both)
  return ops.mean(divergence(student, teacher, temperature), axis=-1)


def distilled(
  objective: Objective,
  teacher: Callable[[dict], dict],
  weight: float,
  temperature: float,
) -> Objective:
  """Objective that also follows a teacher's outputs.

  An item's loss is (1 - weight) x its loss in `objective` + weight x distance
  to the teacher. `teacher` maps a batch to outputs, named as the model's.
  Source: Hinton et al. 2015, arXiv 1503.02531, section 2.
  """

  def losses(outputs, batch):
    [(term, own)] = objective.losses(outputs, batch).items()
    targets = teacher(batch)
    distances = [
      objective.distance(outputs[n], ops.stop_gradient(targets[n]), temperature)
      for n in outputs
    ]
    soft = sum(distances) / len(distances)
    return {term: (1.0 - weight) * own + weight * soft}

  return replace(objective, losses=losses)
