"""Schemes of tags, such as BIO and BMES, and the tags of a run's files."""

import os
import re
from functools import partial

import pytest

from data import labels
from storage import UserError
from tasks.ner import examples, tagging
from tasks.ner.examples import Sentence
from tasks.ner.schemes import PATTERNS, Entity, Scheme, recognize
from tests import programs

COLUMNS = (0, -1)
# Columns: tags, name of the scheme, entities.
SCHEMES = [
  ("B-X I-X O B-X", "BIO", [(0, 2), (3, 4)]),
  ("I-X I-X O I-X", "IOB1", [(0, 2), (3, 4)]),
  ("B_X I_X L_X U_X", "BILOU", [(0, 3), (3, 4)]),
  ("X.B X.I _ X.B", "BIO", [(0, 2), (3, 4)]),
  ("B-X I-X 0 B-X", "BIO", [(0, 2), (3, 4)]),
  ("X_B X_I O B-X", "BIO", [(0, 2), (3, 4)]),  # mixed
  ("U-X U-X O U-X", "BILOU", [(0, 1), (1, 2), (3, 4)]),
  ("X_S X_S - X_S", "BIOS", [(0, 1), (1, 2), (3, 4)]),
  ("X X O X", "IO", [(0, 2), (3, 4)]),
  ("X X X X", "none (single words)", [(0, 1), (1, 2), (2, 3), (3, 4)]),
]


@pytest.mark.parametrize(("tags", "name", "entities"), SCHEMES)
def test_a_scheme_and_its_entities_are_recognized(tags, name, entities):
  tags = tags.split()
  scheme = recognize(tags)
  assert str(scheme) == name
  assert scheme.entities(tags) == [Entity("X", *ends) for ends in entities]


# Adjacent entities of one, two, three and one words, then O, then an entity of
# one word, then an entity of the type Y.
LETTERS = {
  "BIO": "B B I B I I B O B B",
  "IOB1": "I B I B I I B O I I",
  "BIOES": "S B E B I E S O S S",
  "BIOS": "S B I B I I S O S S",
  "BILOU": "U B L B I L U O U U",
  "BMES": "S B E B M E S O S S",
  "BMEWO": "W B E B M E W O W W",
  "IOE2": "E I E I I E E O E E",
}


@pytest.mark.parametrize("name", LETTERS)
@pytest.mark.parametrize("target", LETTERS)
def test_tags_of_any_scheme_are_converted_to_any_other_scheme(name, target):
  tags, expected = (
    [f"{letter}-X" for letter in LETTERS[one].split()] for one in (name, target)
  )
  tags[7] = expected[7] = "O"  # outside of all entities
  for one in (tags, expected):
    one[-1] = one[-1].replace("X", "Y")
  scheme = recognize(tags)
  # These tags fit BIO as well as IOB1, with the same entities.
  assert scheme.name == ("BIO" if name == "IOB1" else name)
  ends = [(0, 1), (1, 3), (3, 6), (6, 7), (8, 9)]
  entities = [Entity("X", *pair) for pair in ends] + [Entity("Y", 9, 10)]
  assert scheme.entities(tags) == entities
  assert scheme.convert(tags, Scheme(target)) == expected


@pytest.mark.parametrize(
  ("tags", "types"),
  [
    ("GPE-LOC-B GPE-LOC-I O", "GPE-LOC"),
    ("B-Hep-B I-Hep-B B-Vit-E I-Vit-E B-Type-I O", "Hep-B Type-I Vit-E"),
    ("B-X I-X I_X O", "X"),  # a typing error
    ("B I 0", ""),
    ("U_B U_I O", "U"),
    ("S-1-B S-2-B O", "S-1 S-2"),
    ("word U-X U-Y O", "X Y word"),  # a header
    # Types that only look like a scheme.
    ("art-other event-other O", "art-other event-other"),
    ("PER LOC E-mail U-Bahn S-Bahn O", "E-mail LOC PER S-Bahn U-Bahn"),
    ("N S I", "I N S"),
    ("B-cell T-cell protein O", "B-cell T-cell protein"),
  ],
)
def test_types_are_recognized_from_all_tags_together(tags, types):
  scheme = recognize(tags.split())
  result = {scheme.split(tag)[1] for tag in tags.split() if tag != "O"}
  assert " ".join(sorted(result)) == types


