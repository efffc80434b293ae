"""The tasks of benchmarks/fine_tune_torch.py: rows, model and scores of each.

A row is a dict of lists: what the tokenizer makes of a text, its labels, and
what else scoring takes.

Legend: T tokens, L labels, C choices.
"""

import csv
import json
import math

import numpy as np
import transformers

from data.tasks import conll
from evaluation import conll as entities
from evaluation import metrics

# Lines of header, columns of texts, column of the label, labels (None where
# they are scores), metrics.
GLUE = {
  "mrpc": (1, (3, 4), 0, ("0", "1"), ("accuracy", "f1")),
  "rte": (1, (1, 2), 3, ("entailment", "not_entailment"), ("accuracy",)),
  "stsb": (1, (7, 8), 9, None, ("pearson", "spearman")),
  "cola": (0, (3,), 1, ("0", "1"), ("matthews_correlation",)),
  "sst2": (1, (0,), 1, ("0", "1"), ("accuracy",)),
}
INPUTS = ("input_ids", "token_type_ids", "attention_mask")
IGNORED = -100  # what torch's cross entropy leaves out


class Texts:
  """A task of GLUE: texts or pairs of them, with a class or a score."""

  def __init__(self, tokenizer, FLAGS):
    self.tokenizer, self.length = tokenizer, FLAGS.max_seq_length
    self.layout = GLUE[FLAGS.task]
    self.labels, self.metrics = self.layout[3:]
    self.train, self.dev = self.rows(FLAGS.train), self.rows(FLAGS.dev)
    self.model = transformers.BertForSequenceClassification.from_pretrained(
      FLAGS.model, num_labels=len(self.labels) if self.labels else 1
    )

  def rows(self, path):
    """Reads and encodes a file."""
    first, texts, label, *_ = self.layout
    with open(path, encoding="utf-8-sig", newline="\n") as file:
      lines = file.read().rstrip("\n").split("\n")[first:]
    table = [line.split("\t") for line in lines]
    encoded = self.tokenizer(
      *([line[column] for line in table] for column in texts),
      max_length=self.length,
      truncation=True,
    )
    number = self.labels.index if self.labels else float
    return split(encoded, labels=[number(line[label]) for line in table])

  def score(self, outputs):
    """Scores the outputs for the dev rows, each with logits [L]."""
    logits = np.stack([output["logits"] for output in outputs])
    found = logits.argmax(-1) if self.labels else logits[:, 0]
    labels = np.array([row["labels"] for row in self.dev])
    return {name: metrics.METRICS[name](found, labels) for name in self.metrics}


class Names:
  """Tags of words; a word's first piece stands for it.

  Words beyond the longest row are taken for no names.
  """

  def __init__(self, tokenizer, FLAGS):
    self.tokenizer, self.length = tokenizer, FLAGS.max_seq_length
    train, self.gold = conll.read(FLAGS.train), conll.read(FLAGS.dev)
    self.tags = conll.tag_set(train)
    self.train, self.dev = self.rows(train), self.rows(self.gold)
    self.model = transformers.BertForTokenClassification.from_pretrained(
      FLAGS.model, num_labels=len(self.tags)
    )

  def rows(self, sentences):
    """Encodes sentences; "words" says which word is labelled where."""
    encoded = self.tokenizer(
      [sentence.words for sentence in sentences],
      is_split_into_words=True,
      max_length=self.length,
      truncation=True,
    )
    words, labels = [], []
    for number, sentence in enumerate(sentences):
      places = encoded.word_ids(number)
      first = [
        word if word not in places[:i] else None
        for i, word in enumerate(places)
      ]
      words.append(first)
      labels.append(
        [
          IGNORED if word is None else self.tags.index(sentence.tags[word])
          for word in first
        ]
      )
    return split(encoded, labels=labels, words=words)

  def score(self, outputs):
    """Scores the outputs for the dev rows, each with logits [T, L]."""
    predicted = []
    for sentence, row, output in zip(self.gold, self.dev, outputs, strict=True):
      tags = [conll.OUTSIDE] * len(sentence.words)
      best = output["logits"].argmax(-1)
      for i, word in enumerate(row["words"]):
        if word is not None:
          tags[word] = self.tags[best[i]]
      predicted.append(tags)
    scores = entities.evaluate([one.tags for one in self.gold], predicted)
    return {"f1": scores.overall.f1, "accuracy": scores.accuracy}


