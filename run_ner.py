r"""Fine-tunes BERT for named entity recognition and other tagging.

Files have the format of CoNLL-2003 (a word and a tag per line, a blank line
between sentences) or are JSON lines with `tokens` and `ner_tags`:

  python run_ner.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt --do_lower_case=False \
    --do_train=True --train_file=$NER_DIR/train.txt \
    --do_eval=True --dev_file=$NER_DIR/dev.txt \
    --do_predict=True --test_file=$NER_DIR/test.txt --output_dir=/tmp/ner/

--feature_based trains an LSTM on a frozen BERT (section 5.3 of the paper).
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

from functools import partial

from data import labels
from modeling.config import check_feature_layers
from runs import checks, training_program
from storage import UserError
from tasks.ner.tagging import Settings, find_tags, read_tagged


def check_flags(settings: Settings) -> None:
  if settings.feature_based and settings.add_bilstm:
    raise UserError("--feature_based has a BiLSTM: leave --add_bilstm out")
  for split in settings.splits_to_read:
    settings.check_files(f"{split}_file")
  same = ["document_context", "feature_based"]
  if settings.feature_based:
    same += ["feature_layers", "lstm_units"]
  config = checks.check_fine_tuning(settings, *same)
  if settings.feature_based:
    check_feature_layers(settings.feature_layers, config.num_hidden_layers)


def main(settings: Settings) -> None:
  columns = settings.word_column, settings.tag_column
  scheme, path = settings.tag_scheme, settings.train_file
  find = partial(find_tags, path, columns, scheme) if path else None
  start = checks.labels_file(settings)
  tags = labels.choose(settings.output_dir, start, find, settings.do_train)
  if settings.do_train and settings.teacher:
    labels.check_teacher(settings.teacher, labels.load(settings.teacher), tags)
  sentences = {
    split: read_tagged(
      settings[f"{split}_file"], columns, tags, split != "test", scheme
    )
    for split in settings.splits_to_read
  }
  # Import TensorFlow late: wrong flags and files should fail fast.
  from runs.fine_tune import fine_tune
  from tasks.ner.task import Ner

  fine_tune(Ner(settings, sentences, tags))


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
