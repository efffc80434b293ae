"""Reads object-based checkpoints of TensorFlow Model Garden.

Such a checkpoint holds a graph of objects. A variable's key depends on what
else was saved, so this module walks the graph from the encoder. Attention
kernels have separate axes for heads. A checkpoint does not state the activation
or the place of normalization.
"""

import re
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from conversion import interchange, original
from conversion.interchange import GRAPH_KEY, CanonicalModel, merge_heads
from storage import UserError, setting
from training import checkpoint_files

_NUMBERED = re.compile(r"layer_with_weights-(\d+)")
# Layers of a block -> names in the original's layer. Until 2020 the attention's
# projection was a layer of the block.
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
  "span_labeling/layer_with_weights-0": "cls/squad/",
  "classification/layer_with_weights-0": "cls/seq_relationship/",
  "classifier": "",
}
_EMBEDDINGS = "word_embeddings", "position_embeddings", "token_type_embeddings"
# Attributes of a subclassed encoder: embeddings, normalizations, dense layers.
_LAYERS = (
  ("_embedding_layer", "_position_embedding_layer", "_type_embedding_layer"),
  ("_embedding_norm_layer", "_output_layer_norm"),
  ("_embedding_projection", "_pooler_layer"),
)


class _Object:
  """An object in a checkpoint's graph, with a value's `key` or None."""

  def __init__(self, graph, number: int = 0):
    self._graph = graph
    self.number = number
    node = graph.nodes[number]
    self.key = next((a.checkpoint_key for a in node.attributes), None)
    self._children = {c.local_name: c.node_id for c in node.children}

  def __getitem__(self, path: str) -> "_Object":
    """Returns the object at a path of names; raises KeyError without one."""
    node = self
    for name in path.split("/"):
      node = _Object(self._graph, node._children[name])
    return node

  def __contains__(self, path: str) -> bool:
    try:
      return bool(self[path])
    except KeyError:
      return False

  def walk(self) -> Iterator["_Object"]:
    """Yields the object and all objects below, once each, breadth first."""
    seen, queue = {self.number}, [self]
    for node in queue:
      yield node
      for number in node._children.values():
        if number not in seen:
          seen.add(number)
          queue.append(_Object(self._graph, number))

  def numbered_layers(self) -> list["_Object"]:
    """Returns a functional model's layers with weights, in order."""
    numbers = {
      int(match[1]): number
      for name, number in self._children.items()
      if (match := _NUMBERED.fullmatch(name))
    }
    return [_Object(self._graph, numbers[i]) for i in sorted(numbers)]


@interchange.names_path
def read(prefix: str, config_file: str | None = None) -> CanonicalModel:
  """Reads an encoder, or a Model Garden model with an encoder.

  Without a bert_config.json the variables give the sizes. Raises ValueError if
  the checkpoint is corrupt, or has no encoder that the original could have.
  """
  config = original.read_config(prefix, config_file)
  reader = tf.train.load_checkpoint(prefix)
  shapes = reader.get_variable_to_shape_map()
  graph = trackable_object_graph_pb2.TrackableObjectGraph
  root = _Object(graph.FromString(reader.get_tensor(GRAPH_KEY)))
  encoder = next((node for node in root.walk() if _blocks(node)), None)
  if encoder is None:
    raise UserError(
      f"{prefix} has no Transformer encoder of Model Garden; it has "
      f"{', '.join(sorted(shapes.keys() - {GRAPH_KEY})[:4])}, ..."
    )
  vocabulary = checkpoint_files.sibling_file(prefix, interchange.VOCABULARY)
  bert = CanonicalModel(prefix, vocabulary=vocabulary)
  keys, head = _encoder_keys(prefix, encoder), _head_keys(root)
  unused = shapes.keys() - {GRAPH_KEY, *keys.values(), *head.values()}
  for name in keys.keys() & head.keys():
    bert.skip(keys[name], "replaced by the head's own pooler")
  for key in sorted(unused):
    reason = "of no layer that the original has"
    if re.search("OPTIMIZER_SLOT|^optimizer/", key):
      reason = "of the optimizer"
    elif re.match(r"(save_counter|global_step)/", key):
      reason = "a counter"
    elif key.startswith("do_lower_case/"):
      reason = "of the tokenizer"
    bert.skip(key, reason)
  if any("classifier/kernel" in node for node in root.walk()):
    bert.head = "tagging"
  keys |= head
  for name, key in keys.items():
    value = reader.get_tensor(key)
    is_head = name.endswith("output_weights")  # [L, H]
    bert.values[name] = value.T if is_head else merge_heads(name, value)
  query = shapes[keys["bert/encoder/layer_0/attention/self/query/kernel"]]
  num_heads = query[1] if len(query) > 2 else None  # [H, A, D]
  bert.config = sizes(bert, num_heads, config)
  return bert


