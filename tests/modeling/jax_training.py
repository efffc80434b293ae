"""A training step of `modeling` on JAX, without TensorFlow.

Loss, clipping and update are those of training/step.py and
training/optimization.py, on one device. Import it before keras: the backend of
Keras cannot be changed afterwards.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
from jax import numpy as jnp

from modeling.losses import Objective
from modeling.tracing import DropoutSeeds

# Parts of the names of variables without weight decay.
NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")


class State(NamedTuple):
  """All that a step changes.

  Attributes:
    step: scalar int32, updates so far.
    variables: float32, in the order of the model's trainable variables.
    m, v: moving averages of gradients and of their squares.
  """

  step: jax.Array
  variables: list[jax.Array]
  m: list[jax.Array]
  v: list[jax.Array]


class Adam(NamedTuple):
  """Optimizer and schedule of the original; no bias correction."""

  peak: float = 1e-4
  num_train_steps: int = 1_000_000
  num_warmup_steps: int = 10_000
  weight_decay: float = 0.01
  beta_1: float = 0.9
  beta_2: float = 0.999
  epsilon: float = 1e-6
  max_grad_norm: float = 1.0

  def rate(self, step):
    """Learning rate of an update after `step` updates."""
    step = step.astype(jnp.float32)
    fraction = jnp.minimum(step, self.num_train_steps) / self.num_train_steps
    warm_up = self.peak * (step / max(self.num_warmup_steps, 1))
    decayed = self.peak * (1.0 - fraction)
    return jnp.where(step < self.num_warmup_steps, warm_up, decayed)

  def clip(self, gradients):
    """Gradients clipped to a global norm of max_grad_norm, and their norm."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients))
    factor = self.max_grad_norm / jnp.maximum(norm, self.max_grad_norm)
    return [g * factor for g in gradients], norm

  def update(self, name, rate, variable, m, v, gradient):
    """A variable and its averages after an update."""
    m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
    v = self.beta_2 * v + (1.0 - self.beta_2) * jnp.square(gradient)
    change = m / (jnp.sqrt(v) + self.epsilon)
    if not any(part in name for part in NOT_DECAYED):
      change += self.weight_decay * variable
    return variable - rate * change, m, v


def begin(model: keras.Model) -> State:
  """State before the first step, with copies of the model's variables."""
  variables = [jnp.array(v.value) for v in model.trainable_variables]
  zeros = [jnp.zeros_like(variable) for variable in variables]
  return State(
    jnp.zeros((), jnp.int32), variables, zeros, jax.tree.map(jnp.copy, zeros)
  )


def step_function(
  model: keras.Model, objective: Objective, adam: Adam, seed: int = 0
) -> Callable[[State, dict], tuple[State, dict]]:
  """A training step, to be compiled by jax.jit.

  Args:
    model: its own variables do not change.
    objective: loss and metrics.
    adam: optimizer.
    seed: of dropout.

  Returns:
    From a state and a batch to the next state and scalars: `loss`,
    `gradient_norm` and the metrics of the objective.
  """
  fixed = [variable.value for variable in model.non_trainable_variables]
  names = [variable.path for variable in model.trainable_variables]

  def loss_of(variables, step, batch):
    drawn = jnp.stack([jnp.int32(seed), step])
    inputs = {name: batch[name] for name in model.input}
    with DropoutSeeds(drawn):
      outputs, _ = model.stateless_call(variables, fixed, inputs, training=True)
    return _loss(objective, outputs, batch)

  def do_step(state, batch):
    differentiate = jax.value_and_grad(loss_of, has_aux=True)
    (loss, means), gradients = differentiate(state.variables, state.step, batch)
    gradients, norm = adam.clip(gradients)
    rate = adam.rate(state.step)
    parts = zip(
      names, state.variables, state.m, state.v, gradients, strict=True
    )
    updated = [
      adam.update(name, rate, variable, m, v, gradient)
      for name, variable, m, v, gradient in parts
    ]
    new = State(state.step + 1, *map(list, zip(*updated, strict=True)))
    return new, means | {"loss": loss, "gradient_norm": norm}

  return do_step


def _loss(objective, outputs, batch):
  losses, weights = objective.losses(outputs, batch), objective.weights(batch)
  loss = 0.0
  for name, values in losses.items():
    total = jnp.sum(weights[name]) + objective.epsilon.get(name, 0.0)
    loss += jnp.sum(values * weights[name]) / total
  pairs = {name: (losses[name], weights[name]) for name in losses}
  pairs |= objective.metrics(outputs, batch)
  means = {
    name: jnp.sum(values * w) / jnp.maximum(jnp.sum(w), 1e-9)
    for name, (values, w) in pairs.items()
  }
  return loss, means
