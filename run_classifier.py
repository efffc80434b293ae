r"""Fine-tunes BERT to classify texts or pairs: GLUE, XNLI, your own task.

  python run_classifier.py --task_name=MRPC --data_dir=$GLUE_DIR/MRPC \
    --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --do_eval=True --output_dir=/tmp/mrpc_output/

--task_name=tsv is your own task. --data_dir then holds train.tsv, dev.tsv and
test.tsv (or .csv or .jsonl) with the columns text and label.
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

from absl import logging

from cli.settings import flags_of
from runs import checks, training_program
from storage import UserError
from tasks.classification import examples, glue, named_tasks
from tasks.classification.named_tasks import Settings


def check_flags(settings: Settings) -> None:
  if settings.task_name.upper() == glue.NAME:
    for changes in glue.parts(settings).values():
      check_flags(settings.replace(**changes))
    return
  if settings.from_mnli:
    raise UserError(
      "--from_mnli is for --task_name=GLUE: for one task give "
      "--init_checkpoint=(output folder of MNLI) and --new_head"
    )
  task = named_tasks.choose(settings)
  start = checks.checkpoint(settings)
  if task.name != named_tasks.CUSTOM:
    for name in flags_of(named_tasks.OwnFiles):
      if name in settings.given and settings[name]:
        raise UserError(
          f"--{name} is for --task_name=tsv: the columns of {task.name} are "
          "fixed, and every text has one label or score"
        )
  elif start and not (settings.do_train and start == settings.init_checkpoint):
    named_tasks.check_text_pairs(settings.text_b_column, start)
    if not settings.is_regression:
      checks.check_head(settings, "is_regression")
  examples.class_weights(settings.class_weights, task)
  if settings.long_text == "windows" and task.has_pairs:
    text = f"--long_text=windows is for single texts, but {task.name} has pairs"
    raise UserError(text)
  checks.check_windows(settings)
  for split in settings.splits_to_read:
    examples.find_file(task, settings.needed("data_dir"), split)
  same = ["is_regression", "long_text"]
  of_teacher = ("multi_label", *same)
  if settings.long_text == "windows":
    same += ["window_stride", "window_pooling", "max_seq_length"]
  checks.check_fine_tuning(settings, *same, of_teacher=of_teacher)
  checks.check_head(settings, "multi_label")


def main(settings: Settings) -> None:
  if settings.task_name.upper() == glue.NAME:
    return glue.run(settings)
  task = named_tasks.with_labels(settings, checks.labels_file(settings))
  examples.class_weights(settings.class_weights, task)
  fits_thresholds = named_tasks.fits_thresholds(settings)
  if fits_thresholds and "dev" in task.splits and not settings.do_eval:
    logging.info("--do_eval is set: it finds the thresholds of --multi_label")
    settings = settings.replace(do_eval=True)
  if settings.do_train and settings.teacher:
    named_tasks.check_teacher(settings.teacher, task)
  splits, columns = settings.splits_to_read, settings.prediction_columns
  texts = named_tasks.read(task, settings.data_dir or "", splits, columns)
  # Import TensorFlow late: wrong flags and files should fail fast.
  from runs.fine_tune import fine_tune
  from tasks.classification.task import Classification

  own_labels = task.labels if task.name == named_tasks.CUSTOM else ()
  fine_tune(Classification(settings, texts, own_labels, named=task))


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
