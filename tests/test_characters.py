"""A user's character tokenizer works without changes in the project."""

import numpy as np
import pytest
import tensorflow as tf

from data import features, tokenization
from data.records import parser
from predictor import Predictor
from tests import characters, programs, small_model

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXT = "the old river runs\nthe bank sees it\n\na new day\nthe old bank\n"
T, P = 24, 3  # numbers of tokens and predictions


def _run(program, **flags):
  programs.run("tests/characters", program, **flags)


def _ids(path, schema):
  batch = parser(schema)(list(tf.data.TFRecordDataset(str(path))))
  return batch["input_ids"].numpy(), batch["input_mask"].numpy()


@pytest.mark.slow
def test_a_model_of_characters_trains_and_answers(tmp_path, monkeypatch):
  monkeypatch.setitem(
    tokenization.KINDS, characters.ENDING, characters.Characters
  )
  config = small_model.config(5 + 2 * len(LETTERS), max_position_embeddings=T)
  config.to_json(str(tmp_path / "bert_config.json"))
  vocab_file = tmp_path / f"vocab{characters.ENDING}"
  vocab_file.write_text(LETTERS)
  model = {"bert_config_file": tmp_path / "bert_config.json"}
  model |= {"vocab_file": vocab_file, "max_seq_length": T}
  text, records = tmp_path / "text.txt", tmp_path / "records"
  text.write_text(TEXT)
  paths = {"input_file": text, "output_file": records, "max_seq_length": T}
  paths |= {"vocab_file": vocab_file, "do_whole_word_mask": True}
  _run("create_pretraining_data", max_predictions_per_seq=P, **paths)
  ids, mask = _ids(records, features.pretraining(T, P))
  assert {*ids[mask == 0]} == {1}  # padding
  assert {*ids[:, 0]} == {0}  # <s>

  stages = {"do_train": True, "do_export": True, "seed": 1}
  pretrained = {"input_file": records, "output_dir": tmp_path / "pretrained"}
  pretrained |= {"max_predictions_per_seq": P, "num_train_steps": 2}
  pretrained |= {"export_dir": tmp_path / "fill", "num_warmup_steps": 1}
  _run("run_pretraining", **model, **stages, **pretrained)
  [answer] = Predictor(tmp_path / "fill")(["the ol<mask> bank"])
  assert answer["num_masks"] == 1
  assert len(answer["tokens"][0]) == 5  # the default of --export_top_k

  for split in ("train", "test"):
    rows = ["text\tlabel", *["old bank\t0", "a new river runs\t1"] * 4]
    (tmp_path / f"{split}.tsv").write_text("\n".join(rows))
  flags = {"task_name": "tsv", "data_dir": tmp_path}
  flags |= {"num_train_epochs": 2, "do_predict": True}
  flags |= {"init_checkpoint": tmp_path / "pretrained", "train_batch_size": 4}
  flags |= {"output_dir": tmp_path / "out", "export_dir": tmp_path / "export"}
  _run("run_classifier", **model, **stages, **flags)
  schema = features.classification(T)
  ids, mask = _ids(tmp_path / "out" / "train.tf_record", schema)
  assert {*ids[mask == 0]} == {1}
  assert (tmp_path / "export" / f"vocab{characters.ENDING}").exists()
  rows = programs.table(tmp_path / "out" / "test_results.tsv")[:2]
  expected = np.array(rows, float)
  for folder in ("export", "out"):
    answers = Predictor(tmp_path / folder)(["old bank", "a new river runs"])
    probabilities = [answer["probabilities"] for answer in answers]
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
