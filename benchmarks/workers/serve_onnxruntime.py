"""Worker: ONNX Runtime and tokenizers, without torch, answer pairs of texts."""

import numpy as np
import onnxruntime
from tokenizers import BertWordPieceTokenizer

from benchmarks import worker


def prepare(file: str, vocab: str) -> worker.Answer:
  session = onnxruntime.InferenceSession(file)
  encode = BertWordPieceTokenizer(vocab)
  encode.enable_padding()
  encode.enable_truncation(128)

  def answer(pairs):
    rows = encode.encode_batch([tuple(pair) for pair in pairs])
    inputs = {
      "input_ids": [row.ids for row in rows],
      "attention_mask": [row.attention_mask for row in rows],
      "token_type_ids": [row.type_ids for row in rows],
    }
    [logits] = session.run(None, {k: np.array(v) for k, v in inputs.items()})
    return [str(label) for label in logits.argmax(-1)]

  return worker.answer_pairs(answer)
