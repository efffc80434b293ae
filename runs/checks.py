"""Checks settings of a run, first for contradictions, then against files."""

import os
from collections.abc import Iterable

from absl import logging

from data import labels, tokenization
from modeling.config import BertConfig
from runs import model_files, trained_model
from runs.settings import Devices, Packing, ServedEncoder, Training
from runs.task_settings import FineTuning, LongText
from serving.answers import TASK_FILE
from serving.formats import FORMATS
from storage import UserError, files, processes, record_scan
from training import checkpoint_files


def check_training(settings: Training) -> None:
  if isinstance(settings, FineTuning):
    if settings.early_stopping_patience and not settings.eval_steps:
      raise UserError(
        "--early_stopping_patience counts evaluations: give --eval_steps, the "
        "number of steps between them"
      )
    size = settings.ensemble
    if size > 1 and not settings.do_train:
      model_files.best_trials(settings.output_dir, size)
    elif size > 1 and (number := len(settings.named_trials())) < size:
      raise UserError(
        f"--ensemble={size} takes the best of a sweep, but this command trains "
        f"{number}: give more values of --learning_rate, or --num_seeds"
      )
  check_export(settings)
  check_devices(settings)
  steps = settings.profile_steps
  if steps and (len(steps) != 2 or steps[0] >= steps[1]):
    raise UserError("--profile_steps: give two steps, as in 100,110")


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
  if settings.num_cpu_devices > 1 and not is_joint and name != "mirrored":
    raise UserError("--num_cpu_devices needs --distribution_strategy=mirrored")


def check_export(settings: ServedEncoder | Training) -> None:
  """Checks the flags of an export; raises ValueError or OSError."""
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
  if in_float32 and settings.dtype != "float32":
    raise UserError(
      f"--export_format={in_float32[0]} does not go with --dtype="
      f"{settings.dtype}: train first, then export in a run without --dtype"
    )
  files.check_writable(settings.export_dir, "export_dir")
  files.check_is_free(settings.export_dir)
  folder = files.absolute(settings.export_dir)
  checkpoint_files.check_name(folder)
  if isinstance(settings, Training):
    output_dir = os.path.join(files.absolute(settings.output_dir), "")
    if output_dir.startswith(os.path.join(folder, "")):
      raise UserError(f"--export_dir={folder} holds --output_dir: name another")
  parent = os.path.dirname(folder)
  if files.exists(os.path.join(parent, TASK_FILE)):
    raise UserError(
      f"--export_dir={settings.export_dir} lies in the export {parent}, where "
      "a server looks for no version: name a folder that is in no export"
    )


def check_windows(settings: LongText) -> None:
  """Raises ValueError if flags for windows of texts contradict each other."""
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
  if settings.to_dict().get("pooling") == "none":  # extract_features.py has it
    message = "--long_text=windows gives a vector for each text: give --pooling"
    raise UserError(message)


def packing_conflict(settings: Packing, config: BertConfig) -> str | None:
  """Names the first setting that keeps examples from sharing rows, or None."""
  values = settings.to_dict()  # pre-training lacks --teacher, --long_text
  conflicts = {
    "--add_bilstm": config.add_bilstm,
    "--gradient_accumulation_steps": settings.gradient_accumulation_steps > 1,
    "--group_by_length": settings.group_by_length,
    **{f"--{name}": values[name] for name in settings.not_packed},
    "--teacher": values.get("teacher") and values["distill_weight"],
    "--long_text=windows": values.get("long_text") == "windows",
    "a TPU": settings.on_tpu,
    f"attention {config.attention!r}": config.attention != "bidirectional",
  }
  return next((name for name, is_set in conflicts.items() if is_set), None)


# --- Against files ------------------------------------------------------------


def checkpoint(settings: Training) -> str | None:
  """Path of the checkpoint to start from; None to train from scratch."""
  own = checkpoint_files.choose_checkpoint(settings.output_dir)
  return own or settings.init_checkpoint


def labels_file(settings: FineTuning) -> str | None:
  """Path of --init_checkpoint's labels.txt; None if its head is not used."""
  path = settings.init_checkpoint
  own = checkpoint_files.choose_checkpoint(settings.output_dir)
  if not path or own or (settings.do_train and settings.new_head):
    return None
  return checkpoint_files.sibling_file(path, labels.FILE_NAME)


