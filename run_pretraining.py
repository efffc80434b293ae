r"""Pre-trains BERT with masked LM and next-sentence prediction.

The records are those of create_pretraining_data.py:

  python run_pretraining.py --input_file=/tmp/tf_examples.tfrecord \
    --output_dir=/tmp/pretraining_output --do_train=True --do_eval=True \
    --bert_config_file=$BERT_DIR/bert_config.json --num_train_steps=20 \
    --num_warmup_steps=10 --learning_rate=2e-5

--do_export writes a SavedModel that predicts masked tokens, as fill_mask.py.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from absl import flags, logging

from cli import encoder, pretraining_flags, shared_flags, training_program
from cli.arguments import Arguments
from data import features
from storage import UserError, files

shared_flags.define_model()
shared_flags.define_training()
shared_flags.define_packing()
shared_flags.define_evaluation()
shared_flags.define_export()
shared_flags.define_devices()
pretraining_flags.define_training_flags()
pretraining_flags.define_masking_flags(" of unmasked records")
flags.DEFINE_integer("train_batch_size", 32, "Batch size for training.", 1)
flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.", 0.0)
flags.DEFINE_integer("num_train_steps", 100000, "Number of training steps.", 1)
flags.DEFINE_integer("num_warmup_steps", 10000, "Number of warm-up steps.", 0)
flags.DEFINE_integer(
  "stop_at_step",
  0,
  "Step to stop at before --num_train_steps; the same command without it "
  "resumes, also on longer records.",
  0,
)
flags.DEFINE_integer("max_eval_steps", 100, "Maximum evaluation steps.", 1)
flags.DEFINE_bool("do_lower_case", True, "False if --vocab_file is cased.")
flags.DEFINE_integer("export_top_k", 5, "Tokens of a mask in an export.", 1)


def check_flags(args: Arguments) -> None:
  args = with_implied(args)
  training_program.check_training(args)
  inputs = ()
  if args.do_train or args.do_eval:
    trains = args.do_train or not args.eval_file
    if trains and not args.input_file:
      raise UserError("--do_train and --do_eval need --input_file")
    patterns = (trains and args.input_file, args.eval_file)
    inputs = list(map(files.expand, filter(None, patterns)))
  if args.stop_at_step > args.num_train_steps:
    raise UserError(
      f"--stop_at_step={args.stop_at_step} is beyond "
      f"--num_train_steps={args.num_train_steps}"
    )
  pretraining_flags.check_flags(args)
  if args.do_export:
    pretraining_flags.check_export(args)
  network = encoder.config(args)
  encoder.check_run(args, network)
  training_program.check_packing(args, network)
  lengths = args.max_seq_length, args.max_predictions_per_seq
  is_causal = args.objective not in pretraining_flags.MASKED
  for paths in inputs:
    if empty := [path for path in paths if not files.size(path)]:
      text = "%d of %d files are empty, such as %s: they are left out"
      logging.warning(text, len(empty), len(paths), empty[0])
    features.find_pretraining(
      paths,
      *lengths,
      network.vocab_size,
      vocab_file=args.vocab_file,
      needs_masks=not is_causal,
      skip_corrupt=args.max_corrupt_records > 0,
    )
  if args.do_train and args.num_warmup_steps >= args.num_train_steps:
    logging.warning(
      "--num_warmup_steps=%d%s is not less than --num_train_steps=%d: the "
      "rate never reaches --learning_rate; use fewer warm-up steps",
      args.num_warmup_steps,
      "" if "num_warmup_steps" in args.set_flags else " (the default)",
      args.num_train_steps,
    )


def with_implied(args: Arguments) -> Arguments:
  """Sets --attention by --objective."""
  if args.objective not in pretraining_flags.MASKED and args.attention is None:
    args = args.replace(attention=args.objective)
  return args


def main(args: Arguments) -> None:
  # TensorFlow is imported here, after the flags were checked.
  from cli.run import Run
  from modeling import losses, models
  from tasks.pretraining import task
  from training import report

  args = with_implied(args)
  run = Run(args, encoder.config(args))
  args = run.args
  if args.do_train or args.do_eval:
    eval_set = task.eval_data(args, run.config)
    if args.do_train or not eval_set:
      train_set = task.train_data(args, run.config)
  next_sentence = args.objective == "mlm_nsp"
  objective = losses.pretraining(next_sentence=next_sentence)
  done: list[int] = []  # steps evaluated; the last may be one of --eval_steps
  with run.strategy.scope():
    model = models.pretrainer(run.config, next_sentence=next_sentence)

    def evaluate(step):
      if step not in done:
        task.evaluate(args, model, objective, eval_set or train_set, step)
        done.append(step)

    if args.do_train:
      run.train(
        model,
        objective,
        train_set,
        num_train_steps=args.num_train_steps,
        num_warmup_steps=args.num_warmup_steps,
        packed=models.packed_pretrainer,
        stop_at=args.stop_at_step,
        unit="sequences",
        evaluate=evaluate,
        evaluated=report.last_evaluation(args.output_dir),
      )
    if args.do_eval:
      evaluate(run.load(model))
  if args.do_export:
    run.export(task.served_model)


if __name__ == "__main__":
  training_program.run(main, check_flags)
