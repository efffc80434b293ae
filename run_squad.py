"""Fine-tunes BERT to answer SQuAD's questions, version 1.1 or 2.0.

As in the original:

  python run_squad.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --train_file=$SQUAD_DIR/train-v1.1.json \
    --do_predict=True --predict_file=$SQUAD_DIR/dev-v1.1.json \
    --output_dir=/tmp/squad_base/
"""

import os

from absl import flags, logging

from data import features, files, records, tfrecord
from data.progress import Progress
from data.tasks import squad, squad_windows
from data.tokenization import FullTokenizer, validate_case_matches_checkpoint
from evaluation import squad as answers
from evaluation import squad_scores
from modeling import losses, models
from modeling.config import BertConfig
from modeling.randomness import step_seed
from training import checkpoint, loop, precision, program, run, strategy
from training import flags as shared_flags

FLAGS = flags.FLAGS

shared_flags.define_model()
shared_flags.define_training()
shared_flags.define_devices()
flags.DEFINE_string(
  "vocab_file", None, "Vocabulary of the model.", required=True
)
flags.DEFINE_bool("do_lower_case", True, "False for cased models.")
flags.DEFINE_string("train_file", None, "SQuAD files or globs to train on.")
flags.DEFINE_string("predict_file", None, "SQuAD files or globs to answer.")
flags.DEFINE_integer("max_seq_length", 384, "Tokens of a window.", 1)
flags.DEFINE_integer("doc_stride", 128, "Tokens from window to window.", 1)
flags.DEFINE_integer("max_query_length", 64, "Tokens of a question.", 1)
flags.DEFINE_bool("do_train", False, "Train.")
flags.DEFINE_bool("do_predict", False, "Answer --predict_file.")
flags.DEFINE_integer("predict_batch_size", 8, "Windows a step.", 1)
flags.DEFINE_float("num_train_epochs", 3.0, "Epochs to train for.", 0.0)
flags.DEFINE_float(
  "warmup_proportion", 0.1, "Share of the steps that are warm-up.", 0.0, 1.0
)
flags.DEFINE_integer("n_best_size", 20, "Answers in nbest_predictions.json.", 1)
flags.DEFINE_integer("max_answer_length", 30, "Tokens of an answer.", 1)
flags.DEFINE_integer("num_workers", 1, "Processes that cut windows.", 1)
flags.DEFINE_bool("verbose_logging", False, "Kept for the original's commands.")
flags.DEFINE_bool(
  "version_2_with_negative", False, "Questions may have no answer (SQuAD 2.0)."
)
flags.DEFINE_float(
  "null_score_diff_threshold",
  0.0,
  "No answer where its score is so much above the best answer's. If not given, "
  "the best threshold of an earlier prediction in --output_dir, else 0.",
)


def main(_):
  if not FLAGS.do_train and not FLAGS.do_predict:
    raise ValueError(
      "At least one of --do_train and --do_predict must be True."
    )
  for needs, file in (
    ("do_train", "train_file"),
    ("do_predict", "predict_file"),
  ):
    if FLAGS[needs].value and not FLAGS[file].value:
      raise ValueError(f"--{needs} needs --{file}.")
  strategy.cut_cpu(FLAGS.num_cpu_devices)
  config = BertConfig.from_json(FLAGS.bert_config_file)
  config.check_length(FLAGS.max_seq_length)
  lengths()  # fails early where they do not fit together
  validate_case_matches_checkpoint(FLAGS.do_lower_case, FLAGS.init_checkpoint)
  tokenizer = FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
  train_set = _examples(FLAGS.train_file, True) if FLAGS.do_train else []
  dev_set = _examples(FLAGS.predict_file, False) if FLAGS.do_predict else []
  precision.set_policy(FLAGS.dtype)
  checkpoints = checkpoint.Checkpoints(
    FLAGS.output_dir, FLAGS.keep_checkpoint_max
  )
  seed = checkpoints.fix_seed(FLAGS.seed)
  with strategy.from_flags(FLAGS).scope():
    model = models.span_labeler(config, FLAGS.use_tpu)
    if FLAGS.do_train:
      train(model, checkpoints, seed, train_set, tokenizer)
    if FLAGS.do_predict:
      checkpoints.load(model, FLAGS.init_checkpoint)
      predict(model, dev_set, tokenizer)


