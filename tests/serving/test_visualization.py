"""visualize.py's page shows the model's numbers and escapes texts."""

import base64
import json
import re
import zlib
from dataclasses import replace

import keras
import numpy as np
import pytest

from modeling import models
from serving import savedmodel, visualization
from serving.export import ServedModel
from storage import UserError
from tasks.pretraining import answers as pretraining
from tests.serving import stand_in, tasks
from tests.shared import slow

ENSEMBLE = "questions by three"
EVIL = "</script><b>{{style}} <!-- é"


def _read(served, texts):
  return visualization.compute(served, visualization.encode(served, texts))


def _served(**changes):
  """Returns a two-layer model that fills masks, with configuration changes."""
  keras.utils.set_random_seed(1)
  config = replace(tasks.CONFIG, num_hidden_layers=2, **changes)
  answers = pretraining.Answers(tasks.text_config(), 3)
  return ServedModel(models.pretrainer(config), answers)


@pytest.mark.parametrize(
  "name", [slow(n) if "by" in n else n for n in tasks.NAMES if n != ENSEMBLE]
)
def test_the_page_of_every_task_has_answer_and_attention(every_task, name):
  served = every_task[name]
  [texts] = tasks.make_examples(served.answers, ["ab ."])
  result = _read(served, texts)
  [expected] = savedmodel.text_model(served)([texts])
  tasks.assert_same(result.answer, expected)
  assert result.layers == [("0", "bidirectional")]
  for sequence in result.sequences:
    count = len(sequence.ids)
    assert sequence.attention.shape == (1, 2, count, count)
    np.testing.assert_allclose(sequence.attention.sum(-1), 1, atol=1e-5)
    assert (sequence.attention[..., sequence.length :] == 0).all()
    assert sequence.length <= count <= sequence.length + 3
  # Short choices and windows are padded to the longest.
  padding = [len(s.ids) - s.length for s in result.sequences]
  assert max(padding) == (3 if name in ("choices", "questions") else 0)
  undecided = {"tagging", "tagging by features", "vectors", "masks"}
  assert bool(result.decided) == (name not in undecided)
  data = _data(visualization.render(served, result, texts, "m"))
  assert data["texts"] == texts and data["decided"] == result.decided
  assert bool(result.decided) == any("decided" in s for s in data["sequences"])


def test_the_page_has_the_attention_of_every_layer():
  served = _served()
  encoded = visualization.encode(served, {"text": "ab [MASK] c"})
  [sequence] = visualization.compute(served, encoded).sequences
  bert = served.model.get_layer("bert")
  inputs = next(visualization._inputs(encoded.rows[0]))
  outputs = bert(**inputs)
  hidden = [outputs["embedding_output"], *outputs["encoder_layers"]]
  mask = inputs["input_mask"][:, None]
  for layer, block in enumerate(bert.encoder.blocks):
    attention = block.attention.self_attention
    values = np.asarray(attention.value(hidden[layer])).reshape(-1, 2, 4)
    context = np.einsum("aqk,kad->qad", sequence.attention[layer], values)
    expected = attention(hidden[layer], hidden[layer], mask)[0]
    context = context.reshape(expected.shape)
    np.testing.assert_allclose(context, expected, atol=1e-5)


def test_the_page_has_the_norms_of_three_embeddings_and_their_sum():
  served = _served()
  [sequence] = _read(served, {"text": "ab c", "text_pair": "d"}).sequences
  embeddings = served.model.get_layer("bert").embeddings
  vectors = {
    "token": embeddings.word_embeddings.numpy()[sequence.ids],
    "segment": embeddings.token_type_embeddings.numpy()[sequence.segments],
    "position": embeddings.position_embeddings.numpy()[: len(sequence.ids)],
  }
  vectors["sum"] = sum(vectors.values())
  assert vectors.keys() == sequence.values.keys()
  for name, values in vectors.items():
    expected = np.linalg.norm(values, axis=-1)
    np.testing.assert_allclose(sequence.values[name], expected, rtol=1e-5)


def test_a_shallow_model_shows_both_encoders_one_after_the_other(every_task):
  config = replace(tasks.CONFIG, attention="shallow")
  answers = every_task["classification"].answers
  served = ServedModel(models.classifier(config, 2), answers)
  result = _read(served, {"text": "ab c d"})
  assert result.layers == [("0", "left_to_right"), ("0", "right_to_left")]
  forward, backward = result.sequences[0].attention
  hidden = np.triu(np.ones(forward.shape[1:]), 1) > 0
  for attention in (forward, backward.swapaxes(1, 2)):
    assert (attention[:, hidden] == 0).all()
    assert (attention[:, ~hidden] > 0).all()


def test_a_layer_fills_masks_like_a_model_that_ends_with_this_layer():
  served, texts = _served(), {"text": "ab [MASK] c [MASK]"}
  values = {variable.path: variable for variable in served.model.weights}
  config = served.model.get_layer("bert").config
  model = models.pretrainer(replace(config, num_hidden_layers=1))
  for variable in model.weights:
    variable.assign(values[variable.path])
  [expected] = savedmodel.text_model(ServedModel(model, served.answers))(
    [texts]
  )
  result = _read(served, texts)
  tasks.assert_same(result.filled["layer 0"], expected)
  assert list(result.filled) == ["embeddings", "layer 0", "layer 1"]
  tasks.assert_same(result.filled["layer 1"], result.answer)