def check_run(settings: Training, network: BertConfig, *same: str) -> None:
  """Checks that flags fit the model in --output_dir or --init_checkpoint.

  The flags in `same` must have the values of the training in --output_dir.
  Without --vocab_file a run reads no text, so that letter case does not matter.
  Raises ValueError if flags do not fit, OSError for a read-only folder.
  """
  if os.path.isfile(settings.output_dir):
    raise UserError(f"--output_dir={settings.output_dir} is a file, no folder")
  files.check_writable(settings.output_dir, "output_dir")
  hides = settings.do_train and not settings.init_checkpoint
  checkpoint_files.check_listed(settings.output_dir, hides)
  if own := checkpoint_files.choose_checkpoint(settings.output_dir):
    if settings.do_train:
      is_sweep = isinstance(settings, FineTuning) and settings.is_sweep
      checkpoint_files.check_resumable(settings.output_dir, is_sweep)
    entry = checkpoint_files.run_of(own)
    given = settings.init_checkpoint
    start = checkpoint_files.path_of(entry, "init_checkpoint")
    if given and not settings.do_train and files.absolute(given) != start:
      logging.warning("--init_checkpoint has no effect: %s is there", own)
    if (trained := entry.get("program")) not in (None, settings.program):
      raise UserError(
        f"--output_dir={settings.output_dir} has a model of {trained}.py: name "
        "another folder; to start from this model, give "
        f"--init_checkpoint={settings.output_dir}"
      )
    trained_model.check_sizes(settings.bert_config_file, network, own)
    actual = settings.to_dict() | {"attention": network.attention}
    if settings.do_train:
      same = ("task_name", *same)
    owner = f"the model in {settings.output_dir}"
    remedy = "give the value of the training, or another --output_dir"
    for name in ("attention", *same):
      trained = entry["flags"].get(name)
      model_files.check_same(name, actual.get(name), trained, owner, remedy)
  elif start := settings.init_checkpoint:
    model_files.check_init_checkpoint(settings, network, settings.do_train)
    flags = checkpoint_files.run_of(start)["flags"]
    # A fine-tuning may change what a model was trained with.
    for name in () if isinstance(settings, FineTuning) else same:
      remedy = "give that value"
      trained = flags.get(name)
      model_files.check_same(name, settings[name], trained, start, remedy)
  elif not settings.do_train:
    raise UserError(
      f"no checkpoint in --output_dir={settings.output_dir} and no "
      "--init_checkpoint: train first, or name one"
    )
  if settings.vocab_file:
    if own:
      model_files.check_vocabulary(settings, own)
    tokenization.warn_of_case(settings.tokenizer)
  if isinstance(settings, Packing) and settings.pack_examples:
    conflict = packing_conflict(settings, network)
    if conflict:
      raise UserError(f"--pack_examples does not go with {conflict}: drop one")


def check_fine_tuning(
  settings: FineTuning, *same: str, of_teacher: Iterable[str] = ()
) -> BertConfig:
  """Checks flags as `check_run` does; returns the encoder's configuration.

  Checks that this program trained --teacher, with this run's vocabulary and
  values of the flags in `of_teacher`.
  """
  check_training(settings)
  network = model_files.config(settings)
  settings.frozen_layers(network)
  if not checkpoint(settings):
    logging.warning("no --init_checkpoint: all variables start at random")
  if settings.do_train and (teacher := settings.teacher):
    entries = checkpoint_files.read_runs(teacher)
    if not entries or entries[-1].get("program") != settings.program:
      raise UserError(
        f"--teacher={teacher} is not an --output_dir of {settings.program}.py"
      )
    trained = model_files.from_record(type(settings), teacher, entries[-1], {})
    taught = BertConfig.from_json(trained.bert_config_file)
    if settings.max_seq_length > (limit := taught.max_position_embeddings):
      text = f"--max_seq_length exceeds the {limit} positions of --teacher="
      raise UserError(f"{text}{teacher}: lower it")
    owner, remedy = f"--teacher={teacher}", "teacher and student need the same"
    for name in ("do_lower_case", *of_teacher):
      value, expected = settings[name], trained[name]
      model_files.check_same(name, value, expected, owner, remedy)
    if settings.tokenizer.vocab != trained.tokenizer.vocab:
      raise UserError(
        f"--vocab_file={settings.vocab_file} has other tokens than "
        f"{trained.vocab_file} of --teacher={teacher}, which needs the same"
      )
  check_run(settings, network, "add_bilstm", "do_lower_case", *same)
  return network


def check_head(settings: FineTuning, name: str) -> None:
  """Raises ValueError if the head was trained with another value of `name`."""
  own = checkpoint_files.choose_checkpoint(settings.output_dir)
  start = own or settings.init_checkpoint
  if not start or (not own and settings.do_train and settings.new_head):
    return
  trained = checkpoint_files.run_of(start)["flags"].get(name)
  remedy = "give that value, or --new_head and another --output_dir"
  owner = f"the head of {start}"
  model_files.check_same(name, settings[name], trained, owner, remedy)


def vocabulary(
  settings: Training, paths: Iterable[str], vocab_size: int
) -> tuple[str | None, dict]:
  """Fingerprint of a training's vocabulary, and flags to change in run.json.

  Without --vocab_file, the records in `paths` or the checkpoint's run.json may
  have the fingerprint, and the model's folders the file. `do_lower_case` is
  None if the training reads records, and neither user nor checkpoint sets it.
  """
  trained: dict = {"flags": {}}
  case = settings.do_lower_case
  if not isinstance(settings, FineTuning):
    if start := checkpoint(settings):
      trained = checkpoint_files.run_of(start)
    if "do_lower_case" not in settings.given:
      case = trained["flags"].get("do_lower_case")
  if settings.vocab_file:
    return settings.tokenizer.fingerprint, {"do_lower_case": case}
  indexes = files.in_threads(record_scan.read_index, paths)
  mark = next((mark for _, mark in indexes if mark), None)
  mark = mark or trained.get("vocabulary")
  entry = {"flags": settings.to_dict(), "vocabulary": mark}
  file = trained_model.find_vocabulary(settings.output_dir, entry, vocab_size)
  return mark, {"vocab_file": file, "do_lower_case": case}
