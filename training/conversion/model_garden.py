"""BERTs of TensorFlow Model Garden: object-based checkpoints.

Such a checkpoint holds a graph of objects and the names by which they refer to
each other. A variable is found here by walking that graph from the encoder, and
not by its key, which depends on what else was saved: the token embedding of a
pre-trainer, for one, has the key model/masked_lm/embedding_table.

Kernels of attention have the axes of heads apart. Whether a block normalizes
first, and its activation, is not in a checkpoint.

Legend: H hidden, A heads, D head size, L labels.
"""

import re

import tensorflow as tf

from training import checkpoint
from training.conversion import object_graph, original
from training.conversion.interchange import Bert, in_two_axes

# In a block -> in the original's layer. The attention's projection was a part
# of the block until 2020.
_BLOCK = {
  "_attention_layer/_query_dense": "attention/self/query",
  "_attention_layer/_key_dense": "attention/self/key",
  "_attention_layer/_value_dense": "attention/self/value",
  "_attention_layer/_output_dense": "attention/output/dense",
  "_attention_output_dense": "attention/output/dense",
  "_attention_layer_norm": "attention/output/LayerNorm",
  "_intermediate_dense": "intermediate/dense",
  "_output_dense": "output/dense",
  "_output_layer_norm": "output/LayerNorm",
}
_MASKED_LM = {
  "dense": "cls/predictions/transform/dense",
  "layer_norm": "cls/predictions/transform/LayerNorm",
}
_POOLER = "next_sentence.pooler_dense"
# Heads of a single layer -> the original's scopes.
_LINEAR = {
  "span_labeling/layer_with_weights-0": "cls/squad",
  "classification/layer_with_weights-0": "cls/seq_relationship",
  "classifier": "",
}
_EMBEDDINGS = (
  "word_embeddings",
  "position_embeddings",
  "token_type_embeddings",
)


def recognizes(prefix: str) -> bool:
  """Whether a checkpoint is object-based; False if it cannot be read."""
  try:
    return tf.train.load_checkpoint(prefix).has_tensor(object_graph.KEY)
  except (tf.errors.OpError, RuntimeError):
    return False


def read(prefix: str, config_file: str | None = None) -> Bert:
  """Reads an encoder, or a model of Model Garden around one.

  Args:
    prefix: of the checkpoint.
    config_file: bert_config.json; what is beside the checkpoint otherwise, and
      if there is none, sizes are those of the variables.

  Raises:
    ValueError: there is no encoder in it that the original could have.
  """
  reader = tf.train.load_checkpoint(prefix)
  shapes = reader.get_variable_to_shape_map()
  root = object_graph.root(reader.get_tensor(object_graph.KEY))
  encoder = _find_encoder(root)
  if encoder is None:
    raise ValueError(
      f"{prefix} has no Transformer encoder of Model Garden; it has "
      f"{', '.join(sorted(shapes.keys() - {object_graph.KEY})[:4])}, ..."
    )
  vocabulary = checkpoint.beside(prefix, original.VOCABULARY)
  bert = Bert(prefix, {}, vocabulary=vocabulary)
  keys, head = _encoder_keys(prefix, encoder), _head_keys(root)
  unused = shapes.keys() - {object_graph.KEY, *keys.values(), *head.values()}
  for name in keys.keys() & head.keys():
    bert.leave(keys[name], "its head has a pooler of its own")
  for key in sorted(unused):
    bert.leave(key, _reason(key))
  if any("classifier/kernel" in place for place in root.walk()):
    bert.head = "tagging"
  keys |= head
  for name, key in keys.items():
    bert.values[name] = _as_ours(name, reader.get_tensor(key))
  query = shapes[keys["bert/encoder/layer_0/attention/self/query/kernel"]]
  heads = query[1] if len(query) > 2 else None  # [H, A, D]
  bert.config = _config(bert, heads, original.read_config(prefix, config_file))
  return bert


def _find_encoder(root):
  for place in root.walk():
    if _blocks(place):
      return place
  return None


def _blocks(place):
  """The Transformer blocks of an encoder, none of anything else."""
  for name in ("_transformer_layers", "_hidden_layers"):
    listed = place.get(name)
    if listed is not None:
      numbers = sorted(filter(str.isdigit, listed), key=int)
      return [listed[number] for number in numbers]
  return [each for each in place.numbered() if "_attention_layer" in each]


