"""Labels in the order of a model's classes, and the model's labels.txt."""

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress

from absl import logging

from storage import UserError, files, number_of, setting, textfiles

FILE_NAME = "labels.txt"
THRESHOLDS = "thresholds.tsv"  # for --multi_label, beside labels.txt
NULL_THRESHOLD = "null_score_diff_threshold.txt"  # for SQuAD 2.0
THRESHOLD_FILES = (THRESHOLDS, NULL_THRESHOLD)
SEPARATOR = "|"  # between the labels of a text
# Missing values of pandas, R, Python and Excel; "none" may be a class.
_MISSING = r"nan NaN NA N/A n/a #N/A #NV #REF! None null NULL - \N".split()
_SHOWN = 20  # labels in a message
_INTEGER = re.compile(r"-?\d+", re.ASCII)


class LabelSet(tuple):
  """Labels in the order of a model's classes."""

  source: str  # a path for messages, or "" if the task fixes the labels
  remedy: str  # advice for data with other labels, or ""

  def __new__(
    cls, labels: Iterable[str], source: str = "", remedy: str = ""
  ) -> "LabelSet":
    label_set = super().__new__(cls, labels)
    label_set.source, label_set.remedy = source, remedy
    return label_set


def describe(labels: Sequence[str]) -> str:
  """Lists labels and, if known, their source, for a message."""
  source = getattr(labels, "source", "")
  return ", ".join(labels) + (f" (of {source})" if source else "")


def known_labels(labels: Sequence[str]) -> str:
  """End of a message about an unknown label: the known labels and a remedy."""
  remedy = getattr(labels, "remedy", "")
  return describe(labels) + (f". {remedy}" if remedy else "")


def split(cell: str, where: str) -> tuple[str, ...]:
  """Reads the labels of a cell: a JSON list, or texts between SEPARATORs.

  Raises ValueError for a label that is blank or no text, or a list of Python.
  """
  if not cell.strip():
    return ()
  parts = [part.strip() for part in cell.split(SEPARATOR)]
  if cell.startswith("["):
    parts = [None]  # a list of Python
    with suppress(ValueError):
      parts = json.loads(cell)
  if not all(isinstance(p, str | int) and str(p).strip() for p in parts):
    raise UserError(
      f"{where}: {cell!r} has a label that is blank or not text, or is no JSON "
      f'list; write ["a", "b"] or a{SEPARATOR}b, in pandas: '
      f'df.label.map("{SEPARATOR}".join)'
    )
  return tuple(dict.fromkeys(map(str, parts)))


def join(labels: Sequence[str]) -> str:
  """Makes a cell that `split` reads: a JSON list if a label has a SEPARATOR."""
  text = SEPARATOR.join(labels)
  has_mark = any(SEPARATOR in x for x in labels) or text.startswith("[")
  return json.dumps(labels, ensure_ascii=False) if has_mark else text


def plain(label: str) -> str:
  """Returns one spelling for "1.0" and "1", and for "TRUE" and "true"."""
  if label.lower() in ("true", "false"):
    return label.lower()
  return re.sub(r"^([+-]?\d+)\.0*$", r"\1", label)


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
  """Sorts labels, by value if all are integers, otherwise by code point."""
  labels = set(labels)
  if all(map(_INTEGER.fullmatch, labels)):
    return tuple(sorted(labels, key=lambda label: (int(label), label)))
  return tuple(sorted(labels))


def save(labels: Sequence[str], folder: str) -> str:
  """Writes labels.txt; ValueError if a label cannot be a line."""
  for label in labels:
    if not label or set(label) & set("\t\r\n"):
      raise UserError(f"{label!r} cannot be a line of {FILE_NAME}")
  path = os.path.join(folder, FILE_NAME)
  files.write_text(path, "".join(f"{label}\n" for label in labels))
  return path


def check_teacher(
  teacher: str, known: Sequence[str], labels: Sequence[str]
) -> None:
  """Raises ValueError if the `known` labels of a teacher are not `labels`."""
  if tuple(known) != tuple(labels):
    raise UserError(
      f"the model of {setting('teacher', teacher)} has other labels, or "
      "another order: "
      f"{describe(known)} and {describe(labels)}; train both with the same"
    )


def exist(folder: str) -> bool:
  return files.exists(os.path.join(folder, FILE_NAME))


