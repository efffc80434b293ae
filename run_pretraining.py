r"""Pre-trains BERT with masked LM and next-sentence prediction.

create_pretraining_data.py makes the records:

  python run_pretraining.py --input_file=/tmp/tf_examples.tfrecord \
    --output_dir=/tmp/pretraining_output --do_train=True --do_eval=True \
    --bert_config_file=$BERT_DIR/bert_config.json --num_train_steps=20 \
    --num_warmup_steps=10 --learning_rate=2e-5

--do_export writes a SavedModel that, like fill_mask.py, predicts masked tokens.
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

from runs import training_program
from tasks.pretraining.settings import Settings, check_flags


def main(settings: Settings) -> None:
  # Import TensorFlow late: wrong flags should fail fast.
  from tasks.pretraining.task import pretrain

  pretrain(settings)


if __name__ == "__main__":
  training_program.run(Settings, check_flags, main)
