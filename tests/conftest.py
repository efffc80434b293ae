"""Fixtures and options of all tests. TensorFlow sees two CPU devices."""

import collections
import gc
import importlib.util
import multiprocessing.forkserver
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if importlib.util.find_spec("triton"):
  import triton  # noqa: F401, torch's compiler crashes if TensorFlow comes first

import keras
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, settings

from data.tokenization import FullTokenizer
from modeling import tracing
from serving import export
from tests import lean
from tests.serving import tasks

tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices("CPU")[0],
  [tf.config.LogicalDeviceConfiguration()] * 2,
)
gc.freeze()  # imported modules stay, so the collector can skip them

# No deadline: machines may be slow, and the first example also builds tables.
# The same examples run each time. The fuzz targets search for new examples.
settings.register_profile(
  "all",
  deadline=None,
  derandomize=True,
  suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("all"), max_examples=25)

# The slowest files start first, so that all pytest processes end together.
LONGEST = """
test_workers.py test_run_squad.py test_cli.py test_output_dirs.py
test_experiments.py test_predictor.py test_kills.py test_run_classifier.py
test_run_ner.py test_run_pretraining.py
""".split()


def pytest_configure(config):
  """Tries fewer examples of each property in the quick tier."""
  is_quick = config.getoption("markexpr") == "not slow"
  settings.load_profile("quick" if is_quick else "all")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
  """Sorts slow files first. Marks tests of BERT_ORACLE's golden data as slow.

  BERT_TEST_ORDER seeds a random order of the files, and of the tests in a file.
  """
  for item in items:
    if "oracle:" in item.name:
      item.add_marker("slow")
  order = {name: number for number, name in enumerate(LONGEST)}
  items.sort(key=lambda item: order.get(item.path.name, len(order)))
  if seed := os.environ.get("BERT_TEST_ORDER"):
    rng = random.Random(seed)
    files = collections.defaultdict(rng.random)
    items.sort(key=lambda item: (files[item.path], rng.random()))


@pytest.fixture(autouse=True, scope="session")
def _lean():
  """Runs all tests without compilation, except tests with `fused`."""
  with lean.mode(fused=False):
    yield


@pytest.fixture(autouse=True)
def _same_start_every_time():
  """Seeds each test, so that models always start from the same values."""
  keras.utils.set_random_seed(1)
  yield
  keras.config.set_dtype_policy("float32")


@pytest.fixture(name="fused")
def _fused(monkeypatch):
  """Compiles fused operations and optimizes graphs, as in a user's training."""
  monkeypatch.setattr(tracing, "MIN_COMPILED_SIZE", 0)
  with lean.mode(fused=True):
    yield


@pytest.fixture(name="log")
def _log(caplog):
  """Captures the log of this project from the level INFO on."""
  caplog.set_level("INFO", logger="absl")
  return caplog


# --- Small exports of every task ----------------------------------------------


@pytest.fixture(name="tokenizer", scope="session")
def tokenizer_fixture():
  return FullTokenizer(tasks.vocab_file())


@pytest.fixture(name="graph_tokenizer", scope="session")
def graph_tokenizer_fixture(tokenizer):
  return tokenizer.in_graph()


@pytest.fixture(name="every_task", scope="session")
def every_task_fixture():
  """Returns each task's export.ServedModel by name."""
  return tasks.OnDemand(tasks.make)


@pytest.fixture(name="exported", scope="session")
def exported_fixture(every_task):
  """Returns the functions of each task's SavedModel by name."""
  return tasks.OnDemand(lambda name: export.Exported(every_task[name]))


@pytest.fixture(name="folders", scope="session")
def folders_fixture(every_task, tmp_path_factory):
  """Returns folders with SavedModel and LiteRT exports by task name."""

  def save(name):
    folder = tmp_path_factory.mktemp("exports") / "1"
    export.save(str(folder), every_task[name], ["savedmodel", "tflite"])
    return folder

  return tasks.OnDemand(save)


def pytest_sessionfinish():
  """Stops the fork server, so that `time` includes the server's seconds."""
  multiprocessing.forkserver._forkserver._stop()
