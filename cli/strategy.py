"""Distribution strategy by flags: one device, several, several hosts, a TPU."""

import os

import tensorflow as tf
from absl import logging

from cli import flags as shared_flags
from cli import quiet, training_program
from cli.arguments import Arguments
from storage import UserError


def from_flags(args: Arguments) -> tf.distribute.Strategy:
  """Makes the strategy of --distribution_strategy and the TPU flags.

  Default: mirrored if there are several GPUs, else one device. Call it before
  TensorFlow uses a device: workers connect first, and logical CPU devices
  cannot be changed later. Raises ValueError for contradictions, or no such TPU.
  """
  training_program.check_devices(args)
  quiet.silence_xla()
  _split_cpu(args.num_cpu_devices)
  name = args.distribution_strategy
  if args.use_tpu:
    name = "tpu"
  if name is None:
    gpus = tf.config.list_logical_devices("GPU")
    name = "mirrored" if len(gpus) > 1 else "one_device"
  strategy = _make(name, args)
  types = sorted({d.device_type for d in tf.config.list_logical_devices()})
  logging.info(
    "strategy %s: %d replica(s); this host has %s",
    name,
    strategy.num_replicas_in_sync,
    ", ".join(types),
  )
  return strategy


def compiles_step(args: Arguments, packs: bool | None) -> bool:
  """--jit_compile, or its default: a GPU, and batches of one shape.

  With `packs`, rows of several examples differ in length.
  """
  if args.jit_compile is not None:
    return args.jit_compile
  varies = args.group_by_length or packs
  return not varies and bool(tf.config.get_visible_devices("GPU"))


def needs_static_shapes(args: Arguments, packs: bool | None = False) -> bool:
  """True if batches must have one length, as XLA compiles each length."""
  return shared_flags.on_tpu(args) or compiles_step(args, packs)


def packs_examples(args: Arguments, conflict: str | None) -> bool | None:
  """--pack_examples; without the flag False if it is impossible, else None.

  `conflict` is that of training_program.packing_conflict.
  """
  packs = args.pack_examples
  if packs is None and (conflict or needs_static_shapes(args)):
    return False
  return packs


def _split_cpu(num_devices):
  tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * num_devices,
  )


def _make(name, args):
  if name == "one_device":
    return tf.distribute.get_strategy()
  if name == "mirrored":
    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
  if name == "multi_worker_mirrored":
    if "TF_CONFIG" not in os.environ:
      raise UserError(
        "--distribution_strategy=multi_worker_mirrored needs the environment "
        "variable TF_CONFIG, with all workers and the index of this one"
      )
    # No timeout of collectives: each would leave a thread that sleeps for
    # so long. A worker that is lost is noticed by its missing heartbeat.
    return tf.distribute.MultiWorkerMirroredStrategy()
  return _tpu(args)


def _tpu(args):
  name = "tpu_name" if args.tpu_name or not args.master else "master"
  try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
      tpu=args[name] or "local",
      zone=args.tpu_zone,
      project=args.gcp_project,
    )
    if resolver.master():
      tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
  except (ValueError, OSError, tf.errors.OpError) as error:
    raise UserError(
      f"no TPU can be reached with --{name}={args[name]}: {error}"
    ) from None
  return tf.distribute.TPUStrategy(resolver)
