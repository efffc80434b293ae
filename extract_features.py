r"""Writes what BERT's layers make of texts: a vector a token, or one a text.

  python extract_features.py --input_file=/tmp/input.txt \
    --output_file=/tmp/output.jsonl --vocab_file=$BERT_DIR/vocab.txt \
    --bert_config_file=$BERT_DIR/bert_config.json \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --layers=-1,-2,-3,-4 --max_seq_length=128 --batch_size=8

A line of the input is a text, or two with " ||| " between them. With
--do_export there is a SavedModel that does the same.
"""

from collections.abc import Iterable, Iterator

from absl import flags

from assembly import network, served
from data import files, vocab
from data.progress import Progress
from data.tasks import activation_files, text_lines
from data.tokenization import FullTokenizer, validate_case_matches_checkpoint
from data.vocab import CLS, SEP, UNK
from modeling.layer_outputs import POOLINGS, layer_outputs
from training import checkpoint, export, inference, program, strategy
from training import flags as shared_flags

FLAGS = flags.FLAGS

# Lines are ordered by length within windows of so many values (256 MiB).
_WINDOW = 2**26

shared_flags.define_devices()
shared_flags.define_network()
shared_flags.define_vocabulary()
shared_flags.define_export()
flags.DEFINE_string("input_file", None, "One text a line.")
flags.DEFINE_string("output_file", None, "Where to write.")
flags.DEFINE_string(
  "init_checkpoint", None, "Checkpoint, or a folder of them.", required=True
)
flags.DEFINE_string(
  "layers", "-1,-2,-3,-4", "Which: 0 is the first, -1 the last."
)
flags.DEFINE_integer(
  "max_seq_length", 128, "Tokens of a line; what is beyond is cut off.", 3
)
flags.DEFINE_integer("batch_size", 32, "Lines a step.", 1)
flags.DEFINE_bool(
  "use_one_hot_embeddings", False, "Look tokens up by a matrix product (TPU)."
)
flags.DEFINE_enum(
  "pooling",
  "none",
  POOLINGS,
  "A vector for each token, or for each line: the mean over its tokens, [CLS] "
  "and [SEP] included, or what stands at [CLS]. An export has both, and the "
  "mean where nothing is said.",
)
flags.DEFINE_enum(
  "format",
  "json",
  ["json", "npz"],
  "JSON lines, or arrays as data/tasks/activation_files.py describes them.",
)
flags.DEFINE_bool("overwrite", False, "Replace --output_file.")


def main(_):
  check_flags()
  devices = strategy.from_flags(FLAGS)
  config = network.from_flags(FLAGS)
  config.check_length(FLAGS.max_seq_length)
  layers = served.layer_indexes(FLAGS.layers)
  validate_case_matches_checkpoint(FLAGS.do_lower_case, FLAGS.init_checkpoint)
  tokenizer = FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
  vocab.require(tokenizer.vocab, (UNK, CLS, SEP), FLAGS.vocab_file)
  total = FLAGS.input_file and text_lines.count(FLAGS.input_file)
  export.set_policy(FLAGS)
  if FLAGS.do_export:
    exported, vectors, _ = served.vectors(FLAGS)
    checkpoint.initialize_whole(exported, FLAGS.init_checkpoint)
    export.run(FLAGS, exported, vectors)
  if not FLAGS.input_file:
    return
  with devices.scope():
    model = layer_outputs(
      config, layers, FLAGS.pooling, FLAGS.use_one_hot_embeddings
    )
    checkpoint.initialize_whole(model, FLAGS.init_checkpoint)
  lines = text_lines.read(FLAGS.input_file, tokenizer, FLAGS.max_seq_length)
  max_tokens = _WINDOW // (len(layers) * config.hidden_size)
  progress = Progress("extracted", total, "lines")
  results = extract(model, lines, max_tokens, progress)
  if FLAGS.format == "npz":
    activation_files.write_npz(FLAGS.output_file, results, layers)
  else:
    activation_files.write_json(
      FLAGS.output_file, results, layers, tokenizer.convert_ids_to_tokens
    )


def check_flags() -> None:
  """Raises an error if there is nothing to do, or it would fail at the end."""
  export.check_flags(FLAGS)
  given = bool(FLAGS.input_file), bool(FLAGS.output_file)
  if any(given) != all(given) or not (any(given) or FLAGS.do_export):
    raise ValueError("give --input_file and --output_file, or --do_export")
  if FLAGS.output_file:
    files.require_apart([FLAGS.input_file], FLAGS.output_file)
    if not FLAGS.overwrite:
      files.refuse_to_overwrite(FLAGS.output_file)


def extract(
  model,
  lines: Iterable[text_lines.Line],
  max_tokens: int,
  progress: Progress,
) -> Iterator[activation_files.Result]:
  """Activations of every line, in order; `max_tokens` are worked on at once."""
  # Batches are as short as they can be, unless each length costs a compilation.
  multiple = FLAGS.max_seq_length if strategy.fixes_shapes(FLAGS) else 8
  for window in text_lines.windows(lines, max_tokens):
    found = [None] * len(window)
    for places, batch in text_lines.batches(
      window, FLAGS.batch_size, FLAGS.max_seq_length, multiple
    ):
      outputs = inference.predict(model, [batch])
      for place, values in zip(places, outputs["values"], strict=True):
        length = len(window[place].ids)
        found[place] = values[:length] if FLAGS.pooling == "none" else values
      progress.add(len(places))
    yield from zip(window, found, strict=True)
  progress.say()


if __name__ == "__main__":
  program.run(main)
