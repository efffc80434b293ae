r"""Fine-tunes BERT for question answering on SQuAD 1.1 or 2.0.

As in the original:

  python run_squad.py --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --train_file=$SQUAD_DIR/train-v1.1.json \
    --do_predict=True --predict_file=$SQUAD_DIR/dev-v1.1.json \
    --output_dir=/tmp/squad_base/
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from runs import checks, training_program
from storage import UserError, files
from tasks.squad import examples, metrics
from tasks.squad.decoding import DecodingConfig
from tasks.squad.examples import SquadExample
from tasks.squad.records import WindowConfig
from tasks.squad.settings import Settings


def check_flags(args: Settings) -> None:
  if args.do_train:
    files.expand(args.needed("train_file"))
  if args.reads_dev:
    files.expand(args.needed("predict_file"))
  if args.group_by_length and not args.dynamic_padding:
    raise UserError("--group_by_length needs --dynamic_padding.")
  metrics.check_unit(args.f1_unit, args.version_2_with_negative)
  args.select(WindowConfig)
  args.select(DecodingConfig)
  checks.check_fine_tuning(args, "version_2_with_negative")


def read(args: Settings) -> dict[str, list[SquadExample]]:
  """Questions that the run reads, by the flags of their files."""
  version_2 = args.version_2_with_negative
  questions = {}
  if args.do_train:
    paths = files.expand(args.needed("train_file"))
    questions["train_file"] = examples.read_examples(paths, True, version_2)
  if args.reads_dev:
    paths = files.expand(args.needed("predict_file"))
    questions["predict_file"] = examples.read_examples(paths)
  if args.do_train and not questions["train_file"]:
    raise UserError(
      f"{args.train_file}: no answer is among the words of its paragraph"
    )
  if args.evaluates_while_training:
    dev_set = questions["predict_file"]
    if remedy := metrics.remedy_of_unscored(dev_set, version_2):
      raise UserError(
        f"not every question of {args.predict_file} has answers; {remedy}"
      )
  return questions


def main(args: Settings) -> None:
  questions = read(args)
  # TensorFlow is imported here, after flags and files were checked.
  from modeling import losses
  from runs import fine_tuning, sweep
  from tasks.squad import task

  if args.is_sweep:
    args = sweep.run_sweep(args)
    if args.version_2_with_negative and args.do_export and args.ensemble > 1:
      args = args.replace(do_predict=True)  # finds its null threshold
  run = fine_tuning.start(args)
  args = run.args
  sets = {}
  if args.do_train:
    sets["train"] = task.convert(args, "train_file", questions["train_file"])
  if args.reads_dev:
    sets["dev"] = task.convert(args, "predict_file", questions["predict_file"])
  with run.strategy.scope():
    model = task.make_model(args, run.config)
    if args.do_train:
      fine_tuning.train(
        run,
        model,
        losses.span(),
        sets["train"],
        num_examples=len(sets["train"].questions),
        unit="windows",
        evaluate=lambda step: task.evaluate_in_training(
          args, model, sets["dev"], step
        ),
        metric="best_f1" if args.version_2_with_negative else "f1",
        served_model=task.served_model,
      )
    if args.do_predict:
      task.predict(args, model, sets["dev"], run.load(model))
  if args.do_export:
    run.export(task.served_model)


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
