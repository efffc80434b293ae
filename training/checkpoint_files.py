"""Finds checkpoints, reads their indexes and run.json, without TensorFlow.

The file `checkpoint` names the newest checkpoint first. An index lists names
and shapes of variables, so programs check a model before TensorFlow's import.
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from storage import UserError, files, setting, textfiles, tfrecord

BEST = "best"  # subfolder of an output folder
BEST_RECORD = "best.json"  # in the subfolder
RUN_FILE = "run.json"
METRICS = "metrics.jsonl"  # in the folder of run.json
LOCK_FILE = "run.lock"  # a local folder has one while the chief's run uses it
UNFINISHED = "unfinished-"  # begins the name of an incomplete checkpoint
_LISTED = re.compile(
  r'^(?:model_checkpoint_path|all_model_checkpoint_paths): "(.*)"', re.MULTILINE
)
_TABLE_END = bytes.fromhex("57fb808b247547db")  # magic number of LevelDB
_FOOTER_BYTES = 48
_CLASSES = "output_weights", "output_bias"  # [L, H], [L]
_PREDICTIONS = (
  "cls/predictions/transform/dense/kernel",
  "cls/predictions/transform/dense/bias",
  "cls/predictions/transform/LayerNorm/gamma",
  "cls/predictions/transform/LayerNorm/beta",
  "cls/predictions/output_bias",  # [V]
)
# {kind of model: variables of the head}. A classifier and a tagger have the
# same variables. A kind comes before kinds with a subset of its variables.
HEADS = {
  "multiple_choice": ("cls/choice",),  # [H]
  "question_answering": ("cls/squad/output_weights", "cls/squad/output_bias"),
  "tagging": _CLASSES,
  "classification": _CLASSES,
  "pretraining": (
    *_PREDICTIONS,
    "cls/seq_relationship/output_weights",
    "cls/seq_relationship/output_bias",
  ),
  "masked_lm": _PREDICTIONS,
  "encoder": (),
}


def sibling_file(path: str, name: str) -> str | None:
  """Finds a file in a checkpoint's folder; returns the path or None.

  `path` is the folder or a checkpoint's prefix. For `best/model.ckpt-10` the
  search includes the parent of the folder `best`.
  """
  prefix = os.path.join(path, "") if files.is_folder(path) else path
  folder = os.path.dirname(prefix) or "."
  folders = [folder]
  if os.path.basename(folder) == BEST:
    folders.append(os.path.dirname(folder) or ".")
  paths = [os.path.join(folder, name) for folder in folders]
  return next(filter(files.exists, paths), None)


def all_checkpoints(folder: str) -> list[str]:
  """Existing prefixes that the file `checkpoint` names, newest last."""
  path = os.path.join(folder, "checkpoint")
  names = _LISTED.findall(files.read_text(path)) if files.exists(path) else []
  # Paths may name the folder in which the checkpoints were before a move.
  names = [*dict.fromkeys(map(os.path.basename, names))]  # the newest first
  prefixes = [os.path.join(folder, name) for name in names[1:] + names[:1]]
  return [prefix for prefix in prefixes if files.exists(f"{prefix}.index")]


def latest_checkpoint(folder: str) -> str | None:
  """Prefix of the newest checkpoint, or None."""
  return next(reversed(all_checkpoints(folder)), None)


def choose_checkpoint(folder: str, prefer_best: bool = False) -> str | None:
  """Chooses a checkpoint in a run's folder; returns the prefix or None.

  With `prefer_best`, or if the last training saved the best checkpoint, takes
  the checkpoint in the subfolder `best`. Otherwise takes the newest checkpoint.
  If only one of the two exists, takes that one.
  """
  best = latest_checkpoint(os.path.join(folder, BEST))
  newest = latest_checkpoint(folder)
  last = run_of(folder)["flags"]
  has_best = last.get("keep_best") or last.get("early_stopping_patience")
  if prefer_best or has_best:
    return best or newest
  return newest or best


def read_best(folder: str) -> dict:
  """Reads best.json: metric, value, step, and the step last `evaluated`."""
  path = os.path.join(folder, BEST, BEST_RECORD)
  return textfiles.read_json(path) if files.exists(path) else {}


def check_resumable(folder: str, is_sweep: bool = False) -> None:
  """Raises UserError for a training in a sweep's folder, and vice versa."""
  best, newest = os.path.join(folder, BEST), latest_checkpoint(folder)
  other = newest if is_sweep else not newest and files.exists(best) and best
  if other:
    raise UserError(
      f"{other} is of an earlier training or sweep: name another "
      f"{setting('output_dir')}, or remove it if nobody needs it"
    )


