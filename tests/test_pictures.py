"""Pictures of a model: the numbers behind them, and files small enough."""

import numpy as np
import pytest

from data.tokenization import FullTokenizer
from data.vocab import SPECIAL_TOKENS
from experiments.reading import Reading, attention_table, read
from modeling import models
from modeling.config import BertConfig
from tests import programs, small_model
from training import checkpoint

WORDS = [*SPECIAL_TOKENS, *"abcde."]


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("pictures")
  sizes = {"num_hidden_layers": 2, "max_position_embeddings": 8}
  small_model.write(folder, WORDS, **sizes)
  model = models.pretrainer(small_model.config(len(WORDS), **sizes))
  checkpoint.write(str(folder / "a.ckpt"), checkpoint.variables(model))
  return folder


def _given(folder):
  return {
    "bert_config_file": str(folder / "bert_config.json"),
    "vocab_file": str(folder / "vocab.txt"),
    "init_checkpoint": str(folder / "a.ckpt"),
    "text": "a b [MASK] d.",
    "output_dir": str(folder / "out"),
  }


@pytest.mark.slow
def test_pictures_are_drawn_and_small(folder):
  log = programs.python(
    ["-m", "experiments.pictures"]
    + [f"--{name}={value}" for name, value in _given(folder).items()]
  ).stderr
  for name in ("attention.png", "fill.png"):
    path = folder / "out" / name
    assert path.read_bytes()[1:4] == b"PNG", log
    assert path.stat().st_size < 100_000


@pytest.mark.parametrize("attention", ["bidirectional", "left_to_right"])
def test_what_is_drawn_is_what_the_model_does(folder, attention):
  given = _given(folder)
  tokenizer = FullTokenizer(given["vocab_file"])
  config = BertConfig.from_dict(
    BertConfig.from_json(given["bert_config_file"]).to_dict()
    | {"attention": attention}
  )
  reading = read("a b [MASK] d.", config, tokenizer, given["init_checkpoint"])
  assert reading.tokens == ["[CLS]", "a", "b", "[MASK]", "d", ".", "[SEP]"]
  assert reading.attention.shape == (2, 2, 7, 7)
  np.testing.assert_allclose(reading.attention.sum(axis=-1), 1, atol=1e-5)
  above = np.triu(np.ones((7, 7)), 1) > 0
  assert (reading.attention[..., above] == 0).all() == (
    attention != "bidirectional"
  )
  model = models.pretrainer(config, next_sentence=False)
  checkpoint.restore(model, given["init_checkpoint"])
  ids = np.array([tokenizer.convert_tokens_to_ids(reading.tokens)])
  logits = model(
    {
      "input_ids": ids,
      "input_mask": np.ones_like(ids),
      "segment_ids": np.zeros_like(ids),
      "masked_lm_positions": np.array([[3]]),
    }
  )["masked_lm_logits"].numpy()[0, 0]
  shares = np.exp(logits) / np.exp(logits).sum()
  np.testing.assert_allclose(reading.guesses[-1], shares, atol=1e-6)


def test_a_text_without_a_hole_is_refused(folder):
  tokenizer = FullTokenizer(_given(folder)["vocab_file"])
  with pytest.raises(ValueError, match=r"there is no \[MASK\] in 'a b'"):
    read("a b", BertConfig(len(WORDS)), tokenizer, "nowhere")


def test_two_texts_are_two_segments(folder):
  given = _given(folder)
  config = BertConfig.from_json(given["bert_config_file"])
  tokenizer = FullTokenizer(given["vocab_file"])
  one, two = (
    read(text, config, tokenizer, given["init_checkpoint"])
    for text in ("a [MASK] b a", "a [MASK] ||| b a")
  )
  assert two.tokens == ["[CLS]", "a", "[MASK]", "[SEP]", "b", "a", "[SEP]"]
  assert np.abs(two.attention[:, :, :3, :3] - one.attention[:, :, :3, :3]).max()
  assert attention_table([two]).split()[8] == "same"


def test_the_table_says_where_heads_look():
  before = np.array([[0.5, 0.2, 0.3], [0.9, 0.1, 0], [0, 0.6, 0.4]])
  heads = np.stack([before, before[::-1]])[None]
  reading = Reading(["[CLS]", "a", "[SEP]"], heads, np.zeros((1, 4)))
  title, first, second = attention_table([reading, reading]).splitlines()
  assert title.split()[2:5] == ["itself", "before", "after"]
  values = [float(value) for value in first.split()[2:]]
  assert values == [33.3, 75.0, 10.0, 46.7, 23.3, 0.0]
  assert [float(value) for value in second.split()[2:5]] == [13.3, 55.0, 30.0]


def test_the_table_says_how_much_a_word_looks_at_its_equals():
  heads = np.array([[0.2, 0.7, 0.1], [0.0, 0.5, 0.5], [0.4, 0.3, 0.3]])
  words = Reading(["a", "[MASK]", "a"], heads[None, None], np.zeros((1, 4)))
  title, line = attention_table([words]).splitlines()
  assert title.split()[-1] == "same"
  assert float(line.split()[-1]) == 25.0
