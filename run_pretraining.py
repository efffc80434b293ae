r"""Pre-trains BERT with masked LM and next-sentence prediction.

create_pretraining_data.py makes the records:

  python run_pretraining.py --input_file=/tmp/tf_examples.tfrecord \
    --output_dir=/tmp/pretraining_output --do_train=True --do_eval=True \
    --bert_config_file=$BERT_DIR/bert_config.json --num_train_steps=20 \
    --num_warmup_steps=10 --learning_rate=2e-5

--do_export writes a SavedModel that predicts masked tokens like fill_mask.py.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from absl import logging

from data.pretraining import record_schema
from runs import checks, contradictions, training_program
from storage import UserError, files
from tasks.pretraining import settings as pretraining_settings
from tasks.pretraining.settings import Settings


def check_flags(settings: Settings) -> None:
  settings = with_implied(settings)
  contradictions.check_training(settings)
  inputs: list[list[str]] = []
  if settings.do_train or settings.do_eval:
    trains = settings.do_train or not settings.eval_file
    if trains and not settings.input_file:
      raise UserError("--do_train and --do_eval need --input_file")
    patterns = (settings.input_file if trains else None, settings.eval_file)
    inputs = [files.expand(pattern) for pattern in patterns if pattern]
  if settings.stop_at_step > settings.num_train_steps:
    raise UserError(
      f"--stop_at_step={settings.stop_at_step} is beyond "
      f"--num_train_steps={settings.num_train_steps}"
    )
  pretraining_settings.check_flags(settings)
  if settings.do_export:
    pretraining_settings.check_export(settings)
  network = checks.config(settings)
  checks.check_run(settings, network)
  lengths = settings.max_seq_length, settings.max_predictions_per_seq
  is_causal = settings.objective not in pretraining_settings.MASKED
  for paths in inputs:
    if empty := [path for path in paths if not files.size(path)]:
      text = "%d of %d files are empty, such as %s: they are left out"
      logging.warning(text, len(empty), len(paths), empty[0])
    record_schema.find_schema(
      paths,
      *lengths,
      network.vocab_size,
      tokenizer=settings.tokenizer if settings.vocab_file else None,
      needs_masks=not is_causal,
      skip_corrupt=settings.max_corrupt_records > 0,
    )
  if (
    settings.do_train and settings.num_warmup_steps >= settings.num_train_steps
  ):
    logging.warning(
      "--num_warmup_steps=%d%s is not less than --num_train_steps=%d: the "
      "rate never reaches --learning_rate; use fewer warm-up steps",
      settings.num_warmup_steps,
      "" if "num_warmup_steps" in settings.given else " (the default)",
      settings.num_train_steps,
    )


def with_implied(settings: Settings) -> Settings:
  """Sets --attention if --objective needs one."""
  if (
    settings.objective not in pretraining_settings.MASKED
    and settings.attention is None
  ):
    settings = settings.replace(attention=settings.objective)
  return settings


def main(settings: Settings) -> None:
  # Import TensorFlow late: wrong flags should fail fast.
  from modeling import losses, models
  from runs.session import Run
  from tasks.pretraining import task
  from training import report

  settings = with_implied(settings)
  run = Run(settings, checks.config(settings))
  settings = run.settings
  if settings.do_train or settings.do_eval:
    eval_set = task.eval_data(settings, run.config)
    if settings.do_train or not eval_set:
      train_set = task.train_data(settings, run.config)
  next_sentence = settings.objective == "mlm_nsp"
  objective = losses.pretraining(next_sentence=next_sentence)
  evaluated = None  # last step
  with run.strategy.scope():
    model = models.pretrainer(run.config, next_sentence=next_sentence)
    if settings.do_train:
      for step in run.train(
        model,
        objective,
        train_set,
        num_train_steps=settings.num_train_steps,
        num_warmup_steps=settings.num_warmup_steps,
        stop_at=settings.stop_at_step,
        unit="sequences",
        evaluated=report.last_evaluation(settings.output_dir),
      ):
        task.evaluate(settings, model, objective, eval_set or train_set, step)
        evaluated = step
    if settings.do_eval:
      step = run.load(model)
      if step != evaluated:
        task.evaluate(settings, model, objective, eval_set or train_set, step)
  if settings.do_export:
    run.export(task.served_model)


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