def check_listed(folder: str, any_name: bool = False) -> None:
  """Raises UserError if there are checkpoints, but `checkpoint` names none.

  Without the file `checkpoint`, a training would begin again, and overwrite the
  checkpoints. With `any_name`, also refuses those that no training has named.
  """
  if latest_checkpoint(folder) or not files.is_folder(folder):
    return
  # A killed run may leave model.ckpt-0 unlisted.
  name = r"(?!model\.ckpt-0\.)[^.].*" if any_name else r"model\.ckpt-[1-9]\d*"
  is_index = re.compile(rf"{name}\.index").fullmatch
  if any(map(is_index, files.list_folder(folder))):
    raise UserError(
      f"{folder} has checkpoints, but its file checkpoint is missing or names "
      "none of them. To continue, restore the file, whose first line is "
      'model_checkpoint_path: "model.ckpt-N" for the newest N. To train anew, '
      f"name another {setting('output_dir')}; to start from a released or "
      f"converted model, give {setting('init_checkpoint')}, too"
    )


def find_checkpoint(path: str) -> str:
  """Returns the prefix of the checkpoint that a user names.

  `path` is a prefix ("dir/model.ckpt-10"), a checkpoint's file, a run's folder
  (see `choose_checkpoint`), or a released model's folder with one checkpoint.
  Raises FileNotFoundError without a checkpoint. Raises ValueError for several
  checkpoints, or for a path that `check_name` refuses.
  """
  check_name(path)
  if not files.is_folder(path):
    prefix = re.sub(r"\.(index|data-\d+-of-\d+|meta)$", "", path)
    if files.exists(f"{prefix}.index"):
      return prefix
    raise FileNotFoundError(
      f"no checkpoint at {path!r}: there is no such folder and no file "
      f"{prefix}.index (a checkpoint's name is the prefix of its files)"
    )
  if prefix := choose_checkpoint(path):
    return prefix
  # The indexes of record files are hidden files.
  listed = sorted(n for n in files.list_folder(path) if n[0] != ".")
  names = [n.removesuffix(".index") for n in listed if n.endswith(".index")]
  if len(names) > 1:
    raise UserError(
      f"{path} has several checkpoints ({', '.join(names)}): name one, as in "
      f"{os.path.join(path, names[-1])}"
    )
  if not names:
    shown = ", ".join(listed[:5]) or "nothing"
    raise FileNotFoundError(
      f"no checkpoint in the folder {path}: it has {shown}; expected files "
      f"named *.index and *.data-*. Name the {setting('output_dir')} of a "
      "training, or convert another model with convert_checkpoint.py"
    )
  return os.path.join(path, names[0])


def check_name(path: str) -> None:
  """Raises ValueError for a path that TensorFlow would read as a pattern."""
  if re.search(r"[*?\[\\]", path):
    text = f"TensorFlow reads no checkpoint from {path}: avoid * ? [ and \\"
    raise UserError(text)


def read_runs(output_dir: str) -> list[dict]:
  """Reads run.json: an entry for each start, oldest first; [] if missing."""
  path = os.path.join(output_dir, RUN_FILE)
  if not files.exists(path):
    return []
  try:
    return json.loads(files.read_text(path))
  except ValueError as error:
    raise UserError(f"{path} is corrupt: restore it, or remove it") from error


def path_of(entry: Mapping, name: str) -> str | None:
  """Path that a flag of an entry names; the file may not exist."""
  path = entry["flags"].get(name)
  if path and not files.is_remote(path):
    path = os.path.join(entry.get("directory", ""), path)
  return path


