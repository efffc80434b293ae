"""Reads checkpoints of TensorFlow Model Garden and TensorFlow Hub's modules.

A Model Garden checkpoint is a graph of objects. A variable's key depends on
what else was saved, so `read` finds the encoder in the graph. Hub modules of
format 1 have the original's names; format 2 is a Model Garden SavedModel.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2

from conversion import interchange, original
from conversion.interchange import GRAPH_KEY, VOCABULARY, CanonicalModel
from storage import UserError, files, setting
from training import checkpoint, checkpoint_files

# {layer of a block: name in the original's layer}. Until 2020, the output
# projection of the attention was a layer of the block.
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
# {head of a single layer: the original's scope}
_LINEAR = {
  "span_labeling/layer_with_weights-0": "cls/squad/",
  "classification/layer_with_weights-0": "cls/seq_relationship/",
  "classifier": "",
}
_UNKNOWN = "of no layer that the original has"
_EMBEDDINGS = "word_embeddings", "position_embeddings", "token_type_embeddings"
_TABLE = "bert/embeddings/word_embeddings"
_DO_LOWER_CASE = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
# Matches the constant A with which the original reshapes to [B, T, A, D].
_NUM_HEADS = re.compile(r"layer_0/attention/self/Reshape(_\d+)?/shape/2$")
# Attributes of a subclassed encoder: embeddings, normalizations, dense layers.
_LAYERS = (
  ("_embedding_layer", "_position_embedding_layer", "_type_embedding_layer"),
  ("_embedding_norm_layer", "_output_layer_norm"),
  ("_embedding_projection", "_pooler_layer"),
)


class _Object:
  """An object in a checkpoint's graph. `key` finds its value, if any."""

  def __init__(self, graph, number: int = 0):
    self._graph = graph
    self.number = number
    node = graph.nodes[number]
    self.key = next((a.checkpoint_key for a in node.attributes), None)
    self._children = {c.local_name: c.node_id for c in node.children}

  def __getitem__(self, path: str) -> "_Object":
    node = self
    for name in path.split("/"):
      node = _Object(self._graph, node._children[name])
    return node

  def __contains__(self, path: str) -> bool:
    with suppress(KeyError):
      return bool(self[path])
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

  def numbered(self, prefix: str) -> list["_Object"]:
    """Returns the children whose names are a prefix and a number, in order."""
    names = filter(re.compile(rf"{prefix}\d+$").match, self._children)
    numbers = sorted(int(name.removeprefix(prefix)) for name in names)
    return [self[f"{prefix}{number}"] for number in numbers]


@interchange.names_path
def read(path: str, config_file: str | None = None) -> CanonicalModel:
  """Reads an encoder, or a Model Garden model with an encoder.

  Raises UserError if the checkpoint is corrupt, or has an encoder that the
  original cannot express.
  """
  prefix = checkpoint_files.find_checkpoint(path)
  config = original.read_config(prefix, config_file)
  reader = tf.train.load_checkpoint(prefix)
  shapes = reader.get_variable_to_shape_map()
  graph = trackable_object_graph_pb2.TrackableObjectGraph
  root = _Object(graph.FromString(reader.get_tensor(GRAPH_KEY)))
  encoder = next((node for node in root.walk() if _blocks(node)), None)
  if encoder is None:
    raise UserError(f"{prefix} has no Transformer encoder of Model Garden")
  bert = CanonicalModel(prefix)
  bert.vocabulary = checkpoint_files.sibling_file(prefix, VOCABULARY)
  # A head may have its own pooler, which replaces the encoder's.
  keys = _encoder_keys(encoder) | _head_keys(root)
  for key in sorted(shapes.keys() - {GRAPH_KEY, *keys.values()}):
    bert.skip(key, _UNKNOWN)
  if any("classifier/kernel" in node for node in root.walk()):
    bert.head = "tagging"
  for name, key in keys.items():
    value = reader.get_tensor(key)
    if name.endswith("output_weights"):  # [L, H]
      bert.values[name] = value.T
    else:
      bert.values[name] = interchange.merge_heads(name, value)
  query = shapes[keys["bert/encoder/layer_0/attention/self/query/kernel"]]
  num_heads = query[1] if len(query) > 2 else None  # [H, A, D]
  bert.config = _config(bert, num_heads, config)
  return bert


def _blocks(node):
  """Returns an encoder's Transformer blocks; [] for any other object."""
  for name in ("_transformer_layers", "_hidden_layers"):
    if name in node:
      return node[name].numbered("")
  layers = node.numbered("layer_with_weights-")
  return [layer for layer in layers if "_attention_layer" in layer]


