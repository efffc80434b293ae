"""Raw text to the answers of each task, by LiteRT models, without TensorFlow.

Outputs are those of the task in the graph. Legend: T tokens, L labels or
layers, H hidden, W words, M masks, K tokens for a mask.
"""

import re
from itertools import compress
from typing import ClassVar

import numpy as np

from data import features, vocab
from serving import litert
from serving.litert import LiteRtExport
from storage import UserError
from tasks.features.lines import split
from tasks.metrics import sigmoid, softmax
from tasks.ner.examples import Sentence
from tasks.ner.records import TagRecordBuilder, first_piece_values
from tasks.squad import decoding, records
from tasks.squad.examples import WORD, SquadExample


def load(path: str) -> litert.TextModel:
  """Function of raw text of an export's folder, or of a model in it."""
  export = LiteRtExport(path)
  task = export.settings.get("task")
  if task not in TASKS:
    raise UserError(
      f"{path}: {litert.SETTINGS} names the task {task!r}, not one of "
      f"{', '.join(TASKS)}"
    )
  return TASKS[task](export)


class _PackedText(litert.TextModel):
  ranks: ClassVar = {"text": 0}

  def __init__(self, export: LiteRtExport):
    super().__init__(export)
    # Longer than the encoder's rows where the model cuts texts into windows.
    length = export.settings.get("max_length", export.max_seq_length)
    self.packer = features.TextPacker(export.tokenizer, length)


class Classification(_PackedText):
  """Texts or text pairs to labels or scores."""

  def __init__(self, export: LiteRtExport):
    super().__init__(export)
    if export.settings["pairs"]:
      self.ranks = {"text_a": 0, "text_b": 0}

  def answer(self, **texts: str) -> dict:
    """The label or labels with the probabilities of all, or a score."""
    row = self.packer.pack(*(texts[name] for name in self.ranks))
    logits = self.export.run_row(*row)["logits"]
    labels = self.export.labels
    if labels is None:
      return {"score": float(logits[0])}
    if thresholds := self.export.settings.get("thresholds"):
      probabilities = sigmoid(logits)
      is_predicted = probabilities >= np.array(thresholds, np.float32)
      predicted = list(compress(labels, is_predicted))
      return {
        "predicted": predicted,
        "num_predicted": len(predicted),
        "labels": labels,
        "probabilities": probabilities.tolist(),
      }
    return {
      "label": labels[logits.argmax()],
      "labels": labels,
      "probabilities": softmax(logits).tolist(),
    }


class FeatureExtraction(_PackedText):
  """Texts to vectors of tokens and of texts."""

  def answer(self, text: str) -> dict:
    """Vectors [L, H] of the text and [T, L, H] of its tokens."""
    ids, segments = self.packer.pack(*split(text))
    values = self.export.run_row(ids, segments)["values"]
    if values.ndim == 2:  # of a text's windows
      return {"sentence": values.tolist()}
    is_cls = self.export.settings["pooling"] == "cls"
    return {
      "num_tokens": len(ids),
      "sentence": (values[0] if is_cls else values.mean(0)).tolist(),
      "token_vectors": values.tolist(),
      "tokens": self.export.tokenizer.convert_ids_to_tokens(ids),
    }


class MultipleChoice(_PackedText):
  """Contexts with endings to the most probable ending."""

  ranks: ClassVar = {"choices": 1, "sent1": 0, "sent2": 0}

  def answer(self, sent1: str, sent2: str, choices: list[str]) -> dict:
    """Number and text of an ending, and the probabilities of all."""
    rows = [
      self.packer.pack(sent1, f"{sent2} {ending}", keep_empty=True)
      for ending in choices
    ]
    length = max(len(ids) for ids, _ in rows)
    inputs = [features.pad_inputs(*row, length) for row in rows]
    logits = self.export.run(
      **{name: [row[name] for row in inputs] for name in inputs[0]}
    )["logits"]
    best = int(logits.argmax())
    return {
      "choice": best,
      "probabilities": softmax(logits).tolist(),
      "text": choices[best],
    }


class FillMask(_PackedText):
  """Texts with [MASK] to the most probable tokens."""

  def answer(self, text: str) -> dict:
    """Tokens and probabilities, [M, K] each, and the number of masks."""
    words = self.export.tokenizer.vocab
    mask, ids = words[vocab.MASK], []
    for number, part in enumerate(text.split(vocab.MASK)):
      ids += [mask] * (number > 0) + self.packer.token_ids(part)
    del ids[self.export.max_seq_length - 2 :]
    ids, segments = features.pack(ids, None, words[vocab.CLS], words[vocab.SEP])
    positions = [i for i, token in enumerate(ids) if token == mask]
    if not positions:
      return {"num_masks": 0, "probabilities": [], "tokens": []}
    outputs = self.export.run_row(ids, segments, masked_lm_positions=positions)
    vocab_ids = np.unique([i for token, i in words.items() if token])
    logits = outputs["masked_lm_logits"][:, vocab_ids]
    top_k = self.export.settings["top_k"]
    best = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]
    probs = np.take_along_axis(softmax(logits), best, -1)
    to_tokens = self.export.tokenizer.convert_ids_to_tokens
    return {
      "num_masks": len(positions),
      "probabilities": probs.tolist(),
      "tokens": [to_tokens(vocab_ids[row].tolist()) for row in best],
    }


