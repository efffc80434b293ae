r"""Classifies texts, or finds similar ones, by vectors computed once.

The vectors are those of extract_features.py --format=npz --pooling=mean, whose
lines have a label each in a file of their own:

  python run_features.py --features=train.npz --labels=train_labels.txt \
    --query_features=dev.npz --query_labels=dev_labels.txt \
    --output_file=predictions.jsonl

--num_neighbors finds the lines of --features whose vectors are nearest instead:

  python run_features.py --features=texts.npz --texts=texts.txt \
    --query_features=queries.npz --num_neighbors=5 --output_file=similar.jsonl
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

import json
from collections.abc import Iterable

from absl import flags, logging

from cli import program
from cli.arguments import Arguments
from storage import UserError, files
from tasks.features import vectors

flags.DEFINE_string("features", None, "Vectors to learn from.", required=True)
flags.DEFINE_string(
  "query_features", None, "Vectors to classify or look up.", required=True
)
flags.DEFINE_string("output_file", None, "JSON lines to write.", required=True)
flags.DEFINE_string("labels", None, "Labels of --features, one per line.")
flags.DEFINE_string("query_labels", None, "Labels to evaluate with.")
flags.DEFINE_float("regularization", 1.0, "L2 penalty on the weights.", 1e-9)
flags.DEFINE_integer("num_neighbors", 0, "Vectors to find for each query.", 0)
flags.DEFINE_enum("metric", "cosine", ["cosine", "euclidean"], "Distance.")
flags.DEFINE_string("texts", None, "Texts of --features, to show neighbors.")
flags.DEFINE_bool("overwrite", False, "Replace --output_file.")
NOT_FOR = {
  "labels": {"metric", "texts"},
  "num_neighbors": {"query_labels", "regularization"},
}


def check_flags(args: Arguments) -> None:
  if bool(args.labels) == bool(args.num_neighbors):
    raise UserError(
      "give either --labels, to classify, or --num_neighbors, to search"
    )
  mode = "labels" if args.labels else "num_neighbors"
  for name in NOT_FOR[mode] & args.set_flags:
    raise UserError(f"--{name} is not for --{mode}: leave it out")
  names = ("features", "query_features", "labels", "query_labels", "texts")
  for name in names:
    program.check_file(args, name)
  program.check_output_file(args, *(args[name] for name in names if args[name]))


def main(args: Arguments) -> None:
  stored, queries = vectors.load_pair(args.features, args.query_features)
  labels = vectors.read_lines(args.labels, len(stored), args.features)
  texts = vectors.read_lines(args.texts, len(stored), args.features)
  expected = vectors.read_lines(
    args.query_labels, len(queries), args.query_features
  )
  results: Iterable[dict]
  if labels:
    results = vectors.classify(stored, labels, queries, args.regularization)
    if expected:
      vectors.log_accuracy(results, expected)
  else:
    results = vectors.neighbors(
      stored, queries, args.num_neighbors, args.metric, texts
    )
  with files.open_for_writing(args.output_file) as file:
    for line, result in enumerate(results):
      record = json.dumps({"line": line} | result, ensure_ascii=False)
      file.write(f"{record}\n".encode())
  logging.info("wrote %s", args.output_file)


if __name__ == "__main__":
  program.run(main, check_flags, writes_files=True)
