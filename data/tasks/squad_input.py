"""SQuAD files made ready: questions, their windows, and these as records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from data import features, tfrecord
from data.progress import Progress
from data.tasks import squad, squad_windows
from data.tasks.recorded import Recorded
from data.tokenization import FullTokenizer


@dataclass(frozen=True)
class Questions:
  """What training or prediction needs of SQuAD files.

  Attributes:
    examples: the questions; in training in the original's random order.
    windows: of their paragraphs, in the order of the examples.
    articles: the files as they are, with all right answers, for scoring.
    records: of the windows, which are its examples.
  """

  examples: list[squad.Example]
  windows: list[squad_windows.Window]
  articles: list[dict[str, Any]]
  records: Recorded


def prepare(
  paths: Sequence[str],
  record_file: str,
  tokenizer: FullTokenizer,
  settings: squad_windows.Settings,
  is_training: bool,
  version_2_with_negative: bool = False,
  num_workers: int = 1,
  fixed: bool = True,
  limit: int | None = None,
) -> Questions:
  """Reads SQuAD files, cuts their paragraphs and writes the records.

  Args:
    paths: the files.
    record_file: what to write; replaced if it is there.
    tokenizer: makes tokens of words.
    settings: lengths.
    is_training: whether answers go into the records.
    version_2_with_negative: whether questions may have no answer.
    num_workers: processes that cut windows.
    fixed: see Recorded.
    limit: how many questions are used; None for all.

  Raises:
    OSError: a file cannot be read.
    ValueError: a file is no SQuAD file; see squad.read.
  """
  examples = squad.read(paths, is_training, version_2_with_negative)
  if is_training:
    examples = squad.training_order(examples)
  examples = examples[:limit]
  progress = Progress("cut", len(examples), "questions")
  windows = list(
    squad_windows.windows(examples, tokenizer, settings, num_workers, progress)
  )
  schema = features.squad(settings.max_seq_length, is_training)
  rows = (squad_windows.row(window, schema) for window in windows)
  tfrecord.save(record_file, schema, rows)
  articles = [article for path in paths for article in squad.articles(path)]
  if limit is not None:
    articles = _only(articles, {example.qas_id for example in examples})
  records = Recorded(windows, record_file, schema, fixed)
  return Questions(examples, windows, articles, records)


def _only(articles, ids):
  """What is left of articles, with the questions of these ids only."""

  def asked(paragraph):
    return [qa for qa in paragraph["qas"] if qa["id"] in ids]

  return [
    article
    | {
      "paragraphs": [
        paragraph | {"qas": asked(paragraph)}
        for paragraph in article["paragraphs"]
      ]
    }
    for article in articles
  ]
