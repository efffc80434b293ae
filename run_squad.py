r"""Fine-tunes BERT to answer SQuAD's questions, version 1.1 or 2.0.

As in the original:

  python run_squad.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --train_file=$SQUAD_DIR/train-v1.1.json \
    --do_predict=True --predict_file=$SQUAD_DIR/dev-v1.1.json \
    --output_dir=/tmp/squad_base/
"""

import os

from absl import flags

from assembly import network, served
from data import files
from data.tasks import squad_input
from data.tokenization import FullTokenizer
from evaluation import squad as answers
from evaluation import squad_scores
from modeling import losses, models
from modeling.randomness import step_seed
from training import dry_run, fine_tuning, inference, program, strategy
from training import flags as shared_flags
from training.run import Run

FLAGS = flags.FLAGS

shared_flags.define_fine_tuning()
flags.DEFINE_string("train_file", None, "SQuAD files or globs to train on.")
flags.DEFINE_string("predict_file", None, "SQuAD files or globs to answer.")
flags.DEFINE_integer("max_seq_length", 384, "Tokens of a window.", 1)
flags.DEFINE_integer("doc_stride", 128, "Tokens from window to window.", 1)
flags.DEFINE_integer("max_query_length", 64, "Tokens of a question.", 1)
flags.DEFINE_bool("do_train", False, "Train.")
flags.DEFINE_bool("do_predict", False, "Answer --predict_file.")
flags.DEFINE_integer("n_best_size", 20, "Answers in nbest_predictions.json.", 1)
flags.DEFINE_integer("max_answer_length", 30, "Tokens of an answer.", 1)
flags.DEFINE_integer("num_workers", 1, "Processes that cut windows.", 1)
flags.DEFINE_bool(
  "trim_padding",
  False,
  "Cut off padding that a batch need not have: several times as fast where "
  "paragraphs are short. What stands there then takes no part in the softmax, "
  "as it does in the original: numbers differ a little.",
)
flags.DEFINE_bool("verbose_logging", False, "Kept for the original's commands.")
flags.DEFINE_bool(
  "version_2_with_negative", False, "Questions may have no answer (SQuAD 2.0)."
)
flags.DEFINE_float(
  "null_score_diff_threshold",
  None,
  "No answer where its score is so much above the best answer's. If not given, "
  "the best threshold of an earlier prediction in --output_dir, else 0.",
)


def main(_):
  fine_tuning.begin(FLAGS)
  check_flags()
  config = network.for_texts(FLAGS)
  devices = fine_tuning.devices(FLAGS)
  train_set, dev_set = None, None
  if FLAGS.do_train:
    train_set = read("train_file", "train.tf_record")
  if FLAGS.do_predict or fine_tuning.evaluates(FLAGS):
    dev_set = read("predict_file", "eval.tf_record")
  run = Run(FLAGS, step_seed)
  run.require_same("attention", "add_bilstm")
  with devices.scope():
    model = models.span_labeler(config, FLAGS.use_tpu)
    if FLAGS.do_train:
      train(run, model, train_set, dev_set)
    if FLAGS.do_predict:
      run.load(model)
      predict(model, dev_set)
  if FLAGS.do_export:
    run.export(served.questions)


def check_flags() -> None:
  """Raises ValueError where flags do not fit together."""
  if FLAGS.do_train and not FLAGS.train_file:
    raise ValueError("--do_train needs --train_file.")
  if FLAGS.do_predict and not FLAGS.predict_file:
    raise ValueError("--do_predict needs --predict_file.")
  if FLAGS.group_by_length and not FLAGS.trim_padding:
    raise ValueError("--group_by_length needs --trim_padding.")
  if fine_tuning.evaluates(FLAGS) and not FLAGS.predict_file:
    raise ValueError("evaluation needs --predict_file, with answers.")
  served.lengths(FLAGS)


def read(file: str, name: str) -> squad_input.Questions:
  """What a flag's files hold; the records go to a file of that name."""
  return squad_input.prepare(
    files.expand(FLAGS[file].value),
    os.path.join(FLAGS.output_dir, name),
    FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case),
    served.lengths(FLAGS),
    is_training=file == "train_file",
    version_2_with_negative=FLAGS.version_2_with_negative,
    num_workers=FLAGS.num_workers,
    fixed=not FLAGS.trim_padding or strategy.fixes_shapes(FLAGS),
    limit=dry_run.limit(FLAGS),
  )


def train(run: Run, model, train_set, dev_set) -> None:
  """Trains for --num_train_epochs, counted in questions as in the original."""
  version_2 = FLAGS.version_2_with_negative
  if fine_tuning.evaluates(FLAGS):
    squad_scores.require_answers(
      dev_set.articles, version_2, FLAGS.predict_file
    )
  fine_tuning.train(
    run,
    model,
    losses.span(),
    train_set.records,
    num_examples=len(train_set.examples),
    unit="windows",
    evaluate=lambda step: predict(model, dev_set),
    metric="best_f1" if version_2 else "f1",
  )


def predict(model, questions: squad_input.Questions) -> dict[str, float]:
  """Answers all questions; returns scores if the right answers are known."""
  outputs = inference.outputs(
    model, questions.records, FLAGS.predict_batch_size
  )
  found = answers.decode(
    questions.examples,
    questions.windows,
    answers.logits_of(questions.windows, outputs, FLAGS.trim_padding),
    FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case),
    served.choice(FLAGS),
  )
  answers.write(found, FLAGS.output_dir)
  return squad_scores.report(
    questions.articles, found, FLAGS.version_2_with_negative, FLAGS.output_dir
  )


if __name__ == "__main__":
  program.run(main)
