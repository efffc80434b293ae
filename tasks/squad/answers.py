"""Answers questions about contexts, and locates the answers in the contexts."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from serving import answers
from serving.answers import Encoded, TextConfig, Texts
from tasks.squad import decoding
from tasks.squad.decoding import DecodingConfig, Span
from tasks.squad.examples import WORD, SquadExample
from tasks.squad.records import WindowConfig, WindowMaker

# Fields of the best answer, and fields that list the n best answers.
_NAMES = ("answer", "score", "probability", "start", "end")
_PLURALS = ("answers", "scores", "probabilities", "starts", "ends")


class Answers(answers.Answers):
  """Implements serving.answers.Answers for models of run_squad.py.

  `windows` and `decoding` are fields of a WindowConfig and a DecodingConfig.
  Without `dynamic_padding`, windows are padded to full length. Positions of
  padding may then be among the n best starts and ends, as in the original.
  """

  task = "squad"
  outputs = ("start_logits", "end_logits")

  def __init__(
    self,
    config: TextConfig,
    windows: Mapping,
    decoding: Mapping,
    dynamic_padding: bool = False,
  ):
    self.config = config
    self._windows = WindowConfig(**windows)
    self._decoding = DecodingConfig(**decoding)
    self._window_maker = WindowMaker(config.tokenizer, self._windows)
    self._dynamic_padding = dynamic_padding
    self.settings = {"windows": {**windows}, "decoding": {**decoding}}
    self.settings |= {"dynamic_padding": dynamic_padding}
    self.inputs = {"question": 0, "context": 0}

  def encode(self, texts: Texts) -> Encoded:
    words = list(WORD.finditer(texts["context"]))
    example = SquadExample("", texts["question"], [word[0] for word in words])
    windows = list(self._window_maker.windows(0, example))
    rows = []
    for window in windows:
      row = answers.row(window.ids, window.segments)
      if not self._dynamic_padding:
        padding = (0, self._windows.max_seq_length - len(window.ids))
        row = {name: np.pad(values, padding) for name, values in row.items()}
      rows.append(row)
    return Encoded(rows, (example, windows, words))

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """Returns the best answer, with scores and position in the context.

    `score` is start logit plus end logit, `probability` the softmax over the n
    best. `start` and `end` count characters, -1 if the answer is not in the
    context. Without a candidate text, the answer is "empty" with score 0, or ""
    for SQuAD 2.0. Models of SQuAD 2.0 also return `best_answer` etc. for the
    best text other than "", and `null_odds`: the score of "" minus the score of
    this text. If the odds exceed the threshold, the answer is "". `answers`
    etc. list the `export_top_k` best texts.
    """
    example, windows, words = encoded.context
    logits = [(out["start_logits"], out["end_logits"]) for out in outputs]
    rules = self.config.tokenizer, self._decoding
    predictions = decoding.decode([example], windows, logits, *rules)
    entries = predictions.nbest[""]
    spans = predictions.spans[""]

    def named(index):
      entry = entries[index]
      score = entry["start_logit"] + entry["end_logit"]
      span = position(entry["text"], spans[index], words)
      values = entry["text"], score, entry["probability"], *span
      return dict(zip(_NAMES, values, strict=True))

    texts = [entry["text"] for entry in entries]
    result = named(texts.index(predictions.answers[""]))
    if self._decoding.version_2_with_negative:
      best = named(texts.index(predictions.texts[""]))
      if not best["answer"]:  # no candidate text
        best |= {"score": 0.0, "probability": 0.0}
      result |= {f"best_{name}": value for name, value in best.items()}
      result["null_odds"] = predictions.null_odds[""]
    top = [named(i) for i in range(len(texts))[: self._decoding.export_top_k]]
    if top:
      for name, plural in zip(_NAMES, _PLURALS, strict=True):
        result[plural] = [answer[name] for answer in top]
      result["num_answers"] = len(top)
    return result


def position(
  text: str, span: Span | None, words: Sequence[re.Match]
) -> tuple[int, int]:
  """Start and end of a text in the context; -1 and -1 without `span`.

  `words`: matches of the context's words.
  """
  if span is None:
    return -1, -1
  spanned = words[span.first : span.last + 1]
  # The blank after a word gets the index of the word's end.
  index = [i for word in spanned for i in range(word.start(), word.end() + 1)]
  return index[span.begin], index[span.begin + len(text) - 1] + 1
