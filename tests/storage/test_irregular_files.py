"""Files as people have them: large, repeated, split, with any line ends."""

import gzip
import json

import pytest

from storage import (
  UserError,
  files,
  messages,
  record_scan,
  textfiles,
  tfrecord,
  workers,
)

MEGABYTE = 1 << 20


@pytest.fixture(name="large", scope="module")
def _large(tmp_path_factory):
  """Writes a file of 2.5 MB and a compressed copy; returns the content, too."""
  folder = tmp_path_factory.mktemp("large")
  content = b"".join(b"%d\n" % (i * i) for i in range(260_000))
  (folder / "a").write_bytes(content)
  (folder / "a.gz").write_bytes(gzip.compress(content, 1))
  assert len(content) > 2.5 * MEGABYTE
  return folder, content


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_lines_of_large_files_have_their_numbers(large, name):
  folder, content = large
  offsets = [0, 1, 2, MEGABYTE - 1, MEGABYTE, MEGABYTE + 1, 2 * MEGABYTE + 7]
  for offset in [*offsets, len(content) - 1, len(content)]:
    number = textfiles.line_number(str(folder / name), offset)
    assert number == 1 + content[:offset].count(b"\n")


def test_a_wrong_byte_of_a_large_file_is_located(large, tmp_path):
  _, content = large
  path = tmp_path / "a"
  path.write_bytes(content + b"ab\xff\n")
  start = content.rindex(b"\n", 0, 2 * MEGABYTE) + 1
  message = rf"a, line 260001: byte {len(content) + 2} .*0xff"
  for begin in (0, start):
    with pytest.raises(UserError, match=message):
      for _ in textfiles.lines(str(path), begin):
        pass


def test_only_a_first_line_is_taken_for_utf16(tmp_path):
  path = tmp_path / "a"
  path.write_bytes(b"plain text\na\0b\0c\0d\0\nmore\n")
  lines = ["plain text", "a\0b\0c\0d\0", "more"]
  assert [*textfiles.lines(str(path))] == lines
  assert [*textfiles.lines(str(path), 11)] == lines[1:]


