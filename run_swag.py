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

from cli import file_checks
from runs import checks, contradictions, training_program
from tasks.multiple_choice import examples
from tasks.multiple_choice.settings import Settings


def check_flags(args: Settings) -> None:
  file_checks.check_files(args, *args.files_to_read)
  config = checks.check_fine_tuning(args)
  contradictions.check_packing(args, config)


def main(args: Settings) -> None:
  dialect = args.delimiter, args.encoding
  rows = {
    flag: examples.read_examples(args[flag], flag != "test_file", dialect)
    for flag in args.files_to_read
  }
  # TensorFlow is imported here, after flags and files were checked.
  from modeling import losses
  from runs import fine_tuning, sweep
  from tasks.multiple_choice import task

  if args.is_sweep:
    args = sweep.run_sweep(args)
  run = fine_tuning.start(args)
  args = run.args
  file_flags = args.files_to_read
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
        packs=True,
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
  training_program.run(Settings, check_flags, main)
