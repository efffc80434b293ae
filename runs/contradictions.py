"""Checks for contradicting settings, before a run reads any file."""

from cli import file_checks
from modeling.config import BertConfig
from runs import sweep_table
from runs.settings import Devices, Export, Packing, Training
from runs.task_settings import FineTuning, LongText
from serving.formats import FORMATS
from storage import UserError, files
from training import processes


def check_training(settings: Training) -> None:
  """Checks flags that all training programs have; raises ValueError."""
  check_export(settings, settings.dtype)
  check_devices(settings)
  if settings.group_by_length and (settings.on_tpu or settings.jit_compile):
    raise UserError(
      "--group_by_length makes batches of many lengths, and XLA compiles each "
      "of them: it goes neither with --jit_compile nor with a TPU"
    )
  steps = settings.profile_steps
  is_span = isinstance(steps, tuple) and len(steps) == 2 and steps[0] < steps[1]
  if steps is not None and not is_span:
    raise UserError("--profile_steps: give two steps, as in 100,110")


def check_fine_tuning(settings: FineTuning) -> None:
  """Checks flags that all fine-tuning programs have; raises ValueError."""
  if settings.early_stopping_patience and not settings.eval_steps:
    raise UserError(
      "--early_stopping_patience counts evaluations: say with --eval_steps "
      "after how many steps there is one"
    )
  check_ensemble(settings)
  epochs = [s["num_train_epochs"] for s in settings.trials()]
  if settings.do_train and 0 in epochs:
    raise UserError("--num_train_epochs=0 trains nothing: drop --do_train")
  check_training(settings)


def check_ensemble(settings: FineTuning) -> None:
  """Raises ValueError if there are fewer models than --ensemble says."""
  size = settings.ensemble
  number = len(settings.trials()) * settings.num_seeds
  if size > 1 and not settings.do_train:
    sweep_table.best_trials(settings.output_dir, size)
  elif number < size:
    raise UserError(
      f"--ensemble={size} takes the best of a sweep, but this command trains "
      f"{number}: give more of --learning_rate or --num_seeds"
    )


def check_devices(settings: Devices) -> None:
  """Raises ValueError if device flags contradict each other or TF_CONFIG."""
  name = settings.distribution_strategy
  if settings.use_tpu and name not in (None, "tpu"):
    raise UserError(f"--use_tpu contradicts --distribution_strategy={name}")
  is_joint = name == "multi_worker_mirrored" or settings.on_tpu
  if processes.has_others() and not is_joint:
    raise UserError(
      "TF_CONFIG names several workers, but each would work alone: give "
      "--distribution_strategy=multi_worker_mirrored, or unset TF_CONFIG"
    )


def check_packing(settings: Packing, config: BertConfig) -> None:
  """Raises ValueError if --pack_examples has a `packing_conflict`."""
  conflict = packing_conflict(settings, config)
  if settings.pack_examples and conflict:
    raise UserError(f"--pack_examples does not go with {conflict}: drop one")


def packing_conflict(settings: Packing, config: BertConfig) -> str | None:
  """First setting with which examples cannot share rows, or None."""
  values = settings.to_dict()  # pre-training lacks --teacher, --long_text
  conflicts = {
    "--add_bilstm": config.add_bilstm,
    "--gradient_accumulation_steps": settings.gradient_accumulation_steps > 1,
    "--group_by_length": settings.group_by_length,
    "--jit_compile": settings.jit_compile,
    **{f"--{name}": values[name] for name in settings.not_packed},
    "--teacher": values.get("teacher"),
    "--long_text=windows": values.get("long_text") == "windows",
    "a TPU": settings.on_tpu,
    f"attention {config.attention!r}": config.attention != "bidirectional",
  }
  return next((name for name, is_set in conflicts.items() if is_set), None)


def check_export(settings: Export, dtype: str) -> None:
  """Checks the flags of exports; raises ValueError or FileExistsError."""
  names = settings.export_format
  if not names or not {*names} <= {*FORMATS}:
    raise UserError(
      f"--export_format={','.join(names)}: give one or more of "
      f"{', '.join(FORMATS)}, with commas between them"
    )
  if not settings.do_export:
    return
  if not settings.export_dir:
    raise UserError("--do_export needs --export_dir")
  in_float32 = [n for n in names if not FORMATS[n].has_all_dtypes]
  if in_float32 and dtype != "float32":
    raise UserError(
      f"--export_format={in_float32[0]} does not go with --dtype={dtype}: "
      "train, then export in a run of its own without --dtype"
    )
  file_checks.check_writable(settings.export_dir, "export_dir")
  files.check_is_free(settings.export_dir)


def check_windows(settings: LongText) -> None:
  """Raises ValueError if flags of windows contradict each other."""
  if settings.long_text != "windows":
    for name in ("max_text_length", "window_stride", "window_pooling"):
      if name in settings.given:
        raise UserError(f"--{name} needs --long_text=windows")
    return
  length = settings.max_seq_length
  if settings.max_text_length < length:
    raise UserError(
      f"--max_text_length={settings.max_text_length} is less than "
      f"--max_seq_length={length}, the length of a window"
    )
  if settings.stride > length - 2:
    raise UserError(
      f"--window_stride={settings.window_stride} leaves tokens out: a window "
      f"of --max_seq_length={length} has {length - 2} of the text"
    )
