"""Small Korean data in the formats of published data sets."""

import pytest

from tasks.classification.examples import read_examples as read_texts
from tasks.ner import examples as ner
from tasks.ner.metrics import write_conll
from tasks.squad import metrics
from tasks.squad.answers import Predictions
from tasks.squad.examples import SquadExample, read_examples
from tests import shared
from tests.tasks.classification.test_custom_task import task_of

# Columns: answer, right answer, exact match, F1 of characters. Quotation marks
# become blanks, and other punctuation vanishes.
CHARACTERS = [
  ("세종대왕", "세종대왕", 1, 1.0),
  ("세종대왕은", "세종대왕", 0, 8 / 9),
  ("태조", "세종대왕", 0, 0.0),
  ("《훈민정음》", "훈민정음", 1, 1.0),
  ("'훈민' 정음", "훈민 정음", 1, 1.0),
  ("훈민'정음", "훈민정음", 0, 1.0),
  ("1,446년", "1446년", 1, 1.0),
  ("1446년(세종 28년)", "1446년", 0, 2 / 3),
  ("KBS", "kbs", 1, 1.0),
  ("", "집", 1, 0.0),  # equals "", which is a right answer in each row
  ("가가나", "가나나", 0, 2 / 3),
  ("서울시  종로구", "서울시 종로구", 1, 1.0),
  ("나가", "가나", 0, 1.0),
]


@pytest.mark.parametrize(("answer", "expected", "exact", "f1"), CHARACTERS)
def test_scores_of_characters_are_korquads_scores(answer, expected, exact, f1):
  # A score is the best over several right answers. The second question has no
  # answer and scores 0, so the mean is half of the first question's score.
  texts = ["", expected, "없음"]
  examples = [SquadExample("a", "?", [], answer_texts=texts)]
  examples.append(SquadExample("b", "?", [], answer_texts=["강"]))
  scores = metrics.score_characters(examples, Predictions({"a": answer}))
  assert scores == pytest.approx({"exact_match": 50 * exact, "f1": 50 * f1})


def test_training_uses_the_first_of_several_answers(tmp_path, caplog):
  starts = {"서울": 0, "강": 5, "이": 7}
  answers = [{"text": t, "answer_start": n} for t, n in starts.items()]
  qas = [{"guid": "klue-1", "question": "강 이 ?", "answers": answers}]
  context = "서울 은 강 이 흐른다 ."
  path = shared.write_squad(tmp_path / "x.json", *qas, context=context)
  [example] = read_examples([path], is_training=True)
  assert (example.qas_id, example.answer.text) == ("klue-1", "서울")
  assert "1 question with several answers: training" in caplog.text


def test_predictions_for_klue_keep_its_characters_and_blanks(tmp_path, caplog):
  (tmp_path / "klue.tsv").write_text(
    "## klue-ner-v1_train_00000\t<서울:LC>은 강이 흐른다\n"
    "서\tB-LC\n울\tI-LC\n은\tO\n \tO\n강\tO\n이\tO\n \tO\n흐\tO\n른\tO\n다\tO\n"
    "\n## klue-ner-v1_train_00001\tB.A.P <부산:LC>이 좋다\n"
    "부\tB-LC\n산\tI-LC\n이\tO\n \tO\n좋\tO\n다\tO\n\n"
  )
  sentences = ner.read_sentences(str(tmp_path / "klue.tsv"))
  assert not caplog.messages
  path = tmp_path / "predictions.conll"
  write_conll(str(path), sentences, [sentence.tags for sentence in sentences])
  text = path.read_text()
  assert text.startswith("서 B-LC B-LC\n울 I-LC I-LC\n은 O O\n▁ O O\n강 O O\n")
  assert "다 O O\n\n부 B-LC B-LC\n산 I-LC I-LC\n이 O O\n" in text


# Rows in the formats of NSMC, KorNLI and KorSTS, flags from docs/languages.md,
# and the texts and labels of each row.
PAIRS = {"text_a_column": "sentence1", "text_b_column": "sentence2"}
TABLES = {
  "NSMC": (
    'id\tdocument\tlabel\n1\t영화가 좋다\t1\n2\t"영화가 나쁘다...\t0\n',
    {"text_a_column": "document", "label_column": "label"},
    [("영화가 좋다", None, "1"), ('"영화가 나쁘다...', None, "0")],
  ),
  "KorNLI": (
    "sentence1\tsentence2\tgold_label\n"
    '강이 흐른다.\t강은 "서울"이다.\tneutral\n'
    "서울은 좋다.\t서울이 좋다.\tentailment\n",
    PAIRS | {"label_column": "gold_label"},
    [
      ("강이 흐른다.", '강은 "서울"이다.', "neutral"),
      ("서울은 좋다.", "서울이 좋다.", "entailment"),
    ],
  ),
  "KorSTS": (
    "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"
    'main-news\ta\t2012\t1\t2.600\t"강이 흐른다.\t강은 흐른다.\n',
    PAIRS | {"label_column": "score", "is_regression": True},
    [('"강이 흐른다.', "강은 흐른다.", "2.600")],
  ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_texts_and_pairs_are_read(tmp_path, name):
  table, columns, expected = TABLES[name]
  (tmp_path / "train.tsv").write_text(table)
  task = task_of(tmp_path, tmp_path / "out", **columns)
  rows = read_texts(task, str(tmp_path), "train")
  assert [(row.text_a, row.text_b, row.label) for row in rows] == expected
