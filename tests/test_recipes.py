"""Recipes: each parses, says what it is, and takes a program to its end."""

import json
import shlex
import tempfile

import pytest

from data.vocab import SPECIAL_TOKENS
from recipes import table
from tasks.classification import named_tasks
from tests import programs, small_model

HEADERS = table.headers()
WORDS = [*SPECIAL_TOKENS, *"abcde.", "ab", "cd"]
# One recipe at least of each program and of each kind of variant.
QUICK = [("run_classifier", ["fine_tuning/mrpc"])]
OTHERS = [
  ("run_squad", ["fine_tuning/squad_2.0"]),
  ("run_ner", ["fine_tuning/ner"]),
  ("run_swag", ["fine_tuning/swag"]),
  ("run_pretraining", ["pretraining/phase_1"]),
  ("run_ner", ["fine_tuning/ner_features"]),
  ("run_classifier", ["fine_tuning/stsb"]),
  (
    "run_classifier",
    ["fine_tuning/cola", "ablations/as_left_to_right_bilstm"],
  ),
  ("run_classifier", ["fine_tuning/mrpc", "ablations/as_shallow"]),
  ("run_pretraining", ["ablations/gpt"]),
  ("run_pretraining", ["ablations/masking_0_20_80"]),
]


@pytest.fixture(name="known", scope="module")
def _known():
  """{program: names of its flags}; each is asked in a copy of one process."""
  names = {fields["Program"].removesuffix(".py") for fields in HEADERS.values()}
  ask = """
import importlib, json, os, sys
from absl import flags
for name in sys.argv[1:]:
  if not os.fork():
    importlib.import_module(name)
    modules = flags.FLAGS.flags_by_module_dict().values()
    print(json.dumps([name, [flag.name for m in modules for flag in m]]))
    sys.stdout.flush()
    os._exit(0)
  os.wait()
"""
  done = programs.python(["-c", ask, *names])
  return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", HEADERS)
def test_each_says_what_it_is_and_names_flags_of_its_program(name, known):
  fields = HEADERS[name]
  assert all(fields.values())
  words = shlex.split(fields["Command"])
  assert words[:2] == ["python", fields["Program"]]
  assert f"--flagfile=recipes/{name}" in words
  there = known[fields["Program"].removesuffix(".py")]
  text = (table.HERE / name).read_text()
  given = [line for line in text.splitlines() if line.startswith("--")]
  assert given
  for word in [*given, *words[2:]]:
    flag, _, value = word.removeprefix("--").partition("=")
    if flag == "flagfile":
      assert value.removeprefix("recipes/") in HEADERS
      continue
    is_negated = flag.removeprefix("no") in there and not value
    assert flag in there or is_negated, word


def test_the_readme_is_the_table_of_the_headers():
  assert (table.HERE / "README.md").read_text() == table.table()


def test_a_header_must_be_complete(tmp_path):
  (tmp_path / "a.flags").write_text("# Paper: x\n# Time: y\n\n--do_train\n")
  with pytest.raises(
    ValueError, match="has Paper, Time; it must have Paper, P"
  ):
    table.header(tmp_path / "a.flags")


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
  """Toy data of every program."""
  folder = tmp_path_factory.mktemp("recipes")
  small_model.write(folder, WORDS)
  # Of so many layers features are made.
  deep = small_model.config(len(WORDS), num_hidden_layers=4)
  deep.to_json(str(folder / "deep"))
  _write_glue(folder)
  _write_others(folder)
  return folder


def _records(folder, masking):
  """Records to pre-train on, made once."""
  path = folder / masking
  if not path.exists():
    programs.run(
      "create_pretraining_data",
      input_file=folder / "text.txt",
      output_file=path,
      vocab_file=folder / "vocab.txt",
      max_seq_length=16,
      masking=masking,
      dupe_factor=1,
    )
  return path


def _write_glue(folder):
  for name in ("CoLA", "MRPC", "STS-B"):
    task = named_tasks.find(name)
    for split in task.splits.values():
      path = folder / name / split.file
      path.parent.mkdir(exist_ok=True)
      columns = list(split.header or split.columns)
      labels = task.labels or ("1.5", "4.0")
      rows = [] if split.header else [columns]
      for number in range(8):
        row = dict.fromkeys(columns, "ab c.")
        row[split.label] = labels[number % 2]
        rows.append([row[column] for column in columns])
      path.write_text("".join("\t".join(row) + "\n" for row in rows))


def _write_others(folder):
  (folder / "text.txt").write_text("ab c d .\ne a b .\n\nc d e .\na b .\n" * 4)
  (folder / "ner.txt").write_text("ab B-X\nc I-X\nd O\n\ne O\n\n" * 4)
  header = "sent1,sent2,ending0,ending1,label\n"
  (folder / "swag.csv").write_text(header + "ab c,a,b,c d,1\n" * 8)
  answer = {"text": "c", "answer_start": 3}
  questions = [
    {"id": "1", "question": "a", "answers": [answer], "is_impossible": False},
    {"id": "2", "question": "b", "answers": [], "is_impossible": True},
  ]
  paragraph = {"context": "ab c d e", "qas": questions}
  squad = {"data": [{"title": "t", "paragraphs": [paragraph] * 3}]}
  (folder / "squad.json").write_text(json.dumps(squad))


def _given(folder, program, recipes):
  """Flags of a dry run of recipes, the later after the earlier."""
  last = recipes[0].split("/")[-1]
  deep = last == "ner_features"
  flags = {
    "vocab_file": folder / "vocab.txt",
    "bert_config_file": folder / ("deep" if deep else "bert_config.json"),
    "output_dir": folder / "output",
    "train_batch_size": 4,
    "max_seq_length": 16,
    "dry_run": True,
  }
  if program == "run_pretraining":
    masking = "dynamic" if "masking" in last else "static"
    return flags | {"input_file": _records(folder, masking)}
  if program == "run_classifier":
    tasks = {"cola": "CoLA", "mrpc": "MRPC", "stsb": "STS-B"}
    return flags | {"data_dir": folder / tasks.get(last, "")}
  names = {
    "run_squad": ["squad.json", "train_file", "predict_file"],
    "run_ner": ["ner.txt", "train_file", "dev_file", "test_file"],
    "run_swag": ["swag.csv", "train_file", "dev_file"],
  }
  file, *names = names[program]
  more = {"run_squad": {"doc_stride": 4, "max_query_length": 4}}
  more["run_ner"] = {"lstm_units": 4}
  flags |= dict.fromkeys(names, folder / file)
  return flags | more.get(program, {})


@pytest.fixture(name="dry_run")
def _dry_run(request, folder):
  """Recipes; status and log of their dry run; files before and after it."""
  program, names = request.param
  flags = _given(folder, program, names)
  before = sorted(folder.rglob("*"))
  done = programs.call(
    program,
    flagfile=[f"{table.HERE / name}.flags" for name in names],
    **flags,
  )
  files = (before, sorted(folder.rglob("*")))
  return names, done.returncode, done.stderr, files


@pytest.mark.parametrize(
  "dry_run",
  [
    *QUICK,
    *(pytest.param(case, marks=pytest.mark.slow) for case in OTHERS),
  ],
  indirect=True,
  ids=lambda case: "+".join(case[1]),
)
def test_dry_runs_train_evaluate_and_leave_nothing(dry_run):
  names, status, log, (before, after) = dry_run
  assert status == 0, log
  assert "step 2 of 2, loss" in log, names
  assert "dry run: all stages work, nothing was saved" in log
  assert "exported to" not in log
  assert f"{tempfile.gettempdir()}/tmp" not in log
  assert after == before
