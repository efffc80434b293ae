"""Whole models: named inputs, BERT, a head.

Inputs and outputs carry the names that they have in a record and in a
SavedModel. Batch and length are free.

Legend: B batch, C choices, T tokens, P predictions, V vocabulary, L labels.
"""

import keras

from modeling.bert import Bert
from modeling.config import BertConfig
from modeling.heads import (
  ChoiceHead,
  LabelHead,
  OneByOne,
  PretrainingHeads,
  SpanHead,
)
from modeling.shallow import Shallow

TOKENS = ("input_ids", "input_mask", "segment_ids")


def named_inputs(*names: str, shape=(None,)) -> dict:
  return {name: keras.Input(shape, dtype="int32", name=name) for name in names}


def network(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> Bert | Shallow:
  """A fresh layer of what the configuration says, named `bert`."""
  kind = Shallow if config.attention == "shallow" else Bert
  return kind(config, use_one_hot_embeddings)


def encoder(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """BERT alone: input_ids, input_mask, segment_ids -> all that Bert returns."""
  inputs = named_inputs(*TOKENS)
  return keras.Model(inputs, network(config, use_one_hot_embeddings)(**inputs))


def pretrainer(
  config: BertConfig,
  next_sentence: bool = True,
  use_one_hot_embeddings: bool = False,
) -> keras.Model:
  """BERT with its pre-training heads (run_pretraining.py of the original).

  Args:
    config: sizes.
    next_sentence: whether there is a next-sentence head.
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).

  Returns:
    A model from a dict of `input_ids`, `input_mask`, `segment_ids` [B, T] and
    `masked_lm_positions` [B, P] to a dict of `masked_lm_logits` [B, P, V] and
    `next_sentence_logits` [B, 2].

  Raises:
    ValueError: the attention is shallow; each side is pre-trained by itself.
  """
  if config.attention == "shallow":
    raise ValueError(
      "attention 'shallow' is for fine-tuning: pre-train a left_to_right and a "
      "right_to_left model, and begin with both"
    )
  inputs = named_inputs(*TOKENS, "masked_lm_positions")
  encode = network(config, use_one_hot_embeddings)
  tokens = {name: inputs[name] for name in TOKENS}
  bert = encode(**tokens, positions=inputs["masked_lm_positions"])
  if not next_sentence:
    encode.leave_pooler()  # nothing else looks at it
  outputs = PretrainingHeads(config, next_sentence)(
    bert["sequence_output"],
    bert["pooled_output"],
    bert["embedding_table"],
  )
  return keras.Model(inputs, outputs)


def classifier(
  config: BertConfig, num_labels: int, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Labels for a sequence or a pair: tokens -> `logits` [B, L].

  With one label it is a score (STS-B); see losses.regression.
  """
  inputs = named_inputs(*TOKENS)
  pooled = _pooled(network(config, use_one_hot_embeddings), inputs)
  logits = LabelHead(num_labels, config)(pooled)
  return keras.Model(inputs, {"logits": logits})


def span_labeler(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Answers in a text: tokens -> `start_logits`, `end_logits` [B, T]."""
  inputs = named_inputs(*TOKENS)
  encode = network(config, use_one_hot_embeddings)
  bert = encode(**inputs)
  encode.leave_pooler()
  return keras.Model(inputs, SpanHead(config)(bert["sequence_output"]))


def tagger(
  config: BertConfig, num_tags: int, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """A tag for every token: tokens -> `logits` [B, T, L].

  Section 5.3 of the paper; see modeling/feature_based.py for its other half.
  """
  inputs = named_inputs(*TOKENS)
  encode = network(config, use_one_hot_embeddings)
  bert = encode(**inputs)
  encode.leave_pooler()
  logits = LabelHead(num_tags, config)(bert["sequence_output"])
  return keras.Model(inputs, {"logits": logits})


def multiple_choice(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Which of some texts is right: tokens, [B, C, T] each -> `logits` [B, C]."""
  inputs = named_inputs(*TOKENS, shape=(None, None))
  flat = {name: OneByOne()(value) for name, value in inputs.items()}
  pooled = _pooled(network(config, use_one_hot_embeddings), flat)
  logits = ChoiceHead(config)(pooled, inputs["input_ids"])
  return keras.Model(inputs, {"logits": logits})


def _pooled(encode, tokens):
  """The pooled vector of each sequence; no token's own is asked for."""
  nowhere = tokens["input_ids"][:, :0]
  return encode(**tokens, positions=nowhere)["pooled_output"]
