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

from cli import encoder, program, shared_flags, training_program
from cli.arguments import Arguments
from tasks.multiple_choice import examples

shared_flags.define_fine_tuning()
shared_flags.define_evaluation()
flags.DEFINE_string("train_file", None, "Table to train on.")
flags.DEFINE_string("dev_file", None, "Table to evaluate on.")
flags.DEFINE_string("test_file", None, "Table to predict; labels are optional.")
flags.DEFINE_integer("max_seq_length", 128, "Maximum tokens of a choice.", 5)
shared_flags.define_tables()
shared_flags.define_packing()
flags.DEFINE_integer("num_workers", 1, "Number of processes that tokenize.", 1)


def check_flags(args: Arguments) -> None:
  program.check_files(args, *training_program.file_flags(args))
  config = encoder.check_fine_tuning(args)
  training_program.check_packing(args, config)


def main(args: Arguments) -> None:
  dialect = args.delimiter, args.encoding
  rows = {
    flag: examples.read_examples(args[flag], flag != "test_file", dialect)
    for flag in training_program.file_flags(args)
  }
  # TensorFlow is imported here, after flags and files were checked.
  from cli import fine_tuning
  from modeling import losses, models
  from tasks.multiple_choice import task

  if training_program.is_sweep(args):
    args = fine_tuning.run_sweep(args)
  run = fine_tuning.start(args)
  args = run.args
  file_flags = training_program.file_flags(args)
  sets = {flag: task.convert(args, flag, rows[flag]) for flag in file_flags}
  with run.strategy.scope():
    model = task.make_model(args, run.config)
    if args.do_train:
      fine_tuning.train(
        run,
        model,
        losses.classification(),
        sets["train_file"],
        num_examples=len(sets["train_file"].rows),
        packed=models.packed_multiple_choice,
        evaluate=lambda step: task.evaluate(
          args, model, sets["dev_file"], step
        ),
        metric="eval_accuracy",
        served_model=task.served_model,
      )
    if args.do_eval or args.do_predict:
      step = run.load(model)
    if args.do_eval:
      task.evaluate(args, model, sets["dev_file"], step)
    if args.do_predict:
      task.predict(args, model, sets["test_file"])
  if args.do_export:
    run.export(task.served_model)


if __name__ == "__main__":
  training_program.run(main, check_flags)
