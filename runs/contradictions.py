"""Checks of settings that contradict each other, before any file is read."""

from collections.abc import Iterable

from cli import file_checks
from modeling.config import BertConfig
from runs import sweep_table
from runs.settings import Devices, Export, Packing, Training
from runs.task_settings import FineTuning, LongText
from storage import UserError, files
from training import processes


def check_training(args: Training) -> None:
  """Checks the flags that all training programs have; else ValueError."""
  check_export(args, args.dtype)
  check_devices(args)
  if args.group_by_length and (args.on_tpu or args.jit_compile):
    raise UserError(
      "--group_by_length makes batches of many lengths, and XLA compiles each "
      "of them: it goes neither with --jit_compile nor with a TPU"
    )
  steps = args.profile_steps
  is_span = isinstance(steps, tuple) and len(steps) == 2 and steps[0] < steps[1]
  if steps is not None and not is_span:
    raise UserError("--profile_steps: give two steps, as in 100,110")


def check_fine_tuning(args: FineTuning) -> None:
  """Checks the flags that all programs of fine-tuning have; else ValueError."""
  if args.early_stopping_patience and not args.eval_steps:
    raise UserError(
      "--early_stopping_patience counts evaluations: say with --eval_steps "
      "after how many steps there is one"
    )
  check_ensemble(args)
  epochs = [s["num_train_epochs"] for s in args.trials()]
  if args.do_train and 0 in epochs:
    raise UserError("--num_train_epochs=0 trains nothing: drop --do_train")
  check_training(args)


def check_ensemble(args: FineTuning) -> None:
  """Raises ValueError if there are fewer models than --ensemble says."""
  size = args.ensemble
  number = len(args.trials()) * args.num_seeds
  if size > 1 and not args.do_train:
    sweep_table.best_trials(args.output_dir, size)
  elif number < size:  # there is always one
    raise UserError(
      f"--ensemble={size} takes the best of a sweep, but this command trains "
      f"{number}: give more of --learning_rate or --num_seeds"
    )


def check_devices(args: Devices) -> None:
  """Raises ValueError if device flags contradict each other or TF_CONFIG."""
  name = args.distribution_strategy
  if args.use_tpu and name not in (None, "tpu"):
    raise UserError(f"--use_tpu contradicts --distribution_strategy={name}")
  is_joint = name == "multi_worker_mirrored" or args.on_tpu
  if processes.has_others() and not is_joint:
    raise UserError(
      "TF_CONFIG names several workers, but each would work alone: give "
      "--distribution_strategy=multi_worker_mirrored, or unset TF_CONFIG"
    )


def check_packing(
  args: Packing, config: BertConfig, not_packed: Iterable[str] = ()
) -> None:
  """Raises ValueError if --pack_examples has a `packing_conflict`."""
  conflict = packing_conflict(args, config, not_packed)
  if args.pack_examples and conflict:
    raise UserError(f"--pack_examples does not go with {conflict}: drop one")


def packing_conflict(
  args: Training, config: BertConfig, not_packed: Iterable[str] = ()
) -> str | None:
  """First setting with which examples cannot share rows; None if all can.

  `not_packed` are names of such flags of the program.
  """
  values = args.to_dict()  # pre-training has no teacher and no windows
  settings = {
    "--add_bilstm": config.add_bilstm,
    "--gradient_accumulation_steps": args.gradient_accumulation_steps > 1,
    "--group_by_length": args.group_by_length,
    "--jit_compile": args.jit_compile,
    **{f"--{name}": values[name] for name in not_packed},
    "--teacher": values.get("teacher"),
    "--long_text=windows": values.get("long_text") == "windows",
    "a TPU": args.on_tpu,
    f"attention {config.attention!r}": config.attention != "bidirectional",
  }
  return next((name for name, is_set in settings.items() if is_set), None)


def check_export(args: Export, dtype: str) -> None:
  """Checks the flags of exports; raises ValueError or FileExistsError."""
  formats = args.export_format
  known = "savedmodel", "tflite", "keras"
  if not formats or not {*formats} <= {*known}:
    raise UserError(
      f"--export_format={','.join(formats)}: give one or more of "
      f"{', '.join(known)}, with commas between them"
    )
  if not args.do_export:
    return
  if not args.export_dir:
    raise UserError("--do_export needs --export_dir")
  if "tflite" in formats and dtype != "float32":
    raise UserError(
      f"--export_format=tflite does not go with --dtype={dtype}: train, "
      "then export in a run of its own without --dtype"
    )
  file_checks.check_writable(args.export_dir, "export_dir")
  files.check_is_free(args.export_dir)


def check_windows(args: LongText) -> None:
  """Raises ValueError if flags of windows contradict each other."""
  if args.long_text != "windows":
    for name in ("max_text_length", "window_stride", "window_pooling"):
      if name in args.given:
        raise UserError(f"--{name} needs --long_text=windows")
    return
  length = args.max_seq_length
  if args.max_text_length < length:
    raise UserError(
      f"--max_text_length={args.max_text_length} is less than "
      f"--max_seq_length={length}, the length of a window"
    )
  if args.stride > length - 2:
    raise UserError(
      f"--window_stride={args.window_stride} leaves tokens out: a window of "
      f"--max_seq_length={length} has {length - 2} of the text"
    )
