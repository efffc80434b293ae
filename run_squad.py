r"""Fine-tunes BERT for question answering on SQuAD 1.1 or 2.0.

The command is the original's:

  python run_squad.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --train_file=$SQUAD_DIR/train-v1.1.json \
    --do_predict=True --predict_file=$SQUAD_DIR/dev-v1.1.json \
    --output_dir=/tmp/squad_base/
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

import importlib.util

from runs import checks, training_program
from storage import UserError, files
from tasks.squad import examples, metrics
from tasks.squad.settings import Settings


def check_flags(settings: Settings) -> None:
  if settings.do_train:
    files.expand(settings.needed("train_file"))
  if settings.reads_dev:
    files.expand(settings.needed("predict_file"))
  if settings.group_by_length and not settings.dynamic_padding:
    raise UserError("--group_by_length needs --dynamic_padding.")
  if settings.f1_unit == "character" and settings.version_2_with_negative:
    raise UserError(
      "--f1_unit=character cannot score questions without an answer: drop it, "
      "or --version_2_with_negative"
    )
  settings.windows()
  checks.check_fine_tuning(settings, "version_2_with_negative")


def main(settings: Settings) -> None:
  version_2 = settings.version_2_with_negative
  questions: dict[str, list] = {}
  if settings.do_train:
    paths = files.expand(settings.needed("train_file"))
    questions["train"] = examples.read_examples(paths, True, version_2)
    if not questions["train"]:
      raise UserError(
        f"{settings.train_file}: no answer is among the words of its paragraph"
      )
  if settings.reads_dev:
    paths = files.expand(settings.needed("predict_file"))
    questions["dev"] = examples.read_examples(paths)
    if metrics.can_score(questions["dev"], version_2):
      is_installed = importlib.util.find_spec("official")
      if settings.f1_unit == "word" and not is_installed:
        raise UserError(
          "scores need a package that the wheel does not install: "
          "pip install tf-models-official==2.20.0"
        )
    elif settings.evaluates_while_training:
      raise UserError(
        f"not every question of {settings.predict_file} has answers; "
        f"{metrics.REMEDY}"
      )
  # Import TensorFlow late: wrong flags and files should fail fast.
  from runs.fine_tune import fine_tune
  from tasks.squad.task import Squad

  fine_tune(Squad(settings, questions))


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
