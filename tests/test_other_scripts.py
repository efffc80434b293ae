"""Hindi, Japanese and German text becomes sentences, a vocabulary and pairs."""

import re
from random import Random

import pytest

from tests import programs, shared

# Parts of sentences for random documents. Each language has lists of subjects,
# predicates and end marks, and the string between two sentences.
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
  "german": (
    ["Dr. Müller", "Die Kl. B", "Am 5. Januar der Nachbar", "Herr Elm, Nr. 5,"],
    ["ging z. B. am 3. Oktober zum Markt", "saß lange am Fluss", "las ein Buch",
     "kam erst spät nach Hause", "trank mit uns Tee", "vergaß den Schlüssel"],
    [".", "!", "?", ".“"], " ",
  ),
}  # fmt: skip


def _write_prose(folder, language, documents=8, size=300):
  """Writes documents, one a file, without line breaks between sentences."""
  subjects, predicates, marks, joint = PROSE[language]
  blank = "" if language == "japanese" else " "
  rng = Random(language)
  for number in range(documents):
    sentences = (
      rng.choice(subjects) + blank + rng.choice(predicates) + rng.choice(marks)
      for _ in range(size)
    )
    (folder / f"{number}.txt").write_text(joint.join(sentences), "utf-8")
  return documents * size


def _fraction_of_next(folder):
  """Makes sentences, a vocabulary and pairs from the files of a folder.

  Returns the fraction of pairs in which the second sentence follows the first
  in the text, the number of pairs, and the sentences.
  """
  text, vocabulary = folder / "sentences", folder / "vocab"
  log = programs.run(
    "split_sentences", input_file=folder / "*.txt", output_file=text
  )
  assert "WARNING" not in log
  flags = {"do_lower_case": False, "input_file": text}
  programs.run(
    "build_vocab", output_file=vocabulary, max_alphabet=8000, **flags
  )
  flags |= {"vocab_file": vocabulary, "output_file": folder / "records"}
  flags["dupe_factor"] = 5
  log = programs.run("create_pretraining_data", **flags)
  assert "WARNING" not in log
  pattern = "([0-9,]+) instances, ([0-9,]+) random next sentences"
  [*_, counts] = re.findall(pattern, log)
  instances, random = (int(number.replace(",", "")) for number in counts)
  return 1 - random / instances, instances, text.read_text("utf-8")


SLOW = map(shared.slow, ("japanese", "german"))


@pytest.mark.parametrize("language", ["hindi", *SLOW])
def test_half_of_the_pairs_are_next_sentences(language, tmp_path):
  number = _write_prose(tmp_path, language)
  fraction, instances, text = _fraction_of_next(tmp_path)
  # A blank line follows each of the 8 documents.
  assert len(text.split("\n")) == number + 8 + 1
  assert instances > 500
  assert 0.45 < fraction < 0.55
