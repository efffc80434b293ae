"""Flags choose the tf.distribute strategy; the TPU resolver is a stand-in."""

import signal
from types import SimpleNamespace

import pytest
import tensorflow as tf

from runs import checks, devices, fine_tune
from runs.settings import Devices
from tests import programs, small_model, stages
from tests.training import toy

REPLICAS = SimpleNamespace(num_replicas_in_sync=2)  # stands in for a strategy


@pytest.fixture(name="events")
def _events():
  return stages.Events()


def _flags(**changes):
  return Devices(**{"num_cpu_devices": 2} | changes)  # as in conftest.py


def test_one_device_is_the_default_and_mirrored_takes_all_devices():
  assert devices.make_strategy(_flags()) is tf.distribute.get_strategy()
  result = devices.make_strategy(_flags(distribution_strategy="mirrored"))
  assert isinstance(result, tf.distribute.MirroredStrategy)
  assert result.num_replicas_in_sync == 2


@pytest.mark.parametrize(
  ("gpus", "name"),
  [("", "one_device"), ("a", "one_device"), ("ab", "mirrored")],
)
def test_several_gpus_are_mirrored_by_default(monkeypatch, events, gpus, name):
  gpus = [SimpleNamespace(device_type="GPU", name=gpu) for gpu in gpus]
  monkeypatch.setattr(tf.config, "list_logical_devices", lambda *_: gpus)
  events.replace(monkeypatch, devices, "_strategy", REPLICAS, last=1)
  devices.make_strategy(_flags())
  assert events == [("_strategy", name)]


def test_workers_need_tf_config_and_use_nccl_on_gpus(monkeypatch, events):
  make = "MultiWorkerMirroredStrategy"
  events.replace(monkeypatch, tf.distribute, make, REPLICAS)
  flags = _flags(distribution_strategy="multi_worker_mirrored")
  with pytest.raises(ValueError, match="needs the environment variable TF_CON"):
    devices.make_strategy(flags)
  monkeypatch.setenv("TF_CONFIG", "{}")
  assert devices.make_strategy(flags) is REPLICAS
  monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [kind])
  devices.make_strategy(flags)
  options = [named["communication_options"] for _, named in events]
  assert [each.implementation.name for each in options] == ["AUTO", "NCCL"]
  # A timeout would leave a sleeping thread per gradient exchange.
  assert {each.timeout_seconds for each in options} == {None}


def test_a_worker_waiting_for_others_leaves_ctrl_c_to_the_system(monkeypatch):
  """Afterwards the handlers are Python's again, whatever TensorFlow has set."""
  numbers = signal.SIGINT, signal.SIGTERM
  before = [signal.getsignal(number) for number in numbers]
  restored = []

  def make(**_):
    assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
    monkeypatch.setattr(signal, "signal", lambda *args: restored.append(args))
    return REPLICAS

  monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", make)
  monkeypatch.setenv("TF_CONFIG", "{}")
  real = signal.signal
  devices.make_strategy(_flags(distribution_strategy="multi_worker_mirrored"))
  real(*restored[0])
  assert restored == [*zip(numbers, before, strict=True)]


def test_flags_set_precision_and_determinism(monkeypatch, events):
  tf32 = "enable_tensor_float_32_execution"
  determinism = "enable_op_determinism"
  for name in (tf32, determinism):
    events.replace(monkeypatch, tf.config.experimental, name)
  devices.make_strategy(_flags())
  assert events == [(tf32, True)]
  devices.make_strategy(_flags(tf32=False, deterministic=True))
  assert events[1:] == [(tf32, False), (determinism,)]


def test_the_log_warns_of_tf32_and_of_unseen_gpus(monkeypatch, log):
  monkeypatch.setattr(devices.glob, "glob", lambda pattern: ["/dev/nvidia0"])
  devices.make_strategy(_flags())
  assert "an NVIDIA GPU, and TensorFlow does not see it" in log.text
  log.clear()
  gpu = SimpleNamespace(device_type="GPU", name="a")
  monkeypatch.setattr(tf.config, "list_logical_devices", lambda *_: [gpu])
  for flags in ({"tf32": False}, {"dtype": "bfloat16"}):
    devices.make_strategy(_flags(**flags))
  assert "TF32" not in log.text and "see it" not in log.text
  devices.make_strategy(_flags())
  assert "products to TF32, 10 bits: --notf32" in log.text


