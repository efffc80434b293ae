"""Fine-tunes with Hugging Face transformers and PyTorch: the plain peer.

What a user of transformers would write: its models and its tokenizer, torch's
AdamW, batches padded to their longest row. benchmarks/fine_tune.py runs it
beside our programs; of ours it takes the metrics only.

  python -m benchmarks.fine_tune_torch --task=mrpc --train=MRPC/train.tsv \
    --dev=MRPC/dev.tsv --model=hugging_face_folder --output=scores.json

Of SQuAD it writes answers by question id in the place of scores: the official
evaluators live in the other environment.

Legend: B batch, C choices, T tokens.
"""

import json
import math
import time
from functools import partial

import torch
import transformers
from absl import app, flags

from benchmarks.fine_tune_torch_tasks import IGNORED, INPUTS, TASKS

FLAGS = flags.FLAGS

flags.DEFINE_enum("task", None, list(TASKS), "What to learn.")
flags.DEFINE_string("train", None, "File to train on.")
flags.DEFINE_string("dev", None, "File to evaluate on.")
flags.DEFINE_string("model", None, "A Hugging Face folder.")
flags.DEFINE_string("output", None, "Where scores go, as JSON.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens of a row.")
flags.DEFINE_integer("batch_size", 16, "Rows a step.", 1)
flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
flags.DEFINE_float("epochs", 3.0, "Epochs to train for.")
flags.DEFINE_integer("seed", 1, "Of new layers, order and dropout.")
flags.DEFINE_enum(
  "optimizer", "adamw", ["adamw", "bert"], "torch's, or as BERT's authors'."
)
flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "Of products.")
flags.DEFINE_bool("group_by_length", False, "As transformers' Trainer can.")
flags.DEFINE_bool("compile", False, "torch.compile, for shapes that change.")
flags.mark_flags_as_required(["task", "train", "dev", "model", "output"])


class BertAdam(torch.optim.Optimizer):
  """Adam as BERT's authors had it: no bias correction of the averages.

  Arguments:
    groups: of parameters, each with its weight_decay.
    lr: the learning rate.
    betas: decay of the two averages.
    eps: added to the root of the second one.
  """

  def __init__(self, groups, lr, betas, eps):
    super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps})

  @torch.no_grad()
  def step(self, closure=None):
    """Updates every parameter that has a gradient."""
    for group in self.param_groups:
      beta_1, beta_2 = group["betas"]
      for parameter in group["params"]:
        if parameter.grad is None:
          continue
        state = self.state[parameter]
        if not state:
          state["m"] = torch.zeros_like(parameter)
          state["v"] = torch.zeros_like(parameter)
        state["m"].lerp_(parameter.grad, 1 - beta_1)
        state["v"].lerp_(parameter.grad.square(), 1 - beta_2)
        update = state["m"] / (state["v"].sqrt() + group["eps"])
        update += group["weight_decay"] * parameter
        parameter -= group["lr"] * update


def count(rows):
  """Examples; windows of the same question are one."""
  return len({row.get("id", number) for number, row in enumerate(rows)})


def collate(rows):
  """Makes a batch, padded to a multiple of 8: [B, T], [B, C, T] or [B]."""
  batch = {}
  for name in (*INPUTS, "labels", "start_positions", "end_positions"):
    if name not in rows[0]:
      continue
    values = [row[name] for row in rows]
    while isinstance(values[0], list) and isinstance(values[0][0], list):
      values = [inner for value in values for inner in value]
    if isinstance(values[0], list):
      longest = 8 * math.ceil(max(map(len, values)) / 8)
      fill = IGNORED if name == "labels" else 0
      values = [value + [fill] * (longest - len(value)) for value in values]
    batch[name] = torch.tensor(values)
    if name in INPUTS and isinstance(rows[0][name][0], list):
      batch[name] = batch[name].view(len(rows), -1, batch[name].shape[-1])
  return batch


