"""Training programs read, check and pass on the data of each stage."""

import importlib.util
import itertools
import json
from types import SimpleNamespace

import pytest

from data import labels
from modeling import models
from runs import model_files
from tasks.classification import named_tasks
from tasks.pretraining import settings as pretraining_settings
from tasks.pretraining import task as pretraining
from tests import programs, shared, small_model, stages
from tests.runs.test_checks import raises
from tests.training import toy
from training import checkpoint_files, report, run_folder

NAMES = ("train", "dev", "test")
LOADED = 9  # step that a pre-training ends at, and that a later run loads

# --- Fine-tuning -------------------------------------------------------------


def _squad(question, *answers):
  """Returns a question for each of `answers`, in JSON; None is no answer."""
  questions = [
    {
      "id": str(number),
      "question": question,
      "answers": [{"text": "b", "answer_start": 2}] * (answer is not None),
      "is_impossible": answer is None,
    }
    for number, answer in enumerate(answers)
  ]
  paragraph = {"context": "a b", "qas": questions}
  return json.dumps({"data": [{"paragraphs": [paragraph]}]})


def _squad_file(path, *answers):
  path.write_text(_squad(path.name, *answers))
  return str(path)


SWAG = "sent1,sent2,ending0,ending1,label\nNAME,b,c,d,1\n"
# Columns: splits of a program, name and text of a split's file. NAME in the
# text stands for the split.
READERS = {
  "run_swag": (NAMES, "{}.csv", SWAG),
  "run_ner": (NAMES, "{}.txt", "NAME O\n"),
  "run_squad": (NAMES[:2], "{}", _squad("NAME", "b")),
  "run_classifier": (NAMES, "{}.tsv", "text\tlabel\nNAME\tO\nNAME\tB-X\n"),
}


@pytest.mark.parametrize("program", READERS)
def test_each_program_reads_only_the_files_of_its_stages(tmp_path, program):
  splits, pattern, text = READERS[program]
  output = str(tmp_path / "out")
  labels.save(["O", "B-X"], output)
  for number, settings in enumerate(
    stages.commands(programs.arguments(program, output_dir=output))
  ):
    train, predict = settings.do_train, settings.do_predict
    evaluate = predict if program == "run_squad" else settings.do_eval
    in_training = train and (settings.keep_best or settings.num_seeds > 1)
    is_read = {"train": train, "dev": evaluate or in_training, "test": predict}
    names = [name for name in splits if is_read[name]]
    folder = tmp_path / str(number)
    folder.mkdir()
    for name in names:
      (folder / pattern.format(name)).write_text(text.replace("NAME", name))
    files = {f"{n}_file": str(folder / pattern.format(n)) for n in NAMES}
    files["predict_file"] = files["dev_file"]
    files |= {"task_name": "tsv", "data_dir": str(folder) if names else None}
    files = {k: v for k, v in files.items() if k in settings.to_dict()}
    task = stages.task_of(program, settings.replace(**files))
    assert [*task.examples] == names
    assert all(name in str(task.examples[name][0]) for name in names)


def test_training_for_squad_1_needs_an_answer_for_each_question(tmp_path):
  path = _squad_file(tmp_path / "train", "b", None)
  args = programs.arguments("run_squad", do_train=True, train_file=path)
  with pytest.raises(ValueError, match="question 1 has no answers"):
    stages.task_of("run_squad", args)
  args = args.replace(version_2_with_negative=True)
  assert len(stages.task_of("run_squad", args).examples["train"]) == 2


@pytest.mark.parametrize(
  ("flags", "is_refused"),
  [
    ({"do_predict": True}, False),  # predictions without scores
    ({"do_train": True, "eval_steps": 3}, True),
    ({"do_train": True, "num_seeds": 2}, True),
  ],
)
def test_evaluating_while_training_needs_an_answer_for_each_question(
  tmp_path, flags, is_refused
):
  train = _squad_file(tmp_path / "train", "b")
  dev = _squad_file(tmp_path / "dev", "b", None)
  args = programs.arguments(
    "run_squad", train_file=train, predict_file=dev, **flags
  )
  message = "not every question of" if is_refused else None
  with raises(message):
    stages.task_of("run_squad", args)
  scored = args.replace(version_2_with_negative=True)
  assert stages.task_of("run_squad", scored).metric == "best_f1"


def test_scores_without_their_package_are_refused_before_training(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  scored = _squad_file(tmp_path / "dev", "b", "b")
  unscored = _squad_file(tmp_path / "test", "b", None)
  flags = {"do_train": True, "do_predict": True, "train_file": scored}
  args = programs.arguments("run_squad", predict_file=scored, **flags)
  with raises("pip install tf-models-official"):
    stages.task_of("run_squad", args)
  for changes in ({"f1_unit": "character"}, {"predict_file": unscored}):
    assert stages.task_of("run_squad", args.replace(**changes))


@pytest.fixture(name="classifier")
def _classifier(tmp_path):
  """Writes files of three splits; returns settings of run_classifier.py."""
  (tmp_path / "data").mkdir()
  for name in NAMES:
    (tmp_path / f"data/{name}.tsv").write_text("text\tlabel\nx\tb\ny\ta\n")
  labels.save(["b", "a"], str(tmp_path / "out"))
  flags = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "out"}
  flags = {name: str(path) for name, path in flags.items()}
  return programs.arguments("run_classifier", task_name="tsv", **flags)


