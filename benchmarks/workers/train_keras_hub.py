"""Worker: BertMaskedLM of KerasHub, without a next-sentence head."""

import keras
import keras_hub
import tensorflow as tf

from benchmarks import cases
from benchmarks.worker import Answer


def prepare(case: str, warm_up: int) -> Answer:
  case = cases.Case.parse(case)
  if case.dtype == "bfloat16":
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
  config = case.config
  backbone = keras_hub.models.BertBackbone(
    vocabulary_size=config.vocab_size,
    num_layers=config.num_hidden_layers,
    num_heads=config.num_attention_heads,
    hidden_dim=config.hidden_size,
    intermediate_dim=config.intermediate_size,
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
  fields = {k: tf.constant(v) for k, v in cases.batch(case).items()}
  labels = fields["masked_lm_ids"]
  inputs = {
    "token_ids": fields["input_ids"],
    "padding_mask": fields["input_mask"],
    "mask_positions": fields["masked_lm_positions"],
    "segment_ids": fields["segment_ids"],
  }

  def step():
    return float(model.train_on_batch(inputs, labels, return_dict=True)["loss"])

  return cases.timed_steps(step, warm_up)
