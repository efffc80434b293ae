r"""Pre-trains BERT on masked words and next sentences, and evaluates it.

The records are those of create_pretraining_data.py:

  python run_pretraining.py --input_file=/tmp/tf_examples.tfrecord \
    --output_dir=/tmp/pretraining_output --do_train=True --do_eval=True \
    --bert_config_file=$BERT_DIR/bert_config.json --num_train_steps=20 \
    --num_warmup_steps=10 --learning_rate=2e-5

With --do_export there is a SavedModel that fills masks, as fill_mask.py does.
"""

import os

from absl import flags, logging

import served
from data import files
from data.pretraining.mix import USUAL, Mix
from data.pretraining.next_token import DIRECTIONS, NextToken
from data.pretraining.reading import PretrainingInput
from data.shuffling import Source
from modeling import losses, models
from modeling.config import BertConfig
from modeling.randomness import step_seed
from training import export, inference, program, report, strategy
from training import flags as shared_flags
from training.run import Run

FLAGS = flags.FLAGS

MASKED = ("mlm_nsp", "mlm")  # objectives

shared_flags.define_model()
shared_flags.define_training()
shared_flags.define_export()
shared_flags.define_devices()
flags.DEFINE_string(
  "input_file", None, "TFRecord files or globs, comma-separated."
)
flags.DEFINE_list(
  "input_weights",
  None,
  "Shares of the patterns of --input_file in training, as in 3,1. Default: all "
  "files alike, each record once an epoch.",
)
flags.DEFINE_string(
  "eval_file", None, "What to evaluate on. Default: --input_file."
)
flags.DEFINE_integer("eval_batch_size", 8, "Examples a step in evaluation.", 1)
flags.DEFINE_integer("max_seq_length", 128, "Tokens of a record.", 1)
flags.DEFINE_integer(
  "max_predictions_per_seq", 20, "Masked tokens of a record, at most.", 1
)
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
flags.DEFINE_enum(
  "objective",
  "mlm_nsp",
  [*MASKED, *DIRECTIONS],
  "mlm: No NSP; left_to_right: LTR & No NSP (section 5.1 of the paper), with "
  "--attention of that name; right_to_left is its mirror image.",
)
flags.DEFINE_bool(
  "special_tokens",
  True,
  "Whether such models see [CLS], [SEP] and segments. OpenAI GPT's did not, "
  "before fine-tuning. Without them --vocab_file is needed.",
)
flags.DEFINE_string(
  "vocab_file",
  None,
  "Vocabulary, for records made with --masking=dynamic and for --do_export.",
)
flags.DEFINE_bool(
  "do_lower_case", True, "False for cased models, with --do_export."
)
flags.DEFINE_bool(
  "group_by_length",
  False,
  "Train on records of similar length together, without the padding that they "
  "have in common: faster where many are short.",
)
flags.DEFINE_integer(
  "skip_bad_records",
  0,
  "Leave out so many records that cannot be read. All are looked at first.",
  0,
)
flags.DEFINE_integer("export_top_k", 5, "Words that it gives for a mask.", 1)
flags.DEFINE_float(
  "masked_lm_prob", 0.15, "Share of the tokens to mask, in such records."
)
flags.DEFINE_float(
  "mask_share", Mix.mask_share, "Of those, the share that becomes [MASK]."
)
flags.DEFINE_float(
  "random_share",
  Mix.random_share,
  "The share that becomes a random token; the rest stays the same. --eval_file "
  "has the default shares.",
)
flags.DEFINE_bool(
  "do_whole_word_mask", False, "Mask whole words, in such records."
)


def main(_):
  check_flags()
  devices = strategy.from_flags(FLAGS)
  config = served.network(FLAGS)
  config.check_length(FLAGS.max_seq_length)
  source = held_out = None
  if FLAGS.do_train or FLAGS.do_eval:
    mix = Mix(FLAGS.mask_share, FLAGS.random_share)
    source = read(FLAGS.input_file, config, mix, FLAGS.input_weights)
    held_out = read(FLAGS.eval_file, config) if FLAGS.eval_file else source
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


def check_flags() -> None:
  """Raises ValueError where flags do not fit together."""
  program.begin(FLAGS)
  export.check_flags(FLAGS)
  if (FLAGS.do_train or FLAGS.do_eval) and not FLAGS.input_file:
    raise ValueError("--do_train and --do_eval need --input_file")
  if FLAGS.dry_run:  # not every model can fill masks
    FLAGS.do_export = bool(FLAGS.vocab_file) and FLAGS.objective in MASKED
  if FLAGS.do_export:
    served.check_masks(FLAGS)
  if FLAGS.group_by_length and strategy.fixes_shapes(FLAGS):
    raise ValueError(
      "--group_by_length makes batches of many lengths, and XLA compiles each "
      "anew: it goes neither with --jit_compile nor with a TPU"
    )
  if FLAGS.stop_at_step > FLAGS.num_train_steps:
    raise ValueError(
      f"--stop_at_step={FLAGS.stop_at_step} is beyond "
      f"--num_train_steps={FLAGS.num_train_steps}"
    )
  check_objective()


def check_objective() -> None:
  """Raises ValueError where others contradict it; sets what it implies."""
  if FLAGS.objective in DIRECTIONS:
    if FLAGS.attention not in (None, FLAGS.objective):
      raise ValueError(
        f"--attention={FLAGS.attention} contradicts "
        f"--objective={FLAGS.objective}"
      )
    FLAGS.attention = FLAGS.objective
  elif not FLAGS.special_tokens:
    raise ValueError(
      f"--objective={FLAGS.objective} needs special tokens: leave them out "
      f"with {' or '.join(DIRECTIONS)} only"
    )


def next_token() -> NextToken | None:
  """What makes a language model's batches, if --objective is one's."""
  if FLAGS.objective not in DIRECTIONS:
    return None
  if FLAGS.special_tokens:
    return NextToken(FLAGS.objective)
  if not FLAGS.vocab_file:
    raise ValueError("--nospecial_tokens needs --vocab_file, to know them")
  return NextToken.of_plain_text(FLAGS.objective, FLAGS.vocab_file)


def read(
  patterns: str,
  config: BertConfig,
  mix: Mix = USUAL,
  weights: list[str] | None = None,
) -> PretrainingInput:
  """The records that a flag names, and how to mix them in training."""
  sources = mixture(patterns, weights) if weights else None
  return PretrainingInput(
    files.expand(patterns),
    FLAGS.max_seq_length,
    FLAGS.max_predictions_per_seq,
    config.vocab_size,
    vocab_file=FLAGS.vocab_file,
    masked_lm_prob=FLAGS.masked_lm_prob,
    whole_word=FLAGS.do_whole_word_mask,
    mix=mix,
    next_token=next_token(),
    by_length=FLAGS.group_by_length,
    skip_bad_records=FLAGS.skip_bad_records,
    folder=FLAGS.output_dir if FLAGS.skip_bad_records else None,
    sources=sources,
    index_file=os.path.join(FLAGS.output_dir, "records-index.npz"),
  )


def mixture(patterns: str, weights: list[str]) -> list[Source]:
  """The files of each pattern, with its weight."""
  wanted = [pattern for pattern in patterns.split(",") if pattern.strip()]
  try:
    shares = [float(weight) for weight in weights]
  except ValueError:
    shares = []
  if len(shares) != len(wanted):
    raise ValueError(
      f"--input_weights={','.join(weights)} is no number for each of the "
      f"{len(wanted)} patterns of --input_file={patterns}"
    )
  return [
    Source(files.expand(pattern), share)
    for pattern, share in zip(wanted, shares, strict=True)
  ]


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
