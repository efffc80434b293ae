"""CoNLL files: columns, documents, tags, and errors with their lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ner import examples, tagging
from tasks.ner.examples import Sentence
from tests import shared

TEXT = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER

-DOCSTART- -X- O O

Blackburn NNP I-NP I-LOC"""


def _write(tmp_path, content):
  path = tmp_path / "x.conll"
  path.write_bytes(content.encode())
  return str(path)


def _tagged(*texts):
  return [Sentence([""] * len(tags), tags) for tags in map(str.split, texts)]


@pytest.mark.parametrize("tag", [-1, 3])
def test_columns_and_documents(tmp_path, tag):
  path = _write(tmp_path, TEXT)
  assert examples.read_sentences(path, tag_column=tag) == [
    Sentence(["EU", "rejects"], ["I-ORG", "O"], 0, 3),
    Sentence(["Peter"], ["I-PER"], 0, 6),
    Sentence(["Blackburn"], ["I-LOC"], 1, 10),
  ]
  others = examples.read_sentences(path, word_column=1, tag_column=-2)
  assert others[0] == Sentence(["NNP", "VBZ"], ["I-NP", "I-VP"], 0, 3)


def test_words_alone(tmp_path):
  path = _write(tmp_path, "\ufeffa\r\nb\r\n\t\r\n\n\u3000\n")
  assert examples.read_sentences(path, tag_column=None) == [
    Sentence(["a", "b"], None, 0, 1),
    Sentence(["\u3000"], None, 0, 5),
  ]


def test_comments_and_words_with_blanks_have_a_tab(tmp_path):
  text = "## id\ttext\n## O\n# O\n\nNew York\tB-LOC\na\u00a0b  O\n"
  assert examples.read_sentences(_write(tmp_path, text)) == [
    Sentence(["##", "#"], ["O", "O"], 0, 2),
    Sentence(["New York", "a\u00a0b"], ["B-LOC", "O"], 0, 5),
  ]


@pytest.mark.parametrize(
  ("content", "columns", "message"),
  [
    ("a O\nb\n", {}, "2: 1 column, so that columns 0 and -1 are the same"),
    ("a O\n", {"tag_column": 3}, "line 1: 2 columns, so that there is no.* 3"),
    ("a O\n", {"tag_column": -3}, "1: 2 columns, so that there is no.* -3"),
    ("a O\n\n\tO\n", {}, "line 3: the word or the tag is empty"),
    ("\n-DOCSTART- O\n\n", {}, "x.conll has no words"),
    ("", {}, "x.conll has no words"),
  ],
)
def test_errors_name_the_line(tmp_path, content, columns, message):
  with pytest.raises(ValueError, match=message):
    examples.read_sentences(_write(tmp_path, content), **columns)


def test_order_of_the_tags():
  sentences = _tagged("I-PER B-LOC O", "B-PER LOC")
  # Each type gets the prefixes of all types: another file may need them.
  expected = ("O", "B-LOC", "I-LOC", "LOC", "B-PER", "I-PER")
  assert tagging.tag_set(sentences) == expected
  assert tagging.tag_set(_tagged("PER O LOC")) == ("O", "LOC", "PER")
  # Tags without a type are one type, which gets no prefix of another type.
  assert tagging.tag_set(_tagged("B I O")) == ("O", "B", "I")
  assert tagging.tag_set(_tagged("B O I-X")) == ("O", "B", "I-X")


@pytest.mark.slow
@shared.on_datasets
@pytest.mark.parametrize(
  ("file", "tag", "sentences", "words"),
  [
    ("wnut17/wnut17train.conll", -1, 3394, 62730),
    ("wnut17/emerging.test", None, 1287, 23394),
    ("ncbi_disease/train.tsv", -1, 5424, 135701),
    ("bc5cdr/train.tsv", -1, 4560, 118170),
    ("wikiann_en/train", -1, 20000, 160394),
    ("wikigold/wikigold.conll.txt", -1, 1696, 39007),
  ],
)
def test_reads_the_real_files(file, tag, sentences, words):
  path = f"{shared.DATASETS}/{file}"
  result = examples.read_sentences(path, tag_column=tag)
  assert len(result) == sentences
  assert sum(len(sentence.words) for sentence in result) == words
  if "wikigold" in file:
    assert result[-1].document == 144


WORDS = st.text(
  st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" \ufeff"),
  min_size=1,
).filter(
  lambda word: (
    not word.startswith(examples.DOCUMENT_START)
    and not set(word) & set(",;")  # delimiters of tables
  )
)
SENTENCES = st.lists(
  st.lists(st.tuples(WORDS, st.sampled_from(["O", "B-a", "I-a"])), min_size=1),
  min_size=1,
)


@given(SENTENCES, st.sampled_from([" ", "\t"]), st.sampled_from(["\n", "\r\n"]))
def test_whatever_is_written_is_read(tmp_path_factory, sentences, blank, end):
  folder = tmp_path_factory.mktemp("conll")
  text = (end * 2).join(
    end.join(f"{word}{blank}{tag}" for word, tag in sentence)
    for sentence in sentences
  )
  result = examples.read_sentences(_write(folder, text))
  pairs = [list(zip(one.words, one.tags, strict=True)) for one in result]
  assert pairs == sentences
