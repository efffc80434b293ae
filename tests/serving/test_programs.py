"""Exports by programs from a checkpoint alone."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from data import labels, vocab
from modeling import models
from modeling.models import layer_outputs
from predictor import Predictor
from tasks.multiple_choice.examples import ChoiceExample, ChoiceRecordBuilder
from tasks.ner import records
from tasks.ner.examples import Sentence
from tests import programs
from tests.serving import stand_in
from tests.serving.tasks import CONFIG, T
from training import checkpoint

TAGS = ("O", "B-X", "I-X")
TEXTS = ["ab c. ||| de", "", "abcde " * 7, "A [MASK] b [MASK]"]


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory):
  """Folder of checkpoints, configuration and vocabulary; models by name."""
  keras.utils.set_random_seed(2)
  made = {
    "ner": models.feature_based_tagger(CONFIG, len(TAGS), "last", units=4),
    "swag": models.multiple_choice(CONFIG),
    "pretraining": models.pretrainer(CONFIG),
    "features": layer_outputs(CONFIG, [-1, 0]),
  }
  folder = tmp_path_factory.mktemp("made")
  for name, model in made.items():
    path = folder / name / "some.ckpt"
    checkpoint.write(str(path), checkpoint.variables(model))
  CONFIG.to_json(str(folder / "bert_config.json"))
  vocab.save(stand_in.WORDS, folder / "vocab.txt")
  labels.save(TAGS, str(folder / "ner"))
  (folder / "texts").write_text("".join(f"{text}\n" for text in TEXTS))
  return folder, made


def _export(folder, name, **flags):
  program = "extract_features" if name == "features" else f"run_{name}"
  defaults = {
    "bert_config_file": folder / "bert_config.json",
    "vocab_file": folder / "vocab.txt",
    "init_checkpoint": folder / name / "some.ckpt",
    "max_seq_length": T,
    "do_export": True,
    "export_dir": folder / name / "export",
  }
  return programs.run(program, **defaults | flags)


# A program that loads an export imports nothing of this repository.
ASK = """
import json, sys
import tensorflow as tf

answers = {}
for path, inputs in json.load(sys.stdin).items():
  model = tf.saved_model.load(path).signatures["serving_default"]
  inputs = {name: tf.constant(values) for name, values in inputs.items()}
  answers[path] = {k: v.numpy().tolist() for k, v in model(**inputs).items()}
