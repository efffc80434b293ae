"""The vocabulary of a run without --vocab_file."""

import shutil

import pytest

from data import vocab
from data.tokenization import open_tokenizer
from runs import checks, model_files, trained_model
from tests import programs, shared, small_model
from training import checkpoint_files

LOWER = [*vocab.SPECIAL_TOKENS, "a", "film"]
CASED = [*vocab.SPECIAL_TOKENS, "A", "Film"]
KIND = programs.settings_of("run_pretraining")


@pytest.fixture(name="folders")
def _folders(tmp_path):
  """Makes folders for a run, bert_config.json and the initial checkpoint."""
  folders = [tmp_path / name for name in ("run", "config", "before")]
  for folder in folders:
    folder.mkdir()
  small_model.narrow(len(LOWER)).to_json(str(folders[1] / "bert_config.json"))
  return folders


def _entry(folders, **more):
  """Returns a run.json entry with relative paths."""
  flags = {"bert_config_file": "config/bert_config.json"}
  flags |= {"init_checkpoint": "before/x.ckpt", "do_lower_case": True}
  flags |= {"vocab_file": None} | more
  directory = str(folders[0].parent)
  return {"program": "run_pretraining", "flags": flags, "directory": directory}


def _find(folders, more=0):
  run = str(folders[0])
  file = trained_model.find_vocabulary(run, _entry(folders), len(LOWER) + more)
  return file and file.removeprefix(f"{folders[0].parent}/")


def test_vocab_txt_comes_from_the_first_of_three_folders_that_has_one(folders):
  assert _find(folders) is None
  for folder in reversed(folders):
    vocab.save(LOWER, folder / "vocab.txt")
    assert _find(folders) == f"{folder.name}/vocab.txt"
    assert _find(folders, more=9) == f"{folder.name}/vocab.txt"
    assert _find(folders, more=-1) is None  # too many tokens for the model


def test_a_run_records_its_vocabulary_and_do_lower_case(folders):
  flags = {"bert_config_file": str(folders[1] / "bert_config.json")}
  flags["output_dir"] = str(folders[0])

  def recorded(*given, **changes):
    args = programs.arguments("run_pretraining", given, **flags | changes)
    return checks.vocabulary(args, [], len(LOWER))

  unknown = {"vocab_file": None, "do_lower_case": None}
  assert recorded() == (None, unknown)
  vocab.save(LOWER, folders[1] / "vocab.txt")
  path = str(folders[1] / "vocab.txt")
  known = {"vocab_file": path, "do_lower_case": None}
  assert recorded() == (None, known)
  cased = recorded("do_lower_case", do_lower_case=False)
  assert cased == (None, {"vocab_file": path, "do_lower_case": False})
  mark = open_tokenizer(path).fingerprint
  assert recorded(vocab_file=path) == (mark, {"do_lower_case": None})
  # The mark of the records or the checkpoint decides if a file is the model's.
  shared.touch_checkpoint(folders[0], "a.ckpt")
  for number, changes in ((mark, known), ("other", unknown)):
    entry = {"flags": {}, "vocabulary": number}
    checkpoint_files.append_run(str(folders[0]), entry)
    assert recorded() == (number, changes)
  # The flag of the checkpoint's training stays.
  entry = {"flags": {"do_lower_case": False}}
  checkpoint_files.append_run(str(folders[0]), entry)
  assert recorded(vocab_file=path)[1] == {"do_lower_case": False}


@pytest.mark.parametrize(
  ("tokens", "is_lower"), [(LOWER, True), (CASED, False)]
)
def test_a_do_lower_case_that_run_json_lacks_comes_from_the_vocabulary(
  folders, tokens, is_lower
):
  path = folders[1] / "vocab.txt"
  vocab.save(tokens, path)
  for vocab_file in (None, str(path)):
    entry = _entry(folders, vocab_file=vocab_file, do_lower_case=None)
    args = model_files.from_record(KIND, str(folders[0]), entry, {})
    assert (args.vocab_file, args.do_lower_case) == (str(path), is_lower)
    changes = {"do_lower_case": not is_lower}
    args = model_files.from_record(KIND, str(folders[0]), entry, changes)
    assert args.do_lower_case is not is_lower
    checkpoint_files.append_run(str(folders[0]), entry)
    shared.touch_checkpoint(folders[0], "x")
    assert trained_model.find_model(str(folders[0])).do_lower_case is is_lower
  entry["flags"]["do_lower_case"] = not is_lower  # the run's flag decides
  args = model_files.from_record(KIND, str(folders[0]), entry, {})
  assert args.do_lower_case is not is_lower


def test_files_in_a_run_are_preferred_to_files_named_in_run_json(folders):
  run, config, before = folders
  folder = str(run)
  message = r"no vocab.txt beside .*run \(its run.json names None\): copy the"
  with pytest.raises(FileNotFoundError, match=message):
    model_files.from_record(KIND, folder, _entry(folders), {})
  vocab.save(LOWER, config / "vocab.txt")
  vocab.save(LOWER, before / "vocab.txt")
  entry = _entry(folders, vocab_file="before/vocab.txt")

  def check(of_vocabulary, of_config):
    args = model_files.from_record(KIND, folder, entry, {})
    assert args.vocab_file == f"{of_vocabulary}/vocab.txt"
    assert args.bert_config_file == f"{of_config}/bert_config.json"

  check(before, config)
  shutil.copy(config / "bert_config.json", folder)
  vocab.save(LOWER, run / "vocab.txt")
  check(run, run)


@pytest.mark.parametrize(
  ("saved", "case", "given", "is_warned"),
  [
    ("v", None, None, False),
    (None, True, "v", False),  # the run read records, without a vocabulary
    ("v", None, "v", False),
    ("v", None, "w", True),
  ],
)
def test_only_a_different_vocab_file_counts_as_a_changed_flag(
  tmp_path, caplog, saved, case, given, is_warned
):
  flags = {"vocab_file": saved, "do_lower_case": case}
  checkpoint_files.append_run(str(tmp_path), {"flags": flags})
  args = programs.arguments("run_pretraining", vocab_file=given)
  model_files.warn_if_changed(args, str(tmp_path))
  assert ("--vocab_file=v (now w)" in caplog.text) == is_warned
  assert len(caplog.records) == is_warned
