"""Worker: TensorFlow's profile of the pre-training step of this repository."""

import collections
import glob
import re
import tempfile
import time
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks import worker
from benchmarks.cases import Case
from benchmarks.workers import train_bert_tf2

STEPS = 5
# Events that only wait for others.
_WAITING = re.compile("KernelAndDeviceFunc::Run|EagerExecute")


def prepare(case: str, kinds: dict[str, str]) -> worker.Answer:
  """Answers with the `seconds` of a step by kind: patterns of event names."""
  step = train_bert_tf2.make_step(Case.parse(case))
  for _ in range(4):  # compilation and other one-time costs
    step()

  def answer():
    with tempfile.TemporaryDirectory() as folder:
      tf.profiler.experimental.start(folder)
      begin = time.perf_counter()
      for _ in range(STEPS):
        step()
      clock = time.perf_counter() - begin
      tf.profiler.experimental.stop()
      [path] = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
      with open(path, "rb") as file:
        space = xplane_pb2.XSpace.FromString(file.read())
    seconds = collections.Counter({"step by the clock": clock / STEPS})
    for name, own in events(space):
      if not _WAITING.search(name):
        kind = next(k for k, p in kinds.items() if re.search(p, name))
        seconds[kind] += own / STEPS
    return {"seconds": seconds}

  return answer


def events(space: xplane_pb2.XSpace) -> Iterator[tuple[str, float]]:
  """Names of events of all threads, with seconds in them and no inner one."""
  [plane] = [plane for plane in space.planes if plane.name == "/host:CPU"]
  for line in plane.lines:
    outer = []  # events around the present one: [name, end, own time]
    order = sorted(line.events, key=lambda e: (e.offset_ps, -e.duration_ps))
    for event in order:
      while outer and outer[-1][1] <= event.offset_ps:
        name, _, own = outer.pop()
        yield name, own / 1e12
      if outer:
        outer[-1][2] -= event.duration_ps
      name = plane.event_metadata[event.metadata_id].name
      end = event.offset_ps + event.duration_ps
      outer.append([name, end, event.duration_ps])
    yield from ((name, own / 1e12) for name, _, own in outer)


if __name__ == "__main__":
  worker.serve(prepare)