def load(folder: str) -> LabelSet:
  """Reads labels.txt of a folder; see `read_file`."""
  return read_file(
    os.path.join(folder, FILE_NAME),
    f"To train for other labels, name another {setting('output_dir')}; "
    f"{setting('init_checkpoint', folder)} starts from this model",
  )


def read_file(path: str, remedy: str = "") -> LabelSet:
  """Reads a file of labels; ValueError for no label or a repeated label."""
  labels = LabelSet(filter(None, textfiles.text_lines(path)), path, remedy)
  if not labels:
    raise UserError(f"{path} is empty; it has one label a line")
  [(label, number)] = Counter(labels).most_common(1)
  if number > 1:
    raise UserError(
      f"{path} has the label {label!r} {number} times: rename one"
    )
  return labels


def choose(
  folder: str,
  checkpoint_labels: str | None,
  find: Callable[[], LabelSet] | None,
  is_training: bool = True,
) -> LabelSet:
  """Chooses the labels of a model: the first of these sources that applies.

  1. Without training, `checkpoint_labels`, the initial checkpoint's labels.txt
     (None if its head is not used).
  2. labels.txt in the model's `folder`. Warns if it gives new names to the head
     of the initial checkpoint.
  3. The labels that `find` collects from the training file, in the initial
     checkpoint's order if both have the same labels. If `find` is None, raises
     FileNotFoundError.

  Raises ValueError if training file and initial checkpoint have equally many
  labels, but not the same ones.
  """
  known = read_file(checkpoint_labels) if checkpoint_labels else None
  if known and not (find and is_training):
    remedy = f"{setting('do_train')} makes a head for other labels"
    return LabelSet(known, known.source, remedy)
  if exist(folder):
    if known:
      warn_if_others(load(folder), known)
    return load(folder)
  if not find:
    raise FileNotFoundError(
      f"the labels are unknown: there is no {FILE_NAME} in {folder} or beside "
      f"{setting('init_checkpoint')}, and no training file "
      f"({setting('train_file')}, or train.tsv in {setting('data_dir')}). "
      f"Write {FILE_NAME}, a label a line in the order of the outputs"
    )
  result = find()
  if known and set(known) == set(result):
    return known
  if known and len(known) == len(result):
    raise UserError(
      f"the labels are {describe(result)}, but the head of "
      f"{setting('init_checkpoint')} is for {describe(known)}: "
      f"{setting('new_head')} makes a fresh head; if both mean the same, list "
      f"the labels in the head's order in {FILE_NAME} in "
      f"{setting('output_dir')}"
    )
  return result


def warn_if_others(labels: Sequence[str], known: LabelSet) -> None:
  """Warns if a model has as many labels as a task, but different ones."""
  is_same = [label.lower() for label in known] == [*map(str.lower, labels)]
  if len(known) == len(labels) and not is_same:
    logging.warning(
      f"the model's head is for {describe(known)}, and now stands for "
      f"{describe(labels)}, in this order; {setting('new_head')} trains a "
      "fresh head"
    )


def log_labels(
  name: str,
  labels: Iterable[str],
  expected: Collection[str] = (),
  unit: str = "example",
) -> None:
  """Logs how often each label occurs in a file; `unit` names what is labeled.

  Warns of `expected` labels that do not occur, of labels that look like missing
  values, and of labels that differ only in case, blanks or ".0".
  """
  counts = Counter(labels)
  total = counts.total()
  shown = [
    f"{label}: {number:,} ({100 * number / total:.1f} %)"
    for label, number in counts.most_common(_SHOWN)
  ]
  if len(counts) > _SHOWN:
    shown.append(f"...; {len(counts)} in all")
  logging.info("%s: %s; %s", name, number_of(total, unit), ", ".join(shown))
  if missing := [label for label in expected if label not in counts]:
    logging.warning("%s: no example of %s", name, ", ".join(missing[:_SHOWN]))
  groups = defaultdict(list)
  for label in sorted(counts):
    if label in _MISSING:
      logging.warning(f"{name}: {label!r} is a label: is it a missing value?")
    form = "".join(plain(label).casefold().split())
    groups[form].append(f"{label!r} ({counts[label]:,})")
  if similar := [" and ".join(group) for group in groups.values() if group[1:]]:
    text = "%s: %s differ only in case, blanks or .0: do they mean the same?"
    # Warn about the first file, usually the training file, not about each.
    logging.log_first_n(logging.WARNING, text, 1, name, "; ".join(similar))
