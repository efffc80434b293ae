import importlib.util
import json

import numpy as np
import pytest

from conversion import hugging_face
from conversion.interchange import CanonicalModel
from data.tokenization import FullTokenizer
from modeling import models
from modeling.config import BertConfig
from tests.conversion.test_hugging_face import CONFIG, MODELS

pytestmark = [
  pytest.mark.slow,
  pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "transformers"))),
    reason="pip install torch transformers, see requirements-bench.txt",
  ),
]
# Names of outputs: in transformers, and in this project.
OUTPUTS = {
  "last_hidden_state": "sequence_output",
  "pooler_output": "pooled_output",
  "prediction_logits": "masked_lm_logits",
  "seq_relationship_logits": "next_sentence_logits",
  "start_logits": "start_logits",
  "end_logits": "end_logits",
}
TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",")
B, C, T = 4, 2, CONFIG.max_position_embeddings


def _batch(model):
  """Returns rows of random lengths: [B, T], or [B, C, T] for choices."""
  rng = np.random.RandomState(0)
  is_choice = len(model.input["input_ids"].shape) == 3
  shape = (B, C, T) if is_choice else (B, T)
  steps = np.arange(T)
  lengths = rng.randint(2, T + 1, shape[:-1])[..., np.newaxis]
  batch = {
    "input_ids": rng.randint(0, CONFIG.vocab_size, shape),
    "input_mask": np.broadcast_to(steps, shape) < lengths,
    "segment_ids": np.broadcast_to(steps, shape) > lengths // 2,
    "masked_lm_positions": np.broadcast_to(steps, (B, T)),
  }
  return {name: batch[name].astype(np.int32) for name in model.input}


@pytest.mark.parametrize("act", ["gelu", "gelu_erf"])
@pytest.mark.parametrize("head", MODELS)
def test_transformers_computes_equal_outputs(tmp_path, head, act):
  import torch  # noqa: PLC0415
  import transformers  # noqa: PLC0415

  config = BertConfig.from_dict(CONFIG.to_dict() | {"hidden_act": act})
  model, rng = MODELS[head](config), np.random.RandomState(1)
  for variable in model.variables:
    variable.assign_add(rng.normal(0.0, 0.2, variable.shape))
  values = {v.path: np.asarray(v) for v in model.variables}
  bert = CanonicalModel("x", values, config.to_dict())
  hugging_face.write(bert, str(tmp_path), head)
  settings = json.loads((tmp_path / "config.json").read_text())
  kind = getattr(transformers, settings["architectures"][0])
  peer, info = kind.from_pretrained(tmp_path, output_loading_info=True)
  assert not info["missing_keys"]
  assert not info["unexpected_keys"]
  batch = _batch(model)
  rows = (torch.tensor(batch[name]).long() for name in models.ENCODER_INPUTS)
  names = ("input_ids", "attention_mask", "token_type_ids")
  with torch.inference_mode():
    result = peer.eval()(**dict(zip(names, rows, strict=True)))
  outputs = model(batch)
  logits = "masked_lm_logits" if head == "masked_lm" else "logits"
  for name, values in result.items():
    values, expected = values.numpy(), outputs[OUTPUTS.get(name, logits)]
    np.testing.assert_allclose(values, expected, atol=1e-4, err_msg=name)


def test_the_tokenizer_of_transformers_gives_the_same_ids(tmp_path):
  import transformers  # noqa: PLC0415

  vocabulary = tmp_path / "vocabulary"
  vocabulary.write_text("\n".join([*TOKENS, "un", "##affable", "a", "e", "力"]))
  values = {v.path: np.asarray(v) for v in MODELS["encoder"](CONFIG).variables}
  bert = CanonicalModel("x", values, CONFIG.to_dict(), str(vocabulary))
  hugging_face.write(bert, str(tmp_path), "encoder")
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  full = FullTokenizer(str(tmp_path / "vocab.txt"))
  for text in ("Unaffable, é.", "力a力", "a\u00a0e\tnone ..."):
    ids = full.convert_tokens_to_ids(["[CLS]", *full.tokenize(text), "[SEP]"])
    assert theirs(text).input_ids == ids
  assert theirs("a [MASK]").input_ids[-2] == theirs.mask_token_id
