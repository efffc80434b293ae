"""A SavedModel as a worker of benchmarks/serving.py: folder, threads."""

import sys

import tensorflow as tf

from benchmarks import serving_worker


def main(folder: str, threads: str) -> None:
  tf.config.threading.set_intra_op_parallelism_threads(int(threads))
  model = tf.saved_model.load(folder)
  ask = model.signatures["serving_default"]
  is_squad = "question" in ask.structured_input_signature[1]
  names = ("question", "context") if is_squad else ("text_a", "text_b")

  def answer(pairs):
    texts = map(tf.constant, zip(*pairs, strict=True))
    found = ask(**dict(zip(names, texts, strict=True)))
    found = found["answer" if is_squad else "label"].numpy()
    return [text.decode() for text in found]

  serving_worker.run(answer)


if __name__ == "__main__":
  main(*sys.argv[1:])
