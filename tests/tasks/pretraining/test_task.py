import pytest

from cli.arguments import Arguments
from tasks.pretraining import task


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
