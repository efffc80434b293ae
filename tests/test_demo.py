"""The demonstration: honest text, and a preset that learns from it at once."""

import pytest

from demo import reference_text
from modeling.config import BertConfig
from recipes import table
from tests import programs

SENTENCES = "It returns a value. It is a function of two arguments."


def test_no_sentence_is_there_twice_and_code_is_left_out(tmp_path, monkeypatch):
  topics = {f"t{n}": SENTENCES for n in range(8)}
  topics["t4"] += " This one is new.\n\n   >>> print(1)\n   1"
  monkeypatch.setattr(reference_text, "topics", topics)
  module = ("asyncio/a.py", [f"Runs the task of number {n}." for n in range(9)])
  monkeypatch.setattr(reference_text, "modules", lambda: [module])
  reference_text.main(str(tmp_path))
  texts = {
    str(path.relative_to(tmp_path)): path.read_text().strip()
    for path in tmp_path.rglob("*.txt")
  }
  assert texts.pop("held_out/t3.txt") == SENTENCES
  assert texts.pop("train/t4.txt") == "This one is new."
  kept = texts.pop("train/asyncio.a.py.txt").split("\n\n")
  assert set(texts.values()) == {""}
  rows = [
    line.split("\t")
    for part in ("train", "dev")
    for line in (tmp_path / "task" / f"{part}.tsv").read_text().splitlines()[1:]
  ]
  assert {label for _, label in rows} == {"concurrency"}
  assert sorted([*kept, *(text for text, _ in rows)]) == module[1]


def _write_records(folder):
  """Vocabulary and records of the demonstration, smaller."""
  programs.python(["demo/reference_text.py", str(folder / "text")])
  for part in ("train", "held_out"):
    programs.run(
      "split_sentences",
      input_file=folder / "text" / part / "*.txt",
      output_file=folder / f"{part}.txt",
    )
  programs.run(
    "build_vocab",
    input_file=folder / "train.txt",
    output_file=folder / "vocab.txt",
    vocab_size=2000,
  )
  for part in ("train", "held_out"):
    programs.run(
      "create_pretraining_data",
      input_file=folder / f"{part}.txt",
      output_file=folder / part,
      max_seq_length=64,
      dupe_factor=1,
      masking="dynamic" if part == "train" else "static",
      vocab_file=folder / "vocab.txt",
    )


@pytest.mark.slow
def test_the_preset_leaves_the_plateau_at_once(tmp_path):
  _write_records(tmp_path)
  config = BertConfig.preset("tiny", vocab_size=2000, from_scratch=True)
  config.to_json(str(tmp_path / "bert_config.json"))
  log = programs.run(
    "run_pretraining",
    flagfile=table.HERE / "pretraining" / "little_text.flags",
    bert_config_file=tmp_path / "bert_config.json",
    vocab_file=tmp_path / "vocab.txt",
    input_file=tmp_path / "train",
    eval_file=tmp_path / "held_out",
    output_dir=tmp_path / "model",
    num_train_steps=400,
    num_warmup_steps=40,
    seed=1,
    fused=True,
  )
  assert "without effect" not in log
  # The frequencies of words alone cost 5.9.
  loss = programs.results(tmp_path / "model")["masked_lm_loss"]
  assert loss < 5.5
