r"""Fine-tunes BERT for named entity recognition and other tagging.

Files are like those of CoNLL-2003, with a word and its tag per line and a blank
line between sentences, or JSON lines with `tokens` and `ner_tags`:

  python run_ner.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt --do_lower_case=False \
    --do_train=True --train_file=$NER_DIR/train.txt \
    --do_eval=True --dev_file=$NER_DIR/dev.txt \
    --do_predict=True --test_file=$NER_DIR/test.txt \
    --document_context=True --output_dir=/tmp/ner/

--feature_based trains an LSTM on a frozen BERT (section 5.3 of the paper).
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from functools import partial

from cli import file_checks
from data import labels
from modeling.config import check_feature_layers
from runs import checks, contradictions, training_program
from storage import UserError
from tasks.ner import tagging
from tasks.ner.settings import Settings

# Flags with which sentences cannot share rows.
NOT_PACKED = ("document_context", "feature_based")


def check_flags(args: Settings) -> None:
  if args.feature_based and args.add_bilstm:
    raise UserError("--feature_based has a BiLSTM: leave --add_bilstm out")
  file_checks.check_files(args, *args.files_to_read)
  same = ["document_context", "feature_based"]
  if args.feature_based:
    same += ["feature_layers", "lstm_units"]
  config = checks.check_fine_tuning(args, *same)
  if args.feature_based:
    check_feature_layers(args.feature_layers, config.num_hidden_layers)
  contradictions.check_packing(args, config, NOT_PACKED)


def main(args: Settings) -> None:
  columns = args.word_column, args.tag_column
  find = None
  if args.train_file:
    find = partial(tagging.find_tags, args.train_file, columns, args.tag_scheme)
  checkpoint_labels = checks.labels_file(args)
  tags = labels.choose(args.output_dir, checkpoint_labels, find, args.do_train)
  if args.do_train and args.teacher:
    labels.check_teacher(args.teacher, labels.load(args.teacher), tags)
  sentences = {
    flag: tagging.read_tagged(
      args[flag], columns, tags, flag != "test_file", args.tag_scheme
    )
    for flag in args.files_to_read
  }
  # TensorFlow is imported here, after flags and files were checked.
  from modeling import losses
  from runs import fine_tuning, sweep
  from tasks.ner import metrics, task

  if args.is_sweep:
    args = sweep.run_sweep(args)
  run = fine_tuning.start(args)
  args = run.args
  file_flags = args.files_to_read
  sets = {
    flag: task.convert(args, flag, sentences[flag], tags) for flag in file_flags
  }
  labels.save_if_missing(tags, args.output_dir)
  with run.strategy.scope():
    model = task.tagger(args, run.config, len(tags))
    if args.do_train:
      fine_tuning.train(
        run,
        model,
        losses.tagging(),
        sets["train_file"],
        num_examples=len(sets["train_file"].rows),
        packs=True,
        not_packed=NOT_PACKED,
        unit="records",
        evaluate=lambda step: task.evaluate(
          args, model, tags, sets["dev_file"], step
        )[0],
        metric=metrics.metric(tags),
        served_model=task.served_model,
      )
    if args.do_eval or args.do_predict:
      step = run.load(model)
    if args.do_eval:
      dev_set = sets["dev_file"]
      _, logits = task.evaluate(args, model, tags, dev_set, step)
      metrics.write_predictions(
        args.output_dir, "eval", logits, tags, dev_set.sentences
      )
    if args.do_predict:
      task.predict(args, model, tags, sets["test_file"])
  if args.do_export:
    run.export(task.served_model)


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
