"""Models of the tasks: named inputs, BERT, a head.

Inputs and outputs, named as in records and SavedModels, have any B, T and P.
Importing this module registers all layers with Keras. N is a number of layers.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace

import keras
from keras import ops

from modeling import encoder_variants, heads
from modeling.bert import Bert
from modeling.config import FEATURE_LAYERS, BertConfig, check_feature_layers
from modeling.encoder_variants import ConcatEncoders, PoolWindows, Windows
from modeling.layers import initializer
from storage import UserError

ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")
# Matches an encoder's variables, also in the two scopes of "shallow".
_LAYER = re.compile(
  r"bert/(?:left_to_right/|right_to_left/)?(\w+)/(?:layer_(\d+)/)?"
)


def _named_inputs(*names, shape=(None,)):
  return {name: keras.Input(shape, dtype="int32", name=name) for name in names}


def make_encoder(
  config: BertConfig, trains_pooler: bool = True
) -> Bert | ConcatEncoders:
  """Makes the encoder that the configuration describes, named `bert`."""
  kind = ConcatEncoders if config.attention == "shallow" else Bert
  made = kind(config)
  for bert in made.encoders if isinstance(made, ConcatEncoders) else [made]:
    bert.pooler.trainable = trains_pooler
  return made


def encoder(config: BertConfig) -> keras.Model:
  """Makes a model that maps ENCODER_INPUTS to Bert's outputs."""
  inputs = _named_inputs(*ENCODER_INPUTS)
  return keras.Model(inputs, make_encoder(config)(**inputs))


def layer_outputs(
  config: BertConfig,
  layers: Sequence[int],
  pooling: str = "none",
  windows: Windows | None = None,
) -> keras.Model:
  """Makes an encoder that returns chosen layers; -1 is the last layer.

  Maps ENCODER_INPUTS [B, T] to `values`, float32 [B, T, N, H]. A pooling makes
  [B, N, H]: "mean" of all tokens but padding, or "cls". `windows` of long texts
  need a pooling. Raises ValueError if a layer does not exist.
  """
  config.check_layers(layers)
  tokens = inputs = _named_inputs(*ENCODER_INPUTS)
  if windows:
    tokens, is_there = windows.cut(inputs)
  bert = make_encoder(config, trains_pooler=False)
  outputs = bert(**tokens)["encoder_layers"]
  values = ops.stack([outputs[i] for i in layers], axis=2)  # [B, T, N, H]
  values = ops.cast(values, "float32")
  if pooling == "mean":
    values = mean_of_tokens(values, tokens["input_mask"])
  elif pooling == "cls":
    values = values[:, 0]
  if windows:
    values = PoolWindows(windows.pooling)(values, is_there)
  return keras.Model(inputs, {"values": values})


def mean_of_tokens(values, input_mask):
  """Mean over all tokens but padding: [B, T, N, H], [B, T] -> [B, N, H]."""
  # LiteRT cannot slice with a new axis, hence expand_dims.
  weights = ops.expand_dims(ops.cast(input_mask, values.dtype), (2, 3))
  number = ops.maximum(ops.sum(weights, axis=1), 1.0)
  return ops.sum(values * weights, axis=1) / number


def pretrainer(config: BertConfig, next_sentence: bool = True) -> keras.Model:
  """Makes BERT with the masked-LM head and, if wanted, the next-sentence head.

  Maps ENCODER_INPUTS [B, T] and `masked_lm_positions` [B, P] to the logits of
  PretrainingHeads. Raises ValueError for shallow attention, whose two encoders
  are pre-trained separately.
  """
  if config.attention == "shallow":
    raise UserError(
      "attention 'shallow' is for fine-tuning: pre-train a left_to_right and a "
      "right_to_left model, and start from both"
    )
  inputs = _named_inputs(*ENCODER_INPUTS, "masked_lm_positions")
  # Only the next-sentence head reads the pooler.
  bert = make_encoder(config, trains_pooler=next_sentence)
  tokens = {name: inputs[name] for name in ENCODER_INPUTS}
  outputs = bert(**tokens, positions=inputs["masked_lm_positions"])
  head = heads.PretrainingHeads(config, next_sentence)
  masked, table = outputs["sequence_output"], outputs["embedding_table"]
  logits = head(masked, outputs["pooled_output"], table)
  return keras.Model(inputs, logits)


