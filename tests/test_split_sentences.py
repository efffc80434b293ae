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


BOOK = """The licence is said first.

*** START OF THE PROJECT GUTENBERG EBOOK A BOOK ***

A BOOK

BY NOBODY.

CONTENTS

Chapter I

"Who is there?" he said; and
a voice said:

"Nobody."

* * *

Part of it was true--

*** END OF THE PROJECT GUTENBERG EBOOK A BOOK ***

The licence goes on.
"""


def test_a_book_becomes_a_document_of_its_prose(tmp_path):
  (tmp_path / "book").write_text(BOOK)
  log, text = _split(tmp_path / "book", source="books")
  assert text.splitlines() == [
    '"Who is there?" he said; and a voice said:',
    '"Nobody."',
    "Part of it was true--",
    "",
  ]
  # Title, author, CONTENTS, heading and asterisks. The licence does not count.
  assert "5 dropped paragraphs" in log
