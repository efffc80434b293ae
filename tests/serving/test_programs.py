"""Exports of the programs, from a checkpoint alone, and what comes of them."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from data import vocab
from data.tasks import labels, swag, tagging
from data.tasks.conll import Sentence
from modeling import feature_based, models
from modeling.layer_outputs import layer_outputs
from tests import programs
from tests.serving import stand_in
from tests.serving.tasks import CONFIG, T
from training import checkpoint

TAGS = ("O", "B-X", "I-X")
TEXTS = ["ab c. ||| de", "", "abcde " * 7, "A [MASK] b [MASK]"]


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory):
  """Folder of checkpoints and of all that goes with them; models by name."""
  keras.utils.set_random_seed(2)
  made = {
    "ner": feature_based.tagger(CONFIG, len(TAGS), "last", units=4),
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
  given = {
    "bert_config_file": folder / "bert_config.json",
    "vocab_file": folder / "vocab.txt",
    "init_checkpoint": folder / name / "some.ckpt",
    "max_seq_length": T,
    "do_export": True,
    "export_dir": folder / name / "export",
  }
  return programs.run(program, **given | flags)


# Where a model is used, there is nothing of ours.
ASK = """
import json, sys
import tensorflow as tf

answers = {}
for path, given in json.load(sys.stdin).items():
  model = tf.saved_model.load(path).signatures["serving_default"]
  given = {name: tf.constant(values) for name, values in given.items()}
  answers[path] = {k: v.numpy().tolist() for k, v in model(**given).items()}
print(json.dumps(answers, default=bytes.decode))
"""


@pytest.fixture(name="answers", scope="module")
def _answers(made):
  """What the exports say, by name."""
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
  given = {
    "ner": {"tokens": TEXTS},
    "swag": example,
    "pretraining": {"text": TEXTS},
    "features": {"text": TEXTS},
  }
  done = subprocess.run(
    [sys.executable, "-c", ASK],
    input=json.dumps({f"{folder}/{k}/export": v for k, v in given.items()}),
    capture_output=True,
    text=True,
    check=True,
    cwd=folder,
  )
  return dict(zip(given, json.loads(done.stdout).values(), strict=True))


def test_tags(answers, made, tokenizer):
  found = answers["ner"]
  sentences = [Sentence(text.split(), None) for text in TEXTS if text]
  rows, windows = zip(
    *tagging.Builder(tokenizer, T, TAGS)(sentences), strict=True
  )
  inputs = stand_in.arrays(rows)
  inputs.pop("label_ids")
  logits = tagging.of_words(made[1]["ner"](inputs)["logits"].numpy(), windows)
  tags = [TAGS[i] for i in logits.argmax(axis=-1)]
  assert [tag for row in found["tags"] for tag in row if tag] == tags
  assert found["labels"][0] == list(TAGS)
  assert found["num_words"] == [len(text.split()) for text in TEXTS]


def test_choices(answers, made, tokenizer):
  found = answers["swag"]
  row = swag.Builder(tokenizer, T, 3)(
    swag.Example("ab c", "a", ("b", "c d", "."))
  )
  inputs = {
    name: np.reshape(row[name], (1, 3, T))
    for name in ("input_ids", "input_mask", "segment_ids")
  }
  logits = made[1]["swag"](inputs)["logits"].numpy()
  shares = np.exp(logits) / np.exp(logits).sum()
  np.testing.assert_allclose(found["probabilities"], shares, atol=1e-5)
  assert found["choice"] == [logits.argmax()]
  assert found["text"] == [("b", "c d", ".")[logits.argmax()]]


def test_words_for_masks(answers, made, tokenizer):
  found = answers["pretraining"]
  assert found["num_masks"] == [0, 0, 0, 2]
  assert np.shape(found["tokens"]) == (4, 2, 2)
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
  assert [words[0] for words in found["tokens"][3]] == best
  shares = np.exp(logits).max(axis=-1) / np.exp(logits).sum(axis=-1)
  given = [row[0] for row in found["probabilities"][3]]
  np.testing.assert_allclose(given, shares, atol=1e-5)


def test_vectors(answers, made, tokenizer):
  found = answers["features"]
  said = dict(np.load(made[0] / "features" / "out.npz"))
  splits = said["offsets"]
  assert found["num_tokens"] == np.diff(splits).tolist()
  for row, number in enumerate(found["num_tokens"]):
    values = said["values"][splits[row] : splits[row + 1]]
    given = found["token_vectors"][row][:number]
    np.testing.assert_allclose(given, values, atol=1e-5)
    np.testing.assert_allclose(
      found["sentence"][row], values.mean(axis=0), atol=1e-5
    )
    ids = said["input_ids"][splits[row] : splits[row + 1]].tolist()
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert found["tokens"][row][:number] == tokens


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
          "ner is there already: remove it or name another --export_dir",
        ),
      ],
    ),
  ],
)
def test_mistakes(made, tmp_path, program, cases):
  folder, _ = made
  given = {
    "bert_config_file": folder / "bert_config.json",
    "init_checkpoint": folder / "pretraining" / "some.ckpt",
  }
  if program == "extract_features":
    given |= {"vocab_file": folder / "vocab.txt"}
  else:
    given |= {"output_dir": tmp_path / "output"}
  flags = [given | wrong for wrong, _ in cases]
  for wrong in flags:
    for name in ("vocab_file", "export_dir"):
      if name in wrong:
        wrong[name] = folder / wrong[name]
  results = programs.run_each(program, flags)
  for (_, message), (status, log) in zip(cases, results, strict=True):
    assert status == 1
    assert message in log
    assert "Traceback" not in log
