"""tf-models-official's masked LM task as a worker of benchmarks/train_step.py.

Its BertPretrainerV2, its task's own step, its AdamW.
"""

import sys

import tensorflow as tf
import tf_keras
from official.modeling import optimization, performance
from official.nlp.configs import bert, encoders
from official.nlp.data import pretrain_dataloader
from official.nlp.tasks import masked_lm

from benchmarks import threads, train_step_data
from benchmarks.train_step_data import Case


def build_task(case: Case) -> masked_lm.MaskedLMTask:
  """Its task, with the case's sizes."""
  return masked_lm.MaskedLMTask(
    masked_lm.MaskedLMConfig(
      model=bert.PretrainerConfig(
        encoder=encoders.EncoderConfig(
          bert=encoders.BertEncoderConfig(
            vocab_size=train_step_data.VOCAB_SIZE,
            hidden_size=case.hidden,
            num_layers=case.layers,
            num_attention_heads=case.heads,
            intermediate_size=4 * case.hidden,
            max_position_embeddings=512,
          )
        ),
        cls_heads=[
          bert.ClsHeadConfig(
            inner_dim=case.hidden, num_classes=2, name="next_sentence"
          )
        ],
      ),
      train_data=pretrain_dataloader.BertPretrainDataConfig(
        use_next_sentence_label=True
      ),
    )
  )


def build_optimizer():
  """Its AdamW, with the original's settings."""
  factory = optimization.OptimizerFactory(
    optimization.OptimizationConfig(
      {
        "optimizer": {
          "type": "adamw",
          "adamw": {
            "weight_decay_rate": 0.01,
            "exclude_from_weight_decay": ["LayerNorm", "layer_norm", "bias"],
          },
        },
        "learning_rate": {
          "type": "polynomial",
          "polynomial": {
            "initial_learning_rate": 1e-4,
            "end_learning_rate": 0.0,
            "decay_steps": 10**6,
          },
        },
      }
    )
  )
  return factory.build_optimizer(factory.build_learning_rate())


def main(case: Case) -> None:
  threads.use(case.threads)
  performance.set_mixed_precision_policy(case.dtype)
  task = build_task(case)
  model = task.build_model()
  optimizer = build_optimizer()
  metrics = task.build_metrics(training=True)
  tf_keras.backend.set_learning_phase(1)

  @tf.function
  def train(iterator):
    return task.train_step(next(iterator), model, optimizer, metrics)

  fields = train_step_data.batch(case)
  fields["input_word_ids"] = fields.pop("input_ids")
  fields["input_type_ids"] = fields.pop("segment_ids")
  iterator = iter(tf.data.Dataset.from_tensors(fields).repeat())
  train_step_data.serve(lambda: float(train(iterator)["loss"]))


if __name__ == "__main__":
  main(Case.parse(sys.argv[1:]))
