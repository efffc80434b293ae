r"""Fine-tunes BERT for multiple choice, as in SWAG.

Files are tables with the columns sent1, sent2, ending0, ending1, ... and label:

  python run_swag.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --train_file=$SWAG_DIR/train.csv \
    --do_eval=True --dev_file=$SWAG_DIR/val.csv \
    --train_batch_size=16 --learning_rate=2e-5 --output_dir=/tmp/swag/
"""

from absl import flags

from cli import checks, encoder_config, program
from cli import flags as shared_flags
from cli.arguments import Arguments

shared_flags.define_fine_tuning()
flags.DEFINE_string("train_file", None, "Table to train on.")
flags.DEFINE_string("dev_file", None, "Table to evaluate on.")
flags.DEFINE_string("test_file", None, "Table to predict; labels are optional.")
flags.DEFINE_integer("max_seq_length", 128, "Maximum tokens of a choice.", 5)
flags.DEFINE_integer("eval_batch_size", 8, "Batch size for evaluation.", 1)
flags.DEFINE_bool("do_train", False, "Train the model.")
flags.DEFINE_bool("do_eval", False, "Evaluate on --dev_file.")
flags.DEFINE_bool("do_predict", False, "Predict --test_file.")
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
  checks.model(args)
  encoder_config.for_texts(args)
  checks.init_checkpoint(args)


def main(args: Arguments) -> None:
  # TensorFlow is imported here, after the flags were checked.
  from cli import fine_tuning, start_checkpoint, strategy, sweep
  from cli.run import Run
  from modeling import losses, models
  from modeling.core_layers import dropout_seed_scope
  from tasks.multiple_choice import task

  config = start_checkpoint.network_for_texts(args)
  args = sweep.run_sweep(args)
  devices = strategy.from_flags(args)
  train_set, dev_set, test_set = None, None, None
  if args.do_train:
    train_set = task.train_data(args)
  if checks.needs_eval_data(args):
    dev_set = task.eval_data(args)
  if args.do_predict:
    test_set = task.predict_data(args)
  # For run.json, as bert_config.json may set the direction, too.
  args = args.replace(attention=config.attention)
  run = Run(args, dropout_seed_scope)
  run.require_same("attention", "add_bilstm")
  with devices.scope():
    model = models.multiple_choice(config, args.use_tpu)
    if args.do_train:
      fine_tuning.train(
        run,
        model,
        losses.classification(),
        train_set,
        num_examples=len(train_set.examples),
        evaluate=lambda step: task.evaluate(args, model, dev_set, step),
        metric="eval_accuracy",
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