@pytest.mark.parametrize(
  ("tags", "expected"),
  [
    # Each type gets the prefixes of all types: the dev file may need them.
    ("I-PER B-LOC O B-PER LOC", "O B-LOC I-LOC LOC B-PER I-PER"),
    ("X_B X_I Y_B", "O X_B X_I Y_B Y_I"),
    ("- X_B", "- X_B"),
    # Tags without a type count as one type, which gets no prefix from I-X.
    ("B I O", "O B I"),
    ("B O I-X", "O B I-X"),
    ("DET ADJ ADJ NOUN", "ADJ DET NOUN"),
  ],
)
def test_every_entity_type_gets_each_prefix_that_any_type_has(tags, expected):
  sentences = [Sentence([""], [tag]) for tag in tags.split()]
  assert " ".join(tagging.tag_set(sentences)) == expected


# --- Files -----------------------------------------------------------------

BIO = "Ann B-PER\nLee I-PER\nran O\n\nto O\nRiga B-LOC\n"
BIOES = "Ann B-PER\nvan I-PER\nLee E-PER\nran O\n\nto O\nRiga S-LOC\n"
IOB1 = BIO.replace("B-", "I-")
SUFFIX = "Ann PER_B\nLee PER_I\nran -\n\nto -\nRiga LOC_B\n"


def _read(tmp_path, train, dev, tag_scheme=None):
  """Writes two files; returns the sentences of both, and the model's tags."""
  for name, text in (("train", train), ("dev", dev)):
    (tmp_path / name).write_text(text)
  find = partial(
    tagging.find_tags, str(tmp_path / "train"), COLUMNS, tag_scheme
  )
  tags = labels.choose(str(tmp_path), None, find)
  read = partial(tagging.read_tagged, columns=COLUMNS, tags=tags)
  sentences = [
    read(str(tmp_path / name), needs_tags=True, tag_scheme=tag_scheme)
    for name in ("train", "dev")
  ]
  return (*sentences, tags)


@pytest.mark.parametrize(
  ("train", "dev", "message"),
  [
    (BIO, BIOES, "dev, line 3: 'E-PER', where BIO has 'I-PER'"),
    (BIOES, BIO, "dev, line 2: 'I-PER', where BIOES has 'E-PER'"),
    (BIO, SUFFIX, "dev, line 1: 'PER_B', where BIO has 'B-PER'"),
    (SUFFIX, BIO, "dev, line 1: 'B-PER', where BIO has 'PER_B'"),
    ("Ann PER\nran O\n", BIO, "dev, line 1: 'B-PER', where IO has 'PER'"),
  ],
)
def test_a_dev_file_in_another_tag_scheme_than_the_training_file_is_refused(
  tmp_path, train, dev, message
):
  with pytest.raises(ValueError, match=f"{message}.*--tag_scheme=BIO"):
    _read(tmp_path, train, dev)


NEIGHBORS = "Ann I-PER\nBen B-PER\nLee I-PER\n\nto O\nRiga I-LOC\n"


@pytest.mark.parametrize(
  ("train", "name"), [(NEIGHBORS, "IOB1"), (NEIGHBORS + BIO * 2, "BIO")]
)
def test_the_scheme_of_most_entities_decides_between_iob1_and_bio(
  tmp_path, train, name, log
):
  sentences, *_ = _read(tmp_path, train, BIO)
  assert f"train: tag scheme {name}" in log.text
  first = "B-PER" if name == "IOB1" else "I-PER"
  assert sentences[0].tags == [first, "B-PER", "I-PER"]


@pytest.mark.parametrize("train", [BIO, IOB1])
@pytest.mark.parametrize("dev", [BIO, IOB1, BIO + "\nof I-LOC\n"])
def test_files_of_iob1_are_read_as_bio(tmp_path, train, dev, log):
  _, sentences, tags = _read(tmp_path, train, dev)
  assert tags == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
  assert sentences[0].tags == ["B-PER", "I-PER", "O"]
  assert sentences[1].tags == ["O", "B-LOC"]
  name = "IOB1" if dev == IOB1 else "BIO"
  assert f"dev: tag scheme {name}" in log.text
  text = "Ann PER_I\nBen PER_B\nran -\n"
  [sentence], *_ = _read(tmp_path, text, text)
  assert sentence.tags == ["PER_B", "PER_B", "-"]  # spelled as in the file


