"""split_sentences.py turns prose, articles and books into documents."""

import json

import pytest

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


@pytest.mark.parametrize("source", ["prose", "books"])
def test_words_stay_apart_at_every_line_end(source, tmp_path):
  ends = "\n", "\r\n", "\r", "\u2028", "\x85", "\x0b", "\x0c", "\r\r\n"
  for end in ends:
    content = f"Owls hunt{end}at night.{end}Foxes, too.{end}"
    (tmp_path / repr(end)).write_bytes(content.encode())
  # Old Macintosh line ends in a file with newer line ends.
  content = b"Owls hunt\rat night.\rFoxes, too.\n"
  (tmp_path / "mixed").write_bytes(content)
  _, text = _split(tmp_path / "*", source=source)
  assert text == "Owls hunt at night.\nFoxes, too.\n\n" * (len(ends) + 1)


def test_json_lines_and_web_pages_are_reported(tmp_path):
  (tmp_path / "a").write_text('{"text": "Owls hunt."}\n')
  (tmp_path / "b").write_text("<p>Owls hunt.</p>\n")
  for name in "ab":
    log, _ = _split(tmp_path / name, overwrite=True)
    assert "look like JSON or HTML, whose signs become words" in log


@pytest.mark.parametrize(
  ("unit", "number"), [("字", 44_173), ("word ", 1000), ("ฝนตก", 60)]
)
def test_an_endless_sentence_is_reported(unit, number, tmp_path):
  (tmp_path / "text").write_text(f"{unit * number}.\n\nIt rained.\n")
  log, text = _split(tmp_path / "text")
  size = len(text.split("\n")[0])
  assert f"WARNING: {tmp_path}/text: {size:,} characters, from {unit[:3]}" in (
    log.replace("'", "")
  )
  assert log.count("docs/languages.md lacks: use a tool that splits the") == 1
  assert "1 unsplit sentences" in log


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
Metal | Weight | Colour of it in the sun. | It is grey.
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
  articles = ARTICLES.split("</doc>\n")[:-1]
  rows = [{"text": text.partition("\n")[2]} for text in articles]
  lines = "".join(json.dumps(row) + "\n" for row in rows)
  (tmp_path / "wiki_01").write_text(lines)
  for name in ("wiki_00", "wiki_01"):
    log, text = _split(tmp_path / name, source="wikipedia", overwrite=True)
    assert text == PASSAGES
    assert "2 documents, 4 sentences" in log
    assert "12 dropped paragraphs" in log


BOOK = """The licence is said first.

*** START OF THE PROJECT GUTENBERG EBOOK A BOOK ***

A BOOK

BY NOBODY.

CONTENTS

Chapter I. The Hill . . . . . . 1
Chapter II. The Dale . . . . . . 9

Chapter I. The Hill.

"Who is there?" he said; and
a voice said:

"Nobody."

* * *

ore    9    grey.
tin    7    white.

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
  assert "7 dropped paragraphs" in log
