"""What a program has trained, asked from its folder and from its export."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from data import vocab
from predictor import Predictor
from tests import programs
from tests.serving import stand_in
from tests.serving.tasks import CONFIG, T

TEXTS = ["ab c.", "", "abcde " * 7, "e e . d"]
ENDINGS = [["b", "c d", "."], ["", "a", "aa"], ["e", "e", "a b"], ["c"] * 3]
ASKED = {
  "classifier": {"text_a": TEXTS, "text_b": TEXTS[::-1]},
  "squad": {"question": ["a", "b c", "", "d"], "context": TEXTS},
  "ner": {"tokens": TEXTS},
  "swag": {"sent1": TEXTS, "sent2": TEXTS[::-1], "choices": ENDINGS},
  "pretraining": {"text": [f"{text} [MASK] a" for text in TEXTS]},
}


def _write_data(folder):
  """Something to train on for each program."""
  rows = [("ab c", "d", "no"), ("e e", "a b", "yes")] * 4
  table = [("one", "two", "which"), *rows]
  lines = ("\t".join(row) for row in table)
  (folder / "train.tsv").write_text("\n".join(lines) + "\n")
  questions = [
    {"id": "1", "question": "a", "answers": [{"text": "c", "answer_start": 3}]},
    {"id": "2", "question": "b", "answers": [], "is_impossible": True},
  ]
  questions[0]["is_impossible"] = False
  paragraph = {"context": "ab c d e", "qas": questions * 4}
  squad = {"data": [{"title": "t", "paragraphs": [paragraph]}]}
  (folder / "squad.json").write_text(json.dumps(squad))
  (folder / "ner.txt").write_text("ab B-X\nc I-X\nd O\n\ne O\n\n" * 4)
  header = "sent1,sent2,ending0,ending1,ending2,label\n"
  (folder / "swag.csv").write_text(header + "ab c,a,b,c d,e,1\n" * 8)
  (folder / "text.txt").write_text("ab c d .\ne a b .\n\nc d e .\na b .\n" * 4)


def _flags(folder):
  """Those of each program's own."""
  return {
    "classifier": {
      "task_name": "tsv",
      "data_dir": folder,
      "text_a_column": "one",
      "text_b_column": "two",
      "label_column": "which",
      "moving_average_decay": 0.5,
    },
    "squad": {
      "train_file": folder / "squad.json",
      "max_query_length": 4,
      "doc_stride": 3,
      "n_best_size": 3,
      "version_2_with_negative": True,
      "null_score_diff_threshold": -0.5,
    },
    "ner": {
      "train_file": folder / "ner.txt",
      "dev_file": folder / "ner.txt",
      "feature_based": True,
      "feature_layers": "last",
      "lstm_units": 4,
      "eval_every": 1,
      "keep_best": True,
    },
    "swag": {"train_file": folder / "swag.csv", "dtype": "bfloat16"},
    "pretraining": {
      "input_file": folder / "records",
      "max_predictions_per_seq": 2,
      "num_train_steps": 2,
      "num_warmup_steps": 0,
    },
  }


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
  """A folder with what each program has trained and exported."""
  folder = tmp_path_factory.mktemp("programs")
  CONFIG.to_json(str(folder / "bert_config.json"))
  vocab.save(stand_in.WORDS, folder / "vocab.txt")
  _write_data(folder)
  programs.run(
    "create_pretraining_data",
    input_file=folder / "text.txt",
    output_file=folder / "records",
    vocab_file=folder / "vocab.txt",
    max_seq_length=T,
    max_predictions_per_seq=2,
    dupe_factor=2,
  )
  with ThreadPoolExecutor(max_workers=2) as pool:
    done = [
      pool.submit(
        programs.run,
        f"run_{name}",
        # As if each had been started where this file is.
        bert_config_file=os.path.relpath(
          folder / "bert_config.json", programs.ROOT
        ),
        vocab_file=os.path.relpath(folder / "vocab.txt", programs.ROOT),
        max_seq_length=T,
        train_batch_size=4,
        learning_rate=0.01,
        seed=3,
        do_train=True,
        output_dir=folder / name,
        do_export=True,
        export_dir=folder / name / "export",
        **own,
      )
      for name, own in _flags(folder).items()
    ]
  assert all("exported to" in run.result() for run in done)
  return folder