@pytest.mark.parametrize("has_dev", [True, False])
@pytest.mark.parametrize(
  ("do_train", "ensemble", "file", "fits"),
  [
    (True, 1, None, True),
    (True, 1, "thresholds_ensemble_2.tsv", True),
    (False, 1, "thresholds.tsv", False),
    (False, 1, None, False),  # a model without a file has thresholds of 0.5
    (False, 2, "thresholds.tsv", True),  # thresholds of one model
    (False, 2, "thresholds_ensemble_2.tsv", False),
    (False, 3, "thresholds_ensemble_2.tsv", True),
  ],
)
def test_thresholds_are_fitted_for_a_new_model_or_a_new_ensemble(
  tmp_path, classifier, log, has_dev, do_train, ensemble, file, fits
):
  if not has_dev:
    (tmp_path / "data/dev.tsv").unlink()
  if file:
    (tmp_path / "out" / file).write_text("b\t0.25\na\t0.75\n")
  flags = {"do_train": do_train, "ensemble": ensemble, "do_predict": True}
  settings = classifier.replace(**flags, multi_label=True)
  task = stages.task_of("run_classifier", settings)
  assert named_tasks.fits_thresholds(task.settings) == fits
  assert task.settings.do_eval == (fits and has_dev)
  assert ("--do_eval is set" in log.text) == (fits and has_dev)


@pytest.mark.parametrize(
  ("do_train", "in_output", "task", "column", "is_refused"),
  [
    (True, True, "TSV", None, True),
    (True, False, "TSV", None, False),  # the start of another task's training
    (False, True, "TSV", None, True),
    (False, False, "TSV", None, True),
    (False, True, "TSV", "c", False),
    (False, True, "MRPC", None, False),
  ],
)
def test_a_model_trained_with_pairs_reads_no_single_texts(
  tmp_path, monkeypatch, classifier,
  do_train, in_output, task, column, is_refused,
):  # fmt: skip
  folder = tmp_path / ("out" if in_output else "start")
  flags = {"task_name": task, "text_b_column": "b"}
  checkpoint_files.append_run(str(folder), {"flags": flags})
  shared.touch_checkpoint(folder, "x")
  module = stages.program("run_classifier")
  monkeypatch.setattr(module.checks, "check_fine_tuning", lambda *_, **__: 0)
  flags = {"do_train": do_train, "do_eval": True, "text_b_column": column}
  flags["init_checkpoint"] = str(tmp_path / "start")
  with raises("was trained with --text_b_column=b" if is_refused else None):
    module.check_flags(classifier.replace(**flags))


# --- Pre-training ------------------------------------------------------------

# Maps --eval_steps to the steps at which a training of LOADED steps evaluates.
EVALUATIONS = {0: [], 4: [4, 8], 3: [3, 6, 9]}


@pytest.fixture(name="pretrainer")
def _pretrainer(monkeypatch, tmp_path):
  """Returns the calls of stand-ins, and `main` of run_pretraining.py."""
  monkeypatch.chdir(tmp_path)  # the stages write run.html into "out"
  events = stages.Events()

  class Run:
    """A run that trains LOADED steps."""

    scope = staticmethod(stages.nullcontext)
    load = staticmethod(events.stage("load", LOADED))
    export = staticmethod(events.stage("export"))

    def __init__(self, settings, config):
      self.settings, self.config = settings, config

    def train(self, model, objective, source, **options):
      events.append(("train", model, source.name, objective.terms, options))
      yield from EVALUATIONS[self.settings.eval_steps]

  def evaluate(args, model, objective, source, step):
    events.append(("evaluate", model, source.name, step))

  def records(sources, *_, **__):
    [[path]] = (source.files for source in sources)
    name = path.rpartition("/")[2]
    events.append(("open", name))
    return SimpleNamespace(name=name, masks_words=True)

  def config(args):
    events.append(("config", args.attention))
    return small_model.narrow(5)

  for owner, name, stand_in in (
    (pretraining, "Run", Run),
    (pretraining, "PretrainingInput", records),
    (pretraining, "evaluate", evaluate),
    (pretraining, "served_model", "what is served"),
    (pretraining_settings, "find_schema", lambda *_: 1),
    (model_files, "config", config),
    (models, "pretrainer", lambda _, next_sentence: f"NSP {next_sentence}"),
    (report, "last_evaluation", lambda folder: f"of {folder}"),
  ):
    monkeypatch.setattr(owner, name, stand_in)
  for name in ("train", "dev"):
    (tmp_path / name).touch()
  return events, stages.program("run_pretraining").main


