"""Load test of serve.py: throughput, wrong and lost answers, overload, SIGTERM.

  python -m benchmarks.load --model=/models/sst/1 --seconds=60 --rounds=5

Each client sends texts of 3 to 200 words, one after the other, and compares the
answers with the answers of predictor.py. A ratio divides the answers per second
by the answers per second to a single client in the same round.
"""

import json
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from benchmarks import contest
from benchmarks.results import Table
from predictor import Predictor
from tests.serving.server import client

WORDS = ("a", "tree", "on", "the", "hill", "stands", "longer", "than", "houses")
SINGLE = "1"


def drive(server, cases, clients, seconds, stop=False):
  """Measures a server's answers to clients; `stop` ends the server midway."""
  process, port = server
  log = []
  end = time.monotonic() + seconds
  with ThreadPoolExecutor(clients) as pool:
    for seed in range(clients):
      pool.submit(client.ask, port, cases, end, seed, log)
    time.sleep(seconds / 2)
    memory = Path(f"/proc/{process.pid}/status").read_text("utf-8")
    if stop:
      process.terminate()
  times = {code: [t for s, t, _ in log if s == code] for code in (200, 503)}
  answered = sorted(times[200])
  return {
    "answers/s": len(answered) / seconds,
    "p50 ms": median(answered),
    "p99 ms": answered[len(answered) * 99 // 100],
    "503": len(times[503]),
    "slowest 503 ms": max(times[503], default=0),
    "wrong": sum(not is_right for *_, is_right in log),
    "lost": sum(status not in times for status, *_ in log),
    "MB": int(re.search(r"VmRSS:\s+(\d+)", memory)[1]) // 1024,
  }


def make_cases(model, number, size):
  order = random.Random(1)
  predict = Predictor(model)
  counts = [int(3 * 66 ** order.random()) for _ in range(number)]
  texts = [" ".join(order.choices(WORDS, k=count)) for count in counts]
  rows = [dict.fromkeys(predict.inputs, text) for text in texts]
  bodies = [json.dumps({"instances": [row] * size}) for row in rows]
  answers = predict(batch_size=1, **dict.fromkeys(predict.inputs, texts))
  return [(b, [a] * size) for b, a in zip(bodies, answers, strict=True)]


def measure(args):
  cases, large = make_cases(args.model, 200, 1), make_cases(args.model, 20, 4)
  server = client.start(args.model)
  small = client.start(args.model, "--max_queue_size=16")
  rounds = {f"{clients}": [] for clients in (1, 8, 32)}
  for _ in range(args.rounds):
    for clients, results in rounds.items():
      results.append(drive(server, cases, int(clients), args.seconds))
  rounds["32 of 4 texts, SIGTERM"] = [drive(small, large, 32, 20, True)]
  rounds["8, SIGTERM"] = [drive(server, cases, 8, 20, True)]
  ends = [process.wait(60) for process, _ in (small, server)]
  yield {"case": args.name, "rounds": rounds, "ends": ends}


def rows(result):
  base = [each["answers/s"] for each in result["rounds"][SINGLE]]
  for name, each in result["rounds"].items():
    columns = {key: [one[key] for one in each] for key in KEYS}
    rates = columns["answers/s"]
    ratio = contest.ratios(rates, base) if name.isdigit() else ("", "")
    totals = [(sum if k in SUMS else median)(v) for k, v in columns.items()]
    memory = f"{each[0]['MB']}-{each[-1]['MB']}"
    yield name, *ratio, *(f"{total:.0f}" for total in totals), memory


SUMS = ("503", "wrong", "lost")
KEYS = ("answers/s", "p50 ms", "p99 ms", "slowest 503 ms", *SUMS)
HEADER = f"clients | ratio | range | {' | '.join(KEYS)} | MB"
TABLE = Table("load", HEADER, rows)

if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    5,
    model=(None, "an export"),
    name=("classifier", "name of the model"),
    seconds=(60.0, "length of each test with a number of clients"),
  )
