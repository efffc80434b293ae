"""SQuAD files made ready: a limit leaves nothing of the others."""

import json

from data.tasks import squad_input
from data.tasks.squad_windows import Settings
from data.tokenization import FullTokenizer


def test_a_limit_is_one_of_questions_and_of_what_is_scored(tmp_path):
  (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n")
  answers = [{"text": "b", "answer_start": 2}]
  questions = [
    {"id": str(number), "question": "a", "answers": answers}
    for number in range(5)
  ]
  paragraph = {"context": "a b", "qas": questions}
  path = tmp_path / "squad.json"
  path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))

  found = squad_input.prepare(
    [str(path)],
    str(tmp_path / "records"),
    FullTokenizer(tmp_path / "vocab.txt"),
    Settings(8, 4, 2),
    is_training=False,
    limit=2,
  )

  assert [example.qas_id for example in found.examples] == ["0", "1"]
  assert len(found.windows) == 2
  [article] = found.articles
  [kept] = article["paragraphs"]
  assert kept == {"context": "a b", "qas": questions[:2]}
