r"""Makes the file of fine_tuning/triviaqa.flags from TriviaQA's release.

    python -m recipes.triviaqa --questions=qa/wikipedia-train.json \
      --evidence=evidence/wikipedia --output=triviaqa_train.json

A paragraph has the first 400 words of a document, as in the paper (section
4.2). A document is left out if these words contain no answer to the question.
The first match is the answer, in any letter case, between word boundaries.
"""

import argparse
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from storage import UserError, files, textfiles

_FIRST_WORDS = re.compile(r"(?:\s*\S+){0,400}")


def find_answer(context: str, aliases: Sequence[str]) -> dict | None:
  """Finds the first answer; if several answers start there, the longest one."""
  names = sorted(filter(str.strip, aliases), key=len, reverse=True)
  pattern = "|".join(re.escape(name.strip()) for name in names)
  match = re.search(rf"(?<!\w)(?:{pattern})(?!\w)", context, re.IGNORECASE)
  if not names or not match:
    return None
  return {"text": match.group(), "answer_start": match.start()}


def articles(questions: Sequence[Mapping], evidence: str) -> Iterator[dict]:
  """Yields an article in SQuAD's format for each document with an answer."""
  for question in questions:
    answer = question.get("Answer", {"Value": ""})  # a test set has none
    aliases = [answer["Value"], *answer.get("Aliases", ())]
    for page in question.get("EntityPages", ()):
      name = page["Filename"]
      text = files.read_text(os.path.join(evidence, name))
      context = _FIRST_WORDS.match(text).group().strip()
      if matches := find_answer(context, aliases):
        qas = {
          "id": f"{question['QuestionId']}--{name}",
          "question": question["Question"],
          "answers": [matches],
        }
        paragraph = {"context": context, "qas": [qas]}
        yield {"title": name, "paragraphs": [paragraph]}


def convert(questions_file: str, evidence: str, output: str) -> int:
  """Writes a SQuAD file and returns its number of questions."""
  questions = textfiles.read_json(questions_file).get("Data", ())
  data = [*articles(questions, evidence)]
  if not data:
    raise UserError(
      f"no document in {evidence} has an answer: is it for {questions_file}?"
    )
  files.write_text(output, json.dumps({"version": "1.1", "data": data}))
  return len(data)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  for name in ("questions", "evidence", "output"):
    parser.add_argument(f"--{name}", required=True)
  args = parser.parse_args()
  try:
    number = convert(args.questions, args.evidence, args.output)
  except (OSError, UserError) as error:
    parser.exit(1, f"ERROR: {error}\n")
  print(f"wrote {number:,} questions to {args.output}")


if __name__ == "__main__":
  main()
