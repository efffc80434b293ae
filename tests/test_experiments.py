"""The runs of experiments/ are fair comparisons; the driver saves results."""

import re

import pytest
from absl import flags

from cli import settings
from experiments import plan, results, run
from tests import programs

COMMANDS = {each.name: each.command for each in plan.runs()}


def test_a_run_starts_from_a_checkpoint_of_an_earlier_run():
  names = [each.name for each in plan.runs()]
  assert [*COMMANDS] == names
  for number, each in enumerate(plan.runs()):
    for start, file in run.checkpoints(each):
      assert start in names[:number]
      last = int(re.search(r"num_train_steps=(\d+)", COMMANDS[start])[1])
      step = int(file.partition("-")[2])
      # A run that does not start from the last step has the step in its name.
      assert step == last or f".{step}/" in each.name
      assert step % (last // 40) == 0  # the earlier run saves 40 checkpoints


BASE = "--init_checkpoint={work}/pretrain/base/1/model.ckpt-"
ENCODER = "--init_checkpoint={work}/encoder/bert_model.ckpt"
# Maps two runs of a table to the flags that only one of the runs has.
DIFFERENCES = {
  "pretrain base/1 base/2": {"--seed=1", "--seed=2"},
  "pretrain base/1 no_nsp/1": {"--objective=mlm"},
  "pretrain base/2 left_to_right/2": {"--objective=left_to_right"},
  "NER none/1 base/1": {f"{BASE}20000"},
  "NER base.1000/1 base/1": {f"{BASE}20000", f"{BASE}1000"},
  "MNLI short.size/1 short.size/5": {"--seed=1", "--seed=5"},
  "SQuAD left_to_right/2 bilstm/2": {"--add_bilstm"},
  "Encoder-NER pretrained/1 random/1": {ENCODER},
}


@pytest.mark.parametrize("runs", DIFFERENCES)
def test_runs_in_a_table_differ_only_in_flags_that_the_table_compares(runs):
  table, *names = runs.split()
  first, second = ({*COMMANDS[f"{table}/{name}"].split()} for name in names)
  folders = {f"--output_dir={{work}}/{table}/{name}" for name in names}
  assert first ^ second == DIFFERENCES[runs] | folders


def test_every_command_uses_only_flags_of_its_program():
  parsed = set()
  for command in (*COMMANDS.values(), *plan.PLAN["preparations"].values()):
    program, *words = command.split()
    # Benchmarks (-m) have no such flags. Most other commands repeat flags.
    if program == "-m" or parsed.issuperset((program, w) for w in words):
      continue
    parsed.update((program, word) for word in words)
    values = flags.FlagValues()
    kind = programs.settings_of(program.removesuffix(".py"))
    settings.define(kind, values)
    assert values(["", *words]) == [""], command


def test_a_difference_is_compared_with_the_standard_deviation_of_its_task():
  base, none = ("NER", "base"), ("NER", "none")
  embeddings, squad = ("NER.embeddings", "base"), ("SQuAD", "base")
  scores = {base: [50.0, 54.0], none: [40.0, 40.0]}
  scores |= {embeddings: [48.0, 52.0], squad: [9.0]}
  # Variances are 8 and 0, pooled 4. The second number is two standard errors.
  effect = results.compare(scores, [(1, base), (-1, none)])
  assert effect == (12.0, 4.0)
  # Runs of NER.embeddings have a separate deviation, here a variance of 8.
  small = results.compare(scores, [(1, base), (-1, embeddings)])
  assert small == (2.0, pytest.approx(2 * (4 / 2 + 8 / 2) ** 0.5))
  assert not results.compare(scores, [(1, squad), (-1, ("SQuAD", "none"))])
  for difference, papers, verdict in (
    (effect, 1.0, "as the paper"),
    (effect, None, "as the paper"),  # None: positive, by an unknown amount
    (effect, -1.0, "the opposite"),
    (small, 4.5, "not seen at this size"),  # 2.0 is below two standard errors
    ((1.0, float("inf")), None, "one seed so far"),
    (None, 1.0, "no comparison yet"),
  ):
    assert results.verdict(difference, papers) == verdict
