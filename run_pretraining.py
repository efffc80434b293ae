r"""Pre-trains BERT with masked LM and next-sentence prediction.

The records are those of create_pretraining_data.py:

  python run_pretraining.py --input_file=/tmp/tf_examples.tfrecord \
    --output_dir=/tmp/pretraining_output --do_train=True --do_eval=True \
    --bert_config_file=$BERT_DIR/bert_config.json --num_train_steps=20 \
    --num_warmup_steps=10 --learning_rate=2e-5

--do_export writes a SavedModel that predicts masked tokens, as fill_mask.py.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from absl import logging

from data.pretraining import record_schema
from runs import checks, contradictions, training_program
from storage import UserError, files
from tasks.pretraining import settings
from tasks.pretraining.settings import Settings


def check_flags(args: Settings) -> None:
  args = with_implied(args)
  contradictions.check_training(args)
  inputs: list[list[str]] = []
  if args.do_train or args.do_eval:
    trains = args.do_train or not args.eval_file
    if trains and not args.input_file:
      raise UserError("--do_train and --do_eval need --input_file")
    patterns = (args.input_file if trains else None, args.eval_file)
    inputs = [files.expand(pattern) for pattern in patterns if pattern]
  if args.stop_at_step > args.num_train_steps:
    raise UserError(
      f"--stop_at_step={args.stop_at_step} is beyond "
      f"--num_train_steps={args.num_train_steps}"
    )
  settings.check_flags(args)
  if args.do_export:
    settings.check_export(args)
  network = checks.config(args)
  checks.check_run(args, network)
  lengths = args.max_seq_length, args.max_predictions_per_seq
  is_causal = args.objective not in settings.MASKED
  for paths in inputs:
    if empty := [path for path in paths if not files.size(path)]:
      text = "%d of %d files are empty, such as %s: they are left out"
      logging.warning(text, len(empty), len(paths), empty[0])
    record_schema.find_schema(
      paths,
      *lengths,
      network.vocab_size,
      tokenizer=args.tokenizer if args.vocab_file else None,
      needs_masks=not is_causal,
      skip_corrupt=args.max_corrupt_records > 0,
    )
  if args.do_train and args.num_warmup_steps >= args.num_train_steps:
    logging.warning(
      "--num_warmup_steps=%d%s is not less than --num_train_steps=%d: the "
      "rate never reaches --learning_rate; use fewer warm-up steps",
      args.num_warmup_steps,
      "" if "num_warmup_steps" in args.given else " (the default)",
      args.num_train_steps,
    )


def with_implied(args: Settings) -> Settings:
  """Sets --attention by --objective."""
  if args.objective not in settings.MASKED and args.attention is None:
    args = args.replace(attention=args.objective)
  return args


def main(args: Settings) -> None:
  # TensorFlow is imported here, after the flags were checked.
  from modeling import losses, models
  from runs.session import Run
  from tasks.pretraining import task
  from training import report

  args = with_implied(args)
  run = Run(args, checks.config(args))
  args = run.settings
  if args.do_train or args.do_eval:
    eval_set = task.eval_data(args, run.config)
    if args.do_train or not eval_set:
      train_set = task.train_data(args, run.config)
  next_sentence = args.objective == "mlm_nsp"
  objective = losses.pretraining(next_sentence=next_sentence)
  evaluated = None  # last step
  with run.strategy.scope():
    model = models.pretrainer(run.config, next_sentence=next_sentence)
    if args.do_train:
      for step in run.train(
        model,
        objective,
        train_set,
        num_train_steps=args.num_train_steps,
        num_warmup_steps=args.num_warmup_steps,
        stop_at=args.stop_at_step,
        unit="sequences",
        evaluated=report.last_evaluation(args.output_dir),
      ):
        task.evaluate(args, model, objective, eval_set or train_set, step)
        evaluated = step
    if args.do_eval:
      step = run.load(model)
      if step != evaluated:
        task.evaluate(args, model, objective, eval_set or train_set, step)
  if args.do_export:
    run.export(task.served_model)


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
