"""Worker: fine-tuning with transformers and torch, as users would write it.

AdamW has no bias correction, like BERT's Adam.
"""

import itertools
import json
import sys
import time

import numpy as np
import torch
import transformers
from torch.utils.data import DataLoader, RandomSampler
from transformers.trainer_pt_utils import LengthGroupedSampler

from benchmarks.worker import Answer
from benchmarks.workers import squad_torch, train_torch
from benchmarks.workers.squad_torch import INPUTS

# SQuAD: tokens from one window's start to the next, and usual tokens of a
# question with [CLS] and [SEP].
STRIDE, QUESTION = 128, 16
PADDING = transformers.DataCollatorWithPadding


def prepare(**config) -> Answer:
  """Makes a function that trains, and returns `predictions` for the dev data.

  The configuration's `data` is a JSON file. Its "train" and "dev" are articles
  of SQuAD, or rows. A file of rows also has "labels" or "tags".
  """

  def answer():
    torch.manual_seed(config["seed"])
    with open(config["data"], encoding="utf-8") as file:
      data = json.load(file)
    tokenizer = transformers.AutoTokenizer.from_pretrained(config["model"])
    kinds = {"labels": Classification, "tags": Tagging}
    make = next((kinds[name] for name in kinds if name in data), Questions)
    task = make(tokenizer, config, data)
    collate = task.collator(tokenizer, pad_to_multiple_of=8)
    # An epoch of SQuAD has as many examples as questions, as in the original.
    size = getattr(task, "num_examples", len(task.train))
    steps = int(size / config["batch_size"] * config["epochs"])
    train(task.model, task.train, collate, config, steps)
    collate = PADDING(tokenizer, pad_to_multiple_of=8)
    outputs = predict(task.model, task.dev, collate, config["dtype"])
    return {"predictions": task.decode(outputs)}

  return answer


class Classification:
  """A task of GLUE: one or two texts, and a class or a score."""

  collator = PADDING

  def __init__(self, tokenizer, config, data):
    self.labels, self.length = data["labels"], config["max_seq_length"]
    self.tokenizer = tokenizer
    self.train, self.dev = (self.rows(data[name]) for name in ("train", "dev"))
    self.model = transformers.BertForSequenceClassification.from_pretrained(
      config["model"], num_labels=len(self.labels or [""])
    )

  def rows(self, examples):
    first, second, labels = zip(*examples, strict=True)
    texts = (first, second) if all(second) else (first,)
    encoded = self.tokenizer(
      *map(list, texts), max_length=self.length, truncation=True
    )
    to_number = self.labels.index if self.labels else float
    return [
      {name: encoded[name][i] for name in INPUTS} | {"labels": to_number(label)}
      for i, label in enumerate(labels)
    ]

  def decode(self, outputs):
    logits = [output["logits"] for output in outputs]
    if self.labels:
      return [int(values.argmax()) for values in logits]
    return [float(values[0]) for values in logits]


class Tagging:
  """Sentences with a tag per word, predicted at the word's first token."""

  collator = transformers.DataCollatorForTokenClassification

  def __init__(self, tokenizer, config, data):
    self.tags, self.length = data["tags"], config["max_seq_length"]
    self.tokenizer = tokenizer
    self.train, self.dev = ([*self.rows(data[n])] for n in ("train", "dev"))
    self.sizes = [len(words) for words, _ in data["dev"]]
    self.model = transformers.BertForTokenClassification.from_pretrained(
      config["model"], num_labels=len(self.tags)
    )

  def rows(self, sentences):
    for words, tags in sentences:
      row = self.tokenizer(
        words, is_split_into_words=True, max_length=self.length, truncation=True
      )
      labels = [  # at the first token of a word, else -100
        -100 if word in (None, before) else self.tags.index(tags[word])
        for before, word in itertools.pairwise([None, *row.word_ids()])
      ]
      yield {name: row[name] for name in INPUTS} | {"labels": labels}

  def decode(self, outputs):
    """Tags of the words of each sentence; "O" where tokens were cut off."""
    result = []
    for output, row, size in zip(outputs, self.dev, self.sizes, strict=True):
      ids = output["logits"].argmax(-1)[: len(row["labels"])]
      tags = [self.tags[i] for i in ids[np.array(row["labels"]) != -100]]
      result.append(tags + ["O"] * (size - len(tags)))
    return result


