"""Worker: the pre-training step of transformers and torch.

In the `form` "stock", the head computes every position, in "masked" only masked
positions. "compiled" is "masked" under torch.compile with fused AdamW.
"""

import torch
import transformers

from benchmarks import cases
from benchmarks.worker import Answer

IGNORED = -100
# {argument of transformers or of `forward` here: field of a batch}
NAMES = {
  "input_ids": "input_ids",
  "attention_mask": "input_mask",
  "token_type_ids": "segment_ids",
  "positions": "masked_lm_positions",
  "masked": "masked_lm_ids",
  "labels": "next_sentence_labels",
}


class Masked(torch.nn.Module):
  """Loss of BertForPreTraining with the head on masked positions alone."""

  def __init__(self, model):
    super().__init__()
    self.model = model

  def forward(self, tokens, positions, masked, labels):
    bert, heads = self.model.bert(**tokens), self.model.cls
    rows = torch.arange(len(positions))[:, None]
    words = heads.predictions(bert.last_hidden_state[rows, positions])
    sentences = heads.seq_relationship(bert.pooler_output)
    entropy = torch.nn.functional.cross_entropy
    return entropy(words.flatten(0, 1).float(), masked.flatten()) + entropy(
      sentences.float(), labels.flatten()
    )


class Stock(Masked):
  """Loss of BertForPreTraining, with the head on all positions."""

  def forward(self, tokens, positions, masked, labels):
    all_labels = torch.full_like(tokens["input_ids"], IGNORED)
    all_labels.scatter_(1, positions, masked)
    return self.model(
      **tokens, labels=all_labels, next_sentence_label=labels
    ).loss


def adamw(model, learning_rate: float, **options) -> torch.optim.Optimizer:
  decayed = [p for p in model.parameters() if p.ndim > 1]
  not_decayed = [p for p in model.parameters() if p.ndim == 1]
  groups = [{"params": decayed}, {"params": not_decayed, "weight_decay": 0.0}]
  rates = {"lr": learning_rate, "weight_decay": 0.01}
  return torch.optim.AdamW(groups, **rates, **options)


def autocast(dtype: str) -> torch.autocast:
  return torch.autocast("cpu", torch.bfloat16, dtype == "bfloat16")


def update(model, loss, optimizer, schedule) -> None:
  loss.backward()
  torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
  optimizer.step()
  schedule.step()
  optimizer.zero_grad()


def prepare(case: str, warm_up: int, form: str) -> Answer:
  case = cases.Case.parse(case)
  sizes = case.config.to_dict() | {"hidden_act": "gelu_new"}
  model = transformers.BertForPreTraining(transformers.BertConfig(**sizes))
  model.train()
  loss_of = Stock(model) if form == "stock" else Masked(model)
  if form == "compiled":
    loss_of = torch.compile(loss_of)
  optimizer = adamw(model, 1e-4, fused=form == "compiled")
  schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, 10**6)
  arrays = cases.batch(case)
  inputs = {k: torch.from_numpy(arrays[v]).long() for k, v in NAMES.items()}
  tokens = {name: inputs.pop(name) for name in list(NAMES)[:3]}

  def step():
    with autocast(case.dtype):
      loss = loss_of(tokens, **inputs)
    update(model, loss, optimizer, schedule)
    return loss.item()

  return cases.timed_steps(step, warm_up)