class TokenClassification(litert.TextModel):
  """Sentences to tags of their words."""

  ranks: ClassVar = {"tokens": 0}

  def __init__(self, export: LiteRtExport):
    super().__init__(export)
    self._build = TagRecordBuilder(
      export.tokenizer, export.max_seq_length, export.labels
    )

  def answer(self, tokens: str) -> dict:
    """Words, [W], with their tags, probabilities [W, L] and positions."""
    spans = list(re.finditer(r"[^ \t\r\n]+", tokens))
    words = [span[0] for span in spans]
    logits = np.zeros([0, len(self.export.labels)], np.float32)
    if words:
      parts = [
        first_piece_values(self._logits(row)[None], [window])
        for row, window in self._build([Sentence(words, None)])
      ]
      logits = np.concatenate(parts)
    return {
      "end": [span.end() for span in spans],
      "labels": self.export.labels,
      "num_words": len(words),
      "probabilities": softmax(logits).tolist(),
      "start": [span.start() for span in spans],
      "tags": [self.export.labels[i] for i in logits.argmax(-1)],
      "words": words,
    }

  def _logits(self, row):
    length = sum(row["input_mask"])
    return self.export.run_row(
      row["input_ids"][:length], row["segment_ids"][:length]
    )["logits"]


class QuestionAnswering(litert.TextModel):
  """Questions about contexts to answers."""

  ranks: ClassVar = {"context": 0, "question": 0}

  def __init__(self, export: LiteRtExport):
    super().__init__(export)
    settings = export.settings
    self._windows = records.WindowConfig(**settings["windows"])
    self._decoding = decoding.DecodingConfig(**settings["decoding"])
    self._dynamic_padding = settings["dynamic_padding"]

  def answer(self, question: str, context: str) -> dict:
    """The best answer, its scores and where it is in the context."""
    words = list(WORD.finditer(context))
    examples = [SquadExample("", question, [word[0] for word in words])]
    tokenizer = self.export.tokenizer
    windows = list(records.make_windows(examples, tokenizer, self._windows))
    answer_text = _AnswerText(tokenizer, [word.start() for word in words])
    predictions = decoding.decode(
      examples,
      windows,
      map(self._logits, windows),
      answer_text,
      self._decoding,
    )
    entries = [answer_text.outputs(entry) for entry in predictions.nbest[""]]
    text = predictions.answers[""]
    result = next(entry for entry in entries if entry["answer"] == text)
    if self._decoding.version_2_with_negative:
      texts = (entry for entry in entries if entry["answer"])
      no_text = result | {"score": 0.0, "probability": 0.0}
      best = {f"best_{k}": v for k, v in next(texts, no_text).items()}
      result = result | best | {"null_odds": predictions.null_odds[""]}
    if top := entries[: self._decoding.export_top_k]:
      plural = ("answers", "scores", "probabilities", "starts", "ends")
      columns = zip(*(entry.values() for entry in top), strict=True)
      result |= dict(zip(plural, map(list, columns), strict=True))
      result["num_answers"] = len(top)
    return result

  def _logits(self, window):
    segments = [0] * window.context_offset
    segments += [1] * (len(window.ids) - len(segments))
    if self._dynamic_padding:
      outputs = self.export.run_row(window.ids, segments)
    else:
      length = self._windows.max_seq_length
      inputs = features.pad_inputs(window.ids, segments, length)
      outputs = self.export.run(**inputs)
    return outputs["start_logits"], outputs["end_logits"]


class _AnswerText(decoding.AnswerText):
  """AnswerText that notes the first span of the context with each text."""

  def __init__(self, tokenizer, starts: list[int]):
    super().__init__(tokenizer)
    self._starts = starts
    self._spans = {}

  def text(self, words, window, start, end):
    text = super().text(words, window, start, end)
    first = window.token_word_ids[start - window.context_offset]
    last = window.token_word_ids[end - window.context_offset]
    spanned = words[first : last + 1]
    starts = self._starts[first : last + 1]
    index = [
      start + i
      for start, word in zip(starts, spanned, strict=True)
      for i in range(len(word) + 1)  # a blank follows
    ]
    begin = " ".join(spanned).find(text)
    span = index[begin], index[begin + len(text) - 1] + 1
    self._spans.setdefault(text, span)
    return text

  def outputs(self, entry: dict) -> dict:
    start, end = self._spans.get(entry["text"], (-1, -1))
    return {
      "answer": entry["text"],
      "score": entry["start_logit"] + entry["end_logit"],
      "probability": entry["probability"],
      "start": start,
      "end": end,
    }


# By the folder of the task that made the export.
TASKS = {
  "classification": Classification,
  "features": FeatureExtraction,
  "multiple_choice": MultipleChoice,
  "ner": TokenClassification,
  "pretraining": FillMask,
  "squad": QuestionAnswering,
}