def test_the_span_with_the_score_of_the_answer_is_marked():
  outputs = [
    {"start_logits": np.float32(start), "end_logits": np.float32([5, 2, 0])}
    for start in ([0, 1, 2], [1, 3, 9])
  ]
  spans = {5.0: (0, 0, 0), 3.000001: (0, 1, 1), 9.0: (1, 2, 2), 11.0: None}
  for score, span in spans.items():  # 9 + 2 would end before it starts
    assert visualization._find_span(outputs, score) == span


CONTEXT = "c d e . ab c d e a b . ab"
# Texts, and a pattern of the decision's name.
DECISIONS = {
  "classification": ({"text": "ab c d"}, '"(no|yes)"'),
  "scores": ({"text_a": "ab c", "text_b": "d"}, "a high score"),
  "masks": ({"text": "ab [MASK] c [MASK]"}, r'".+" for \[MASK\] 1'),
  "questions": ({"question": "ab", "context": CONTEXT}, 'no answer|"[a-e. ]+"'),
  "choices": (
    {"sent1": "a", "sent2": "c", "choices": [*"abcde"] * 7},
    '"[a-e]"',
  ),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_contributions_are_the_slopes_of_the_logit_that_decides(
  every_task, monkeypatch, name
):
  served, (texts, pattern) = every_task[name], DECISIONS[name]
  encoded = visualization.encode(served, texts)
  result = visualization.compute(served, encoded)
  [number] = [
    i for i, s in enumerate(result.sequences) if "decided" in s.values
  ]
  sequence = result.sequences[number]
  values, answer = sequence.values["decided"], result.answer
  assert re.fullmatch(pattern, result.decided)
  row = encoded.rows[number // 32 if name == "choices" else number]
  scale = np.ones([row["input_ids"].shape[-1], 1], np.float32)
  norm = served.model.get_layer("bert").embeddings.norm
  plain = norm.call
  monkeypatch.setattr(norm, "call", lambda x, **_: plain(x) * scale)

  def logit(factor, tokens):
    scale[tokens] = factor
    inputs = {key: value[None] for key, value in row.items()}
    outputs = {k: v.numpy()[0] for k, v in served.model(inputs).items()}
    scale[:] = 1
    if name == "questions":
      _, first, last = result.span
      return outputs["start_logits"][first] + outputs["end_logits"][last]
    if name == "masks":
      index = served.answers.config.tokenizer.vocab[answer["tokens"][0][0]]
      return outputs["masked_lm_logits"][0, index]
    index = np.argmax(answer.get("probabilities", [1]))
    return outputs["logits"][index % 32]

  def slope(tokens):
    return (logit(1.01, tokens) - logit(0.99, tokens)) / 0.02

  slopes = np.array([slope([i]) for i in range(len(sequence.ids))])
  np.testing.assert_allclose(values, slopes / np.abs(slopes).sum(), atol=0.01)
  assert np.sign(values.sum()) == np.sign(slope(slice(None)))
  assert abs(values).sum() == pytest.approx(1, abs=1e-5)


def test_words_that_the_vocabulary_lacks_are_shown_unchanged(every_task):
  served, texts = every_task["tagging"], {"tokens": "ab 부"}
  html = visualization.render(served, _read(served, texts), texts, "")
  assert _data(html)["answer"]["pieces"] == [["a", "##b"], ["부"]]


def test_texts_without_a_page_are_refused(every_task):
  for name, texts, message in (
    ("tagging", {"tokens": " "}, "there is no word"),
    (ENSEMBLE, {"question": "a", "context": "b"}, "an ensemble has no page"),
  ):
    with pytest.raises(UserError, match=message):
      visualization.encode(every_task[name], texts)
  model = models.classifier(tasks.CONFIG, 3, models.Windows(6, 2, "mean"))
  served = ServedModel(model, every_task["classification"].answers)
  assert visualization.encode(served, {"text": "a " * 4}).rows
  with pytest.raises(UserError, match="7 tokens in windows of 6"):
    visualization.encode(served, {"text": "a " * 5})


def _data(html):
  text = re.search('"application/json">(.*?)</script>', html, re.DOTALL)[1]
  return json.loads(text)


def test_a_page_has_the_numbers_of_attention_but_no_html_of_the_text():
  served, texts = _served(), {"text": f"{EVIL} [MASK]"}
  result = _read(served, texts)
  html = visualization.render(served, result, texts, EVIL)
  assert EVIL not in html and html.count("</script>") == 2
  assert not re.search("http(?!-equiv|://www.w3.org/2000/svg)", html)
  data = _data(html)
  assert data["texts"] == texts
  assert data["facts"] == {
    "model": EVIL,
    "task": "pretraining",
    "layers": 2,
    "heads": 2,
    "hidden size": 8,
    "vocabulary": str(len(stand_in.WORDS)),
    "attention": "bidirectional",
  }
  [shown], [sequence] = data["sequences"], result.sequences
  assert (shown["length"], shown["heads"]) == (sequence.length, 3)  # the mean
  assert shown["tokens"][0 :: len(shown["tokens"]) - 1] == ["[CLS]", "[SEP]"]
  np.testing.assert_allclose(shown["sum"], sequence.values["sum"], rtol=1e-3)
  packed = base64.b64decode(shown["attention"])
  values = np.frombuffer(zlib.decompress(packed), np.uint8) / 255
  means = sequence.attention.mean(1, keepdims=True)
  expected = np.concatenate([sequence.attention, means], 1).ravel()
  np.testing.assert_allclose(values, expected, atol=0.5 / 255 + 1e-6)
