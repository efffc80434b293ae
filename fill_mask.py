r"""Shows what a pre-trained model puts in the place of [MASK].

Any text, any number of masks:

  python fill_mask.py --bert_config_file=$BERT_DIR/bert_config.json \
    --vocab_file=$BERT_DIR/vocab.txt \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --text='The capital of France is [MASK].'
"""

import sys

import tensorflow as tf
from absl import flags

from assembly import network, served
from data import files, vocab
from data.tokenization_ops import GraphTokenizer
from data.vocab import MASK
from modeling import models
from serving.masks import Masks
from training import checkpoint, program, run_record
from training import flags as shared_flags

FLAGS = flags.FLAGS

shared_flags.define_network()
shared_flags.define_vocabulary()
flags.DEFINE_string(
  "init_checkpoint", None, "Checkpoint, or a folder of them.", required=True
)
flags.DEFINE_multi_string(
  "text", None, "A text with [MASK] in it; may be given often."
)
flags.DEFINE_string("input_file", None, "Such texts, one a line; - for stdin.")
flags.DEFINE_integer("top_k", 5, "How many words to show for each.", 1)


def main(_):
  texts = list(FLAGS.text or [])
  if FLAGS.input_file:
    texts += _lines(FLAGS.input_file)
  if not texts:
    raise ValueError("nothing to fill in: give --text or --input_file")
  for text in texts:
    if MASK not in text:
      raise ValueError(f"there is no {MASK} in {text!r}")
  served.check_objective(run_record.flag_of(FLAGS.init_checkpoint, "objective"))
  vocab.require(vocab.load(FLAGS.vocab_file), name=FLAGS.vocab_file)
  config = network.from_flags(FLAGS)
  tokenizer = GraphTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
  task = Masks(tokenizer, config.max_position_embeddings, FLAGS.top_k)
  longest = max(task.encode(tf.constant(texts)).row_lengths().numpy())
  config.check_length(longest + 2)
  model = models.pretrainer(config, next_sentence=False)
  checkpoint.initialize_whole(model, FLAGS.init_checkpoint)
  fill = tf.function(lambda text: task.from_text(model, text))
  for text in texts:
    print(text)
    found = fill(tf.constant([text]))
    for words, shares in zip(
      found["tokens"][0].numpy(), found["probabilities"][0].numpy(), strict=True
    ):
      pairs = zip(words, shares, strict=True)
      print("  " + "  ".join(f"{w.decode()} {p:.1%}" for w, p in pairs))


def _lines(path):
  lines = files.lines(path) if path != "-" else _standard_input()
  return [line for line in lines if line.strip()]


def _standard_input():
  for number, line in enumerate(sys.stdin.buffer, 1):
    try:
      yield line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
      raise ValueError(f"standard input, line {number}: {error}") from None


if __name__ == "__main__":
  program.run(main)
