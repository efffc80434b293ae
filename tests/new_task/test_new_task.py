"""A task with a new head is a folder, a head, a loss and a program."""

import random
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

import tasks
from data.vocab import SPECIAL_TOKENS
from predictor import Predictor
from tests import programs, shared, small_model

PROGRAM = "tests/new_task/run_rating"
# The rating of a text is the mean of its words' values.
WORDS = {"good": 2.0, "fine": 1.0, "it": 0.0, "dull": -1.0, "bad": -2.0}


def _texts(number, seed):
  rng = random.Random(seed)
  return [rng.choices([*WORDS], k=rng.randint(1, 8)) for _ in range(number)]


def _write(path, texts):
  rows = [("text", "rating")]
  for words in texts:
    rows.append((" ".join(words), str(mean(WORDS[word] for word in words))))
  path.write_text("".join("\t".join(row) + "\n" for row in rows))
  return path


@pytest.fixture(scope="module", name="trained")
def _trained(tmp_path_factory):
  """Trains and exports a model; returns the output folder and the flags."""
  folder = tmp_path_factory.mktemp("given")
  flags = small_model.write(folder, [*SPECIAL_TOKENS, *WORDS])
  flags |= {"train_file": _write(folder / "train.tsv", _texts(120, 1))}
  flags |= {"dev_file": _write(folder / "dev.tsv", _texts(30, 2))}
  flags |= {"max_seq_length": 12, "seed": 1}

  def train(output):
    training = {"learning_rate": 0.01, "num_train_epochs": 12}
    training |= {"train_batch_size": 8, "do_train": True, "do_export": True}
    output_flags = {"output_dir": output, "export_dir": output / "export"}
    programs.run(PROGRAM, **flags, **training, **output_flags, do_eval=True)

  output, _ = shared.once(tmp_path_factory, "rating", train)
  return output, {name: str(value) for name, value in flags.items()}


@pytest.fixture(autouse=True)
def _folder(monkeypatch):
  path = [*tasks.__path__, str(Path(__file__).parent / "tasks")]
  monkeypatch.setattr(tasks, "__path__", path)


def test_a_new_task_learns_and_is_evaluated(trained):
  output, _ = trained
  results = programs.results(output)
  assert results["eval_mean_difference"] < 0.4  # 0.6 if all answers are 0


def test_do_predict_output_folder_and_export_answer_alike(trained, tmp_path):
  output, flags = trained
  texts = _texts(9, 3)
  test_file = {"test_file": _write(tmp_path / "test.tsv", texts)}
  programs.run(PROGRAM, **flags | test_file, output_dir=output, do_predict=True)
  expected = np.loadtxt(output / "test_results.tsv")
  for model in (output, output / "export"):
    answers = Predictor(str(model))([" ".join(words) for words in texts])
    ratings = [answer["rating"] for answer in answers]
    np.testing.assert_allclose(ratings, expected, atol=1e-4)


def test_a_head_survives_conversion_to_transformers_and_back(trained, tmp_path):
  output, flags = trained
  files = {name: flags[name] for name in ("bert_config_file", "vocab_file")}
  to_transformers = {"input": output, "output": tmp_path / "hugging_face"}
  log = programs.run("convert_checkpoint", **to_transformers, **files)
  assert "wrote a BertModel" in log
  assert "that BertModel lacks (saved in left_over.safetensors)" in log
  back, evaluated = tmp_path / "back", tmp_path / "evaluated"
  hugging_face = {"input": tmp_path / "hugging_face", "output": back}
  programs.run("convert_checkpoint", **hugging_face)
  flags = flags | {"bert_config_file": back / "bert_config.json"}
  flags |= {"init_checkpoint": back / "bert_model.ckpt", "do_eval": True}
  programs.run(PROGRAM, **flags, output_dir=evaluated)
  names = ("eval_mean_difference", "eval_pearson")
  result, expected = map(programs.results, (evaluated, output))
  assert [result[n] for n in names] == [expected[n] for n in names]
