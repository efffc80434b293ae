r"""Fine-tunes BERT to choose how a text goes on: SWAG and its like.

Files are tables with the columns sent1, sent2, ending0, ending1, ... and label:

  python run_swag.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --train_file=$SWAG_DIR/train.csv \
    --do_eval=True --dev_file=$SWAG_DIR/val.csv \
    --train_batch_size=16 --learning_rate=2e-5 --output_dir=/tmp/swag/
"""

import os
from functools import partial

import numpy as np
from absl import flags, logging

from assembly import network, served
from data.tasks import record_file, swag
from data.tasks.recorded import Recorded
from data.tokenization import FullTokenizer
from evaluation import choices
from modeling import losses, models
from modeling.randomness import step_seed
from training import dry_run, fine_tuning, inference, program, report, strategy
from training import flags as shared_flags
from training.run import Run

FLAGS = flags.FLAGS

shared_flags.define_fine_tuning()
flags.DEFINE_string("train_file", None, "A table of examples to train on.")
flags.DEFINE_string("dev_file", None, "One to evaluate on.")
flags.DEFINE_string("test_file", None, "One to predict; labels may be absent.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens of a choice.", 5)
flags.DEFINE_integer("eval_batch_size", 8, "Examples a step in evaluation.", 1)
flags.DEFINE_bool("do_train", False, "Train.")
flags.DEFINE_bool("do_eval", False, "Evaluate on --dev_file.")
flags.DEFINE_bool("do_predict", False, "Predict --test_file.")
flags.DEFINE_integer("num_workers", 1, "Processes that convert texts.", 1)


def main(_):
  fine_tuning.begin(FLAGS)
  fine_tuning.check_files(FLAGS)
  config = network.for_texts(FLAGS)
  devices = fine_tuning.devices(FLAGS)
  train_set, dev_set, test_set = None, None, None
  if FLAGS.do_train:
    train_set = record("train_file", "train.tf_record")
  if fine_tuning.needs_dev(FLAGS):
    dev_set = record("dev_file", "eval.tf_record")
  if FLAGS.do_predict:
    test_set = record("test_file", "predict.tf_record", needs_labels=False)
  run = Run(FLAGS, step_seed)
  run.require_same("attention", "add_bilstm")
  with devices.scope():
    model = models.multiple_choice(config, FLAGS.use_tpu)
    if FLAGS.do_train:
      fine_tuning.train(
        run,
        model,
        losses.classification(),
        train_set,
        num_examples=len(train_set.examples),
        evaluate=lambda step: evaluate(model, dev_set, step),
        metric="eval_accuracy",
      )
    if FLAGS.do_eval or FLAGS.do_predict:
      step = run.load(model)
    if FLAGS.do_eval:
      evaluate(model, dev_set, step)
    if FLAGS.do_predict:
      predict(model, test_set)
  if FLAGS.do_export:
    run.export(served.choices)


def record(file: str, name: str, needs_labels: bool = True) -> Recorded:
  """What a flag's file holds; the records go to a file of that name."""
  examples = swag.read(FLAGS[file].value)[: dry_run.limit(FLAGS)]
  if needs_labels and examples[0].label is None:
    raise ValueError(f"--{file}: {FLAGS[file].value} has no column label")
  build = partial(
    swag.Builder,
    FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case),
    FLAGS.max_seq_length,
    len(examples[0].endings),
  )
  schema = build().schema
  path = os.path.join(FLAGS.output_dir, name)
  record_file.write(path, schema, examples, build, FLAGS.num_workers)
  return Recorded(examples, path, schema, strategy.fixes_shapes(FLAGS))


def evaluate(model, part: Recorded, step: int) -> dict[str, float]:
  """Evaluates and writes eval_results.txt."""
  logging.info("evaluation at step %d", step)
  logits = inference.outputs(model, part, FLAGS.eval_batch_size)["logits"]
  labels = {"label_ids": choices.gold(part.examples)}
  terms = losses.classification().losses({"logits": logits}, labels)
  found = np.asarray(terms["example_loss"])
  results = choices.results(logits, found, part.examples)
  logging.info("\n%s", choices.report(logits, part.examples))
  report.write_evaluation(FLAGS.output_dir, results, step)
  return results


def predict(model, part: Recorded) -> None:
  """Writes the choices for a file."""
  outputs = inference.outputs(model, part, FLAGS.predict_batch_size)
  choices.write_predictions(FLAGS.output_dir, outputs["logits"], part.examples)


if __name__ == "__main__":
  program.run(main)
