"""Exports use only operations that every TensorFlow server has.

tensorflow_model_server links TensorFlow's kernels (tensorflow/core:tensorflow),
and tensorflow-text and decision forests in unspecified versions. See
SUPPORTED_TENSORFLOW_OPS in tensorflow_serving/model_servers/BUILD.
"""

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tests.serving import tasks

KNOWN = """
  Add AddN AddV2 All Any ArgMax AsString Assert AssignVariableOp BatchMatMulV2
  BiasAdd Bitcast BroadcastTo Cast ConcatV2 Const Cumprod Cumsum DenseBincount
  DisableCopyOnRead Einsum EnsureShape Equal Exp ExpandDims Fill FloorDiv
  FloorMod GatherNd GatherV2 Greater GreaterEqual HashTableV2 Identity IdentityN
  If InitializeTableFromTextFileV2 IsFinite LeftShift Less LessEqual Log
  LogicalAnd LogicalNot LogicalOr LookupTableFindV2 MatMul Max Maximum Mean
  MergeV2Checkpoints Min Minimum Mul Neg NoOp NotEqual OneHot OnesLike Pack Pad
  PadV2 ParseExampleV2 Placeholder Pow Prod RaggedGather RaggedRange
  RaggedTensorToTensor Range ReadVariableOp RealDiv Reshape RestoreV2 ReverseV2
  Rsqrt SaveV2 ScatterNd SegmentMax Select SelectV2 Shape ShardedFilename
  Sigmoid Size Softmax Split Square SquaredDifference Squeeze StatelessIf
  StatelessWhile StaticRegexFullMatch StaticRegexReplace StopGradient
  StridedSlice StringJoin StringLength StringSplitV2 Sub Substr Sum Tanh
  TensorListConcatV2 TensorListFromTensor TensorListGetItem TensorListReserve
  TensorListSetItem TensorListStack TensorScatterUpdate Tile TopKV2 Transpose
  UnicodeDecode UnicodeEncode UnicodeTranscode Unique Unpack UnsortedSegmentJoin
  UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum UpperBound
  VarHandleOp VarIsInitializedOp Where While ZerosLike
"""
KNOWN = {*KNOWN.split()}
CALLS = {"PartitionedCall", "StatefulPartitionedCall"}


def _operations(meta_graph):
  """Returns the operations of a graph and its functions, without calls."""
  operations = meta_graph.meta_info_def.stripped_op_list.op
  return {op.name for op in operations} - CALLS


def _operations_of(function):
  """Returns the operations of a traced tf.function."""
  with function.graph.as_default():
    return _operations(tf.compat.v1.train.export_meta_graph())


QUICK = ("classification of pairs", "choices", "questions", "tagging")


@pytest.mark.parametrize("name", tasks.slow_but(QUICK))
def test_every_task_uses_only_known_operations(exported, name):
  for signature, function in exported[name].functions.items():
    assert not _operations_of(function) - KNOWN, signature


def test_saved_exports_use_only_known_operations(folders):
  folder = folders["classification of pairs"]
  saved = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
  [meta_graph] = saved.meta_graphs
  assert not _operations(meta_graph) - KNOWN
