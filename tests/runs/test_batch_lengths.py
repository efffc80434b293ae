"""With --jit_compile, training batches have few shapes."""

import numpy as np
import pytest

from data import features
from data.records import RecordDataset
from runs import devices
from storage import tfrecord
from tests import programs

T = 128
EXAMPLES = 32


@pytest.fixture(scope="module", name="records")
def _records(tmp_path_factory):
  """Writes records of 4 to T tokens; returns rows, path and schema."""
  path = str(tmp_path_factory.mktemp("records") / "train.tf_record")
  schema, rows = features.classification(T), []
  for size in np.linspace(4, T, EXAMPLES).astype(int):
    row = {name: [0] * field.size for name, field in schema.items()}
    mask = [1] * size + [0] * (T - size)
    rows.append(row | {"input_ids": mask, "input_mask": mask})
  tfrecord.save(path, schema, rows)
  return rows, path, schema


def test_jit_compile_makes_batches_of_few_lengths(records):
  shapes = []
  for compiled in (False, True):
    args = programs.arguments("run_pretraining", jit_compile=compiled)
    multiple = devices.length_multiple(args, T, "train")
    source = RecordDataset(*records, multiple)
    batches = source.train_batches(
      4, seed=1, by_length=True, few_shapes=compiled
    ).take(8)
    shapes.append({tuple(batch["input_ids"].shape) for batch in batches})
  assert shapes[1] == {(4, length) for length in (32, 64, 96, 128)}
  assert len(shapes[0]) > 4
