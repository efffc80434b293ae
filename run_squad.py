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

from absl import flags

from cli import encoder, shared_flags, training_program
from cli.arguments import Arguments
from storage import UserError, files
from tasks.squad import examples, metrics
from tasks.squad.decoding import DecodingConfig
from tasks.squad.examples import SquadExample
from tasks.squad.records import WindowConfig

shared_flags.define_fine_tuning()
flags.DEFINE_string("train_file", None, "SQuAD files or globs to train on.")
flags.DEFINE_string("predict_file", None, "SQuAD files or globs to answer.")
flags.DEFINE_integer("max_seq_length", 384, "Maximum tokens of a window.", 1)
flags.DEFINE_integer("doc_stride", 128, "Tokens between window starts.", 1)
flags.DEFINE_integer("max_query_length", 64, "Maximum tokens of a question.", 1)
flags.DEFINE_integer("n_best_size", 20, "Entries of nbest_predictions.json.", 1)
flags.DEFINE_integer("max_answer_length", 30, "Maximum tokens of an answer.", 1)
flags.DEFINE_integer("export_top_k", 0, "Best answers that an export lists.", 0)
flags.DEFINE_integer("num_workers", 1, "Number of processes that tokenize.", 1)
flags.DEFINE_bool(
  "dynamic_padding",
  False,
  "Cut off padding that all rows of a batch have: several times as fast for "
  "short paragraphs. The softmax then excludes these positions, and numbers "
  "differ slightly from the original's.",
)
flags.DEFINE_bool("verbose_logging", False, "Accepted; has no effect.")
flags.DEFINE_bool(
  "version_2_with_negative", False, "SQuAD 2.0: questions may have no answer."
)
flags.DEFINE_enum(
  "f1_unit", "word", metrics.F1_UNITS, "word: SQuAD. character: KorQuAD 1.0."
)
flags.DEFINE_float(
  "null_score_diff_threshold",
  None,
  "Predict no answer if its score exceeds the best answer's by more than this. "
  "Default: the one beside --init_checkpoint, or the best of the last "
  "prediction in --output_dir, else 0.",
)


def check_flags(args: Arguments) -> None:
  needed = {"train_file": args.do_train, "predict_file": predicts(args)}
  for name, is_needed in needed.items():
    if is_needed and not args[name]:
      raise UserError(f"this command needs --{name}")
    if is_needed:
      files.expand(args[name])
  if args.group_by_length and not args.dynamic_padding:
    raise UserError("--group_by_length needs --dynamic_padding.")
  metrics.check_unit(args.f1_unit, args.version_2_with_negative)
  args.select(WindowConfig)
  args.select(DecodingConfig)
  encoder.check_fine_tuning(args, "version_2_with_negative")


def predicts(args: Arguments) -> bool:
  """True if a run answers questions, while training or afterwards."""
  return args.do_predict or training_program.evaluates_while_training(args)


def read(args: Arguments) -> dict[str, list[SquadExample]]:
  """Questions that the run reads, by the flags of their files."""
  version_2 = args.version_2_with_negative
  questions = {}
  if args.do_train:
    paths = files.expand(args.train_file)
    questions["train_file"] = examples.read_examples(paths, True, version_2)
  if predicts(args):
    paths = files.expand(args.predict_file)
    questions["predict_file"] = examples.read_examples(paths)
  if args.do_train and not questions["train_file"]:
    raise UserError(
      f"{args.train_file}: no answer is among the words of its paragraph"
    )
  if training_program.evaluates_while_training(args):
    dev_set = questions["predict_file"]
    if remedy := metrics.remedy_of_unscored(dev_set, version_2):
      raise UserError(
        f"not every question of {args.predict_file} has answers; {remedy}"
      )
  return questions


def main(args: Arguments) -> None:
  questions = read(args)
  # TensorFlow is imported here, after flags and files were checked.
  from cli import fine_tuning
  from modeling import losses
  from tasks.squad import task

  if training_program.is_sweep(args):
    args = fine_tuning.run_sweep(args)
    if args.version_2_with_negative and args.do_export and args.ensemble > 1:
      args = args.replace(do_predict=True)  # finds its null threshold
  run = fine_tuning.start(args)
  args = run.args
  sets = {}
  if args.do_train:
    sets["train"] = task.convert(args, "train_file", questions["train_file"])
  if predicts(args):
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
  training_program.run(main, check_flags)