def test_workers_without_a_strategy_for_several_are_refused(monkeypatch):
  toy.set_worker(monkeypatch, 0)
  with pytest.raises(ValueError, match="multi_worker_mirrored, or unset TF_CO"):
    checks.check_devices(_flags())
  for name in ("multi_worker_mirrored", "tpu"):
    checks.check_devices(_flags(distribution_strategy=name))
  checks.check_devices(_flags(use_tpu=True))


@pytest.mark.parametrize(
  ("names", "asked"),
  [
    ({"tpu_name": "a", "master": "b"}, "a"),
    ({"tpu_name": "", "master": "b"}, "b"),
    ({}, "local"),
  ],
)
def test_flags_of_the_tpu_reach_its_resolver(monkeypatch, events, names, asked):
  cluster = SimpleNamespace(master=lambda: "grpc://tpu")
  make = "TPUClusterResolver"
  events.replace(monkeypatch, tf.distribute.cluster_resolver, make, cluster)
  for owner, name in (
    (tf.config, "experimental_connect_to_cluster"),
    (tf.tpu.experimental, "initialize_tpu_system"),
    (tf.distribute, "TPUStrategy"),
  ):
    monkeypatch.setattr(owner, name, lambda _: REPLICAS)
  flags = {"use_tpu": True, "tpu_zone": "z", "gcp_project": "p"} | names
  assert devices.make_strategy(_flags(**flags)) is REPLICAS
  assert events == [(make, {"tpu": asked, "zone": "z", "project": "p"})]


def test_an_error_names_an_unreachable_tpu(monkeypatch):
  def resolver(**_):
    raise OSError("no such host")

  owner = tf.distribute.cluster_resolver
  monkeypatch.setattr(owner, "TPUClusterResolver", resolver)
  with pytest.raises(ValueError, match="TPU t cannot be reached: no such host"):
    devices.make_strategy(_flags(use_tpu=True, tpu_name="t"))


# In training with XLA: a multiple of 32 that leaves at most eight lengths.
LENGTHS = {8: 32, 128: 32, 256: 32, 264: 64, 384: 64, 512: 64, 2048: 256}


@pytest.mark.parametrize("gpus", [[], ["GPU:0"]])
@pytest.mark.parametrize(
  ("given", "reason"),
  [(None, "there is no GPU"), (False, "--nojit_compile"), (True, "")],
)
def test_jit_compile_and_the_gpu_decide_compilation_lengths_and_packing(
  monkeypatch, gpus, given, reason
):
  monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
  args = programs.arguments("run_classifier", jit_compile=given)
  is_compiled = bool(gpus) if given is None else given
  layers = [SimpleNamespace(name=n, supports_jit=n == "a") for n in "ab"]
  model, other = (SimpleNamespace(layers=x) for x in ([], layers))
  assert devices.compiles_step(args) == is_compiled
  assert devices.why_uncompiled(args, model) == ("" if is_compiled else reason)
  if is_compiled and given is None:
    reason = "it cannot compile b"
  assert devices.why_uncompiled(args, other) == reason
  for length, multiple in LENGTHS.items():
    result = devices.length_multiple(args, length, "train")
    assert result == (multiple if is_compiled else 8)
    assert devices.length_multiple(args, length, "dev_mismatched") == 8
  for on_tpu in ({"use_tpu": True}, {"distribution_strategy": "tpu"}):
    assert devices.why_uncompiled(args.replace(**on_tpu), other) == ""
    for split in ("train", "dev"):
      assert not devices.length_multiple(args.replace(**on_tpu), 128, split)
  config = small_model.narrow(5)
  for chosen in (None, False, True):
    packs = fine_tune.packs_examples(args.replace(pack_examples=chosen), config)
    assert packs is (False if chosen is None and is_compiled else chosen)
