"""split_sentences.py: files in, one document each out."""

from tests import programs


def _run(**flags):
  return programs.call("split_sentences", **flags)


def test_a_file_is_a_document(tmp_path):
  (tmp_path / "a.txt").write_text("One. Two\nlines.\n\nThree.")
  (tmp_path / "b.txt").write_bytes(b"Four.\r\nFive.\r\n")
  output = tmp_path / "out" / "text"
  done = _run(input_file=tmp_path / "*.txt", output_file=output)
  assert done.returncode == 0, done.stderr
  assert output.read_text() == "One.\nTwo lines.\nThree.\n\nFour.\nFive.\n\n"
  again = _run(input_file=tmp_path / "*.txt", output_file=output)
  assert again.returncode == 1
  assert "--overwrite" in again.stderr


def test_what_is_read_is_not_written(tmp_path):
  text = tmp_path / "a.txt"
  text.write_text("One. Two.")
  done = _run(input_file=text, output_file=text, overwrite=True)
  assert done.returncode == 1
  assert "a.txt is an input, too" in done.stderr
  assert text.read_text() == "One. Two."


def test_no_text_is_an_error(tmp_path):
  (tmp_path / "a.txt").write_text("\n \n")
  done = _run(input_file=tmp_path / "a.txt", output_file=tmp_path / "out")
  assert done.returncode == 1
  assert "holds no text" in done.stderr
  assert not (tmp_path / "out").exists()
