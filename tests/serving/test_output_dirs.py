"""Predictor loads the programs' output folders and exports."""

import json
import os
import shutil
from pathlib import Path

import keras
import pytest

from data import vocab
from predictor import Predictor
from storage import UserError
from tests import programs, shared
from tests.serving import stand_in, tasks
from tests.serving.tasks import CONFIG, T

TEXTS = ["ab c.", "", "abcde " * 7, "e e . d"]
ENDINGS = [["b", "c d", "."], ["", "a", "aa"], ["e", "e", "a b"], ["c"] * 3]
INPUTS = {
  "squad": {"question": ["a", "b c", "", "d"], "context": TEXTS},
  "swag": {"sent1": TEXTS, "sent2": TEXTS[::-1], "choices": ENDINGS},
  "pretraining": {"text": [f"{text} [MASK] a" for text in TEXTS]},
}
# The program of each folder, and its flags; {0} is the folder of the data.
COMMANDS = {
  "squad": """run_squad --train_file={0}/squad.json --max_query_length=4
    --version_2_with_negative --null_score_diff_threshold=-0.5 --doc_stride=3
    --n_best_size=3 --export_top_k=2""",
  "swag": "run_swag --train_file={0}/swag.csv --dtype=bfloat16",
  "pretraining": """run_pretraining --input_file={0}/records
    --num_train_steps=2 --max_predictions_per_seq=2 --num_warmup_steps=0""",
}
QUICK = ("pretraining",)  # the other tests are slow


@pytest.fixture(name="data", scope="module")
def _data(tmp_path_factory):
  """A folder with a model, a vocabulary and training files."""
  folder = tmp_path_factory.mktemp("programs")
  CONFIG.to_json(str(folder / "bert_config.json"))
  vocab.save(stand_in.WORDS, folder / "vocab.txt")
  first = {"id": "1", "question": "a", "is_impossible": False}
  first["answers"] = [{"text": "c", "answer_start": 3}]
  second = {"id": "2", "question": "b", "answers": [], "is_impossible": True}
  questions = [first, second] * 4
  shared.write_squad(folder / "squad.json", *questions, context="ab c d e")
  header = "sent1,sent2,ending0,ending1,ending2,label\n"
  (folder / "swag.csv").write_text(header + "ab c,a,b,c d,e,1\n" * 8)
  (folder / "text.txt").write_text("ab c d .\ne a b .\n\nc d e .\na b .\n" * 4)
  programs.run(
    "create_pretraining_data",
    input_file=folder / "text.txt",
    output_file=folder / "records",
    vocab_file=folder / "vocab.txt",
    max_seq_length=T,
    max_predictions_per_seq=2,
    dupe_factor=2,
  )
  return folder


@pytest.fixture(name="train", scope="module")
def _train(data):
  """Returns a function that trains and exports with a program once."""

  def train(name):
    if not (data / name).exists():
      program, *words = COMMANDS[name].format(data).split()
      flags = {"train_batch_size": 4, "learning_rate": 0.01, "seed": 3}
      flags |= {"do_train": True, "output_dir": data / name}
      flags |= {"do_export": True, "export_dir": data / name / "export"}
      path = os.path.relpath(data, programs.ROOT)
      flags |= {"bert_config_file": f"{path}/bert_config.json"}
      flags |= {"vocab_file": f"{path}/vocab.txt", "max_seq_length": T}
      assert "exported to" in programs.run(program, *words, **flags)
    return data / name

  return train


@pytest.mark.parametrize("name", tasks.slow_but(QUICK, INPUTS))
def test_predictor_answers_alike_for_an_output_folder_and_its_export(
  data, train, tmp_path, monkeypatch, name
):
  folder = train(name)
  monkeypatch.chdir(tmp_path)  # the run's relative paths no longer resolve
  policy = keras.config.dtype_policy()
  trained = Predictor(str(folder))
  assert keras.config.dtype_policy() == policy
  exported = Predictor(str(folder / "export"), "savedmodel")
  config = json.loads((data / "bert_config.json").read_text())
  other = config | {"num_attention_heads": 2 * config["num_attention_heads"]}
  (tmp_path / "other.json").write_text(json.dumps(other))
  with pytest.raises(UserError, match="has num_attention_heads"):
    Predictor(str(folder), bert_config_file=str(tmp_path / "other.json"))
  assert trained.inputs == exported.inputs
  for batch_size in (1, 3):
    inputs = INPUTS[name] | {"batch_size": batch_size}
    for answers in zip(trained(**inputs), exported(**inputs), strict=True):
      tasks.assert_same(*answers)


@pytest.fixture(name="copy")
def _copy(train, tmp_path):
  """A copy of a pre-training folder without the export."""
  ignore = shutil.ignore_patterns("export")
  copy = tmp_path / "copy"
  return str(shutil.copytree(train("pretraining"), copy, ignore=ignore))


def test_predictor_may_override_some_settings_of_a_folder(copy):
  [answer] = Predictor(copy, export_top_k=2)(["a [MASK]"])
  assert len(answer["tokens"][0]) == 2


def _edit(folder, **changes):
  """Changes the last entry in a folder's run.json."""
  path = Path(folder, "run.json")
  starts = json.loads(path.read_text())
  starts[-1]["flags"] |= changes.pop("flags", {})
  starts[-1] |= changes
  path.write_text(json.dumps(starts))


def test_an_error_names_a_missing_file_and_the_remedy(data, copy):
  _edit(copy, flags={"vocab_file": "gone/vocab.txt"})
  # The vocabulary next to the configuration is found.
  [answer] = Predictor(copy)(["a [MASK]"])
  assert answer["num_masks"] == 1
  _edit(copy, flags={"bert_config_file": "gone/bert_config.json"})
  with pytest.raises(FileNotFoundError) as error:
    Predictor(copy)
  for part in (copy, "/gone/bert_config.json", "copy the model's file into"):
    assert part in str(error.value)
  names = {"bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
  changes = {flag: data / name for flag, name in names.items()}
  assert Predictor(copy, **changes)(["a [MASK]"]) == [answer]
  _edit(copy, program="run_away")
  with pytest.raises(ValueError, match=r"copy was trained by run_away, not by"):
    Predictor(copy)