def _examples(patterns: str, is_training: bool) -> list[squad.Example]:
  return squad.read(
    files.expand(patterns), is_training, FLAGS.version_2_with_negative
  )


def train(model, checkpoints, seed, examples, tokenizer) -> None:
  """Trains for --num_train_epochs, counted in questions as in the original."""
  steps = int(len(examples) / FLAGS.train_batch_size * FLAGS.num_train_epochs)
  path = os.path.join(FLAGS.output_dir, "train.tf_record")
  schema = features.squad(FLAGS.max_seq_length, is_training=True)
  windows = cut(squad.training_order(examples), tokenizer)
  tfrecord.save(path, schema, (squad_windows.row(w, schema) for w in windows))
  run.train(
    FLAGS,
    model,
    losses.span(),
    checkpoints,
    seed=seed,
    seeded=step_seed,
    num_train_steps=steps,
    num_warmup_steps=int(steps * FLAGS.warmup_proportion),
    batches=lambda used, context: records.training(
      [path], schema, FLAGS.train_batch_size, seed, used, context
    ),
    unit="windows",
  )


def predict(model, examples, tokenizer) -> None:
  """Answers all questions and, where the right answers are known, scores."""
  path = os.path.join(FLAGS.output_dir, "eval.tf_record")
  schema = features.squad(FLAGS.max_seq_length, is_training=False)
  windows = list(cut(examples, tokenizer))
  tfrecord.save(path, schema, (squad_windows.row(w, schema) for w in windows))
  progress = Progress("read", len(windows), "windows")
  batches = records.evaluation([path], schema, FLAGS.predict_batch_size)
  outputs = loop.predict(model, progress.follow(batches))
  names = ("unique_ids", "start_logits", "end_logits")
  logits = {
    unique_id: (start, end)
    for unique_id, start, end in zip(
      *(outputs[name] for name in names), strict=True
    )
  }
  settings = answers.Settings(
    FLAGS.n_best_size,
    FLAGS.max_answer_length,
    FLAGS.version_2_with_negative,
    threshold(),
  )
  found = answers.decode(examples, windows, logits, tokenizer, settings)
  answers.write(found, FLAGS.output_dir)
  score(found)


def cut(examples, tokenizer):
  """Windows of the questions' paragraphs, with progress."""
  progress = Progress("cut", len(examples), "questions")
  return squad_windows.windows(
    examples, tokenizer, lengths(), FLAGS.num_workers, progress
  )


def lengths() -> squad_windows.Settings:
  """Of windows and questions, as the flags say."""
  return squad_windows.Settings(
    FLAGS.max_seq_length, FLAGS.max_query_length, FLAGS.doc_stride
  )


def threshold() -> float:
  """What --null_score_diff_threshold says, or an earlier prediction found."""
  stored = squad_scores.stored_threshold(FLAGS.output_dir)
  if FLAGS["null_score_diff_threshold"].present or stored is None:
    return FLAGS.null_score_diff_threshold
  logging.info("null threshold %s, from an earlier prediction", stored)
  return stored


def score(found: answers.Predictions) -> None:
  """Logs and stores EM and F1, unless the right answers are unknown."""
  paths = files.expand(FLAGS.predict_file)
  articles = [article for path in paths for article in squad.articles(path)]
  if not squad_scores.has_answers(articles, FLAGS.version_2_with_negative):
    logging.info("no scores: %s has no answers", FLAGS.predict_file)
    return
  scores = squad_scores.score(articles, found, FLAGS.version_2_with_negative)
  for name, value in scores.items():
    logging.info("  %s = %.4f", name, value)
  squad_scores.save(scores, FLAGS.output_dir)


if __name__ == "__main__":
  program.run(main)