def append_run(output_dir: str, entry: dict) -> None:
  entries = [*read_runs(output_dir), entry]
  path = os.path.join(output_dir, RUN_FILE)
  files.write_text(path, json.dumps(entries, indent=1) + "\n")


def file_of(
  path: str, flag: str, *names: str, entry: Mapping | None = None
) -> str | None:
  """Finds a file that belongs to a checkpoint; returns the path or None.

  Looks for `names` in the checkpoint's folder, then for `flag` in `entry`, by
  default the last entry of run.json.
  """
  named = path_of(run_of(path) if entry is None else entry, flag)
  paths = [sibling_file(path, name) for name in names]
  paths.append(named if named and files.exists(named) else None)
  return next(filter(None, paths), None)


def run_of(path: str) -> dict:
  """Last entry of a checkpoint's run.json; {"flags": {}} without an entry."""
  record = sibling_file(path, RUN_FILE)
  entries = read_runs(os.path.dirname(record)) if record else []
  return entries[-1] if entries else {"flags": {}}


def config_of(path: str) -> dict:
  """Fields of bert_config.json at a checkpoint's training; {} if unknown."""
  if isinstance(config := run_of(path).get("config"), dict):
    return config
  file = file_of(path, "bert_config_file", "bert_config.json")
  return textfiles.read_json(file) if file else {}


def shapes(prefix: str) -> dict[str, tuple[int, ...]]:
  """Reads the shapes of a checkpoint's tensors by name; {} if unreadable.

  The .index file is a LevelDB table: blocks of sorted keys, then a block with
  the positions of all blocks. A key is stored without the prefix that it shares
  with the key before. Values are BundleEntryProtos.
  """
  with files.open_for_reading(f"{prefix}.index") as file:
    table = file.read()
  if not table.endswith(_TABLE_END):
    return {}
  footer = table[-_FOOTER_BYTES:]
  # The offset and the size of the metadata, which is empty.
  _, at = _varint(footer, 0)
  _, at = _varint(footer, at)
  result = {}
  try:
    for _, position in _entries(table, footer, at):
      for name, entry in _entries(table, position, 0):
        shape = tfrecord.parse("BundleEntryProto", entry).shape
        result[name.decode()] = tuple(dim.size for dim in shape.dim)
  except (IndexError, ValueError):
    return {}  # corrupt: TensorFlow will say so
  result.pop("", None)  # the header
  return result


def kinds_of(variables: Collection[str]) -> list[str]:
  """Returns the keys of HEADS whose variables all exist; "encoder" is last."""
  return [k for k, names in HEADS.items() if {*variables} >= {*names}]


def kinds_at(path: str | None) -> list[str]:
  """Calls `kinds_of` for a checkpoint that a user names; [] without a path."""
  return kinds_of(shapes(find_checkpoint(path))) if path else []


def no_encoder(prefix: str, names: Iterable[str], missing: str) -> UserError:
  """Makes the error for a checkpoint that lacks an encoder variable."""
  likely = sorted(names, key=lambda x: ("word_embeddings" not in x, x))
  return UserError(
    f"{prefix} has no {missing}, but {', '.join(likely[:3])}, ...: name "
    "another checkpoint, or convert this one as docs/checkpoints.md says"
  )


def _entries(table, data, at) -> Iterator[tuple[bytes, bytes]]:
  """Yields keys and values of a block, whose position is in `data` at `at`."""
  begin, at = _varint(data, at)
  size, _ = _varint(data, at)
  block = table[begin : begin + size]
  end = size - 4 * (1 + int.from_bytes(block[-4:], "little"))
  at = 0
  key = b""
  while at < end:
    shared, at = _varint(block, at)
    length, at = _varint(block, at)
    value_length, at = _varint(block, at)
    key = key[:shared] + block[at : at + length]
    at += length + value_length
    yield key, block[at - value_length : at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
  """Returns a base-128 number and the position after the number."""
  value = shift = 0
  while True:
    byte = data[at]
    value |= (byte & 127) << shift
    at, shift = at + 1, shift + 7
    if byte < 128:
      return value, at
