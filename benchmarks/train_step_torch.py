"""transformers and torch as a worker of benchmarks/train_step.py.

After the case comes the form: "stock", BertForPreTraining as it comes, whose
head scores every position; "masked", which scores the masked ones alone, as
the original does; "compiled", the same under torch.compile with fused AdamW.
"""

import sys

import torch
import transformers

from benchmarks import train_step_data
from benchmarks.train_step_data import Case

IGNORED = -100


class Masked(torch.nn.Module):
  """The loss of BertForPreTraining with its head on masked positions."""

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
  """The loss of BertForPreTraining itself."""

  def forward(self, tokens, positions, masked, labels):
    every = torch.full_like(tokens["input_ids"], IGNORED)
    every.scatter_(1, positions, masked)
    return self.model(**tokens, labels=every, next_sentence_label=labels).loss


def main(case: Case, form: str) -> None:
  torch.set_num_threads(case.threads)
  model = transformers.BertForPreTraining(
    transformers.BertConfig(
      vocab_size=train_step_data.VOCAB_SIZE,
      hidden_size=case.hidden,
      num_hidden_layers=case.layers,
      num_attention_heads=case.heads,
      intermediate_size=4 * case.hidden,
      hidden_act="gelu_new",
    )
  )
  model.train()
  is_compiled = form == "compiled"
  loss_of = Stock(model) if form == "stock" else Masked(model)
  if is_compiled:
    loss_of = torch.compile(loss_of)
  decayed = [p for p in model.parameters() if p.ndim > 1]
  others = [p for p in model.parameters() if p.ndim == 1]
  optimizer = torch.optim.AdamW(
    [{"params": decayed}, {"params": others, "weight_decay": 0.0}],
    lr=1e-4,
    weight_decay=0.01,
    fused=is_compiled,
  )
  schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, 10**6)
  fields = {
    name: torch.from_numpy(value).long()
    for name, value in train_step_data.batch(case).items()
  }
  tokens = {
    "input_ids": fields["input_ids"],
    "attention_mask": fields["input_mask"],
    "token_type_ids": fields["segment_ids"],
  }
  rest = ("masked_lm_positions", "masked_lm_ids", "next_sentence_labels")

  def step():
    with torch.autocast("cpu", torch.bfloat16, case.dtype == "bfloat16"):
      loss = loss_of(tokens, *(fields[name] for name in rest))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    return loss.item()

  train_step_data.serve(step)


if __name__ == "__main__":
  main(Case.parse(sys.argv[1:-1]), sys.argv[-1])
