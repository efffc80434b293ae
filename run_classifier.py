r"""Fine-tunes BERT to classify texts or pairs of them: GLUE, XNLI, your own.

As in the original:

  python run_classifier.py --task_name=MRPC --data_dir=$GLUE_DIR/MRPC \
    --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --do_eval=True --output_dir=/tmp/mrpc_output/

Files of your own, train.tsv, dev.tsv and test.tsv (or .csv or .jsonl) in
--data_dir, with the columns text and label: --task_name=tsv.
"""

import numpy as np
from absl import flags, logging

from assembly import network, served
from data.tasks import own_task, text_task
from data.tasks.classification_input import Converter, Part
from data.tokenization import FullTokenizer
from evaluation import classifier
from evaluation import glue as scores
from modeling import losses, models
from modeling.randomness import step_seed
from training import dry_run, fine_tuning, inference, program, report, strategy
from training import flags as shared_flags
from training.run import Run

FLAGS = flags.FLAGS

shared_flags.define_fine_tuning()
flags.DEFINE_string("data_dir", None, "Folder of the task's files.")
flags.DEFINE_string(
  "task_name", None, "A task of GLUE, XNLI, or tsv: your own.", required=True
)
flags.DEFINE_integer("max_seq_length", 128, "Tokens of a text or pair.", 3)
flags.DEFINE_integer("eval_batch_size", 8, "Examples a step in evaluation.", 1)
flags.DEFINE_bool("do_train", False, "Train.")
flags.DEFINE_bool("do_eval", False, "Evaluate on the dev set.")
flags.DEFINE_bool("do_predict", False, "Predict the test set.")
flags.DEFINE_string("text_a_column", "text", "Of your own files: the text.")
flags.DEFINE_string(
  "text_b_column", None, "Of your own: a second text, if any."
)
flags.DEFINE_string("label_column", "label", "Of your own files: the label.")
flags.DEFINE_bool("is_regression", False, "Your own labels are scores.")
flags.DEFINE_string("xnli_language", "zh", "Language of XNLI.")
flags.DEFINE_integer("num_workers", 1, "Processes that convert texts.", 1)


def main(_):
  fine_tuning.begin(FLAGS)
  check_flags()
  config = network.for_texts(FLAGS)
  task = served.classification_task(FLAGS)
  devices = fine_tuning.devices(FLAGS)
  convert = converter(task)
  train_set, dev_sets, test_sets = None, [], []
  if FLAGS.do_train:
    train_set = convert.training()
  if fine_tuning.needs_dev(FLAGS):
    dev_sets = convert.parts("dev", "eval", FLAGS.eval_batch_size)
  if FLAGS.do_predict:
    test_sets = convert.parts("test", "predict", FLAGS.predict_batch_size)
  own_task.keep_labels(task, FLAGS.output_dir)
  run = Run(FLAGS, step_seed)
  run.require_same("attention", "add_bilstm")
  with devices.scope():
    model = models.classifier(config, task.num_outputs, FLAGS.use_tpu)
    if FLAGS.do_train:
      fine_tuning.train(
        run,
        model,
        objective(task),
        train_set,
        num_examples=len(train_set.examples),
        evaluate=lambda step: evaluate(task, model, dev_sets, step),
        metric=f"eval_{task.metrics[0]}",
      )
    if FLAGS.do_eval or FLAGS.do_predict:
      step = run.load(model)
    if FLAGS.do_eval:
      evaluate(task, model, dev_sets, step)
    for part in test_sets:
      predict(task, model, part)
  if FLAGS.do_export:
    run.export(served.classification)


def check_flags() -> None:
  """Raises ValueError where flags do not fit together."""
  reads = FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict
  if reads and not FLAGS.data_dir:
    raise ValueError("all but --do_export needs --data_dir")


def converter(task: text_task.Task) -> Converter:
  """What makes records of the task's files, as the flags say."""
  return Converter(
    task,
    FLAGS.data_dir,
    FLAGS.output_dir,
    FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case),
    FLAGS.max_seq_length,
    strategy.fixes_shapes(FLAGS),
    FLAGS.num_workers,
    dry_run.limit(FLAGS),
  )


def objective(task: text_task.Task) -> losses.Objective:
  """What to minimize: cross entropy, or the squared error of scores."""
  return losses.regression() if task.is_regression else losses.classification()


def evaluate(task, model, dev_sets: list[Part], step: int) -> dict:
  """Evaluates and writes eval_results.txt; returns what the first set gave."""
  found = []
  for part in dev_sets:
    logging.info("evaluation on %s at step %d", part.split, step)
    logits = inference.outputs(model, part, FLAGS.eval_batch_size)["logits"]
    labels = {"label_ids": scores.gold(task, part.examples)}
    terms = objective(task).losses({"logits": logits}, labels)
    results = classifier.results(
      task,
      logits,
      np.asarray(terms["example_loss"]),
      part.examples,
      FLAGS.eval_batch_size,
    )
    if not task.is_regression:
      logging.info("\n%s", scores.report(task, logits, part.examples))
    report.write_evaluation(FLAGS.output_dir, results, step, part.suffix)
    found.append(results)
  return found[0]


def predict(task, model, part: Part) -> None:
  """Writes the predictions of a test set; logs scores if labels are known."""
  logits = inference.outputs(model, part, FLAGS.predict_batch_size)["logits"]
  classifier.write_predictions(
    FLAGS.output_dir, task, part.split, logits, part.examples
  )
  if part.examples[0].label is not None:  # XNLI's are public
    logging.info("%s", scores.evaluate(task, logits, part.examples))


if __name__ == "__main__":
  program.run(main)
