"""Configuration of the network: bert_config.json and the published sizes.

Sources: `BertConfig` of the original; section 3 of the paper (base and large);
arXiv 1908.08962 (24 small models).
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from storage import UserError, files, setting, textfiles

ACTIVATIONS = ("gelu", "gelu_erf", "relu", "tanh", "linear")
SIDES = ("left_to_right", "right_to_left")
ATTENTION = ("bidirectional", *SIDES, "shallow")
INITIAL_ATTENTION = ("random", "structured")
# {input of the feature-based tagger: number of the last layers to take}, as in
# table 7 of the paper. 0 means all layers, but no layer for "embeddings".
FEATURE_LAYERS = {
  "embeddings": 0,
  "second_to_last": 2,
  "last": 1,
  "weighted_sum_last_four": 4,
  "concat_last_four": 4,
  "weighted_sum_all": 0,
}
# Poolings of models.layer_outputs; "none" returns a vector for each token.
POOLINGS = ("none", "mean", "cls")
# Fields that the original lacks. A field with its default value is not saved.
EXTENSIONS = ("attention", "add_bilstm", "initial_attention", "fixed_positions")

# {type of a field: (name in messages, types of values)}
_TYPES: dict[Any, tuple[str, Any]] = {
  str: ("a string", str | None),
  bool: ("true or false", bool),
  int: ("an integer", int),
  float: ("a number", int | float),
}
# {name of a preset: (layers, hidden size)}
PRESETS = {
  "tiny": (2, 128),
  "mini": (4, 256),
  "small": (4, 512),
  "medium": (8, 512),
  "base": (12, 768),
  "large": (24, 1024),
} | {
  f"L-{layers}_H-{hidden}": (layers, hidden)
  for layers in (2, 4, 6, 8, 10, 12)
  for hidden in (128, 256, 512, 768)
}


def check_feature_layers(choice: str, num_layers: int) -> None:
  """Raises ValueError if `choice` takes more than `num_layers` layers."""
  if num_layers < FEATURE_LAYERS[choice]:
    raise UserError(
      f"{setting('feature_layers', choice)} takes {FEATURE_LAYERS[choice]} "
      f"layers, but bert_config.json has num_hidden_layers {num_layers}: take "
      "another"
    )


def without_shape(values: dict) -> dict:
  """Number of heads and activation of a bert_config.json.

  They change a trained model's outputs, but no shape of a variable shows them.
  Returns {} for `values` that are no configuration.
  """
  with suppress(UserError):
    config = BertConfig.from_dict(values)
    heads = {"num_attention_heads": config.num_attention_heads}
    return heads | {"hidden_act": config.hidden_act}
  return {}


def extensions(flag_values: Mapping) -> dict:
  """Returns the EXTENSIONS that flags set, which override bert_config.json."""
  return {k: flag_values[k] for k in EXTENSIONS if flag_values.get(k)}


@dataclasses.dataclass(frozen=True)
class BertConfig:
  """Hyper-parameters with the original's names. Raises ValueError if invalid.

  >>> config = BertConfig.preset("tiny")
  >>> config.num_hidden_layers, config.hidden_size
  (2, 128)
  """

  vocab_size: int
  hidden_size: int = 768  # a multiple of num_attention_heads
  num_hidden_layers: int = 12  # Transformer blocks
  num_attention_heads: int = 12  # in each block
  intermediate_size: int = 3072  # inside the feed-forward network
  # "gelu" is the tanh approximation. Hugging Face calls "gelu_erf" "gelu".
  hidden_act: str = "gelu"
  hidden_dropout_prob: float = 0.1  # of embeddings and every projection
  attention_probs_dropout_prob: float = 0.1
  max_position_embeddings: int = 512  # longest sequence
  type_vocab_size: int = 16  # number of segment ids
  initializer_range: float = 0.02  # standard deviation of initial weights
  # In "left_to_right" and "right_to_left", a token attends to one side (section
  # 5.1 of the paper). "shallow" concatenates a network of each direction.
  attention: str = "bidirectional"
  add_bilstm: bool = False  # a bidirectional LSTM on top of the encoder
  use_one_hot_embeddings: bool = False  # look up by a matrix product, for TPUs
  # "structured": the first block's heads, even in number and size, initially
  # attend to neighbors and to the same word in the other segment.
  initial_attention: str = "random"
  fixed_positions: bool = False  # sinusoids; hidden_size is a multiple of 4

  def __post_init__(self):
    for field in dataclasses.fields(self):
      value, (kind, types) = getattr(self, field.name), _TYPES[field.type]
      if not isinstance(value, types):
        raise UserError(f"{field.name} must be {kind}, not {value!r}")
      if field.type is int and value < 1:
        raise UserError(f"{field.name} must be positive, not {value}")
    # JSON null is the original's None.
    activation = (self.hidden_act or "linear").lower()
    object.__setattr__(self, "hidden_act", activation)
    known = {"hidden_act": ACTIVATIONS, "attention": ATTENTION}
    known["initial_attention"] = INITIAL_ATTENTION
    for name, values in known.items():
      if (value := getattr(self, name)) not in values:
        names = ", ".join(values)
        raise UserError(f"{name} {value!r} is unknown; known are {names}")
    heads, size = self.num_attention_heads, self.hidden_size
    if size % heads:
      raise UserError(
        f"hidden_size {size} is not a multiple of num_attention_heads {heads}"
      )
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
      if not 0 <= getattr(self, name) < 1:
        raise UserError(f"{name} {getattr(self, name)} is not from 0 to 1")
    is_odd = heads % 2 or size // heads % 2
    if self.initial_attention == "structured" and is_odd:
      raise UserError('"structured" heads need an even number and size')
    if self.fixed_positions and size % 4:
      raise UserError("fixed_positions need a multiple of 4 as hidden_size")
    if self.add_bilstm and size % 2:
      raise UserError("add_bilstm needs an even hidden_size")

  @property
  def encoder_output_size(self) -> int:
    """Width of a token's vector in the heads' input."""
    return self.hidden_size * (2 if self.attention == "shallow" else 1)

  @classmethod
  def from_dict(cls, values: dict) -> "BertConfig":
    """Makes a configuration from parsed JSON; ignores unknown keys."""
    known = {field.name for field in dataclasses.fields(cls)}
    if "vocab_size" not in values:
      raise UserError("vocab_size is missing")
    return cls(**{key: values[key] for key in values if key in known})

  @classmethod
  def from_json(cls, path: str) -> "BertConfig":
    """Reads bert_config.json; raises ValueError with the file and the key."""
    values = textfiles.read_json(path)
    try:
      return cls.from_dict(values)
    except UserError as error:
      raise UserError(f"{path}: {error}") from None

  @classmethod
  def preset(
    cls, name: str, vocab_size: int = 30522, from_scratch: bool = False
  ) -> "BertConfig":
    """Makes the configuration of a published size, a key of PRESETS.

    `from_scratch` turns dropout off, and chooses the number of heads and the
    initial values with which small models learn soonest (docs/pretraining.md).
    """
    if name not in PRESETS:
      raise UserError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    layers, hidden = PRESETS[name]
    published = cls(
      vocab_size=vocab_size,
      hidden_size=hidden,
      num_hidden_layers=layers,
      num_attention_heads=hidden // 64,
      intermediate_size=4 * hidden,
      type_vocab_size=2,
    )
    if not from_scratch:
      return published
    return dataclasses.replace(
      published,
      initial_attention="structured",
      num_attention_heads=max(4, hidden // 64),
      initializer_range=round(0.9 * hidden**-0.5, 3),
      hidden_dropout_prob=0.0,
      attention_probs_dropout_prob=0.0,
    )

  def check_length(self, max_seq_length: int) -> None:
    """Raises ValueError if a length exceeds the model's positions."""
    if max_seq_length > self.max_position_embeddings:
      raise UserError(
        f"max_seq_length {max_seq_length} exceeds max_position_embeddings "
        f"{self.max_position_embeddings} in bert_config.json"
      )

  def check_layers(self, layers: Iterable[int]) -> None:
    """Raises ValueError if one of `layers` does not exist; -1 is the last."""
    number = self.num_hidden_layers
    for layer in layers:
      if not -number <= layer < number:
        raise UserError(
          f"there is no layer {layer}: the model has {number}, "
          f"0 to {number - 1} from below or -1 to {-number} from above"
        )

  def to_dict(self) -> dict:
    """Returns the original's fields, and other fields if not the default."""
    added = (*EXTENSIONS, "use_one_hot_embeddings")
    return {
      field.name: getattr(self, field.name)
      for field in dataclasses.fields(self)
      if field.name not in added or getattr(self, field.name) != field.default
    }

  def to_json(self, path: str) -> None:
    text = json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"
    files.write_text(path, text)
