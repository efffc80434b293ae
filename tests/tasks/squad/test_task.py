"""Data of run_squad.py: a dry run's limit applies to questions and scores."""

import json

from cli.arguments import Arguments
from tasks.squad import task


def test_a_limit_is_one_of_questions_and_of_what_is_scored(
  tmp_path, monkeypatch
):
  (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n")
  answers = [{"text": "b", "answer_start": 2}]
  questions = [
    {"id": str(number), "question": "a", "answers": answers}
    for number in range(5)
  ]
  paragraph = {"context": "a b", "qas": questions}
  path = tmp_path / "squad.json"
  path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
  monkeypatch.setattr(task.arguments, "max_examples", lambda args: 2)

  args = Arguments(
    predict_file=str(path),
    output_dir=str(tmp_path),
    vocab_file=str(tmp_path / "vocab.txt"),
    **{"max_seq_length": 8, "max_query_length": 4, "doc_stride": 2},
    **{"do_lower_case": True, "version_2_with_negative": False},
    **{"num_workers": 1, "dynamic_padding": False},
  )
  result = task.eval_data(args)

  assert [example.qas_id for example in result.examples] == ["0", "1"]
  assert len(result.windows) == 2
  assert [example.answer_texts for example in result.examples] == [["b"]] * 2