# A text in JSON breaks at the same characters as a text file.
TEXT = "one\ntwo\u2028still two\x0b\x0c\x1c\x85\u2029.\n\n four"
LINES = ["one", "two\u2028still two\x0b\x0c\x1c\x85\u2029.", "", " four"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n \n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("escapes", [True, False])
def test_texts_of_json_lines_have_their_lines(tmp_path, end, last, escapes):
  """Joined files may have several byte order marks."""
  rows = [
    json.dumps({"text": text, "n": 0}, ensure_ascii=escapes)
    for text in (TEXT, "", "a\r\nb")
  ]
  content = end.join(f"\ufeff{row}" for row in rows) + end * last
  (tmp_path / "a").write_text(content, "utf-8", newline="")
  texts = textfiles.json_texts(str(tmp_path / "a"), "text")
  assert [*texts] == [LINES, [""], ["a", "b"]]
  opened = content.split("\n")
  again = textfiles.json_texts("a pipe", "text", read=iter(opened))
  assert [*again] == [LINES, [""], ["a", "b"]]


def test_a_pattern_that_is_there_twice_counts_twice(tmp_path):
  for name in "abc":
    (tmp_path / name).touch()
  a, b, c = (str(tmp_path / name) for name in "abc")
  expand = files.expand
  assert expand(f"{b},{a},{b}") == [b, a, b]
  assert expand(f"{c}, {tmp_path}/*,{a} ") == [c, a, b, c, a]
  assert expand(f",{a},,") == [a]


def test_a_folder_is_free_if_there_is_nothing_in_it(tmp_path):
  (tmp_path / "empty").mkdir()
  (tmp_path / "file").touch()
  files.check_is_free(str(tmp_path / "none"))
  files.check_is_free(str(tmp_path / "empty"))
  for path in (tmp_path, tmp_path / "file"):  # the file is empty, too
    with pytest.raises(FileExistsError, match=f"{path} is there already"):
      files.check_is_free(str(path))


# --- Records ---------------------------------------------------------------


def _write(path, number, size=10):
  """Writes a file of distinct records; returns the path."""
  with open(path, "wb") as file:
    tfrecord.RecordFile(file).write(
      b"%07d" % i + b"x" * size for i in range(number)
    )
  return str(path)


def test_a_file_may_be_there_twice(tmp_path):
  a, b = _write(tmp_path / "a", 300), _write(tmp_path / "b", 2)
  index = record_scan.load_index([a, b, a])
  assert index.count.tolist() == [256, 44, 2, 256, 44]
  assert index.file.tolist() == [0, 0, 1, 2, 2]
  assert index.offset.tolist() == [0, 256 * 33, 0, 0, 256 * 33]


def test_the_first_intact_record_may_come_late(tmp_path):
  path = tmp_path / "a"
  encode = tfrecord.ExampleEncoder(tfrecord.Schema(tfrecord.Feature("x", ())))
  with open(path, "wb") as file:
    tfrecord.RecordFile(file).write([encode({"x": [i]}) for i in range(9)])
  content = bytearray(path.read_bytes())
  size = len(content) // 9
  for number in range(5):
    content[number * size + 20] ^= 255
  path.write_bytes(content)
  assert record_scan.first_record(str(path), True) == {"x": [5]}
  with pytest.raises(UserError, match="the first: its checksum is wrong"):
    record_scan.first_record(str(path))


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_feature_may_have_no_value(dtype):
  features = [tfrecord.Feature("x", (0,), dtype), tfrecord.Feature("y", (2,))]
  encode = tfrecord.ExampleEncoder(tfrecord.Schema(*features))
  for values in ([0, 1], [127, 128], [1 << 40, -1]):
    example = {"x": [], "y": values}
    assert messages.parse_example(encode(example)) == example


def test_arbitrary_numbers_are_not_cached():
  """Question ids, for example, occur only once."""
  cache = tfrecord._varint.__self__
  before = len(cache)
  for number in range(1 << 20, (1 << 20) + 100):
    assert len(tfrecord._varint(number)) == 3
    tfrecord._varint(-number)
  assert len(cache) == before
  small = (1 << 20) - 1
  assert tfrecord._varint(small) == cache[small]
  assert small in cache


# --- Workers ---------------------------------------------------------------


@pytest.mark.parametrize(
  ("processes", "tasks", "started"),
  [(4, 2, 2), (2, 4, 2), (9, 9, 9), (4, 1, 0), (1, 4, 0), (0, 4, 0), (4, 0, 0)],
)
def test_no_more_processes_start_than_there_are_tasks(
  monkeypatch, processes, tasks, started
):
  numbers = []

  def as_completed(prepare, tasks, processes, idle):
    numbers.append(processes)
    yield from reversed([*enumerate(map(prepare(), tasks))])

  monkeypatch.setattr(workers, "_as_completed", as_completed)
  prepared = []

  def prepare():
    prepared.append(1)
    return str

  results = workers.ordered_map(prepare, range(tasks), processes)
  assert [*results] == [str(i) for i in range(tasks)]
  assert numbers == [started] * bool(started)
  assert prepared == [1]


class _Connection:
  """A worker's end of a pipe, which delivers some tasks."""

  def __init__(self, tasks):
    self.tasks, self.answers = [*tasks], []
    self.send = self.answers.append

  def recv(self):
    if not self.tasks:
      raise EOFError
    return self.tasks.pop(0)


def test_a_worker_prepares_once():
  """The worker does not prepare again after a failed task."""
  prepared, connection = [], _Connection(["1", "x", "3"])

  def prepare():
    prepared.append(1)
    return int

  workers._serve(connection, prepare)
  assert prepared == [1]
  results = [(result, type(error)) for result, error in connection.answers]
  assert results == [(1, type(None)), (None, ValueError), (3, type(None))]
