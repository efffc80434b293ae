r"""Fine-tunes BERT to classify texts or pairs: GLUE, XNLI, your own task.

As in the original:

  python run_classifier.py --task_name=MRPC --data_dir=$GLUE_DIR/MRPC \
    --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --do_train=True --do_eval=True --output_dir=/tmp/mrpc_output/

--task_name=tsv is your own task: train.tsv, dev.tsv and test.tsv (or .csv or
.jsonl) in --data_dir, with the columns text and label.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from absl import flags

from cli import checks, encoder, program
from cli import flags as shared_flags
from cli.arguments import Arguments
from data import labels
from storage import UserError, files
from tasks.classification import glue, named_tasks

shared_flags.define_fine_tuning()
shared_flags.define_evaluation()
flags.DEFINE_string("data_dir", None, "Folder with the files of the task.")
flags.DEFINE_string(
  "task_name",
  None,
  "A task of GLUE, GLUE for all in --data_dir, XNLI, or tsv: your own task.",
  required=True,
)
flags.DEFINE_bool(
  "from_mnli", False, "GLUE: RTE, MRPC and STS-B begin with the model of MNLI."
)
flags.DEFINE_integer("max_seq_length", 128, "Maximum number of tokens.", 3)
shared_flags.define_packing()
shared_flags.define_long_text()
flags.DEFINE_string("text_a_column", "text", "tsv: column of the text.")
flags.DEFINE_string("text_b_column", None, "tsv: column of the second text.")
flags.DEFINE_string("label_column", "label", "tsv: column of the label.")
flags.DEFINE_bool("is_regression", False, "tsv: labels are numbers.")
flags.DEFINE_bool(
  "multi_label",
  False,
  "tsv: a text has any number of labels, separated by | or a JSON list.",
)
flags.DEFINE_list(
  "class_weights",
  [],
  "Weights of the labels' losses: balanced, or as in rare=5,frequent=0.5.",
)
flags.DEFINE_list(
  "prediction_columns",
  [],
  "Columns to copy from the test file to test_predictions.tsv; all for all.",
)
flags.DEFINE_string("xnli_language", "zh", "Language of XNLI.")
flags.DEFINE_integer("num_workers", 1, "Number of processes that tokenize.", 1)


def check_flags(args: Arguments) -> None:
  """Raises an error if the run would fail later, by flags or paths."""
  if glue.is_glue(args):
    for part in glue.parts(args).values():
      check_flags(part)
    return
  if args.from_mnli:
    raise UserError(
      "--from_mnli is for --task_name=GLUE: for one task give "
      "--init_checkpoint=(output folder of MNLI) and --new_head"
    )
  checks.run(args)
  reads = args.do_train or args.do_eval or args.do_predict
  if reads and not args.data_dir:
    raise UserError("--do_train, --do_eval and --do_predict need --data_dir")
  if args.data_dir and not files.is_folder(args.data_dir):
    raise FileNotFoundError(f"--data_dir={args.data_dir} is no folder")
  named_tasks.check_flags(args)
  same = ["is_regression", "long_text"]
  if args.long_text == "windows":
    same += ["window_stride", "window_pooling", "max_seq_length"]
  encoder.check(args, "add_bilstm", "do_lower_case", *same)
  encoder.check_head(args, "multi_label")
  checks.packing(args, encoder.config(args))


def main(args: Arguments) -> None:
  if glue.is_glue(args):
    glue.run(args)
    return
  # A training with --multi_label finds thresholds in its last evaluation.
  finds_thresholds = args.do_train
  if args.multi_label and args.do_train:
    has_dev = "dev" in named_tasks.from_flags(args).splits
    args = args.replace(do_eval=args.do_eval or has_dev)
  task = named_tasks.with_labels(args)
  if args.do_train and args.teacher:
    named_tasks.check_teacher(args, task)
  examples = named_tasks.read(args, task)
  # TensorFlow is imported here, after flags and files were checked.
  from cli import fine_tuning
  from modeling import models
  from tasks.classification import task as classification

  run = fine_tuning.start(args)
  args = run.args
  dev_sets = test_sets = {}
  if args.do_train:
    train_set = classification.convert(args, task, examples, "train")["train"]
  if checks.needs_eval_data(args):
    dev_sets = classification.convert(args, task, examples, "dev")
  if args.do_predict:
    test_sets = classification.convert(args, task, examples, "test")
  if task.name == named_tasks.CUSTOM and task.labels:
    labels.keep(task.labels, args.output_dir)
  if not finds_thresholds:
    task = classification.with_thresholds(args, task)
  with run.strategy.scope():
    model = classification.make_model(args, task, run.config)
    if args.do_train:
      fine_tuning.train(
        run,
        model,
        classification.objective(
          task, classification.class_weights(args, task, train_set.examples)
        ),
        train_set,
        num_examples=len(train_set.examples),
        packed=models.packed_classifier,
        evaluate=lambda step: classification.evaluate(
          args, task, model, dev_sets, step
        ),
        metric=f"eval_{task.metrics[0]}",
        served_model=classification.served_model,
      )
    if args.do_eval or args.do_predict:
      step = run.load(model)
    if args.do_eval:
      classification.evaluate(args, task, model, dev_sets, step)
    if args.do_predict:
      classification.predict(args, task, model, test_sets)
  if args.do_export:
    run.export(classification.served_model)


if __name__ == "__main__":
  program.run(main, check_flags)
