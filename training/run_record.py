"""Files of a run's folder: checkpoints, by name; run.json; sweep.tsv."""

import csv
import hashlib
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path

from storage import UserError, files, textfiles

BEST = "best"  # subfolder of an output folder
UNFINISHED = "unfinished-"  # a checkpoint's name begins with it until complete
# In the file `checkpoint`: first the newest one, then all of them.
_PREFIX = re.compile(
  r'^(?:model_checkpoint_path|all_model_checkpoint_paths): "(.*)"', re.MULTILINE
)
_TABLE_END = bytes.fromhex("57fb808b247547db")  # magic number of LevelDB
_FOOTER_BYTES = 48
NAME = "run.json"
SWEEP = "sweep.tsv"
METRICS = "metrics.jsonl"
VERSION = "0.1.0"  # of this project
_PACKAGES = ("tensorflow", "keras", "numpy", "tf-models-official")
_HERE = Path(__file__).parent
_END_BYTES = 2**20  # hashed at each end of a file

# --- Checkpoints -----------------------------------------------------------


def sibling_file(path: str, name: str) -> str | None:
  """Path of an existing file of a checkpoint's folder, or None.

  `path` is the folder or a prefix. For `best/model.ckpt-10` also the parent of
  the folder `best` is searched.
  """
  prefix = os.path.join(path, "") if files.is_folder(path) else path
  folder = os.path.dirname(prefix) or "."
  folders = [folder]
  if os.path.basename(folder) == BEST:
    folders.append(os.path.dirname(folder) or ".")
  paths = [os.path.join(folder, name) for folder in folders]
  return next(filter(files.exists, paths), None)


def all_checkpoints(folder: str) -> list[str]:
  """Prefixes that the file `checkpoint` names and that exist, newest last."""
  path = os.path.join(folder, "checkpoint")
  names = _PREFIX.findall(files.read_text(path)) if files.exists(path) else []
  newest = names[:1]
  older = [name for name in names[1:] if name not in newest]
  prefixes = [os.path.join(folder, name) for name in older + newest]
  return [prefix for prefix in prefixes if files.exists(f"{prefix}.index")]


def latest_checkpoint(folder: str) -> str | None:
  """Prefix of the newest checkpoint; None without any."""
  return next(reversed(all_checkpoints(folder)), None)


def choose_checkpoint(folder: str, prefer_best: bool = False) -> str | None:
  """Prefix of the checkpoint to use of a run's folder; None without any.

  With `prefer_best`, or if the last training there saved its best, that of the
  subfolder `best`. Else the newest, or the best if there is no other, as after
  a sweep.
  """
  best = latest_checkpoint(os.path.join(folder, BEST))
  newest = latest_checkpoint(folder)
  last = read(folder)[-1:]
  if prefer_best or any(keeps_best(entry["flags"]) for entry in last):
    return best or newest
  return newest or best


def find_checkpoint(path: str) -> str:
  """Prefix of a checkpoint that a user names.

  `path` is a prefix ("dir/model.ckpt-10"), one of its files, or a folder: the
  one of `choose_checkpoint`, else its only one. Raises FileNotFoundError, or
  ValueError by `check_name`, or if a folder without `checkpoint` has several.
  """
  check_name(path)
  if files.is_folder(path):
    return choose_checkpoint(path) or _only_checkpoint(path)
  prefix = re.sub(r"\.(index|data-\d+-of-\d+|meta)$", "", path)
  if not files.exists(f"{prefix}.index"):
    raise FileNotFoundError(
      f"no checkpoint at {path!r}: there is no such folder and no file "
      f"{prefix}.index (a checkpoint's name is the prefix of its files)"
    )
  return prefix


def check_name(path: str) -> None:
  """Raises ValueError for a path that TensorFlow would read as a pattern."""
  if re.search(r"[*?\[\\]", path):
    raise UserError(
      f"TensorFlow reads no checkpoint from {path}: avoid * ? [ and \\"
    )


def _only_checkpoint(folder):
  """Prefix in the folder of a released model, without a file `checkpoint`."""
  listed = sorted(files.list_folder(folder))
  names = [n.removesuffix(".index") for n in listed if n.endswith(".index")]
  if not names:
    if any(re.fullmatch(r".*\.(pb|tflite)|\d+/?", name) for name in listed):
      raise FileNotFoundError(
        f"no checkpoint in the folder {folder}, which looks like an export: "
        "name the --output_dir of its training"
      )
    shown = ", ".join(listed[:5]) or "nothing"
    raise FileNotFoundError(
      f"no checkpoint in the folder {folder}: it has {shown}; expected files "
      "named *.index and *.data-*, which convert_checkpoint.py makes of a "
      "Hugging Face folder or a KerasHub preset"
    )
  if len(names) > 1:
    raise UserError(
      f"{folder} has several checkpoints ({', '.join(names)}): name one, as in "
      f"{os.path.join(folder, names[-1])}"
    )
  return os.path.join(folder, names[0])


def checkpoint_shapes(path: str) -> dict[str, tuple[int, ...]]:
  """Shapes of a checkpoint's tensors by their names, read without TensorFlow.

  `path` is its .index file, a table of LevelDB: blocks of sorted keys, each
  without the prefix that it shares with the key before, and a block of their
  positions. Values are BundleEntryProtos. {} for another kind of file.
  """
  from storage import messages

  with files.open_for_reading(path) as file:
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
        shape = messages.BundleEntryProto.FromString(entry).shape
        result[name.decode()] = tuple(dim.size for dim in shape.dim)
  except (messages.DecodeError, IndexError, ValueError):
    return {}  # corrupt: TensorFlow says so
  result.pop("", None)  # the header
  return result


