"""Devices of a run: strategy, compiled steps, precision of float32 products."""

import glob
import math
import os
import signal

import keras
import tensorflow as tf
from absl import logging

from data import batching
from runs.settings import Devices, Training
from storage import UserError, silence_xla


def make_strategy(settings: Devices) -> tf.distribute.Strategy:
  """Makes the strategy of --distribution_strategy and the TPU flags.

  Default: mirrored with several GPUs, otherwise one device. Call this function
  before TensorFlow uses a device. Later, workers can no longer connect, and the
  logical CPU devices are fixed. Raises ValueError for a missing TPU.
  """
  silence_xla()
  tf.config.experimental.enable_tensor_float_32_execution(settings.tf32)
  if settings.deterministic:
    tf.config.experimental.enable_op_determinism()
  cpu = tf.config.list_physical_devices("CPU")[0]
  parts = [tf.config.LogicalDeviceConfiguration()] * settings.num_cpu_devices
  tf.config.set_logical_device_configuration(cpu, parts)
  name = "tpu" if settings.use_tpu else settings.distribution_strategy
  if name is None:
    gpus = tf.config.list_logical_devices("GPU")
    name = "mirrored" if len(gpus) > 1 else "one_device"
  strategy = _strategy(name, settings)
  replicas = strategy.num_replicas_in_sync
  types = sorted({d.device_type for d in tf.config.list_logical_devices()})
  text = "strategy %s: %d replica(s); this host has %s"
  logging.info(text, name, replicas, ", ".join(types))
  if "GPU" in types and settings.dtype == "float32" and settings.tf32:
    logging.info(
      "GPUs round the factors of float32 products to TF32, 10 bits: --notf32 "
      "computes in float32, --dtype=bfloat16 about twice as fast"
    )
  if "GPU" not in types and glob.glob("/dev/nvidia[0-9]*"):
    logging.warning(
      "this machine has an NVIDIA GPU, and TensorFlow does not see it: run "
      "pip install 'tensorflow[and-cuda]==%s', and see docs/gpu.md",
      tf.__version__,
    )
  return strategy


def compiles_step(settings: Training) -> bool:
  """Value of --jit_compile; by default True on a GPU."""
  if settings.jit_compile is not None:
    return settings.jit_compile
  return bool(tf.config.get_visible_devices("GPU"))


def why_uncompiled(settings: Training, model: keras.Model) -> str:
  """Reason why XLA does not compile a model's training step; "" if it does."""
  if settings.on_tpu or settings.jit_compile:
    return ""
  if not compiles_step(settings):
    is_default = settings.jit_compile is None
    return "there is no GPU" if is_default else "--nojit_compile"
  names = [x.name for x in model.layers if not x.supports_jit]  # cuDNN's LSTM
  return f"it cannot compile {', '.join(names)}" if names else ""


def length_multiple(settings: Training, length: int, split: str) -> int:
  """Returns a number that divides the lengths of a split's batches.

  0 means that all batches have `length`, which a TPU needs. XLA compiles a step
  for each length, in half a minute. In training with XLA, the number is
  therefore a multiple of 32 that allows at most eight lengths.
  """
  if settings.on_tpu:
    return 0
  if split != "train" or not compiles_step(settings):
    return batching.MULTIPLE
  return 32 * math.ceil(length / 8 / 32)


def _strategy(name: str, settings: Devices):
  if name == "one_device":
    return tf.distribute.get_strategy()
  if name == "mirrored":
    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
  if name == "multi_worker_mirrored":
    if not os.environ.get("TF_CONFIG"):
      raise UserError(
        "--distribution_strategy=multi_worker_mirrored needs the environment "
        "variable TF_CONFIG, with all workers and the index of this one"
      )
    # A timeout would leave a sleeping thread for each collective operation; a
    # heartbeat reveals lost workers. AUTO would send GPUs' gradients by gRPC.
    has_gpus = tf.config.get_visible_devices("GPU")
    kinds = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
      implementation=kinds.NCCL if has_gpus else kinds.AUTO
    )
    logging.info("waiting for the workers in %s", os.environ["TF_CONFIG"])
    # Ctrl-C ends the process: while TensorFlow waits, no handler can run.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    make = tf.distribute.MultiWorkerMirroredStrategy
    strategy = make(communication_options=options)
    signal.signal(signal.SIGINT, before)
    # TensorFlow now ignores SIGTERM, which training alone handles itself.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy
  name = settings.tpu_name or settings.master or "local"
  try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
      tpu=name, zone=settings.tpu_zone, project=settings.gcp_project
    )
    if resolver.master():
      tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
  except (ValueError, OSError, tf.errors.OpError) as error:
    text = f"the TPU {name} cannot be reached: {error}"
    raise UserError(text) from None
  return tf.distribute.TPUStrategy(resolver)
