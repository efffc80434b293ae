r"""Fine-tunes BERT for multiple choice, as in SWAG.

Files are tables with the columns sent1, sent2, ending0, ending1, ... and label:

  python run_swag.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --train_file=$SWAG_DIR/train.csv \
    --do_eval=True --dev_file=$SWAG_DIR/val.csv \
    --train_batch_size=16 --learning_rate=2e-5 --output_dir=/tmp/swag/
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from absl import flags

from cli import checks, encoder, program
from cli import flags as shared_flags
from cli.arguments import Arguments

shared_flags.define_fine_tuning()
shared_flags.define_evaluation()
flags.DEFINE_string("train_file", None, "Table to train on.")
flags.DEFINE_string("dev_file", None, "Table to evaluate on.")
flags.DEFINE_string("test_file", None, "Table to predict; labels are optional.")
flags.DEFINE_integer("max_seq_length", 128, "Maximum tokens of a choice.", 5)
shared_flags.define_packing()
flags.DEFINE_integer("num_workers", 1, "Number of processes that tokenize.", 1)


def check_flags(args: Arguments) -> None:
  """Raises an error if the run would fail later, by flags or paths."""
  checks.run(args)
  checks.need(
    args,
    train_file=args.do_train,
    dev_file=checks.needs_eval_data(args),
    test_file=args.do_predict,
  )
  encoder.check(args, "add_bilstm", "do_lower_case")
  checks.packing(args, encoder.config(args))


def main(args: Arguments) -> None:
  # TensorFlow is imported here, after the flags were checked.
  from cli import fine_tuning
  from modeling import losses, models
  from tasks.multiple_choice import task

  run = fine_tuning.start(args)
  args = run.args
  evaluates = checks.needs_eval_data(args)
  train_set = task.convert(args, "train_file") if args.do_train else None
  dev_set = task.convert(args, "dev_file") if evaluates else None
  test_set = task.convert(args, "test_file") if args.do_predict else None
  with run.strategy.scope():
    model = task.make_model(args, run.config)
    if args.do_train:
      fine_tuning.train(
        run,
        model,
        losses.classification(),
        train_set,
        num_examples=len(train_set.examples),
        packed=models.packed_multiple_choice,
        evaluate=lambda step: task.evaluate(args, model, dev_set, step),
        metric="eval_accuracy",
        served_model=task.served_model,
      )
    if args.do_eval or args.do_predict:
      step = run.load(model)
    if args.do_eval:
      task.evaluate(args, model, dev_set, step)
    if args.do_predict:
      task.predict(args, model, test_set)
  if args.do_export:
    run.export(task.served_model)


if __name__ == "__main__":
  program.run(main, check_flags)