def _encoder_keys(prefix, encoder):
  """{the original's name: key} of embeddings, blocks and pooler."""
  embeddings, norm, pooler = _around_blocks(prefix, encoder)
  keys = {
    f"bert/embeddings/{name}": layer["embeddings"].key
    for name, layer in zip(_EMBEDDINGS, embeddings, strict=True)
  }
  keys |= _leaves("bert/embeddings/LayerNorm", norm)
  for i, block in enumerate(_blocks(encoder)):
    for path, name in _BLOCK.items():
      if path in block:
        keys |= _leaves(f"bert/encoder/layer_{i}/{name}", block[path])
  if pooler is not None:
    keys |= _leaves("bert/pooler/dense", pooler)
  return keys


def _around_blocks(prefix, encoder):
  """The three embeddings, their normalization, and the pooler or None."""
  blocks = {block.number for block in _blocks(encoder)}
  layers = [each for each in encoder.numbered() if each.number not in blocks]
  if layers:
    embeddings = [each for each in layers if "embeddings" in each]
    norms = [each for each in layers if "gamma" in each]
    dense = [each for each in layers if "kernel" in each]
  else:  # a subclassed model, where only attributes have names
    names = ("_embedding", "_position_embedding", "_type_embedding")
    embeddings = [encoder.get(f"{name}_layer") for name in names]
    embeddings = [each for each in embeddings if each is not None]
    norms = _present(encoder, "_embedding_norm_layer", "_output_layer_norm")
    dense = _present(encoder, "_embedding_projection", "_pooler_layer")
  if (len(embeddings), len(norms)) != (3, 1) or len(dense) > 1:
    raise ValueError(
      f"{prefix} has an encoder with {len(embeddings)} embeddings, "
      f"{len(norms)} normalizations and {len(dense)} dense layers around its "
      "blocks; the original has 3, 1 and the pooler"
    )
  return embeddings, norms[0], dense[0] if dense else None


def _present(place, *names):
  return [place[name] for name in names if name in place]


def _leaves(name, layer):
  return {
    f"{name}/{leaf}": layer[leaf].key
    for leaf in ("kernel", "bias", "gamma", "beta")
    if leaf in layer
  }


def _head_keys(root):
  """{the original's name: key} of the head, and of a pooler that it brings."""
  keys = {}
  for place in root.walk():
    if "embedding_table" in place and "layer_norm" in place:
      for path, name in _MASKED_LM.items():
        keys |= _leaves(name, place[path])
      keys["cls/predictions/output_bias"] = place["bias"].key
      break
  projection = "cls/seq_relationship" if keys else ""
  for place in root.walk():
    if "out_proj" in place:
      keys |= _linear(projection, place["out_proj"])
      if "dense" in place:
        keys |= _leaves("bert/pooler/dense", place["dense"])
      return keys
    for path, scope in _LINEAR.items():
      if f"{path}/kernel" in place:
        return keys | _linear(scope, place[path])
  if _POOLER in root:  # all that is saved of that head by checkpoint_items
    keys |= _leaves("bert/pooler/dense", root[_POOLER])
  return keys


def _linear(scope, layer):
  prefix = f"{scope}/" if scope else ""
  return {
    f"{prefix}output_weights": layer["kernel"].key,
    f"{prefix}output_bias": layer["bias"].key,
  }


def _as_ours(name, value):
  if name.endswith("output_weights"):
    return value.T  # [L, H]
  return in_two_axes(name, value)


def _reason(key):
  if re.search("OPTIMIZER_SLOT|^optimizer/", key):
    return "of the optimizer"
  if re.match(r"(save_counter|global_step)/", key):
    return "a counter"
  return "of nothing that the original has"


def _config(bert, num_heads, given):
  """Sizes as the variables have them, the rest as bert_config.json has it."""
  values = bert.values
  layers = {name.split("/")[2] for name in values if "/layer_" in name}
  vocab_size, hidden_size = values["bert/embeddings/word_embeddings"].shape
  wide = values["bert/encoder/layer_0/intermediate/dense/bias"]
  found = {
    "vocab_size": vocab_size,
    "hidden_size": hidden_size,
    "num_hidden_layers": len(layers),
    "num_attention_heads": num_heads,
    "intermediate_size": len(wide),
    "max_position_embeddings": len(
      values["bert/embeddings/position_embeddings"]
    ),
    "type_vocab_size": len(values["bert/embeddings/token_type_embeddings"]),
  }
  found = {key: int(value) for key, value in found.items() if value}
  if given is None:
    if not num_heads:
      raise ValueError(
        f"{bert.origin} does not say how many heads it has: "
        "--bert_config_file names its bert_config.json"
      )
    return found | {"hidden_act": "gelu"}
  for key, value in found.items():
    if given.get(key, value) != value:
      raise ValueError(
        f"{bert.origin} has {key} {value}, its bert_config.json says "
        f"{given[key]}"
      )
  return given
