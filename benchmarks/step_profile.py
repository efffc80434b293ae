"""What the time of our training step is spent on.

  python -m benchmarks.step_profile --cases=mini:32:128:float32

Milliseconds of the processor, a step, in TensorFlow's operations as its own
profiler sees them, by what they compute. Watching makes a step slower.
"""

import collections
import glob
import re
import tempfile
import time
from collections.abc import Callable, Iterator

import tensorflow as tf
from absl import app, flags
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks import train_step_ours
from benchmarks.published import Table
from benchmarks.train_step_data import Case

FLAGS = flags.FLAGS
flags.DEFINE_list(
  "cases",
  ["mini:32:128:float32", "mini:32:128:bfloat16"],
  "size:batch:length:type of each, see benchmarks/train_step_data.py.",
)
flags.DEFINE_integer("num_threads", 2, "Of the step.", 1)

STEPS = 5
# Kinds by a pattern of an event's name, the first that is found.
KINDS = {
  "softmax": "Softmax",
  "matrix products": "MatMul|matmul",
  "compiled chains": r"fusion|reduce|\.clone|ProcessAsync::Start",
  "casts": ":Cast$",
  "transposes": "Transpose$",
  "largest share": ":TopKV2$",
  "look-ups' gradient": "SegmentSum$|:AddN$|StridedSliceGrad$",
  "norm of the gradient": ":L2Loss$",
  "the rest": "",
}
BY_THE_CLOCK = "the step by the clock"
COLUMNS = (BY_THE_CLOCK, *KINDS)
# What only waits for the others.
_WAITING = re.compile("KernelAndDeviceFunc::Run|EagerExecute")


def main(_):
  TABLE.report(map(measure, FLAGS.cases))


def measure(text: str) -> dict:
  """Seconds of a step by kind."""
  found = profile(Case.named(text, FLAGS.num_threads))
  return {"case": text, "seconds": dict(found)}


def rows(result: dict):
  """The row of a case."""
  seconds = collections.Counter(result["seconds"])
  yield (result["case"], *(f"{1000 * seconds[kind]:.0f}" for kind in COLUMNS))


def profile(case: Case) -> dict[str, float]:
  """Seconds a step by kind."""
  step = train_step_ours.step(case)
  for _ in range(4):  # compilation and what comes once
    step()
  with tempfile.TemporaryDirectory() as folder:
    tf.profiler.experimental.start(folder)
    seconds = collections.Counter({BY_THE_CLOCK: _timed(step) / STEPS})
    tf.profiler.experimental.stop()
    [path] = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
    with open(path, "rb") as file:
      space = xplane_pb2.XSpace.FromString(file.read())
  for name, own in events(space):
    if not _WAITING.search(name):
      kind = next(k for k, pattern in KINDS.items() if re.search(pattern, name))
      seconds[kind] += own / STEPS
  return seconds


def _timed(step: Callable[[], object]) -> float:
  begin = time.perf_counter()
  for _ in range(STEPS):
    step()
  return time.perf_counter() - begin


def events(space: xplane_pb2.XSpace) -> Iterator[tuple[str, float]]:
  """Names of events on all threads, with seconds in them and no inner one."""
  for plane in space.planes:
    if plane.name != "/host:CPU":
      continue
    for line in plane.lines:
      outer = []  # those that an event is inside of: [name, end, own time]
      for event in sorted(line.events, key=_order):
        while outer and outer[-1][1] <= event.offset_ps:
          name, _, own = outer.pop()
          yield name, own / 1e12
        if outer:
          outer[-1][2] -= event.duration_ps
        name = plane.event_metadata[event.metadata_id].name
        end = event.offset_ps + event.duration_ps
        outer.append([name, end, event.duration_ps])
      for name, _, own in outer:
        yield name, own / 1e12


def _order(event):
  return event.offset_ps, -event.duration_ps


TABLE = Table("step_profile", ("case", *COLUMNS), rows)

if __name__ == "__main__":
  app.run(main)
