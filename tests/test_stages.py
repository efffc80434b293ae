"""Stages of the programs, in all combinations: data, order, checkpoint."""

import itertools
import json
from types import SimpleNamespace

import pytest

from data import labels
from modeling import models
from modeling.config import BertConfig
from runs import checks, session
from tasks.classification import task as classification
from tasks.multiple_choice import task as multiple_choice
from tasks.ner import metrics as ner_metrics
from tasks.ner import task as ner
from tasks.pretraining import task as pretraining
from tasks.squad import task as squad
from tests import programs, stages
from tests.stages import LOADED, Stages
from tests.training import toy
from training import report, run_json

NAMES = ("train", "dev", "test")


def _with_files(args, tmp_path, suffix=""):
  """Flags of files; there are those alone that the command has to read."""
  names = stages.splits(args)
  return args.replace(
    **{
      f"{name}_file": str(tmp_path / (name if name in names else "gone"))
      + suffix
      for name in NAMES
    }
  )


def test_run_swag_goes_through_its_stages(tmp_path, monkeypatch):
  for name in NAMES:
    row = {"sent1": name, "sent2": "b", "ending0": "c", "ending1": "d"}
    if name != "test":
      row |= {"label": "1"}
    (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
  recorder = Stages(monkeypatch, lambda rows: rows[0].sent1)
  recorder.replace_task(multiple_choice)
  main = stages.program("run_swag").main
  for args in stages.commands(programs.arguments("run_swag")):
    args = _with_files(args, tmp_path, ".jsonl")
    assert recorder.of(main, args) == stages.expected(args)
  for training in recorder.trainings:
    assert training["metric"] == "eval_accuracy"
    assert training["num_examples"] == 2
    assert training.get("results", 0.5) == 0.5


def test_run_ner_goes_through_its_stages(tmp_path, monkeypatch):
  for name in NAMES:
    tag, more = (" O", "b B-X\n") if name != "test" else ("", "")
    (tmp_path / name).write_text(f"{name}{tag}\n{more}")
  recorder = Stages(monkeypatch, lambda rows: rows[0].words[0])
  recorder.replace_task(ner, "tagger", ("numbers", "logits"))
  monkeypatch.setattr(
    ner_metrics,
    "write_predictions",
    lambda *given: recorder.add("write", *given[1:3]),
  )
  main = stages.program("run_ner").main
  command = programs.arguments("run_ner", output_dir=str(tmp_path / "out"))
  for args in stages.commands(command):
    args = _with_files(args, tmp_path)
    # Its tags are needed, whatever the stages.
    args = args.replace(train_file=str(tmp_path / "train"))
    events = stages.expected(args)
    if args.do_eval:
      index = events.index(("evaluate", "dev", LOADED))
      events.insert(index + 1, ("write", "eval", "logits"))
    assert recorder.of(main, args) == events
    (tmp_path / "out/labels.txt").unlink()
  for training in recorder.trainings:
    assert training["metric"] == "eval_f1"
    assert training["num_examples"] == 2
    assert training.get("results", "numbers") == "numbers"


@pytest.mark.parametrize("version_2", [False, True])
def test_run_squad_goes_through_its_stages(tmp_path, monkeypatch, version_2):
  for name in NAMES[:2]:
    answers = [{"text": name, "answer_start": 0}]
    question = {"id": "1", "question": name, "answers": answers}
    none = {"id": "2", "question": name, "answers": [], "is_impossible": True}
    paragraph = {"context": name, "qas": [question, none][: 1 + version_2]}
    data = {"data": [{"paragraphs": [paragraph]}]}
    (tmp_path / name).write_text(json.dumps(data))
  recorder = Stages(monkeypatch, lambda rows: rows[0].question)
  recorder.replace_task(squad)
  evaluate = squad.evaluate
  monkeypatch.setattr(squad, "evaluate_in_training", evaluate)
  main = stages.program("run_squad").main
  command = programs.arguments("run_squad", version_2_with_negative=version_2)
  for args in stages.commands(command):
    for ensemble in (1, 2):
      names = stages.splits(args)
      paths = {
        name: str(tmp_path / (name if name in names else "gone"))
        for name in NAMES
      }
      args = args.replace(
        ensemble=ensemble,
        train_file=paths["train"],
        predict_file=paths["dev"],
      )
      assert recorder.of(main, args) == _of_squad(args)
  for training in recorder.trainings:
    assert training["metric"] == ("best_f1" if version_2 else "f1")
    assert training["num_examples"] == 1 + version_2  # questions
    assert training["unit"] == "windows"
    assert training.get("results", 0.5) == 0.5


def _of_squad(args):
  """Stages of run_squad, whose prediction is of the dev set."""
  is_sweep = args.do_train and args.num_seeds > 1
  # An ensemble that is exported needs a threshold of its own.
  needs_threshold = args.version_2_with_negative and args.ensemble > 1
  predicts = is_sweep and args.do_export and needs_threshold
  common = ("do_train", "do_export", "num_seeds", "keep_best")
  args = programs.arguments(
    "run_ner",
    do_eval=args.do_predict or predicts,
    **{name: args[name] for name in common},
  )
  predicted = "predict", "dev", LOADED
  evaluated = "evaluate", "dev", LOADED
  return [
    predicted if event == evaluated else event
    for event in stages.expected(args)
  ]


def _write_texts(folder, names):
  """Files of run_classifier.py, with the names of their splits as texts."""
  folder.mkdir(exist_ok=True)
  for name in names:
    rows = [f"{name}\tb\n", f"{name}\ta\n", f"{name}\tb\n"]
    table = "".join(["text\tlabel\n", *rows])
    (folder / f"{name}.tsv").write_text(table)
  return str(folder)


@pytest.fixture(name="classifier")
def _classifier(monkeypatch, tmp_path):
  """Stand-ins, `main` and flags of run_classifier.py."""
  recorder = Stages(monkeypatch, lambda rows: rows[0].text_a)
  recorder.replace_task(classification, results={"eval_accuracy": 0.5})
  labels.save(["b", "a"], str(tmp_path / "out"))
  args = programs.arguments(
    "run_classifier", task_name="tsv", output_dir=str(tmp_path / "out")
  )
  return recorder, stages.program("run_classifier").main, args


def test_run_classifier_goes_through_its_stages(tmp_path, classifier):
  recorder, main, command = classifier
  command = command.replace(class_weights=["balanced"])
  for args in stages.commands(command):
    names = stages.splits(args)
    folder = _write_texts(tmp_path / "-".join(["data", *names]), names)
    if not names:  # an export alone reads nothing
      folder = None
    args = args.replace(data_dir=folder)
    assert recorder.of(main, args) == stages.expected(args)
  for training in recorder.trainings:
    assert training["metric"] == "eval_accuracy"
    assert training["num_examples"] == 6
    assert training.get("results", 0.5)


@pytest.mark.parametrize("has_dev", [True, False])
def test_thresholds_are_fitted_where_they_are_missing(
  tmp_path, classifier, monkeypatch, has_dev
):
  """After a training, and for an ensemble that was not evaluated yet."""
  recorder, main, command = classifier
  given = []
  loaded = classification.with_thresholds

  def with_thresholds(args, task):
    given.append("loaded")
    return loaded(args, task)

  def evaluate(args, task, model, sets, fits, step):
    recorder.add("evaluate", *sets, step, fits, task.thresholds)
    return {"eval_micro_f1": 0.5}

  monkeypatch.setattr(classification, "with_thresholds", with_thresholds)
  monkeypatch.setattr(classification, "evaluate", evaluate)
  folder = _write_texts(tmp_path / "d", NAMES if has_dev else NAMES[::2])
  command = command.replace(multi_label=True, data_dir=folder)
  for do_train, do_eval, ensemble, is_known in (
    (True, False, 1, False),
    (True, False, 1, True),
    (True, True, 1, True),
    (False, False, 1, False),
    (False, False, 2, False),
    (False, False, 2, True),
    (False, True, 2, True),
    (False, True, 1, False),
  ):
    if do_eval and not has_dev:
      continue
    known = tmp_path / "out/thresholds_ensemble.tsv"
    known.write_text("b\t0.25\na\t0.75\n") if is_known else known.unlink(True)
    args = command.replace(
      do_train=do_train, do_eval=do_eval, ensemble=ensemble, do_predict=True
    )
    fits = do_train or (ensemble == 2 and not is_known)
    given.clear()
    events = [e for e in recorder.of(main, args) if e[0] == "evaluate"]
    thresholds = ()
    if not fits:
      thresholds = (0.25, 0.75) if ensemble == 2 else (0.5, 0.5)
    assert events == [("evaluate", "dev", LOADED, fits, thresholds)] * (
      has_dev and (do_eval or fits)
    )
    assert given == ([] if fits else ["loaded"])


def test_matched_and_mismatched_files_are_told_apart(tmp_path, classifier):
  recorder, main, command = classifier
  for name in ("dev_matched", "dev_mismatched", "test_matched"):
    split = name.replace("_matched", "")
    columns = ("index", "sentence1", "sentence2", "gold_label")
    row = (0, split, "b", "neutral")
    lines = ["\t".join(map(str, line)) + "\n" for line in (columns, row)]
    (tmp_path / f"{name}.tsv").write_text("".join(lines))
  flags = {"task_name": "mnli", "data_dir": str(tmp_path)}
  args = command.replace(**flags, do_eval=True, do_predict=True)
  assert recorder.of(main, args) == [
    ("convert", "dev"),
    ("convert", "dev_mismatched"),
    ("convert", "test"),
    ("load",),
    ("evaluate", "dev+dev_mismatched", LOADED),
    ("predict", "test"),
  ]


def test_a_teacher_counts_in_training_alone(tmp_path, classifier):
  recorder, main, command = classifier
  folder = _write_texts(tmp_path / "data", NAMES)
  labels.save(["a", "b"], str(tmp_path / "old"))  # in another order
  args = command.replace(data_dir=folder, teacher=str(tmp_path / "old"))
  assert recorder.of(main, args.replace(do_eval=True))
  with pytest.raises(ValueError, match="has other labels, or another order"):
    main(args.replace(do_train=True))


# Steps at which a training of LOADED steps evaluates.
EVALUATIONS = {0: [], 4: [4, 8], 3: [3, 6, 9]}


@pytest.fixture(name="pretrainer")
def _pretrainer(monkeypatch, tmp_path):
  """Events, `main` and flags of run_pretraining.py with stand-ins."""
  events = []
  add = lambda *event: events.append(event)  # noqa: E731

  class Run:
    """A run that trains LOADED steps."""

    strategy = SimpleNamespace(scope=stages.nullcontext)

    def __init__(self, args, config):
      self.args = args.replace(eval_batch_size=77)  # a run may change flags
      self.config = config

    def train(self, model, objective, source, **options):
      assert (model, source.name) == ("model", "train")
      add("train", source.name, objective.terms, options)
      yield from EVALUATIONS[self.args.eval_steps]

    def load(self, model):
      assert model == "model"
      add("load")
      return LOADED

    def export(self, build):
      add("export", build)

  def evaluate(args, model, objective, source, step):
    assert (args.eval_batch_size, model) == (77, "model")
    add("evaluate", source.name, step)

  def records(paths, *_, **__):
    [name] = (path.rpartition("/")[2] for path in paths)
    add("open", name)
    return SimpleNamespace(name=name, masks_words=True)

  monkeypatch.setattr(session, "Run", Run)
  monkeypatch.setattr(checks, "config", lambda args: BertConfig(5))
  monkeypatch.setattr(pretraining, "PretrainingInput", records)
  monkeypatch.setattr(pretraining, "evaluate", evaluate)
  monkeypatch.setattr(pretraining, "served_model", "what is served")
  monkeypatch.setattr(report, "last_evaluation", lambda folder: f"of {folder}")
  for name in ("train", "dev"):
    (tmp_path / name).touch()
  return events, stages.program("run_pretraining").main


@pytest.mark.parametrize("eval_steps", EVALUATIONS)
def test_run_pretraining_goes_through_its_stages(
  tmp_path, monkeypatch, pretrainer, eval_steps
):
  events, main = pretrainer
  made = []
  monkeypatch.setattr(
    models,
    "pretrainer",
    lambda config, next_sentence: made.append(next_sentence) or "model",
  )
  flags = {"do_train": 0, "do_eval": 0, "do_export": 0, "eval_file": 0}
  for values in itertools.product([False, True], repeat=len(flags)):
    chosen = dict(zip(flags, values, strict=True))
    has_file = chosen.pop("eval_file")
    trains, evaluates = chosen["do_train"], chosen["do_eval"]
    source = "dev" if has_file else "train"
    reads = trains or (evaluates and not has_file)
    args = programs.arguments(
      "run_pretraining",
      **chosen,
      input_file=str(tmp_path / ("train" if reads else "gone")),
      eval_file=str(tmp_path / "dev") if has_file else None,
      eval_steps=eval_steps,
      output_dir="out",
      num_train_steps=11,
      num_warmup_steps=2,
      stop_at_step=LOADED,
    )
    events.clear()
    main(args)
    expected = []
    if trains or evaluates:
      expected += [("open", "dev")] * has_file + [("open", "train")] * reads
    done = EVALUATIONS[eval_steps] if trains else []
    if trains:
      options = {"num_train_steps": 11, "num_warmup_steps": 2}
      options |= {"stop_at": LOADED, "unit": "sequences", "evaluated": "of out"}
      terms = ("masked_lm_loss", "next_sentence_loss")
      expected.append(("train", "train", terms, options))
    expected += [("evaluate", source, step) for step in done]
    if evaluates:
      expected.append(("load",))
      expected += [("evaluate", source, LOADED)] * (LOADED not in done)
    expected += [("export", "what is served")] * chosen["do_export"]
    assert events == expected
  assert all(made)


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
def test_an_objective_has_its_attention_and_heads(
  tmp_path, monkeypatch, pretrainer, objective, given, attention, has_nsp
):
  events, main = pretrainer
  seen = []
  monkeypatch.setattr(
    models,
    "pretrainer",
    lambda config, next_sentence: seen.append(next_sentence) or "model",
  )
  monkeypatch.setattr(
    checks, "config", lambda args: seen.append(args.attention) or BertConfig(5)
  )
  flags = {"objective": objective, "attention": given, "do_train": True}
  main(
    programs.arguments(
      "run_pretraining",
      **flags,
      input_file=str(tmp_path / "train"),
      output_dir="out",
    )
  )
  assert seen == [attention, has_nsp]
  [terms] = [event[2] for event in events if event[0] == "train"]
  assert ("next_sentence_loss" in terms) == has_nsp


@pytest.mark.parametrize("eval_file", [None, "dev", "gone"])
@pytest.mark.parametrize("input_file", [None, "train", "gone"])
def test_files_of_the_stages_alone_are_checked(tmp_path, input_file, eval_file):
  """A file that no stage reads may be missing."""
  for name in ("train", "dev"):
    toy.write_records(str(tmp_path / name), 2)
  (tmp_path / "out").mkdir()
  (tmp_path / "out/model.ckpt-3.index").touch()
  text = 'model_checkpoint_path: "model.ckpt-3"\n'
  (tmp_path / "out/checkpoint").write_text(text)
  flags = toy.flags(tmp_path) | {"output_dir": str(tmp_path / "out")}
  flags |= {"input_file": input_file and str(tmp_path / input_file)}
  flags |= {"eval_file": eval_file and str(tmp_path / eval_file)}
  check = stages.program("run_pretraining").check_flags
  for do_train, do_eval in ((1, 0), (0, 1), (1, 1), (0, 0)):
    changes = {"do_train": bool(do_train), "do_eval": bool(do_eval)}
    args = programs.arguments("run_pretraining", **flags, **changes)
    reads = do_train or (do_eval and not eval_file)
    error = None
    if eval_file == "gone" and (do_train or do_eval):
      error = FileNotFoundError
    if reads and input_file != "train":
      error = FileNotFoundError if input_file else ValueError
    with pytest.raises(error) if error else stages.nullcontext():
      check(args)


@pytest.mark.parametrize("program", ["run_swag", "run_ner"])
def test_only_a_file_to_predict_may_lack_labels(tmp_path, monkeypatch, program):
  """What is trained on or scored needs them, before any work."""
  recorder = Stages(monkeypatch, lambda rows: "rows")
  recorder.replace_task(multiple_choice)
  recorder.replace_task(ner, "tagger")
  ending = "jsonl" if program == "run_swag" else "txt"
  row = {"sent1": "a", "sent2": "b", "ending0": "c", "ending1": "d"}
  for name, more in (("bare", {}), ("labelled", {"label": "1"})):
    text = "a O\nb B-X\n" if more else "a\nb\n"
    if program == "run_swag":
      text = json.dumps(row | more)
    (tmp_path / f"{name}.{ending}").write_text(text)
  labels.save(["O", "B-X", "I-X"], str(tmp_path / "out"))
  main = stages.program(program).main
  bare, labelled = (
    str(tmp_path / f"{name}.{ending}") for name in ("bare", "labelled")
  )
  for stage, flag in (("do_train", "train"), ("do_eval", "dev")):
    files = {f"{name}_file": labelled for name in NAMES}
    files[f"{flag}_file"] = bare
    args = programs.arguments(
      program, **{"output_dir": str(tmp_path / "out"), stage: True}, **files
    )
    with pytest.raises(ValueError, match=r"bare\."):
      recorder.of(main, args)
    assert recorder.events == []
  for path in (bare, labelled):
    changes = {"do_eval": False, "do_predict": True, "test_file": path}
    events = recorder.of(main, args.replace(**changes, dev_file="gone"))
    assert [event[0] for event in events] == ["convert", "load", "predict"]


def _squad_file(path, *questions):
  """A file of questions, each with the text of its answer, or None."""
  asked = [
    {
      "id": str(number),
      "question": path.name,
      "answers": [{"text": "b", "answer_start": 2}] * (answer is not None),
      "is_impossible": answer is None,
    }
    for number, answer in enumerate(questions)
  ]
  paragraph = {"context": "a b", "qas": asked}
  path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
  return str(path)


def test_a_training_of_version_1_needs_all_answers(tmp_path, monkeypatch):
  recorder = Stages(monkeypatch, lambda rows: rows[0].question)
  recorder.replace_task(squad)
  main = stages.program("run_squad").main
  path = _squad_file(tmp_path / "train", "b", None)
  args = programs.arguments("run_squad", do_train=True, train_file=path)
  with pytest.raises(ValueError, match="question 1 has no answers"):
    main(args)
  events = recorder.of(main, args.replace(version_2_with_negative=True))
  assert events == [("convert", "train"), ("train", "train")]


@pytest.mark.parametrize(
  ("flags", "is_refused"),
  [
    ({"do_predict": True}, False),  # without scores
    ({"do_train": True, "do_predict": True}, False),
    ({"do_train": True, "keep_best": True}, True),
    ({"do_train": True, "eval_steps": 3}, True),
    ({"do_train": True, "num_seeds": 2}, True),
    ({"do_predict": True, "keep_best": True, "eval_steps": 3}, False),
  ],
)
def test_questions_without_answers_score_no_training(
  tmp_path, monkeypatch, flags, is_refused
):
  recorder = Stages(monkeypatch, lambda rows: rows[0].question)
  recorder.replace_task(squad)
  monkeypatch.setattr(squad, "evaluate_in_training", squad.evaluate)
  main = stages.program("run_squad").main
  files = {
    "train_file": _squad_file(tmp_path / "train", "b"),
    "predict_file": _squad_file(tmp_path / "dev", "b", None),
  }
  args = programs.arguments("run_squad", **files, **flags)
  if is_refused:
    with pytest.raises(ValueError, match="not every question of"):
      main(args)
    assert recorder.events == []
  else:
    assert recorder.of(main, args)
  scored = args.replace(version_2_with_negative=True)
  assert recorder.of(main, scored)


@pytest.mark.parametrize("column", [None, "", "b"])
@pytest.mark.parametrize("trained", [None, "", "second"])
@pytest.mark.parametrize(
  ("do_train", "is_own", "is_checked"),
  [
    (True, True, True),
    (True, False, False),
    (False, True, True),
    (False, False, True),
  ],
)
def test_a_model_goes_on_with_one_text_or_with_two(
  tmp_path, monkeypatch, column, trained, do_train, is_own, is_checked
):
  """A new training may begin with the model of another task."""
  module = stages.program("run_classifier")
  folder = tmp_path / ("out" if is_own else "start")
  flags = {"task_name": "tsv", "text_b_column": trained}
  run_json.append(str(folder), {"flags": flags})
  (folder / "x.index").touch()
  (folder / "checkpoint").write_text('model_checkpoint_path: "x"\n')
  (tmp_path / "train.tsv").write_text("text\tb\tlabel\na\tb\t0\n")
  (tmp_path / "dev.tsv").write_text("text\tb\tlabel\na\tb\t0\n")
  args = programs.arguments(
    "run_classifier",
    **{"task_name": "tsv", "data_dir": str(tmp_path), "do_train": do_train},
    **{"do_eval": True, "text_b_column": column},
    **{"output_dir": str(tmp_path / "out")},
    **{"init_checkpoint": str(tmp_path / "start")},
  )
  done = []
  monkeypatch.setattr(
    module.checks, "check_fine_tuning", lambda *_, **__: done.append(1)
  )
  monkeypatch.setattr(module.contradictions, "check_packing", lambda *_: None)
  is_other = is_checked and bool(column) != bool(trained)
  if is_other:
    with pytest.raises(ValueError, match="--text_b_column="):
      module.check_flags(args)
  else:
    module.check_flags(args)
  assert bool(done) != is_other
