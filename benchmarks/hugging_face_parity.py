"""Whether our features are those of Hugging Face transformers.

The same weights on either side: a Hugging Face folder, and what
convert_checkpoint.py makes of it. Ours come first, from TensorFlow:

  for pooling in none mean; do
    python extract_features.py --input_file=texts.txt --layers=-1 \
      --format=npz --pooling=$pooling --output_file=$pooling.npz ...
  done

and are compared here with what PyTorch computes, so that the two frameworks
need not share an environment:

  python -m benchmarks.hugging_face_parity --input_file=texts.txt \
    --model=hugging_face_folder --tokens=none.npz --vectors=mean.npz

Exit status 1 if they differ by more than is allowed.

Legend: B texts, T tokens, H hidden.
"""

import numpy as np
import torch
import transformers
from absl import app, flags

from data import files
from data.tasks import text_lines

FLAGS = flags.FLAGS

flags.DEFINE_string("input_file", None, "One text a line.", required=True)
flags.DEFINE_string("model", None, "A Hugging Face folder.", required=True)
flags.DEFINE_string("tokens", None, "Ours, one a token.", required=True)
flags.DEFINE_string("vectors", None, "Ours, mean-pooled.", required=True)
flags.DEFINE_integer("max_seq_length", 128, "As ours had it.", 3)
flags.DEFINE_integer("batch_size", 32, "Texts at a time.", 1)
flags.DEFINE_float("tolerance", 2e-4, "Largest difference of two numbers.")
flags.DEFINE_float("cosine_tolerance", 1e-4, "Largest 1 - cosine of vectors.")


def theirs(texts):
  """Ids and last hidden states, [T] and [T, H] of each text."""
  tokenizer = transformers.AutoTokenizer.from_pretrained(FLAGS.model)
  model = transformers.BertModel.from_pretrained(FLAGS.model).eval()
  for start in range(0, len(texts), FLAGS.batch_size):
    first, second = zip(*texts[start : start + FLAGS.batch_size], strict=True)
    batch = tokenizer(
      list(first),
      list(second) if all(second) else None,
      max_length=FLAGS.max_seq_length,
      truncation=True,
      padding=True,
      return_tensors="pt",
    )
    with torch.inference_mode():
      hidden = model(**batch).last_hidden_state.numpy()  # [B, T, H]
    mask = batch["attention_mask"].numpy() == 1
    for ids, states, real in zip(
      batch["input_ids"].numpy(), hidden, mask, strict=True
    ):
      yield ids[real], states[real]


def cosine(a, b):
  """Of two arrays of vectors, [B, H] each."""
  lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
  return np.sum(a * b, axis=-1) / lengths


def main(_):
  texts = [text_lines.split(line) for line in files.lines(FLAGS.input_file)]
  ids, states = zip(*theirs(texts), strict=True)
  ours, vectors = np.load(FLAGS.tokens), np.load(FLAGS.vectors)["vectors"]
  same = np.array_equal(ours["input_ids"], np.concatenate(ids))
  print(f"{len(texts)} texts, {sum(map(len, ids))} tokens; same ids: {same}")
  if not same:
    return 1
  difference = np.abs(ours["values"][:, 0] - np.concatenate(states))
  means = np.stack([state.mean(axis=0) for state in states])
  angle = 1 - cosine(vectors[:, 0].astype(np.float64), means.astype(float))
  print(
    f"last layer: differs by {difference.max():.1e} at most, "
    f"{difference.mean():.1e} on average\n"
    f"mean vectors: 1 - cosine {angle.max():.1e} at most"
  )
  close = difference.max() <= FLAGS.tolerance
  return 0 if close and angle.max() <= FLAGS.cosine_tolerance else 1


if __name__ == "__main__":
  app.run(main)