def no_encoder(prefix: str, names: Iterable[str], missing: str) -> UserError:
  """The error for a checkpoint without a variable of the encoder."""
  likely = sorted(names, key=lambda x: ("word_embeddings" not in x, x))
  return UserError(
    f"{prefix} has no {missing}, but {', '.join(likely[:3])}, ...: name "
    "another checkpoint, or convert this one as docs/checkpoints.md says"
  )


def _entries(table, data, at) -> Iterator[tuple[bytes, bytes]]:
  """Keys and values of the block whose offset and size are in `data`."""
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
  """A base-128 number and the position after it."""
  value = shift = 0
  while True:
    byte = data[at]
    value |= (byte & 127) << shift
    at, shift = at + 1, shift + 7
    if byte < 128:
      return value, at


# --- run.json --------------------------------------------------------------


def make(
  program: str, flag_values: Mapping, seed: int, data: Sequence[str]
) -> dict:
  """Makes the entry of a training that starts now on the files `data`."""
  return {
    "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    "program": program,
    "directory": os.getcwd(),  # paths in flags may be relative to it
    "seed": seed,
    "flags": flag_values,
    "versions": versions(),
    "commit": commit(),
    "data": {name: fingerprint(name) for name in data},
  }


def read(output_dir: str) -> list[dict]:
  """Entries of a folder's run.json, oldest first; none without that file."""
  return read_json(os.path.join(output_dir, NAME), list, {"flags"})


def read_json(path: str, kind: type, keys: Set[str]):
  """Reads a JSON file of a run; an empty `kind` if there is no file.

  `kind` is dict, or list for a list of dicts. Raises ValueError if the file has
  something else, or a dict lacks one of `keys`.
  """
  if not files.exists(path):
    return kind()
  with suppress(ValueError, TypeError, AttributeError):
    result = json.loads(files.read_text(path))
    entries = result if kind is list else [result]
    has_keys = all(entry.keys() >= keys for entry in entries)
    if isinstance(result, kind) and has_keys:
      return result
  raise UserError(f"{path} is corrupt: restore it, or remove it")


def of_checkpoint(path: str) -> dict:
  """Last entry of the run that wrote a checkpoint; empty if unknown."""
  record = sibling_file(path, NAME)
  entries = read(os.path.dirname(record)) if record else []
  return entries[-1] if entries else {"flags": {}}


def path_of(entry: Mapping, name: str) -> str | None:
  """Path that a flag of an entry names, whether there is a file or not."""
  path = entry["flags"].get(name)
  if path and not files.is_remote(path):
    path = os.path.join(entry.get("directory", ""), path)
  return path


def flag_of(path: str, name: str):
  """Value of a flag in the run that wrote a checkpoint; None if unknown."""
  return of_checkpoint(path)["flags"].get(name)


def copy_last_entry(output_dir: str, other_dir: str, **flag_values) -> None:
  """Appends the last entry of another folder, changed; once if repeated."""
  for entry in read(other_dir)[-1:]:
    entry["flags"] |= flag_values
    if [entry] != read(output_dir)[-1:]:
      append(output_dir, entry)


def append(output_dir: str, entry: dict) -> None:
  """Appends an entry to a folder's run.json."""
  entries = [*read(output_dir), entry]
  path = os.path.join(output_dir, NAME)
  files.write_text(path, json.dumps(entries, indent=1) + "\n")


def keeps_best(flag_values: Mapping) -> bool:
  """True if a run with these flags saves its best; pre-training never does."""
  patience = flag_values.get("early_stopping_patience") or 0
  return bool(flag_values.get("keep_best")) or patience > 0


def read_sweep(output_dir: str) -> list[dict[str, str]]:
  """Rows of a folder's sweep.tsv by column; none without that file."""
  path = os.path.join(output_dir, SWEEP)
  lines = textfiles.lines(path) if files.exists(path) else ()
  return list(csv.DictReader(lines, delimiter="\t"))


def best_trials(output_dir: str, number: int) -> list[str]:
  """Folders of a sweep's best trials, best first; ValueError if fewer."""
  trials = read_sweep(output_dir)
  if len(trials) < number:
    raise UserError(
      f"--ensemble={number} is more than the {len(trials)} trials in "
      f"{output_dir}/{SWEEP}: train with more --learning_rate or --num_seeds"
    )
  trials.sort(key=lambda trial: -float(trial["value"]))
  return [os.path.join(output_dir, t["run"]) for t in trials[:number]]


def versions() -> dict[str, str]:
  """Versions of this project and of what determines its numbers."""
  import importlib.metadata

  result = {"bert": VERSION, "python": platform.python_version()}
  for name in _PACKAGES:
    with suppress(importlib.metadata.PackageNotFoundError):
      result[name] = importlib.metadata.version(name)
  return result


def commit(besides: Sequence[str] = ()) -> str | None:
  """Git commit of this code, "+" if files but `besides` differ; or None."""

  def git(*words):
    return subprocess.run(
      ["git", "-C", _HERE, *words], capture_output=True, text=True, check=True
    ).stdout.strip()

  excluded = [f":(top,exclude){pattern}" for pattern in besides]
  try:
    changed = git("diff", "--name-only", "HEAD", "--", ":/", *excluded)
    return git("rev-parse", "HEAD") + ("+" if changed else "")
  except (OSError, subprocess.CalledProcessError):
    return None


def fingerprint(path: str) -> str:
  """Size, and SHA-256 of the first and last megabyte, of a file."""
  size = files.size(path)
  with files.open_for_reading(path) as file:
    digest = hashlib.sha256(file.read(_END_BYTES))
    if size > _END_BYTES:
      file.seek(max(_END_BYTES, size - _END_BYTES))
      digest.update(file.read())
  return f"{size} bytes, sha256 of the ends {digest.hexdigest()}"
