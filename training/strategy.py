"""Which devices train: one, several, several hosts, or a TPU."""

import os

import tensorflow as tf
from absl import flags, logging

# Seconds that a worker waits for the others within a step.
_PATIENCE = 600.0
NAMES = ("one_device", "mirrored", "multi_worker_mirrored", "tpu")


def from_flags(FLAGS: flags.FlagValues) -> tf.distribute.Strategy:
  """The strategy that --distribution_strategy and the TPU flags name.

  Default: mirrored where there are several GPUs, else one device. To be called
  before TensorFlow has done anything: several workers have to find each other
  first, and what devices a CPU is cut into cannot be changed.

  Args:
    FLAGS: the values of training.flags.define_devices.

  Raises:
    ValueError: flags contradict each other, or there is no such TPU.
  """
  _cut_cpu(FLAGS.num_cpu_devices)
  name = FLAGS.distribution_strategy
  if FLAGS.use_tpu and name not in (None, "tpu"):
    raise ValueError(f"--use_tpu contradicts --distribution_strategy={name}")
  if FLAGS.use_tpu:
    name = "tpu"
  if name is None:
    gpus = tf.config.list_logical_devices("GPU")
    name = "mirrored" if len(gpus) > 1 else "one_device"
  strategy = _make(name, FLAGS)
  kinds = sorted({d.device_type for d in tf.config.list_logical_devices()})
  logging.info(
    "strategy %s: %d replica(s); this host has %s",
    name,
    strategy.num_replicas_in_sync,
    ", ".join(kinds),
  )
  return strategy


def fixes_shapes(FLAGS: flags.FlagValues) -> bool:
  """Whether batches should all be of one length: XLA compiles each anew."""
  on_tpu = FLAGS.use_tpu or FLAGS.distribution_strategy == "tpu"
  return on_tpu or FLAGS.jit_compile


def check_flags(FLAGS: flags.FlagValues) -> None:
  """Raises ValueError where flags contradict each other.

  Args:
    FLAGS: the values of training.flags.define_devices and define_training.
  """
  if FLAGS.group_by_length and fixes_shapes(FLAGS):
    raise ValueError(
      "--group_by_length makes batches of many lengths, and XLA compiles each "
      "anew: it goes neither with --jit_compile nor with a TPU"
    )


def _cut_cpu(devices):
  tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * devices,
  )


def _make(name, FLAGS):
  if name == "one_device":
    return tf.distribute.get_strategy()
  if name == "mirrored":
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    devices = [device.name for device in tf.config.list_logical_devices(kind)]
    return tf.distribute.MirroredStrategy(devices)
  if name == "multi_worker_mirrored":
    if "TF_CONFIG" not in os.environ:
      raise ValueError(
        "--distribution_strategy=multi_worker_mirrored needs the environment "
        "variable TF_CONFIG, which names all workers and says which this is"
      )
    options = tf.distribute.experimental.CommunicationOptions(
      timeout_seconds=_PATIENCE
    )
    return tf.distribute.MultiWorkerMirroredStrategy(
      communication_options=options
    )
  return _tpu(FLAGS)


def _tpu(FLAGS):
  try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
      tpu=FLAGS.tpu_name or FLAGS.master or "local",
      zone=FLAGS.tpu_zone,
      project=FLAGS.gcp_project,
    )
    if resolver.master():
      tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
  except (ValueError, OSError, tf.errors.OpError) as error:
    raise ValueError(
      f"no TPU can be reached with --tpu_name={FLAGS.tpu_name}: {error}"
    ) from None
  return tf.distribute.TPUStrategy(resolver)
