r"""Fine-tunes BERT to classify texts or pairs: GLUE, XNLI, your own task.

As in the original:

  python run_classifier.py --task_name=MRPC --data_dir=$GLUE_DIR/MRPC \
    --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --do_eval=True --output_dir=/tmp/mrpc_output/

--task_name=tsv is your own task: train.tsv, dev.tsv and test.tsv (or .csv or
.jsonl) in --data_dir, with the columns text and label.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from functools import partial

from data import labels
from runs import checks, contradictions, training_program
from storage import UserError
from tasks.classification import examples as classification_examples
from tasks.classification import glue, metrics, named_tasks
from tasks.classification.named_tasks import TaskFlags
from tasks.classification.settings import Settings


def check_flags(args: Settings) -> None:
  if args.task_name.upper() == glue.NAME:
    for changes in glue.parts(args.select(glue.Command)).values():
      check_flags(args.replace(**changes))
    return
  reads = args.do_train or args.do_eval or args.do_predict
  glue.check_folder(args.data_dir, reads, args.from_mnli)
  task = named_tasks.from_flags(args.select(TaskFlags))
  start = checks.checkpoint(args)
  if task.name != named_tasks.CUSTOM:
    names = [name for name in args.given if args[name]]
    named_tasks.check_no_custom_flags(task, names)
  elif start and not (args.do_train and start == args.init_checkpoint):
    named_tasks.check_text_pairs(args.text_b_column, start)
  classification_examples.class_weights(args.class_weights, task)
  if args.long_text == "windows" and task.has_pairs:
    raise UserError(
      f"--long_text=windows is for single texts, but {task.name} has pairs"
    )
  contradictions.check_windows(args)
  for kind in args.splits_to_read:
    classification_examples.find_file(task, args.needed("data_dir"), kind)
  same = ["is_regression", "long_text"]
  of_teacher = ("multi_label", *same)
  if args.long_text == "windows":
    same += ["window_stride", "window_pooling", "max_seq_length"]
  config = checks.check_fine_tuning(args, *same, of_teacher=of_teacher)
  checks.check_head(args, "multi_label")
  contradictions.check_packing(args, config)


def main(args: Settings) -> None:
  if args.task_name.upper() == glue.NAME:
    if args.do_train:
      args = training_program.with_same_seed(args)
    rerun = partial(training_program.rerun, args)
    return glue.run(args.select(glue.Command), rerun)
  task = named_tasks.with_labels(
    args.select(TaskFlags), checks.labels_file(args)
  )
  classification_examples.class_weights(args.class_weights, task)
  # A training with --multi_label fits thresholds in its last evaluation.
  fits_thresholds = args.multi_label and (
    args.do_train or metrics.lacks_thresholds(args.output_dir, args.ensemble)
  )
  if fits_thresholds and "dev" in task.splits:
    args = args.replace(do_eval=True)
  if args.do_train and args.teacher:
    named_tasks.check_teacher(args.teacher, task)
  kinds = args.splits_to_read
  examples = named_tasks.read(
    task, args.data_dir or "", kinds, args.prediction_columns
  )
  # TensorFlow is imported here, after flags and files were checked.
  from runs import fine_tuning, sweep

  if args.is_sweep:
    args = sweep.run_sweep(args)
  _run(fine_tuning.start(args), task, examples, fits_thresholds)


def _run(run, task, examples, fits_thresholds):
  """Trains, evaluates, predicts and exports, by the settings of a run."""
  from runs import fine_tuning
  from tasks.classification import task as classification

  args = run.args
  sets = {"train": {}, "dev": {}, "test": {}}
  for split, rows in examples.items():
    kind = split.partition("_")[0]
    if kind in args.splits_to_read:
      sets[kind][split] = classification.convert(args, task, split, rows)
  if task.name == named_tasks.CUSTOM and task.labels:
    labels.save_if_missing(task.labels, args.output_dir)
  if not fits_thresholds:
    task = classification.with_thresholds(args, task)
  with run.strategy.scope():
    model = classification.make_model(args, task, run.config)
    evaluate = partial(
      classification.evaluate, args, task, model, sets["dev"], fits_thresholds
    )
    if args.do_train:
      train_set = sets["train"]["train"]
      weights = classification.class_weights(args, task, train_set.rows)
      fine_tuning.train(
        run,
        model,
        classification.objective(task, weights),
        train_set,
        num_examples=len(train_set.rows),
        packs=True,
        evaluate=evaluate,
        metric=f"eval_{task.metrics[0]}",
        served_model=classification.served_model,
      )
    if args.do_eval or args.do_predict:
      step = run.load(model)
    if args.do_eval:
      evaluate(step)
    if args.do_predict:
      classification.predict(args, task, model, sets["test"])
  if args.do_export:
    run.export(classification.served_model)


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
