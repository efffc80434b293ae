"""README's commands run in the order of the page, with shorter trainings."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests import programs, shared

TEXT = (programs.ROOT / "README.md").read_text(encoding="utf-8")
LINES = re.findall(r"^    (\S.*)", TEXT.replace("\\\n", " "), re.MULTILINE)
# Without the download, which has tests with a stand-in for the Hub, and without
# commands that need the reader's GLUE_DIR.
COMMANDS = [
  line
  for line in LINES
  if line.startswith(("python ", "curl ")) and not re.search("hf:|GLUE", line)
]
[CODE] = re.findall(r"^    import bert\n(?:    .*\n|\n)*", TEXT, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_commands_of_readme_run_in_their_order(tmp_path, request):
  # A folder with links to the checkout's code.
  for path in programs.ROOT.iterdir():
    if path.suffix == ".py" or any(path.glob("*.py")):
      (tmp_path / path.name).symlink_to(path)
  port = str(shared.free_port())
  python = os.path.dirname(sys.executable)
  environment = os.environ | {"PATH": f"{python}:{os.environ['PATH']}"}
  options = {"shell": True, "cwd": tmp_path, "env": environment, "text": True}
  # `exec` replaces the shell, so that signals reach the server.
  changes = {
    "--output_dir=model": (
      "--output_dir=model --num_train_steps=4 --num_warmup_steps=2"
    ),
    "--num_train_epochs=12": "--num_train_epochs=1",
    "python serve.py": f"exec python serve.py --port={port}",
    "8501": port,
  }
  assert len(COMMANDS) == 11
  outputs = []
  for line in COMMANDS:
    for old, new in changes.items():
      line = line.replace(old, new)
    if "serve.py" in line:
      server = subprocess.Popen(line, **options)
      request.addfinalizer(server.kill)
      continue
    if line.startswith("curl"):
      line = line.replace("curl", "curl --fail --retry 60 --retry-connrefused")
    done = subprocess.run(
      line, capture_output=True, check=False, timeout=600, **options
    )
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    outputs.append(done.stdout)
  server.terminate()
  assert server.wait(30) == 0
  assert '"label"' in outputs[-2]  # of predictor.py
  assert "predictions" in outputs[-1]  # of curl
  code = re.sub("^    ", "", CODE, flags=re.MULTILINE)
  done = programs.python(["-c", code], cwd=tmp_path)
  assert done.returncode == 0, done.stderr