def make_optimizer(model):
  """The optimizer of --optimizer; biases and LayerNorm do not decay."""
  decayed, kept = [], []
  for name, parameter in model.named_parameters():
    is_kept = name.endswith("bias") or "LayerNorm" in name
    (kept if is_kept else decayed).append(parameter)
  groups = [
    {"params": decayed, "weight_decay": 0.01},
    {"params": kept, "weight_decay": 0.0},
  ]
  kind = BertAdam
  if FLAGS.optimizer == "adamw":
    kind = partial(torch.optim.AdamW, fused=True)
  return kind(groups, lr=FLAGS.learning_rate, betas=(0.9, 0.999), eps=1e-6)


def epoch(rows):
  """Numbers of the rows in random order, or batches by length in such a one."""
  order = torch.randperm(len(rows)).tolist()
  if not FLAGS.group_by_length:
    return order
  size, together = FLAGS.batch_size, 50 * FLAGS.batch_size
  batches = []
  for first in range(0, len(order), together):
    part = order[first : first + together]
    part.sort(key=lambda i: length(rows[i]))
    batches += [part[i : i + size] for i in range(0, len(part), size)]
  mixed = torch.randperm(len(batches)).tolist()
  mixed.sort(key=lambda place: len(batches[place]) < size)  # a short one last
  return [number for place in mixed for number in batches[place]]


def length(row):
  """Tokens of a row; of choices, of the longest."""
  ids = row["input_ids"]
  return max(map(len, ids)) if isinstance(ids[0], list) else len(ids)


def autocast():
  """In which products are of --dtype."""
  return torch.autocast("cpu", torch.bfloat16, FLAGS.dtype == "bfloat16")


def train(model, rows, examples):
  """Trains on rows for --epochs of so many examples; returns the steps."""
  steps = int(examples / FLAGS.batch_size * FLAGS.epochs)
  optimizer = make_optimizer(model)
  schedule = transformers.get_linear_schedule_with_warmup(
    optimizer, int(0.1 * steps), steps
  )
  forward = torch.compile(model, dynamic=True) if FLAGS.compile else model
  order = []
  said = began = time.monotonic()
  model.train()
  for step in range(steps):
    while len(order) < FLAGS.batch_size:
      order += epoch(rows)
    batch = [rows[number] for number in order[: FLAGS.batch_size]]
    del order[: FLAGS.batch_size]
    with autocast():
      loss = forward(**collate(batch)).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    now = time.monotonic()
    if now - said > 20:
      left = (now - began) / (step + 1) * (steps - step - 1)
      said = now
      print(
        f"step {step + 1} of {steps}, loss {loss:.4f}, {left:.0f} s left",
        flush=True,
      )
  return steps


@torch.inference_mode()
def predict(model, rows):
  """What the model says of each row, without padding where it has [T]."""
  model.eval()
  outputs = [None] * len(rows)
  order = sorted(range(len(rows)), key=lambda i: length(rows[i]))
  for first in range(0, len(rows), 32):
    places = order[first : first + 32]
    batch = collate([rows[i] for i in places])
    with autocast():
      logits = model(**{name: batch[name] for name in INPUTS})
    for number, i in enumerate(places):
      outputs[i] = {
        key: value[number].float().numpy() for key, value in logits.items()
      }
  return outputs


def main(_):
  torch.manual_seed(FLAGS.seed)
  tokenizer = transformers.AutoTokenizer.from_pretrained(FLAGS.model)
  task = TASKS[FLAGS.task](tokenizer, FLAGS)
  began = time.monotonic()
  sizes = count(task.train), count(task.dev)
  results = {"train": sizes[0], "dev": sizes[1]}
  results["steps"] = train(task.model, task.train, sizes[0])
  results["seconds"] = time.monotonic() - began
  results["scores"] = task.score(predict(task.model, task.dev))
  with open(FLAGS.output, "w") as file:
    json.dump(results, file, indent=2)


if __name__ == "__main__":
  app.run(main)
