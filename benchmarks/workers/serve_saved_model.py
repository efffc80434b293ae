"""Worker: a SavedModel that answers pairs of texts."""

import tensorflow as tf

from benchmarks import worker


def prepare(folder: str) -> worker.Answer:
  """Loads a SavedModel; see `worker.answer_pairs` for requests."""
  model = tf.saved_model.load(folder)  # owns the variables
  signature = model.signatures["serving_default"]
  is_squad = "question" in signature.structured_input_signature[1]
  names = ("question", "context") if is_squad else ("text_a", "text_b")

  def answer(pairs):
    texts = map(tf.constant, zip(*pairs, strict=True))
    result = model.signatures["serving_default"](
      **dict(zip(names, texts, strict=True))
    )
    result = result["answer" if is_squad else "label"].numpy()
    return [text.decode() for text in result]

  return worker.answer_pairs(answer)


if __name__ == "__main__":
  worker.serve(prepare)
