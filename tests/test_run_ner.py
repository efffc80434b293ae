"""run_ner.py from the command line, on made-up sentences with easy names."""

import json
import random
import shutil

import numpy as np
import pytest

from data.vocab import SPECIAL_TOKENS
from tasks.ner import examples
from tests import programs, shared, small_model

# Each word has one tag. Only in the last entry, two names of the same type are
# next to each other.
NAMES = (
  ("Ann Lee", "B-PER I-PER"),
  ("Ben Kay", "B-PER I-PER"),
  ("Eve", "B-PER"),
  ("Port Ely", "B-LOC I-LOC"),
  ("Riga", "B-LOC"),
  ("Cy Dot", "B-PER B-PER"),
)
OTHERS = ("the", "boat", "sees", "from", "in", "today", "sails")
PIECES = "ann ben cy dot ely eve kay lee port ri ##ga".split()
VOCABULARY = [*SPECIAL_TOKENS, *PIECES, *OTHERS]
T = 16


def _text(number, seed):
  """Yields sentences: lists of pairs of a word and a tag."""
  rng = random.Random(seed)
  for _ in range(number):
    sentence = []
    for _ in range(rng.randint(1, 3)):
      words, tags = rng.choice(NAMES)
      sentence += zip(words.split(), tags.split(), strict=True)
      sentence += [(word, "O") for word in rng.choices(OTHERS, k=2)]
    yield sentence


def _write(path, sentences, line="{} {}"):
  blocks = ("\n".join(line.format(*pair) for pair in s) for s in sentences)
  path.write_text("\n\n".join(blocks) + "\n")
  return path


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  """Writes a model's files and tag files; returns flags of run_ner.py."""
  folder = tmp_path_factory.mktemp("given")
  model = small_model.write(folder, VOCABULARY, num_hidden_layers=2)
  for name, number in (("train", 80), ("dev", 30)):
    _write(folder / f"{name}.txt", _text(number, name))
  return model | {
    "train_file": folder / "train.txt",
    "dev_file": folder / "dev.txt",
    "max_seq_length": T,
    "train_batch_size": 8,
    "seed": 1,
    "learning_rate": 0.01,
    "num_train_epochs": 10,
  }


@pytest.fixture(scope="module", name="trained")
def _trained(given, tmp_path_factory):
  """Trains, evaluates and predicts once; returns output folder and log."""
  flags = given | {"test_file": given["dev_file"], "keep_best": True}
  flags |= {"do_train": True, "do_eval": True, "do_predict": True}
  return shared.trained(tmp_path_factory, "run_ner", **flags)


def test_a_tagger_learns_names_and_writes_scores(trained):
  output, log = trained
  results = programs.results(output)
  names = "accuracy f1 loss precision recall".split()
  assert results.keys() == {"global_step", *(f"eval_{name}" for name in names)}
  assert results["global_step"] == 100  # 80 sentences / 8 * 10 epochs
  assert results["eval_f1"] > 0.9
  best = json.loads((output / "best" / "best.json").read_text())
  assert (best["metric"], best["step"]) == ("eval_f1", 100)
  assert list((output / "eval").glob("events*"))
  labels = (output / "labels.txt").read_text().split()
  assert labels == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
  assert '"B-LOC"' in (output / "run.html").read_text()
  # A file to predict is scored like the dev file if its tags are known.
  assert log.count(f"FB1: {100 * results['eval_f1']:6.2f}") >= 2
  for kind in ("conll", "tsv"):
    result = (output / f"test_predictions.{kind}").read_text()
    assert result == (output / f"eval_predictions.{kind}").read_text()


def test_a_saved_tagger_tags_a_file_without_tags(trained, given, tmp_path):
  text = list(_text(12, "test"))
  # A sentence longer than a record, with a word without tokens.
  text.insert(3, [pair for s in text for pair in s] + [("\u200b", "O")])
  assert len(text[3]) > 3 * T
  file, output = _write(tmp_path / "words.txt", text, "{}"), tmp_path / "run"
  flags = {**given, "output_dir": output, "test_file": file}
  flags |= {"init_checkpoint": trained[0], "do_predict": True}
  # A run that does not train takes the tags of the model.
  other = _write(tmp_path / "train.txt", [[("the", "O"), ("boat", "B-X")]])
  flags |= {"train_file": other, "predict_batch_size": 3}
  log = programs.run("run_ner", **flags)
  assert "words are tagged, but nothing is scored" in log
  assert "FB1" not in log
  predicted = examples.read_sentences(str(output / "test_predictions.conll"))
  assert [s.words for s in predicted] == [[w for w, _ in s] for s in text]
  gold = [tag for s in text for _, tag in s]
  result = [tag for s in predicted for tag in s.tags]
  assert np.mean(np.equal(result, gold)) > 0.9


def test_scores_of_a_suffix_dev_file_equal_the_scores_of_the_bio_file(
  trained, given, tmp_path
):
  output = shutil.copytree(trained[0], tmp_path / "run")
  expected = programs.results(output)
  sentences = examples.read_sentences(str(given["dev_file"]))
  pairs = [
    zip(
      s.words, ("_".join(tag.split("-")[::-1]) for tag in s.tags), strict=True
    )
    for s in sentences
  ]
  file = _write(tmp_path / "dev.txt", pairs)
  assert "PER_I" in file.read_text()
  flags = {**given, "dev_file": file, "output_dir": output, "do_eval": True}
  flags |= {"test_file": file, "do_predict": True}
  programs.run("run_ner", **flags, tag_scheme="BIO")
  assert programs.results(output) == pytest.approx(expected, abs=1e-6)
  for kind in ("eval", "test"):
    assert "PER_I" in (output / f"{kind}_predictions.conll").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
  ("recipe", "changes"),
  # The default of ner_features needs four layers. The tiny model has two.
  [("ner", {}), ("ner_features", {"feature_layers": "last"})],
)
def test_recipes_pass_a_dry_run(given, recipe, changes):
  flags = given | changes | {"test_file": given["dev_file"]}
  programs.check_dry_run("run_ner", f"fine_tuning/{recipe}", **flags)
