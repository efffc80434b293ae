"""Hugging Face folders to original checkpoints."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from modeling.config import BertConfig
from training import checkpoint, hugging_face

ROOT = Path(__file__).parents[1]
H, I, V = 4, 6, 7  # noqa: E741, hidden, intermediate, vocabulary
CONFIG = {
  "model_type": "bert",
  "vocab_size": V,
  "hidden_size": H,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": I,
  "hidden_act": "gelu",
  "max_position_embeddings": 5,
  "type_vocab_size": 2,
}
LAYER = "encoder.layer.0"
SHAPES = {
  "embeddings.word_embeddings.weight": (V, H),
  "embeddings.position_embeddings.weight": (5, H),
  "embeddings.token_type_embeddings.weight": (2, H),
  "embeddings.LayerNorm.weight": (H,),
  "embeddings.LayerNorm.bias": (H,),
  **{
    f"{LAYER}.attention.{part}.{kind}": (H, H) if kind == "weight" else (H,)
    for part in ("self.query", "self.key", "self.value", "output.dense")
    for kind in ("weight", "bias")
  },
  f"{LAYER}.attention.output.LayerNorm.weight": (H,),
  f"{LAYER}.attention.output.LayerNorm.bias": (H,),
  f"{LAYER}.intermediate.dense.weight": (I, H),
  f"{LAYER}.intermediate.dense.bias": (I,),
  f"{LAYER}.output.dense.weight": (H, I),
  f"{LAYER}.output.dense.bias": (H,),
  f"{LAYER}.output.LayerNorm.weight": (H,),
  f"{LAYER}.output.LayerNorm.bias": (H,),
  "pooler.dense.weight": (H, H),
  "pooler.dense.bias": (H,),
}


def _tensors():
  rng = np.random.RandomState(0)
  return {k: rng.randn(*s).astype(np.float32) for k, s in SHAPES.items()}


def _folder(path, config=CONFIG, tensors=None):
  path.mkdir()
  (path / "config.json").write_text(json.dumps(config))
  (path / "vocab.txt").write_text("a\n")
  save_file(
    tensors if tensors is not None else _tensors(), path / "model.safetensors"
  )
  return path


def _run(source, target, *more):
  command = [sys.executable, str(ROOT / "convert_checkpoint.py"), *more]
  command += [f"--input={source}", f"--output={target}"]
  return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
  ("name", "original"),
  [
    (
      "bert.embeddings.word_embeddings.weight",
      "bert/embeddings/word_embeddings",
    ),
    (
      "encoder.layer.11.attention.output.LayerNorm.weight",
      "bert/encoder/layer_11/attention/output/LayerNorm/gamma",
    ),
    (
      "bert.encoder.layer.0.attention.self.query.weight",
      "bert/encoder/layer_0/attention/self/query/kernel",
    ),
    ("bert.pooler.dense.bias", "bert/pooler/dense/bias"),
    ("cls.predictions.bias", "cls/predictions/output_bias"),
    (
      "cls.predictions.transform.LayerNorm.bias",
      "cls/predictions/transform/LayerNorm/beta",
    ),
    ("cls.seq_relationship.weight", "cls/seq_relationship/output_weights"),
    ("classifier.weight", "output_weights"),
    ("qa_outputs.bias", "cls/squad/output_bias"),
  ],
)
def test_names(name, original):
  assert hugging_face.original_name(name) == original


def test_converts_names_kernels_and_activation(tmp_path):
  tensors = _tensors() | {
    "embeddings.position_ids": np.arange(5)[None],
    "cls.predictions.decoder.weight": np.zeros((V, H), np.float32),
    "cls.predictions.bias": np.ones(V, np.float32),
  }
  source = _folder(tmp_path / "in", tensors=tensors)
  done = _run(source, tmp_path / "out")
  assert done.returncode == 0, done.stderr
  assert "bit for bit" in done.stderr
  reader = checkpoint.read(str(tmp_path / "out" / "bert_model.ckpt"))
  assert len(reader.shapes) == len(SHAPES) + 1
  np.testing.assert_array_equal(
    reader["bert/encoder/layer_0/intermediate/dense/kernel"],
    tensors[f"{LAYER}.intermediate.dense.weight"].T,
  )
  config = BertConfig.from_json(str(tmp_path / "out" / "bert_config.json"))
  assert config.hidden_act == "gelu_erf"
  assert (tmp_path / "out" / "vocab.txt").read_text() == "a\n"
  assert "--overwrite" in _run(source, tmp_path / "out").stderr
  assert _run(source, tmp_path / "out", "--overwrite").returncode == 0


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"model_type": "gpt2"}, "model_type is 'gpt2', not 'bert'"),
    ({"hidden_act": "silu"}, "hidden_act 'silu' is unknown"),
    ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ({"intermediate_size": 9}, "has shape (4, 6), config.json says (4, 9)"),
    ({"num_hidden_layers": 2}, "no tensor gives bert/encoder/layer_1/"),
  ],
)
def test_other_models_are_refused(tmp_path, changes, message):
  done = _run(_folder(tmp_path / "in", CONFIG | changes), tmp_path / "out")
  assert done.returncode == 1
  assert message in done.stderr
  assert not (tmp_path / "out").exists()


def test_pickles_are_not_read(tmp_path):
  source = _folder(tmp_path / "in")
  (source / "model.safetensors").rename(source / "pytorch_model.bin")
  assert "is a pickle" in _run(source, tmp_path / "out").stderr


def test_a_damaged_file_is_named(tmp_path):
  source = _folder(tmp_path / "in")
  (source / "model.safetensors").write_bytes(b"no header")
  assert "is no safetensors file" in _run(source, tmp_path / "out").stderr
