"""Worker: BertPretrainerV2 of tf-models-official, by MaskedLMTask and AdamW."""

import tensorflow as tf
import tf_keras
from official.modeling import optimization, performance
from official.nlp.configs import bert, encoders
from official.nlp.data import pretrain_dataloader
from official.nlp.tasks import masked_lm

from benchmarks import cases
from benchmarks.worker import Answer


def build_task(case: cases.Case) -> masked_lm.MaskedLMTask:
  config = case.config
  same = "vocab_size", "hidden_size", "num_attention_heads"
  same += "intermediate_size", "max_position_embeddings"
  encoder = encoders.BertEncoderConfig(
    num_layers=config.num_hidden_layers,
    **{name: getattr(config, name) for name in same},
  )
  head = bert.ClsHeadConfig(
    inner_dim=config.hidden_size, num_classes=2, name="next_sentence"
  )
  model = bert.PretrainerConfig(
    encoder=encoders.EncoderConfig(bert=encoder), cls_heads=[head]
  )
  data = pretrain_dataloader.BertPretrainDataConfig(
    use_next_sentence_label=True
  )
  config = masked_lm.MaskedLMConfig(model=model, train_data=data)
  return masked_lm.MaskedLMTask(config)


def build_optimizer():
  excluded = ["LayerNorm", "layer_norm", "bias"]
  adamw = {"weight_decay_rate": 0.01, "exclude_from_weight_decay": excluded}
  decay = {"initial_learning_rate": 1e-4, "decay_steps": 10**6}
  decay["end_learning_rate"] = 0.0
  config = optimization.OptimizationConfig(
    {
      "optimizer": {"type": "adamw", "adamw": adamw},
      "learning_rate": {"type": "polynomial", "polynomial": decay},
    }
  )
  factory = optimization.OptimizerFactory(config)
  return factory.build_optimizer(factory.build_learning_rate())


def prepare(case: str, warm_up: int) -> Answer:
  case = cases.Case.parse(case)
  performance.set_mixed_precision_policy(case.dtype)
  task = build_task(case)
  model = task.build_model()
  optimizer = build_optimizer()
  metrics = task.build_metrics(training=True)
  tf_keras.backend.set_learning_phase(1)

  @tf.function
  def train(iterator):
    return task.train_step(next(iterator), model, optimizer, metrics)

  fields = cases.batch(case)
  fields["input_word_ids"] = fields.pop("input_ids")
  fields["input_type_ids"] = fields.pop("segment_ids")
  iterator = iter(tf.data.Dataset.from_tensors(fields).repeat())
  return cases.timed_steps(lambda: float(train(iterator)["loss"]), warm_up)