class Choices:
  """Beginnings with several endings, in the layout of SWAG."""

  def __init__(self, tokenizer, FLAGS):
    self.tokenizer, self.length = tokenizer, FLAGS.max_seq_length
    self.train, self.dev = self.rows(FLAGS.train), self.rows(FLAGS.dev)
    self.model = transformers.BertForMultipleChoice.from_pretrained(FLAGS.model)

  def rows(self, path):
    """Reads and encodes a file; each field has C lists."""
    with open(path, encoding="utf-8", newline="") as file:
      table = list(csv.DictReader(file))
    return [self.row(line) for line in table]

  def row(self, line):
    """Encodes a line: sent1 with sent2 and each ending."""
    endings = [line[f"ending{number}"] for number in range(4)]
    encoded = self.tokenizer(
      [line["sent1"]] * len(endings),
      [f"{line['sent2']} {ending}" for ending in endings],
      max_length=self.length,
      truncation=True,
    )
    return {**encoded, "labels": int(line["label"])}

  def score(self, outputs):
    """Scores the outputs for the dev rows, each with logits [C]."""
    right = [
      output["logits"].argmax() == row["labels"]
      for row, output in zip(self.dev, outputs, strict=True)
    ]
    return {"accuracy": float(np.mean(right))}


class Questions:
  """SQuAD: questions about paragraphs, which are cut in windows."""

  doc_stride, max_query_length = 128, 64
  n_best, max_answer_length = 20, 30

  def __init__(self, tokenizer, FLAGS):
    self.tokenizer, self.length = tokenizer, FLAGS.max_seq_length
    self.has_null = FLAGS.task == "squad2"
    self.train = self.rows(FLAGS.train, is_training=True)
    self.dev = self.rows(FLAGS.dev)
    self.model = transformers.BertForQuestionAnswering.from_pretrained(
      FLAGS.model
    )

  def rows(self, path, is_training=False):
    """Reads and encodes a file, window by window."""
    with open(path, encoding="utf-8") as file:
      articles = json.load(file)["data"]
    return [
      row
      for article in articles
      for paragraph in article["paragraphs"]
      for question in paragraph["qas"]
      for row in self.windows(question, paragraph["context"], is_training)
    ]

  def windows(self, question, context, is_training):
    """Encodes a question, in as many windows as its paragraph takes."""
    asked = question["question"].strip()
    ends = self.tokenizer(
      asked, add_special_tokens=False, return_offsets_mapping=True
    )["offset_mapping"][: self.max_query_length]
    room = self.length - len(ends) - 3
    encoded = self.tokenizer(
      asked[: ends[-1][1]],
      context,
      max_length=self.length,
      truncation="only_second",
      stride=max(room - self.doc_stride, 0),  # here: tokens in common
      return_overflowing_tokens=True,
      return_offsets_mapping=True,
    )
    for number in range(len(encoded["input_ids"])):
      row = {name: encoded[name][number] for name in INPUTS}
      row["id"] = question["id"]
      row["context"] = [
        offset if part == 1 else None
        for part, offset in zip(
          encoded.sequence_ids(number),
          encoded["offset_mapping"][number],
          strict=True,
        )
      ]
      if is_training:
        start, end = span(row["context"], question)
        row |= {"start_positions": start, "end_positions": end}
      else:
        row["text"] = context
      yield row

  def score(self, outputs):
    """Answers by id; each output has start_logits and end_logits [T]."""
    best, null = {}, {}
    for row, output in zip(self.dev, outputs, strict=True):
      start, end = output["start_logits"], output["end_logits"]
      key, nothing = row["id"], float(start[0] + end[0])
      null[key] = min(null.get(key, math.inf), nothing)
      found = [best.get(key, (-math.inf, ""))]
      for i in np.argsort(-start)[: self.n_best]:
        for j in np.argsort(-end)[: self.n_best]:
          inside = max(i, j) < len(row["context"]) and (
            row["context"][i] and row["context"][j]
          )
          if inside and i <= j < i + self.max_answer_length:
            text = row["text"][row["context"][i][0] : row["context"][j][1]]
            found.append((float(start[i] + end[j]), text))
      best[key] = max(found, key=lambda pair: pair[0])
    answers = {key: text for key, (_, text) in best.items()}
    if self.has_null:
      answers = {
        key: "" if null[key] > best[key][0] else text
        for key, text in answers.items()
      }
    return answers


def span(places, question):
  """First and last token of the answer; 0, 0 where a window has none of it."""
  if question.get("is_impossible") or not question["answers"]:
    return 0, 0
  answer = question["answers"][0]
  begin = answer["answer_start"]
  end = begin + len(answer["text"])
  inside = [i for i, place in enumerate(places) if place]
  if not inside or places[inside[0]][0] > begin or places[inside[-1]][1] < end:
    return 0, 0
  within = [i for i in inside if places[i][1] > begin and places[i][0] < end]
  return (within[0], within[-1]) if within else (0, 0)


def split(encoded, **more):
  """Rows from columns: a dict for each text."""
  columns = {name: encoded[name] for name in INPUTS} | more
  return [
    dict(zip(columns, values, strict=True))
    for values in zip(*columns.values(), strict=True)
  ]


TASKS = dict.fromkeys(GLUE, Texts) | {
  "ner": Names,
  "choice": Choices,
  "squad1": Questions,
  "squad2": Questions,
}
