r"""Fine-tunes BERT for multiple choice, as in SWAG.

Files are tables with the columns sent1, sent2, ending0, ending1, ... and label:

  python run_swag.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --train_file=$SWAG_DIR/train.csv \
    --do_eval=True --dev_file=$SWAG_DIR/val.csv \
    --train_batch_size=16 --learning_rate=2e-5 --output_dir=/tmp/swag/
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

from runs import checks, training_program
from tasks.multiple_choice.examples import Settings, read_examples


def check_flags(settings: Settings) -> None:
  for split in settings.splits_to_read:
    settings.check_files(f"{split}_file")
  checks.check_fine_tuning(settings)


def main(settings: Settings) -> None:
  dialect = settings.delimiter, settings.encoding
  examples = {
    split: read_examples(settings[f"{split}_file"], split != "test", dialect)
    for split in settings.splits_to_read
  }
  # Import TensorFlow late: wrong flags and files should fail fast.
  from runs.fine_tune import fine_tune
  from tasks.multiple_choice.task import Swag

  fine_tune(Swag(settings, examples))


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
