"""BERTs of TensorFlow Hub and Kaggle Models: SavedModels with a vocabulary.

A format 1 module (TensorFlow 1) has variables with the original's names, and a
graph that shows the number of heads and the activation. A format 2 module is a
Model Garden SavedModel.
"""

import os
import re

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from conversion import interchange, model_garden, original
from conversion.interchange import CanonicalModel
from storage import UserError, files
from training import checkpoint

_DO_LOWER_CASE = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
_TABLE = "bert/embeddings/word_embeddings"
# The original reshapes queries to [B, T, A, D].
_HEADS = re.compile(r"layer_0/attention/self/Reshape(_\d+)?/shape/2$")


@interchange.names_path
def read(folder: str, config_file: str | None = None) -> CanonicalModel:
  """Reads an encoder, a masked-LM head if there is one, vocabulary and case.

  Raises UserError if the SavedModel is corrupt or has no BERT.
  """
  prefix = os.path.join(folder, "variables", "variables")
  path = os.path.join(folder, "saved_model.pb")
  with files.open_for_reading(path) as file:
    graph = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0]
  nodes = list(graph.graph_def.node)
  for function in graph.graph_def.library.function:
    nodes += function.node_def
  assets = os.path.join(folder, "assets")
  names = files.list_folder(assets) if files.exists(assets) else []
  if config_file is None and interchange.BERT_CONFIG in names:
    config_file = os.path.join(assets, interchange.BERT_CONFIG)
  if interchange.is_object_based(prefix):
    bert = model_garden.read(prefix, config_file)
    reader = tf.train.load_checkpoint(prefix)
    if reader.has_tensor(_DO_LOWER_CASE):
      bert.lower_case = bool(reader.get_tensor(_DO_LOWER_CASE))
  else:
    bert = _read_variables(folder, prefix)
    heads = [x for x in nodes if x.op == "Const" and _HEADS.search(x.name)]
    bert.config = model_garden.sizes(
      bert,
      int(_constant(heads[0])) if heads else None,
      original.read_config(prefix, config_file),
    )
    case = graph.signature_def["tokenization_info"].outputs["do_lower_case"]
    for node in nodes:
      if f"{node.name}:0" == case.name:
        bert.lower_case = bool(_constant(node))
  if config_file is None and any(node.op == "Erf" for node in nodes):
    bert.config["hidden_act"] = "gelu_erf"
  texts = [x for x in names if x.endswith(".txt")]
  vocabulary = interchange.VOCABULARY if len(texts) > 1 else "".join(texts)
  bert.vocabulary = os.path.join(assets, vocabulary) if vocabulary else None
  bert.origin = folder
  return bert


def _read_variables(folder, prefix):
  """Reads the variables of a format 1 module, without the module's scope."""
  reader = checkpoint.Reader(prefix)
  table = next((name for name in reader.shapes if name.endswith(_TABLE)), None)
  if table is None:
    raise UserError(
      f"{folder} has no {_TABLE}, but {', '.join(sorted(reader.shapes)[:3])}, "
      "...: only a BERT can be converted"
    )
  scope = table.removesuffix(_TABLE)  # often "module/"
  bert = CanonicalModel(folder)
  for name in sorted(reader.shapes):
    inner = name.removeprefix(scope)
    if inner.startswith("bert/") or inner in interchange.HEAD_VARIABLES:
      bert.values[inner] = reader[name]
    else:
      bert.skip(name, "of no layer that the original has")
  return bert


def _constant(node):
  """Returns the value of a graph's constant."""
  return tf.make_ndarray(node.attr["value"].tensor)
