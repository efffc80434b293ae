r"""Pre-trains BERT with masked LM and next-sentence prediction.

create_pretraining_data.py makes the records:

  python run_pretraining.py --input_file=/tmp/tf_examples.tfrecord \
    --output_dir=/tmp/pretraining_output --do_train=True --do_eval=True \
    --bert_config_file=$BERT_DIR/bert_config.json --num_train_steps=20 \
    --num_warmup_steps=10 --learning_rate=2e-5

--do_export writes a SavedModel that predicts masked tokens like fill_mask.py.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from runs import model_files, training_program
from tasks.pretraining.settings import Settings, check_flags


def main(settings: Settings) -> None:
  # Import TensorFlow late: wrong flags should fail fast.
  from modeling import losses, models
  from runs.session import Run
  from tasks.pretraining import task
  from training import report

  run = Run(settings, model_files.config(settings))
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
