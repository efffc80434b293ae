"""A model that two devices trained has the same scores on one device."""

import random

import pytest

from data.vocab import SPECIAL_TOKENS
from tests import programs, small_model

WORDS = ["ann", "ben", "has", "a", "red", "blue", "boat", "kite", "who", "?"]
NUMBER = 13  # odd: two devices get different numbers of rows
TRAIN = {"do_train": True, "train_batch_size": 4, "learning_rate": 0.001}
TRAIN |= {"num_train_epochs": 1, "seed": 1}


@pytest.mark.slow
def test_a_model_has_the_same_scores_on_two_devices_as_on_one_device(tmp_path):
  rng = random.Random(1)
  texts = [" ".join(rng.choices(WORDS, k=5)) for _ in range(NUMBER)]
  rows = [f"{text}\t{text.count('a') % 2}" for text in texts]
  for name in ("train", "dev"):
    (tmp_path / f"{name}.tsv").write_text("\n".join(["text\tlabel", *rows]))
  small_model.write(tmp_path, [*SPECIAL_TOKENS, *WORDS])
  scores = []
  for devices, flags in (
    (2, {"distribution_strategy": "mirrored"} | TRAIN),
    (1, {}),
  ):
    log = programs.run(
      "run_classifier",
      task_name="tsv",
      data_dir=".",
      do_eval=True,
      eval_batch_size=4,
      bert_config_file="bert_config.json",
      vocab_file="vocab.txt",
      output_dir="out",
      num_cpu_devices=devices,
      max_seq_length=12,
      **flags,
      cwd=tmp_path,
    )
    assert f": {devices} replica(s)" in log
    scores.append(programs.results(tmp_path / "out"))
  assert scores[1] == pytest.approx(scores[0], abs=1e-4)