def classifier(
  config: BertConfig, num_labels: int, windows: Windows | None = None
) -> keras.Model:
  """Makes a classifier of sequences or pairs: tokens -> `logits` [B, L].

  A single label is a score (STS-B). `windows` allow texts that are longer than
  the encoder's positions.
  """
  tokens = inputs = _named_inputs(*ENCODER_INPUTS)
  if windows:
    tokens, is_there = windows.cut(inputs)
  pooled = _pooled(make_encoder(config), tokens)
  if windows:
    pooled = PoolWindows(windows.pooling)(pooled, is_there)
  logits = heads.ClassificationHead(num_labels, config)(pooled)
  return keras.Model(inputs, {"logits": logits})


def ensemble(parts: Sequence[keras.Model], combine: Callable) -> keras.Model:
  """Joins models of one kind to one model; returns a single model unchanged.

  `combine` maps an output's values from K models to one value. It is one of
  mean_probs, mean_odds, mean_values and stack.
  """
  if len(parts) == 1:
    return parts[0]
  inputs = {
    name: keras.Input(value.shape[1:], dtype=value.dtype, name=name)
    for name, value in parts[0].input.items()
  }
  outputs = [part(inputs) for part in parts]
  names = outputs[0]
  combined = {name: combine([o[name] for o in outputs]) for name in names}
  return keras.Model(inputs, combined)


def members(model: keras.Model) -> list[keras.Model]:
  """Returns the models that `ensemble` joined; [] for a model of another kind.

  >>> config = BertConfig.preset("tiny", vocab_size=99)
  >>> parts = [classifier(config, 3), classifier(config, 3)]
  >>> members(ensemble(parts, mean_probs)) == parts
  True
  """
  return [layer for layer in model.layers if isinstance(layer, keras.Model)]


def mean_probs(logits: Sequence):
  """Logarithm of the mean of softmaxes: K arrays [..., L] -> [..., L]."""
  log_probs = ops.stack([ops.log_softmax(value) for value in logits])
  return ops.logsumexp(log_probs, axis=0) - math.log(len(logits))


def mean_odds(logits: Sequence):
  """Logits of the mean of sigmoids: K arrays [..., L] -> [..., L]."""
  logits = ops.stack(logits)
  present = ops.logsumexp(ops.log_sigmoid(logits), axis=0)
  return present - ops.logsumexp(ops.log_sigmoid(-logits), axis=0)


def mean_values(scores: Sequence):
  """Mean of scores: K arrays [...] -> [...]."""
  return ops.mean(ops.stack(scores), axis=0)


def stack(values: Sequence):
  """Stacks all members' values for decoding: K arrays [...] -> [..., K]."""
  return ops.stack(values, axis=-1)


def packed(model: keras.Model) -> keras.Model:
  """Makes a model of packed rows, for training, with the layers of `model`.

  `model` is a `pretrainer`, `classifier`, `multiple_choice` or `tagger`, with
  one bidirectional encoder, no BiLSTM and no windows. Inputs are the arguments
  of PackedBert; the `output_slots` of `multiple_choice` are [B, C, 1]. A tagger
  has no output positions, and its logits are [R, T, L].
  """
  head = model.layers[-1]
  encoder = encoder_variants.PackedBert(model.get_layer("bert"))
  rows = _named_inputs(*ENCODER_INPUTS, "position_ids")
  if isinstance(head, heads.ClassificationHead) and len(head.output.shape) == 3:
    logits = head(encoder(**rows)["sequence_output"])
    return keras.Model(rows, {"logits": logits})
  rows |= _named_inputs("output_positions")
  if isinstance(head, heads.MultipleChoiceHead):
    slots = _named_inputs("output_slots", shape=(None, 1))
    flat = heads.FlattenChoices()(slots["output_slots"])
    pooled = encoder(**rows, output_slots=flat)["pooled_output"]
    logits = head(pooled, slots["output_slots"])
    return keras.Model(rows | slots, {"logits": logits})
  rows |= _named_inputs("output_slots")
  outputs = encoder(**rows)
  pooled = outputs["pooled_output"]
  if isinstance(head, heads.PretrainingHeads):
    masked, table = outputs["sequence_output"], outputs["embedding_table"]
    return keras.Model(rows, head(masked, pooled, table))
  return keras.Model(rows, {"logits": head(pooled)})


