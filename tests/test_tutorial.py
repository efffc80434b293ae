"""tutorial.ipynb has outputs without errors, and runs."""

import nbformat
import pytest

from tests import programs

FILE = programs.ROOT / "tutorial.ipynb"


def _outputs(notebook):
  return [
    output
    for cell in notebook.cells
    if cell.cell_type == "code"
    for output in cell.outputs
  ]


def test_the_notebook_has_outputs_without_errors():
  assert FILE.stat().st_size < 400_000
  text = FILE.read_text()
  outputs = _outputs(nbformat.reads(text, 4))
  kinds = {output.output_type for output in outputs}
  assert len(outputs) > 8 and "error" not in kinds
  assert '"image/png"' in text and "predictions" in text
  for private in ("/home/", "/root/", "/tmp/", "Traceback"):
    assert private not in text


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
  nbclient = pytest.importorskip("nbclient")
  pytest.importorskip("ipykernel")
  for path in programs.ROOT.iterdir():
    if not path.name.startswith(".") and path.name != "tutorial":
      (tmp_path / path.name).symlink_to(path)
  notebook = nbformat.read(FILE, 4)
  before = len(_outputs(notebook))
  resources = {"metadata": {"path": str(tmp_path)}}
  client = nbclient.NotebookClient(
    notebook, timeout=1800, resources=resources, coalesce_streams=True
  )
  client.execute()  # raises the error of a cell that fails
  assert len(_outputs(notebook)) == before
  assert (tmp_path / "tutorial/errors.csv").read_text().startswith("probab")
