"""A model that two devices trained has the same scores on one device."""

import json
import random

import pytest

from data.vocab import SPECIAL_TOKENS
from tests import programs, small_model

WORDS = ["ann", "ben", "has", "a", "red", "blue", "boat", "kite", "who", "?"]
NUMBER = 13  # odd: two devices get different numbers of rows
FLAGS = {
  "run_classifier": "task_name=tsv data_dir=data do_eval",
  "run_squad": "train_file=squad.json predict_file=squad.json do_predict "
  "max_query_length=6 doc_stride=4 group_by_length dynamic_padding",
}


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
  """Writes a model's files, and random texts for each program."""
  folder = tmp_path_factory.mktemp("given")
  rng = random.Random(1)
  small_model.write(folder, [*SPECIAL_TOKENS, *WORDS])
  texts = [" ".join(rng.choices(WORDS, k=5)) for _ in range(NUMBER)]
  (folder / "data").mkdir()
  rows = [f"{text}\t{text.count('a') % 2}" for text in texts]
  for name in ("train", "dev"):
    (folder / f"data/{name}.tsv").write_text("\n".join(["text\tlabel", *rows]))
  paragraphs = []
  for number, text in enumerate(texts):
    answers = [{"text": text.split()[0], "answer_start": 0}]
    question = {"id": str(number), "question": "who ?", "answers": answers}
    paragraphs.append({"context": text, "qas": [question]})
  data = {"data": [{"title": "t", "paragraphs": paragraphs}]}
  (folder / "squad.json").write_text(json.dumps(data))
  return folder


def _run(program, folder, output, devices, **more):
  flags = [f"--{flag}" for flag in FLAGS[program].split()]
  flags += ["--distribution_strategy=mirrored"] * (devices > 1)
  batch = "predict" if program == "run_squad" else "eval"
  log = programs.run(
    program,
    *flags,
    f"--{batch}_batch_size=4",
    bert_config_file="bert_config.json",
    vocab_file="vocab.txt",
    output_dir=output,
    num_cpu_devices=devices,
    max_seq_length=12,
    **more,
    cwd=folder,
  )
  assert f": {devices} replica(s)" in log


TRAIN = {"do_train": True, "train_batch_size": 4, "learning_rate": 0.001}
TRAIN |= {"num_train_epochs": 1, "seed": 1}


@pytest.mark.slow
@pytest.mark.parametrize("program", FLAGS)
def test_a_model_has_the_same_scores_on_two_devices_as_on_one_device(
  folder, tmp_path, program
):
  is_squad = program == "run_squad"
  path = tmp_path / ("predictions.json" if is_squad else "eval_results.txt")
  results = []
  for devices, flags in ((2, TRAIN), (1, {})):
    _run(program, folder, tmp_path, devices, **flags)
    results.append(path.read_text() if is_squad else programs.results(tmp_path))
    path.unlink()
  first, second = results
  assert second == (first if is_squad else pytest.approx(first, abs=1e-4))