@pytest.mark.parametrize("index", [0, 1])
def test_the_chief_opens_the_records_before_the_other_workers(
  tmp_path, monkeypatch, pretrainer, index
):
  events, main = pretrainer
  toy.set_worker(monkeypatch, index)
  monkeypatch.setattr(
    run_folder, "wait_for_chief", lambda: events.append("wait")
  )
  flags = {"input_file": tmp_path / "train", "eval_file": tmp_path / "dev"}
  flags = {name: str(path) for name, path in flags.items()}
  main(
    programs.arguments(
      "run_pretraining", **flags, do_eval=True, do_train=True, output_dir="out"
    )
  )
  opened = [("open", "dev"), ("open", "train")]
  assert events[1:4] == (["wait", *opened] if index else [*opened, "wait"])


@pytest.mark.parametrize("eval_steps", EVALUATIONS)
def test_run_pretraining_runs_stages_in_order(tmp_path, pretrainer, eval_steps):
  events, main = pretrainer
  model = "NSP True"
  for trains, evaluates, exports, has_file in itertools.product(
    [False, True], repeat=4
  ):
    source = "dev" if has_file else "train"
    reads = trains or (evaluates and not has_file)
    flags = {"do_train": trains, "do_eval": evaluates, "do_export": exports}
    flags |= {"input_file": str(tmp_path / ("train" if reads else "gone"))}
    flags |= {"eval_file": str(tmp_path / "dev") if has_file else None}
    flags |= {"eval_steps": eval_steps, "output_dir": "out"}
    steps = {"num_train_steps": 11, "num_warmup_steps": 2}
    flags |= {"stop_at_step": LOADED} | steps
    events.clear()
    main(programs.arguments("run_pretraining", **flags))
    expected = [("config", None)]
    if trains or evaluates:
      expected += [("open", "dev")] * has_file + [("open", "train")] * reads
    done = EVALUATIONS[eval_steps] if trains else []
    options = {"stop_at": LOADED, "unit": "sequences", "evaluated": "of out"}
    terms = ["masked_lm_loss", "next_sentence_loss"]
    expected += [("train", model, "train", terms, steps | options)] * trains
    expected += [("evaluate", model, source, step) for step in done]
    last = [("evaluate", model, source, LOADED)] * (LOADED not in done)
    expected += [("load", model), *last] * evaluates
    expected += [("export", "what is served")] * exports
    assert events == expected


@pytest.mark.parametrize(
  ("objective", "given", "attention", "has_nsp"),
  [
    ("mlm_nsp", None, None, True),
    ("mlm_nsp", "left_to_right", "left_to_right", True),
    ("mlm", None, None, False),
    ("right_to_left", None, "right_to_left", False),
    ("right_to_left", "bidirectional", "bidirectional", False),
  ],
)
def test_the_objective_chooses_attention_and_heads(
  tmp_path, pretrainer, objective, given, attention, has_nsp
):
  events, main = pretrainer
  flags = {"objective": objective, "attention": given, "do_train": True}
  flags |= {"input_file": str(tmp_path / "train"), "output_dir": "out"}
  main(programs.arguments("run_pretraining", **flags))
  assert events[0] == ("config", attention)
  [(_, model, _, terms, _)] = [e for e in events if e[0] == "train"]
  assert model == f"NSP {has_nsp}"
  assert ("next_sentence_loss" in terms) == has_nsp


@pytest.mark.parametrize("eval_file", [None, "dev", "gone"])
@pytest.mark.parametrize("input_file", [None, "train", "gone"])
@pytest.mark.parametrize("do_train", [False, True])
@pytest.mark.parametrize("do_eval", [False, True])
def test_a_file_may_be_missing_if_no_stage_reads_the_file(
  tmp_path, input_file, eval_file, do_train, do_eval
):
  for name in ("train", "dev"):
    toy.write_records(str(tmp_path / name), 2)
  shared.touch_checkpoint(tmp_path / "out", "model.ckpt-3")
  flags = toy.flags(tmp_path) | {"output_dir": str(tmp_path / "out")}
  flags |= {"input_file": input_file and str(tmp_path / input_file)}
  flags |= {"eval_file": eval_file and str(tmp_path / eval_file)}
  flags |= {"do_train": do_train, "do_eval": do_eval}
  error = None
  if eval_file == "gone" and (do_train or do_eval):
    error = FileNotFoundError
  if input_file != "train" and (do_train or (do_eval and not eval_file)):
    error = FileNotFoundError if input_file else ValueError
  with pytest.raises(error) if error else stages.nullcontext():
    stages.program("run_pretraining").check_flags(
      programs.arguments("run_pretraining", **flags)
    )
