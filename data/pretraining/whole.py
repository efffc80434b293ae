"""Records made as the original makes them: in one process, all in memory."""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from random import Random

from data import files, tfrecord
from data.pretraining import duplicates, instances
from data.pretraining.parts import Job
from data.progress import Progress
from data.tokenization import CachedTokenizer, FullTokenizer


def write(job: Job, inputs: Sequence[str], outputs: Sequence[str]) -> int:
  """Makes the original's records, byte for byte.

  Args:
    job: what to make of the text.
    inputs: files of text; a document may go on in the next one.
    outputs: files to write, each with every so-many-th record.

  Returns:
    The number of records.

  Raises:
    ValueError: there is no text in the inputs.
  """
  tokenizer = FullTokenizer(job.vocab_file, job.do_lower_case)
  rng = Random(job.seed)
  builder = instances.Builder(tokenizer.vocab, job.settings)

  lines = chain.from_iterable(map(job.text.lines, inputs))
  reading = Progress("read", sum(map(files.size, inputs)) / 1e6, "MB")
  if job.drop_duplicates:
    lines = duplicates.first_only(lines, reading)
  documents = job.read(lines, CachedTokenizer(tokenizer).ids, reading)
  reading.say()
  if not documents:
    raise instances.no_text(inputs)

  dupes = job.settings.dupe_factor
  building = Progress("built from", len(documents) * dupes, "documents")
  samples = instances.Samples(tokenizer.inv_vocab)
  records = builder.records(documents, rng, building, samples)
  building.say()
  instances.log_samples(samples.texts)
  with ExitStack() as stack:
    for i, path in enumerate(outputs):
      file = stack.enter_context(files.open_for_writing(path))
      tfrecord.write(file, records[i :: len(outputs)])
  return len(records)