def multiple_choice(config: BertConfig) -> keras.Model:
  """Makes a multiple-choice model: tokens, [B, C, T] -> `logits` [B, C]."""
  inputs = _named_inputs(*ENCODER_INPUTS, shape=(None, None))
  flat = {name: heads.FlattenChoices()(value) for name, value in inputs.items()}
  pooled = _pooled(make_encoder(config), flat)
  logits = heads.MultipleChoiceHead(config)(pooled, inputs["input_ids"])
  return keras.Model(inputs, {"logits": logits})


def _pooled(bert, tokens):
  """Pooled vectors [B, H]. The last block computes only the pooled tokens."""
  no_positions = tokens["input_ids"][:, :0]
  return bert(**tokens, positions=no_positions)["pooled_output"]


def span_labeler(config: BertConfig) -> keras.Model:
  """Makes a SQuAD model: tokens -> `start_logits`, `end_logits` [B, T]."""
  inputs = _named_inputs(*ENCODER_INPUTS)
  outputs = make_encoder(config, trains_pooler=False)(**inputs)
  logits = heads.SpanHead(config)(outputs["sequence_output"])
  return keras.Model(inputs, logits)


def tagger(config: BertConfig, num_tags: int) -> keras.Model:
  """Makes a classifier of tokens (paper, 5.3): tokens -> `logits` [B, T, L]."""
  inputs = _named_inputs(*ENCODER_INPUTS)
  outputs = make_encoder(config, trains_pooler=False)(**inputs)
  head = heads.ClassificationHead(num_tags, config)
  logits = head(outputs["sequence_output"])
  return keras.Model(inputs, {"logits": logits})


def feature_based_tagger(
  config: BertConfig,
  num_tags: int,
  choice: str,
  units: int = 768,
  any_device: bool = False,
) -> keras.Model:
  """Makes a BiLSTM tagger of a frozen BERT: tokens -> `logits` [B, T, L].

  `choice` is one of FEATURE_LAYERS, and `units` is the size per direction. With
  `any_device`, an export made on a GPU runs without cuDNN, too. Raises
  ValueError if BERT has too few layers. Source: table 7 of the paper.
  """
  check_feature_layers(choice, config.num_hidden_layers)
  inputs = _named_inputs(*ENCODER_INPUTS)
  # Features have no dropout. A functional Keras model passes `training` to
  # every layer, so the rates must be 0.
  bert = make_encoder(
    replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
  )
  bert.trainable = False
  outputs = bert(**inputs)
  layers = outputs["encoder_layers"][-FEATURE_LAYERS[choice] :]
  hidden_states = layers[0]
  if choice == "embeddings":
    hidden_states = outputs["embedding_output"]
  elif choice.startswith("weighted_sum"):
    hidden_states = heads.WeightedSum()(layers)
  elif choice.startswith("concat"):
    hidden_states = ops.concatenate(layers, axis=-1)
  lstm = heads.BiLstm(units, use_cudnn=False if any_device else "auto")
  hidden_states = lstm(hidden_states, inputs["input_mask"])
  logits = keras.layers.Dense(
    num_tags, kernel_initializer=initializer(config), name="tags"
  )(hidden_states)
  return keras.Model(inputs, {"logits": ops.cast(logits, "float32")})


# --- Layers of variables -----------------------------------------------------


def layerwise_lr_multipliers(names: Iterable[str], decay: float) -> list[float]:
  """Learning rate multipliers of named variables, lower for lower layers.

  A multiplier is 1 for the head, `decay` for the last block and the pooler,
  `decay` squared for the block below, and so on. Source: Howard and Ruder 2018,
  arXiv 1801.06146.
  """
  layers = [_layer_of(name) for name in names]
  numbers = [number for _, number in layers if number is not None]
  top = max(numbers, default=-1)
  depths = {"": 0, "embeddings": 2 + top}
  return [
    decay ** (depths.get(part, 1) if number is None else 1 + top - number)
    for part, number in layers
  ]


def freeze(model, frozen: Set[tuple[str, int | None]]) -> None:
  """Makes the variables of some layers non-trainable.

  ("encoder", 3) is a block, ("pooler", None) a part of the network. Clipping
  then ignores the gradients of these variables. Dropout stays active.
  """
  for variable in model.variables:
    part, block = _layer_of(variable.path)
    if frozen & {(part, block), (part, None)}:
      variable.trainable = False


def _layer_of(name: str) -> tuple[str, int | None]:
  """Returns ("encoder", 3) for block 3; otherwise (part or "", None)."""
  match = _LAYER.match(name)
  part, number = match.groups() if match else ("", None)
  return part, int(number) if part == "encoder" and number else None
