"""Models of the tasks: named inputs, BERT, a head.

Inputs and outputs have their names in records and SavedModels. Batch size and
sequence length are free.

Legend: B batch, C choices, T tokens, P predictions, V vocabulary, L labels.
"""

import keras

from modeling.bert import Bert
from modeling.concat_encoders import ConcatEncoders
from modeling.config import BertConfig
from modeling.heads import (
  ClassificationHead,
  FlattenChoices,
  MultipleChoiceHead,
  PretrainingHeads,
  SpanHead,
)

ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def named_inputs(*names: str, shape=(None,)) -> dict:
  return {name: keras.Input(shape, dtype="int32", name=name) for name in names}


def make_encoder(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> Bert | ConcatEncoders:
  """Makes the encoder that the configuration describes, named `bert`."""
  kind = ConcatEncoders if config.attention == "shallow" else Bert
  return kind(config, use_one_hot_embeddings)


def encoder(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Makes a model from ENCODER_INPUTS to the outputs of Bert."""
  inputs = named_inputs(*ENCODER_INPUTS)
  return keras.Model(
    inputs, make_encoder(config, use_one_hot_embeddings)(**inputs)
  )


def pretrainer(
  config: BertConfig,
  next_sentence: bool = True,
  use_one_hot_embeddings: bool = False,
) -> keras.Model:
  """Makes BERT with its pre-training heads (run_pretraining.py).

  Args:
    config: sizes.
    next_sentence: False for no next-sentence head.
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).

  Returns:
    A model from a dict of `input_ids`, `input_mask`, `segment_ids` [B, T] and
    `masked_lm_positions` [B, P] to a dict of `masked_lm_logits` [B, P, V] and
    `next_sentence_logits` [B, 2].

  Raises:
    ValueError: the attention is shallow; its encoders are pre-trained alone.
  """
  if config.attention == "shallow":
    raise ValueError(
      "attention 'shallow' is for fine-tuning: pre-train a left_to_right and a "
      "right_to_left model, and start from both"
    )
  inputs = named_inputs(*ENCODER_INPUTS, "masked_lm_positions")
  encode = make_encoder(config, use_one_hot_embeddings)
  tokens = {name: inputs[name] for name in ENCODER_INPUTS}
  bert = encode(**tokens, positions=inputs["masked_lm_positions"])
  if not next_sentence:
    encode.freeze_pooler()  # the next-sentence head alone uses it
  outputs = PretrainingHeads(config, next_sentence)(
    bert["sequence_output"],
    bert["pooled_output"],
    bert["embedding_table"],
  )
  return keras.Model(inputs, outputs)


def classifier(
  config: BertConfig, num_labels: int, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Makes a classifier of sequences or pairs: tokens -> `logits` [B, L].

  With one label it predicts a score (STS-B); see losses.regression.
  """
  inputs = named_inputs(*ENCODER_INPUTS)
  pooled = _pooled(make_encoder(config, use_one_hot_embeddings), inputs)
  logits = ClassificationHead(num_labels, config)(pooled)
  return keras.Model(inputs, {"logits": logits})


def span_labeler(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Makes a SQuAD model: tokens -> `start_logits`, `end_logits` [B, T]."""
  inputs = named_inputs(*ENCODER_INPUTS)
  encode = make_encoder(config, use_one_hot_embeddings)
  bert = encode(**inputs)
  encode.freeze_pooler()
  return keras.Model(inputs, SpanHead(config)(bert["sequence_output"]))


def tagger(
  config: BertConfig, num_tags: int, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Makes a classifier of tokens: tokens -> `logits` [B, T, L].

  Source: section 5.3 of the paper; feature_based.tagger is the frozen variant.
  """
  inputs = named_inputs(*ENCODER_INPUTS)
  encode = make_encoder(config, use_one_hot_embeddings)
  bert = encode(**inputs)
  encode.freeze_pooler()
  logits = ClassificationHead(num_tags, config)(bert["sequence_output"])
  return keras.Model(inputs, {"logits": logits})


def multiple_choice(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Makes a multiple-choice model: tokens, [B, C, T] -> `logits` [B, C]."""
  inputs = named_inputs(*ENCODER_INPUTS, shape=(None, None))
  flat = {name: FlattenChoices()(value) for name, value in inputs.items()}
  pooled = _pooled(make_encoder(config, use_one_hot_embeddings), flat)
  logits = MultipleChoiceHead(config)(pooled, inputs["input_ids"])
  return keras.Model(inputs, {"logits": logits})


def _pooled(encode, tokens):
  """Pooled vectors [B, H], without computing the last block's other tokens."""
  no_positions = tokens["input_ids"][:, :0]
  return encode(**tokens, positions=no_positions)["pooled_output"]
