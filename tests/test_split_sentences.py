"""split_sentences.py turns prose, articles and books into documents."""

import re
from random import Random

import pytest

from tests import programs, shared


def _split(path, **flags):
  output = path.parent / "out" / "text"
  flags |= {"input_file": path, "output_file": output}
  return programs.run("split_sentences", **flags), output.read_text("utf-8")


def test_each_file_becomes_a_document(tmp_path):
  (tmp_path / "a.txt").write_text("\ufeffOne. Two\nlines.\n\nThree.")
  (tmp_path / "b.txt").write_bytes(b"Four.\r\nFive.\r\n")
  _, text = _split(tmp_path / "*.txt")
  assert text == "One.\nTwo lines.\nThree.\n\nFour.\nFive.\n\n"


def test_very_long_sentences_and_json_are_reported(tmp_path):
  (tmp_path / "x").write_text('{"text": "It rained."}\n' + "字" * 2_001)
  log, _ = _split(tmp_path / "x")
  assert f"WARNING: {tmp_path}/x: 1 sentences have more than 2,000" in log
  assert f"WARNING: {tmp_path}/x: the text looks like JSON" in log


ARTICLES = """<doc id="1" url="https://x/wiki?curid=1" title="Ore">
Ore

Ore is rock that holds metal. It is dug up.

History.
Early life and works.
Section::::Uses.
- tin
* lead, which is heavy and soft and has been known for long.
BULLET::::- zinc is also one of the metals that are dug up.
1. First of all the metals in use by men was copper.
| Metal || Weight || Colour of it in the sun. It is grey.
The following metals are found in ore:
It is crushed, washed &amp; smelted (see "Smelting").
</doc>
<doc id="2" url="" title="Empty">
Empty

</doc>
<doc id="3" title="矿石">
矿石

矿石是指可从中提取有用组分或其本身具有某种可被利用的性能的矿物集合体。
</doc>
"""
PASSAGES = """Ore is rock that holds metal.
It is dug up.
It is crushed, washed & smelted (see "Smelting").

矿石是指可从中提取有用组分或其本身具有某种可被利用的性能的矿物集合体。

"""


def test_wikipedia_articles_become_documents_of_passages(tmp_path):
  (tmp_path / "wiki_00").write_text(ARTICLES, encoding="utf-8")
  log, text = _split(tmp_path / "wiki_00", source="wikipedia")
  assert text == PASSAGES
  assert "2 documents, 4 sentences" in log
  # Each line is a paragraph: three titles, and nine lines of the first article.
  assert "12 dropped paragraphs" in log


def test_a_book_becomes_a_document_of_its_prose(tmp_path):
  (tmp_path / "book").write_text('CHAPTER I\n\n"Who?" he said; and\nleft.\n')
  log, text = _split(tmp_path / "book", source="books")
  assert text == '"Who?" he said; and left.\n\n'
  assert "1 dropped paragraphs" in log


# Parts of sentences for random documents. Each language has lists of subjects,
# predicates and end marks, and the string between two parts.
PROSE = {
  "hindi": (
    ["राम", "मेरी बहन", "बूढ़ा किसान", "पड़ोसी का लड़का", "डॉ. शर्मा"],
    ["कल बाज़ार से आम लाया", "नदी के किनारे बैठा रहा", "आज देर तक सोता रहा",
     "हमारे घर चाय पीने आया", "बारिश में भीग गया", "पुरानी किताब पढ़ता है"],
    ["।", "!", "?", " ।"], " ",
  ),
  "japanese": (
    ["母は", "隣の犬が", "駅前の店は", "山田さんは", "古い時計が"],
    ["朝から庭で歌っていた", "雨の中を走って行った", "静かな町で暮らしている",
     "三時に止まってしまった", "また来ると言っていた", "白い花を買って帰った"],
    ["。", "！", "？", "。」"], "",
  ),
}  # fmt: skip


@pytest.mark.parametrize("language", ["hindi", shared.slow("japanese")])
def test_half_of_the_pairs_are_next_sentences(language, tmp_path):
  """Eight documents have no line breaks between their 300 sentences."""
  subjects, predicates, marks, joint = PROSE[language]
  rng = Random(language)
  for number in range(8):
    sentences = (
      rng.choice(subjects) + joint + rng.choice(predicates) + rng.choice(marks)
      for _ in range(300)
    )
    (tmp_path / f"{number}.txt").write_text(joint.join(sentences), "utf-8")
  log, text = _split(tmp_path / "*.txt")
  assert "WARNING" not in log
  # A blank line follows each document.
  assert len(text.split("\n")) == 8 * 300 + 8 + 1
  flags = {"do_lower_case": False, "input_file": tmp_path / "out/text"}
  vocabulary = tmp_path / "vocab"
  programs.run(
    "build_vocab", output_file=vocabulary, max_alphabet=8000, **flags
  )
  flags |= {"vocab_file": vocabulary, "output_file": tmp_path / "records"}
  log = programs.run("create_pretraining_data", **flags, dupe_factor=5)
  assert "WARNING" not in log
  pattern = "([0-9,]+) instances, ([0-9,]+) random next sentences"
  [*_, counts] = re.findall(pattern, log)
  instances, random = (int(number.replace(",", "")) for number in counts)
  assert instances > 500
  assert 0.45 < random / instances < 0.55
