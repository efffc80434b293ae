"""Settings of the whole suite: two CPU devices, so that replicas are real."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, settings

tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices("CPU")[0],
  [tf.config.LogicalDeviceConfiguration()] * 2,
)

# Of a slow machine nothing follows; the first time it makes tables, too.
settings.register_profile(
  "any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any_machine")


@pytest.fixture(autouse=True)
def _same_start_every_time():
  """Fresh models start from the same values, so that bounds hold or do not."""
  keras.utils.set_random_seed(1)