class Questions:
  """SQuAD: questions about paragraphs, in windows."""

  collator = PADDING

  def __init__(self, tokenizer, config, data):
    length = config["max_seq_length"]
    lengths = length, max(length - STRIDE - QUESTION, 0)
    questions = list(read(data["train"]))
    self.dev_questions = list(read(data["dev"]))
    windows, self.dev_windows = (
      squad_torch.windows(tokenizer, [row[1:3] for row in rows], *lengths)
      for rows in (questions, self.dev_questions)
    )
    self.num_examples = len(questions)
    self.train = []
    for window in windows:
      start, end = squad_torch.span(window, questions[window.pair][3])
      positions = {"start_positions": start, "end_positions": end}
      self.train.append(window.inputs | positions)
    self.dev = [window.inputs for window in self.dev_windows]
    self.model = transformers.BertForQuestionAnswering.from_pretrained(
      config["model"]
    )

  def decode(self, outputs):
    logits = [(row["start_logits"], row["end_logits"]) for row in outputs]
    ids, texts, contexts, _ = zip(*self.dev_questions, strict=True)
    pairs = list(zip(texts, contexts, strict=True))
    answers = squad_torch.answers(self.dev_windows, logits, pairs)
    return dict(zip(ids, answers, strict=True))


def read(articles):
  """Yields id, text, context, and first answer or None, for each question."""
  for article in articles:
    for paragraph in article["paragraphs"]:
      for question in paragraph["qas"]:
        answer = next(iter(question["answers"]), None)
        text = question["question"].strip()
        yield question["id"], text, paragraph["context"], answer


def train(model, rows, collate, config, steps):
  """Trains with a warm-up over 10 % of the steps and a linear decay."""
  size = config["batch_size"]
  optimizer = train_torch.adamw(
    model, config["learning_rate"], eps=1e-6, fused=True
  )
  for parameter in model.parameters():  # at step 10^6 bias corrections are 1
    zeros = {k: torch.zeros_like(parameter) for k in ("exp_avg", "exp_avg_sq")}
    optimizer.state[parameter] = zeros | {"step": torch.tensor(1e6)}
  sampler = RandomSampler(rows)
  if config["group_by_length"]:
    lengths = [len(row["input_ids"]) for row in rows]
    sampler = LengthGroupedSampler(size, lengths=lengths)
  batches = DataLoader(rows, size, sampler=sampler, collate_fn=collate)
  schedule = transformers.get_linear_schedule_with_warmup(
    optimizer, int(0.1 * steps), steps
  )
  model.train()
  epochs = itertools.chain.from_iterable(itertools.repeat(batches))
  for step, batch in enumerate(itertools.islice(epochs, steps), 1):
    with train_torch.autocast(config["dtype"]):
      loss = model(**batch).loss
    train_torch.update(model, loss, optimizer, schedule)
    if step % 50 == 0:
      now = time.strftime("%H:%M:%S")
      print(now, f"step {step} of {steps}", file=sys.stderr, flush=True)


@torch.inference_mode()
def predict(model, rows, collate, dtype):
  model.eval()
  outputs = [None] * len(rows)
  order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
  for first in range(0, len(rows), 32):
    numbers = order[first : first + 32]
    batch = collate([{n: rows[i][n] for n in INPUTS} for i in numbers])
    with train_torch.autocast(dtype):
      logits = {k: v.float().numpy() for k, v in model(**batch).items()}
    for row, i in enumerate(numbers):
      outputs[i] = {name: values[row] for name, values in logits.items()}
  return outputs
