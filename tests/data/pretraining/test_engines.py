"""Dask, an engine of Beam, writes the records of local workers."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests import programs
from tests.data.pretraining.corpus import random_text

REMEDY = "needs `pip install -r requirements-beam.txt`"
pytest.importorskip("apache_beam", reason=REMEDY)
pytest.importorskip("distributed", reason=REMEDY)

pytestmark = pytest.mark.slow
DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"


def _make(folder, output, *flags):
  """Starts create_pretraining_data.py in a folder."""
  command = [sys.executable, programs.ROOT / "create_pretraining_data.py"]
  command += ["--input_file=./text", "--vocab_file=vocab.txt"]
  command += [f"--output_file=./records/{output}", "--dupe_factor=1"]
  command += ["--input_format=paragraphs", "--deduplicate", *flags]
  return subprocess.Popen(
    command, cwd=folder, stderr=subprocess.PIPE, text=True
  )


@contextlib.contextmanager
def _dask(folder):
  """Starts Dask and two workers.

  Yields the options for Beam and the process id of the workers' parent.
  """
  environment = os.environ | {"PYTHONPATH": str(programs.ROOT)}
  with socket.create_server(("localhost", 0)) as server:
    port = server.getsockname()[1]
  address = f"tcp://localhost:{port}"
  with open(folder / "log", "w") as log, contextlib.ExitStack() as stack:
    options = {"cwd": folder, "env": environment, "stderr": log, "stdout": log}
    for command in (
      f"scheduler --host=localhost --port={port} --no-dashboard",
      f"worker {address} --nworkers=2 --nthreads=1 --no-dashboard",
    ):
      arguments = [sys.executable, "-m", "dask", *command.split()]
      process = subprocess.Popen(arguments, start_new_session=True, **options)
      stack.callback(process.wait)
      stack.callback(os.killpg, process.pid, signal.SIGKILL)
    for _ in range(600):
      with socket.socket() as probe:
        if not probe.connect_ex(("localhost", port)):
          break
      time.sleep(0.1)
    options = f"--dask_client_address={address} --dask_npartitions=8"
    yield options, process.pid


def test_dask_makes_the_records_after_a_worker_died(tmp_path):
  vocabulary = programs.ROOT / "tests/parity/golden/vocab.txt"
  (tmp_path / "vocab.txt").write_bytes(vocabulary.read_bytes())
  (tmp_path / "text").write_text(random_text(20_000))
  assert _make(tmp_path, "local", "--num_workers=2").wait() == 0
  with _dask(tmp_path) as (options, parent):
    flags = f"--runner={DASK}", f"--pipeline_options={options}"
    process = _make(tmp_path, "dask", *flags)
    while len([*tmp_path.glob("records/dask.parts-*/*-*")]) < 2:
      time.sleep(0.02)
    children = subprocess.check_output(["pgrep", "-P", str(parent)], text=True)
    os.kill(int(children.split()[-1]), signal.SIGKILL)
    _, log = process.communicate()
  assert process.returncode == 0, log
  # Only complete files are left.
  paths = sorted((tmp_path / "records").glob("dask*"))
  assert len(paths) > 5
  assert all("-of-" in path.name for path in paths)
  records = b"".join(path.read_bytes() for path in paths)
  assert records == (tmp_path / "records/local").read_bytes()
