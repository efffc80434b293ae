"""Vocabularies that build_vocab.py and Hugging Face's trainer learn.

  python -m benchmarks.vocabulary --texts='54 novels:train/*.txt:held/*.txt' \
    --peer_python=torch/bin/python

Both are complete commands, with the same alphabet and smallest count. Pieces
are those of the words of held-out text; a word that becomes [UNK] has as many
as characters.
"""

import glob
import json
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks import contest
from benchmarks.results import Table
from data import vocab
from data.pretraining.vocab_learning import WordCounter
from data.tokenization import WordpieceTokenizer

PROGRAM, PEER = "bert-tf2", "Hugging Face tokenizers"
TRAIN = """
import json, sys
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
config = json.loads(sys.argv[1])
tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer(lowercase=config["lower"])
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.train(config["paths"], trainers.WordPieceTrainer(
  vocab_size=config["size"], limit_alphabet=config["alphabet"],
  min_frequency=2, show_progress=False, special_tokens=config["special"]))
with open(config["output"], "w", encoding="utf-8") as file:
  file.writelines(f"{token}\\n" for token in tokenizer.get_vocab())
"""


def measure(args: contest.Args) -> contest.Results:
  for text in args.texts:
    name, *patterns = text.split(":")
    paths, held_out = (sorted(glob.glob(pattern)) for pattern in patterns)
    if not paths or not held_out:
      raise ValueError(f"--texts={text}: expected NAME:FILES:HELD_OUT_FILES")
    counter = WordCounter(not args.cased, max_words=5_000_000)
    for path in held_out:
      for line in Path(path).read_text("utf-8").splitlines():
        counter.add(line)
    counts = counter.counts()
    for size in map(int, args.sizes):
      yield {"case": f"{name}, {size:,}"} | compare(paths, counts, size, args)


def compare(
  paths: list[str], counts: Counter, size: int, args: contest.Args
) -> dict:
  with tempfile.TemporaryDirectory() as folder:
    files = {label: Path(folder, label) for label in (PROGRAM, PEER)}
    peer = {
      "paths": paths,
      "size": size,
      "lower": not args.cased,
      "alphabet": args.max_alphabet,
      "special": vocab.SPECIAL_TOKENS,
      "output": str(files[PEER]),
    }
    commands = {
      PROGRAM: [
        sys.executable,
        str(contest.ROOT / "build_vocab.py"),
        "--overwrite",
        f"--input_file={','.join(paths)}",
        f"--vocab_size={size}",
        f"--output_file={files[PROGRAM]}",
        f"--max_alphabet={args.max_alphabet}",
        f"--do_lower_case={not args.cased}",
      ],
      PEER: [args.peer_python, "-c", TRAIN, json.dumps(peer)],
    }
    log = str(Path(folder, "log"))
    contestants = {
      label: contest.Contestant("command", {"command": command, "log": log})
      for label, command in commands.items()
    }
    answers = contest.interleave(contestants, args.rounds)
    tokens = {label: [*vocab.load(path)] for label, path in files.items()}
  return {
    "seconds": contest.select(answers, "seconds"),
    "tokens": {label: len(value) for label, value in tokens.items()},
    "pieces": {label: pieces(counts, value) for label, value in tokens.items()},
  }


def pieces(counts: Counter, tokens: list[str]) -> float:
  split = WordpieceTokenizer(dict.fromkeys(tokens, 0)).tokenize
  total = 0
  for word, count in counts.items():
    result = split(word)
    total += count * len(word if result == [vocab.UNK] else result)
  return total / counts.total()


def rows(result: dict):
  own, peer = (result["pieces"][label] for label in (PROGRAM, PEER))
  seconds = result["seconds"]
  yield (
    result["case"],
    *(f"{result['tokens'][label]:,}" for label in (PROGRAM, PEER)),
    f"{own:.3f}",
    f"{peer:.3f}",
    f"{own / peer:.3f}",
    *(f"{statistics.median(seconds[label]):.1f}" for label in (PROGRAM, PEER)),
    *contest.ratios(seconds[PROGRAM], seconds[PEER]),
  )


TABLE = Table(
  "vocabulary",
  "text, --vocab_size | tokens | Hugging Face | pieces a word | Hugging Face | "
  "ratio | s | Hugging Face | ratio | range",
  rows,
)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    rounds=3,
    texts=([], "NAME:FILES:HELD_OUT_FILES of each"),
    sizes=(["1200", "2500", "8000", "30000"], "numbers of tokens"),
    max_alphabet=(1000, "characters"),
    cased=(False, "keep capitals and accents"),
    peer_python=(sys.executable, "Python with tokenizers"),
  )