@pytest.mark.parametrize(
  ("train", "message"),
  [
    (BIO * 2 + BIOES, "line 15: 'E-PER', where BIO "),
    (BIO + SUFFIX.replace("-", "O"), "line 7: 'PER_B', where BIO "),
    (BIO + BIO.replace("O", "0"), "line 9: '0', where BIO "),
  ],
)
def test_a_file_of_mixed_schemes_is_reported(tmp_path, caplog, train, message):
  (tmp_path / "train").write_text(train)
  path = str(tmp_path / "train")
  tags = (*tagging.find_tags(path, COLUMNS),)  # a tuple, as from labels.txt
  sentences = tagging.read_tagged(path, COLUMNS, tags, needs_tags=True)
  assert f"train, {message}has '" in caplog.text
  assert "--tag_scheme=BIO" in caplog.text
  result = [recognize(tags).entities(s.tags) for s in sentences]
  # Each entity has one tag with the letter B, or a tag S-LOC.
  assert sum(map(len, result)) == train.count("B") + train.count("S-")


@pytest.mark.parametrize("train", [BIO, BIOES, IOB1, SUFFIX, BIO + SUFFIX])
@pytest.mark.parametrize("target", tagging.TARGETS)
def test_the_flag_tag_scheme_converts_all_files(tmp_path, train, target):
  """A model gets all tags of the target, even if the training file has few."""
  _, sentences, tags = _read(tmp_path, train, BIOES, target)
  letters = sorted({*PATTERNS[target]})
  expected = [f"{c}-{kind}" for kind in ("LOC", "PER") for c in letters]
  assert tags == ("O", *expected)
  first, _ = sentences
  middle, last = ("I-PER", "E-PER") if target == "BIOES" else ("I-PER",) * 2
  assert first.tags == ["B-PER", middle, last, "O"]
  assert first.scheme.name == "BIOES"
  ioe2 = "Ann I-PER\nLee E-PER\n"
  assert _read(tmp_path, train, ioe2, target)[1][0].scheme.name == "IOE2"


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("Ann B-PER\nran X\nto O\n", "line 2: 'X': no sch.*--tag_scheme"),
    ("Ann NN\nran VB\n", "tags of single words: no scheme"),
  ],
)
def test_tag_scheme_refuses_tags_it_cannot_convert(tmp_path, text, message):
  with pytest.raises(ValueError, match=message):
    _read(tmp_path, text, text, "BIO")


@pytest.mark.parametrize(
  ("tags", "message"),
  [
    ("Tag B-PER I-PER O", "train, line 1: 'Tag' is in no known scheme"),
    ("X BEGIN-PER INSIDE-PER O", "train, line 2: 'BEGIN-PER' is in no known"),
    ("b-PER i-PER", "train, line 1: 'b-PER' is in no known scheme"),
    ("PER LOC O", None),
    ("DT NN VB", None),
  ],
)
def test_tags_of_no_known_scheme_are_reported(tmp_path, caplog, tags, message):
  text = "".join(f"Ann {tag}\n" for tag in tags.split())
  _read(tmp_path, text, text)
  assert "where" not in caplog.text  # as in "where BIO has 'B-PER'"
  assert (message or "") in caplog.text
  assert ("in no known" in caplog.text) == bool(message)


def test_words_may_look_like_the_prefixes_of_a_tag_scheme(tmp_path):
  text = "B X\nI O\n"
  assert _read(tmp_path, text, text)[2] == ("O", "X")


def test_a_small_dev_file_is_read_in_the_train_files_scheme(tmp_path, caplog):
  train = "a S-B\nb S-I\nc O\nd E-B\n"  # types S and E
  _read(tmp_path, train, "a S-B\nb O\n")
  assert "where" not in caplog.text  # as in "where BIO has 'B-PER'"


