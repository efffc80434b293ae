"""What each task minimizes and reports, as sums that add up over devices.

A loss is a sum of terms; a term is a weighted mean over items (masked words,
examples). The mean's denominator is that of the whole batch, however many
replicas and micro-batches it is cut into, so an objective gives the items and
their weights apart and whoever trains divides.

Legend: B batch, T tokens, P predictions, V vocabulary, L labels.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from keras import ops

from modeling import chains
from modeling.gradients import own_gradient


@dataclass(frozen=True)
class Objective:
  """A loss to minimize.

  Attributes:
    terms: names of the terms.
    reported: names of the metrics.
    weights: from a batch to {term: weights of its items}.
    losses: from (outputs, batch) to {term: losses of its items}, same shapes.
    metrics: from (outputs, batch) to {name: (values, weights)}; each is
      reported as a weighted mean.
    epsilon: {term: number added to the sum of weights before dividing}.
  """

  terms: tuple[str, ...]
  reported: tuple[str, ...]
  weights: Callable[[dict], dict]
  losses: Callable[[dict, dict], dict]
  metrics: Callable[[dict, dict], dict] = lambda outputs, batch: {}
  epsilon: Mapping[str, float] = field(default_factory=dict)

  @property
  def names(self) -> tuple[str, ...]:
    """Of all terms and metrics."""
    return self.terms + self.reported


def cross_entropy(logits, labels):
  """-log softmax(logits)[label], in nats; 0 for a label out of range.

  Args:
    logits: [..., L] float.
    labels: [...] int.

  Returns:
    [...] float32.
  """
  size = ops.shape(logits)[-1]
  inside = ops.logical_and(labels >= 0, labels < size)
  labels = ops.where(inside, labels, 0)
  return ops.where(inside, _cross_entropy(logits, labels), 0.0)


def _cross_entropy(logits, labels):
  """The same for labels that are all in range."""

  @own_gradient
  def of_logits(logits):
    shares = _shares(logits)
    # By the largest logit, whose share is never too small for a logarithm.
    largest, place = _largest(shares)
    log_sum = _chosen(logits, place) - ops.log(largest)
    return log_sum - _chosen(
      logits, labels
    ), lambda upstream: chains.cross_entropy_gradient(
      shares, labels, upstream, training=True, dtype=logits.dtype
    )

  return of_logits(logits)


def _chosen(values, labels):
  """One of each row: [..., L], [...] -> [...] float32."""
  found = ops.take_along_axis(values, labels[..., None], axis=-1)
  return ops.cast(found[..., 0], "float32")


def _shares(logits):
  """Softmax in float32."""
  return ops.softmax(ops.cast(logits, "float32"))


def _largest(values):
  """The largest of each row and the place of the first such: [..., L]."""
  # Not argmax, which Keras makes several passes for the sake of -0.0.
  found, places = ops.top_k(values, 1)
  return found[..., 0], places[..., 0]


def _is_right(logits, labels):
  _, best = _largest(_shares(logits))
  return ops.cast(best == ops.cast(labels, best.dtype), "float32")


def pretraining(next_sentence: bool = True) -> Objective:
  """Masked LM plus next sentence (section 3.1 of the paper).

  The masked-LM term is a mean over the words that have a weight, with the
  original's 1e-5 in its denominator.
  """

  def weights(batch):
    terms = {"masked_lm_loss": batch["masked_lm_weights"]}
    if next_sentence:
      terms["next_sentence_loss"] = _one_each(batch["next_sentence_labels"])
    return terms

  def losses(outputs, batch):
    terms = {
      "masked_lm_loss": cross_entropy(
        outputs["masked_lm_logits"], batch["masked_lm_ids"]
      )
    }
    if next_sentence:
      terms["next_sentence_loss"] = cross_entropy(
        outputs["next_sentence_logits"], batch["next_sentence_labels"][:, 0]
      )
    return terms

  def metrics(outputs, batch):
    right = _is_right(outputs["masked_lm_logits"], batch["masked_lm_ids"])
    named = {"masked_lm_accuracy": (right, batch["masked_lm_weights"])}
    if next_sentence:
      labels = batch["next_sentence_labels"]
      right = _is_right(outputs["next_sentence_logits"], labels[:, 0])
      named["next_sentence_accuracy"] = (right, _one_each(labels))
    return named

  tasks = ("masked_lm", "next_sentence") if next_sentence else ("masked_lm",)
  return Objective(
    terms=tuple(f"{task}_loss" for task in tasks),
    reported=tuple(f"{task}_accuracy" for task in tasks),
    weights=weights,
    losses=losses,
    metrics=metrics,
    epsilon={"masked_lm_loss": 1e-5},
  )


def _one_each(labels):
  return ops.ones_like(labels[:, 0], dtype="float32")


def classification() -> Objective:
  """Mean cross entropy of `label_ids` [B]: classes, or which choice is right.

  Source: run_classifier.py of the original.
  """

  def weights(batch):
    return {"example_loss": ops.ones_like(batch["label_ids"], dtype="float32")}

  def losses(outputs, batch):
    return {
      "example_loss": cross_entropy(outputs["logits"], batch["label_ids"])
    }

  def metrics(outputs, batch):
    right = _is_right(outputs["logits"], batch["label_ids"])
    return {"accuracy": (right, ops.ones_like(right))}

  return Objective(("example_loss",), ("accuracy",), weights, losses, metrics)


def tagging() -> Objective:
  """Mean cross entropy of the `label_ids` [B, T] that are not negative."""

  def counts(batch):
    return ops.cast(batch["label_ids"] >= 0, "float32")

  def weights(batch):
    return {"word_loss": counts(batch)}

  def losses(outputs, batch):
    return {"word_loss": cross_entropy(outputs["logits"], batch["label_ids"])}

  def metrics(outputs, batch):
    right = _is_right(outputs["logits"], batch["label_ids"])
    return {"accuracy": (right, counts(batch))}

  return Objective(("word_loss",), ("accuracy",), weights, losses, metrics)


def regression() -> Objective:
  """Mean squared error of a score, `label_ids` [B] float (STS-B)."""

  def weights(batch):
    return {"example_loss": ops.ones_like(batch["label_ids"])}

  def losses(outputs, batch):
    error = outputs["logits"][:, 0] - batch["label_ids"]
    return {"example_loss": ops.square(error)}

  return Objective(("example_loss",), (), weights, losses)


def span() -> Objective:
  """Mean of the start's and the end's cross entropy (run_squad.py).

  A position outside of the sequence contributes nothing, as in the original.
  """

  def weights(batch):
    one_each = ops.ones_like(batch["start_positions"], dtype="float32")
    return {"example_loss": one_each}

  def losses(outputs, batch):
    start = cross_entropy(outputs["start_logits"], batch["start_positions"])
    end = cross_entropy(outputs["end_logits"], batch["end_positions"])
    return {"example_loss": (start + end) / 2.0}

  return Objective(("example_loss",), (), weights, losses)
