r"""Fine-tunes BERT to find names in texts, or trains on its frozen layers.

Files have a word and its tag a line, a blank line between sentences, as those
of CoNLL-2003 do:

  python run_ner.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt --do_lower_case=False \
    --do_train=True --train_file=$NER_DIR/train.txt \
    --do_eval=True --dev_file=$NER_DIR/dev.txt \
    --do_predict=True --test_file=$NER_DIR/test.txt \
    --max_context=True --output_dir=/tmp/ner/

With --feature_based BERT itself is not trained (section 5.3 of the paper).
"""

import os

import numpy as np
from absl import flags, logging

from assembly import network, served
from data.tasks import labels, tagging, tagging_input
from data.tokenization import FullTokenizer
from evaluation import tagger
from modeling import feature_based, losses
from modeling.randomness import step_seed
from training import dry_run, fine_tuning, inference, program, report, strategy
from training import flags as shared_flags
from training.run import Run

FLAGS = flags.FLAGS

shared_flags.define_fine_tuning()
flags.DEFINE_string("train_file", None, "Tagged words to train on.")
flags.DEFINE_string("dev_file", None, "Tagged words to evaluate on.")
flags.DEFINE_string("test_file", None, "Words to tag; may have tags.")
flags.DEFINE_integer("word_column", 0, "Which column has the words.")
flags.DEFINE_integer("tag_column", -1, "Which has the tags; -1: the last one.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens of a record.", 3)
flags.DEFINE_bool(
  "max_context", False, "Fill records with what stands around the sentence."
)
flags.DEFINE_bool("feature_based", False, "Train an LSTM on a frozen BERT.")
flags.DEFINE_enum(
  "feature_layers",
  "concat_last_four",
  feature_based.CHOICES,
  "What of BERT goes into it.",
)
flags.DEFINE_integer("lstm_units", 768, "Of it, in each direction.", 1)
flags.DEFINE_integer("eval_batch_size", 8, "Records a step in evaluation.", 1)
flags.DEFINE_bool("do_train", False, "Train.")
flags.DEFINE_bool("do_eval", False, "Evaluate on --dev_file.")
flags.DEFINE_bool("do_predict", False, "Tag --test_file.")


def main(_):
  fine_tuning.begin(FLAGS)
  fine_tuning.check_files(FLAGS)
  if FLAGS.feature_based and FLAGS.add_bilstm:
    raise ValueError("--feature_based has a BiLSTM: --add_bilstm adds none")
  config = network.for_texts(FLAGS)
  tags = served.tags(FLAGS)
  devices = fine_tuning.devices(FLAGS)
  train_set, dev_set, test_set = None, None, None
  if FLAGS.do_train:
    train_set = record("train_file", "train.tf_record", tags)
  if fine_tuning.needs_dev(FLAGS):
    dev_set = record("dev_file", "eval.tf_record", tags)
  if FLAGS.do_predict:
    test_set = record("test_file", "predict.tf_record", tags)
  labels.keep(tags, FLAGS.output_dir)
  run = Run(FLAGS, step_seed)
  run.require_same("attention", "add_bilstm", "feature_based")
  if FLAGS.feature_based:
    run.require_same("feature_layers", "lstm_units")
  with devices.scope():
    model = served.tagger(FLAGS, config, len(tags))
    if FLAGS.do_train:
      fine_tuning.train(
        run,
        model,
        losses.tagging(),
        train_set,
        num_examples=len(train_set.examples),
        unit="records",
        evaluate=lambda step: evaluate(model, tags, dev_set, step),
        metric="eval_f1",
      )
    if FLAGS.do_eval or FLAGS.do_predict:
      step = run.load(model)
    if FLAGS.do_eval:
      evaluate(model, tags, dev_set, step)
    if FLAGS.do_predict:
      logits = infer(model, test_set, FLAGS.predict_batch_size)
      tagger.write(FLAGS.output_dir, "test", logits, tags, test_set.sentences)
  if FLAGS.do_export:
    run.export(served.tagging)


def record(file: str, name: str, tags) -> tagging_input.Sentences:
  """What a flag's file holds; the records go to a file of that name."""
  return tagging_input.record(
    tagging_input.read(
      FLAGS[file].value,
      served.columns(FLAGS),
      tags,
      needs_tags=file != "test_file",
    )[: dry_run.limit(FLAGS)],
    os.path.join(FLAGS.output_dir, name),
    tagging.Builder(
      FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case),
      FLAGS.max_seq_length,
      tags,
      FLAGS.max_context,
    ),
    FLAGS.max_seq_length,
    strategy.fixes_shapes(FLAGS),
  )


def infer(model, part: tagging_input.Sentences, batch_size: int) -> np.ndarray:
  """The model's logits for the words of a file, [words, tags]."""
  outputs = inference.outputs(model, part, batch_size)
  return tagging.of_words(outputs["logits"], part.examples)


def evaluate(model, tags, part: tagging_input.Sentences, step: int) -> dict:
  """Evaluates, and writes eval_results.txt and the predictions."""
  logging.info("evaluation at step %d", step)
  logits = infer(model, part, FLAGS.eval_batch_size)
  gold = {"label_ids": tagger.gold(tags, part.sentences)}
  terms = losses.tagging().losses({"logits": logits}, gold)
  scores = tagger.write(FLAGS.output_dir, "eval", logits, tags, part.sentences)
  results = tagger.results(scores, np.asarray(terms["word_loss"]))
  report.write_evaluation(FLAGS.output_dir, results, step)
  return results


if __name__ == "__main__":
  program.run(main)
