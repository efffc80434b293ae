"""command.flags: a flagfile that repeats a run's command."""

import os
from dataclasses import dataclass

import pytest
from absl import flags

from cli import program, settings
from cli.settings import Settings, flag
from runs import model_files
from tests import programs
from tests.training import toy

SPECIAL = ["", 'it\'s "b"', "a=b,c", "~/x", "--x=y", "#1", "하다", "\\n"]


@dataclass(frozen=True, kw_only=True)
class Program(Settings):
  text: str | None = flag(None, "", text=True)
  other: str = flag("x", "")
  output_dir: str | None = flag(None, "")
  export_dir: str | None = flag(None, "")
  do_export: bool = flag(False, "")
  do_lower_case: bool = flag(True, "")
  jit_compile: bool | None = flag(None, "")
  columns: tuple[str, ...] = flag(("a", "b"), "")
  rate: float = flag(0.1, "")
  seed: int | None = flag(None, "")
  rates: float = flag(5e-5, "", swept=True)
  delimiter: str | None = flag(None, "")


def _flags(monkeypatch, argv=()):
  values = flags.FlagValues()
  settings.define(Program, values)
  monkeypatch.setattr(flags, "FLAGS", values)
  program._parse(Program, ["run_it.py", *argv])
  return settings.from_flags(Program, values, ["run_it.py", *argv])


def _save(folder, args, seed=7):
  model_files.save_command(args.replace(output_dir=str(folder)), seed)
  return folder / "command.flags"


def test_a_tab_as_the_value_of_a_flag_is_written_as_a_letter(
  tmp_path, monkeypatch
):
  path = _save(tmp_path, _flags(monkeypatch, ["--delimiter=\t"]))
  again = _flags(monkeypatch, [f"--flagfile={path}"])
  assert again.delimiter == r"\t"


@pytest.mark.parametrize("value", SPECIAL)
def test_command_flags_preserves_any_value_of_a_flag(
  tmp_path, monkeypatch, value
):
  given = (f"--text={value}", "--columns=" + '"1,2",3', "--rates=1e-3,0.1")
  args = _flags(monkeypatch, given)
  path = _save(tmp_path, args)
  again = _flags(monkeypatch, [f"--flagfile={path}"])
  expected = args.to_dict() | {"output_dir": None, "seed": 7}
  assert again.to_dict() == expected
  assert again.columns == ("1,2", "3")
  text = path.read_text()
  assert _save(tmp_path, again).read_text() == text


LINES = """\
# --do_export
--nodo_lower_case
# --export_dir=e
# --output_dir=out
--seed=7
--text=a
# Defaults:
--columns=a,b
--other=x
--rate=0.1
--rates=5e-05
"""


def test_command_flags_has_given_flags_before_defaults(tmp_path, monkeypatch):
  given = "--nodo_lower_case --text=a --other=x --seed=3 --output_dir=out"
  given = [*given.split(), "--do_export", "--export_dir=e"]
  text = _save(tmp_path, _flags(monkeypatch, given)).read_text()
  command, folder, lines = text.split("\n", 2)
  assert "run_it.py --flagfile=" in command
  assert folder.endswith(f" {os.getcwd()!r}")
  assert lines == LINES


def test_only_the_chief_worker_writes_command_flags(tmp_path, monkeypatch):
  args = _flags(monkeypatch)
  toy.set_worker(monkeypatch, 1)
  assert not _save(tmp_path, args).exists()


def test_a_flag_set_to_its_default_counts_as_given_if_the_default_varies():
  values = flags.FlagValues()
  kind = programs.settings_of("create_pretraining_data")
  settings.define(kind, values)
  required = ["--input_file=a", "--vocab_file=b"]
  # Only the default of --dupe_factor varies: it depends on --masking.
  values(["x", "--dupe_factor=10", "--short_seq_prob=0.1", *required])
  given = settings.from_flags(kind, values).given
  assert given == {"dupe_factor", "input_file", "vocab_file"}
