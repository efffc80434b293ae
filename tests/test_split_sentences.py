"""split_sentences.py turns prose, articles and books into documents."""

from tests import programs


def _split(path, **flags):
  output = path.parent / "out" / "text"
  flags |= {"input_file": path, "output_file": output}
  return programs.run("split_sentences", **flags), output.read_text("utf-8")


def test_each_file_becomes_a_document(tmp_path):
  (tmp_path / "a.txt").write_text("\ufeffOne. Two\nlines.\n\nThree.")
  (tmp_path / "b.txt").write_bytes(b"Four.\r\nFive.\r\n")
  _, text = _split(tmp_path / "*.txt")
  assert text == "One.\nTwo lines.\nThree.\n\nFour.\nFive.\n\n"


def test_very_long_sentences_are_counted(tmp_path):
  (tmp_path / "text").write_text(f"{'字' * 2_001}.\n\nIt rained.\n")
  log, _ = _split(tmp_path / "text")
  assert f"WARNING: {tmp_path}/text: 1 sentences have more than 2,000" in log


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
It is crushed, washed and smelted (see "Smelting").
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
It is crushed, washed and smelted (see "Smelting").

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