def test_equal_tags_give_equal_reprs_of_schemes_in_all_processes():
  """The fingerprint of a sweep's examples depends on these reprs."""
  tags = {"O", "x", "y", "z", "B-P", "I-P", "B-Q", "E-Q", "M-Q", "S-R"}
  code = "from tasks.ner import schemes as s; print(repr(s.recognize(%r)))"
  outputs = []
  for seed in "123":
    env = os.environ | {"PYTHONHASHSEED": seed}
    outputs.append(programs.python(["-c", code % tags], env=env).stdout)
  assert outputs == [f"{recognize(tags)!r}\n"] * 3


# --- Known, unknown and missing tags -----------------------------------------

PETS = ("O", "B-PET", "I-PET")
PET_FILE = """Rex B-PET
barks O

we O
saw O
old B-PET
Tom I-PET
"""


@pytest.fixture(name="folder")
def _folder(tmp_path):
  return str(tmp_path / "model")


def _write(tmp_path, text):
  (tmp_path / "x.txt").write_text(text)
  return str(tmp_path / "x.txt")


def _tags(path, columns, folder):
  return labels.choose(folder, None, partial(tagging.find_tags, path, columns))


def test_the_tags_of_a_model_come_from_the_training_file(tmp_path, folder):
  path = _write(tmp_path, PET_FILE)
  assert _tags(path, COLUMNS, folder) == PETS
  assert not labels.exist(folder)  # labels.txt is written later
  for needs_tags in (True, False):
    result = tagging.read_tagged(path, COLUMNS, PETS, needs_tags)
    assert [s.tags for s in result] == [["B-PET", "O"], ["O", "O", *PETS[1:]]]
  labels.save(PETS, folder)
  # A prediction ignores a training file that has changed.
  assert _tags(_write(tmp_path, "Rex S-DOG\n"), COLUMNS, folder) == PETS


def test_a_training_needs_at_least_two_tags(tmp_path, folder):
  path = _write(tmp_path, "Rex NNP O B-PET\nbarks VBZ O O\n")
  with pytest.raises(ValueError, match=r"x\.txt: every tag is 'O'; .* column"):
    _tags(path, (0, 2), folder)
  assert not labels.exist(folder)


@pytest.mark.parametrize(
  ("text", "error"),
  [
    ("Rex O\nTom B-X", "x.txt, line 2: 'B-X' is none .* O, B-PET, I-PET"),
    ("Rex\nTom", "x.txt, line 1: 1 column"),
    ("Rex _\nTom _", "x.txt, line 1: '_' is none of the model's"),
    ('{"tokens": ["Rex", "Tom"]}', "x.txt, line 1: expected ner_tags"),
    ('{"tokens": ["Rex", "Tom"], "tags": ["O", "B-X"]}', "line 1: 'B-X' is"),
  ],
)
def test_words_with_unknown_or_missing_tags_are_not_scored(
  tmp_path, caplog, text, error
):
  path = _write(tmp_path, text)
  with pytest.raises(ValueError, match=error):
    tagging.read_tagged(path, COLUMNS, PETS, needs_tags=True)
  assert not caplog.messages
  [sentence] = tagging.read_tagged(path, COLUMNS, PETS, needs_tags=False)
  assert (sentence.words, sentence.tags) == (["Rex", "Tom"], None)
  message = f"words are tagged, but nothing is scored: .*{error}"
  assert re.search(message, caplog.messages[-1])


def test_a_test_file_with_a_sentence_on_each_line_is_refused(tmp_path):
  path = _write(tmp_path, "Rex met Tom .\n\nTom ran home\n")
  with pytest.raises(UserError, match=r"tags, .*; a line has a word, not a"):
    tagging.read_tagged(path, COLUMNS, PETS, needs_tags=False)


def test_the_code_in_named_entities_md_turns_spans_into_tags(tmp_path, capsys):
  page = (programs.ROOT / "docs/named_entities.md").read_text()
  [block] = re.findall(r"```python\n(.*?)```", page, re.S)
  exec(compile(block, "docs/named_entities.md", "exec"), {})
  path = _write(tmp_path, capsys.readouterr().out)
  [sentence] = examples.read_sentences(path)
  assert sentence.words == ["Ann", "Lee", "ran", "to", "Riga", "."]
  assert sentence.tags == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