@pytest.mark.parametrize("name", ASKED)
def test_the_folder_answers_as_the_export_does(
  folder, name, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)  # paths of the run were relative to its own
  policy = keras.config.dtype_policy()
  trained = Predictor(str(folder / name))
  assert keras.config.dtype_policy() == policy
  exported = Predictor(str(folder / name / "export"))
  assert trained.inputs == exported.inputs
  for batch_size in (1, 3):
    answers = (
      p(**ASKED[name], batch_size=batch_size) for p in (trained, exported)
    )
    for found, wanted in zip(*answers, strict=True):
      assert found.keys() == wanted.keys()
      for key, value in wanted.items():
        if np.asarray(value).dtype.kind == "f":
          np.testing.assert_allclose(found[key], value, atol=1e-5)
        else:
          assert found[key] == value, key


def _copy(folder, name, target):
  """A trained folder without its export."""
  ignore = shutil.ignore_patterns("export")
  return str(shutil.copytree(folder / name, target / "copy", ignore=ignore))


def test_what_can_be_changed(folder, tmp_path):
  copy = _copy(folder, "pretraining", tmp_path)
  [answer] = Predictor(copy, export_top_k=2)(["a [MASK]"])
  assert len(answer["tokens"][0]) == 2
  with pytest.raises(ValueError, match="run_pretraining has no flag top_k"):
    Predictor(copy, top_k=2)
  with pytest.raises(ValueError, match=r"an export, whose flags cannot"):
    Predictor(str(folder / "swag" / "export"), export_top_k=2)


def _edit(folder, **changes):
  """Changes the last entry of a folder's run.json."""
  path = os.path.join(folder, "run.json")
  with open(path, encoding="utf-8") as file:
    starts = json.load(file)
  starts[-1]["flags"] |= changes.pop("flags", {})
  starts[-1] |= changes
  with open(path, "w", encoding="utf-8") as file:
    json.dump(starts, file)


def test_what_is_missing_is_named_with_its_remedy(folder, tmp_path):
  copy = _copy(folder, "pretraining", tmp_path)
  _edit(copy, flags={"vocab_file": "gone/vocab.txt"})
  with pytest.raises(FileNotFoundError) as error:
    Predictor(copy)
  for part in (copy, "/gone/vocab.txt", f"Predictor({copy!r}, vocab_file=...)"):
    assert part in str(error.value)
  here = str(folder / "vocab.txt")
  [answer] = Predictor(copy, vocab_file=here)(["a [MASK]"])
  assert answer["num_masks"] == 1
  _edit(copy, flags={"vocab_file": None})
  with pytest.raises(FileNotFoundError, match="without --vocab_file: say"):
    Predictor(copy)
  with pytest.raises(ValueError, match="=left_to_right cannot fill masks"):
    Predictor(copy, vocab_file=here, objective="left_to_right")
  _edit(copy, program="run_away")
  with pytest.raises(ValueError, match=r"copy was trained by run_away, not by"):
    Predictor(copy)
  os.remove(os.path.join(copy, "run.json"))
  with pytest.raises(ValueError, match=r"no SavedModel and no run\.json in .*"):
    Predictor(copy)


def test_a_checkpoint_and_labels_are_needed(folder, tmp_path):
  copy = _copy(folder, "classifier", tmp_path)
  os.remove(os.path.join(copy, "labels.txt"))
  with pytest.raises(FileNotFoundError, match=r"copy has no labels\.txt"):
    Predictor(copy)
  shutil.copy(folder / "classifier" / "labels.txt", copy)
  for name in os.listdir(copy):
    if name.startswith(("model.ckpt", "checkpoint")):
      os.remove(os.path.join(copy, name))
  with pytest.raises(ValueError, match=r"no checkpoint in .*copy.*train first"):
    Predictor(copy)
