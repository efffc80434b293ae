"""KerasHub's masked LM as a worker of benchmarks/train_step.py.

Its BertMaskedLM and Keras' AdamW, trained by `train_on_batch`. It has no
next-sentence head, so its step is a little less work than that of others.
"""

import functools
import sys

import keras
import keras_hub
import tensorflow as tf

from benchmarks import threads, train_step_data
from benchmarks.train_step_data import Case


def main(case: Case) -> None:
  threads.use(case.threads)
  if case.dtype == "bfloat16":
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
  backbone = keras_hub.models.BertBackbone(
    vocabulary_size=train_step_data.VOCAB_SIZE,
    num_layers=case.layers,
    num_heads=case.heads,
    hidden_dim=case.hidden,
    intermediate_dim=4 * case.hidden,
    dropout=0.1,
  )
  model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
  optimizer = keras.optimizers.AdamW(
    keras.optimizers.schedules.PolynomialDecay(1e-4, 10**6, 0.0),
    weight_decay=0.01,
    global_clipnorm=1.0,
  )
  optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
  model.compile(
    optimizer,
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[],
  )
  fields = train_step_data.batch(case)
  inputs = {
    "token_ids": fields["input_ids"],
    "padding_mask": fields["input_mask"],
    "segment_ids": fields["segment_ids"],
    "mask_positions": fields["masked_lm_positions"],
  }
  inputs = {name: tf.constant(value) for name, value in inputs.items()}
  labels = tf.constant(fields["masked_lm_ids"])
  step = functools.partial(
    model.train_on_batch, inputs, labels, return_dict=True
  )
  train_step_data.serve(lambda: float(step()["loss"]))


if __name__ == "__main__":
  main(Case.parse(sys.argv[1:]))
