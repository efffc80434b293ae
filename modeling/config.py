"""The size of a BERT: what bert_config.json says, and the published presets.

Source: `BertConfig` in modeling.py of the original; the sizes are those of the
paper (section 3) and of the 24 small models of arXiv 1908.08962.
"""

import dataclasses
import json
from pathlib import Path

ACTIVATIONS = ("gelu", "gelu_erf", "relu", "tanh", "linear")
ATTENTION = ("both", "left_to_right", "right_to_left", "shallow")
# What the original had not; written only where it is not the default.
EXTENSIONS = ("attention", "add_bilstm")

# layers, hidden size
_NAMED = {
  "tiny": (2, 128),
  "mini": (4, 256),
  "small": (4, 512),
  "medium": (8, 512),
  "base": (12, 768),
  "large": (24, 1024),
}


@dataclasses.dataclass(frozen=True)
class BertConfig:
  """Hyper-parameters of the network, under the original's names.

  Attributes:
    vocab_size: number of token ids.
    hidden_size: width of the encoder, a multiple of num_attention_heads.
    num_hidden_layers: number of Transformer blocks.
    num_attention_heads: heads per block.
    intermediate_size: width between the two layers of the feed-forward part.
    hidden_act: "gelu" (the tanh approximation), "gelu_erf" (the exact form,
      which Hugging Face calls "gelu"), "relu", "tanh" or "linear".
    hidden_dropout_prob: dropout after embeddings and after every projection.
    attention_probs_dropout_prob: dropout of attention weights.
    max_position_embeddings: longest sequence the model can take.
    type_vocab_size: number of segment ids.
    initializer_range: standard deviation of initial weights.
    attention: where a token looks, itself included: "both" sides, or one only,
      "left_to_right" or "right_to_left" (section 5.1 of the paper). "shallow"
      is one network of either kind side by side.
    add_bilstm: a bidirectional LSTM stands on top of the encoder.

  Raises:
    ValueError: a value that no model can have, by name.
  """

  vocab_size: int
  hidden_size: int = 768
  num_hidden_layers: int = 12
  num_attention_heads: int = 12
  intermediate_size: int = 3072
  hidden_act: str = "gelu"
  hidden_dropout_prob: float = 0.1
  attention_probs_dropout_prob: float = 0.1
  max_position_embeddings: int = 512
  type_vocab_size: int = 16
  initializer_range: float = 0.02
  attention: str = "both"
  add_bilstm: bool = False

  def __post_init__(self):
    for field in dataclasses.fields(self):
      _check_type(field, getattr(self, field.name))
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
      if not 0.0 <= getattr(self, name) < 1.0:
        raise ValueError(f"{name} must be in [0, 1), not {getattr(self, name)}")
    if self.hidden_act is None:  # JSON null, as the original's None
      object.__setattr__(self, "hidden_act", "linear")
    object.__setattr__(self, "hidden_act", self.hidden_act.lower())
    for name, known in (("hidden_act", ACTIVATIONS), ("attention", ATTENTION)):
      if getattr(self, name) not in known:
        raise ValueError(
          f"{name} {getattr(self, name)!r} is unknown; known are "
          + ", ".join(known)
        )
    if self.hidden_size % self.num_attention_heads:
      raise ValueError(
        f"hidden_size {self.hidden_size} is not a multiple of "
        f"num_attention_heads {self.num_attention_heads}"
      )
    if self.add_bilstm and self.hidden_size % 2:
      raise ValueError(
        f"add_bilstm: hidden_size {self.hidden_size} has no two halves"
      )

  @property
  def output_size(self) -> int:
    """Width of a token's vector as heads get it: of both networks, if two."""
    return self.hidden_size * (2 if self.attention == "shallow" else 1)

  @classmethod
  def from_dict(cls, values: dict) -> "BertConfig":
    """Takes what it knows from a parsed bert_config.json; spare keys pass."""
    if not isinstance(values, dict):
      raise ValueError(f"expected a JSON object, not {type(values).__name__}")
    known = {field.name for field in dataclasses.fields(cls)}
    if "vocab_size" not in values:
      raise ValueError("vocab_size is missing")
    return cls(**{key: values[key] for key in values if key in known})

  @classmethod
  def from_json(cls, path: str) -> "BertConfig":
    """Reads a bert_config.json.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: what is in it is no configuration; names file and key.
    """
    try:
      return cls.from_dict(json.loads(_read(path)))
    except json.JSONDecodeError as error:
      raise ValueError(
        f"{path} is not JSON ({error}): --bert_config_file is the "
        "bert_config.json that comes with a checkpoint"
      ) from None
    except FileNotFoundError:
      raise FileNotFoundError(
        f"no configuration at {path!r}: --bert_config_file is the "
        "bert_config.json that comes with a checkpoint"
      ) from None
    except (ValueError, RecursionError) as error:
      raise ValueError(f"{path}: {error}") from None

  @classmethod
  def preset(cls, name: str, vocab_size: int = 30522) -> "BertConfig":
    """A published size: "base", "L-4_H-256" (any of the 24 small ones), ...

    Args:
      name: "tiny", "mini", "small", "medium", "base", "large", or
        "L-{2,4,6,8,10,12}_H-{128,256,512,768}".
      vocab_size: 30522 is that of the English uncased models.
    """
    sizes = {
      f"L-{layers}_H-{hidden}": (layers, hidden)
      for layers in (2, 4, 6, 8, 10, 12)
      for hidden in (128, 256, 512, 768)
    } | _NAMED
    if name not in sizes:
      raise ValueError(f"no preset {name!r}; there are {', '.join(sizes)}")
    layers, hidden = sizes[name]
    return cls(
      vocab_size=vocab_size,
      hidden_size=hidden,
      num_hidden_layers=layers,
      num_attention_heads=hidden // 64,
      intermediate_size=4 * hidden,
      type_vocab_size=2,
    )

  def check_length(self, max_seq_length: int) -> None:
    """Raises ValueError if the model cannot take so long a sequence."""
    if max_seq_length > self.max_position_embeddings:
      raise ValueError(
        f"max_seq_length {max_seq_length} exceeds max_position_embeddings "
        f"{self.max_position_embeddings} in bert_config.json"
      )

  def to_dict(self) -> dict:
    """All values under the original's names, and ours that say anything."""
    return {
      field.name: getattr(self, field.name)
      for field in dataclasses.fields(self)
      if field.name not in EXTENSIONS
      or getattr(self, field.name) != field.default
    }

  def to_json(self, path: str) -> None:
    """Writes a bert_config.json."""
    text = json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"
    Path(path).write_text(text, encoding="utf-8")


def _read(path: str) -> str:
  if "://" in path:
    import tensorflow as tf  # only remote files need it  # noqa: PLC0415

    with tf.io.gfile.GFile(path) as file:
      return file.read()
  return Path(path).read_text(encoding="utf-8-sig")


def _check_type(field: dataclasses.Field, value) -> None:
  """A number is a number (not "12", not True) and is not below its least."""
  if field.type is str:
    if not isinstance(value, str | None):
      raise ValueError(f"{field.name} must be a string, not {value!r}")
    return
  if field.type is bool:
    if not isinstance(value, bool):
      raise ValueError(f"{field.name} must be true or false, not {value!r}")
    return
  kinds = int if field.type is int else int | float
  if not isinstance(value, kinds) or isinstance(value, bool):
    raise ValueError(f"{field.name} must be a number, not {value!r}")
  if value < (1 if field.type is int else 0):
    raise ValueError(f"{field.name} must be positive, not {value!r}")
