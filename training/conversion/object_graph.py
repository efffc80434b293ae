"""The graph of objects that an object-based checkpoint of TensorFlow 2 holds.

It says by which names objects refer to each other, and where the value of each
variable is.
"""

import re
from collections.abc import Iterator

from tensorflow.core.protobuf import trackable_object_graph_pb2

KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_NUMBERED = re.compile(r"layer_with_weights-(\d+)")


def root(serialized: bytes) -> "Object":
  """The object that was saved, of the value under KEY."""
  graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(serialized)
  return Object(graph, 0)


class Object:
  """An object of a checkpoint.

  Arguments:
    graph: all of them.
    number: which it is.

  Attributes:
    key: where its value is, None if it is no variable.
  """

  def __init__(self, graph, number: int):
    self._graph = graph
    self.number = number
    node = graph.nodes[number]
    self.key = next((a.checkpoint_key for a in node.attributes), None)
    self._names = {c.local_name: c.node_id for c in node.children}

  def __iter__(self):
    return iter(self._names)

  def __contains__(self, path: str) -> bool:
    return self.get(path) is not None

  def __getitem__(self, path: str) -> "Object":
    found = self.get(path)
    if found is None:
      raise KeyError(path)
    return found

  def get(self, path: str) -> "Object | None":
    """What a path of names leads to, or None."""
    place = self
    for name in path.split("/"):
      if name not in place._names:
        return None
      place = Object(self._graph, place._names[name])
    return place

  def walk(self) -> Iterator["Object"]:
    """It and all that it refers to, each once, the nearest first."""
    seen, queue = {self.number}, [self]
    for place in queue:
      yield place
      for name in place:
        child = Object(self._graph, place._names[name])
        if child.number not in seen:
          seen.add(child.number)
          queue.append(child)

  def numbered(self) -> list["Object"]:
    """Its layers with weights, in their order, as a functional model has."""
    found = {
      int(match[1]): self._names[name]
      for name in self
      if (match := _NUMBERED.fullmatch(name))
    }
    return [Object(self._graph, found[i]) for i in sorted(found)]
