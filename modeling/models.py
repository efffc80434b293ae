"""Whole models: named inputs, BERT, a head.

Inputs and outputs carry the names that they have in a record and in a
SavedModel. Batch and length are free.

Legend: B batch, T tokens, P predictions, V vocabulary, L labels.
"""

import keras

from modeling.bert import Bert, LeftToRight
from modeling.config import BertConfig
from modeling.heads import PretrainingHeads, SequenceHead, SpanHead


def _inputs(*names: str) -> dict:
  return {
    name: keras.Input((None,), dtype="int32", name=name) for name in names
  }


TOKENS = ("input_ids", "input_mask", "segment_ids")


def encoder(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """BERT alone: input_ids, input_mask, segment_ids -> all that Bert returns."""
  inputs = _inputs(*TOKENS)
  return keras.Model(inputs, Bert(config, use_one_hot_embeddings)(**inputs))


def pretrainer(
  config: BertConfig,
  next_sentence: bool = True,
  left_to_right: bool = False,
  use_one_hot_embeddings: bool = False,
) -> keras.Model:
  """BERT with its pre-training heads (run_pretraining.py of the original).

  Args:
    config: sizes.
    next_sentence: whether there is a next-sentence head.
    left_to_right: whether a token sees only itself and those before it.
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).

  Returns:
    A model from a dict of `input_ids`, `input_mask`, `segment_ids` [B, T] and
    `masked_lm_positions` [B, P] to a dict of `masked_lm_logits` [B, P, V] and
    `next_sentence_logits` [B, 2].
  """
  inputs = _inputs(*TOKENS, "masked_lm_positions")
  mask = inputs["input_mask"]
  if left_to_right:
    mask = LeftToRight()(mask)
  encode = Bert(config, use_one_hot_embeddings)
  bert = encode(inputs["input_ids"], mask, inputs["segment_ids"])
  encode.pooler.trainable = next_sentence  # nothing else looks at it
  outputs = PretrainingHeads(config, next_sentence)(
    bert["sequence_output"],
    bert["pooled_output"],
    inputs["masked_lm_positions"],
    bert["embedding_table"],
  )
  return keras.Model(inputs, outputs)


def classifier(
  config: BertConfig, num_labels: int, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Labels for a sequence or a pair: tokens -> `logits` [B, L].

  With one label it is a score (STS-B); see losses.regression.
  """
  inputs = _inputs(*TOKENS)
  bert = Bert(config, use_one_hot_embeddings)(**inputs)
  logits = SequenceHead(num_labels, config)(bert["pooled_output"])
  return keras.Model(inputs, {"logits": logits})


def span_labeler(
  config: BertConfig, use_one_hot_embeddings: bool = False
) -> keras.Model:
  """Answers in a text: tokens -> `start_logits`, `end_logits` [B, T]."""
  inputs = _inputs(*TOKENS)
  encode = Bert(config, use_one_hot_embeddings)
  bert = encode(**inputs)
  encode.pooler.trainable = False  # no answer looks at it
  return keras.Model(inputs, SpanHead(config)(bert["sequence_output"]))
