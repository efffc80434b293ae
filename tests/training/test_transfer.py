"""Training begins with another model's checkpoint: its encoder and its head."""

from functools import partial

import numpy as np
import pytest

from modeling import models
from tests.training import toy
from training import checkpoint, run_folder
from training.run_folder import Checkpoints


def _save(folder, model):
  return Checkpoints(str(folder)).save(1, checkpoint.variables(model))


@pytest.fixture(name="start")
def _start(tmp_path):
  """Returns a four-label classifier's values and checkpoint."""
  model = models.classifier(toy.config(), 4)
  model.set_weights([value + 0.5 for value in model.get_weights()])
  return toy.values(checkpoint.variables(model)), _save(tmp_path, model)


def _restored(model, values):
  """Returns the names of variables with the checkpoint's values."""
  return {
    variable.path
    for variable in model.variables
    if np.array_equal(variable, values.get(variable.path))
  }


HEAD = {"output_weights", "output_bias"}


def test_a_head_for_another_number_of_labels_is_not_restored(start, caplog):
  values, prefix = start
  model = models.classifier(toy.config(), 5)
  assert set(run_folder.initialize(model, prefix)) == HEAD
  assert _restored(model, values) == values.keys() - HEAD
  text = f"the head is fresh, not restored from {prefix}"
  assert [record.getMessage() for record in caplog.records] == [text]


def test_a_head_with_the_same_number_of_labels_is_restored_unless_new_head(
  start, log
):
  values, prefix = start
  for new_head, fresh in ((False, set()), (True, HEAD)):
    model = models.classifier(toy.config(), 4)
    assert set(run_folder.initialize(model, prefix, new_head)) == fresh
    assert _restored(model, values) == values.keys() - fresh
  assert "new_head makes it fresh" in log.text


HEADS = {
  "cls/squad/output_weights cls/squad/output_bias": models.span_labeler,
  "cls/choice": models.multiple_choice,
  "tags/kernel tags/bias": partial(
    models.feature_based_tagger, num_tags=3, choice="last", units=4
  ),
}


@pytest.mark.parametrize(("head", "make"), HEADS.items())
def test_new_head_makes_the_head_of_every_task_fresh(tmp_path, head, make):
  prefix, model = _save(tmp_path, make(toy.config())), make(toy.config())
  fresh = run_folder.initialize(model, prefix, new_head=True)
  assert set(fresh) == set(head.split())
  assert not run_folder.initialize(model, prefix)


def test_only_training_makes_a_head_fresh(start, tmp_path):
  _, prefix = start
  model = models.classifier(toy.config(), 5)
  message = rf"output_weights has shape \[4, 8\] in .*{prefix} but \[5, 8\] in"
  with pytest.raises(ValueError, match=message):
    Checkpoints(str(tmp_path / "new")).load(model, prefix)
  with pytest.raises(ValueError, match="name another output_dir, and"):
    Checkpoints(str(tmp_path)).load(model, None)
