"""The most memory of a process, in training steps and making records.

  python -m benchmarks.memory --cases=mini:32:128:float32 --megabytes=5,50 \
    --peer_python=torch/bin/python --vocab_file=vocab.txt

Each is started once: memory hardly differs. Of several processes the largest
counts. The peer makes records of the first text only, as it takes minutes.
"""

import tempfile
from pathlib import Path

from benchmarks import contest, pretraining_data, train_step
from benchmarks.results import Table


def measure(args: contest.Args) -> contest.Results:
  if args.megabytes and not args.vocab_file:
    raise ValueError("--megabytes needs --vocab_file; or give --megabytes=")
  for case in args.cases:
    contestants = train_step.contestants(case, args, warm_up=2)
    yield {"case": case, "peak": peaks(contestants, seconds=0.0)}
  for megabytes in args.megabytes:
    with tempfile.TemporaryDirectory() as folder:
      contestants = pretraining_data.contestants(
        Path(folder), int(megabytes), args.vocab_file
      )
      if megabytes != args.megabytes[0]:
        del contestants[pretraining_data.PEER]
      yield {"case": f"records of {megabytes} MB", "peak": peaks(contestants)}


def peaks(contestants: dict[str, contest.Contestant], **request) -> dict:
  answers = contest.interleave_fresh(contestants, 1, **request)
  return {label: answer["peak"] for label, [answer] in answers.items()}


def rows(result: dict):
  base = next(iter(result["peak"].values()))
  for label, peak in result["peak"].items():
    yield result["case"], label, f"{peak:.0f}", f"{peak / base:.2f}"


TABLE = Table("memory", "case | who | peak MB | ratio", rows)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    rounds=1,
    megabytes=(["5", "50"], "sizes of the texts"),
    vocab_file=("", "uncased vocabulary, for records"),
    **train_step.CASES,
    **train_step.PEERS,
  )
