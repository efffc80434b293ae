r"""Pre-trains BERT on masked words and next sentences, and evaluates it.

The records are those of create_pretraining_data.py:

  python run_pretraining.py --input_file=/tmp/tf_examples.tfrecord \
    --output_dir=/tmp/pretraining_output --do_train=True --do_eval=True \
    --bert_config_file=$BERT_DIR/bert_config.json --num_train_steps=20 \
    --num_warmup_steps=10 --learning_rate=2e-5

With --do_export there is a SavedModel that fills masks, as fill_mask.py does.
"""

from absl import flags, logging

from assembly import network, pretraining_records, served
from data.pretraining.reading import PretrainingInput
from modeling import losses, models
from modeling.randomness import step_seed
from training import export, inference, program, report, strategy
from training import flags as shared_flags
from training.run import Run

FLAGS = flags.FLAGS

shared_flags.define_model()
shared_flags.define_training()
shared_flags.define_export()
shared_flags.define_devices()
pretraining_records.define_flags()
flags.DEFINE_integer("eval_batch_size", 8, "Examples a step in evaluation.", 1)
flags.DEFINE_bool("do_train", False, "Train.")
flags.DEFINE_bool("do_eval", False, "Evaluate.")
flags.DEFINE_integer("num_train_steps", 100000, "Updates in all.", 1)
flags.DEFINE_integer("num_warmup_steps", 10000, "Updates of warm-up.", 0)
flags.DEFINE_integer(
  "stop_at_step",
  0,
  "End here, on the way to --num_train_steps: the same command without it goes "
  "on, on longer records perhaps.",
  0,
)
flags.DEFINE_integer("max_eval_steps", 100, "Batches of an evaluation.", 1)
flags.DEFINE_bool(
  "do_lower_case", True, "False for cased models, with --do_export."
)
flags.DEFINE_integer("export_top_k", 5, "Words that it gives for a mask.", 1)


def main(_):
  program.begin(FLAGS)
  imply_flags()
  check_flags()
  warn_of_long_warmup()
  devices = strategy.from_flags(FLAGS)
  config = network.from_flags(FLAGS)
  config.check_length(FLAGS.max_seq_length)
  source = held_out = None
  if FLAGS.do_train or FLAGS.do_eval:
    source = pretraining_records.training(FLAGS, config)
    held_out = pretraining_records.held_out(FLAGS, config) or source
  run = Run(FLAGS, step_seed)
  run.require_same("attention")
  with devices.scope():
    model = models.pretrainer(
      config,
      next_sentence=FLAGS.objective == "mlm_nsp",
      use_one_hot_embeddings=FLAGS.use_tpu,
    )
    objective = losses.pretraining(next_sentence=FLAGS.objective == "mlm_nsp")
    if FLAGS.do_train:
      run.train(
        model,
        objective,
        source,
        num_train_steps=FLAGS.num_train_steps,
        num_warmup_steps=FLAGS.num_warmup_steps,
        stop_at=FLAGS.stop_at_step,
        unit="sequences",
        evaluate=lambda step: evaluate(model, objective, held_out, step),
      )
    if FLAGS.do_eval:
      evaluate(model, objective, held_out, run.load(model))
  if FLAGS.do_export:
    run.export(served.masks)


def warn_of_long_warmup() -> None:
  """Says so if the learning rate never gets to where it should."""
  if FLAGS.do_train and FLAGS.num_warmup_steps >= FLAGS.num_train_steps:
    logging.warning(
      "--num_warmup_steps=%d is not less than --num_train_steps=%d: the rate "
      "rises to the end and never reaches --learning_rate; warm up for less",
      FLAGS.num_warmup_steps,
      FLAGS.num_train_steps,
    )


def imply_flags() -> None:
  """Sets what others imply: where a model looks, what a dry run exports."""
  is_masked = FLAGS.objective in pretraining_records.MASKED
  if not is_masked and FLAGS.attention is None:
    FLAGS.attention = FLAGS.objective
  if FLAGS.dry_run:  # not every model can fill masks
    FLAGS.do_export = bool(FLAGS.vocab_file) and is_masked


def check_flags() -> None:
  """Raises ValueError where flags do not fit together."""
  export.check_flags(FLAGS)
  strategy.check_flags(FLAGS)
  if (FLAGS.do_train or FLAGS.do_eval) and not FLAGS.input_file:
    raise ValueError("--do_train and --do_eval need --input_file")
  if FLAGS.do_export:
    served.check_masks(FLAGS)
  if FLAGS.stop_at_step > FLAGS.num_train_steps:
    raise ValueError(
      f"--stop_at_step={FLAGS.stop_at_step} is beyond "
      f"--num_train_steps={FLAGS.num_train_steps}"
    )
  pretraining_records.check_flags(FLAGS)


def evaluate(model, objective, source: PretrainingInput, step: int) -> None:
  """Evaluates and writes eval_results.txt, as the original does."""
  logging.info("evaluation at step %d", step)
  results = inference.evaluate(
    model,
    objective,
    source.evaluation(FLAGS.eval_batch_size),
    FLAGS.max_eval_steps,
  )
  report.write_evaluation(FLAGS.output_dir, results, step)


if __name__ == "__main__":
  program.run(main)
