"""run_squad.py as its users call it, on questions of our own."""

import json
import statistics
import subprocess
import sys

import pytest

from modeling.config import BertConfig
from tests import programs

CONTEXT = "Ann has a red boat . Ben has a blue kite . Cy has a green drum ."
OWNERS = {"ann": "red boat", "ben": "blue kite", "cy": "green drum"}
WORDS = [
  *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "what", "has", "a", ".", "?"),
  *OWNERS,
  *" ".join(OWNERS.values()).split(),
]


def _questions(version_2):
  found = [
    {
      "id": f"q-{owner}",
      "question": f"What has {owner} ?",
      "answers": [{"text": text, "answer_start": CONTEXT.index(text)}],
    }
    | ({"is_impossible": False} if version_2 else {})
    for owner, text in OWNERS.items()
  ]
  if version_2:
    found.append(
      {
        "id": "q-none",
        "question": "What kite has Ann ?",
        "answers": [],
        "is_impossible": True,
      }
    )
  return found


@pytest.fixture(name="flags")
def _flags(tmp_path):
  for version in (1, 2):
    paragraph = {"context": CONTEXT, "qas": _questions(version == 2)}
    data = {"data": [{"title": "t", "paragraphs": [paragraph] * 1}]}
    (tmp_path / f"v{version}.json").write_text(json.dumps(data))
  (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
  config = BertConfig(
    len(WORDS),
    32,
    2,
    4,
    64,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=32,
    initializer_range=0.1,
  )
  config.to_json(str(tmp_path / "bert_config.json"))
  return {
    "vocab_file": tmp_path / "vocab.txt",
    "bert_config_file": tmp_path / "bert_config.json",
    "max_seq_length": 32,
    "max_query_length": 8,
    "doc_stride": 8,
    "train_batch_size": 2,
    "seed": 1,
  }


def _run(flags, **more):
  return programs.call("run_squad", **flags | more)


def test_learns_answers_and_scores(flags, tmp_path):
  output = tmp_path / "out"
  done = _run(
    flags,
    output_dir=output,
    do_train=True,
    train_file=tmp_path / "v1.json",
    do_predict=True,
    predict_file=tmp_path / "v1.json",
    num_train_epochs=150,
    learning_rate=0.003,
  )
  assert done.returncode == 0, done.stderr
  answers = json.loads((output / "predictions.json").read_text())
  assert answers == {f"q-{k}": v for k, v in OWNERS.items()}
  scores = json.loads((output / "squad_scores.json").read_text())
  assert scores == {"exact_match": 100.0, "f1": 100.0}
  for name in ("train.tf_record", "eval.tf_record", "nbest_predictions.json"):
    assert (output / name).exists()
  # From the checkpoint alone, and without right answers.
  bare = json.loads((tmp_path / "v1.json").read_text())
  for question in bare["data"][0]["paragraphs"][0]["qas"]:
    del question["answers"]
  (tmp_path / "bare.json").write_text(json.dumps(bare))
  done = _run(
    flags,
    output_dir=output,
    do_predict=True,
    predict_file=tmp_path / "bare.json",
  )
  assert done.returncode == 0, done.stderr
  assert "no scores" in done.stderr
  assert json.loads((output / "predictions.json").read_text()) == answers


def test_padding_can_be_left_out(flags, tmp_path):
  output = tmp_path / "out"
  done = _run(
    flags,
    output_dir=output,
    do_train=True,
    train_file=tmp_path / "v1.json",
    do_predict=True,
    predict_file=tmp_path / "v1.json",
    num_train_epochs=150,
    learning_rate=0.003,
    trim_padding=True,
    group_by_length=True,
  )
  assert done.returncode == 0, done.stderr
  answers = json.loads((output / "predictions.json").read_text())
  assert answers == {f"q-{k}": v for k, v in OWNERS.items()}


def test_keeps_the_best_and_stops_early(flags, tmp_path):
  output = tmp_path / "out"
  more = {
    "output_dir": output,
    "do_train": True,
    "train_file": tmp_path / "v1.json",
    "predict_file": tmp_path / "v1.json",
    "num_train_epochs": 400,
    "learning_rate": 0.003,
    "eval_every": 20,
    "early_stopping_patience": 3,
  }
  done = _run(flags, **more)
  assert done.returncode == 0, done.stderr
  best = json.loads((output / "best" / "best.json").read_text())
  assert best["metric"] == "f1"
  assert best["evaluated"] < 600
  assert (output / "best" / f"model.ckpt-{best['step']}.index").exists()
  bare = {"context": CONTEXT, "qas": [{"id": "q", "question": "What has a ?"}]}
  data = {"data": [{"title": "t", "paragraphs": [bare]}]}
  (tmp_path / "bare.json").write_text(json.dumps(data))
  more["predict_file"] = tmp_path / "bare.json"
  assert "has no answers" in _run(flags, **more).stderr


def test_version_2_keeps_the_best_threshold(flags, tmp_path):
  output = tmp_path / "out"
  more = {
    "output_dir": output,
    "version_2_with_negative": True,
    "do_predict": True,
    "predict_file": tmp_path / "v2.json",
  }
  train = {"do_train": True, "train_file": tmp_path / "v2.json"}
  done = _run(flags, **more, **train, num_train_epochs=5)
  assert done.returncode == 0, done.stderr
  odds = json.loads((output / "null_odds.json").read_text())
  assert len(odds) == 4
  stored = float((output / "null_score_diff_threshold.txt").read_text())
  scores = json.loads((output / "squad_scores.json").read_text())
  assert scores["best_f1_thresh"] == stored
  # Several windows to each question, combined.
  flags |= {"max_seq_length": 16, "doc_stride": 4}
  done = _run(flags, **more)
  assert "from an earlier prediction" in done.stderr
  odds = json.loads((output / "null_odds.json").read_text()).values()
  threshold = statistics.median(odds)
  # From the checkpoint alone.
  done = _run(
    flags,
    output_dir=tmp_path / "other",
    init_checkpoint=output / "model.ckpt-10",
    do_export=True,
    export_dir=tmp_path / "export",
    version_2_with_negative=True,
    null_score_diff_threshold=threshold,
  )
  assert done.returncode == 0, done.stderr
  entries = json.loads((output / "nbest_predictions.json").read_text())
  _check_export(tmp_path / "export", [*entries.values()], [*odds], threshold)


# Where a model is used, there is nothing of ours.
ASK = """
import json, sys
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
question, context = map(tf.constant, json.loads(sys.argv[2]))
answers = model(question=question, context=context)
found = {name: value.numpy().tolist() for name, value in answers.items()}
print(json.dumps(found, default=bytes.decode))
"""


def _check_export(folder, nbest, odds, threshold):
  """A SavedModel's answers are those of the program."""
  questions = [question["question"] for question in _questions(version_2=True)]
  asked = json.dumps([questions, [CONTEXT] * len(questions)])
  done = subprocess.run(
    [sys.executable, "-c", ASK, str(folder), asked],
    capture_output=True,
    text=True,
    check=True,
    cwd=folder,
  )
  found = json.loads(done.stdout)
  assert found["null_odds"] == pytest.approx(odds, abs=1e-4)
  texts = [next(e["text"] for e in some if e["text"]) for some in nbest]
  assert found["best_answer"] == texts
  assert sorted(each > threshold for each in odds) == [False] * 2 + [True] * 2
  for number, entries in enumerate(nbest):
    text = "" if odds[number] > threshold else texts[number]
    (entry,) = (each for each in entries if each["text"] == text)
    assert found["answer"][number] == text
    begin, end = found["begin"][number], found["end"][number]
    assert CONTEXT[begin:end] == text if text else begin == end == -1
    assert found["probability"][number] == pytest.approx(entry["probability"])


def test_mistakes_end_with_one_clear_line(flags, tmp_path):
  here = {"do_predict": True, "predict_file": tmp_path / "v1.json"}
  mistakes = {
    "At least one of --do_train, --do_predict and --do_export": {},
    "--do_train needs --train_file": {"do_train": True},
    "--do_export needs --export_dir": {"do_export": True},
    "--group_by_length needs --trim_padding": here | {"group_by_length": True},
    "no file matches no.json": here | {"predict_file": "no.json"},
    "bert_config.json": here | {"predict_file": tmp_path / "bert_config.json"},
    "max_seq_length 400 exceeds max_position_embeddings 32": (
      here | {"max_seq_length": 400}
    ),
    "max_query_length": here | {"max_query_length": 40},
    "train first, or name one": here,
  }
  cases = [
    flags | {"output_dir": tmp_path / f"out{number}"} | wrong
    for number, wrong in enumerate(mistakes.values())
  ]
  ends = programs.run_each("run_squad", cases)
  for message, (status, log) in zip(mistakes, ends, strict=True):
    assert status == 1, message
    assert message in log
    assert "Traceback" not in log