def _blocks(node):
  """Returns an encoder's Transformer blocks; [] for any other object."""
  for name in ("_transformer_layers", "_hidden_layers"):
    if name in node:
      blocks = node[name]
      numbers = sorted(filter(str.isdigit, blocks._children), key=int)
      return [blocks[number] for number in numbers]
  return [x for x in node.numbered_layers() if "_attention_layer" in x]


def _encoder_keys(prefix, encoder):
  """Returns {original name: key} for embeddings, blocks and pooler."""
  embeddings, norm, pooler = _other_layers(prefix, encoder)
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


def _other_layers(prefix, encoder):
  """Returns the three embeddings, the normalization, and the pooler or None."""
  blocks = {block.number for block in _blocks(encoder)}
  layers = [x for x in encoder.numbered_layers() if x.number not in blocks]
  if layers:
    embeddings = [x for x in layers if "embeddings" in x]
    norms = [x for x in layers if "gamma" in x]
    dense = [x for x in layers if "kernel" in x]
  else:  # a subclassed model, whose layers are attributes
    embeddings, norms, dense = (
      [encoder[name] for name in names if name in encoder] for names in _LAYERS
    )
  if (len(embeddings), len(norms)) != (3, 1) or len(dense) > 1:
    raise UserError(
      f"{prefix} has an encoder with {len(embeddings)} embeddings, "
      f"{len(norms)} normalizations and {len(dense)} dense layers around its "
      "blocks; the original has 3, 1 and the pooler"
    )
  return embeddings, norms[0], dense[0] if dense else None


def _leaves(name, layer):
  return {
    f"{name}/{leaf}": layer[leaf].key
    for leaf in ("kernel", "bias", "gamma", "beta")
    if leaf in layer
  }


def _head_keys(root):
  """Returns {original name: key} for the head, and a pooler in the head."""
  keys = {}
  for node in root.walk():
    if "embedding_table" in node and "layer_norm" in node:
      for path, name in _MASKED_LM.items():
        keys |= _leaves(name, node[path])
      keys["cls/predictions/output_bias"] = node["bias"].key
      break
  projection = "cls/seq_relationship/" if keys else ""
  for node in root.walk():
    if "out_proj" in node:
      keys |= _linear(projection, node["out_proj"])
      if "dense" in node:
        keys |= _leaves("bert/pooler/dense", node["dense"])
      return keys
    for path, scope in _LINEAR.items():
      if f"{path}/kernel" in node:
        return keys | _linear(scope, node[path])
  if _POOLER in root:  # checkpoint_items saves no other part
    keys |= _leaves("bert/pooler/dense", root[_POOLER])
  return keys


def _linear(scope, layer):
  return {
    f"{scope}output_weights": layer["kernel"].key,
    f"{scope}output_bias": layer["bias"].key,
  }


def sizes(
  bert: CanonicalModel, num_heads: int | None, config: dict | None
) -> dict:
  """Returns `config`, or sizes from the variables if `config` is None.

  Raises UserError if `config` contradicts them, or nothing gives `num_heads`.
  """
  values = bert.values
  layers = {name.split("/")[2] for name in values if "/layer_" in name}
  tables = [values[f"bert/embeddings/{name}"] for name in _EMBEDDINGS]
  words, positions, types = tables
  intermediate = values["bert/encoder/layer_0/intermediate/dense/bias"]
  known = {
    "vocab_size": len(words),
    "hidden_size": words.shape[1],
    "num_hidden_layers": len(layers),
    "num_attention_heads": num_heads,
    "intermediate_size": len(intermediate),
    "max_position_embeddings": len(positions),
    "type_vocab_size": len(types),
  }
  known = {key: int(value) for key, value in known.items() if value}
  if config is None:
    if not num_heads:
      raise UserError(
        f"{bert.origin} does not state its number of heads: "
        f"{setting('bert_config_file')} names its bert_config.json"
      )
    return known | {"hidden_act": "gelu"}
  for key, value in known.items():
    if config.get(key, value) != value:
      raise UserError(
        f"{bert.origin} has {key} {value}, its bert_config.json says "
        f"{config[key]}"
      )
  return config
