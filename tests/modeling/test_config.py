import dataclasses
import json

import pytest

from modeling.config import BertConfig


def _write(tmp_path, **values):
  path = tmp_path / "bert_config.json"
  path.write_text(json.dumps({"vocab_size": 10} | values))
  return str(path)


ODD = {"hidden_size": 15, "num_attention_heads": 3}


def test_unknown_keys_are_ignored(tmp_path):
  path = _write(tmp_path, pooler_type="first_token_transform", directionality=1)
  assert BertConfig.from_json(path) == BertConfig(vocab_size=10)


@pytest.mark.parametrize("name", ["initial_attention", "attention", None])
def test_a_written_configuration_is_read_unchanged(tmp_path, name):
  """Keys that the original lacks are left out if they have default values."""
  values = {"initial_attention": "structured", "attention": "right_to_left"}
  changes = {name: values[name]} if name else {}
  config = dataclasses.replace(BertConfig.preset("mini", 77), **changes)
  assert values.keys() & config.to_dict().keys() == changes.keys()
  config.to_json(str(tmp_path / "c.json"))
  assert BertConfig.from_json(str(tmp_path / "c.json")) == config


@pytest.mark.parametrize(
  ("values", "message"),
  [
    ({"hidden_size": "768"}, "hidden_size must be an integer, not '768'"),
    ({"num_hidden_layers": 0}, "num_hidden_layers must be positive"),
    ({"initializer_range": "a"}, "initializer_range must be a number, not"),
    ({"add_bilstm": 1}, "add_bilstm must be true or false, not 1"),
    ({"hidden_act": "swish"}, "hidden_act 'swish' is unknown; known are gelu"),
    ({"attention": "up"}, "attention 'up' is unknown; known are"),
    ({"hidden_size": 100}, "100 is not a multiple of num_attention_heads 12"),
    ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob 1.0 is not from 0 to"),
    (ODD | {"fixed_positions": True}, "fixed_positions need a multiple of 4"),
    (ODD | {"add_bilstm": True}, "add_bilstm needs an even hidden_size"),
    (
      ODD | {"initial_attention": "structured"},
      "heads need an even number and size",
    ),
  ],
)
def test_a_wrong_value_is_reported_with_its_file(tmp_path, values, message):
  path = _write(tmp_path, **values)
  with pytest.raises(ValueError, match=message) as error:
    BertConfig.from_json(path)
  assert path in str(error.value)
  with pytest.raises(ValueError, match="vocab_size is missing"):
    BertConfig.from_dict({"hidden_size": 768})


def test_presets_have_the_published_sizes():
  base = BertConfig.preset("base")
  assert base == BertConfig(vocab_size=30522, type_vocab_size=2)
  large = BertConfig.preset("large")
  assert (large.num_hidden_layers, large.num_attention_heads) == (24, 16)
  tiny = BertConfig.preset("tiny")
  assert (tiny.num_attention_heads, tiny.intermediate_size) == (2, 512)
  names = {"tiny": "L-2_H-128", "mini": "L-4_H-256", "medium": "L-8_H-512"}
  for name, other in (names | {"small": "L-4_H-512"}).items():
    assert BertConfig.preset(name) == BertConfig.preset(other)
  # There are at least 4 heads, and the spread is 0.9 / sqrt(hidden).
  for hidden, heads, spread in ((128, 4, 0.08), (768, 12, 0.032)):
    config = BertConfig.preset(f"L-2_H-{hidden}", from_scratch=True)
    changes = {"num_attention_heads": heads, "initializer_range": spread}
    changes |= {"initial_attention": "structured", "hidden_dropout_prob": 0.0}
    changes["attention_probs_dropout_prob"] = 0.0
    assert dataclasses.replace(config, **changes) == config
  with pytest.raises(ValueError, match="no preset 'huge'"):
    BertConfig.preset("huge")


def test_the_name_of_an_activation_may_be_null_or_have_capitals(tmp_path):
  """The original lower-cases the name, too."""
  for name, expected in ((None, "linear"), ("ReLU", "relu")):
    config = BertConfig.from_json(_write(tmp_path, hidden_act=name))
    assert config.hidden_act == expected