def _encoder_keys(encoder):
  blocks = _blocks(encoder)
  numbers = {block.number for block in blocks}
  layers = encoder.numbered("layer_with_weights-")
  layers = [layer for layer in layers if layer.number not in numbers]
  if layers:
    embeddings = [x for x in layers if "embeddings" in x]
    norms = [x for x in layers if "gamma" in x]
    dense = [x for x in layers if "kernel" in x]
  else:  # a subclassed model, whose layers are attributes
    embeddings, norms, dense = (
      [encoder[name] for name in names if name in encoder] for names in _LAYERS
    )
  [norm] = norms  # ValueError for an encoder of another kind
  keys = {
    f"bert/embeddings/{name}": layer["embeddings"].key
    for name, layer in zip(_EMBEDDINGS, embeddings, strict=True)
  }
  keys |= _leaves("bert/embeddings/LayerNorm", norm)
  for i, block in enumerate(blocks):
    for path, name in _BLOCK.items():
      if path in block:
        keys |= _leaves(f"bert/encoder/layer_{i}/{name}", block[path])
  if dense:
    [pooler] = dense
    keys |= _leaves("bert/pooler/dense", pooler)
  return keys


def _leaves(name, layer):
  leaves = ("kernel", "bias", "gamma", "beta")
  return {f"{name}/{x}": layer[x].key for x in leaves if x in layer}


def _head_keys(root):
  """Returns {original name: key} for heads and a pooler outside the encoder."""
  keys = {}
  for node in root.walk():
    if "embedding_table" in node and "layer_norm" in node:
      for path, name in _MASKED_LM.items():
        keys |= _leaves(name, node[path])
      keys["cls/predictions/output_bias"] = node["bias"].key
      break
  linear = {"out_proj": "cls/seq_relationship/" if keys else ""} | _LINEAR
  for node in root.walk():
    for path, scope in linear.items():
      if f"{path}/kernel" in node:
        keys[f"{scope}output_weights"] = node[path]["kernel"].key
        keys[f"{scope}output_bias"] = node[path]["bias"].key
        if path == "out_proj" and "dense" in node:
          keys |= _leaves("bert/pooler/dense", node["dense"])
        return keys
  if _POOLER in root:  # `checkpoint_items` of Model Garden save only the pooler
    keys |= _leaves("bert/pooler/dense", root[_POOLER])
  return keys


def _config(bert, num_heads, config) -> dict:
  """Takes sizes from the variables, and other fields from `config`, if any."""
  values = bert.values
  tables = [values[f"bert/embeddings/{name}"] for name in _EMBEDDINGS]
  words, positions, types = tables
  layers = {name.split("/")[2] for name in values if "/layer_" in name}
  bias = values["bert/encoder/layer_0/intermediate/dense/bias"]
  result = (config or {"hidden_act": "gelu"}) | {
    "vocab_size": len(words),
    "hidden_size": words.shape[1],
    "num_hidden_layers": len(layers),
    "intermediate_size": len(bias),
    "max_position_embeddings": len(positions),
    "type_vocab_size": len(types),
  }
  if num_heads:
    result["num_attention_heads"] = int(num_heads)
  if "num_attention_heads" not in result:
    flag = setting("bert_config_file")
    raise UserError(f"{bert.origin} lacks the number of heads: give {flag}")
  return result


@interchange.names_path
def read_module(folder: str, config_file: str | None = None) -> CanonicalModel:
  """Reads a Hub module: encoder, masked-LM head, vocabulary, letter case."""
  prefix = os.path.join(folder, "variables", "variables")
  path = os.path.join(folder, "saved_model.pb")
  with files.open_for_reading(path) as file:
    graph = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0]
  nodes = list(graph.graph_def.node)
  for function in graph.graph_def.library.function:
    nodes += function.node_def
  if GRAPH_KEY in checkpoint_files.shapes(prefix):
    bert = read(prefix, config_file)
    reader = tf.train.load_checkpoint(prefix)
    if reader.has_tensor(_DO_LOWER_CASE):
      bert.lower_case = bool(reader.get_tensor(_DO_LOWER_CASE))
  else:
    bert = _read_variables(folder, prefix)
    case = graph.signature_def["tokenization_info"].outputs["do_lower_case"]
    num_heads = None
    for node in nodes:
      value = node.attr["value"].tensor
      if node.op == "Const" and _NUM_HEADS.search(node.name):
        num_heads = num_heads or int(tf.make_ndarray(value))
      if f"{node.name}:0" == case.name:
        bert.lower_case = bool(tf.make_ndarray(value))
    config = original.read_config(prefix, config_file)
    bert.config = _config(bert, num_heads, config)
  if config_file is None and any(node.op == "Erf" for node in nodes):
    bert.config["hidden_act"] = "gelu_erf"
  vocabulary = os.path.join(folder, "assets", VOCABULARY)
  bert.vocabulary = vocabulary if files.exists(vocabulary) else None
  bert.origin = folder
  return bert


def _read_variables(folder, prefix):
  reader = checkpoint.Reader(prefix)
  table = next((name for name in reader.shapes if name.endswith(_TABLE)), None)
  if table is None:
    raise UserError(f"{folder} has no {_TABLE}, so it is no BERT")
  scope = table.removesuffix(_TABLE)  # often "module/"
  bert = CanonicalModel(folder)
  for name in sorted(reader.shapes):
    inner = name.removeprefix(scope)
    if inner.startswith("bert/") or inner in interchange.HEAD_VARIABLES:
      bert.values[inner] = reader[name]
    else:
      bert.skip(name, _UNKNOWN)
  return bert