print(json.dumps(answers, default=bytes.decode))
"""


@pytest.fixture(name="answers", scope="module")
def _answers(made):
  """Answers of the exports, by name."""
  folder, _ = made
  runs = {
    "ner": {
      "output_dir": folder / "ner",
      "feature_based": True,
      "feature_layers": "last",
      "lstm_units": 4,
    },
    "swag": {"output_dir": folder / "swag"},
    "pretraining": {"output_dir": folder / "pretraining", "export_top_k": 2},
    "features": {
      "layers": "-1,0",
      "input_file": folder / "texts",
      "output_file": folder / "features" / "out.npz",
      "format": "npz",
    },
  }
  with ThreadPoolExecutor(max_workers=2) as pool:
    done = [
      pool.submit(_export, folder, name, **flags)
      for name, flags in runs.items()
    ]
  assert all("exported to" in run.result() for run in done)
  example = {"sent1": ["ab c"], "sent2": ["a"], "choices": [["b", "c d", "."]]}
  inputs = {
    "swag": example,
    "pretraining": {"text": TEXTS},
    "features": {"text": TEXTS},
  }
  done = subprocess.run(
    [sys.executable, "-c", ASK],
    input=json.dumps({f"{folder}/{k}/export": v for k, v in inputs.items()}),
    capture_output=True,
    text=True,
    check=True,
    cwd=folder,
  )
  answers = dict(zip(inputs, json.loads(done.stdout).values(), strict=True))
  return answers | {"ner": Predictor(folder / "ner" / "export")(TEXTS)}


@pytest.mark.slow
def test_tags(answers, made, tokenizer):
  answer = answers["ner"]
  sentences = [Sentence(text.split(), None) for text in TEXTS if text]
  rows, windows = zip(
    *records.TagRecordBuilder(tokenizer, T, TAGS)(sentences), strict=True
  )
  inputs = stand_in.arrays(rows)
  inputs.pop("label_ids")
  logits = records.first_piece_values(
    made[1]["ner"](inputs)["logits"].numpy(), windows
  )
  tags = [TAGS[i] for i in logits.argmax(axis=-1)]
  assert [tag for row in answer for tag in row["tags"]] == tags
  assert answer[0]["labels"] == list(TAGS)
  numbers = [row["num_words"] for row in answer]
  assert numbers == [len(text.split()) for text in TEXTS]


@pytest.mark.slow
def test_choices(answers, made, tokenizer):
  answer = answers["swag"]
  row = ChoiceRecordBuilder(tokenizer, T, 3)(
    ChoiceExample("ab c", "a", ("b", "c d", "."))
  )
  inputs = {
    name: np.reshape(row[name], (1, 3, T))
    for name in ("input_ids", "input_mask", "segment_ids")
  }
  logits = made[1]["swag"](inputs)["logits"].numpy()
  probs = np.exp(logits) / np.exp(logits).sum()
  np.testing.assert_allclose(answer["probabilities"], probs, atol=1e-5)
  assert answer["choice"] == [logits.argmax()]
  assert answer["text"] == [("b", "c d", ".")[logits.argmax()]]


@pytest.mark.slow
def test_words_for_masks(answers, made, tokenizer):
  answer = answers["pretraining"]
  assert answer["num_masks"] == [0, 0, 0, 2]
  assert np.shape(answer["tokens"]) == (4, 2, 2)
  ids = tokenizer.convert_tokens_to_ids(
    ["[CLS]", "a", "[MASK]", "b", "[MASK]", "[SEP]"]
  )
  logits = made[1]["pretraining"](
    {
      "input_ids": np.array([ids]),
      "input_mask": np.ones((1, 6)),
      "segment_ids": np.zeros((1, 6)),
      "masked_lm_positions": np.array([[2, 4]]),
    }
  )["masked_lm_logits"].numpy()[0]
  best = [stand_in.WORDS[i] for i in logits.argmax(axis=-1)]
  assert [words[0] for words in answer["tokens"][3]] == best
  probs = np.exp(logits).max(axis=-1) / np.exp(logits).sum(axis=-1)
  result = [row[0] for row in answer["probabilities"][3]]
  np.testing.assert_allclose(result, probs, atol=1e-5)


@pytest.mark.slow
def test_vectors(answers, made, tokenizer):
  answer = answers["features"]
  said = dict(np.load(made[0] / "features" / "out.npz"))
  splits = said["offsets"]
  assert answer["num_tokens"] == np.diff(splits).tolist()
  for row, number in enumerate(answer["num_tokens"]):
    values = said["values"][splits[row] : splits[row + 1]]
    result = answer["token_vectors"][row][:number]
    np.testing.assert_allclose(result, values, atol=1e-5)
    np.testing.assert_allclose(
      answer["sentence"][row], values.mean(axis=0), atol=1e-5
    )
    ids = said["input_ids"][splits[row] : splits[row + 1]].tolist()
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert answer["tokens"][row][:number] == tokens


EXPORT = {"do_export": True, "export_dir": "nowhere"}


@pytest.mark.parametrize(
  ("program", "cases"),
  [
    (
      "run_pretraining",
      [
        ({"do_export": True}, "--do_export needs --export_dir"),
        (EXPORT, "--do_export needs --vocab_file"),
        ({"do_train": True}, "--do_train and --do_eval need --input_file"),
        (
          EXPORT | {"vocab_file": "vocab.txt", "objective": "left_to_right"},
          "a model of --objective=left_to_right cannot fill masks",
        ),
      ],
    ),
    (
      "extract_features",
      [
        ({}, "give --input_file and --output_file, or --do_export"),
        (EXPORT | {"input_file": "a"}, "give --input_file and --output_file"),
        (
          EXPORT | {"export_dir": "ner"},
          "ner is there already: remove it, or name another --export_dir",
        ),
      ],
    ),
  ],
)
def test_mistakes(made, tmp_path, program, cases):
  folder, _ = made
  defaults = {
    "bert_config_file": folder / "bert_config.json",
    "init_checkpoint": folder / "pretraining" / "some.ckpt",
  }
  if program == "extract_features":
    defaults |= {"vocab_file": folder / "vocab.txt"}
  else:
    defaults |= {"output_dir": tmp_path / "output", "max_seq_length": 12}
  flags = [defaults | wrong for wrong, _ in cases]
  for wrong in flags:
    for name in ("vocab_file", "export_dir"):
      if name in wrong:
        wrong[name] = folder / wrong[name]
  results = programs.run_each(program, flags)
  for (_, message), (status, log) in zip(cases, results, strict=True):
    assert status == 1
    assert message in log
    assert "Traceback" not in log
