import re
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf

from data import vocab
from data.features import Masking
from data.pretraining import instances, shards
from data.pretraining.instances import InstanceConfig
from data.records import parser
from data.tokenization import FullTokenizer
from tests.data.pretraining import corpus
from tests.data.pretraining.corpus import MASKING, VOCAB_FILE

WORDS = vocab.load(VOCAB_FILE)
LINES = ["photosynthesis museum", "forgot computer", "bridge", "gallon"] * 3
TEXT = "\n".join([*LINES, "", ""])


@pytest.fixture(name="text")
def _text(tmp_path):
  path = tmp_path / "text.txt"
  path.write_text(TEXT * 5)
  return str(path)


def _config(**masking):
  instance = InstanceConfig(24, Masking(5, **masking), dupe_factor=4)
  return instances.BuildConfig(FullTokenizer(VOCAB_FILE), instance, 3)


@pytest.mark.parametrize("whole_word", [False, True])
def test_the_preview_counts_the_pairs_and_masks_of_the_records(
  text, tmp_path, whole_word
):
  config = _config(whole_word=whole_word)
  output = str(tmp_path / "records")
  number = shards.write_in_memory(config, [text], [output])
  columns = parser(config.instance_config.schema)(
    list(tf.data.TFRecordDataset(output))
  )
  records = {name: column.numpy() for name, column in columns.items()}
  labels, positions = records["masked_lm_ids"], records["masked_lm_positions"]
  shown = np.take_along_axis(records["input_ids"], positions, 1)
  used = records["masked_lm_weights"] > 0
  is_mask = used & (shown == WORDS[vocab.MASK])
  same = used & (shown == labels)
  *_, pairs, masks = shards.preview(config, [text], 0, MASKING)
  numbers = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) \(", masks)]
  other = used.sum() - is_mask.sum() - same.sum()
  assert numbers == [used.sum(), is_mask.sum(), other, same.sum()]
  random = records["next_sentence_labels"].sum()
  assert pairs.startswith(f"{number} instances: {number - random} (")
  assert f" {random} ({random / number:.1%}) with a random" in pairs
  tokens = records["input_mask"].sum()
  total = f"{used.sum()} ({used.sum() / tokens:.1%}) of {tokens:,} tokens are"
  assert masks.startswith(total)


def test_the_preview_shows_every_replacement(text):
  lines = [*shards.preview(_config(), [text], 2, MASKING)]
  assert lines[0].startswith("Instance 1: ")
  assert lines[1].startswith("  [CLS] ")
  assert lines[2].endswith(" [SEP]")
  row = " ".join(lines[1:3]).split()
  for line in lines[4 : lines.index("")]:
    position, token, shown = line.split()
    expected = token if shown == "(unchanged)" else shown
    assert row[int(position)] == expected
  assert sum(line.startswith("Instance") for line in lines) == 2


def test_the_preview_of_a_left_to_right_training_shows_next_tokens(text):
  options = MASKING, "left_to_right"
  lines = [*shards.preview(_config(), [text], 1, *options)]
  row = " ".join(lines[1:3]).split()
  assert lines[3].split() == ["position", "token", "predicts"]
  shown = [line.split()[1:] for line in lines[4 : lines.index("")]]
  assert shown == [[*pair] for pair in pairwise(row)]
  assert vocab.MASK not in row
  assert lines[-1].endswith("tokens predict the next one")


def test_masks_in_the_preview_of_unmasked_records_depend_on_the_seed(text):
  masking = Masking(7, 0.5, False, 1.0, 0.0)
  first, again, other = (
    [*shards.preview(corpus.build_config(None, seed), [text], 9, masking)]
    for seed in (1, 1, 2)
  )
  assert first == again != other
  assert " 0 (0.0%) unchanged" in first[-1]
  assert sum(line.endswith("  [MASK]") for line in first) > 9
