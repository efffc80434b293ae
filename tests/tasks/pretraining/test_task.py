import pytest

from cli.arguments import Arguments
from data.pretraining.instances import DEFAULT
from tasks.pretraining import task
from tests.training import toy


def test_small_sources_are_sampled_more_than_their_size(tmp_path):
  for name, size in (("en", 4000), ("en2", 6000), ("is", 100)):
    (tmp_path / name).write_bytes(b"x" * size)
  args = Arguments(
    input_file=f"{tmp_path}/en*, {tmp_path}/is",
    sampling_weights=None,
    sampling_exponent=0.5,
  )
  english, icelandic = task._weighted_sources(args)
  assert [path[-3:] for path in english.files] == ["/en", "en2"]
  assert english.weight / icelandic.weight == pytest.approx(10)


def test_sources_without_records_are_named(tmp_path):
  for name, size in (("en", 10), ("is", 0)):
    (tmp_path / name).write_bytes(b"x" * size)
  for patterns in (f"{tmp_path}/en,{tmp_path}/is", f"{tmp_path}/is"):
    args = Arguments(
      input_file=patterns, sampling_weights=None, sampling_exponent=0.5
    )
    with pytest.raises(ValueError, match=f"{tmp_path}/is: no bytes to weigh"):
      task._weighted_sources(args)


def test_flags_of_masking_without_effect_on_training_are_said(tmp_path, caplog):
  toy.write_records(tmp_path / "masked", 4)
  args = Arguments(
    **dict.fromkeys(("input_file", "eval_file"), str(tmp_path / "masked")),
    output_dir=str(tmp_path),
    masked_lm_prob=DEFAULT.masked_lm_prob,
    max_predictions_per_seq=toy.P,
    mask_token_prob=DEFAULT.policy.mask_token_prob,
    random_token_prob=DEFAULT.policy.random_token_prob,
    max_seq_length=toy.T,
    objective="mlm_nsp",
    **{"do_whole_word_mask": False, "vocab_file": None},
    pack_examples=False,
    **{"max_corrupt_records": 0},
    **{"sampling_weights": None, "sampling_exponent": 1.0},
  )
  task.train_data(args, toy.config())
  changed = args.replace(masked_lm_prob=0.25)
  task.eval_data(changed, toy.config())
  assert not caplog.messages
  task.train_data(changed, toy.config())
  assert f"no word is masked when {args.input_file} is read" in caplog.text
