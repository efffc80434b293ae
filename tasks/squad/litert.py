"""Questions about contexts to answers, by a LiteRT model."""

from data import features
from serving import litert
from tasks.squad import decoding, records
from tasks.squad.examples import WORD, SquadExample

_NO_TEXT = {
  "answer": "",
  "score": 0.0,
  "probability": 0.0,
  "start": -1,
  "end": -1,
}


class Model(litert.TextModel):
  """Outputs as those of tasks/squad/serving.py."""

  def __init__(self, export: litert.LiteRtExport):
    super().__init__(export)
    self.ranks = {"context": 0, "question": 0}
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
      {window.unique_id: self._logits(window) for window in windows},
      tokenizer,
      self._decoding,
      answer_text,
    )
    entries = [
      _entry(entry, answer_text.positions) for entry in predictions.nbest[""]
    ]
    text = predictions.answers[""]
    result = next(entry for entry in entries if entry["answer"] == text)
    if self._decoding.version_2_with_negative:
      texts = (entry for entry in entries if entry["answer"])
      best = {f"best_{k}": v for k, v in next(texts, _NO_TEXT).items()}
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
  """AnswerText that notes where in the context the texts are.

  Arguments:
    tokenizer: of the model.
    starts: index of each word's first character.

  Attributes:
    positions: begin and end of the first span with each text.
  """

  def __init__(self, tokenizer, starts: list[int]):
    super().__init__(tokenizer)
    self._starts = starts
    self.positions = {}

  def text(self, words, window, start, end):
    """See AnswerText."""
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
    self.positions.setdefault(text, span)
    return text


def _entry(entry, positions):
  """Outputs of an entry of nbest_predictions.json."""
  start, end = positions.get(entry["text"], (-1, -1))
  return {
    "answer": entry["text"],
    "score": entry["start_logit"] + entry["end_logit"],
    "probability": entry["probability"],
    "start": start,
    "end": end,
  }
