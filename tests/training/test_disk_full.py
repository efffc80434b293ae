"""A full disk gives a one-line error, whichever library writes."""

import pytest
import tensorflow as tf

from cli import program
from training import checkpoint

FULL = "/dev/full"  # every write fails as on a full disk


def test_the_message_about_a_full_disk_has_a_remedy():
  with (
    pytest.raises(tf.errors.OpError) as raised,
    tf.io.gfile.GFile(FULL, "w") as file,
  ):
    file.write("x" * 100_000)
  line = program.message_of(raised.value)
  assert line.startswith(
    f"{FULL}; No space left on device: free some space, or"
  )


def test_the_message_about_a_full_disk_names_the_checkpoint(
  tmp_path, monkeypatch
):
  def refuse(prefix, **_):
    (tmp_path / f"{prefix}.data-0.tempstate7").touch()
    message = f"{prefix}.data-0.tempstate7; No space left on device"
    raise tf.errors.ResourceExhaustedError(None, None, message)

  monkeypatch.setattr(tf.raw_ops, "SaveV2", refuse)
  prefix = str(tmp_path / "model.ckpt-0")
  with pytest.raises(OSError) as raised:
    checkpoint.write(prefix, {})
  line = program.message_of(raised.value)
  assert f"{tmp_path}/unfinished-model.ckpt-0.data" in line
  assert "No space left on device): free some space" in line
  assert not list(tmp_path.iterdir())
