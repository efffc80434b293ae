"""Logits of windows become answers and lists of the n best answers."""

import math

import numpy as np
import pytest

from data.tokenization import FullTokenizer
from tasks.squad import answers
from tasks.squad.answers import DecodingConfig
from tasks.squad.examples import SquadExample
from tasks.squad.records import WindowConfig, make_windows
from tests.parity import golden_files

TOKENIZER = FullTokenizer(golden_files.GOLDEN / "vocab.txt")
V2 = {"version_2_with_negative": True}

# [CLS] who ? [SEP] steve smith ' s river - boat . [SEP]
#   0    1  2   3     4     5   6 7   8   9  10 11   12
STEVE = "Steve Smith's river-boat."


def question(text=STEVE):
  return SquadExample("q", "Who?", [word for word in text.split(" ") if word])


def cut_windows(examples, lengths=(16, 4, 4)):
  return list(make_windows(examples, TOKENIZER, WindowConfig(*lengths)))


def scores(length=16, **at):
  """Returns start and end logits: 0, but s4=3.0 sets the start logit 4."""
  start, end = np.zeros(length), np.zeros(length)
  for key, value in at.items():
    (start if key[0] == "s" else end)[int(key[1:])] = value
  return start, end


def answer(logits, text=STEVE, **chosen):
  """Returns answer, n-best list and null odds of one question."""
  examples = [question(text)]
  rules = TOKENIZER, DecodingConfig(**chosen)
  decoded = answers.decode(examples, cut_windows(examples), logits, *rules)
  return decoded.answers["q"], decoded.nbest["q"], decoded.null_odds.get("q")


def texts(nbest):
  return [entry["text"] for entry in nbest]


def test_logits_are_added_in_float64():
  logits = [scores(s4=1.0, s5=1.0, e5=2**-30)]
  assert answer(logits, max_answer_length=1)[0] == "Smith"


def test_spans_of_equal_score_keep_their_order():
  """There are so many spans that an unstable sort would change the order."""
  words = [word for word in TOKENIZER.vocab if word.isalpha()][:40]
  examples = [question(" ".join(words))]
  [window] = cut_windows(examples, (128, 4, 4))
  starts = np.arange(128) % 3.0
  logits, config = [(starts, np.zeros(128))], DecodingConfig(20, 4)
  decoded = answers.decode(examples, [window], logits, TOKENIZER, config)
  # The best starts are 2, 5, 8, ..., the best ends 0 to 19. Words begin at 4.
  assert texts(decoded.nbest["q"]) == [
    " ".join(words[start - 4 : end - 3])
    for start in range(5, 20, 3)
    for end in range(start, min(start + 4, 20))
  ]


def test_in_squad_2_the_answer_is_empty_if_no_span_is_in_the_paragraph():
  # The best starts and ends are all outside the paragraph.
  null = {"probability": 1.0, "start_logit": 5.0, "end_logit": 5.0}
  result = answer([scores(s0=5, e0=5)], n_best_size=1, **V2)
  assert result == ("", [{"text": "", **null}], answers.NO_ANSWER_ODDS)
  with pytest.raises(ValueError, match="zip"):  # each window needs logits
    answer([])


@pytest.mark.parametrize("text", ["", "\u200b"])
def test_a_paragraph_without_tokens_has_no_answer(text):
  null = {"probability": 1.0, "start_logit": 0.0, "end_logit": 0.0}
  result = answer([], text=text, **V2)
  assert result == ("", [{"text": "", **null}], answers.NO_ANSWER_ODDS)
  # Version 1.1 says "empty", as the original does.
  result = answer([], text=text)
  assert result == ("empty", [{"text": "empty", **null}], None)


def _ensemble(*logits):
  """Stacks M models' start and end logits for a window: [T, M] each."""
  return [np.stack(values, axis=-1) for values in zip(*logits, strict=True)]


def test_an_ensemble_averages_the_probabilities_of_the_n_best_answers():
  first, second = scores(s4=3, s5=1, e5=2), scores(s5=9, e5=4, e8=1)
  _, [a, b], _ = answer([first], n_best_size=2)
  _, [c, d], _ = answer([second], n_best_size=2)
  assert (a["text"], b["text"], c["text"]) == ("Steve Smith", "Smith", "Smith")
  text, nbest, _ = answer([_ensemble(first, second)], n_best_size=2)
  assert text == "Smith"
  means = [(b["probability"] + c["probability"]) / 2, a["probability"] / 2]
  assert [math.exp(e["start_logit"]) for e in nbest] == pytest.approx(means)
  assert texts(nbest) == ["Smith", "Steve Smith"]
  assert d["text"] == "Smith's river"


def _sure(text, null):
  """Returns logits: `text` for the span Steve Smith, `null` for no answer."""
  logits = np.full((2, 16), -9.0)
  logits[0, 4] = logits[1, 5] = text
  logits[:, 0] = null
  return logits


def test_an_ensemble_lists_no_answer_after_the_n_best():
  answered = _sure(1, 0)
  _, nbest, _ = answer([_ensemble(answered, answered)], n_best_size=1, **V2)
  assert texts(nbest) == ["Steve Smith", ""]
  # A probability of zero has no logarithm.
  logits = [_ensemble(_sure(0, 999), _sure(0, 999))]
  _, _, odds = answer(logits, n_best_size=2, **V2)
  assert odds == pytest.approx(-math.log(answers.LEAST_PROBABILITY))
