r"""Draws how a checkpoint reads a text with [MASK] in it.

  python -m experiments.pictures --bert_config_file=bert_config.json \
    --vocab_file=vocab.txt --init_checkpoint=model \
    --text='She opened the [MASK] and went out.' --output_dir=pictures

attention.png shows where tokens look, fill.png what the first [MASK] would be
if the network ended after each of its layers, both of the first --text. A table
says how much each head attends to neighbors, special tokens and the same word,
as a mean of all texts. docs/how_bert_reads.md explains them. matplotlib is
needed.
"""

import os

from absl import flags, logging

from cli import encoder, program
from cli import flags as shared_flags
from data.tokenization import FullTokenizer

shared_flags.define_model()
shared_flags.define_vocabulary()
flags.DEFINE_multi_string(
  "text",
  None,
  "With [MASK], or two of a pair with ||| between; several: for the table.",
  required=True,
)


def main(args):
  # TensorFlow is imported here, after its logs were silenced.
  from experiments import reading

  tokenizer = FullTokenizer(args.vocab_file, args.do_lower_case)
  path = args.init_checkpoint or args.output_dir
  results = [
    reading.read(text, encoder.config(args), tokenizer, path)
    for text in args.text
  ]
  logging.info("attention in percent:\n%s", reading.attention_table(results))
  os.makedirs(args.output_dir, exist_ok=True)
  for name, figure in (
    ("attention.png", reading.attention_figure(results[0])),
    ("fill.png", reading.fill_figure(results[0], tokenizer.inv_vocab)),
  ):
    path = os.path.join(args.output_dir, name)
    figure.savefig(path, dpi=70)
    logging.info("%s: %d kB", path, os.path.getsize(path) // 1000)


if __name__ == "__main__":
  program.run(main)
